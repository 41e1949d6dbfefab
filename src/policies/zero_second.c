/* zero_second.c - with stage 3, second copies of parameters among ranks that
 * are near each other (hpZ of ZeRO++: Wang et al. 2023).
 *
 * The data ranks are divided in `keepers` that follow each other. Each keeps
 * one of as many runs of pieces of what its first gather of a unit in a step
 * brings, as it came: coded or not. When all of them have, they gather from
 * these.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct dsf_second {
    dsflow_data_id *id; /* [data][data / keepers]: of coded ones each piece of
                           the run of a rank; else the run */
    uint8_t *has;       /* [data] */
};

static int32_t pieces_of_run(const struct dsf_zero *z)
{
    return z->data / z->keepers;
}

/* Of the ranks that have a copy among them, the first; and the run of `d`. */
static int32_t first_of(const struct dsf_zero *z, int32_t d)
{
    return d / z->keepers * z->keepers;
}

/* Is the unit gathered again in a step, and not kept whole? */
static bool is_gathered_again(const struct dsf_zero *z,
                              const struct dsflow_data_spec *spec)
{
    return z->second != NULL && dsf_zero_in_block(z, spec) &&
           (int64_t)spec->bytes > z->keys->keep;
}

static bool all_have(const struct dsf_zero *z, dsflow_data_id id, int32_t d)
{
    const struct dsf_second *s = z->second != NULL ? &z->second[id.i] : NULL;
    bool all = s != NULL && s->has != NULL;

    for (int32_t i = 0; all && i < z->keepers; i++)
        all = s->has[first_of(z, d) + i] != 0;
    return all;
}

/* Does the rank of `t` keep its run of what this gather brings? */
static bool keeps(struct dsf_zero *z, dsflow_data_id id,
                  const struct dsflow_task_spec *t)
{
    const int32_t d = dsf_zero_replica(z, t->rank);
    struct dsf_second *s;

    if (!is_gathered_again(z, dsf_zero_spec(z, id)) ||
        t->program != DSFLOW_STEP || t->pass == DSFLOW_BACKWARD)
        return false;
    s = &z->second[id.i];
    if (s->has == NULL) {
        s->has = dsf_xcalloc((size_t)z->data, 1);
        s->id =
            dsf_xcalloc((size_t)(z->data * pieces_of_run(z)), sizeof(*s->id));
        for (int32_t i = 0; i < z->data * pieces_of_run(z); i++)
            s->id[i] = dsf_no_data();
    }
    if (s->has[d])
        return false;
    s->has[d] = 1;
    return true;
}

static dsflow_data_id add_data(struct dsf_zero *z, dsflow_data_id *id,
                               const struct dsflow_data_spec *of, int32_t rank,
                               enum dsflow_dtype dtype, int64_t elems,
                               int32_t piece)
{
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = elems, .dtype = (uint8_t)dtype,
                    .role = DSFLOW_PARAMS, .home = (int16_t)rank, .unit = -1);

    if (!dsf_is_data(*id))
        *id = dsflow_rewrite_named(z->rw.out, &spec, "second.%s.%d.r%d",
                                   of->name, (int)piece, (int)rank);
    return *id;
}

static void copy(struct dsf_zero *z, const struct dsflow_task_spec *like,
                 dsflow_data_id to, dsflow_data_id from, int64_t at,
                 int64_t elems)
{
    const struct dsf_range move = { .elems = elems, .from = at };

    dsf_add_like(z->rw.out, like, &dsf_op_copy, &move, like->rank, 1, 2,
                 (dsflow_data_id[]){ to, from });
}

/* --- numbers ------------------------------------------------------------- */

void dsf_zero_keep_numbers(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           dsflow_data_id whole)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, id);
    const struct dsf_pieces pieces = dsf_zero_pieces(z, spec);
    const int32_t d = dsf_zero_replica(z, t->rank);
    int32_t run;
    int64_t at, elems;

    if (!keeps(z, id, t))
        return;
    run = d - first_of(z, d);
    at = dsf_pieces_run_at(&pieces, z->keepers, run);
    elems = dsf_pieces_run_at(&pieces, z->keepers, run + 1) - at;
    if (elems == 0)
        return;
    copy(z, t,
         add_data(z, &z->second[id.i].id[d * pieces_of_run(z)], spec, t->rank,
                  (enum dsflow_dtype)spec->dtype, elems, run),
         whole, at, elems);
}

