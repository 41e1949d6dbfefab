/* hidden.c - how much of the moving of data goes on while its rank computes, and
 * of what disks do while any rank does. */
#include "explain/account.h"

#include "base/alloc.h"
#include "explain/account_private.h"
#include "trace/cover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_disk(const struct dsf_account *a, const struct dsf_span *s)
{
    return a->trace->timeline.lanes[s->lane].kind == DSF_LANE_DISK;
}

/* [start, end] of a span, as far as it is in the steps. */
static struct dsf_span cut(const struct dsf_account *a,
                           const struct dsf_span *s)
{
    struct dsf_span part = *s;

    part.start = fmax(s->start, a->steps.start);
    part.end = fmin(s->end, a->steps.end);
    return part;
}

static void hide_moves(struct dsf_account *a, const struct dsf_cover *covers)
{
    const struct dsf_timeline *t = &a->trace->timeline;

    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i], part = cut(a, s);
        bool of_none = s->kind == DSF_SPAN_TRANSFER && s->rank < 0;

        if (!(part.end > part.start) || !dsf_moves(a, s) || is_disk(a, s))
            continue;
        a->comm += part.end - part.start;
        a->comm_hidden += dsf_cover_overlap(
            &covers[of_none ? a->nranks : (unsigned)dsf_rank_of(a, s)],
            part.start, part.end);
    }
}

/* The two directions of a disk are lanes that follow each other; what they do
 * at the same time is done once. */
static void hide_disks(struct dsf_account *a, const struct dsf_cover *work)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    struct dsf_cover *disks = dsf_xcalloc(t->nlanes + 1, sizeof(*disks));
    unsigned *disk_of = dsf_xcalloc(t->nlanes + 1, sizeof(*disk_of));
    unsigned n = 0;

    for (unsigned l = 0; l < t->nlanes; l++)
        if (t->lanes[l].kind == DSF_LANE_DISK)
            disk_of[l] = n++ / 2;
    for (size_t i = 0; i < t->n; i++) {
        struct dsf_span part = cut(a, &t->v[i]);

        if (part.end > part.start && is_disk(a, &t->v[i]))
            dsf_cover_add(&disks[disk_of[part.lane]], &part);
    }
    for (unsigned d = 0; d < (n + 1) / 2; d++) {
        double busy = 0;

        for (size_t i = 0; i < disks[d].n; i++) {
            const struct dsf_interval *x = &disks[d].v[i];

            busy += x->end - x->start;
            a->io_hidden += dsf_cover_overlap(work, x->start, x->end);
        }
        a->io += busy;
        a->io_most = fmax(a->io_most, busy);
        dsf_cover_fini(&disks[d]);
    }
    free(disks);
    free(disk_of);
}

void dsf_account_hidden(struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    /* Of each rank, and of all: for what is of none. */
    struct dsf_cover *covers = dsf_xcalloc(a->nranks + 1, sizeof(*covers));

    for (size_t i = 0; i < t->n; i++)
        if (!dsf_moves(a, &t->v[i])) {
            dsf_cover_add(&covers[dsf_rank_of(a, &t->v[i])], &t->v[i]);
            dsf_cover_add(&covers[a->nranks], &t->v[i]);
        }
    hide_moves(a, covers);
    hide_disks(a, &covers[a->nranks]);
    for (unsigned r = 0; r <= a->nranks; r++)
        dsf_cover_fini(&covers[r]);
    free(covers);
}
