/* zero_coded.c - parameters that data ranks send each other in another format
 * (policy compress): each codes its shard of the masters after the update. With
 * stages 1 and 2 each decodes all of them at once. With stage 3 the coded
 * shards are what stays, and gathers read these.
 *
 * Coded shards go to all by levels (levels.h): at each but the last a rank has
 * a run of them, as it came, in a buffer that others read. Where ranks keep a
 * second copy among them (zero_second.c), that is one of the levels.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "policies/levels.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* So many buffers take turns: what was coded before may still be read. */
enum { TURNS = 2 };

/* Coded numbers on their way to data ranks: each of a block has a run. */
struct source {
    struct dsflow_task_spec like;
    const struct dsflow_data_spec *unit;
    const struct dsf_coding *coding;
    struct dsf_pieces pieces;
    dsflow_data_id id; /* of `in`: parameters, with second copies of them */
    struct dsf_levels levels;
    unsigned level;       /* that of `runs` */
    unsigned second;      /* and of second copies; levels.n: there are none */
    dsflow_data_id *runs; /* [data]: block by block; at first, the shards */
    dsflow_data_id control; /* of a step that may be skipped, or none */
};

/* Where the coded shard of data rank `d` is: with stage 3 it stays. */
static dsflow_data_id coded_shard(struct dsf_zero *z,
                                  const struct dsf_coding *coding,
                                  const struct dsflow_data_spec *copy,
                                  const struct dsf_pieces *pieces, int32_t d)
{
    struct dsflow_data_spec own = *copy;
    int32_t rank = dsf_zero_beside(z, copy->home, d);
    int64_t bytes = dsf_coding_bytes(coding, dsf_pieces_at(pieces, d),
                                     dsf_pieces_elems(pieces, d));

    if (z->stage < 3)
        return dsf_zero_take_buffer(z, DSF_ZERO_CODED, rank, bytes, TURNS);
    own.dtype = DSFLOW_BYTES;
    own.elems = own.block = bytes;
    own.ndims = 0;
    own.at = 0;
    own.home = (int16_t)rank;
    return dsflow_rewrite_named(z->rw.out, &own, "%s.coded.s%d", copy->name, d);
}

static int64_t run_at(const struct source *s, unsigned level, int32_t j)
{
    return dsf_pieces_run_at(&s->pieces, s->levels.size[level], j);
}

static int64_t run_elems(const struct source *s, unsigned level, int32_t j)
{
    return run_at(s, level, j + 1) - run_at(s, level, j);
}

/* On data rank `d`: `to` from runs from .. end of its block. */
static void take_runs(struct dsf_zero *z, const struct source *s,
                      const struct dsflow_op *op, int32_t d, int32_t from,
                      int32_t end, dsflow_data_id to)
{
    const int32_t size = s->levels.size[s->level];
    struct dsf_decompress_args args = { .coding = *s->coding,
                                        .pieces = s->pieces,
                                        .runs = size,
                                        .type = s->unit->dtype,
                                        .guarded = op == &dsf_op_decompress &&
                                                   dsf_is_data(s->control) };
    dsflow_data_id *ports =
        dsf_xcalloc((size_t)(end - from) + 2, sizeof(*ports));
    const struct dsflow_task_spec t = dsf_zero_like(z, &s->like, d);
    const uint32_t before = 1 + (uint32_t)args.guarded;
    uint32_t n = before;

    ports[0] = to;
    ports[1] = s->control; /* or the first run */
    /* Runs without numbers stand in front and behind. */
    for (int32_t i = from; i < end; i++) {
        if (run_elems(s, s->level, i) == 0)
            continue;
        if (n == before)
            args.first = i;
        ports[n++] = s->runs[d / size * size + i];
    }
    dsf_add_like(z->rw.out, &t, op, &args, t.rank, !args.guarded, n, ports);
    free(ports);
}

/* The runs of the level below. */
static void go_down(struct dsf_zero *z, struct source *s)
{
    const unsigned level = s->level - 1;
    const int32_t size = s->levels.size[level];
    const int32_t n = dsf_levels_radix(&s->levels, s->level);
    dsflow_data_id *runs = dsf_xcalloc((size_t)z->data, sizeof(*runs));

    for (int32_t m = 0; m < z->data; m++) {
        const int32_t j = m % size;
        const int32_t d = m - j + dsf_levels_keeper(&s->levels, level, j);
        const int32_t rank = dsf_zero_beside(z, s->unit->home, d);
        const int64_t bytes = dsf_coding_bytes(s->coding, run_at(s, level, j),
                                               run_elems(s, level, j));

        if (bytes == 0)
            continue;
        runs[m] =
            level == s->second
                ? dsf_zero_second_run(z, s->id, m, rank, bytes)
                : dsf_zero_take_buffer(z, DSF_ZERO_RELAYED, rank, bytes, TURNS);
        take_runs(z, s, &dsf_op_gather_coded, d, j * n, (j + 1) * n, runs[m]);
    }
    free(s->runs);
    s->runs = runs;
    s->level = level;
}

/* into[d] = the unit, on each data rank that has one there. */
static void decode_runs(struct dsf_zero *z, struct source *s,
                        const dsflow_data_id *into)
{
    const unsigned last = s->second == 0 ? 0 : 1;

    while (s->level > last)
        go_down(z, s);
    for (int32_t d = 0; d < z->data; d++)
        if (dsf_is_data(into[d]))
            take_runs(z, s, &dsf_op_decompress, d, 0, s->levels.size[s->level],
                      into[d]);
    free(s->runs);
}

