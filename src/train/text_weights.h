/* text_weights.h - the weights of a model as text is made with them: each unit
 * in the type in which the tasks of generation use it, and quantized or pruned
 * where the job trains it to be, as it was after so many updates; and whether
 * the inputs of its matrices were rounded then. */
#ifndef DSF_TRAIN_TEXT_WEIGHTS_H
#define DSF_TRAIN_TEXT_WEIGHTS_H

#include "model/model.h"

struct dsf_text_weights {
    void **v;  /* by unit */
    bool *own; /* by unit: freed with it */
    unsigned n;
    bool exact; /* inputs of matrices were not rounded yet */
};

/* Units that are used as they are are lent: params[u] stays the caller's, and
 * has to stay there. Of the others copies are made. `job` as in generate.h. */
int dsf_text_weights_lend(struct dsf_text_weights *weights,
                          const struct dsf_model *model,
                          const struct dsf_job *job, int64_t updates,
                          float *const *params, struct dsflow_err *err);

/* Units that are read one by one, so that they are in memory once. */
int dsf_text_weights_read(struct dsf_text_weights *weights,
                          const struct dsf_model *model,
                          const struct dsf_job *job, int64_t updates,
                          dsf_unit_fn read, void *user, struct dsflow_err *err);

/* After an error, too; what is all zero is fine. */
void dsf_text_weights_fini(struct dsf_text_weights *weights);

/* Bytes of the copies that are made of what is lent. */
double dsf_text_weights_bytes(const struct dsf_model *model,
                              const struct dsf_job *job);

#endif
