/* zero_compress.c - gradients that data ranks send each other in another format
 * (policy compress): each rank codes those of its groups, and decodes and adds
 * the range that is its shard of those of all; or of those of all nodes
 * (zero_nodes.c). Where a rank has so many groups that these would be more
 * bytes than their sum is, it sends the sum, of what they are when they have
 * been coded: the same bits. zero_coded.c does parameters.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* Buffers of one size for one use, on one rank. */
struct dsf_zero_ring {
    int64_t elems;
    enum dsf_zero_use use;
    uint32_t turn;
    uint32_t next; /* of the same rank: +1 */
};

static struct dsf_zero_ring *ring_of(struct dsf_zero *z, int32_t rank,
                                     enum dsf_zero_use use, int64_t elems)
{
    uint32_t at = z->first_ring[rank];

    while (at != 0 &&
           (z->rings[at - 1].elems != elems || z->rings[at - 1].use != use))
        at = z->rings[at - 1].next;
    if (at == 0) {
        dsf_grow(&z->rings, &z->cap_rings, z->nrings + 1, sizeof(*z->rings));
        z->rings[z->nrings] = (struct dsf_zero_ring){
            .elems = elems, .use = use, .next = z->first_ring[rank]
        };
        at = z->first_ring[rank] = (uint32_t)++z->nrings;
    }
    return &z->rings[at - 1];
}

dsflow_data_id dsf_zero_take_buffer(struct dsf_zero *z, enum dsf_zero_use use,
                                    int32_t rank, int64_t elems,
                                    uint32_t length)
{
    static const char *const names[] = { [DSF_ZERO_CODED] = "coded",
                                         [DSF_ZERO_SUM] = "node",
                                         [DSF_ZERO_RECODED] = "recoded",
                                         [DSF_ZERO_RELAYED] = "relay",
                                         [DSF_ZERO_ROWS] = "rows" };
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = elems,
                    .dtype = use == DSF_ZERO_SUM ? DSFLOW_FP32 : DSFLOW_BYTES,
                    .role = DSFLOW_BUFFERS, .home = (int16_t)rank, .unit = -1);
    struct dsf_zero_ring *ring = ring_of(z, rank, use, elems);

    return dsflow_rewrite_named(z->rw.out, &spec, "%s.z%lld.%u.r%d", names[use],
                                (long long)elems, ring->turn++ % length,
                                (int)rank);
}

/* So many buffers take turns: what was coded before may still be read. */
enum { TURNS = 2 };

void dsf_zero_compress(struct dsf_zero *z, const struct dsflow_task_spec *like,
                       const struct dsf_coding *coding, int32_t rank,
                       int64_t at, int64_t elems, dsflow_data_id in,
                       dsflow_data_id out)
{
    enum { OUT = 1 };
    const struct dsf_compress_args args = {
        .coding = *coding, .elems = elems, .at = at, .out_at = at
    };

    dsf_add_like(z->rw.out, like, &dsf_op_compress, &args, rank, 1u << OUT, 2,
                 (dsflow_data_id[]){ in, out });
}

/* --- sums of gradients ---------------------------------------------------- */

/* The groups of a node are of several ranks: what one has is no term of the
 * sum. Else a rank may have so many terms that their sum is fewer bytes. */
bool dsf_zero_sends_groups(const struct dsf_zero *z,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_add_recoded_args *a = t->args;
    int64_t terms = (int64_t)t->ndata / z->data;

    if (t->op != &dsf_op_add_recoded)
        return false;
    if (dsf_zero_adds_sums(z, t) ||
        (a->node > 0 && !dsf_zero_node_in_rank(z, a->node)))
        return true;
    terms /= a->node > 0 ? a->node : 1;
    return terms * dsf_coding_bytes(&a->coding, 0, a->elems) <
           (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, a->elems);
}

int32_t dsf_zero_groups(const struct dsf_zero *z)
{
    return dsf_plan_sums(z->plan) / z->data;
}

void dsf_zero_compress_groups(struct dsf_zero *z,
                              const struct dsflow_task_spec *t,
                              dsflow_data_id *packed)
{
    const struct dsf_add_recoded_args *a = t->args;
    const int64_t bytes = dsf_coding_bytes(&a->coding, 0, a->elems);
    const uint32_t length = TURNS * (a->inner ? (uint32_t)dsf_zero_groups(z)
                                              : t->ndata / (uint32_t)z->data);

    for (uint32_t i = 0; i < t->ndata; i++) {
        int32_t rank = dsf_zero_spec(z, t->data[i])->home;
        dsflow_data_id grad = dsf_zero_gradient(z, t->data[i]);

        packed[i] =
            dsf_zero_take_buffer(z, DSF_ZERO_CODED, rank, bytes, length);
        dsf_zero_compress(z, t, &a->coding, rank, 0, a->elems, grad, packed[i]);
    }
}

