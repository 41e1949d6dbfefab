/* zero_nodes.c - sums of gradients in two levels (qgZ of ZeRO++: Wang et al.
 * 2023): those of the groups of a node are added there and coded again, and
 * each rank adds its piece of what all nodes have.
 *
 * Where the groups of a node are those of m ranks, each of these does one of m
 * runs of pieces. Where one rank has all groups of a node, it does all pieces,
 * and no group need be coded by itself.
 *
 * Where the errors of these sums are carried over, the policy `reference` has
 * said each node by itself: a sum, its error, and then the sum of all nodes.
 * What one rank does alone stays as it is; else each rank of a node does its
 * run, and has the errors of that.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* So many sums take turns: what was made before may still be read. */
enum { TURNS = 2 };

enum { CONTROL, GRAD, ERROR }; /* of `feed_back` */

/* The sum of a node: the task that adds it up; and its runs, or those of its
 * error: NULL where it is on one rank. */
struct dsf_zero_node {
    const struct dsflow_task_spec *sum;
    dsflow_data_id *runs; /* summed, and then coded */
};

bool dsf_zero_node_in_rank(const struct dsf_zero *z, int64_t node)
{
    return dsf_zero_groups(z) % node == 0;
}

/* How many runs of pieces the ranks of a node have each one of. */
static int32_t runs_of(const struct dsf_zero *z, int64_t node)
{
    const int32_t groups = dsf_zero_groups(z);

    return node % groups == 0 ? (int32_t)node / groups : 1;
}

/* Numbers of a unit that a rank of a node has. */
struct run {
    int32_t rank;
    int64_t at, elems;
};

/* Run `i` of a node, whose first group has the gradient `first`. */
static struct run run_of(const struct dsf_zero *z, dsflow_data_id first,
                         int32_t runs, int32_t i)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, first);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, spec);
    const int64_t at = dsf_pieces_run_at(&pieces, runs, i);

    return (struct run){ dsf_zero_beside(z, spec->home,
                                         dsf_zero_replica(z, spec->home) + i),
                         at, dsf_pieces_run_at(&pieces, runs, i + 1) - at };
}

/* Where a run is put when it is coded: a rank has some nodes begin there. */
static dsflow_data_id take_recoded(struct dsf_zero *z,
                                   const struct dsf_coding *coding,
                                   int64_t node, const struct run *run)
{
    const int64_t nodes = dsf_zero_groups(z) / node;

    return dsf_zero_take_buffer(z, DSF_ZERO_RECODED, run->rank,
                                dsf_coding_bytes(coding, run->at, run->elems),
                                TURNS * (uint32_t)(nodes + 1));
}

/* The sum of the gradients of `n` groups, onto that of the first. */
static dsflow_data_id add_here(struct dsf_zero *z,
                               const struct dsflow_task_spec *t,
                               const dsflow_data_id *of, int32_t n)
{
    struct dsf_add_recoded_args args =
        *(const struct dsf_add_recoded_args *)t->args;
    dsflow_data_id *ports = dsf_xcalloc((size_t)n, sizeof(*ports)), sum;

    for (int32_t i = 0; i < n; i++)
        ports[i] = dsf_zero_gradient(z, of[i]);
    args.node = 0;
    dsf_add_like(z->rw.out, t, &dsf_op_add_recoded, &args,
                 dsf_zero_spec(z, of[0])->home, 0, (uint32_t)n, ports);
    sum = ports[0];
    free(ports);
    return sum;
}

/* The sum of a run of what `n` groups have coded. */
static dsflow_data_id add_coded(struct dsf_zero *z,
                                const struct dsflow_task_spec *t,
                                const dsflow_data_id *packed, int32_t n,
                                const struct run *run)
{
    const struct dsf_compressed_args args = {
        .coding = ((const struct dsf_add_recoded_args *)t->args)->coding,
        .elems = run->elems,
        .at = run->at,
    };
    dsflow_data_id *ports = dsf_xcalloc((size_t)n + 1, sizeof(*ports)), sum;

    ports[0] = sum =
        dsf_zero_take_buffer(z, DSF_ZERO_SUM, run->rank, run->elems, TURNS);
    for (int32_t i = 0; i < n; i++)
        ports[1 + i] = packed[i];
    dsf_add_like(z->rw.out, t, &dsf_op_add_compressed, &args, run->rank, 1,
                 (uint32_t)n + 1, ports);
    free(ports);
    return sum;
}

