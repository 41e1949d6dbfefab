/* sim.c - list scheduling of a phase of a graph: whenever a worker is free it
 * takes the ready task of the highest priority, first come in the graph's order
 * (Graham 1969). Time goes from one end of a task to the next.
 *
 * An *instance* is a task in one of the steps: step * ntasks + task. A *group*
 * is lanes that take the same tasks: the workers of a rank, or one that several
 * ranks share, the link of a rank, the cores beside it, or a disk.
 */
#include "sim/sim.h"

#include "base/alloc.h"
#include "graph/critical.h"
#include "graph/succs.h"
#include "graph/task.h"
#include "trace/cover.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct heap {
    uint32_t *v;
    size_t n, cap;
};

struct group {
    struct heap ready;
    enum dsf_bound kind;    /* WORK, LINK, HOST, or one of a disk's */
    unsigned first, nlanes; /* of lanes */
    unsigned most, idle;    /* that work at a time; that could begin */
    bool dirty;             /* something became ready, or idle */
};

struct sim {
    struct dsflow_graph *g;
    const struct dsf_sim_spec *spec;
    uint32_t first, ntasks; /* of the phase */
    uint32_t n;             /* instances */
    uint32_t reported;      /* step */
    struct dsf_succs edges;
    double *cost;           /* by task of the phase */
    uint32_t *waits;        /* by instance: predecessors that have not ended */
    double *start, *end;    /* by instance */
    double *ready;
    uint32_t *blocker;      /* by instance: what it started right after */

    struct group *groups;
    unsigned ngroups, nworking; /* the first ones are workers */
    unsigned links, hosts, disks; /* the first group of each */
    unsigned nlinks, nhosts, ndisks;
    uint16_t *group_of;     /* by lane */
    struct heap anywhere;
    uint32_t *last_on;      /* by lane: the last instance */
    bool *busy;             /* by lane */
    unsigned nlanes;
    uint16_t *lane;         /* by instance */

    unsigned *dirty;        /* groups */
    unsigned ndirty;
    uint32_t *instant;      /* ready instances that take no time */
    uint32_t ninstant;
    struct heap running;    /* by end */
    double now;
};

static const struct dsflow_task_spec *task_of(const struct sim *s,
                                              uint32_t instance)
{
    return dsflow_graph_task(
        s->g, (dsflow_task_id){ s->first + instance % s->ntasks });
}

/* Does instance a start before b, both being ready? */
static bool starts_before(const struct sim *s, uint32_t a, uint32_t b)
{
    int32_t pa = task_of(s, a)->priority, pb = task_of(s, b)->priority;

    return pa != pb ? pa > pb : a < b;
}

/* A disk is given what comes first; of what comes at once, the same. */
static bool queues_before(const struct sim *s, uint32_t a, uint32_t b)
{
    return s->ready[a] != s->ready[b] ? s->ready[a] < s->ready[b]
                                      : starts_before(s, a, b);
}

static bool ends_before(const struct sim *s, uint32_t a, uint32_t b)
{
    return s->end[a] != s->end[b] ? s->end[a] < s->end[b] : a < b;
}

typedef bool (*before_fn)(const struct sim *s, uint32_t a, uint32_t b);

static void heap_push(const struct sim *s, struct heap *h, uint32_t x,
                      before_fn before)
{
    size_t i = h->n;

    dsf_grow(&h->v, &h->cap, ++h->n, sizeof(*h->v));
    for (; i > 0 && before(s, x, h->v[(i - 1) / 2]); i = (i - 1) / 2)
        h->v[i] = h->v[(i - 1) / 2];
    h->v[i] = x;
}

static uint32_t heap_pop(const struct sim *s, struct heap *h, before_fn before)
{
    uint32_t top = h->v[0], x = h->v[--h->n];
    size_t i = 0;

    for (;;) {
        size_t c = 2 * i + 1;

        if (c >= h->n)
            break;
        if (c + 1 < h->n && before(s, h->v[c + 1], h->v[c]))
            c++;
        if (!before(s, h->v[c], x))
            break;
        h->v[i] = h->v[c];
        i = c;
    }
    h->v[i] = x;
    return top;
}

