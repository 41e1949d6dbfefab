/* zero_rows.c - the gradient of an embedding as the rows that the tokens of
 * each rank have touched (sparse gradients of DeepSpeed): each rank packs those
 * of its sum, and adds its piece of what all have packed; all of it with stage
 * 0.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "policies/compress.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* So many packed rows take turns. */
enum { TURNS = 2 };

static const struct dsf_unit *unit_of(const struct dsf_zero *z,
                                      const struct dsflow_task_spec *t)
{
    return &z->plan->model->units[dsf_zero_spec(z, t->data[0])->unit];
}

/* Tokens of a replica whose gradients are in one sum: of those that share its
 * sequences, each has some. */
static int64_t tokens_of(const struct dsf_zero *z)
{
    const struct dsflow_plan *plan = z->plan;
    int64_t micro = plan->reduce_micro ? plan->groups : plan->nmicro;

    return micro / plan->nreplicas * plan->micro * plan->sequence;
}

static struct dsf_rows_args args_of(const struct dsf_zero *z,
                                    const struct dsflow_task_spec *t)
{
    const int64_t tokens = tokens_of(z);
    const int64_t elems = unit_of(z, t)->elems;
    const int64_t width = z->plan->model->dims.width;
    const int64_t rows = z->plan->model->dims.vocab;

    return (struct dsf_rows_args){ .width = width,
                                   .most = tokens < rows ? tokens : rows,
                                   .elems = elems };
}

/* What a rank is sent of each other: with stage 0 the sum has to be gathered.
 */
static int64_t dense_of(const struct dsf_zero *z, int64_t elems)
{
    return (z->stage == 0 ? 2 : 1) * elems / z->data;
}

bool dsf_zero_sends_rows(const struct dsf_zero *z,
                         const struct dsflow_task_spec *t)
{
    struct dsf_rows_args args;

    if (t->op != &dsf_op_add || dsf_zero_spec(z, t->data[0])->unit < 0 ||
        z->plan->nparts > 1 ||
        !dsf_compress_rows(z->plan->job, z->plan->model, unit_of(z, t)))
        return false;
    args = args_of(z, t);
    return dsf_rows_bytes(&args) <
           (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, dense_of(z, args.elems));
}

static void pack(struct dsf_zero *z, const struct dsflow_task_spec *t,
                 const dsflow_data_id *sums, dsflow_data_id *packed)
{
    enum { OUT = 1 };
    const struct dsf_rows_args args = args_of(z, t);
    const int32_t home = dsf_zero_spec(z, t->data[0])->home;

    for (int32_t d = 0; d < z->data; d++) {
        int32_t rank = dsf_zero_beside(z, home, d);

        packed[d] = dsf_zero_take_buffer(z, DSF_ZERO_ROWS, rank,
                                         dsf_rows_bytes(&args), TURNS);
        dsf_add_like(z->rw.out, t, &dsf_op_pack_rows, &args, rank, 1u << OUT, 2,
                     (dsflow_data_id[]){ sums[d], packed[d] });
    }
}

void dsf_zero_sum_rows(struct dsf_zero *z, const struct dsflow_task_spec *t,
                       const dsflow_data_id *sums)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[0]);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, spec);
    const bool all = z->stage == 0, whole = z->stage < 2;
    struct dsf_zero_parts *s = &z->spread[t->data[0].i];
    dsflow_data_id *ports = dsf_xcalloc((size_t)z->data + 1, sizeof(*ports));

    pack(z, t, sums, ports + 1);
    for (int32_t d = 0; d < z->data; d++) {
        struct dsf_rows_args args = args_of(z, t);

        args.dense = dense_of(z, args.elems);
        args.at = all ? 0 : dsf_pieces_at(&pieces, d);
        args.elems = all ? args.elems : dsf_pieces_elems(&pieces, d);
        args.into_at = whole ? args.at : 0;
        if (args.elems == 0)
            continue;
        ports[0] = s->id[d];
        dsf_add_like(z->rw.out, t, &dsf_op_add_rows, &args,
                     dsf_zero_beside(z, spec->home, d), !whole || all,
                     (uint32_t)z->data + 1, ports);
    }
    free(ports);
}
