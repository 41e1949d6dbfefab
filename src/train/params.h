/* params.h - the weights of a model from where they are kept, a unit at a time:
 * a checkpoint, a Hugging Face folder, or the generator of random ones. */
#ifndef DSF_TRAIN_PARAMS_H
#define DSF_TRAIN_PARAMS_H

#include "train/session.h"

enum {
    DSF_LATEST = -1, /* the latest checkpoint; where there is none, the folder
                        that the model starts from */
    DSF_START = -2,  /* the model as it starts, whatever was saved; so is 0 */
};

struct dsf_params; /* opaque */

/* The checkpoint of `step` (DSF_LATEST: the newest; *folder is NULL where there
 * is none), freed by the caller. Errors: DSFLOW_EINVAL where its model has
 * other sizes than the job; it warns where it computes something else. */
int dsf_params_find(const struct dsf_session *s, int64_t step, char **folder,
                    struct dsf_ckpt_meta *meta, struct dsflow_err *err);

/* Those of the checkpoint of `step`. *from is the step they are of, DSF_START
 * where they are of no checkpoint. The session is borrowed. */
int dsf_params_open(const struct dsf_session *s, int64_t step,
                    struct dsf_params **params, int64_t *from,
                    struct dsflow_err *err);
void dsf_params_close(struct dsf_params *params); /* NULL is fine */

/* The checkpoint of this run that has them; NULL where they are of none. */
const char *dsf_params_folder(const struct dsf_params *params);

/* How many updates made them; 0 where they are of no checkpoint. */
int64_t dsf_params_updates(const struct dsf_params *params);

/* A line for people: which weights these are. */
void dsf_params_say(const struct dsf_session *s, int64_t step, int64_t from);

/* A dsf_unit_fn; `params` is a struct dsf_params. */
int dsf_params_read(void *params, unsigned unit, float *to,
                    struct dsflow_err *err);

/* The same all at once, by unit, in memory of their own, and how many updates
 * made them: for those who have no executor. */
int dsf_params_all(const struct dsf_session *s, int64_t step, float ***all,
                   int64_t *updates, struct dsflow_err *err);
void dsf_params_free(const struct dsf_session *s, float **all);

#endif
