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
#include "policies/policies.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "plan/stretch.h"
#include "tasks/tasks.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

/* Forward and backward have rings of their own. */
enum { PASSES = 2 };

/* What a buffer of a ring has. */
struct slot {
    dsflow_data_id id;
    uint32_t occupant; /* data, +1; 0: nothing */
    uint32_t version;  /* of it */
};

/* Of one rank, one chunk of its stage, one pass and one size. Replicas take
 * turns in rings of their own. */
struct ring {
    int32_t rank, chunk, replica, pass;
    int64_t elems;
    uint8_t dtype;
    uint32_t turn;
    struct slot *slots; /* [key_slots] */
    uint32_t next;      /* of the same chunk, replica and pass: +1 */
};

struct sequences {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    uint32_t task;     /* that is being placed */
    uint32_t *version; /* by data: times it was written, and programs begun */
    int16_t *at;       /* by data: the coordinate of who wrote it last */
    struct ring *rings;
    size_t nrings, cap_rings;
    uint32_t *first; /* [replicas][chunks][PASSES]: +1 */
    int32_t nslots;
};

static bool is_placed(const struct dsflow_task_spec *t)
{
    return t->microbatch >= 0 && t->tile >= 0;
}

static int32_t at_of(const struct sequences *s,
                     const struct dsflow_task_spec *t)
{
    return dsf_plan_sequence_at(s->plan, t->tile);
}

static struct ring *ring_of(struct sequences *s,
                            const struct dsflow_task_spec *t,
                            const struct dsflow_data_spec *spec)
{
    const struct ring key = {
        .rank = t->rank,
        .chunk = dsflow_plan_chunk_of(s->plan, t->layer),
        .replica = dsflow_plan_replica_of(s->plan, t->microbatch),
        .pass = t->pass == DSFLOW_BACKWARD,
        .elems = spec->elems,
        .dtype = spec->dtype,
    };

    uint32_t *first =
        &s->first[(key.replica * s->plan->nchunks + key.chunk) * PASSES +
                  key.pass];

    for (uint32_t i = *first; i != 0; i = s->rings[i - 1].next) {
        struct ring *r = &s->rings[i - 1];

        if (r->rank == key.rank && r->elems == key.elems &&
            r->dtype == key.dtype)
            return r;
    }
    dsf_grow(&s->rings, &s->cap_rings, s->nrings + 1, sizeof(*s->rings));
    s->rings[s->nrings] = key;
    s->rings[s->nrings].slots =
        dsf_xcalloc((size_t)s->nslots, sizeof(*s->rings->slots));
    s->rings[s->nrings].next = *first;
    *first = (uint32_t)++s->nrings;
    return &s->rings[s->nrings - 1];
}

/* The buffer that has `id`, or the next one, filled now. */
static dsflow_data_id fetched(struct sequences *s,
                              const struct dsflow_task_spec *t,
                              dsflow_data_id id)
{
    struct dsflow_data_spec spec = *dsflow_graph_data(s->in, id);
    struct ring *ring = ring_of(s, t, &spec);
    struct slot *slot;

    for (int32_t i = 0; i < s->nslots; i++)
        if (ring->slots[i].occupant == id.i + 1 &&
            ring->slots[i].version == s->version[id.i])
            return ring->slots[i].id;
    slot = &ring->slots[ring->turn];
    spec.role = DSFLOW_BUFFERS;
    spec.ring_class = 0;
    spec.ring = "mesh.key_slots";
    *slot = (struct slot){
        .id = dsflow_rewrite_named(
            s->out, &spec, "far.%s.z%lld.c%d.%s%u.p%d",
            dsflow_dtype_str((enum dsflow_dtype)spec.dtype),
            (long long)spec.elems, (int)(ring->chunk / s->plan->nstages),
            ring->pass != 0 ? "b" : "f", ring->turn, (int)t->rank),
        .occupant = id.i + 1,
        .version = s->version[id.i],
    };
    ring->turn = (ring->turn + 1) % (uint32_t)s->nslots;
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

    return is_placed(t) && !t->op->comm && d->role == DSFLOW_ACTIVATIONS &&
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
                is_placed(t) ? (int16_t)at_of(s, t) : (int16_t)-1;
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
    s->first =
        dsf_xcalloc((size_t)(s->plan->nreplicas * s->plan->nchunks) * PASSES,
                    sizeof(*s->first));
    s->nslots = dsf_plan_key_slots(s->plan);
}

static void end(struct sequences *s)
{
    for (size_t i = 0; i < s->nrings; i++)
        free(s->rings[i].slots);
    free(s->rings);
    free(s->first);
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
    begin(&s);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        struct dsflow_task_spec own = *t;

        if (t->program != program)
            begin_program(&s);
        program = t->program;
        s.task = i;
        if (is_placed(t))
            own.rank =
                (int16_t)dsf_mesh_peer(&plan->mesh, t->rank < 0 ? 0 : t->rank,
                                       DSF_AXIS_SEQUENCE, at_of(&s, t));
        dsf_add_mapped(out, &own, here, &s);
        dsf_asked_moved(in, out, i);
        note_writes(&s, &own);
    }
    end(&s);
    dsf_asked_go_on(in, out);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_sequence_parallel = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "sequence_parallel",
    .summary = "tokens of each sequence on several ranks",
    .after = "tensor_parallel",
    .rewrite = sequence_parallel_rewrite,
};
