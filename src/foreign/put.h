/* put.h - the numbers of a source, tensor by tensor of a unit, into a file. */
#ifndef DSF_FOREIGN_PUT_H
#define DSF_FOREIGN_PUT_H

#include "base/safetensors_write.h"
#include "foreign/match.h"

/* All file_elems numbers of a unit, of one state: zeroes between tensors, and
 * for the moments of what was not trained. Errors: DSFLOW_EINVAL for a number
 * that is not finite; those of the source and of the file. */
int dsf_put_unit(struct dsf_source *from, const struct dsf_matches *matches,
                 unsigned unit, enum dsf_source_state state,
                 struct dsf_st_writer *out, struct dsflow_err *err);

/* So many zeroes. */
int dsf_put_zeroes(struct dsf_st_writer *out, int64_t n,
                   struct dsflow_err *err);

#endif