/* The first gradient of each rank: those of a rank follow each other. */
static void first_of_ranks(struct dsf_zero *z, const struct dsflow_task_spec *t,
                           dsflow_data_id *first)
{
    const uint32_t each = t->ndata / (uint32_t)z->data;

    if (dsf_zero_adds_sums(z, t)) {
        dsf_zero_first_of_sums(z, t, first);
        return;
    }
    for (uint32_t i = 0; i < t->ndata; i += each)
        first[i / each] = dsf_zero_gradient(z, t->data[i]);
}

/* What is sent, of all groups or of all nodes. */
static void send_terms(struct dsf_zero *z, const struct dsflow_task_spec *t,
                       struct dsf_zero_terms *terms)
{
    const struct dsf_add_recoded_args *a = t->args;
    dsflow_data_id *packed;

    if (dsf_zero_adds_sums(z, t)) {
        dsf_zero_send_sums(z, t, terms);
        return;
    }
    packed = dsf_xcalloc(t->ndata, sizeof(*packed));
    *terms = (struct dsf_zero_terms){ packed, t->ndata, 1 };
    if (a->node == 0 || !dsf_zero_node_in_rank(z, a->node))
        dsf_zero_compress_groups(z, t, packed);
    if (a->node == 0)
        return;
    dsf_zero_sum_nodes(z, t, packed, terms);
    free(packed);
}

/* The run of pieces that piece `d` is in. */
static int32_t run_with(const struct dsf_pieces *pieces, int32_t runs,
                        int32_t d)
{
    int32_t run = (int32_t)((int64_t)d * runs / pieces->members);

    while ((int64_t)(run + 1) * pieces->members / runs <= d)
        run++;
    return run;
}

/* Piece `d` of the sum, on its rank. */
static void add_terms(struct dsf_zero *z, const struct dsflow_task_spec *t,
                      const struct dsf_pieces *pieces,
                      const struct dsf_zero_terms *terms, int32_t d,
                      dsflow_data_id into)
{
    const bool whole = z->stage < 2;
    const int32_t run = run_with(pieces, terms->runs, d);
    const struct dsf_compressed_args args = {
        .coding = ((const struct dsf_add_recoded_args *)t->args)->coding,
        .elems = dsf_pieces_elems(pieces, d),
        .at = dsf_pieces_at(pieces, d),
        .into_at = whole ? dsf_pieces_at(pieces, d) : 0,
        .in_at = dsf_pieces_run_at(pieces, terms->runs, run),
    };
    dsflow_data_id *ports;

    if (args.elems == 0)
        return;
    ports = dsf_xcalloc((size_t)terms->n + 1, sizeof(*ports));
    ports[0] = into;
    for (uint32_t i = 0; i < terms->n; i++)
        ports[1 + i] = terms->v[i * (uint32_t)terms->runs + (uint32_t)run];
    dsf_add_like(z->rw.out, t, &dsf_op_add_compressed, &args,
                 dsf_zero_beside(z, dsf_zero_spec(z, t->data[0])->home, d),
                 !whole, terms->n + 1, ports);
    free(ports);
}

void dsf_zero_sum_groups(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsf_add_recoded_args *a = t->args;
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[0]);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, spec);
    struct dsf_zero_parts *s = &z->spread[t->data[0].i];
    dsflow_data_id *first = dsf_xcalloc((size_t)z->data, sizeof(*first));
    struct dsf_zero_terms terms;

    first_of_ranks(z, t, first);
    send_terms(z, t, &terms);
    dsf_zero_spread_sums(z, t->data[0], first);
    s->shards |= a->shards != 0;
    for (int32_t d = 0; d < z->data; d++)
        add_terms(z, t, &pieces, &terms, d, s->id[d]);
    if (z->stage == 0 && !a->shards)
        dsf_zero_share(z, t, &dsf_op_all_gather, spec, s->id, s->id);
    free(terms.v);
    free(first);
}

/* --- all of it ------------------------------------------------------------ */

void dsf_zero_begin_coded(struct dsf_zero *z)
{
    const struct dsflow_task_spec *t;

    z->coded = dsf_xcalloc((size_t)dsflow_graph_ndata(z->rw.in) + 1,
                           sizeof(*z->coded));
    z->first_ring =
        dsf_xcalloc((size_t)z->plan->nranks, sizeof(*z->first_ring));
    for (uint32_t i = 0; (t = dsf_nth_task(z->rw.in, i)) != NULL; i++)
        if (t->op == &dsf_op_recode)
            z->coded[t->data[1].i].coding =
                &((const struct dsf_recode_args *)t->args)->coding;
}

void dsf_zero_end_coded(struct dsf_zero *z)
{
    free(z->coded);
    free(z->first_ring);
    free(z->rings);
}
