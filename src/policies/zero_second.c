/* zero_second.c - with stage 3, second copies of parameters among ranks that
 * are near each other (hpZ of ZeRO++: Wang et al. 2023).
 *
 * The data ranks are divided in `keepers` that follow each other. From the
 * first gather of a unit in a step on, each keeps one of as many runs of
 * pieces, as it came: coded or not. Later gathers read these. Of numbers that
 * is a copy of what has been gathered; of coded ones it is what the first
 * gather, too, reads (zero_coded.c).
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct dsf_second {
    dsflow_data_id *id; /* [data]: the run of each rank; of coded ones, each
                           run of each block */
    uint8_t *has;       /* [data] */
};

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

/* May this gather be the first of a step? */
static struct dsf_second *first_gather(struct dsf_zero *z, dsflow_data_id id,
                                       const struct dsflow_task_spec *t)
{
    struct dsf_second *s;

    if (!is_gathered_again(z, dsf_zero_spec(z, id)) ||
        t->program != DSFLOW_STEP || t->pass == DSFLOW_BACKWARD)
        return NULL;
    s = &z->second[id.i];
    if (s->has == NULL) {
        s->has = dsf_xcalloc((size_t)z->data, sizeof(*s->has));
        s->id = dsf_xcalloc((size_t)z->data, sizeof(*s->id));
        for (int32_t d = 0; d < z->data; d++)
            s->id[d] = dsf_no_data();
    }
    return s;
}

/* Does the rank of `t` keep its run of what this gather brings? */
static bool keeps(struct dsf_zero *z, dsflow_data_id id,
                  const struct dsflow_task_spec *t)
{
    const int32_t d = dsf_zero_replica(z, t->rank);
    struct dsf_second *s = first_gather(z, id, t);

    if (s == NULL || s->has[d])
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
         add_data(z, &z->second[id.i].id[d], spec, t->rank,
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
        dsflow_data_id from = z->second[id.i].id[first_of(z, d) + i];

        if (dsf_is_data(from))
            ports[n++] = from;
        else if (n == 1)
            args.first = i + 1;
    }
    dsf_add_like(z->rw.out, t, &dsf_op_gather, &args, t->rank, 1, n, ports);
    free(ports);
    return true;
}

/* --- coded runs ---------------------------------------------------------- */

dsflow_data_id *dsf_zero_second(struct dsf_zero *z, dsflow_data_id id,
                                const struct dsflow_task_spec *t, bool *made)
{
    struct dsf_second *s;

    *made = all_have(z, id, 0);
    if (*made)
        return z->second[id.i].id;
    s = first_gather(z, id, t);
    if (s == NULL)
        return NULL;
    memset(s->has, 1, (size_t)z->data);
    return s->id;
}

dsflow_data_id dsf_zero_second_run(struct dsf_zero *z, dsflow_data_id id,
                                   int32_t m, int32_t rank, int64_t bytes)
{
    return add_data(z, &z->second[id.i].id[m], dsf_zero_spec(z, id), rank,
                    DSFLOW_BYTES, bytes, m % z->keepers);
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
