/* sequence_heads.c - attention by heads on the ranks that share sequences
 * (Jacobs et al. 2023, "DeepSpeed Ulysses"; plan/heads.h says who has which).
 *
 * A task is done by the rank that has the tokens of its tile, but for
 * attention: that is as many tasks as there are teams, each with its heads.
 * What other segments leave for it is given to the ranks of the heads at once,
 * and stands there as long as it would otherwise with the tokens; what it
 * leaves is given back before a task of other segments reads it.
 * Sums of gradients of keys over groups are in sequence_sums.c.
 */
#include "policies/sequence_heads.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "plan/heads.h"
#include "plan/sight.h"
#include "plan/stretch.h"
#include "policies/ring_class.h"
#include "segments/segment.h"
#include "tasks/attention_layout.h"
#include "tasks/tasks.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

static bool is_attention(const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_attention_forward ||
           t->op == &dsf_op_attention_backward_input;
}

static const struct dsflow_tile *tile_of(const struct dsflow_task_spec *t)
{
    return t->args;
}

static bool is_of_keys(unsigned port)
{
    return port == DSFLOW_ATTENTION_KV || port == DSFLOW_ATTENTION_DKV;
}

/* Rows of what a task has on a port of attention: of keys, those of all tiles
 * that stand in one buffer (plan/key_tiles.h). */
static int32_t rows_of(const struct dsflow_task_spec *t, unsigned port)
{
    const struct dsflow_qkv_args *a = t->args;

    return is_of_keys(port) && dsf_segment_of_op(t->op) == &dsf_segment_qkv &&
                   a->kv_rows > 0
               ? a->kv_rows
               : tile_of(t)->rows;
}

/* Is all of a buffer of keys there, which has tile after tile? */
static bool is_full(const struct dsflow_task_spec *t, unsigned port)
{
    const struct dsflow_qkv_args *a = t->args;

    return rows_of(t, port) == tile_of(t)->rows ||
           a->kv_at + tile_of(t)->rows == a->kv_rows;
}

static struct dsf_heads heads_of(const struct dsf_headed_graph *s,
                                 const struct dsflow_task_spec *t)
{
    return dsf_heads_of(s->plan, tile_of(t)->kv_heads);
}

static int32_t group_of(const struct dsf_headed_graph *s,
                        const struct dsflow_task_spec *t)
{
    return dsf_plan_sequence_group(s->plan, t->tile);
}

/* --- what ranks have ------------------------------------------------------ */

static void mark(struct dsf_headed_graph *s, dsflow_data_id id, unsigned port)
{
    s->data[id.i].is = true;
    s->data[id.i].port = (uint8_t)port;
}

/* Tasks of attention stand before the sums of what they leave. */
static void find_headed(struct dsf_headed_graph *s)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(s->in, i)) != NULL; i++) {
        for (unsigned k = 0; is_attention(t) && k < t->ndata; k++)
            if (dsflow_task_port(t, k) != DSFLOW_ATTENTION_LAYOUT)
                mark(s, t->data[k], dsflow_task_port(t, k));
        if (dsf_headed_is_sum(s, t))
            mark(s, t->data[0], DSFLOW_ATTENTION_DKV);
    }
    for (uint32_t i = 0; (t = dsf_nth_task(s->in, i)) != NULL; i++)
        for (unsigned k = 0; !is_attention(t) && k < t->ndata; k++)
            if (dsflow_task_access(t, k) == DSFLOW_R)
                s->data[t->data[k].i].read_whole = true;
}

/* Layers that outputs of attention, which are given back soon, take turns for.
 * What is computed again stands in buffers that pass by already. */
enum { PASSING = 2 };

static void name_passing(const struct dsf_headed_graph *s,
                         const struct dsflow_task_spec *t,
                         const struct dsflow_data_spec *spec, char *name,
                         size_t size)
{
    const struct dsflow_plan *plan = s->plan;

    if (t->pass == DSFLOW_BACKWARD)
        snprintf(name, size, "%s", spec->name);
    else
        snprintf(name, size, "%s.l%d.c%d.t%d.p%d",
                 dsf_ring_name(spec->ring_class).s, (int)(t->layer % PASSING),
                 (int)(dsflow_plan_chunk_of(plan, t->layer) / plan->nstages),
                 (int)t->tile,
                 (int)dsf_mesh_at(&plan->mesh, t->rank < 0 ? 0 : t->rank,
                                  DSF_AXIS_TENSOR));
}

