/* megatron.h - checkpoints of Megatron-LM as a source. */
#ifndef DSF_FOREIGN_MEGATRON_H
#define DSF_FOREIGN_MEGATRON_H

#include "foreign/source.h"

enum { DSF_MEGATRON_SETS = 16 };

/* Does a folder look as if Megatron-LM had written it: an iteration's, with
 * mp_rank_00/, or one with the file latest_checkpointed_iteration.txt? */
bool dsf_megatron_is(const char *path);

/* Has DeepSpeed written a model of Megatron's there? What it has of the
 * optimizer is zero.h's to read. */
bool dsf_megatron_is_in_deepspeed(const char *path, const char *tag);

/* The checkpoint in `path`, or in the folder of it that `tag` names
 * (iter_0000100, release), or, where that is NULL, that
 * latest_checkpointed_iteration.txt names; or, where DeepSpeed wrote it, its
 * mp_rank_TT_model_states.pt. Tensor ranks and stages are merged, and layers
 * numbered through. `weights_only`: the state of the optimizer is not looked
 * for. Errors: DSFLOW_EINVAL, DSFLOW_EIO. */
int dsf_megatron_open(const char *path, const char *tag, bool weights_only,
                      struct dsf_source *s, struct dsflow_err *err);

/* Names and orders of a source that zero.h made are Megatron's, where they are.
 */
void dsf_megatron_recognize(struct dsf_source *s, const char *path,
                            const char *tag);

/* "model.layers=24": what the files say of the model, as keys of a job, freed
 * by the caller; how many there are, 0 where they say nothing. */
unsigned dsf_megatron_model(const char *path, const char *tag,
                            char *sets[DSF_MEGATRON_SETS]);

#endif
