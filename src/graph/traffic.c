/* traffic.c - what tasks read of other ranks. */
#include "graph/traffic.h"

#include "graph/task.h"

const char *dsf_wires_str(enum dsf_wires wires)
{
    static const char *const names[DSF_NWIRES] = {
        [DSF_WIRES_INSIDE] = "inside", [DSF_WIRES_BETWEEN] = "between"
    };

    return names[wires];
}

struct dsf_traffic dsf_traffic_of(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t,
                                  const int32_t *node_of)
{
    struct dsf_traffic sum = { { 0 }, { 0 } };

    for (unsigned i = 0; i < t->ndata && t->op->comm; i++) {
        double bytes = dsf_task_moves(g, t, i);
        int home = dsflow_graph_data(g, t->data[i])->home;
        enum dsf_wires w;

        if (!(bytes > 0))
            continue;
        w = node_of != NULL && node_of[home] != node_of[t->rank]
                ? DSF_WIRES_BETWEEN
                : DSF_WIRES_INSIDE;
        sum.bytes[w] += bytes;
        sum.dense[w] += dsf_task_dense(g, t, i);
    }
    return sum;
}

void dsf_traffic_add(struct dsf_traffic *to, const struct dsf_traffic *of)
{
    for (int w = 0; w < DSF_NWIRES; w++) {
        to->bytes[w] += of->bytes[w];
        to->dense[w] += of->dense[w];
    }
}

double dsf_traffic_bytes(const struct dsf_traffic *t)
{
    return t->bytes[DSF_WIRES_INSIDE] + t->bytes[DSF_WIRES_BETWEEN];
}

double dsf_traffic_dense(const struct dsf_traffic *t)
{
    return t->dense[DSF_WIRES_INSIDE] + t->dense[DSF_WIRES_BETWEEN];
}
