/* parts.h - the files of tensors of a checkpoint, of which checkpoint.h says
 * what they hold. */
#ifndef DSF_CHECKPOINT_PARTS_H
#define DSF_CHECKPOINT_PARTS_H

#include "checkpoint/checkpoint.h"

/* Write all files in `folder`, with those who write them too (or NULL); their
 * sums, by file. */
int dsf_ckpt_write_parts(const char *folder,
                         const struct dsf_ckpt_others *others,
                         const struct dsf_ckpt_part *parts, unsigned nparts,
                         uint64_t *sums, struct dsflow_err *err);

#endif
