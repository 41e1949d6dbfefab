/* manifest.h - what a checkpoint says of itself: manifest.json in its folder.
 */
#ifndef DSF_CHECKPOINT_MANIFEST_H
#define DSF_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

/* Write it for files of these tensors, whose bytes come to `sums`; on disk when
 * that returns. */
int dsf_ckpt_manifest_write(const char *folder,
                            const struct dsf_ckpt_meta *meta,
                            const struct dsf_ckpt_part *parts, unsigned nparts,
                            const uint64_t *sums, struct dsflow_err *err);

/* The bytes of all files, as it says; 0 where it cannot be read. */
int64_t dsf_ckpt_manifest_bytes(const char *path);

#endif
