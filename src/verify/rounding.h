/* rounding.h - how far the rounding of what a case begins with moves what is
 * computed from it. */
#ifndef DSF_VERIFY_ROUNDING_H
#define DSF_VERIFY_ROUNDING_H

#include "verify/case_run.h"

/* Of element `e` on `port`, which is v where `by` computes `wide`, the case `c`
 * in fp32 (dsf_case_widen): the most that it moves in some runs in which the
 * numbers that are narrow in `c` are moved by at most half of their last place.
 */
double dsf_rounding_moves(const struct dsf_case *c, const struct dsf_case *wide,
                          const struct dsf_computes *by, unsigned port,
                          size_t e, double v);

#endif
