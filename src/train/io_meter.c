/* io_meter.c - how long disks work or messages are under way, and how much of
 * it is hidden. */
#include "train/io_meter.h"

#include "timeline/hidden.h"

#include <math.h>
#include <string.h>

void dsf_io_meter_add(struct dsf_io_meter *m, const struct dsf_span *span,
                      bool disk)
{
    if (span->end > m->until)
        dsf_timeline_add(disk ? &m->disk : &m->work, span);
}

static double longest(const struct dsf_timeline *spans, double most)
{
    for (size_t i = 0; i < spans->n; i++)
        most = fmax(most, spans->v[i].end - spans->v[i].start);
    return most;
}

/* Hands over what of the spans is in [from, to]; those that ended by then are
 * dropped. */
static void hand_over(struct dsf_timeline *spans, double from, double to,
                      struct dsf_hiding *hiding,
                      void (*add)(struct dsf_hiding *hiding, int rank,
                                  const struct dsf_span *span))
{
    size_t n = 0;

    dsf_timeline_sort(spans);
    for (size_t i = 0; i < spans->n; i++) {
        struct dsf_span part = spans->v[i];

        part.start = fmax(part.start, from);
        part.end = fmin(part.end, to);
        add(hiding, hiding->nranks > 0 ? part.rank : DSFLOW_ANYWHERE, &part);
        if (spans->v[i].end > to)
            spans->v[n++] = spans->v[i];
    }
    spans->n = n;
}

double dsf_io_meter_take(struct dsf_io_meter *m,
                         const struct dsf_timeline *lanes, double from,
                         double to, double *hidden)
{
    double begin = from > m->to ? from : m->until;
    double end = fmax(begin, to - longest(&m->work, longest(&m->disk, 0)));
    struct dsf_hiding hiding;
    struct dsf_hidden sum;

    dsf_hiding_init(&hiding, lanes, m->nprocesses);
    hand_over(&m->work, begin, end, &hiding, dsf_hiding_work);
    hand_over(&m->disk, begin, end, &hiding, dsf_hiding_move);
    sum = dsf_hiding_end(&hiding);
    m->until = end;
    m->to = to;
    *hidden = sum.io_hidden + sum.comm_hidden;
    return sum.io + sum.comm;
}

void dsf_io_meter_fini(struct dsf_io_meter *m)
{
    dsf_timeline_fini(&m->disk);
    dsf_timeline_fini(&m->work);
    memset(m, 0, sizeof(*m));
}
