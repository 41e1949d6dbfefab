/* sim.c - list scheduling of a program of a graph: whenever a worker is free it
 * takes the ready task of the highest priority, first come in the graph's order
 * (Graham 1969). Time goes from one end of a task to the next.
 */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct dsflow_task_spec *dsf_sim_task(const struct sim *s,
                                            uint32_t instance)
{
    return dsflow_graph_task(
        s->g, (dsflow_task_id){ s->first + dsf_sim_of(s, instance) });
}

/* Does instance a start before b, both being ready? */
static bool starts_before(const struct sim *s, uint32_t a, uint32_t b)
{
    int32_t pa = dsf_sim_task(s, a)->priority,
            pb = dsf_sim_task(s, b)->priority;

    return pa != pb ? pa > pb : a < b;
}

/* A disk is given what comes first; of what comes at once, the same. */
static bool queues_before(const struct sim *s, uint32_t a, uint32_t b)
{
    return s->start[a] != s->start[b] ? s->start[a] < s->start[b]
                                      : starts_before(s, a, b);
}

static bool arrives_before(const struct sim *s, uint32_t a, uint32_t b)
{
    double x = dsf_sim_end(s, a), y = dsf_sim_end(s, b);

    return x != y ? x < y : a < b;
}

/* Of two lanes, which ends what it runs first? */
static bool ends_before(const struct sim *s, uint32_t a, uint32_t b)
{
    return s->until[a] != s->until[b] ? s->until[a] < s->until[b]
                                      : s->runs[a] < s->runs[b];
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

static before_fn order_of(const struct group *group)
{
    return group->kind >= DSF_BOUND_DISK || group->messages ? queues_before
                                                            : starts_before;
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
    const struct dsflow_task_spec *t = dsf_sim_task(s, x);

    s->start[x] = s->now;
    s->blocker[x] = after;
    if (s->cost[dsf_sim_of(s, x)] == 0 && !dsf_sim_is_message(s, x)) {
        dsf_grow(&s->instant.v, &s->instant.cap, s->instant.n + 1,
                 sizeof(*s->instant.v));
        s->instant.v[s->instant.n++] = x;
        return;
    }
    if (t->rank != DSFLOW_ANYWHERE ||
        dsf_sim_place_of(s, t) >= DSF_BOUND_DISK) {
        unsigned group = dsf_sim_group_of(s, x);

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
        return lane + (dsf_task_brings(s->g, dsf_sim_task(s, x)) ? 0 : 1);
    while (s->busy[lane])
        lane++;
    return lane;
}

static bool takes_core(const struct group *group)
{
    return group->kind == DSF_BOUND_WORK || group->kind == DSF_BOUND_HOST;
}

static void begin(struct sim *s, struct group *group, uint32_t x)
{
    unsigned lane = lane_for(s, group, x);
    /* The directions of a disk wait for each other. */
    unsigned place = group->most < group->nlanes ? group->first : lane;

    s->busy[lane] = true;
    group->idle--;
    s->computing += takes_core(group);
    /* What waited in the queue started after what had the worker. */
    if (s->start[x] < s->now && s->last_on[place] != NONE)
        s->blocker[x] = s->last_on[place];
    s->last_on[place] = x;
    s->lane[x] = (uint16_t)lane;
    s->start[x] = dsf_sim_launch(s, lane, x);
    s->order[s->nbegun++] = x;
    if (s->more != NULL && group->messages)
        dsf_sim_owe(s, x);
    else if (s->more != NULL && group->kind == DSF_BOUND_WORK)
        dsf_sim_pay(s, x, s->until[lane]);
    s->runs[lane] = x;
    s->until[lane] = dsf_sim_free(s, x);
    heap_push(s, &s->running, lane, ends_before);
}

/* Where a group finds what an idle worker of it takes next; NULL: nothing is
 * ready, or nobody idle. */
static struct heap *next_of(struct sim *s, unsigned i)
{
    struct group *group = &s->groups[i];
    struct heap *from = &group->ready;

    if (i < s->nworking && s->anywhere.n > 0 &&
        (from->n == 0 || starts_before(s, s->anywhere.v[0], from->v[0])))
        from = &s->anywhere;
    return group->idle > 0 && from->n > 0 ? from : NULL;
}

/* Where workers share cores: what this group would begin next is in the queue
 * for a core. It stays there when the group begins something else. */
static void want_core(struct sim *s, const struct group *group)
{
    if (group->idle > 0 && group->ready.n > 0)
        heap_push(s, &s->wanting, group->ready.v[0], starts_before);
}

/* The idle workers of a group take what is ready. */
static void serve(struct sim *s, unsigned i)
{
    struct group *group = &s->groups[i];
    struct heap *from;

    group->dirty = false;
    if (s->crowded && takes_core(group)) {
        want_core(s, group);
        return;
    }
    while ((from = next_of(s, i)) != NULL)
        begin(s, group, heap_pop(s, from, order_of(group)));
    /* Another group may have an idle worker for what is left. */
    for (unsigned k = 0; k < s->nworking && s->anywhere.n > 0; k++)
        if (s->groups[k].idle > 0) {
            mark(s, k);
            return;
        }
}

/* The group that has what comes first in the queue for a core; NULL: none. */
static struct group *first_in_queue(struct sim *s)
{
    while (s->wanting.n > 0) {
        const uint32_t x = s->wanting.v[0];
        struct group *group = &s->groups[dsf_sim_group_of(s, x)];

        if (group->idle > 0 && group->ready.n > 0 && group->ready.v[0] == x)
            return group;
        heap_pop(s, &s->wanting, starts_before);
    }
    return NULL;
}

/* The first group of workers that takes what is of no rank; NULL: none. */
static struct group *first_for_anywhere(struct sim *s)
{
    for (unsigned i = 0; i < s->nworking && s->anywhere.n > 0; i++)
        if (s->groups[i].idle > 0)
            return &s->groups[i];
    return NULL;
}

/* Where workers share cores, a core that is free takes what comes first of all
 * that is ready for an idle one. */
static void serve_cores(struct sim *s)
{
    while (s->crowded && s->computing < s->spec->cores) {
        struct group *group = first_in_queue(s);
        struct group *other = first_for_anywhere(s);
        struct heap *from = group != NULL ? &group->ready : NULL;

        if (other != NULL &&
            (from == NULL || starts_before(s, s->anywhere.v[0], from->v[0]))) {
            group = other;
            from = &s->anywhere;
        }
        if (group == NULL)
            return;
        begin(s, group, heap_pop(s, from, starts_before));
        want_core(s, group);
    }
}

/* One less for it to wait for. */
static void pass_on(struct sim *s, uint32_t x, uint32_t next)
{
    dsf_sim_tell(s, x, next);
    if (--s->waits[next] == 0)
        make_ready(s, next, x);
}

/* What waited for `x` alone is ready. */
static void complete(struct sim *s, uint32_t x)
{
    uint32_t step = x / s->ntasks, task = x % s->ntasks;
    uint32_t n;
    const uint32_t *list = dsf_succs(&s->edges, task, &n);

    for (uint32_t k = 0; k < n; k++)
        pass_on(s, x, step * s->ntasks + list[k]);
    if (step + 1 == s->spec->steps)
        return;
    list = dsf_succs_next(&s->edges, task, &n);
    for (uint32_t k = 0; k < n; k++)
        pass_on(s, x, (step + 1) * s->ntasks + list[k]);
}

static void finish(struct sim *s, uint32_t lane)
{
    unsigned group = s->group_of[lane];

    s->busy[lane] = false;
    s->groups[group].idle++;
    s->computing -= takes_core(&s->groups[group]);
    mark(s, group);
    if (dsf_sim_end(s, s->runs[lane]) > s->now)
        heap_push(s, &s->flying, s->runs[lane], arrives_before);
    else
        complete(s, s->runs[lane]);
}

/* What takes no time needs no worker: it is done before anything else begins.
 */
static void pass_instants(struct sim *s)
{
    while (s->instant.n > 0) {
        uint32_t x = s->instant.v[--s->instant.n];

        s->lane[x] = (uint16_t)s->groups[dsf_sim_group_of(s, x)].first;
        s->start[x] = s->now;
        s->order[s->nbegun++] = x;
        complete(s, x);
    }
}

static double next_end(const struct sim *s)
{
    double next = INFINITY;

    if (s->running.n > 0)
        next = s->until[s->running.v[0]];
    if (s->flying.n > 0 && dsf_sim_end(s, s->flying.v[0]) < next)
        next = dsf_sim_end(s, s->flying.v[0]);
    return next;
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
        serve_cores(s);
        if (s->running.n + s->flying.n == 0)
            return;
        s->now = next_end(s);
        while (s->running.n > 0 && s->until[s->running.v[0]] == s->now)
            finish(s, heap_pop(s, &s->running, ends_before));
        while (s->flying.n > 0 && dsf_sim_end(s, s->flying.v[0]) == s->now)
            complete(s, heap_pop(s, &s->flying, arrives_before));
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

static int find_tasks(struct sim *s, struct dsflow_err *err)
{
    s->ntasks = dsflow_graph_program_tasks(s->g, s->spec->program, &s->first);
    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, i);

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
    return dsf_sim_count_lanes(s, err);
}

static void allocate(struct sim *s)
{
    size_t n = (size_t)s->n + 1;

    s->cost = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->cost));
    for (uint32_t i = 0; i < s->ntasks; i++)
        s->cost[i] =
            s->spec->seconds != NULL
                ? s->spec->seconds[s->first + i]
                : s->spec->cost(s->spec->user, s->g, dsf_sim_task(s, i));
    s->waits = dsf_xcalloc(n, sizeof(*s->waits));
    s->start = dsf_xcalloc(n, sizeof(*s->start));
    s->blocker = dsf_xcalloc(n, sizeof(*s->blocker));
    s->order = dsf_xcalloc(n, sizeof(*s->order));
    s->lane = dsf_xcalloc(n, sizeof(*s->lane));
    dsf_succs_init(&s->edges, s->g, s->first, s->ntasks, s->spec->steps > 1);
    dsf_sim_make_groups(s);
    dsf_sim_find_ahead(s);
    count_waits(s);
}