/* The same, of the shards of all. */
static void decode(struct dsf_zero *z, struct source s,
                   const dsflow_data_id *into)
{
    s.levels = dsf_levels_find(z->data, 1);
    s.level = s.second = s.levels.n;
    decode_runs(z, &s, into);
}

void dsf_zero_recode(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsf_recode_args *a = t->args;
    const struct dsflow_data_spec *copy = dsf_zero_spec(z, t->data[1]);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, copy);
    dsflow_data_id *shards = dsf_xcalloc((size_t)z->data, sizeof(*shards));

    for (int32_t d = 0; d < z->data; d++) {
        int64_t at = dsf_pieces_at(&pieces, d);

        if (dsf_pieces_elems(&pieces, d) == 0)
            continue;
        shards[d] = coded_shard(z, &a->coding, copy, &pieces, d);
        dsf_zero_compress(z, t, &a->coding, dsf_zero_beside(z, copy->home, d),
                          at, dsf_pieces_elems(&pieces, d),
                          dsf_zero_spread(z, t->data[0])->id[d], shards[d]);
    }
    if (z->stage == 3)
        free(shards); /* that is all: gathers will read them */
    else
        decode(z,
               (struct source){ .like = *t,
                                .unit = copy,
                                .coding = &a->coding,
                                .pieces = pieces,
                                .runs = shards,
                                .control = dsf_no_data() },
               dsf_zero_spread(z, t->data[1])->id);
}

bool dsf_zero_serves_signs(const struct dsflow_task_spec *t)
{
    /* All have these arguments first. */
    return (t->op == &dsf_op_serve || t->op == &dsf_op_serve_lamb ||
            t->op == &dsf_op_serve_mean) &&
           ((const struct dsf_chunk_args *)t->args)->coding.ntensors > 0;
}

/* All numbers of a block are as large as its scale: no bit is lost, but where a
 * step is skipped before momenta were in 1 bit. All keep theirs then. */
void dsf_zero_gather_signs(struct dsf_zero *z, const struct dsflow_task_spec *t,
                           const struct dsflow_data_spec *unit,
                           const struct dsf_zero_parts *s)
{
    enum { OUT = 1 };
    const struct dsf_chunk_args *a = t->args;
    const struct dsf_pieces pieces = dsf_zero_pieces(z, unit);
    dsflow_data_id *shards = dsf_xcalloc((size_t)z->data, sizeof(*shards));

    for (int32_t d = 0; d < z->data; d++) {
        const int64_t at = dsf_pieces_at(&pieces, d);
        const struct dsf_compress_args args = { .coding = a->coding,
                                                .elems = dsf_pieces_elems(
                                                    &pieces, d),
                                                .at = at,
                                                .from = at,
                                                .out_at = at,
                                                .by_block = 1 };
        const int32_t rank = dsf_zero_beside(z, unit->home, d);

        if (args.elems == 0)
            continue;
        shards[d] = dsf_zero_take_buffer(
            z, DSF_ZERO_CODED, rank,
            dsf_coding_bytes(&a->coding, at, args.elems), TURNS);
        dsf_add_like(z->rw.out, t, &dsf_op_compress, &args, rank, 1u << OUT, 2,
                     (dsflow_data_id[]){ s->id[d], shards[d] });
    }
    decode(
        z,
        (struct source){ .like = *t,
                         .unit = unit,
                         .coding = &a->coding,
                         .pieces = pieces,
                         .runs = shards,
                         .control = dsflow_rewrite_data(&z->rw, t->data[0]) },
        s->id);
}

static dsflow_data_id *coded_shards(struct dsf_zero *z, const struct source *s)
{
    dsflow_data_id *shards = dsf_xcalloc((size_t)z->data, sizeof(*shards));

    for (int32_t d = 0; d < z->data; d++)
        if (dsf_pieces_elems(&s->pieces, d) > 0)
            shards[d] = coded_shard(z, s->coding, s->unit, &s->pieces, d);
    return shards;
}

/* All of them come from the levels, some from the shards. */
static bool is_everywhere(const struct dsf_zero *z, const dsflow_data_id *into)
{
    for (int32_t d = 0; d < z->data; d++)
        if (!dsf_is_data(into[d]))
            return false;
    return true;
}

static void find_second(struct dsf_zero *z, struct source *s)
{
    bool made;
    dsflow_data_id *runs = dsf_zero_second(z, s->id, &s->like, &made);

    s->levels = dsf_levels_find(z->data, runs != NULL ? z->keepers : 1);
    s->level = s->second = s->levels.n;
    while (runs != NULL && s->levels.size[s->second] != z->keepers)
        s->second--;
    if (!made)
        return;
    s->level = s->second;
    s->runs = dsf_xcopy(runs, (size_t)z->data, sizeof(*runs));
}

bool dsf_zero_gather_coded(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           const dsflow_data_id *whole)
{
    const struct dsflow_data_spec *copy = dsf_zero_spec(z, id);
    struct source s = { .like = *t,
                        .unit = copy,
                        .coding = z->coded[id.i].coding,
                        .pieces = dsf_zero_pieces(z, copy),
                        .levels = dsf_levels_one(z->data),
                        .level = 1,
                        .second = 1,
                        .id = id,
                        .control = dsf_no_data() };

    if (s.coding == NULL)
        return false;
    if (is_everywhere(z, whole))
        find_second(z, &s);
    if (s.runs == NULL)
        s.runs = coded_shards(z, &s);
    decode_runs(z, &s, whole);
    return true;
}
