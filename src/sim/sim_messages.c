/* sim_messages.c - messages between processes: what carries them. */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "sim/joined.h"

#include <stdio.h>
#include <stdlib.h>

/* The network into a node, or the link into a process. */
struct wire {
    bool network;
    int32_t to; /* below 0: all nodes, or all processes of a node */
};

static struct wire wire_of(const struct sim *s,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_sim_spec *spec = s->spec;
    const struct dsf_processes *all = &spec->processes;
    int32_t to = dsf_process_of(all, t->rank);
    int32_t node = dsf_process_node(all, spec->on, to);

    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t home = dsflow_graph_data(s->g, t->data[i])->home;

        if (home >= 0 &&
            dsf_process_node(all, spec->on, dsf_process_of(all, home)) != node)
            return (struct wire){ true, spec->one_network ? -1 : node };
    }
    return (struct wire){ false, spec->one_link ? -1 - node : to };
}

/* The group of each wire that carries something, + 1, by the number of the
 * wire: there may be as many as tasks. */
struct wires {
    unsigned *group;
    unsigned nodes, n; /* processes */
};

static unsigned number_of(const struct wires *wires, const struct wire *wire)
{
    const unsigned all_nodes = 0, of_node = 1;
    const unsigned of_process = of_node + wires->nodes;
    const unsigned inside_node = of_process + wires->n;

    if (wire->network)
        return wire->to < 0 ? all_nodes : of_node + (unsigned)wire->to;
    return wire->to < 0 ? inside_node + (unsigned)(-1 - wire->to)
                        : of_process + (unsigned)wire->to;
}

static struct wires new_wires(const struct dsf_sim_spec *spec)
{
    const unsigned nodes = spec->on != NULL ? spec->on->nodes : 0;
    struct wires wires = { .nodes = nodes > 1 ? nodes : 1,
                           .n = (unsigned)spec->processes.n };

    wires.group =
        dsf_xcalloc(1 + 2 * wires.nodes + wires.n, sizeof(*wires.group));
    return wires;
}

static unsigned find_group(struct sim *s, struct wires *wires,
                           const struct wire *wire)
{
    unsigned *at = &wires->group[number_of(wires, wire)];
    struct group *group;

    if (*at > 0)
        return *at - 1;
    *at = s->ngroups + 1;
    group = dsf_sim_add_group(s, DSF_BOUND_LINK, 1);
    group->messages = true;
    group->network = wire->network;
    group->to = wire->to;
    return *at - 1;
}

void dsf_sim_add_wires(struct sim *s)
{
    const struct dsf_sim_spec *spec = s->spec;
    struct wires wires;
    bool tolls = false;

    if (spec->processes.n < 2)
        return;
    wires = new_wires(spec);
    s->wire = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->wire));
    if (spec->delay != NULL)
        s->delay = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->delay));
    if (spec->toll != NULL)
        s->toll = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->toll));
    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, i);
        struct wire wire;

        if (!dsf_joined_is_message(&spec->processes, s->g, t))
            continue;
        wire = wire_of(s, t);
        s->wire[i] = (uint16_t)(find_group(s, &wires, &wire) + 1);
        if (s->delay != NULL)
            s->delay[i] = spec->delay(spec->user, s->g, t);
        if (s->toll != NULL)
            s->toll[i] = spec->toll(spec->user, s->g, t);
        tolls |= s->toll != NULL && s->toll[i] > 0;
    }
    free(wires.group);
    if (!tolls)
        return;
    s->more = dsf_xcalloc((size_t)s->n + 1, sizeof(*s->more));
    s->owed = dsf_xcalloc((size_t)spec->processes.n, sizeof(*s->owed));
}

static void owe(struct sim *s, int32_t process, double seconds)
{
    struct owed *owed = &s->owed[process];

    if (owed->seconds == 0)
        owed->since = s->now;
    owed->seconds += seconds;
}

void dsf_sim_owe(struct sim *s, uint32_t x)
{
    const struct dsf_processes *all = &s->spec->processes;
    const struct dsflow_task_spec *t = dsf_sim_task(s, x);
    const double toll = s->toll[dsf_sim_of(s, x)];
    const int32_t to = dsf_process_of(all, t->rank);
    unsigned n = 0;

    owe(s, to, toll);
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < t->ndata; i++) {
            int32_t home = dsflow_graph_data(s->g, t->data[i])->home;
            int32_t from = home < 0 ? to : dsf_process_of(all, home);

            if (from != to && pass == 0)
                n++;
            else if (from != to)
                owe(s, from, toll / n);
        }
}

void dsf_sim_pay(struct sim *s, uint32_t x, double idle)
{
    const struct dsflow_task_spec *t = dsf_sim_task(s, x);
    struct owed *owed;
    double free;

    if (t->rank < 0)
        return;
    owed = &s->owed[dsf_process_of(&s->spec->processes, t->rank)];
    /* While it had nothing to do, nothing was taken from it. */
    free = s->now - (idle > owed->since ? idle : owed->since);
    s->more[x] = owed->seconds > free ? owed->seconds - free : 0;
    owed->seconds = 0;
}

void dsf_sim_name_wire(const struct group *group, char *name, size_t size)
{
    if (group->to < 0)
        snprintf(name, size, "%s", group->network ? "network" : "processes");
    else
        snprintf(name, size, "%s %d",
                 group->network ? "into node" : "into process", (int)group->to);
}
