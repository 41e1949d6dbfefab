/* sequence_parallel.c - the tiles of each sequence on the ranks that share its
 * tokens (plan/stretch.h).
 *
 * A task is done by the rank that has the tokens of its tile. It has all that
 * it reads but keys and values of earlier tiles: those of another rank are sent
 * into a buffer of a ring, one copy for all tasks of the rank that follow each
 * other (Liu et al. 2023, "Ring attention with blockwise transformers", without
 * the ring: each tile comes from the rank that has it). Gradients of keys are
 * summed by the rank of their tile (reference_sequence.c).
 *
 * A task gets its coordinate on the axis sequence, and keeps those that it has
 * on the others; `pipeline`, which comes next, moves it to its stage and
 * replica.
 */
#include "policies/sequence_private.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "plan/stretch.h"
#include "tasks/tasks.h"

#include <stdlib.h>

struct sequences {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    uint32_t task;     /* that is being placed */
    uint32_t *version; /* by data: times it was written, and programs begun */
    int16_t *at;       /* by data: the coordinate of who wrote it last */
    struct dsf_sequence_rings far;
};

static int32_t at_of(const struct sequences *s,
                     const struct dsflow_task_spec *t)
{
    return dsf_plan_sequence_at(s->plan, t->tile);
}

/* The buffer that has `id`, or the next one, filled now. */
static dsflow_data_id fetched(struct sequences *s,
                              const struct dsflow_task_spec *t,
                              dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = dsflow_graph_data(s->in, id);
    const uint32_t version = s->version[id.i];
    const struct dsf_sequence_slot *slot =
        dsf_sequence_has(&s->far, t, spec, id.i + 1, version);

    if (slot != NULL)
        return slot->id;
    slot = dsf_sequence_next(&s->far, t, spec, id.i + 1, version);
    dsf_add_like(s->out, t, &dsf_op_send, NULL, t->rank, 0, 2,
                 (dsflow_data_id[]){ id, slot->id });
    return slot->id;
}

/* Is it what a segment left on another rank? Of what was written by a task that
 * is left out nothing is known, and it is of the same tile. */
static bool is_far(const struct sequences *s, const struct dsflow_task_spec *t,
                   unsigned i)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(s->in, t->data[i]);

    return dsf_sequence_is_placed(t) && !t->op->comm &&
           d->role == DSFLOW_ACTIVATIONS &&
           dsflow_task_access(t, i) == DSFLOW_R && s->at[t->data[i].i] >= 0 &&
           s->at[t->data[i].i] != at_of(s, t) &&
           !dsf_asked_misses(s->in, s->task, i);
}

static dsflow_data_id here(void *sequences, const struct dsflow_task_spec *t,
                           unsigned i)
{
    struct sequences *s = sequences;

    return is_far(s, t, i) ? fetched(s, t, t->data[i]) : t->data[i];
}

static void note_writes(struct sequences *s, const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++)
        if (dsflow_task_access(t, i) & DSFLOW_W) {
            s->version[t->data[i].i]++;
            s->at[t->data[i].i] =
                dsf_sequence_is_placed(t) ? (int16_t)at_of(s, t) : (int16_t)-1;
        }
}

static void begin_program(struct sequences *s)
{
    for (uint32_t d = 0; d < dsflow_graph_ndata(s->in); d++) {
        s->version[d]++;
        s->at[d] = -1;
    }
}

static void begin(struct sequences *s)
{
    const uint32_t ndata = dsflow_graph_ndata(s->in);

    dsf_rewrite_programs(s->in, s->out);
    for (uint32_t d = 0; d < ndata; d++)
        dsflow_graph_add_data(s->out, dsf_nth_data(s->in, d));
    s->version = dsf_xcalloc(ndata + 1, sizeof(*s->version));
    s->at = dsf_xcalloc(ndata + 1, sizeof(*s->at));
    dsf_sequence_rings_init(&s->far, s->plan, s->out, "far");
}

static void end(struct sequences *s)
{
    dsf_sequence_rings_fini(&s->far);
    free(s->version);
    free(s->at);
}

static int sequence_parallel_rewrite(const void *part,
                                     const struct dsflow_plan *plan,
                                     struct dsflow_graph *in,
                                     struct dsflow_graph *out,
                                     struct dsflow_err *err)
{
    struct sequences s = { .plan = plan, .in = in, .out = out };
    const struct dsflow_task_spec *t;
    int program = -1;

    if (plan->nsequence == 1)
        return DSFLOW_UNCHANGED;
    if (plan->shares.kind == DSF_SEQUENCE_HEADS)
        return dsf_sequence_heads_rewrite(plan, in, out, err);
    begin(&s);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        struct dsflow_task_spec own = *t;

        if (t->program != program)
            begin_program(&s);
        program = t->program;
        s.task = i;
        if (dsf_sequence_is_placed(t))
            own.rank = dsf_sequence_rank(plan, t, at_of(&s, t));
        dsf_add_mapped(out, &own, here, &s);
        dsf_asked_moved(in, out, i);
        note_writes(&s, &own);
    }
    end(&s);
    dsf_asked_go_on(in, out);
    return DSFLOW_OK;
}

static int sequence_parallel_decide(void *part, struct dsflow_plan *plan,
                                    struct dsflow_err *err)
{
    return dsf_sequence_choose(plan, err);
}

const struct dsflow_policy dsf_policy_sequence_parallel = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "sequence_parallel",
    .summary = "tokens of each sequence on several ranks",
    .after = "tensor_parallel",
    .decide = sequence_parallel_decide,
    .rewrite = sequence_parallel_rewrite,
};
