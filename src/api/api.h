/* api.h - what the parts of the public interface share. */
#ifndef DSF_API_API_H
#define DSF_API_API_H

#include <dsflow/job.h>
#include <dsflow/machine.h>
#include <dsflow/model.h>

#include <locale.h>

#include "machine/machine_model.h"
#include "train/sample.h"
#include "train/session.h"

struct dsflow_job {
    char *text, *path; /* the TOML, and what it is called in messages */
    char **sets;       /* "table.key=value", in their order */
    unsigned nsets;
};

struct dsflow_machine {
    struct dsf_machine_model model;
};

/* What reads or writes numbers as text stands between these two: the calling
 * thread has the locale "C" for numbers there, and then its own again. */
locale_t dsf_api_enter(void);
void dsf_api_leave(locale_t own);

/* Up to the model. Closed by the caller, whatever the status. */
int dsf_api_open(const struct dsflow_job *job, const struct dsflow_batches *own,
                 struct dsf_session *s, struct dsflow_err *err);

/* The structure of a caller, `size` bytes of it: is it one of these? */
int dsf_api_check_size(const char *name, uint32_t size, size_t wanted,
                       struct dsflow_err *err);

/* Is it the number of a step, or DSFLOW_LATEST_STEP? */
int dsf_api_check_step(int64_t step, struct dsflow_err *err);

/* Where a tensor is in the model. */
struct dsf_tensor_place {
    unsigned unit;
    const struct dsf_tensor *tensor;
};
/* Of the i-th one. Errors: DSFLOW_EINVAL. */
int dsf_api_describe(const struct dsf_model *model, unsigned i,
                     struct dsflow_tensor_info *tensor);
/* By its name. Errors: DSFLOW_EINVAL, for another number of elements too. */
int dsf_api_find(const struct dsf_model *model, const char *name, int64_t elems,
                 struct dsf_tensor_place *place, struct dsflow_err *err);

/* Between a unit and a tensor as Hugging Face has it. */
void dsf_api_take(const struct dsf_tensor_place *place, const float *unit,
                  float *to);
void dsf_api_give(const struct dsf_tensor_place *place, float *unit,
                  const float *from);

/* Text of the model with these weights. */
int dsf_api_generate(const struct dsf_session *s,
                     const struct dsf_text_weights *weights, const char *prompt,
                     size_t bytes, const struct dsflow_sampling *sampling,
                     dsflow_token_fn on_token, void *user,
                     struct dsflow_err *err);

#endif
