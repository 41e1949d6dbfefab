/* nearest.h - the name that is nearest to another, for "did you mean". */
#ifndef DSF_BASE_NEAREST_H
#define DSF_BASE_NEAREST_H

/* The one of `names` (n of them) that is nearest to `name`, or NULL when none
 * is near. */
const char *dsf_nearest(const char *name, const char *const *names, unsigned n);

#endif