/* Run `i` of node `j`, coded. */
static dsflow_data_id make_run(struct dsf_zero *z,
                               const struct dsflow_task_spec *t,
                               const dsflow_data_id *packed, int32_t runs,
                               int32_t j, int32_t i)
{
    const struct dsf_add_recoded_args *a = t->args;
    const int32_t node = (int32_t)a->node;
    const dsflow_data_id *of = t->data + j * node;
    const struct run run = run_of(z, of[0], runs, i);
    dsflow_data_id sum, out;

    if (run.elems == 0)
        return dsf_no_data();
    out = take_recoded(z, &a->coding, node, &run);
    sum = dsf_zero_node_in_rank(z, node)
              ? add_here(z, t, of, node)
              : add_coded(z, t, packed + j * node, node, &run);
    dsf_zero_compress(z, t, &a->coding, run.rank, run.at, run.elems, sum, out);
    return out;
}

void dsf_zero_sum_nodes(struct dsf_zero *z, const struct dsflow_task_spec *t,
                        const dsflow_data_id *packed,
                        struct dsf_zero_terms *terms)
{
    const int64_t node = ((const struct dsf_add_recoded_args *)t->args)->node;
    const int32_t runs = runs_of(z, node);
    const int32_t nodes = (int32_t)(t->ndata / node);

    *terms = (struct dsf_zero_terms){ dsf_xcalloc((size_t)(nodes * runs),
                                                  sizeof(*terms->v)),
                                      (uint32_t)nodes, runs };
    for (int32_t j = 0; j < nodes; j++)
        for (int32_t i = 0; i < runs; i++)
            terms->v[j * runs + i] = make_run(z, t, packed, runs, j, i);
}

/* --- with errors ---------------------------------------------------------- */

static dsflow_data_id *new_runs(struct dsf_zero_node *node, int32_t n)
{
    if (node->runs == NULL)
        node->runs = dsf_xcalloc((size_t)n, sizeof(*node->runs));
    for (int32_t i = 0; i < n; i++)
        node->runs[i] = dsf_no_data();
    return node->runs;
}

bool dsf_zero_add_node(struct dsf_zero *z, const struct dsflow_task_spec *t,
                       bool crosses)
{
    const struct dsf_add_recoded_args *a = t->args;
    const int32_t n = (int32_t)t->ndata;
    struct dsf_zero_node *node;
    dsflow_data_id *packed, *of;
    int32_t runs;

    if (t->op != &dsf_op_add_recoded || !a->inner)
        return false;
    node = &z->nodes[t->data[0].i];
    node->sum = t;
    if (!crosses)
        return false;
    runs = runs_of(z, n);
    packed = dsf_xcalloc(t->ndata, sizeof(*packed));
    dsf_zero_compress_groups(z, t, packed);
    of = new_runs(node, runs);
    for (int32_t i = 0; i < runs; i++) {
        const struct run run = run_of(z, t->data[0], runs, i);

        if (run.elems > 0)
            of[i] = add_coded(z, t, packed, n, &run);
    }
    free(packed);
    return true;
}

/* The error of a run, which its rank has. */
static dsflow_data_id error_of(struct dsf_zero *z, dsflow_data_id error,
                               int32_t runs, int32_t i, const struct run *run)
{
    struct dsflow_data_spec spec = *dsf_zero_spec(z, error);
    struct dsf_zero_node *node = &z->nodes[error.i];

    if (node->runs == NULL)
        new_runs(node, runs);
    if (!dsf_is_data(node->runs[i])) {
        spec.home = (int16_t)run->rank;
        spec.at += run->at;
        spec.elems = run->elems;
        node->runs[i] =
            dsflow_rewrite_named(z->rw.out, &spec, "%s.s%d", spec.name, i);
    }
    return node->runs[i];
}

