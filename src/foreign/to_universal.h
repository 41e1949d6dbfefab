/* to_universal.h - a checkpoint of a run as a universal folder of DeepSpeed. */
#ifndef DSF_FOREIGN_TO_UNIVERSAL_H
#define DSF_FOREIGN_TO_UNIVERSAL_H

#include "train/session.h"

/* What DeepSpeed loads, with load_universal, on any number of ranks:
 *
 *   FOLDER/latest_universal                            the name of what follows
 *   FOLDER/global_stepN_universal/zero/NAME/           by Hugging Face's names
 *              fp32.pt exp_avg.pt exp_avg_sq.pt step.pt
 *   FOLDER/global_stepN_universal/zero/optimizer_state.pt
 *   FOLDER/global_stepN_universal/mp_rank_00_model_states.pt
 *              zero_pp_rank_0_mp_rank_00_model_states.pt (for ZeRO 3)
 *
 * (deepspeed/checkpoint/ds_to_universal.py, universal_checkpoint.py; version
 * 0.4). The session is open up to its model. `step` is that of a checkpoint, or
 * DSF_LATEST; *from the one it was. The folder appears whole or not at all;
 * some MiB of it are in memory at a time. Errors: DSFLOW_EINVAL for an
 * optimizer that is not Adam, where there is no such checkpoint, or a folder
 * that has files; those of the checkpoint and of the disk. */
int dsf_to_universal(const struct dsf_session *s, const char *folder,
                     int64_t step, int64_t *from, struct dsflow_err *err);

#endif