dsflow_data_id dsf_headed_part_of(struct dsf_headed_graph *s,
                                  const struct dsflow_task_spec *t,
                                  dsflow_data_id id, int32_t at, int64_t rows,
                                  int64_t cols)
{
    struct dsf_headed *of = &s->data[id.i];
    struct dsflow_data_spec spec = *dsflow_graph_data(s->in, id);
    struct dsf_headed_part *part;
    char name[96];

    if (of->parts == NULL)
        of->parts = dsf_xcalloc((size_t)s->plan->nsequence, sizeof(*of->parts));
    part = &of->parts[at];
    if (part->elems == rows * cols)
        return part->id;
    if (of->port == DSFLOW_ATTENTION_ATT)
        name_passing(s, t, &spec, name, sizeof(name));
    else
        snprintf(name, sizeof(name), "%s", spec.name);
    spec.elems = rows * cols;
    spec.ndims = 2;
    spec.dims[0] = rows;
    spec.dims[1] = cols;
    part->elems = spec.elems;
    return part->id = dsflow_rewrite_named(s->out, &spec, "%s.h%d.z%lld", name,
                                           (int)at, (long long)spec.elems);
}

/* How heads stand in data of a port: of `rows` rows. */
static struct dsf_heads_args layout_of(const struct dsflow_tile *t,
                                       const struct dsf_heads *h, unsigned port,
                                       int32_t rows)
{
    const int32_t queries = t->heads / t->kv_heads;
    struct dsf_heads_args a = { .rows = rows,
                                .runs = 1,
                                .heads = t->kv_heads,
                                .size = queries * t->head_dim,
                                .members = h->teams,
                                .take = -1 };

    if (is_of_keys(port)) {
        a.runs = 2;
        a.size = t->head_dim;
    } else if (port == DSFLOW_ATTENTION_DELTA) {
        a.size = queries;
    }
    return a;
}

void dsf_headed_note(struct dsf_headed *of, const struct dsf_heads *h,
                     int32_t team, dsflow_data_id id)
{
    if (of->latest == NULL)
        of->latest = dsf_xcalloc((size_t)h->ranks, sizeof(*of->latest));
    of->latest[team] = id;
    of->apart = true;
}

/* --- what moves ----------------------------------------------------------- */

/* Of what `t` left whole, which stands at `whole`, give one rank its heads. */
static void give(struct dsf_headed_graph *s, const struct dsflow_task_spec *t,
                 dsflow_data_id id, dsflow_data_id whole,
                 const struct dsf_heads_args *a, int32_t at)
{
    const dsflow_data_id part = dsf_headed_part_of(
        s, t, id, at, a->rows, dsf_heads_elems(a, 1) / a->rows);

    dsf_add_like(s->out, t, &dsf_op_all_to_all_heads, a,
                 dsf_headed_rank(s, t, at), 1, 2,
                 (dsflow_data_id[]){ part, whole });
}

/* Does attention read it? What it leaves may be changed in its place then. */
static bool is_given(unsigned port)
{
    return port == DSFLOW_ATTENTION_Q || port == DSFLOW_ATTENTION_KV ||
           port == DSFLOW_ATTENTION_DATT || port == DSFLOW_ATTENTION_DELTA;
}

/* Queries and what is of them go to the rank of the team that has their group;
 * keys and values to all of it. */
static void give_all(struct dsf_headed_graph *s,
                     const struct dsflow_task_spec *t, dsflow_data_id id,
                     dsflow_data_id whole)
{
    const struct dsf_headed *of = &s->data[id.i];
    const struct dsf_heads h = heads_of(s, t);
    struct dsf_heads_args a =
        layout_of(tile_of(t), &h, of->port, rows_of(t, of->port));

    for (int32_t at = 0; at < h.ranks; at++) {
        a.take = dsf_heads_team_of(&h, at);
        if (of->port == DSFLOW_ATTENTION_KV ||
            dsf_heads_at(&h, a.take, group_of(s, t)) == at)
            give(s, t, id, whole, &a, at);
    }
}