static bool is_disk(const struct group *group)
{
    return group->kind >= DSF_BOUND_DISK;
}

static before_fn order_of(const struct group *group)
{
    return is_disk(group) ? queues_before : starts_before;
}

/* Where a task runs: on a worker, unless … */
static enum dsf_bound place_of(const struct sim *s,
                               const struct dsflow_task_spec *t)
{
    if (dsf_task_uses(s->g, t, DSFLOW_NVME))
        return !s->spec->duplex             ? DSF_BOUND_DISK
               : dsf_task_brings(s->g, t) ? DSF_BOUND_READS
                                            : DSF_BOUND_WRITES;
    if (s->spec->links && (t->op->comm || t->op->swaps))
        return DSF_BOUND_LINK;
    if (s->spec->links && dsf_task_uses(s->g, t, DSFLOW_HOST))
        return DSF_BOUND_HOST;
    return DSF_BOUND_WORK;
}

static unsigned node_of(const struct dsf_sim_spec *spec, unsigned rank)
{
    return spec->node_ranks > 0 ? rank / spec->node_ranks : 0;
}

static unsigned group_of(const struct sim *s, const struct dsflow_task_spec *t)
{
    unsigned rank = t->rank == DSFLOW_ANYWHERE ? 0 : (unsigned)t->rank;

    switch (place_of(s, t)) {
    case DSF_BOUND_LINK:
        return s->links + rank;
    case DSF_BOUND_HOST:
        return s->hosts + rank;
    case DSF_BOUND_DISK:
        return s->disks + node_of(s->spec, rank);
    case DSF_BOUND_READS:
        return s->disks + 2 * node_of(s->spec, rank);
    case DSF_BOUND_WRITES:
        return s->disks + 2 * node_of(s->spec, rank) + 1;
    default:
        break;
    }
    return s->nworking == s->spec->nranks ? rank : rank % s->spec->workers;
}

static bool has(const struct sim *s, enum dsf_bound from, enum dsf_bound to)
{
    for (uint32_t i = 0; i < s->ntasks; i++) {
        enum dsf_bound place = place_of(s, task_of(s, i));

        if (place >= from && place <= to)
            return true;
    }
    return false;
}

static void add_group(struct sim *s, enum dsf_bound kind, unsigned nlanes)
{
    struct group *group = &s->groups[s->ngroups];

    group->kind = kind;
    group->first = s->nlanes;
    group->nlanes = group->most = group->idle = nlanes;
    /* The two lanes of a disk are its two directions. */
    if (kind == DSF_BOUND_DISK)
        group->most = group->idle = 1;
    for (unsigned i = 0; i < nlanes; i++)
        s->group_of[s->nlanes++] = (uint16_t)s->ngroups;
    s->ngroups++;
}

/* Workers w with w * groups / workers == i. */
static unsigned workers_of(const struct sim *s, unsigned i)
{
    uint64_t all = s->spec->workers, n = s->nworking;

    return (unsigned)(((i + 1) * all + n - 1) / n - (i * all + n - 1) / n);
}

