/* sim_measure.c - what a schedule says: how long a step takes, what bounds it,
 * what is hidden behind what, and its timeline.
 */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "graph/critical.h"
#include "trace/cover.h"

#include <stdlib.h>

static void find_critical(struct sim *s, struct dsf_sim_result *result)
{
    result->critical_seconds =
        dsf_critical(&s->edges, s->cost, s->ntasks, s->reported,
                     &result->critical, &result->ncritical);
    for (uint32_t i = 0; i < result->ncritical; i++)
        result->critical[i] += s->first;
}

/* Does a task compute nothing? */
static bool moves(const struct dsflow_task_spec *t)
{
    return t->op->comm || t->op->swaps;
}

/* Of a task that something other than a disk does. */
static void add_work(const struct sim *s, uint32_t i, enum dsf_bound place,
                     struct dsf_sim_result *result)
{
    const struct dsflow_task_spec *t = dsf_sim_task(s, i);
    bool placed = t->rank != DSFLOW_ANYWHERE;

    if (moves(t))
        result->comm_seconds += s->cost[i];
    if (moves(t) && placed)
        result->moving[t->rank] += s->cost[i];
    if (place == DSF_BOUND_WORK || !placed) {
        result->work_seconds += s->cost[i];
        if (placed)
            result->busy[t->rank] += s->cost[i];
    }
}

static void raise_bound(struct dsf_sim_result *result, enum dsf_bound what,
                        double seconds)
{
    if (seconds <= result->bound_seconds)
        return;
    result->bound_seconds = seconds;
    result->bound = what;
}

/* Work by rank and by group, and what follows from it. */
static void find_work(struct sim *s, struct dsf_sim_result *result)
{
    double *work = dsf_xcalloc(s->ngroups, sizeof(*work));

    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, i);
        enum dsf_bound place = dsf_sim_place(s, t);

        if (place < DSF_BOUND_DISK)
            add_work(s, i, place, result);
        if (t->rank != DSFLOW_ANYWHERE || place >= DSF_BOUND_DISK)
            work[dsf_sim_group(s, t)] += s->cost[i];
    }
    raise_bound(result, DSF_BOUND_CRITICAL, result->critical_seconds);
    raise_bound(result, DSF_BOUND_WORK,
                result->work_seconds / s->spec->workers);
    for (unsigned i = 0; i < s->ngroups; i++)
        raise_bound(result, s->groups[i].kind, work[i] / s->groups[i].most);
    free(work);
}

static double end_of_step(const struct sim *s, unsigned step)
{
    double end = 0;

    for (uint32_t i = 0; i < s->ntasks; i++)
        if (dsf_sim_end(s, step * s->ntasks + i) > end)
            end = dsf_sim_end(s, step * s->ntasks + i);
    return end;
}

/* Instances by lane, in order of time. */
struct lanes {
    uint32_t *first; /* by lane, and one more */
    uint32_t *v;
};

/* Of two instances on a lane. */
static bool comes_after(const struct sim *s, uint32_t x, uint32_t y)
{
    double a = dsf_sim_end(s, x), b = dsf_sim_end(s, y);

    if (s->start[x] != s->start[y])
        return s->start[x] > s->start[y];
    return a != b ? a > b : x > y;
}

/* They began in order of time; what began at once may stand otherwise. */
static void sort(const struct sim *s, uint32_t *v, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        uint32_t x = v[i], at = i;

        for (; at > 0 && comes_after(s, v[at - 1], x); at--)
            v[at] = v[at - 1];
        v[at] = x;
    }
}

static struct lanes sort_lanes(struct sim *s)
{
    struct lanes l = { dsf_xcalloc(s->nlanes + 2, sizeof(*l.first)),
                       dsf_xcalloc(s->n + 1, sizeof(*l.v)) };

    for (uint32_t x = 0; x < s->n; x++)
        l.first[s->lane[x] + 2]++;
    for (unsigned i = 0; i < s->nlanes; i++)
        l.first[i + 2] += l.first[i + 1];
    for (uint32_t i = 0; i < s->nbegun; i++) {
        uint32_t x = s->order[i];

        l.v[l.first[s->lane[x] + 1]++] = x;
    }
    for (unsigned i = 0; i < s->nlanes; i++)
        sort(s, l.v + l.first[i], l.first[i + 1] - l.first[i]);
    return l;
}

