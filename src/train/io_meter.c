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

/* Hands over the spans; those that ended by `to` are dropped. */
static void hand_over(struct dsf_timeline *spans, double to,
                      struct dsf_hiding *hiding,
                      void (*add)(struct dsf_hiding *hiding, int rank,
                                  const struct dsf_span *span))
{
    size_t n = 0;

    dsf_timeline_sort(spans);
    for (size_t i = 0; i < spans->n; i++) {
        const struct dsf_span s = spans->v[i];

        add(hiding, hiding->nranks > 0 ? s.rank : DSFLOW_ANYWHERE, &s);
        if (s.end > to)
            spans->v[n++] = s;
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

    dsf_hiding_init(&hiding, lanes, m->nprocesses, begin, end);
    hand_over(&m->work, end, &hiding, dsf_hiding_work);
    hand_over(&m->disk, end, &hiding, dsf_hiding_part);
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
