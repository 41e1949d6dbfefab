/* fit_private.h - what the parts of fit share. */
#ifndef DSF_CLI_FIT_PRIVATE_H
#define DSF_CLI_FIT_PRIVATE_H

#include "cli/fit.h"
#include "policies/keys.h"

/* One way to fill in what is open, or to need less. */
struct dsf_choice {
    int64_t micro, in_flight, stage;
    int recompute, order;
    struct dsf_offload_keys offload;
};

extern const char *const dsf_recompute_names[];

/* The one that the job has; and write one into the job. */
struct dsf_choice dsf_choice_of(const struct dsf_session *s);
void dsf_choice_set(struct dsf_session *s, const struct dsf_choice *choice);

/* The plan and the graph of the job as it is. */
int dsf_fit_build(struct dsf_session *s, const char *until,
                  struct dsflow_err *err);
void dsf_fit_forget(struct dsf_session *s);

/* Whether it does not fit. */
bool dsf_fit_falls_short(const struct dsf_session *s,
                     const struct dsf_machine_model *m, struct dsf_shortfall *shortfall);

#endif
