/* pruning.h - the model that is left of that of a session when layers, heads or
 * inner columns go. */
#ifndef DSF_TRAIN_PRUNING_H
#define DSF_TRAIN_PRUNING_H

#include "train/second_moments.h"

/* What stays: the numbers that the model itself has change nothing. */
struct dsf_prune {
    const int32_t *layers; /* of the model, in the order of the new one */
    int32_t nlayers;
    int64_t heads, ffn_width;           /* of each layer */
    struct dsf_second_moments *moments; /* of the same weights; NULL: all heads
                                           and columns stay */
};

/* Fill `model`, which dsf_model_fini frees, with the sizes of what is left; its
 * parameters are those of dsf_pruned_open. Errors: heads that are not as many
 * for each head of keys as before, or fewer of a gpt2, whose heads have the
 * width between them; segments of one's own, whose heads nobody knows. */
int dsf_prune_model(const struct dsf_session *s, const struct dsf_prune *what,
                    struct dsf_model *model, struct dsflow_err *err);

#endif