/* Seconds of [from, to] during which a lane works; *at is where to begin to
 * look, as intervals come in order. */
static double overlap(const struct sim *s, const struct lanes *l, unsigned lane,
                      double from, double to, uint32_t *at)
{
    uint32_t end = l->first[lane + 1];
    double sum = 0;

    while (*at < end && dsf_sim_end(s, l->v[*at]) <= from)
        (*at)++;
    for (uint32_t i = *at; i < end && s->start[l->v[i]] < to; i++) {
        double a = s->start[l->v[i]], b = dsf_sim_end(s, l->v[i]);

        sum += (b < to ? b : to) - (a > from ? a : from);
    }
    return sum;
}

/* How much of the step's moving of data goes on while its rank computes.
 * A rank with links has one worker. */
static void find_hidden(struct sim *s, const struct lanes *l,
                        struct dsf_sim_result *result)
{
    double hidden = 0, all = 0;

    if (!s->spec->links)
        return;
    for (unsigned r = 0; r < s->spec->nranks; r++) {
        unsigned link = s->groups[s->links + r].first;
        unsigned worker = s->groups[r % s->nworking].first;
        uint32_t at = l->first[worker];

        for (uint32_t i = l->first[link]; i < l->first[link + 1]; i++) {
            uint32_t x = l->v[i];

            if (x / s->ntasks != s->reported)
                continue;
            all += dsf_sim_end(s, x) - s->start[x];
            hidden +=
                overlap(s, l, worker, s->start[x], dsf_sim_end(s, x), &at);
        }
    }
    if (all > 0)
        result->hidden = hidden / all;
}