/* Put what ranks have of `id` together for `t`, which reads it. */
static void take_back(struct dsf_headed_graph *s,
                      const struct dsflow_task_spec *t, dsflow_data_id id)
{
    struct dsf_headed *of = &s->data[id.i];
    const struct dsf_heads h = heads_of(s, t);
    const struct dsf_heads_args a =
        layout_of(tile_of(t), &h, of->port, rows_of(t, of->port));

    dsf_grow(&s->ports, &s->cap_ports, (size_t)h.teams + 1, sizeof(*s->ports));
    s->ports[0] = s->is[id.i];
    for (int32_t team = 0; team < h.teams; team++)
        s->ports[team + 1] = of->latest[team];
    dsf_add_like(s->out, t, &dsf_op_all_to_all_heads, &a, t->rank, 1,
                 (uint32_t)h.teams + 1, s->ports);
    of->apart = false;
}

/* --- attention ------------------------------------------------------------ */

/* What a team does of a task of attention; false: nothing. */
static bool see_heads(const struct dsf_headed_graph *s,
                      const struct dsflow_task_spec *t,
                      const struct dsf_heads *h, int32_t team,
                      struct dsflow_attention_args *a)
{
    const int32_t first = dsf_heads_first(h->heads, h->teams, team);
    const int32_t queries = a->tile.heads / a->tile.kv_heads;
    int32_t number;

    a->tile.kv_heads = dsf_heads_first(h->heads, h->teams, team + 1) - first;
    a->tile.heads = a->tile.kv_heads * queries;
    if (a->block == 0)
        return true;
    dsf_attention_lay_part(dsf_plan_layout_of(s->plan, t->layer, &number),
                           a->head + first * queries, t->args, a);
    /* Nothing is added, but the first of several tasks writes all the same. */
    return a->seen > 0 || t->fresh != 0 ||
           (t->op == &dsf_op_attention_forward && a->last);
}

/* Rows of the buffer of keys of a task of attention, as a rank has been given
 * it: the task need not take all of them. */
static int64_t keys_of(const struct dsf_headed_graph *s,
                       const struct dsflow_task_spec *t, int32_t at)
{
    unsigned i = 0;

    while (dsflow_task_port(t, i) != DSFLOW_ATTENTION_KV)
        i++;
    return dsflow_graph_data(s->out, s->data[t->data[i].i].parts[at].id)
        ->dims[0];
}

static void attend(struct dsf_headed_graph *s, const struct dsflow_task_spec *t,
                   const struct dsf_heads *h, int32_t team, int32_t at)
{
    struct dsflow_attention_args a =
        *(const struct dsflow_attention_args *)t->args;
    struct dsflow_need need[DSFLOW_ATTENTION_NPORTS] = { { 0 } };
    struct dsflow_task_spec own = *t;
    unsigned n = 0;
    int64_t rows;

    if (!see_heads(s, t, h, team, &a))
        return;
    (void)dsf_attention_needs(t->op, &a, need, NULL);
    dsf_grow(&s->ports, &s->cap_ports, t->ndata, sizeof(*s->ports));
    own.rank = dsf_headed_rank(s, t, at);
    own.args = &a;
    for (unsigned i = 0; i < t->ndata; i++) {
        const unsigned port = dsflow_task_port(t, i);

        if (port == DSFLOW_ATTENTION_LAYOUT) {
            s->ports[n++] = t->data[i];
            continue;
        }
        rows = is_of_keys(port) ? keys_of(s, t, at) : need[port].rows;
        s->ports[n] =
            dsf_headed_part_of(s, t, t->data[i], at, rows, need[port].cols);
        if (dsflow_task_access(t, i) & DSFLOW_W) {
            dsf_headed_note(&s->data[t->data[i].i], h, team, s->ports[n]);
            s->data[t->data[i].i].group = group_of(s, t);
        }
        n++;
    }
    own.data = s->ports;
    own.ndata = n;
    dsflow_graph_add_task(s->out, &own);
}