/* Lanes in this order: workers, links, the cores beside GPUs, disks. */
static void make_groups(struct sim *s)
{
    const struct dsf_sim_spec *spec = s->spec;
    unsigned nodes = node_of(spec, spec->nranks - 1) + 1;
    unsigned n = spec->workers + 2 * spec->nranks + 2 * nodes;

    s->groups = dsf_xcalloc(n, sizeof(*s->groups));
    s->group_of = dsf_xcalloc(n, sizeof(*s->group_of));
    s->nworking = spec->nranks < spec->workers ? spec->nranks : spec->workers;
    s->nlinks = spec->links ? spec->nranks : 0;
    s->nhosts = has(s, DSF_BOUND_HOST, DSF_BOUND_HOST) ? spec->nranks : 0;
    s->ndisks = has(s, DSF_BOUND_DISK, DSF_BOUND_WRITES) ? nodes : 0;
    for (unsigned i = 0; i < s->nworking; i++)
        add_group(s, DSF_BOUND_WORK, workers_of(s, i));
    s->links = s->ngroups;
    for (unsigned i = 0; i < s->nlinks; i++)
        add_group(s, DSF_BOUND_LINK, 1);
    s->hosts = s->ngroups;
    for (unsigned i = 0; i < s->nhosts; i++)
        add_group(s, DSF_BOUND_HOST, 1);
    s->disks = s->ngroups;
    for (unsigned i = 0; i < s->ndisks; i++) {
        if (!spec->duplex) {
            add_group(s, DSF_BOUND_DISK, 2);
            continue;
        }
        add_group(s, DSF_BOUND_READS, 1);
        add_group(s, DSF_BOUND_WRITES, 1);
    }
    s->last_on = dsf_xcalloc(s->nlanes, sizeof(*s->last_on));
    for (unsigned i = 0; i < s->nlanes; i++)
        s->last_on[i] = NONE;
    s->busy = dsf_xcalloc(s->nlanes, sizeof(*s->busy));
    s->dirty = dsf_xcalloc(s->ngroups, sizeof(*s->dirty));
}

static void mark(struct sim *s, unsigned group)
{
    if (s->groups[group].dirty)
        return;
    s->groups[group].dirty = true;
    s->dirty[s->ndirty++] = group;
}

static void make_ready(struct sim *s, uint32_t x, uint32_t after)
{
    const struct dsflow_task_spec *t = task_of(s, x);

    s->ready[x] = s->now;
    s->blocker[x] = after;
    if (s->cost[x % s->ntasks] == 0) {
        s->instant[s->ninstant++] = x;
        return;
    }
    if (t->rank != DSFLOW_ANYWHERE || place_of(s, t) >= DSF_BOUND_DISK) {
        unsigned group = group_of(s, t);

        heap_push(s, &s->groups[group].ready, x, order_of(&s->groups[group]));
        mark(s, group);
        return;
    }
    heap_push(s, &s->anywhere, x, starts_before);
    for (unsigned i = 0; i < s->nworking; i++)
        if (s->groups[i].idle > 0) {
            mark(s, i);
            break;
        }
}

/* An idle one; of the two directions of a disk, the task's. */
static unsigned lane_for(const struct sim *s, const struct group *group,
                         uint32_t x)
{
    unsigned lane = group->first;

    if (group->kind == DSF_BOUND_DISK)
        return lane + (dsf_task_brings(s->g, task_of(s, x)) ? 0 : 1);
    while (s->busy[lane])
        lane++;
    return lane;
}

static void begin(struct sim *s, struct group *group, uint32_t x)
{
    unsigned lane = lane_for(s, group, x);
    /* The directions of a disk wait for each other. */
    unsigned place = group->most < group->nlanes ? group->first : lane;

    s->busy[lane] = true;
    group->idle--;
    /* What waited in the queue started after what had the worker. */
    if (s->ready[x] < s->now && s->last_on[place] != NONE)
        s->blocker[x] = s->last_on[place];
    s->last_on[place] = x;
    s->lane[x] = (uint16_t)lane;
    s->start[x] = s->now;
    s->end[x] = s->now + s->cost[x % s->ntasks];
    heap_push(s, &s->running, x, ends_before);
}

/* The idle workers of a group take what is ready. */
static void serve(struct sim *s, unsigned i)
{
    struct group *group = &s->groups[i];
    bool works = i < s->nworking;

    group->dirty = false;
    while (group->idle > 0) {
        struct heap *from = &group->ready;

        if (works && s->anywhere.n > 0 &&
            (from->n == 0 ||
             starts_before(s, s->anywhere.v[0], from->v[0])))
            from = &s->anywhere;
        if (from->n == 0)
            return;
        begin(s, group, heap_pop(s, from, order_of(group)));
    }
    /* Another group may have an idle worker for what is left. */
    for (unsigned k = 0; k < s->nworking && s->anywhere.n > 0; k++)
        if (s->groups[k].idle > 0) {
            mark(s, k);
            return;
        }
}