static void feed_run(struct dsf_zero *z, const struct dsflow_task_spec *t,
                     int32_t runs, int32_t i)
{
    struct dsf_zero_node *node = &z->nodes[t->data[GRAD].i];
    const struct run run = run_of(z, t->data[GRAD], runs, i);
    struct dsf_feed_back_args args =
        *(const struct dsf_feed_back_args *)t->args;
    const int64_t gone[] = { [GRAD] = run.at, [ERROR] = run.at };
    dsflow_data_id out;

    if (run.elems == 0)
        return;
    t->op->slice(&args, run.at, run.elems, gone);
    dsf_add_like(z->rw.out, t, t->op, &args, run.rank, 0, 3,
                 (dsflow_data_id[]){
                     dsflow_rewrite_data(&z->rw, t->data[CONTROL]),
                     node->runs[i],
                     error_of(z, t->data[ERROR], runs, i, &run),
                 });
    out = take_recoded(z, &args.coding, node->sum->ndata, &run);
    dsf_zero_compress(z, t, &args.coding, run.rank, run.at, run.elems,
                      node->runs[i], out);
    node->runs[i] = out;
}

bool dsf_zero_feed_node(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsf_zero_node *node;
    int32_t runs;

    if (t->op != &dsf_op_feed_back)
        return false;
    node = &z->nodes[t->data[GRAD].i];
    if (node->runs == NULL)
        return false;
    runs = runs_of(z, node->sum->ndata);
    for (int32_t i = 0; i < runs; i++)
        feed_run(z, t, runs, i);
    return true;
}

bool dsf_zero_adds_sums(const struct dsf_zero *z,
                        const struct dsflow_task_spec *t)
{
    for (uint32_t i = 0; i < t->ndata; i++)
        if (t->op == &dsf_op_add_recoded && z->nodes[t->data[i].i].runs != NULL)
            return true;
    return false;
}

/* What all ranks read of a node that one of them has. */
static dsflow_data_id send_sum(struct dsf_zero *z,
                               const struct dsflow_task_spec *t,
                               dsflow_data_id sum)
{
    const struct dsf_add_recoded_args *a = t->args;
    const struct run run = run_of(z, sum, 1, 0);
    dsflow_data_id out =
        take_recoded(z, &a->coding, z->nodes[sum.i].sum->ndata, &run);

    dsf_zero_compress(z, t, &a->coding, run.rank, run.at, run.elems,
                      dsf_zero_gradient(z, sum), out);
    return out;
}

void dsf_zero_send_sums(struct dsf_zero *z, const struct dsflow_task_spec *t,
                        struct dsf_zero_terms *terms)
{
    const int32_t nodes = (int32_t)t->ndata;
    const int32_t runs = runs_of(z, z->nodes[t->data[0].i].sum->ndata);

    *terms = (struct dsf_zero_terms){ dsf_xcalloc((size_t)(nodes * runs),
                                                  sizeof(*terms->v)),
                                      (uint32_t)nodes, runs };
    for (int32_t j = 0; j < nodes; j++) {
        struct dsf_zero_node *node = &z->nodes[t->data[j].i];

        for (int32_t i = 0; i < runs; i++)
            terms->v[j * runs + i] =
                node->runs != NULL ? node->runs[i] : send_sum(z, t, t->data[j]);
        free(node->runs);
        node->runs = NULL;
    }
}

void dsf_zero_first_of_sums(struct dsf_zero *z,
                            const struct dsflow_task_spec *t,
                            dsflow_data_id *first)
{
    const int32_t groups = dsf_zero_groups(z);
    int32_t at = 0;

    for (uint32_t j = 0; j < t->ndata; j++) {
        const struct dsflow_task_spec *sum = z->nodes[t->data[j].i].sum;

        for (uint32_t i = 0; i < sum->ndata; i++, at++)
            if (at % groups == 0)
                first[at / groups] = dsf_zero_gradient(z, sum->data[i]);
    }
}

void dsf_zero_begin_nodes(struct dsf_zero *z)
{
    z->nodes = dsf_xcalloc((size_t)dsflow_graph_ndata(z->rw.in) + 1,
                           sizeof(*z->nodes));
}

void dsf_zero_end_nodes(struct dsf_zero *z)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(z->rw.in); i++)
        free(z->nodes[i].runs);
    free(z->nodes);
}
