/* rows.c - lanes that several ranks share, cut into a row for each rank. */
#include "trace/rows.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = UINT16_MAX };

/* A rank has a row where this part of its time is spent, or more. */
static const double least_part = 0.05;

/* The rows of what runs on a lane, by rank, and of no rank. */
struct cut {
    const struct dsf_trace *trace;
    unsigned nranks;
    double *seconds; /* by lane and rank */
    uint16_t *row;   /* by lane and rank, nranks: of no rank */
    uint16_t *home;  /* by rank: the shared lane that does most of its work */
};

static bool is_shared(const struct dsf_trace *trace, unsigned lane)
{
    return trace->timeline.lanes[lane].kind == DSF_LANE_WORKER &&
           trace->timeline.lanes[lane].rank == DSFLOW_ANYWHERE &&
           trace->facts.nranks > 1;
}

static unsigned rank_of(const struct cut *c, const struct dsf_span *s)
{
    return s->rank >= 0 && (unsigned)s->rank < c->nranks ? (unsigned)s->rank
                                                         : c->nranks;
}

static size_t at(const struct cut *c, unsigned lane, unsigned rank)
{
    return (size_t)lane * (c->nranks + 1) + rank;
}

/* Ranks that did nothing have a home too: an idle row says so. */
static void find_homes(struct cut *c, unsigned nshared)
{
    const struct dsf_timeline *t = &c->trace->timeline;

    for (size_t i = 0; i < t->n; i++)
        c->seconds[at(c, t->v[i].lane, rank_of(c, &t->v[i]))] +=
            t->v[i].end - t->v[i].start;
    for (unsigned r = 0; r < c->nranks; r++) {
        double most = 0;
        unsigned k = 0;

        for (unsigned lane = 0; lane < t->nlanes; lane++) {
            if (!is_shared(c->trace, lane))
                continue;
            if (k++ == r % nshared && most == 0)
                c->home[r] = (uint16_t)lane;
            if (c->seconds[at(c, lane, r)] > most) {
                most = c->seconds[at(c, lane, r)];
                c->home[r] = (uint16_t)lane;
            }
        }
    }
}

static bool has_row(const struct cut *c, unsigned lane, unsigned rank)
{
    double all = 0;

    if (!is_shared(c->trace, lane))
        return false;
    if (c->home[rank] == lane)
        return true;
    for (unsigned i = 0; i < c->trace->timeline.nlanes; i++)
        if (is_shared(c->trace, i))
            all += c->seconds[at(c, i, rank)];
    return all > 0 && c->seconds[at(c, lane, rank)] >= least_part * all;
}

static void add_row(struct cut *c, struct dsf_rows *rows, unsigned lane,
                    unsigned rank)
{
    const struct dsf_lane *l = &c->trace->timeline.lanes[lane];
    unsigned row = rows->timeline.nlanes;
    bool cut = rank < c->nranks;

    dsf_timeline_add_lane(&rows->timeline, (enum dsf_lane_kind)l->kind,
                          cut ? (int)rank : l->rank, "%s", l->name);
    rows->worker =
        dsf_xrealloc(rows->worker, (size_t)row + 1, sizeof(*rows->worker));
    rows->worker[row] = (uint16_t)lane;
    c->row[at(c, lane, rank)] = (uint16_t)row;
}

/* Is there a span on the lane that is in no rank's row? */
static bool *find_strays(const struct cut *c)
{
    const struct dsf_timeline *t = &c->trace->timeline;
    bool *strays = dsf_xcalloc(t->nlanes + 1, sizeof(*strays));

    for (size_t i = 0; i < t->n; i++)
        if (c->row[at(c, t->v[i].lane, rank_of(c, &t->v[i]))] == NONE)
            strays[t->v[i].lane] = true;
    return strays;
}

/* Workers come first in a timeline. */
static void add_rows(struct cut *c, struct dsf_rows *rows)
{
    unsigned nlanes = c->trace->timeline.nlanes;
    bool *strays;

    memset(c->row, 0xff, (size_t)nlanes * (c->nranks + 1) * sizeof(*c->row));
    for (unsigned r = 0; r < c->nranks; r++)
        for (unsigned lane = 0; lane < nlanes; lane++)
            if (has_row(c, lane, r))
                add_row(c, rows, lane, r);
    strays = find_strays(c);
    for (unsigned lane = 0; lane < nlanes; lane++)
        if (!is_shared(c->trace, lane) || strays[lane])
            add_row(c, rows, lane, c->nranks);
    free(strays);
}

static void move_spans(const struct cut *c, struct dsf_rows *rows)
{
    const struct dsf_timeline *t = &c->trace->timeline;

    for (size_t i = 0; i < t->n; i++) {
        struct dsf_span s = t->v[i];
        uint16_t row = c->row[at(c, s.lane, rank_of(c, &s))];

        s.lane = row != NONE ? row : c->row[at(c, s.lane, c->nranks)];
        dsf_timeline_add(&rows->timeline, &s);
    }
}

bool dsf_rows_init(struct dsf_rows *rows, const struct dsf_trace *trace)
{
    unsigned nlanes = trace->timeline.nlanes, nshared = 0;
    struct cut c = { .trace = trace, .nranks = trace->facts.nranks };
    size_t n = (size_t)nlanes * (c.nranks + 1);

    memset(rows, 0, sizeof(*rows));
    for (unsigned lane = 0; lane < nlanes; lane++)
        nshared += is_shared(trace, lane) ? 1 : 0;
    if (nshared == 0 || nlanes + (size_t)nshared * c.nranks >= NONE)
        return false;
    c.seconds = dsf_xcalloc(n, sizeof(*c.seconds));
    c.row = dsf_xcalloc(n, sizeof(*c.row));
    c.home = dsf_xcalloc(c.nranks, sizeof(*c.home));
    find_homes(&c, nshared);
    add_rows(&c, rows);
    move_spans(&c, rows);
    free(c.seconds);
    free(c.row);
    free(c.home);
    return true;
}

void dsf_rows_fini(struct dsf_rows *rows)
{
    dsf_timeline_fini(&rows->timeline);
    free(rows->worker);
    memset(rows, 0, sizeof(*rows));
}