/* What waited for `x` alone is ready. */
static void complete(struct sim *s, uint32_t x)
{
    uint32_t step = x / s->ntasks, task = x % s->ntasks;
    uint32_t n;
    const uint32_t *list = dsf_succs(&s->edges, task, &n);

    for (uint32_t k = 0; k < n; k++)
        if (--s->waits[step * s->ntasks + list[k]] == 0)
            make_ready(s, step * s->ntasks + list[k], x);
    if (step + 1 == s->spec->steps)
        return;
    list = dsf_succs_next(&s->edges, task, &n);
    for (uint32_t k = 0; k < n; k++)
        if (--s->waits[(step + 1) * s->ntasks + list[k]] == 0)
            make_ready(s, (step + 1) * s->ntasks + list[k], x);
}

static void finish(struct sim *s, uint32_t x)
{
    unsigned lane = s->lane[x], group = s->group_of[lane];

    s->busy[lane] = false;
    s->groups[group].idle++;
    mark(s, group);
    complete(s, x);
}

/* What takes no time needs no worker: it is done before anything else begins. */
static void pass_instants(struct sim *s)
{
    while (s->ninstant > 0) {
        uint32_t x = s->instant[--s->ninstant];
        const struct dsflow_task_spec *t = task_of(s, x);

        s->lane[x] = (uint16_t)s->groups[group_of(s, t)].first;
        s->start[x] = s->end[x] = s->now;
        complete(s, x);
    }
}

static void run(struct sim *s)
{
    for (uint32_t x = 0; x < s->n; x++)
        if (s->waits[x] == 0)
            make_ready(s, x, NONE);
    for (;;) {
        pass_instants(s);
        while (s->ndirty > 0)
            serve(s, s->dirty[--s->ndirty]);
        if (s->running.n == 0)
            return;
        s->now = s->end[s->running.v[0]];
        while (s->running.n > 0 && s->end[s->running.v[0]] == s->now)
            finish(s, heap_pop(s, &s->running, ends_before));
    }
}

static void count_waits(struct sim *s)
{
    for (uint32_t i = 0; i < s->ntasks; i++) {
        uint32_t n;
        const uint32_t *list = dsf_succs(&s->edges, i, &n);

        for (unsigned step = 0; step < s->spec->steps; step++)
            for (uint32_t k = 0; k < n; k++)
                s->waits[step * s->ntasks + list[k]]++;
        list = dsf_succs_next(&s->edges, i, &n);
        for (unsigned step = 1; step < s->spec->steps; step++)
            for (uint32_t k = 0; k < n; k++)
                s->waits[step * s->ntasks + list[k]]++;
    }
}

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
    const struct dsflow_task_spec *t = task_of(s, i);
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
        const struct dsflow_task_spec *t = task_of(s, i);
        enum dsf_bound place = place_of(s, t);

        if (place < DSF_BOUND_DISK)
            add_work(s, i, place, result);
        if (t->rank != DSFLOW_ANYWHERE || place >= DSF_BOUND_DISK)
            work[group_of(s, t)] += s->cost[i];
    }
    raise_bound(result, DSF_BOUND_WAY, result->critical_seconds);
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
        if (s->end[step * s->ntasks + i] > end)
            end = s->end[step * s->ntasks + i];
    return end;
}

/* Instances by lane, in order of time. */
struct lanes {
    uint32_t *first; /* by lane, and one more */
    uint32_t *v;
};

