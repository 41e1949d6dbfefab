/* universal_words.h - what a universal folder says beside its tensors. */
#ifndef DSF_FOREIGN_UNIVERSAL_WORDS_H
#define DSF_FOREIGN_UNIVERSAL_WORDS_H

#include "model/model.h"
#include "torch/torch_write.h"

/* How far the run was, and with which rule. */
struct dsf_universal_place {
    int64_t steps, skipped, samples;
    double lr, betas[2], eps;
};

/* A dsf_torch_out_fn: the one tensor that these files have, the updates that
 * were made, as fp32. */
int dsf_universal_put_updates(void *place, unsigned i,
                              struct dsf_torch_out *out,
                              struct dsflow_err *err);

/* zero/optimizer_state.pt */
void dsf_universal_say_optimizer(struct dsf_torch_tree *t,
                                 const struct dsf_universal_place *place,
                                 const struct dsf_model *m);
/* mp_rank_00_model_states.pt */
void dsf_universal_say_model(struct dsf_torch_tree *t,
                             const struct dsf_universal_place *place,
                             const struct dsf_model *m);

#endif
