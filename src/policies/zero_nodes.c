/* zero_nodes.c - sums of gradients in two levels (qgZ of ZeRO++: Wang et al.
 * 2023): those of the groups of a node are added there and coded again, and
 * each rank adds its piece of what all nodes have.
 *
 * Where the groups of a node are those of m ranks, each of these does one of m
 * runs of pieces. Where one rank has all groups of a node, it does all pieces,
 * and no group need be coded by itself.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* So many sums take turns: what was made before may still be read. */
enum { TURNS = 2 };

static int32_t node_of(const struct dsflow_task_spec *t)
{
    return (int32_t)((const struct dsf_add_recoded_args *)t->args)->node;
}

/* Groups of a data rank. */
static int32_t groups_of(const struct dsf_zero *z,
                         const struct dsflow_task_spec *t)
{
    return (int32_t)t->ndata / z->data;
}

bool dsf_zero_node_in_rank(const struct dsf_zero *z,
                           const struct dsflow_task_spec *t)
{
    return groups_of(z, t) % node_of(t) == 0;
}

int32_t dsf_zero_node_runs(const struct dsf_zero *z,
                           const struct dsflow_task_spec *t)
{
    const int32_t node = node_of(t), groups = groups_of(z, t);

    return node % groups == 0 ? node / groups : 1;
}

/* The sum of the gradients of node `j`, onto that of its first group. */
static dsflow_data_id add_here(struct dsf_zero *z,
                               const struct dsflow_task_spec *t, int32_t j)
{
    const int32_t node = node_of(t);
    struct dsf_add_recoded_args args =
        *(const struct dsf_add_recoded_args *)t->args;
    dsflow_data_id *ports = dsf_xcalloc((size_t)node, sizeof(*ports)), sum;

    for (int32_t i = 0; i < node; i++)
        ports[i] = dsf_zero_gradient(z, t->data[j * node + i]);
    args.node = 0;
    dsf_add_like(z->rw.out, t, &dsf_op_add_recoded, &args,
                 dsf_zero_spec(z, t->data[j * node])->home, 0, (uint32_t)node,
                 ports);
    sum = ports[0];
    free(ports);
    return sum;
}

/* Numbers at .. at+elems of the sum of node `j`, on a rank, of what its groups
 * have coded. */
static dsflow_data_id add_coded(struct dsf_zero *z,
                                const struct dsflow_task_spec *t,
                                const dsflow_data_id *packed, int32_t j,
                                int32_t rank, int64_t at, int64_t elems)
{
    const int32_t node = node_of(t);
    const struct dsf_compressed_args args = {
        .coding = ((const struct dsf_add_recoded_args *)t->args)->coding,
        .elems = elems,
        .at = at,
    };
    dsflow_data_id *ports = dsf_xcalloc((size_t)node + 1, sizeof(*ports)), sum;

    ports[0] = sum = dsf_zero_take_buffer(z, DSF_ZERO_SUM, rank, elems, TURNS);
    for (int32_t i = 0; i < node; i++)
        ports[1 + i] = packed[j * node + i];
    dsf_add_like(z->rw.out, t, &dsf_op_add_compressed, &args, rank, 1,
                 (uint32_t)node + 1, ports);
    free(ports);
    return sum;
}

/* Run `i` of node `j`, coded. */
static dsflow_data_id make_run(struct dsf_zero *z,
                               const struct dsflow_task_spec *t,
                               const struct dsf_pieces *pieces,
                               const dsflow_data_id *packed, int32_t runs,
                               int32_t j, int32_t i)
{
    const struct dsf_coding *coding =
        &((const struct dsf_add_recoded_args *)t->args)->coding;
    const int64_t at = dsf_pieces_run_at(pieces, runs, i);
    const int64_t elems = dsf_pieces_run_at(pieces, runs, i + 1) - at;
    const int32_t first = j * node_of(t) / groups_of(z, t);
    const int32_t rank =
        dsf_zero_beside(z, dsf_zero_spec(z, t->data[0])->home, first + i);
    const int32_t nodes = groups_of(z, t) / node_of(t);
    dsflow_data_id sum, out;

    if (elems == 0)
        return dsf_no_data();
    out = dsf_zero_take_buffer(z, DSF_ZERO_RECODED, rank,
                               dsf_coding_bytes(coding, at, elems),
                               TURNS * (uint32_t)(nodes + 1));
    sum = dsf_zero_node_in_rank(z, t)
              ? add_here(z, t, j)
              : add_coded(z, t, packed, j, rank, at, elems);
    dsf_zero_compress(z, t, coding, rank, at, elems, 0, sum, out);
    return out;
}

void dsf_zero_sum_nodes(struct dsf_zero *z, const struct dsflow_task_spec *t,
                        const struct dsf_pieces *pieces,
                        const dsflow_data_id *packed,
                        struct dsf_zero_terms *terms)
{
    const int32_t runs = dsf_zero_node_runs(z, t);
    const int32_t nodes = (int32_t)t->ndata / node_of(t);

    *terms = (struct dsf_zero_terms){ dsf_xcalloc((size_t)(nodes * runs),
                                                  sizeof(*terms->v)),
                                      (uint32_t)nodes, runs };
    for (int32_t j = 0; j < nodes; j++)
        for (int32_t i = 0; i < runs; i++)
            terms->v[j * runs + i] = make_run(z, t, pieces, packed, runs, j, i);
}