static int by_start(const void *a, const void *b, void *arg)
{
    const struct sim *s = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (s->start[x] != s->start[y])
        return s->start[x] < s->start[y] ? -1 : 1;
    if (s->end[x] != s->end[y])
        return s->end[x] < s->end[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static struct lanes sort_lanes(struct sim *s)
{
    struct lanes l = { dsf_xcalloc(s->nlanes + 2, sizeof(*l.first)),
                       dsf_xcalloc(s->n + 1, sizeof(*l.v)) };

    for (uint32_t x = 0; x < s->n; x++)
        l.first[s->lane[x] + 2]++;
    for (unsigned i = 0; i < s->nlanes; i++)
        l.first[i + 2] += l.first[i + 1];
    for (uint32_t x = 0; x < s->n; x++)
        l.v[l.first[s->lane[x] + 1]++] = x;
    for (unsigned i = 0; i < s->nlanes; i++)
        qsort_r(l.v + l.first[i], l.first[i + 1] - l.first[i], sizeof(*l.v),
                by_start, s);
    return l;
}

/* Seconds of [from, to] during which a lane works; *at is where to begin to
 * look, as intervals come in order. */
static double overlap(const struct sim *s, const struct lanes *l, unsigned lane,
                      double from, double to, uint32_t *at)
{
    uint32_t end = l->first[lane + 1];
    double sum = 0;

    while (*at < end && s->end[l->v[*at]] <= from)
        (*at)++;
    for (uint32_t i = *at; i < end && s->start[l->v[i]] < to; i++) {
        double a = s->start[l->v[i]], b = s->end[l->v[i]];

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
            all += s->end[x] - s->start[x];
            hidden += overlap(s, l, worker, s->start[x], s->end[x], &at);
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
static struct dsf_cover cover_of(const struct sim *s, unsigned from,
                                 unsigned to, bool disk)
{
    struct dsf_span *spans = dsf_xcalloc((size_t)s->n + 1, sizeof(*spans));
    struct dsf_cover cover = { 0 };
    size_t n = 0;

    for (uint32_t x = 0; x < s->n; x++)
        if (s->lane[x] >= from && s->lane[x] < to && s->end[x] > s->start[x] &&
            (disk ? x / s->ntasks == s->reported : !moves(task_of(s, x))))
            spans[n++] = (struct dsf_span){ .start = s->start[x],
                                            .end = s->end[x] };
    if (n > 1)
        qsort(spans, n, sizeof(*spans), by_span);
    for (size_t i = 0; i < n; i++)
        dsf_cover_add(&cover, &spans[i]);
    free(spans);
    return cover;
}

/* What the two directions of each disk do together. */
static void find_io(const struct sim *s, struct dsf_sim_result *result)
{
    unsigned first = s->ndisks > 0 ? s->groups[s->disks].first : 0;
    struct dsf_cover work;
    double hidden = 0;

    if (s->ndisks == 0)
        return;
    work = cover_of(s, 0, first, false);
    for (unsigned lane = first; lane < s->nlanes; lane += 2) {
        struct dsf_cover disk = cover_of(s, lane, lane + 2, true);

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
        if (s->end[i] > s->end[x])
            x = i;
    for (; x != NONE && s->end[x] > begun; x = s->blocker[x])
        add_holder(&sums, task_of(s, x),
                   s->end[x] - (s->start[x] > begun ? s->start[x] : begun));
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

        dsf_timeline_add(timeline,
                         &(struct dsf_span){ .start = s->start[x],
                                             .end = s->end[x],
                                             .what = s->first + x % s->ntasks,
                                             .step = x / s->ntasks,
                                             .lane = s->lane[x],
                                             .rank = task_of(s, x)->rank });
    }
}

static void measure(struct sim *s, struct dsf_sim_result *result,
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
    find_io(s, result);
    find_holders(s, begun, result);
    result->efficiency = result->step_seconds > 0
                             ? result->bound_seconds / result->step_seconds
                             : 1;
    if (result->step_seconds > 0)
        result->bubble = 1 - result->work_seconds / (s->spec->workers *
                                                     result->step_seconds);
    if (timeline != NULL)
        keep_timeline(s, &l, timeline);
    free(l.first);
    free(l.v);
}

/* The tasks of the phase stand together. */
static int find_phase(struct sim *s, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(s->g);

    s->first = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(s->g, (dsflow_task_id){ i });

        if (t->phase != s->spec->phase)
            continue;
        if (s->ntasks++ == 0)
            s->first = i;
        if (t->rank != DSFLOW_ANYWHERE &&
            (t->rank < 0 || (unsigned)t->rank >= s->spec->nranks))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: rank %d: expected 0 to %u", t->op->name,
                               t->rank, s->spec->nranks - 1);
    }
    if ((uint64_t)s->ntasks * s->spec->steps >= NONE)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%u tasks in %u steps: expected less than 4 "
                           "thousand million",
                           s->ntasks, s->spec->steps);
    s->n = s->ntasks * s->spec->steps;
    s->reported = s->spec->steps > 1 ? s->spec->steps - 2 : 0;
    return DSFLOW_OK;
}

static void allocate(struct sim *s)
{
    size_t n = (size_t)s->n + 1;

    s->cost = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->cost));
    for (uint32_t i = 0; i < s->ntasks; i++)
        s->cost[i] = s->spec->seconds != NULL
                         ? s->spec->seconds[s->first + i]
                         : s->spec->cost(s->spec->user, s->g, task_of(s, i));
    s->waits = dsf_xcalloc(n, sizeof(*s->waits));
    s->start = dsf_xcalloc(n, sizeof(*s->start));
    s->end = dsf_xcalloc(n, sizeof(*s->end));
    s->ready = dsf_xcalloc(n, sizeof(*s->ready));
    s->blocker = dsf_xcalloc(n, sizeof(*s->blocker));
    s->lane = dsf_xcalloc(n, sizeof(*s->lane));
    s->instant = dsf_xcalloc(n, sizeof(*s->instant));
    dsf_succs_init(&s->edges, s->g, s->first, s->ntasks, s->spec->steps > 1);
    make_groups(s);
    count_waits(s);
}

