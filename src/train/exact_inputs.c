/* exact_inputs.c - tasks that round the inputs of matrices from an update on.
 */
#include "train/exact_inputs.h"

#include "base/alloc.h"
#include "exec/exec_use.h"
#include "model/model_inputs.h"
#include "tasks/tile.h"

#include <stdlib.h>
#include <string.h>

struct dsf_exact_task {
    dsflow_task_id id;
    struct dsf_exec_use use;
    _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS];
};

static bool rounds(const struct dsflow_task_spec *t)
{
    const struct dsflow_tile *tile = dsf_task_tile(t);

    return tile != NULL && dsf_tile_rounds(tile);
}

static void make_exact(struct dsf_exact_task *e, dsflow_task_id id,
                       const struct dsflow_task_spec *t)
{
    struct dsflow_tile tile = *dsf_task_tile(t);

    tile.input_quantizer = DSF_UNQUANTIZED;
    memcpy(e->args, t->args, t->op->args_size);
    memcpy(e->args, &tile, sizeof(tile));
    e->id = id;
    e->use = (struct dsf_exec_use){ .fresh = t->fresh, .args = e->args };
}

static void tell(const struct dsf_exact_inputs *r, struct dsflow_exec *exec)
{
    for (uint32_t i = 0; i < r->n; i++)
        dsf_exec_set_use(exec, r->v[i].id, r->waits ? &r->v[i].use : NULL);
}

void dsf_exact_inputs_init(struct dsf_exact_inputs *r,
                           const struct dsf_job *job,
                           const struct dsflow_graph *graph,
                           struct dsflow_exec *exec)
{
    const uint32_t ntasks = dsflow_graph_ntasks(graph);
    uint32_t n = 0;

    *r = (struct dsf_exact_inputs){ .waits = dsf_inputs_wait(job, 0) };
    if (!r->waits)
        return;
    for (uint32_t i = 0; i < ntasks; i++)
        r->n += rounds(dsflow_graph_task(graph, (dsflow_task_id){ i }));
    r->v = dsf_xcalloc(r->n, sizeof(*r->v));
    for (uint32_t i = 0; i < ntasks; i++) {
        const dsflow_task_id id = { i };
        const struct dsflow_task_spec *t = dsflow_graph_task(graph, id);

        if (rounds(t))
            make_exact(&r->v[n++], id, t);
    }
    tell(r, exec);
}

void dsf_exact_inputs_fini(struct dsf_exact_inputs *r)
{
    free(r->v);
    *r = (struct dsf_exact_inputs){ .n = 0 };
}

void dsf_exact_inputs_set(struct dsf_exact_inputs *r, const struct dsf_job *job,
                          struct dsflow_exec *exec, int64_t updates)
{
    r->waits = dsf_inputs_wait(job, updates);
    tell(r, exec);
}