static void release(struct sim *s)
{
    for (unsigned i = 0; s->groups != NULL && i < s->ngroups; i++)
        free(s->groups[i].ready.v);
    free(s->groups);
    free(s->group_of);
    free(s->anywhere.v);
    free(s->wanting.v);
    free(s->running.v);
    free(s->flying.v);
    free(s->delay);
    free(s->toll);
    free(s->more);
    free(s->owed);
    free(s->wire);
    free(s->ahead);
    free(s->known);
    free(s->launcher);
    free(s->last_on);
    free(s->busy);
    free(s->runs);
    free(s->until);
    free(s->order);
    free(s->dirty);
    free(s->cost);
    free(s->waits);
    free(s->start);
    free(s->blocker);
    free(s->lane);
    free(s->instant.v);
    dsf_succs_fini(&s->edges);
}

int dsf_simulate(struct dsflow_graph *g, const struct dsf_sim_spec *spec,
                 struct dsf_sim_result *result, struct dsf_timeline *timeline,
                 struct dsflow_err *err)
{
    struct sim s = { .g = g, .spec = spec };
    int status = find_tasks(&s, err);

    memset(result, 0, sizeof(*result));
    if (status < 0)
        return status;
    result->nranks = spec->nranks;
    result->busy = dsf_xcalloc(spec->nranks, sizeof(*result->busy));
    result->moving = dsf_xcalloc(spec->nranks, sizeof(*result->moving));
    allocate(&s);
    if (s.n > 0) {
        run(&s);
        free(s.waits); /* there are many */
        s.waits = NULL;
        dsf_sim_measure(&s, result, timeline);
    }
    release(&s);
    return DSFLOW_OK;
}

void dsf_sim_result_fini(struct dsf_sim_result *result)
{
    free(result->busy);
    free(result->moving);
    free(result->critical);
    free(result->steps);
    memset(result, 0, sizeof(*result));
}
