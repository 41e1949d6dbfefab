/* zero_affine.h - affine_map of universal_checkpoint_info: where each element
 * of a tensor is, said a second time. */
#ifndef DSF_FOREIGN_ZERO_AFFINE_H
#define DSF_FOREIGN_ZERO_AFFINE_H

#include "foreign/merge.h"
#include "foreign/zero_private.h"

/* Is the tensor `name` joined as its map says, where it has one? The ends of
 * all pieces of the map are looked at. Errors: DSFLOW_EINVAL for a map that
 * cannot be read, DSFLOW_ENOSYS for one that says otherwise: a layout that the
 * lists of patterns cannot say. */
int dsf_zero_check_affine(const struct dsf_zero_source *z, const char *name,
                          const struct dsf_merge *m, struct dsflow_err *err);

#endif
