/* shown.h - a trace that can be drawn by hand: two stages, of rank 0 and rank
 * 1, and a link to rank 1.
 *
 *   seconds   0    1    2    3    4    5
 *   core 0    fw0  fw1  .    .    upd  .
 *   core 1    .    .    fw0b bw0  .    .
 *   link 1    .    send .    .    .    .
 *
 * "w" (100 bytes, rank 0) is persistent. fw0 makes "a" (10, rank 0), fw1 makes
 * "b" (20, rank 0), send takes a to "c" (10, rank 1), fw0b makes "d" (40, rank
 * 1) of it, bw0 reads b and d and makes "e" (5, rank 1), upd reads e. At 2.5 s
 * "now", which takes no time, passes on core 1 while it is at fw0b.
 *
 * With tiers: one step of one rank, that streams a state from NVMe.
 *
 *   seconds     0    1    2    3    4    5
 *   core 0      fwd  .    upd  upd  .    .
 *   disk read   .    get  .    .    .    .
 *   disk write  .    .    .    .    put  .
 *
 * "m" (100 bytes, NVMe) is persistent. get brings it to "slot" (120, main
 * memory), upd writes that, put takes it back; fwd makes "a" (7, device).
 *
 * Shared: two ranks on one core, and a task of rank 1 that strayed to core 1
 * beside its home, for a moment. Rank 2 does nothing.
 *
 *   seconds     0    1    2    3    4    5    6
 *   core 0      fw0  fw1  fw0b bw0  .    upd
 *   core 1      .    .    now  .    .    .
 */
#ifndef DSF_TESTS_UNIT_TRACE_SHOWN_H
#define DSF_TESTS_UNIT_TRACE_SHOWN_H

#include <math.h>

#include "trace/rows.h"
#include "trace/show.h"

struct shown {
    struct dsf_trace trace;
    struct dsf_trace by_rank; /* of the same, when a worker is shared */
    struct dsf_rows rows;
    struct dsf_view view;
};

enum { FW0, FW1, SEND, FW0B, BW0, UPD, NOW };

enum { TFWD, TGET, TUPD, TPUT };

void shown_make(struct shown *shown);
void shown_make_tiers(struct shown *shown);
void shown_make_shared(struct shown *shown);
void shown_free(struct shown *shown);

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* What one of the writers makes of it; freed by the caller. */
char *shown_text(const struct shown *shown,
                 void (*write)(const struct dsf_view *view, FILE *out));

#endif
