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
    struct dsflow_task_spec t = *reader;

    if (constant || copy->version == s->version[id.i])
        return copy->id;
    copy->version = s->version[id.i];
    t.op = &dsf_op_send;
    t.args = NULL;
    t.fresh = t.without = 0;
    t.ndata = 2;
    t.data = (dsflow_data_id[]){ dsflow_rewrite_data(&s->rw, id), copy->id };
    dsflow_graph_add_task(s->rw.out, &t);
    return t.data[1];
}

static void send_what_it_reads(struct sends *s,
                               const struct dsflow_task_spec *task)
{
    struct dsflow_task_spec t = *task;
    dsflow_data_id *ports = dsf_xcopy(t.data, t.ndata, sizeof(*ports));

    for (unsigned i = 0; i < t.ndata; i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(s->rw.in, task->data[i]);
        bool reads = dsflow_task_access(task, i) == DSFLOW_R;

        ports[i] = reads && !t.op->comm && d->home != t.rank
                       ? received(s, task, task->data[i])
                       : dsflow_rewrite_data(&s->rw, task->data[i]);
    }
    t.data = ports;
    dsflow_graph_add_task(s->rw.out, &t);
    free(ports);
    for (unsigned i = 0; i < t.ndata; i++)
        if (dsflow_task_access(task, i) & DSFLOW_W)
            s->version[task->data[i].i]++;
}

static int send_rewrite(const void *part, const struct dsflow_plan *plan,
                        struct dsflow_graph *in, struct dsflow_graph *out,
                        struct dsflow_err *err)
{
    uint32_t ndata = dsflow_graph_ndata(in), n = dsflow_graph_ntasks(in);
    struct sends s = { 0 };
    int program = -1;

    if (plan->nranks == 1)
        return DSFLOW_UNCHANGED;
    s.rw = dsflow_rewrite_begin(in, out);
    s.first = dsf_xcalloc(ndata + 1, sizeof(*s.first));
    s.version = dsf_xcalloc(ndata + 1, sizeof(*s.version));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });

        /* What a copy is of may have changed between programs. */
        for (uint32_t d = 0; t->program != program && d < ndata; d++)
            s.version[d]++;
        program = t->program;
        send_what_it_reads(&s, t);
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
