/* sim_lanes.c - what tasks run on: workers, links, the cores beside devices,
 * and disks, in groups; and which group an instance is for. */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "sim/cost.h"

static unsigned node_of(const struct dsf_sim_spec *spec, unsigned rank)
{
    return spec->node_ranks > 0 ? rank / spec->node_ranks : 0;
}

/* Where there are fewer of something than ranks, they share it in turn. */
static unsigned share_of(const struct sim *s, unsigned n, unsigned rank)
{
    return n == s->spec->nranks ? rank : rank % n;
}

static unsigned rank_of(int home)
{
    return home == DSFLOW_ANYWHERE ? 0 : (unsigned)home;
}

/* Is all that it has to do with in the memory of the device that does it? */
static bool stays(const struct sim *s, const struct dsflow_task_spec *t)
{
    const unsigned rank = rank_of(t->rank);

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(s->g, t->data[p]);
        const unsigned home = rank_of(d->home);

        if (d->tier != DSFLOW_DEVICE ||
            node_of(s->spec, home) != node_of(s->spec, rank) ||
            share_of(s, s->nworking, home) != share_of(s, s->nworking, rank))
            return false;
    }
    return true;
}

static bool is_between_nodes(const struct sim *s,
                             const struct dsflow_task_spec *t)
{
    const unsigned node = node_of(s->spec, rank_of(t->rank));

    for (unsigned p = 0; t->op->comm && p < t->ndata; p++)
        if (node_of(s->spec,
                    rank_of(dsflow_graph_data(s->g, t->data[p])->home)) != node)
            return true;
    return false;
}

/* Does a link do it? Where it has two ways, an engine that computes nothing
 * does, from one memory to another; and no kernel reads what other nodes have.
 */
static bool is_carried(const struct sim *s, const struct dsflow_task_spec *t)
{
    if (t->op->swaps || !s->spec->two_way)
        return t->op->swaps || t->op->comm;
    return is_between_nodes(s, t) ||
           (dsf_cost_only_copies(t->op) && !stays(s, t));
}

/* On a worker, unless it moves data or is of the host. */
enum dsf_bound dsf_sim_place_of(const struct sim *s,
                                const struct dsflow_task_spec *t)
{
    if (dsf_task_uses(s->g, t, DSFLOW_NVME))
        return !s->spec->duplex           ? DSF_BOUND_DISK
               : dsf_task_brings(s->g, t) ? DSF_BOUND_READS
                                          : DSF_BOUND_WRITES;
    if (!s->spec->links)
        return DSF_BOUND_WORK;
    if (s->spec->two_way && !dsf_task_uses(s->g, t, DSFLOW_DEVICE))
        return DSF_BOUND_HOST;
    if (is_carried(s, t))
        return DSF_BOUND_LINK;
    return dsf_task_uses(s->g, t, DSFLOW_HOST) ? DSF_BOUND_HOST
                                               : DSF_BOUND_WORK;
}

/* Does what a task writes arrive on a device? */
static bool comes_in(const struct sim *s, const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsflow_task_access(t, p) & DSFLOW_W)
            return dsflow_graph_data(s->g, t->data[p])->tier == DSFLOW_DEVICE;
    return false;
}

static unsigned place_group(const struct sim *s,
                            const struct dsflow_task_spec *t)
{
    unsigned rank = rank_of(t->rank);

    switch (dsf_sim_place_of(s, t)) {
    case DSF_BOUND_LINK:
        return !s->spec->two_way
                   ? s->links + rank
                   : s->links + 2 * share_of(s, s->nworking, rank) +
                         (comes_in(s, t) ? 0 : 1);
    case DSF_BOUND_HOST:
        return s->hosts + share_of(s, s->nhosts, rank);
    case DSF_BOUND_DISK:
        return s->disks + node_of(s->spec, rank);
    case DSF_BOUND_READS:
        return s->disks + 2 * node_of(s->spec, rank);
    case DSF_BOUND_WRITES:
        return s->disks + 2 * node_of(s->spec, rank) + 1;
    default:
        break;
    }
    return share_of(s, s->nworking, rank);
}