static void release(struct sim *s)
{
    for (unsigned i = 0; s->groups != NULL && i < s->ngroups; i++)
        free(s->groups[i].ready.v);
    free(s->groups);
    free(s->group_of);
    free(s->anywhere.v);
    free(s->running.v);
    free(s->last_on);
    free(s->busy);
    free(s->dirty);
    free(s->cost);
    free(s->waits);
    free(s->start);
    free(s->end);
    free(s->ready);
    free(s->blocker);
    free(s->lane);
    free(s->instant);
    dsf_succs_fini(&s->edges);
}

const char *dsf_bound_str(enum dsf_bound bound)
{
    static const char *const names[DSF_NBOUNDS] = {
        [DSF_BOUND_WAY] = "way",     [DSF_BOUND_WORK] = "work",
        [DSF_BOUND_LINK] = "link",   [DSF_BOUND_HOST] = "host",
        [DSF_BOUND_DISK] = "disk",   [DSF_BOUND_READS] = "reads",
        [DSF_BOUND_WRITES] = "writes",
    };

    return names[bound];
}

int dsf_simulate(struct dsflow_graph *g, const struct dsf_sim_spec *spec,
                 struct dsf_sim_result *result, struct dsf_timeline *timeline,
                 struct dsflow_err *err)
{
    struct sim s = { .g = g, .spec = spec };
    int status = find_phase(&s, err);

    memset(result, 0, sizeof(*result));
    if (status < 0)
        return status;
    result->nranks = spec->nranks;
    result->busy = dsf_xcalloc(spec->nranks, sizeof(*result->busy));
    result->moving = dsf_xcalloc(spec->nranks, sizeof(*result->moving));
    allocate(&s);
    if (s.n > 0) {
        run(&s);
        measure(&s, result, timeline);
    }
    release(&s);
    return DSFLOW_OK;
}

void dsf_sim_result_fini(struct dsf_sim_result *result)
{
    free(result->busy);
    free(result->moving);
    free(result->critical);
    memset(result, 0, sizeof(*result));
}
