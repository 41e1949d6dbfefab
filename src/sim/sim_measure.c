/* sim_measure.c - what a schedule says: how long a step takes, what bounds it,
 * what is hidden behind what, and its timeline.
 */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "timeline/critical.h"
#include "timeline/hidden.h"
#include "timeline/shares.h"

#include <math.h>
#include <stdlib.h>

/* How long each task takes, with its way as a message; freed by the caller. */
static double *ways_of(const struct sim *s)
{
    double *seconds = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*seconds));

    for (uint32_t i = 0; i < s->ntasks; i++)
        seconds[i] = s->cost[i] + (s->delay != NULL ? s->delay[i] : 0);
    return seconds;
}

static void find_critical(struct sim *s, struct dsf_sim_result *result)
{
    double *seconds = ways_of(s);

    result->critical_seconds =
        dsf_critical(&s->edges, seconds, s->ntasks, s->reported,
                     &result->critical, &result->ncritical);
    for (uint32_t i = 0; i < result->ncritical; i++)
        result->critical[i] += s->first;
    free(seconds);
}

static struct dsf_span span_of(const struct sim *s, uint32_t x)
{
    return (struct dsf_span){ .start = s->start[x],
                              .end = dsf_sim_free(s, x),
                              .what = s->first + dsf_sim_of(s, x),
                              .step = x / s->ntasks,
                              .lane = s->lane[x],
                              .rank = dsf_sim_task(s, x)->rank };
}

static bool is_reported(const struct sim *s, uint32_t x)
{
    return x / s->ntasks == s->reported;
}

/* Of all links, is one of the network the busiest? */
static bool is_network(const struct sim *s, const struct dsf_load *load)
{
    bool network = false;
    double most = 0;

    for (unsigned i = 0; i < s->ngroups; i++) {
        const struct group *group = &s->groups[i];
        double seconds = load->seconds[load->teams->of_lane[group->first]];

        if (group->kind != DSF_BOUND_LINK || seconds <= most)
            continue;
        most = seconds;
        network = group->network;
    }
    return network;
}

/* What messages take of a core is work, too. */
static double work_of(const struct sim *s, uint32_t x)
{
    return s->cost[dsf_sim_of(s, x)] + (s->more != NULL ? s->more[x] : 0);
}

/* The bound, and what workers and links do in the step: by rank, and `all`. */
static void find_bound(const struct sim *s, const struct dsf_timeline *lanes,
                       struct dsf_sim_result *result, struct dsf_shares *all)
{
    unsigned n = s->spec->nranks;
    struct dsf_shares *did = dsf_xcalloc((size_t)n + 1, sizeof(*did));
    struct dsf_teams teams;
    struct dsf_load load;

    dsf_teams_init(&teams, lanes, s->spec->duplex);
    dsf_load_init(&load, &teams);
    for (uint32_t x = s->reported * s->ntasks, end = x + s->ntasks; x < end;
         x++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, x);
        enum dsf_lane_kind lane = lanes->lanes[s->lane[x]].kind;
        bool placed = t->rank != DSFLOW_ANYWHERE;
        double seconds = work_of(s, x);

        dsf_load_add(&load, s->lane[x], seconds, placed);
        dsf_shares_add(all, lane, dsf_share_of(t), seconds);
        if (placed)
            dsf_shares_add(&did[t->rank], lane, dsf_share_of(t), seconds);
    }
    for (unsigned r = 0; r < n; r++) {
        result->busy[r] = did[r].busy;
        result->moving[r] = did[r].carrying;
    }
    result->work_seconds = all->busy;
    result->comm_seconds = all->carrying;
    result->bound_seconds =
        dsf_bound_seconds(&load, result->critical_seconds, &result->bound);
    result->by_network =
        result->bound == DSF_BOUND_LINK && is_network(s, &load);
    dsf_load_fini(&load);
    dsf_teams_fini(&teams);
    free(did);
}

/* Of every step, for a trace of them. */
static void find_steps(const struct sim *s, const struct dsf_timeline *lanes,
                       struct dsf_sim_result *result)
{
    const unsigned n = s->spec->steps;
    double *seconds = ways_of(s);
    struct dsf_teams teams;
    struct dsf_load load;
    enum dsf_bound what;

    result->steps = dsf_xcalloc((size_t)n + 1, sizeof(*result->steps));
    dsf_teams_init(&teams, lanes, s->spec->duplex);
    dsf_load_init(&load, &teams);
    for (unsigned k = 0; k < n; k++) {
        struct dsf_sim_step *step = &result->steps[k];

        dsf_load_clear(&load);
        for (uint32_t x = k * s->ntasks; x < (k + 1) * s->ntasks; x++)
            dsf_load_add(&load, s->lane[x], work_of(s, x),
                         dsf_sim_task(s, x)->rank != DSFLOW_ANYWHERE);
        step->critical_seconds =
            dsf_critical(&s->edges, seconds, s->ntasks, k > 0, NULL, NULL);
        step->bound_seconds =
            dsf_bound_seconds(&load, step->critical_seconds, &what);
    }
    dsf_load_fini(&load);
    dsf_teams_fini(&teams);
    free(seconds);
}