static int by_span(const void *a, const void *b)
{
    const struct dsf_span *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

/* The time that instances on the lanes [from, to) cover: of those that compute,
 * or, of a disk, of those of the step. */
static struct dsf_cover cover_of(const struct sim *s, const struct lanes *l,
                                 unsigned from, unsigned to, bool disk)
{
    size_t most = l->first[to] - l->first[from], n = 0;
    struct dsf_span *spans = dsf_xcalloc(most + 1, sizeof(*spans));
    struct dsf_cover cover = { 0 };

    for (uint32_t i = l->first[from]; i < l->first[to]; i++) {
        uint32_t x = l->v[i];

        if (dsf_sim_end(s, x) > s->start[x] &&
            (disk ? x / s->ntasks == s->reported : !moves(dsf_sim_task(s, x))))
            spans[n++] = (struct dsf_span){ .start = s->start[x],
                                            .end = dsf_sim_end(s, x) };
    }
    if (n > 1)
        qsort(spans, n, sizeof(*spans), by_span);
    for (size_t i = 0; i < n; i++)
        dsf_cover_add(&cover, &spans[i]);
    free(spans);
    return cover;
}

/* What the two directions of each disk do together. */
static void find_io(const struct sim *s, const struct lanes *l,
                    struct dsf_sim_result *result)
{
    unsigned first = s->ndisks > 0 ? s->groups[s->disks].first : 0;
    struct dsf_cover work;
    double hidden = 0;

    if (s->ndisks == 0)
        return;
    work = cover_of(s, l, 0, first, false);
    for (unsigned lane = first; lane < s->nlanes; lane += 2) {
        struct dsf_cover disk = cover_of(s, l, lane, lane + 2, true);

        for (size_t i = 0; i < disk.n; i++) {
            result->io_seconds += disk.v[i].end - disk.v[i].start;
            hidden += dsf_cover_overlap(&work, disk.v[i].start, disk.v[i].end);
        }
        dsf_cover_fini(&disk);
    }
    if (result->io_seconds > 0)
        result->io_hidden = hidden / result->io_seconds;
    dsf_cover_fini(&work);
}

struct sums {
    struct dsf_holder *v;
    size_t n, cap;
};

static void add_holder(struct sums *sums, const struct dsflow_task_spec *t,
                       double seconds)
{
    size_t i = 0;

    while (i < sums->n &&
           (sums->v[i].op != t->op || sums->v[i].layer != t->layer))
        i++;
    if (i == sums->n) {
        dsf_grow(&sums->v, &sums->cap, ++sums->n, sizeof(*sums->v));
        sums->v[i].op = t->op;
        sums->v[i].layer = t->layer;
    }
    sums->v[i].seconds += seconds;
}

static int by_seconds(const void *a, const void *b)
{
    const struct dsf_holder *x = a, *y = b;

    return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

/* Back from the end of the step, from each task to what it started after: the
 * last of its predecessors, or what had the worker before it. */
static void find_holders(struct sim *s, double begun,
                         struct dsf_sim_result *result)
{
    struct sums sums = { 0 };
    uint32_t x = s->reported * s->ntasks;

    for (uint32_t i = x; i < (s->reported + 1) * s->ntasks; i++)
        if (dsf_sim_end(s, i) > dsf_sim_end(s, x))
            x = i;
    for (; x != NONE && dsf_sim_end(s, x) > begun; x = s->blocker[x])
        add_holder(&sums, dsf_sim_task(s, x),
                   dsf_sim_end(s, x) -
                       (s->start[x] > begun ? s->start[x] : begun));
    if (sums.n > 1)
        qsort(sums.v, sums.n, sizeof(*sums.v), by_seconds);
    for (size_t i = 0; i < sums.n && i < DSF_NHOLDERS; i++)
        result->holders[i] = sums.v[i];
    free(sums.v);
}

static void name_disk(const struct sim *s, unsigned node,
                      struct dsf_timeline *timeline)
{
    static const char *const ways[] = { "read", "write" };

    for (int i = 0; i < 2; i++)
        if (s->ndisks == 1)
            dsf_timeline_add_lane(timeline, DSF_LANE_DISK, DSFLOW_ANYWHERE,
                                  "disk %s", ways[i]);
        else
            dsf_timeline_add_lane(timeline, DSF_LANE_DISK, DSFLOW_ANYWHERE,
                                  "disk %u %s", node, ways[i]);
}

static void name_lanes(const struct sim *s, struct dsf_timeline *timeline)
{
    const struct dsf_sim_spec *spec = s->spec;

    for (unsigned i = 0; i < spec->workers; i++) {
        bool shared = spec->nranks > spec->workers;

        dsf_timeline_add_lane(timeline, DSF_LANE_WORKER,
                              shared ? DSFLOW_ANYWHERE : (int)s->group_of[i],
                              "%s %u", spec->links ? "GPU" : "core", i);
    }
    for (unsigned r = 0; r < s->nlinks; r++)
        dsf_timeline_add_lane(timeline, DSF_LANE_LINK, (int)r, "link of %u", r);
    for (unsigned r = 0; r < s->nhosts; r++)
        dsf_timeline_add_lane(timeline, DSF_LANE_HOST, (int)r, "cores of %u",
                              r);
    for (unsigned i = 0; i < s->ndisks; i++)
        name_disk(s, i, timeline);
}

static void keep_timeline(const struct sim *s, const struct lanes *l,
                          struct dsf_timeline *timeline)
{
    name_lanes(s, timeline);
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t x = l->v[i];

        dsf_timeline_add(
            timeline, &(struct dsf_span){ .start = s->start[x],
                                          .end = dsf_sim_end(s, x),
                                          .what = s->first + x % s->ntasks,
                                          .step = x / s->ntasks,
                                          .lane = s->lane[x],
                                          .rank = dsf_sim_task(s, x)->rank });
    }
}

void dsf_sim_measure(struct sim *s, struct dsf_sim_result *result,
                     struct dsf_timeline *timeline)
{
    double end = end_of_step(s, s->reported);
    double begun = s->reported > 0 ? end_of_step(s, s->reported - 1) : 0;
    struct lanes l = sort_lanes(s);

    result->step_seconds = end - begun;
    find_critical(s, result);
    find_work(s, result);
    /* One step may begin earlier during the one before than the next during
     * it; in the long run none is faster than the bound. */
    if (result->step_seconds < result->bound_seconds)
        result->step_seconds = result->bound_seconds;
    find_hidden(s, &l, result);
    find_io(s, &l, result);
    find_holders(s, begun, result);
    result->efficiency = result->step_seconds > 0
                             ? result->bound_seconds / result->step_seconds
                             : 1;
    if (result->step_seconds > 0)
        result->bubble = 1 - result->work_seconds /
                                 (s->spec->workers * result->step_seconds);
    if (timeline != NULL)
        keep_timeline(s, &l, timeline);
    free(l.first);
    free(l.v);
}
