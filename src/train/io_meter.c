/* io_meter.c - how long disks work, and how much of it is hidden. */
#include "train/io_meter.h"

#include "timeline/cover.h"

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

/* What the spans cover of [from, to]; those that ended by then are dropped. */
static struct dsf_cover cut(struct dsf_timeline *spans, double from, double to)
{
    struct dsf_cover cover = { 0 };
    size_t n = 0;

    dsf_timeline_sort(spans);
    for (size_t i = 0; i < spans->n; i++) {
        struct dsf_span part = spans->v[i];

        part.start = fmax(part.start, from);
        part.end = fmin(part.end, to);
        if (part.end > part.start)
            dsf_cover_add(&cover, &part);
        if (spans->v[i].end > to)
            spans->v[n++] = spans->v[i];
    }
    spans->n = n;
    return cover;
}

double dsf_io_meter_take(struct dsf_io_meter *m, double from, double to,
                         double *hidden)
{
    double begin = from > m->to ? from : m->until;
    double end = fmax(begin, to - longest(&m->work, longest(&m->disk, 0)));
    struct dsf_cover disk = cut(&m->disk, begin, end);
    struct dsf_cover work = cut(&m->work, begin, end);
    double busy = dsf_cover_seconds(&disk);

    *hidden = dsf_cover_both(&disk, &work);
    m->until = end;
    m->to = to;
    dsf_cover_fini(&disk);
    dsf_cover_fini(&work);
    return busy;
}

void dsf_io_meter_fini(struct dsf_io_meter *m)
{
    dsf_timeline_fini(&m->disk);
    dsf_timeline_fini(&m->work);
    memset(m, 0, sizeof(*m));
}