static int by_start(const void *a, const void *b, void *user)
{
    const struct sim *s = user;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    if (s->start[x] != s->start[y])
        return s->start[x] < s->start[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* What a device is given begins when it is launched: after what others begin
 * meanwhile. */
static void sort_begun(struct sim *s)
{
    if (s->launcher != NULL)
        qsort_r(s->order, s->nbegun, sizeof(*s->order), by_start, s);
}

/* What began at `when` or later, by its place in s->order. */
static uint32_t find_begun(const struct sim *s, double when)
{
    uint32_t low = 0, high = s->nbegun;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (s->start[s->order[mid]] < when)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static double longest_of(const struct sim *s)
{
    double longest = 0;

    for (uint32_t i = 0; i < s->ntasks; i++)
        longest = s->cost[i] > longest ? s->cost[i] : longest;
    for (uint32_t x = 0; x < s->n && s->more != NULL; x++)
        longest = fmax(longest, dsf_sim_free(s, x) - s->start[x]);
    return longest;
}

/* Of a task of no rank, that of the worker. */
static int rank_of(const struct sim *s, const struct dsf_timeline *lanes,
                   uint32_t x)
{
    int rank = dsf_sim_task(s, x)->rank;

    return rank >= 0 ? rank : lanes->lanes[s->lane[x]].rank;
}

/* What hides something in [from, to], and then what moves there: there are many
 * instances, and few that are looked at stand together in memory. */
static void hide(const struct sim *s, struct dsf_hiding *hiding,
                 const struct dsf_timeline *lanes, const bool *carries,
                 double from, double to)
{
    uint32_t begin = find_begun(s, from - longest_of(s));
    uint32_t end = find_begun(s, to);

    for (uint32_t i = begin; i < end; i++) {
        uint32_t x = s->order[i];
        const struct dsf_span span = span_of(s, x);

        if (!carries[dsf_sim_of(s, x)])
            dsf_hiding_work(hiding, rank_of(s, lanes, x), &span);
    }
    for (uint32_t i = begin; i < end; i++) {
        uint32_t x = s->order[i];
        const struct dsf_span span = span_of(s, x);

        if (carries[dsf_sim_of(s, x)])
            dsf_hiding_move(hiding, rank_of(s, lanes, x), &span,
                            is_reported(s, x));
    }
}

/* Of what moves data in the step, which takes [begun, end]. */
static void find_hidden(const struct sim *s, const struct dsf_timeline *lanes,
                        double begun, double end, struct dsf_sim_result *result)
{
    uint32_t first = s->reported * s->ntasks;
    bool *carries = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*carries));
    double from = s->ndisks > 0 ? begun : INFINITY;
    double to = s->ndisks > 0 ? end : 0;
    struct dsf_hiding hiding;
    struct dsf_hidden hidden;

    for (uint32_t i = 0; i < s->ntasks; i++) {
        carries[i] = dsf_task_carries(dsf_sim_task(s, i));
        if (carries[i]) {
            from = fmin(from, s->start[first + i]);
            to = fmax(to, dsf_sim_end(s, first + i));
        }
    }
    dsf_hiding_init(&hiding, lanes, s->spec->nranks, begun, end);
    hide(s, &hiding, lanes, carries, from, to);
    free(carries);
    hidden = dsf_hiding_end(&hiding);
    result->hidden = hidden.comm > 0 ? hidden.comm_hidden / hidden.comm : 0;
    result->io_seconds = hidden.io;
    result->io_hidden = hidden.io > 0 ? hidden.io_hidden / hidden.io : 0;
}

/* Of what a process is sent, what arrives while it computes. */
static void find_sent(const struct sim *s, struct dsf_sim_result *result)
{
    const struct dsf_processes *all = &s->spec->processes;
    struct dsf_timeline none = { 0 };
    double from = INFINITY, to = 0;
    struct dsf_hiding hiding;
    struct dsf_hidden hidden;

    dsf_timeline_add_lane(&none, DSF_LANE_LINK, DSFLOW_ANYWHERE, "messages");
    dsf_hiding_init(&hiding, &none, (unsigned)all->n, 0, 0);
    for (uint32_t x = s->reported * s->ntasks, n = x + s->ntasks; x < n; x++)
        if (dsf_sim_is_message(s, x)) {
            from = fmin(from, s->start[x]);
            to = fmax(to, dsf_sim_free(s, x));
        }
    for (uint32_t i = find_begun(s, from - longest_of(s)),
                  n = find_begun(s, to);
         i < n; i++) {
        uint32_t x = s->order[i];
        const struct dsflow_task_spec *t = dsf_sim_task(s, x);
        const struct dsf_span span = { .start = s->start[x],
                                       .end = dsf_sim_free(s, x) };

        if (!dsf_sim_is_message(s, x) && dsf_task_hides(t) && t->rank >= 0)
            dsf_hiding_work(&hiding, dsf_process_of(all, t->rank), &span);
    }
    for (uint32_t i = find_begun(s, from), n = find_begun(s, to); i < n; i++) {
        uint32_t x = s->order[i];
        const struct dsf_span span = { .start = s->start[x],
                                       .end = dsf_sim_free(s, x) };

        if (is_reported(s, x) && dsf_sim_is_message(s, x))
            dsf_hiding_move(&hiding,
                            dsf_process_of(all, dsf_sim_task(s, x)->rank),
                            &span, true);
    }
    hidden = dsf_hiding_end(&hiding);
    dsf_timeline_fini(&none);
    result->sent_seconds = hidden.comm;
    result->sent_hidden =
        hidden.comm > 0 ? hidden.comm_hidden / hidden.comm : 0;
}

static double end_of_step(const struct sim *s, unsigned step)
{
    double end = 0;

    for (uint32_t i = 0; i < s->ntasks; i++)
        if (dsf_sim_end(s, step * s->ntasks + i) > end)
            end = dsf_sim_end(s, step * s->ntasks + i);
    return end;
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

/* As an executor has them; the cores beside are those of a rank, or shared. */
static void name_device_lanes(const struct sim *s,
                              struct dsf_timeline *timeline)
{
    static const char *const ways[] = { "into", "out of" };
    unsigned core = 0;

    for (unsigned i = 0; i < s->nlinks; i++)
        dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                              "%s device %u", ways[i % 2], i / 2);
    for (unsigned i = 0; i < s->nhosts; i++)
        for (unsigned k = 0; k < s->groups[s->hosts + i].nlanes; k++)
            dsf_timeline_add_lane(
                timeline, DSF_LANE_HOST,
                s->nhosts == s->spec->nranks ? (int)i : DSFLOW_ANYWHERE,
                "core %u", core++);
}

static void name_wires(const struct sim *s, struct dsf_timeline *timeline)
{
    for (unsigned i = 0; i < s->ngroups; i++) {
        char name[28];

        if (!s->groups[i].messages)
            continue;
        dsf_sim_name_wire(&s->groups[i], name, sizeof(name));
        dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE, "%s",
                              name);
    }
}

