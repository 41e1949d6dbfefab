/* send.c - what a task needs and another rank made: a copy, in the memory of
 * the task's rank.
 *
 * One copy serves all readers on a rank until its original is written again;
 * it has as many slots as the original, so nothing new waits for anything but
 * the transfer. Kinds that move data themselves (op.h: comm) read it where it
 * is. Constants are there from the start.
 */
#include "policies/policies.h"

#include "base/alloc.h"
#include <dsflow/rewrite.h>
#include "tasks/tasks.h"

#include <stdlib.h>

/* A copy of one piece of data on one rank. */
struct copy {
    uint32_t version; /* of the original */
    int32_t rank;
    dsflow_data_id id;
    uint32_t next; /* +1 */
};

struct sends {
    struct dsflow_rewrite rw;
    struct copy *copies;
    size_t ncopies, cap_copies;
    uint32_t *first;   /* by data: +1, its copies */
    uint32_t *version; /* by data: times it was written, and programs begun */
};

static struct copy *copy_on(struct sends *s, dsflow_data_id id, int32_t rank)
{
    struct dsflow_data_spec spec = *dsflow_graph_data(s->rw.in, id);
    uint32_t i;

    for (i = s->first[id.i]; i != 0; i = s->copies[i - 1].next)
        if (s->copies[i - 1].rank == rank)
            return &s->copies[i - 1];
    spec.home = (int16_t)rank;
    spec.persistent = spec.constant;
    if (spec.role == DSFLOW_GRADS || spec.role == DSFLOW_PARAMS)
        spec.role = DSFLOW_BUFFERS;
    spec.unit = -1;
    spec.kept = 0;
    dsf_grow(&s->copies, &s->cap_copies, s->ncopies + 1, sizeof(*s->copies));
    s->copies[s->ncopies] = (struct copy){
        .rank = rank,
        .id =
            dsflow_rewrite_named(s->rw.out, &spec, "%s.on%d", spec.name, rank),
        .next = s->first[id.i],
    };
    s->first[id.i] = (uint32_t)++s->ncopies;
    return &s->copies[s->ncopies - 1];
}

static dsflow_data_id received(struct sends *s,
                               const struct dsflow_task_spec *reader,
                               dsflow_data_id id)
{
    struct copy *copy = copy_on(s, id, reader->rank);
    bool constant = dsflow_graph_data(s->rw.in, id)->constant;

    if (!constant && copy->version != s->version[id.i])
        dsf_add_like(
            s->rw.out, reader, &dsf_op_send, NULL, reader->rank, 0, 2,
            (dsflow_data_id[]){ dsflow_rewrite_data(&s->rw, id), copy->id });
    copy->version = s->version[id.i];
    return copy->id;
}

/* What is on data[i] of the task where it runs. */
static dsflow_data_id here(void *sends, const struct dsflow_task_spec *t,
                           unsigned i)
{
    struct sends *s = sends;
    bool reads = dsflow_task_access(t, i) == DSFLOW_R;

    return reads && !t->op->comm &&
                   dsflow_graph_data(s->rw.in, t->data[i])->home != t->rank
               ? received(s, t, t->data[i])
               : dsflow_rewrite_data(&s->rw, t->data[i]);
}

static int send_rewrite(const void *part, const struct dsflow_plan *plan,
                        struct dsflow_graph *in, struct dsflow_graph *out,
                        struct dsflow_err *err)
{
    uint32_t ndata = dsflow_graph_ndata(in);
    const struct dsflow_task_spec *t;
    struct sends s = { 0 };
    int program = -1;

    if (plan->nranks == 1)
        return DSFLOW_UNCHANGED;
    s.rw = dsflow_rewrite_begin(in, out);
    s.first = dsf_xcalloc(ndata + 1, sizeof(*s.first));
    s.version = dsf_xcalloc(ndata + 1, sizeof(*s.version));
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        /* What a copy is of may have changed between programs. */
        for (uint32_t d = 0; t->program != program && d < ndata; d++)
            s.version[d]++;
        program = t->program;
        dsf_add_mapped(out, t, here, &s);
        for (unsigned k = 0; k < t->ndata; k++)
            if (dsflow_task_access(t, k) & DSFLOW_W)
                s.version[t->data[k].i]++;
    }
    free(s.copies);
    free(s.first);
    free(s.version);
    dsflow_rewrite_end(&s.rw);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_send = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "send",
    .summary = "copies of what another rank made",
    .after = "strict",
    .rewrite = send_rewrite,
};
