/* hosts.c - the hosts of a run, as its first process knows them. */
#include "train/hosts.h"

#include "base/alloc.h"
#include "net/pass.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Beside those of src/train/together.c. */
enum { FACTS = DSF_OWN_TAGS + 40 };

/* What a process may use. */
struct facts {
    cpu_set_t mask;
    int64_t cores, memory, available;
};

static int find_facts(struct facts *f, struct dsflow_err *err)
{
    struct dsf_machine machine;
    int status = dsf_machine_probe(&machine, err);

    memset(f, 0, sizeof(*f));
    if (status < 0)
        return status;
    if (sched_getaffinity(0, sizeof(f->mask), &f->mask) < 0)
        CPU_ZERO(&f->mask); /* more processors than a mask has bits for */
    f->cores = machine.cores;
    f->memory = machine.memory;
    f->available = machine.available;
    return DSFLOW_OK;
}

/* A node, of what its processes say. */
struct node {
    unsigned processes;
    cpu_set_t mask;
    bool apart; /* no two of them may use the same core */
    int64_t most, sum;
    int64_t memory, available;
};

static void add(struct node *node, const struct facts *f)
{
    cpu_set_t both;

    CPU_AND(&both, &node->mask, &f->mask);
    if (node->processes++ == 0) {
        node->apart = true;
        node->memory = f->memory;
        node->available = f->available;
    }
    node->apart = node->apart && CPU_COUNT(&both) == 0;
    CPU_OR(&node->mask, &node->mask, &f->mask);
    node->sum += f->cores;
    node->most = f->cores > node->most ? f->cores : node->most;
    node->memory = f->memory > node->memory ? f->memory : node->memory;
    node->available =
        f->available < node->available ? f->available : node->available;
}

/* As many for each of all processes as each of the node's can have. */
static int64_t of_all(const struct dsf_hosts *h, const struct node *node,
                      int64_t amount)
{
    return amount == INT64_MAX || amount < 0
               ? amount
               : (int64_t)((double)amount * h->processes / node->processes);
}

static void add_up(struct dsf_hosts *h, const struct node *nodes)
{
    for (unsigned i = 0; i < h->nodes; i++) {
        const struct node *n = &nodes[i];
        unsigned cores = (unsigned)of_all(
            h, n, n->apart && n->processes > 1 ? n->sum : n->most);
        int64_t memory = of_all(h, n, n->memory);
        int64_t available = of_all(h, n, n->available);

        h->cores = i == 0 || cores < h->cores ? cores : h->cores;
        h->memory = i == 0 || memory < h->memory ? memory : h->memory;
        h->available =
            i == 0 || available < h->available ? available : h->available;
    }
}

static void number(struct dsf_hosts *h, const struct dsf_wire *wire)
{
    h->processes = (unsigned)wire->nprocesses;
    h->node_of = dsf_xcalloc(h->processes, sizeof(*h->node_of));
    for (int32_t p = 0; p < wire->nprocesses; p++) {
        int32_t first = 0;

        while (!dsf_wire_is_near(wire, first, p))
            first++;
        h->node_of[p] = first == p ? (int32_t)h->nodes++ : h->node_of[first];
    }
}

static int receive(struct dsf_hosts *h, struct dsf_wire *wire,
                   const struct facts *own, struct dsflow_err *err)
{
    struct node *nodes;
    int status = DSFLOW_OK;

    number(h, wire);
    nodes = dsf_xcalloc(h->nodes, sizeof(*nodes));
    add(&nodes[0], own);
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++) {
        struct facts f;

        status = dsf_pass(wire, false, p, FACTS, &f, sizeof(f), err);
        if (status == DSFLOW_OK)
            add(&nodes[h->node_of[p]], &f);
    }
    if (status == DSFLOW_OK)
        add_up(h, nodes);
    free(nodes);
    return status;
}

int dsf_hosts_gather(struct dsf_hosts *h, struct dsf_wire *wire,
                     struct dsflow_err *err)
{
    struct facts own;
    int status = find_facts(&own, err);

    memset(h, 0, sizeof(*h));
    if (status < 0)
        return status;
    return wire->process == 0
               ? receive(h, wire, &own, err)
               : dsf_pass(wire, true, 0, FACTS, &own, sizeof(own), err);
}

void dsf_hosts_fini(struct dsf_hosts *h)
{
    free(h->node_of);
    memset(h, 0, sizeof(*h));
}

void dsf_hosts_join(const struct dsf_hosts *h, struct dsf_machine *machine)
{
    if (h->processes < 2)
        return;
    machine->processes = h->processes;
    machine->nodes = h->nodes;
    machine->node_of = h->node_of;
    machine->node_cores = machine->cores;
    machine->cores = h->cores;
    machine->memory = h->memory;
    machine->available = h->available;
}
