/* parallel.h - a loop that all cores share. */
#ifndef DSF_BASE_PARALLEL_H
#define DSF_BASE_PARALLEL_H

#include <stdint.h>

/* Works on the numbers from `from` to `end`, without the end. */
typedef void dsf_range_fn(void *user, int64_t from, int64_t end);

/* As many threads as this process has cores, 64 at most. */
int dsf_parallel_threads(void);

/* Call fn for ranges that have each number of [0, n) once, on so many threads,
 * this one among them; return when all have. A range has `least` numbers or
 * more, so that what is short is done here at once. Who gets which range is not
 * said: fn may not depend on it. */
void dsf_parallel(int64_t n, int64_t least, dsf_range_fn *fn, void *user);

#endif