bool dsf_zero_gather_second(struct dsf_zero *z, dsflow_data_id id,
                            const struct dsflow_task_spec *t,
                            dsflow_data_id whole)
{
    const int32_t d = dsf_zero_replica(z, t->rank);
    struct dsf_gather_args args = { .take = -1, .skip = -1 };
    dsflow_data_id *ports;
    uint32_t n = 1;

    if (!all_have(z, id, d))
        return false;
    args.pieces = dsf_zero_pieces(z, dsf_zero_spec(z, id));
    args.runs = z->keepers;
    ports = dsf_xcalloc((size_t)z->keepers + 1, sizeof(*ports));
    ports[0] = whole;
    /* Runs without numbers stand in front and behind. */
    for (int32_t i = 0; i < z->keepers; i++) {
        dsflow_data_id from =
            z->second[id.i].id[(first_of(z, d) + i) * pieces_of_run(z)];

        if (dsf_is_data(from))
            ports[n++] = from;
        else if (n == 1)
            args.first = i + 1;
    }
    dsf_add_like(z->rw.out, t, &dsf_op_gather, &args, t->rank, 1, n, ports);
    free(ports);
    return true;
}

/* --- coded pieces -------------------------------------------------------- */

static dsflow_data_id *coded_piece(const struct dsf_zero *z, dsflow_data_id id,
                                   int32_t first, int32_t d)
{
    const int32_t each = pieces_of_run(z), rank = first + d / each;

    return &z->second[id.i].id[rank * each + d % each];
}

dsflow_data_id dsf_zero_second(const struct dsf_zero *z, dsflow_data_id id,
                               const struct dsflow_task_spec *t, int32_t d)
{
    const int32_t own = dsf_zero_replica(z, t->rank);

    return all_have(z, id, own) ? *coded_piece(z, id, first_of(z, own), d)
                                : dsf_no_data();
}

void dsf_zero_keep_coded(struct dsf_zero *z, dsflow_data_id id,
                         const struct dsflow_task_spec *t,
                         const struct dsf_pieces *pieces,
                         dsflow_data_id *shards)
{
    const int32_t own = dsf_zero_replica(z, t->rank);
    int32_t first, each, from;

    if (!keeps(z, id, t))
        return;
    first = first_of(z, own);
    each = pieces_of_run(z);
    from = (own - first) * each;
    for (int32_t d = from; d < from + each; d++) {
        const struct dsflow_data_spec *shard;
        dsflow_data_id kept;

        if (dsf_pieces_elems(pieces, d) == 0)
            continue;
        shard = dsflow_graph_data(z->rw.out, shards[d]);
        kept = add_data(z, coded_piece(z, id, first, d), dsf_zero_spec(z, id),
                        t->rank, DSFLOW_BYTES, shard->elems, d);
        copy(z, t, kept, shards[d], 0,
             dsflow_graph_data(z->rw.out, kept)->elems);
        shards[d] = kept;
    }
}

/* --- all of it ----------------------------------------------------------- */

void dsf_zero_begin_second(struct dsf_zero *z)
{
    z->keepers = (int32_t)dsf_compress_keys(z->plan->job)->secondary;
    /* Those of all ranks are where the shards are. */
    if (z->keepers > 0 && z->keepers < z->data)
        z->second =
            dsf_xcalloc(dsflow_graph_ndata(z->rw.in) + 1, sizeof(*z->second));
}

void dsf_zero_forget_second(struct dsf_zero *z)
{
    for (uint32_t i = 0; z->second != NULL && i < dsflow_graph_ndata(z->rw.in);
         i++)
        if (z->second[i].has != NULL)
            memset(z->second[i].has, 0, (size_t)z->data);
}

void dsf_zero_end_second(struct dsf_zero *z)
{
    for (uint32_t i = 0; z->second != NULL && i < dsflow_graph_ndata(z->rw.in);
         i++) {
        free(z->second[i].id);
        free(z->second[i].has);
    }
    free(z->second);
}
