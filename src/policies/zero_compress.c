/* zero_compress.c - what data ranks send each other in another format (policy
 * compress): each codes what it has, and whoever needs it decodes it as it
 * reads.
 *
 * Sums of gradients: each rank codes the gradients of its groups, and decodes
 * and adds the range that is its shard of those of all. Where a rank has so
 * many groups that these would be more bytes than their sum is, it sends the
 * sum, of what they are when they have been coded: the same bits.
 *
 * Parameters: each rank codes its shard of the masters after the update. With
 * stages 1 and 2 each decodes all of them at once. With stage 3 the coded
 * shards are what stays, and gathers read these.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* Buffers for packed data of one size, on one rank. */
struct dsf_zero_ring {
    int64_t bytes;
    uint32_t turn;
    uint32_t next; /* of the same rank: +1 */
};

/* The next of them, of `length` that take turns. */
static dsflow_data_id take_buffer(struct dsf_zero *z, int32_t rank,
                                  int64_t bytes, uint32_t length)
{
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = bytes, .dtype = DSFLOW_BYTES,
                    .role = DSFLOW_BUFFERS, .home = (int16_t)rank, .unit = -1);
    uint32_t at = z->first_ring[rank];

    while (at != 0 && z->rings[at - 1].bytes != bytes)
        at = z->rings[at - 1].next;
    if (at == 0) {
        dsf_grow(&z->rings, &z->cap_rings, z->nrings + 1, sizeof(*z->rings));
        z->rings[z->nrings] =
            (struct dsf_zero_ring){ .bytes = bytes,
                                    .next = z->first_ring[rank] };
        at = z->first_ring[rank] = (uint32_t)++z->nrings;
    }
    return dsflow_rewrite_named(z->rw.out, &spec, "coded.z%lld.%u.r%d",
                                (long long)bytes,
                                z->rings[at - 1].turn++ % length, (int)rank);
}

/* So many buffers take turns: what was coded before may still be read. */
enum { TURNS = 2 };

/* Numbers at .. at+elems of a unit, all that `in` has, into `out`. */
static void compress(struct dsf_zero *z, const struct dsflow_task_spec *like,
                     const struct dsf_coding *coding, int32_t rank, int64_t at,
                     int64_t elems, dsflow_data_id in, dsflow_data_id out)
{
    enum { OUT = 1 };
    const struct dsf_compress_args args = {
        .coding = *coding, .elems = elems, .at = at, .out_at = at
    };

    dsf_add_like(z->rw.out, like, &dsf_op_compress, &args, rank, 1u << OUT, 2,
                 (dsflow_data_id[]){ in, out });
}

/* --- sums of gradients ---------------------------------------------------- */

bool dsf_zero_sends_groups(const struct dsf_zero *z,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_add_recoded_args *a = t->args;
    int64_t groups = (int64_t)t->ndata / z->data;

    return t->op == &dsf_op_add_recoded &&
           groups * dsf_coding_bytes(&a->coding, 0, a->elems) <
               (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, a->elems);
}

/* The gradients of all groups, coded, in *packed; the first of each rank in
 * *first. */
static void compress_groups(struct dsf_zero *z,
                            const struct dsflow_task_spec *t,
                            dsflow_data_id *first, dsflow_data_id *packed)
{
    const struct dsf_add_recoded_args *a = t->args;
    const int64_t bytes = dsf_coding_bytes(&a->coding, 0, a->elems);
    const uint32_t length = TURNS * t->ndata / (uint32_t)z->data;

    for (int32_t d = 0; d < z->data; d++)
        first[d] = dsf_no_data();
    for (uint32_t i = 0; i < t->ndata; i++) {
        int32_t rank = dsf_zero_spec(z, t->data[i])->home;
        dsflow_data_id *own = &first[dsf_zero_replica(z, rank)];
        dsflow_data_id grad = dsf_zero_gradient(z, t->data[i]);

        if (!dsf_is_data(*own))
            *own = grad;
        packed[i] = take_buffer(z, rank, bytes, length);
        compress(z, t, &a->coding, rank, 0, a->elems, grad, packed[i]);
    }
}

