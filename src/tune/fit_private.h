/* fit_private.h - what the files that fill in what is auto have together. */
#ifndef DSF_TUNE_FIT_PRIVATE_H
#define DSF_TUNE_FIT_PRIVATE_H

#include "tune/fit.h"
#include "tune/search.h"

/* What comes of a choice: the seconds of a step, or INFINITY where it does not
 * fit. */
typedef double (*dsf_look_fn)(struct dsf_search *h,
                              const struct dsf_choice *choice);

/* fit_flights.c: may there be other numbers of micro-batches in flight, on
 * GPUs? Looks at `now` of the search with more of them, as long as they fit and
 * steps are predicted to be shorter; or with one, where `now` does not fit. All
 * that is tried is added to `tried`. */
bool dsf_fit_flights_are_open(const struct dsf_job *job);
void dsf_fit_flights(struct dsf_search *h, struct dsf_changes *tried,
                     dsf_look_fn look);

#endif
