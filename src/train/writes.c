/* writes.c - who writes what: first what only one process has, then the rest in
 * slices, each by the one that has the least to write. */
#include "train/writes.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 20 }; /* numbers: 4 MiB in a file */

struct owned {
    struct dsf_piece p;
    int32_t process;
};

void dsf_writes_fini(struct dsf_writes *s)
{
    free(s->v);
    *s = (struct dsf_writes){ 0 };
}

static void add(struct dsf_writes *s, const struct dsf_piece *p)
{
    dsf_grow(&s->v, &s->cap, s->n + 1, sizeof(*s->v));
    s->v[s->n++] = *p;
}

void dsf_writes_list(const struct dsf_contents *c, struct dsf_writes *has)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct dsf_holding *h = &c->v[i];
        const struct dsflow_kept *kept = &c->kept->v[h->kind];
        const struct dsflow_data_spec *d = dsflow_graph_data(c->graph, h->id);
        bool is_array = kept->kind != DSFLOW_KEPT_TENSORS;

        if (kept->fields != NULL || kept->transient)
            continue;
        add(has, &(struct dsf_piece){ .unit = h->unit,
                                      .kind = h->kind,
                                      .part = is_array ? 0 : h->part,
                                      .is_array = is_array,
                                      .at = is_array ? 0 : h->at,
                                      .elems = d->elems });
    }
}

static int compare(const struct dsf_piece *x, const struct dsf_piece *y)
{
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *a, const void *b)
{
    return compare(a, b);
}

static int by_place_and_process(const void *a, const void *b)
{
    const struct owned *x = a, *y = b;
    int order = compare(&x->p, &y->p);

    return order != 0 ? order : x->process - y->process;
}

/* How many of them are of the same part of the same unit as the first? */
static size_t same_part(const struct owned *v, size_t n)
{
    size_t i = 1;

    while (i < n && v[i].p.unit == v[0].p.unit && v[i].p.kind == v[0].p.kind &&
           v[i].p.part == v[0].p.part)
        i++;
    return i;
}

/* From number `at` on: where all have the same to say of who has it, who of
 * those has the least to write, and whether there are several. */
struct slice {
    int64_t end;
    int32_t process; /* -1: nobody has it */
    bool is_common;
};

static struct slice slice_at(const struct owned *v, size_t n, int64_t at,
                             const int64_t *load)
{
    struct slice s = { INT64_MAX, -1, false };

    for (size_t i = 0; i < n; i++) {
        int64_t end = v[i].p.at + v[i].p.elems;

        if (v[i].p.at > at && v[i].p.at < s.end)
            s.end = v[i].p.at;
        if (v[i].p.at > at || end <= at)
            continue;
        if (end < s.end)
            s.end = end;
        s.is_common |= s.process >= 0 && s.process != v[i].process;
        if (s.process < 0 || load[v[i].process] < load[s.process])
            s.process = v[i].process;
    }
    if (s.process >= 0 && !v[0].p.is_array && s.end - at > SLICE)
        s.end = at + SLICE;
    return s;
}

static void share_part(const struct owned *v, size_t n, bool common,
                       int64_t *load, struct dsf_writes *writes)
{
    struct dsf_piece p = v[0].p;
    struct slice s;

    for (int64_t at = p.at; at < INT64_MAX; at = s.end) {
        s = slice_at(v, n, at, load);
        if (s.process < 0 || s.is_common != common)
            continue;
        p.at = at;
        p.elems = s.end - at;
        load[s.process] += p.elems;
        add(&writes[s.process], &p);
    }
}

void dsf_writes_share(const struct dsf_writes *has, int32_t nprocesses,
                      struct dsf_writes *writes)
{
    int64_t *load = dsf_xcalloc((size_t)nprocesses, sizeof(*load));
    struct owned *all = NULL;
    size_t n = 0, cap = 0;

    for (int32_t p = 0; p < nprocesses; p++)
        for (size_t i = 0; i < has[p].n; i++) {
            dsf_grow(&all, &cap, n + 1, sizeof(*all));
            all[n++] = (struct owned){ has[p].v[i], p };
        }
    if (n > 0)
        qsort(all, n, sizeof(*all), by_place_and_process);
    for (int common = 0; common < 2; common++)
        for (size_t i = 0, k; i < n; i += k) {
            k = same_part(all + i, n - i);
            share_part(all + i, k, common, load, writes);
        }
    for (int32_t p = 0; p < nprocesses; p++)
        if (writes[p].n > 0)
            qsort(writes[p].v, writes[p].n, sizeof(*writes[p].v), by_place);
    free(all);
    free(load);
}

const struct dsf_piece *dsf_writes_of(const struct dsf_writes *writes,
                                      unsigned unit, unsigned kind, size_t *n)
{
    const struct dsf_piece wanted = {
        .unit = unit, .kind = kind, .part = INT32_MIN, .at = INT64_MIN
    };
    size_t low = 0, high = writes->n, end;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (compare(&writes->v[mid], &wanted) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    for (end = low; end < writes->n && writes->v[end].unit == unit &&
                    writes->v[end].kind == kind;)
        end++;
    *n = end - low;
    return writes->v + low;
}
