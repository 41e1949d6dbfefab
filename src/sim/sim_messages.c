/* sim_messages.c - messages between processes: what carries them. */
#include "sim/sim_private.h"

#include "base/alloc.h"
#include "sim/joined.h"

#include <stdio.h>

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

static unsigned find_group(struct sim *s, unsigned first,
                           const struct wire *wire)
{
    struct group *group;
    unsigned i = first;

    while (i < s->ngroups && (s->groups[i].network != wire->network ||
                              s->groups[i].to != wire->to))
        i++;
    if (i < s->ngroups)
        return i;
    group = dsf_sim_add_group(s, DSF_BOUND_LINK, 1);
    group->messages = true;
    group->network = wire->network;
    group->to = wire->to;
    return i;
}

void dsf_sim_add_wires(struct sim *s)
{
    const struct dsf_sim_spec *spec = s->spec;
    unsigned first = s->ngroups;

    if (spec->processes.n < 2)
        return;
    s->wire = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->wire));
    if (spec->delay != NULL)
        s->delay = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->delay));
    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, i);
        struct wire wire;

        if (!dsf_joined_is_message(&spec->processes, s->g, t))
            continue;
        wire = wire_of(s, t);
        s->wire[i] = (uint16_t)(find_group(s, first, &wire) + 1);
        if (s->delay != NULL)
            s->delay[i] = spec->delay(spec->user, s->g, t);
    }
}

void dsf_sim_name_wire(const struct group *group, char *name, size_t size)
{
    if (group->to < 0)
        snprintf(name, size, "%s", group->network ? "network" : "processes");
    else
        snprintf(name, size, "%s %d",
                 group->network ? "into node" : "into process", (int)group->to);
}
