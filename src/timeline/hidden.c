/* hidden.c - what of the moving of data is hidden behind computing. */
#include "timeline/hidden.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The two directions of a disk are lanes that follow each other. */
void dsf_hiding_init(struct dsf_hiding *h, const struct dsf_timeline *lanes,
                     unsigned nranks, double start, double end)
{
    unsigned n = 0;

    memset(h, 0, sizeof(*h));
    h->nranks = nranks;
    h->start = start;
    h->end = end;
    h->disk_of = dsf_xcalloc(lanes->nlanes + 1, sizeof(*h->disk_of));
    for (unsigned l = 0; l < lanes->nlanes; l++)
        if (lanes->lanes[l].kind == DSF_LANE_DISK)
            h->disk_of[l] = (uint16_t)(n++ / 2 + 1);
    h->ndisks = (n + 1) / 2;
    h->work = dsf_xcalloc((size_t)nranks + 1, sizeof(*h->work));
    h->disks = dsf_xcalloc((size_t)h->ndisks + 1, sizeof(*h->disks));
}

void dsf_hiding_work(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span)
{
    if (!(span->end > span->start))
        return;
    if (rank >= 0)
        dsf_cover_add(&h->work[rank], span);
    dsf_cover_add(&h->work[h->nranks], span);
}

static void add(struct dsf_hiding *h, int rank, const struct dsf_span *span)
{
    unsigned disk = h->disk_of[span->lane];

    if (!(span->end > span->start))
        return;
    if (disk > 0) {
        dsf_cover_add(&h->disks[disk - 1], span);
        return;
    }
    h->sum.comm += span->end - span->start;
    h->sum.comm_hidden +=
        dsf_cover_overlap(&h->work[rank < 0 ? h->nranks : (unsigned)rank],
                          span->start, span->end);
}

void dsf_hiding_part(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span)
{
    struct dsf_span part = *span;

    part.start = fmax(part.start, h->start);
    part.end = fmin(part.end, h->end);
    add(h, rank, &part);
}

void dsf_hiding_move(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span, bool counts)
{
    if (h->disk_of[span->lane] > 0)
        dsf_hiding_part(h, rank, span);
    else if (counts)
        add(h, rank, span);
}

struct dsf_hidden dsf_hiding_end(struct dsf_hiding *h)
{
    struct dsf_hidden sum = h->sum;

    for (unsigned d = 0; d < h->ndisks; d++) {
        double busy = dsf_cover_seconds(&h->disks[d]);

        sum.io += busy;
        sum.io_hidden += dsf_cover_both(&h->disks[d], &h->work[h->nranks]);
        sum.io_most = busy > sum.io_most ? busy : sum.io_most;
        dsf_cover_fini(&h->disks[d]);
    }
    for (unsigned r = 0; r <= h->nranks; r++)
        dsf_cover_fini(&h->work[r]);
    free(h->work);
    free(h->disks);
    free(h->disk_of);
    memset(h, 0, sizeof(*h));
    return sum;
}
