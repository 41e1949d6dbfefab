/* fit_private.h - what the parts of fit share. */
#ifndef DSF_TUNE_FIT_PRIVATE_H
#define DSF_TUNE_FIT_PRIVATE_H

#include "policies/keys.h"
#include "tune/fit.h"
#include "tune/tries.h"

/* Keys of policies whose values need less memory one after the other
 * (DSFLOW_VALUES_RISING). */
enum { DSF_MAX_STEPS = 8 };
struct dsf_steps {
    struct dsf_try v[DSF_MAX_STEPS];
    unsigned n;
};
struct dsf_steps dsf_steps_of_policies(void);

/* One way to fill in what is open, or to need less. */
struct dsf_choice {
    int64_t micro, in_flight;
    int order;
    int step[DSF_MAX_STEPS]; /* values of those keys; -1: auto */
    struct dsf_offload_keys offload;
};

/* The one that a job has. */
struct dsf_choice dsf_choice_of(const struct dsf_job *job);

/* The plan and the graph of the setup's job, and of that job with a choice, as
 * s->chosen. */
int dsf_fit_build(struct dsf_setup *s, const char *until,
                  struct dsflow_err *err);
int dsf_fit_build_choice(struct dsf_setup *s, const struct dsf_choice *choice,
                         struct dsflow_err *err);
void dsf_fit_forget(struct dsf_setup *s);

/* Whether it does not fit. */
bool dsf_fit_falls_short(const struct dsf_setup *s,
                         const struct dsf_machine_model *m,
                         struct dsf_shortfall *shortfall);

#endif