static void name_lanes(const struct sim *s, struct dsf_timeline *timeline)
{
    const struct dsf_sim_spec *spec = s->spec;

    for (unsigned i = 0; i < spec->workers; i++) {
        bool shared = spec->nranks > spec->workers;

        dsf_timeline_add_lane(timeline, DSF_LANE_WORKER,
                              shared ? DSFLOW_ANYWHERE : (int)s->group_of[i],
                              "%s %u",
                              spec->two_way ? "device"
                              : spec->links ? "GPU"
                                            : "core",
                              i);
    }
    /* Where there are messages, ranks are cores. */
    name_wires(s, timeline);
    if (spec->two_way) {
        name_device_lanes(s, timeline);
    } else {
        for (unsigned r = 0; r < s->nlinks; r++)
            dsf_timeline_add_lane(timeline, DSF_LANE_LINK, (int)r, "link of %u",
                                  r);
        for (unsigned r = 0; r < s->nhosts; r++)
            dsf_timeline_add_lane(timeline, DSF_LANE_HOST, (int)r,
                                  "cores of %u", r);
    }
    for (unsigned i = 0; i < s->ndisks; i++)
        name_disk(s, i, timeline);
}

void dsf_sim_measure(struct sim *s, struct dsf_sim_result *result,
                     struct dsf_timeline *timeline)
{
    double end = end_of_step(s, s->reported);
    double begun = s->reported > 0 ? end_of_step(s, s->reported - 1) : 0;
    struct dsf_timeline own = { 0 };
    struct dsf_shares all = { .busy = 0 };
    struct dsf_timeline *lanes = timeline != NULL ? timeline : &own;

    result->step_seconds = end - begun;
    sort_begun(s);
    find_critical(s, result);
    name_lanes(s, lanes);
    find_bound(s, lanes, result, &all);
    /* One step may begin earlier during the one before than the next during
     * it; in the long run none is faster than the bound. */
    if (result->step_seconds < result->bound_seconds)
        result->step_seconds = result->bound_seconds;
    find_hidden(s, lanes, begun, end, result);
    if (s->wire != NULL)
        find_sent(s, result);
    find_holders(s, begun, result);
    result->efficiency =
        dsf_efficiency(result->bound_seconds, result->step_seconds);
    result->idle =
        dsf_shares_idle(&all, s->spec->workers * result->step_seconds);
    for (uint32_t i = 0; timeline != NULL && i < s->nbegun; i++)
        dsf_timeline_add(timeline,
                         (struct dsf_span[]){ span_of(s, s->order[i]) });
    if (timeline != NULL) {
        dsf_timeline_sort(timeline);
        find_steps(s, lanes, result);
    }
    dsf_timeline_fini(&own);
}