unsigned dsf_sim_group_of(const struct sim *s, uint32_t x)
{
    return dsf_sim_is_message(s, x) ? s->wire[dsf_sim_of(s, x)] - 1u
                                    : place_group(s, dsf_sim_task(s, x));
}

static bool has(const struct sim *s, enum dsf_bound from, enum dsf_bound to)
{
    for (uint32_t i = 0; i < s->ntasks; i++) {
        enum dsf_bound place = dsf_sim_place_of(s, dsf_sim_task(s, i));

        if (place >= from && place <= to)
            return true;
    }
    return false;
}

struct group *dsf_sim_add_group(struct sim *s, enum dsf_bound kind,
                                unsigned nlanes)
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
    return group;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned cores_beside(const struct dsf_sim_spec *spec)
{
    return spec->host_cores > 0 ? spec->host_cores : spec->nranks;
}

/* Of each sort, and in all: spans have the number of a lane in 16 bits. */
int dsf_sim_count_lanes(struct sim *s, struct dsflow_err *err)
{
    const struct dsf_sim_spec *spec = s->spec;
    const unsigned cores = cores_beside(spec);
    uint64_t n = spec->workers;

    s->nworking = least(spec->nranks, spec->workers);
    s->nlinks = !spec->links    ? 0
                : spec->two_way ? 2 * s->nworking
                                : spec->nranks;
    s->nhosts =
        has(s, DSF_BOUND_HOST, DSF_BOUND_HOST) ? least(spec->nranks, cores) : 0;
    s->ndisks = has(s, DSF_BOUND_DISK, DSF_BOUND_WRITES)
                    ? node_of(spec, spec->nranks - 1) + 1
                    : 0;
    n += s->nlinks + (s->nhosts > 0 ? cores : 0) + 2 * s->ndisks;
    if (spec->processes.n > 1)
        n += 2 * (uint64_t)spec->processes.n;
    return n <= UINT16_MAX
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL,
                             "%llu workers, links and disks: expected at most "
                             "%d to simulate",
                             (unsigned long long)n, UINT16_MAX);
}

/* Lanes in this order: workers, links, the cores beside GPUs, disks. */
void dsf_sim_make_groups(struct sim *s)
{
    const struct dsf_sim_spec *spec = s->spec;
    const unsigned cores = cores_beside(spec);
    unsigned n = spec->workers + 2 * spec->nranks + cores + 2 * s->ndisks +
                 2 * (unsigned)spec->processes.n;

    s->groups = dsf_xcalloc(n, sizeof(*s->groups));
    s->group_of = dsf_xcalloc(n, sizeof(*s->group_of));
    for (unsigned i = 0; i < s->nworking; i++)
        dsf_sim_add_group(s, DSF_BOUND_WORK,
                          dsf_share_of_workers(spec->workers, s->nworking, i));
    s->links = s->ngroups;
    for (unsigned i = 0; i < s->nlinks; i++)
        dsf_sim_add_group(s, DSF_BOUND_LINK, 1);
    dsf_sim_add_wires(s);
    s->hosts = s->ngroups;
    for (unsigned i = 0; i < s->nhosts; i++)
        dsf_sim_add_group(s, DSF_BOUND_HOST,
                          dsf_share_of_workers(cores, s->nhosts, i));
    s->disks = s->ngroups;
    for (unsigned i = 0; i < s->ndisks; i++) {
        if (!spec->duplex) {
            dsf_sim_add_group(s, DSF_BOUND_DISK, 2);
            continue;
        }
        dsf_sim_add_group(s, DSF_BOUND_READS, 1);
        dsf_sim_add_group(s, DSF_BOUND_WRITES, 1);
    }
    s->crowded = spec->cores > 0 &&
                 spec->cores < spec->workers + (s->nhosts > 0 ? cores : 0);
    s->last_on = dsf_xcalloc(s->nlanes, sizeof(*s->last_on));
    for (unsigned i = 0; i < s->nlanes; i++)
        s->last_on[i] = NONE;
    s->busy = dsf_xcalloc(s->nlanes, sizeof(*s->busy));
    s->runs = dsf_xcalloc(s->nlanes, sizeof(*s->runs));
    s->until = dsf_xcalloc(s->nlanes, sizeof(*s->until));
    s->dirty = dsf_xcalloc(s->ngroups, sizeof(*s->dirty));
}