static void attend_all(struct dsf_headed_graph *s,
                       const struct dsflow_task_spec *t)
{
    const struct dsf_heads h = heads_of(s, t);

    for (int32_t team = 0; team < h.teams; team++)
        attend(s, t, &h, team, dsf_heads_at(&h, team, group_of(s, t)));
}

/* --- all else --------------------------------------------------------------
 */

/* Is it only written to be given to the ranks of the heads? Then it passes by.
 */
static bool passes_by(const struct dsf_headed *of)
{
    return of->is && !of->read_whole &&
           (of->port == DSFLOW_ATTENTION_Q || of->port == DSFLOW_ATTENTION_KV);
}

static dsflow_data_id whole_of(void *heads, const struct dsflow_task_spec *t,
                               unsigned i)
{
    struct dsf_headed_graph *s = heads;
    const dsflow_data_id id = t->data[i];

    if (dsflow_task_access(t, i) == DSFLOW_W && passes_by(&s->data[id.i]))
        s->is[id.i] =
            dsf_sequence_next(&s->whole, t, dsflow_graph_data(s->in, id),
                              id.i + 1, 0)
                ->id;
    return s->is[id.i];
}

static void place(struct dsf_headed_graph *s, const struct dsflow_task_spec *t,
                  uint32_t i)
{
    struct dsflow_task_spec own = *t;

    if (dsf_sequence_is_placed(t))
        own.rank =
            dsf_headed_rank(s, t, dsf_plan_sequence_at(s->plan, t->tile));
    for (unsigned k = 0; k < t->ndata; k++)
        if (dsflow_task_access(t, k) & DSFLOW_R && s->data[t->data[k].i].apart)
            take_back(s, &own, t->data[k]);
    dsf_add_mapped(s->out, &own, whole_of, s);
    dsf_asked_moved(s->in, s->out, i);
    for (unsigned k = 0; k < t->ndata; k++) {
        struct dsf_headed *of = &s->data[t->data[k].i];

        if (!of->is || !(dsflow_task_access(t, k) & DSFLOW_W))
            continue;
        of->apart = false;
        if (is_given(of->port) && is_full(t, of->port))
            give_all(s, &own, t->data[k], s->is[t->data[k].i]);
    }
}

static void begin(struct dsf_headed_graph *s)
{
    const uint32_t ndata = dsflow_graph_ndata(s->in);

    dsf_rewrite_programs(s->in, s->out);
    s->data = dsf_xcalloc((size_t)ndata + 1, sizeof(*s->data));
    s->is = dsf_xcalloc((size_t)ndata + 1, sizeof(*s->is));
    for (uint32_t d = 0; d < ndata; d++)
        s->is[d] = dsflow_graph_add_data(s->out, dsf_nth_data(s->in, d));
    dsf_sequence_rings_init(&s->whole, s->plan, s->out, "whole");
    /* A task writes queries and keys, which may be of one size. */
    if (s->whole.nslots < 2)
        s->whole.nslots = 2;
    find_headed(s);
}

static void end(struct dsf_headed_graph *s)
{
    for (uint32_t d = 0; d < dsflow_graph_ndata(s->in); d++) {
        free(s->data[d].parts);
        free(s->data[d].latest);
    }
    dsf_sequence_rings_fini(&s->whole);
    free(s->data);
    free(s->is);
    free(s->ports);
}

int dsf_sequence_heads_rewrite(const struct dsflow_plan *plan,
                               struct dsflow_graph *in,
                               struct dsflow_graph *out, struct dsflow_err *err)
{
    struct dsf_headed_graph s = { .plan = plan, .in = in, .out = out };
    const struct dsflow_task_spec *t;

    begin(&s);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++)
        if (is_attention(t))
            attend_all(&s, t);
        else if (dsf_headed_is_sum(&s, t))
            dsf_headed_sum(&s, t);
        else
            place(&s, t, i);
    end(&s);
    dsf_asked_go_on(in, out);
    return DSFLOW_OK;
}
