/* starpu_tensor.c - a piece of data as StarPU sees it: a variable whose copies
 * from one memory to another are timed, and may be slowed down to the speed of
 * a link that is not there. */
#include "config.h"

#include "exec/starpu_private.h"

#include "base/units.h"

#include <time.h>

/* A variable comes first, so that what knows variables knows this. */
struct tensor {
    struct starpu_variable_interface variable;
    struct dsflow_exec *exec;
    uint32_t data;
};

static void sleep_until(double when)
{
    double left = when - dsf_now();
    struct timespec t = { (time_t)left, (long)(1e9 * (left - (time_t)left)) };

    if (left > 0)
        nanosleep(&t, NULL);
}

/* Links stand after the workers: from node 0 to the others, from node 1, … */
static uint16_t lane_of(const struct dsflow_exec *exec, unsigned nodes,
                        unsigned from, unsigned to)
{
    return (uint16_t)(exec->nworkers + from * (nodes - 1) + to - (to > from));
}

/* The copy is done when this returns: PoCL copies on the calling thread, so
 * there is nothing to be won by asking later. */
static int copy(void *from, unsigned from_node, void *to, unsigned to_node,
                void *later)
{
    struct tensor *tensor = from;
    struct dsflow_exec *exec = tensor->exec;
    unsigned nodes = starpu_memory_nodes_get_count();
    double bytes = (double)tensor->variable.elemsize, start = dsf_now();
    int worker = starpu_worker_get_id();
    int ret = starpu_interface_variable_ops.copy_methods->any_to_any(
        from, from_node, to, to_node, NULL);

    if (exec->link_rate > 0)
        sleep_until(start + bytes / exec->link_rate);
    if (from_node == to_node || from_node >= nodes || to_node >= nodes)
        return ret;
    dsf_exec_note(
        exec, worker < 0 ? exec->nworkers + DSF_RING_PROGRAM : (unsigned)worker,
        &(struct dsf_span){
            .start = start - exec->opened,
            .end = dsf_now() - exec->opened,
            .what = tensor->data,
            .lane = lane_of(exec, nodes, from_node, to_node),
            .rank = dsflow_graph_data(exec->graph,
                                      (dsflow_data_id){ tensor->data })
                        ->home,
            .kind = DSF_SPAN_TRANSFER });
    return ret;
}

static const struct starpu_data_copy_methods copy_methods = {
    .any_to_any = copy,
};

static void register_tensor(starpu_data_handle_t handle, int home,
                            void *interface)
{
    struct tensor *tensor = interface;

    starpu_interface_variable_ops.register_data_handle(handle, home, interface);
    for (unsigned node = 0; node < STARPU_MAXNODES; node++) {
        struct tensor *local = starpu_data_get_interface_on_node(handle, node);

        local->exec = tensor->exec;
        local->data = tensor->data;
    }
}

static struct starpu_data_interface_ops tensor_ops;

void dsf_starpu_register(struct dsflow_exec *exec, uint32_t data,
                         starpu_data_handle_t *handle)
{
    struct tensor tensor = {
        .variable = { .id = STARPU_VARIABLE_INTERFACE_ID,
                      .ptr = (uintptr_t)exec->mem[data],
                      .dev_handle = (uintptr_t)exec->mem[data],
                      .elemsize = dsflow_graph_data(exec->graph,
                                                    (dsflow_data_id){ data })
                                      ->bytes },
        .exec = exec,
        .data = data,
    };

    if (exec->mem[data] == NULL) {
        starpu_void_data_register(handle);
        return;
    }
    if (tensor_ops.copy_methods == NULL) {
        tensor_ops = starpu_interface_variable_ops;
        tensor_ops.copy_methods = &copy_methods;
        tensor_ops.register_data_handle = register_tensor;
        tensor_ops.interface_size = sizeof(tensor);
    }
    starpu_data_register(handle, STARPU_MAIN_RAM, &tensor, &tensor_ops);
}

/* 1 + the worker whose memory a node is; 0: main memory. */
static uint16_t worker_of(unsigned node)
{
    for (unsigned w = 0; node > 0 && w < starpu_worker_get_count(); w++)
        if ((unsigned)starpu_worker_get_memory_node(w) == node)
            return (uint16_t)(w + 1);
    return 0;
}

/* In the order of lane_of. */
void dsf_starpu_add_links(struct dsf_timeline *timeline)
{
    unsigned nodes = starpu_memory_nodes_get_count();

    for (unsigned from = 0; from < nodes && nodes > 1; from++)
        for (unsigned to = 0; to < nodes; to++) {
            char a[24] = "memory", b[24] = "memory";

            if (from == to)
                continue;
            if (from > 0)
                snprintf(a, sizeof(a), "device %u", from - 1);
            if (to > 0)
                snprintf(b, sizeof(b), "device %u", to - 1);
            dsf_timeline_add_lane(timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                                  "%s to %s", a, b);
            timeline->lanes[timeline->nlanes - 1].ends[0] = worker_of(from);
            timeline->lanes[timeline->nlanes - 1].ends[1] = worker_of(to);
        }
}
