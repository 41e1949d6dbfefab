/* cover.c - the time that spans cover together. */
#include "timeline/cover.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void dsf_cover_add(struct dsf_cover *c, const struct dsf_span *s)
{
    struct dsf_interval *last = c->n > 0 ? &c->v[c->n - 1] : NULL;

    if (last != NULL && s->start <= last->end) {
        if (s->end > last->end)
            last->end = s->end;
        return;
    }
    dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
    c->v[c->n++] = (struct dsf_interval){ s->start, s->end };
}

double dsf_cover_overlap(const struct dsf_cover *c, double start, double end)
{
    size_t low = 0, high = c->n;
    double sum = 0;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (c->v[mid].end <= start)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < c->n && c->v[low].start < end; low++) {
        double from = c->v[low].start > start ? c->v[low].start : start;
        double to = c->v[low].end < end ? c->v[low].end : end;

        sum += to - from;
    }
    return sum;
}

double dsf_cover_seconds(const struct dsf_cover *c)
{
    double sum = 0;

    for (size_t i = 0; i < c->n; i++)
        sum += c->v[i].end - c->v[i].start;
    return sum;
}

double dsf_cover_both(const struct dsf_cover *a, const struct dsf_cover *b)
{
    double sum = 0;

    for (size_t i = 0; i < a->n; i++)
        sum += dsf_cover_overlap(b, a->v[i].start, a->v[i].end);
    return sum;
}

void dsf_cover_fini(struct dsf_cover *c)
{
    free(c->v);
    memset(c, 0, sizeof(*c));
}