void dsf_zero_sum_groups(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsf_add_recoded_args *a = t->args;
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[0]);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, spec);
    const bool whole = z->stage < 2;
    struct dsf_spread *s = &z->spread[t->data[0].i];
    dsflow_data_id *first = dsf_xcalloc((size_t)z->data, sizeof(*first));
    dsflow_data_id *ports = dsf_xcalloc((size_t)t->ndata + 1, sizeof(*ports));

    compress_groups(z, t, first, ports + 1);
    dsf_zero_spread_sums(z, t->data[0], first);
    for (int32_t d = 0; d < z->data; d++) {
        const struct dsf_compressed_args args = {
            .coding = a->coding,
            .elems = dsf_pieces_elems(&pieces, d),
            .at = dsf_pieces_at(&pieces, d),
            .into_at = whole ? dsf_pieces_at(&pieces, d) : 0,
        };

        if (args.elems == 0)
            continue;
        ports[0] = s->id[d];
        dsf_add_like(z->rw.out, t, &dsf_op_add_compressed, &args,
                     dsf_zero_beside(z, spec->home, d), !whole, t->ndata + 1,
                     ports);
    }
    if (z->stage == 0)
        dsf_zero_share(z, t, &dsf_op_all_gather, spec, s->id, s->id);
    free(first);
    free(ports);
}

/* --- parameters ----------------------------------------------------------- */

/* Where the coded shard of data rank `d` is: with stage 3 it stays. */
static dsflow_data_id coded_shard(struct dsf_zero *z,
                                  const struct dsf_coded *coded,
                                  const struct dsflow_data_spec *copy,
                                  const struct dsf_pieces *pieces, int32_t d)
{
    struct dsflow_data_spec own = *copy;
    int32_t rank = dsf_zero_beside(z, copy->home, d);
    int64_t bytes = dsf_coding_bytes(coded->coding, dsf_pieces_at(pieces, d),
                                     dsf_pieces_elems(pieces, d));

    if (z->stage < 3)
        return take_buffer(z, rank, bytes, TURNS);
    own.dtype = DSFLOW_BYTES;
    own.elems = own.block = bytes;
    own.ndims = 0;
    own.at = 0;
    own.home = (int16_t)rank;
    return dsflow_rewrite_named(z->rw.out, &own, "%s.coded.s%d", copy->name, d);
}

/* The coded shards of all, at the ports of a task that decodes them. */
static uint32_t add_shards(const struct dsf_zero *z,
                           const struct dsf_pieces *pieces,
                           const dsflow_data_id *shards, dsflow_data_id *ports)
{
    uint32_t n = 0;

    for (int32_t d = 0; d < z->data; d++)
        if (dsf_pieces_elems(pieces, d) > 0)
            ports[n++] = shards[d];
    return n;
}

static void decompress(struct dsf_zero *z, const struct dsflow_task_spec *like,
                       const struct dsf_coding *coding,
                       const struct dsf_pieces *pieces,
                       const dsflow_data_id *shards, int32_t rank,
                       dsflow_data_id into)
{
    const struct dsf_decompress_args args = { *coding, *pieces };
    dsflow_data_id *ports = dsf_xcalloc((size_t)z->data + 1, sizeof(*ports));
    uint32_t n;

    ports[0] = into;
    n = add_shards(z, pieces, shards, ports + 1);
    dsf_add_like(z->rw.out, like, &dsf_op_decompress, &args, rank, 1, n + 1,
                 ports);
    free(ports);
}

void dsf_zero_recode(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsf_recode_args *a = t->args;
    const struct dsflow_data_spec *copy = dsf_zero_spec(z, t->data[1]);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, copy);
    const struct dsf_coded coded = { &a->coding };
    dsflow_data_id *shards = dsf_xcalloc((size_t)z->data, sizeof(*shards));

    for (int32_t d = 0; d < z->data; d++) {
        int64_t at = dsf_pieces_at(&pieces, d);

        if (dsf_pieces_elems(&pieces, d) == 0)
            continue;
        shards[d] = coded_shard(z, &coded, copy, &pieces, d);
        compress(z, t, &a->coding, dsf_zero_beside(z, copy->home, d), at,
                 dsf_pieces_elems(&pieces, d),
                 dsf_zero_spread(z, t->data[0])->id[d], shards[d]);
    }
    for (int32_t d = 0; d < z->data && z->stage < 3; d++)
        decompress(z, t, &a->coding, &pieces, shards,
                   dsf_zero_beside(z, copy->home, d),
                   dsf_zero_spread(z, t->data[1])->id[d]);
    free(shards);
}

bool dsf_zero_gather_coded(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           dsflow_data_id whole)
{
    const struct dsf_coded *coded = &z->coded[id.i];
    const struct dsflow_data_spec *copy = dsf_zero_spec(z, id);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, copy);
    dsflow_data_id *shards;

    if (coded->coding == NULL)
        return false;
    shards = dsf_xcalloc((size_t)z->data, sizeof(*shards));
    for (int32_t d = 0; d < z->data; d++)
        if (dsf_pieces_elems(&pieces, d) > 0)
            shards[d] = coded_shard(z, coded, copy, &pieces, d);
    decompress(z, t, coded->coding, &pieces, shards, t->rank, whole);
    free(shards);
    return true;
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
