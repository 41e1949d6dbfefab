/* processes.c - the part of a graph that one of several processes runs.
 *
 * Tasks that move data between ranks are the only ones that read what another
 * rank has (policy `send`). What one of them reads of another process is a
 * message: `transmit` there, a `receive` here. What it only copies is received
 * where it belongs; what it adds up comes into buffers, of which so many take
 * turns that one task's may come while another's are added.
 *
 * Where ranks are on devices, messages are of buffers in main memory: what goes
 * is copied there first, and what comes is copied on, which engines of devices
 * do beside kernels. Where GPUs are to send to each other, what is on GPUs at
 * both ends goes straight.
 */
#include "policies/processes.h"

#include "base/alloc.h"
#include "policies/policies.h"
#include "plan/process_buffers.h"
#include "tasks/tasks.h"

#include <dsflow/rewrite.h>

#include <stdbool.h>
#include <stdlib.h>

struct apart {
    const struct dsf_processes *all;
    int32_t own;
    struct dsflow_rewrite rw;
    uint32_t *sent, *got; /* by process: messages to it, and from it */
    uint64_t *out, *in;   /* hashes of these */
    struct dsf_process_buffers buffers;
    uint32_t *written; /* by data: how often, by what is here */
    uint32_t *carried; /* by tasks of the part that send something: the data of
                          the part that it is of */
    size_t cap_carried;

    /* Of a task: by data of it, the process that it comes from, or -1: it is
     * here; and the number of the message. */
    int32_t *from;
    uint32_t *tags;
    dsflow_data_id *ports;
    size_t cap_from, cap_tags, cap_ports;
};

static const struct dsflow_data_spec *
data_of(const struct apart *a, const struct dsflow_task_spec *t, unsigned i)
{
    return dsflow_graph_data(a->rw.in, t->data[i]);
}

static int32_t home_of(const struct apart *a, const struct dsflow_task_spec *t,
                       unsigned i)
{
    return dsf_process_of(a->all, data_of(a, t, i)->home);
}

/* Does it take some heads out of rows that have all? They are put together
 * before they go. */
static bool takes_heads(const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_all_to_all_heads &&
           ((const struct dsf_heads_args *)t->args)->take >= 0;
}

/* What the task takes of its data[i]: `at` is where that goes to, of data[0] or
 * of send's `out`, where it is no more than copied. */
static struct dsf_range range_of(const struct apart *a,
                                 const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsf_sum_args *sum = t->args;

    if (t->op == &dsf_op_copy)
        return *(const struct dsf_range *)t->args;
    if (t->op == &dsf_op_gather)
        return dsf_gather_move(t->args, i);
    if (t->op == &dsf_op_gather_coded)
        return dsf_gather_coded_move(t->args, i);
    if (takes_heads(t))
        return (struct dsf_range){ dsf_heads_elems(t->args, 1), 0, 0 };
    if (t->op == &dsf_op_reduce)
        return (struct dsf_range){ sum->elems, 0, sum->from };
    if (t->op == &dsf_op_add_compressed)
        return dsf_compressed_move(t->args, data_of(a, t, i)->elems);
    return (struct dsf_range){ data_of(a, t, i)->elems, 0, 0 };
}

/* What a task makes. */
static unsigned made_by(const struct dsflow_task_spec *t)
{
    unsigned i = 0;

    while (i + 1 < t->ndata && !(dsflow_task_access(t, i) & DSFLOW_W))
        i++;
    return i;
}

/* Does it go from GPU to GPU? Both processes say the same. Batches, control and
 * the like are the host's: they, and sums of a few numbers, are in main memory.
 */
static bool is_direct(const struct apart *a, const struct dsflow_task_spec *t,
                      unsigned i)
{
    const struct dsflow_data_spec *from = data_of(a, t, i);

    return a->all->direct && from->tier == DSFLOW_DEVICE &&
           data_of(a, t, made_by(t))->tier == DSFLOW_DEVICE &&
           t->op != &dsf_op_sum && !takes_heads(t) &&
           !(t->op == &dsf_op_send && from->role == DSFLOW_BUFFERS);
}

/* Does it go as it is, and not by way of main memory? */
static bool is_straight(const struct apart *a, const struct dsflow_task_spec *t,
                        unsigned i)
{
    return !a->all->devices || is_direct(a, t, i);
}

/* The bytes of a row, where just those that are there go. */
static uint32_t row_of(const struct apart *a, const struct dsflow_task_spec *t,
                       unsigned i)
{
    return t->op == &dsf_op_add_rows && !is_direct(a, t, i)
               ? (uint32_t)dsf_row_bytes(t->args)
               : 0;
}

/* What the task takes of its data[i], from number `at` on of what is here, with
 * rank `other` of `process`. */
static struct dsf_message_args message(const struct apart *a,
                                       const struct dsflow_task_spec *t,
                                       unsigned i, int64_t at, int32_t process,
                                       uint32_t tag, int32_t other)
{
    return (struct dsf_message_args){ .elems = range_of(a, t, i).elems,
                                      .at = at,
                                      .process = process,
                                      .tag = tag,
                                      .rank = is_direct(a, t, i) ? other : -1,
                                      .row = row_of(a, t, i) };
}

/* What both ends of a message with `process` know of it, of all up to it. */
static void mix_message(const struct apart *a, uint64_t *hashes,
                        int32_t process, const struct dsflow_task_spec *t,
                        unsigned i)
{
    dsf_process_mix_message(&hashes[process], t,
                            (enum dsflow_dtype)data_of(a, t, i)->dtype,
                            range_of(a, t, i).elems, is_direct(a, t, i));
}

/* --- what goes ------------------------------------------------------------ */

/* The task that was added last is on the way of this data to a process. */
static void note_carried(struct apart *a, dsflow_data_id data)
{
    uint32_t n = dsflow_graph_ntasks(a->rw.out);

    dsf_grow(&a->carried, &a->cap_carried, n, sizeof(*a->carried));
    a->carried[n - 1] = data.i;
}

/* What the task takes of its data[i], in main memory: copied there, if it is
 * not there already. */
static dsflow_data_id leave(struct apart *a, const struct dsflow_task_spec *t,
                            unsigned i, dsflow_data_id data)
{
    const struct dsflow_data_spec *d = data_of(a, t, i);
    struct dsf_range move = range_of(a, t, i);
    struct dsf_left what = { t->data[i], a->written[t->data[i].i], move.from,
                             t->program };
    dsflow_data_id ports[2] = { { 0 }, data };

    if (takes_heads(t))
        what.from = ((const struct dsf_heads_args *)t->args)->take;
    if (dsf_process_leaving(&a->buffers, a->rw.out, d->home, d->dtype,
                            move.elems, &what, &ports[0]))
        return ports[0];
    move.at = 0;
    if (takes_heads(t))
        dsf_add_like(a->rw.out, t, t->op, t->args, d->home, true, 2, ports);
    else
        dsf_add_like(a->rw.out, t, &dsf_op_copy, &move, d->home, true, 2,
                     ports);
    note_carried(a, data);
    return ports[0];
}

static void transmit(struct apart *a, const struct dsflow_task_spec *t,
                     unsigned i, uint32_t tag)
{
    int64_t at = range_of(a, t, i).from;
    dsflow_data_id data = dsflow_rewrite_data(&a->rw, t->data[i]), from = data;
    struct dsf_message_args args;

    mix_message(a, a->out, dsf_process_of(a->all, t->rank), t, i);
    if (!is_straight(a, t, i) || takes_heads(t)) {
        from = leave(a, t, i, data);
        at = 0;
    }
    args = message(a, t, i, at, dsf_process_of(a->all, t->rank), tag, t->rank);
    dsf_add_like(a->rw.out, t, &dsf_op_transmit, &args, data_of(a, t, i)->home,
                 0, 1, &from);
    note_carried(a, data);
}

/* --- what comes ----------------------------------------------------------- */

static void receive(struct apart *a, const struct dsflow_task_spec *t,
                    const struct dsf_receive_args *parts, dsflow_data_id out,
                    bool fresh)
{
    dsf_add_like(a->rw.out, t, &dsf_op_receive, parts, t->rank, fresh, 1, &out);
}

static void copy_here(struct apart *a, const struct dsflow_task_spec *t,
                      unsigned i, dsflow_data_id out, bool fresh)
{
    struct dsf_range move = range_of(a, t, i);
    dsflow_data_id ports[2] = { out, dsflow_rewrite_data(&a->rw, t->data[i]) };

    dsf_add_like(a->rw.out, t, &dsf_op_copy, &move, t->rank, fresh, 2, ports);
}

static struct dsf_message_args coming(const struct apart *a,
                                      const struct dsflow_task_spec *t,
                                      unsigned i, int64_t at)
{
    return message(a, t, i, at, a->from[i], a->tags[i],
                   data_of(a, t, i)->home);
}

/* A buffer on the task's rank for what it takes of its data[i], the `k`-th of
 * its buffers of that name. */
static dsflow_data_id buffer_for(struct apart *a,
                                 const struct dsflow_task_spec *t, unsigned i,
                                 unsigned k, const char *name)
{
    return dsf_process_buffer(&a->buffers, a->rw.out, name, t->rank,
                              data_of(a, t, i)->dtype, range_of(a, t, i).elems,
                              k);
}

/* Such a buffer, and the task that receives it. */
static dsflow_data_id received(struct apart *a,
                               const struct dsflow_task_spec *t, unsigned i,
                               unsigned k, const char *name)
{
    struct dsf_receive_args parts = { .n = 1,
                                      .part = { coming(a, t, i, 0) } };
    dsflow_data_id id = buffer_for(a, t, i, k, name);

    receive(a, t, &parts, id, true);
    return id;
}

/* Receive what the task takes of its data[i] in main memory, and copy it into
 * `into`, from number `at` on. */
static void arrive(struct apart *a, const struct dsflow_task_spec *t,
                   unsigned i, unsigned k, dsflow_data_id into, int64_t at,
                   bool fresh)
{
    struct dsf_range move = { range_of(a, t, i).elems, at, 0 };
    dsflow_data_id ports[2] = { into, received(a, t, i, k, DSF_ARRIVING) };

    dsf_add_like(a->rw.out, t, &dsf_op_copy, &move, t->rank, fresh, 2, ports);
}

/* What a task copies that is here is copied, the rest is received, into the
 * data[out] of the task. */
static void take_copies(struct apart *a, const struct dsflow_task_spec *t,
                        unsigned out)
{
    struct dsf_receive_args parts = { 0 };
    dsflow_data_id into = dsflow_rewrite_data(&a->rw, t->data[out]);
    bool fresh = dsflow_task_access(t, out) == DSFLOW_W;
    unsigned k = 0;

    for (unsigned i = 0; i < t->ndata; i++) {
        if (i == out || (a->from[i] >= 0 && is_straight(a, t, i)))
            continue;
        if (a->from[i] < 0)
            copy_here(a, t, i, into, fresh);
        else
            arrive(a, t, i, k++, into, range_of(a, t, i).at, fresh);
        fresh = false;
    }
    dsf_process_buffers_turn(&a->buffers, t->rank);
    for (unsigned i = 0; i < t->ndata; i++) {
        if (a->from[i] < 0 || !is_straight(a, t, i))
            continue;
        if (parts.n == DSF_RECEIVE_PARTS) {
            receive(a, t, &parts, into, fresh);
            parts = (struct dsf_receive_args){ 0 };
            fresh = false;
        }
        parts.part[parts.n++] = coming(a, t, i, range_of(a, t, i).at);
    }
    if (parts.n > 0)
        receive(a, t, &parts, into, fresh);
}

/* What comes of the task's data[i] to be added up: sums of a few numbers are
 * added in main memory, others where the rank is. */
static dsflow_data_id take_addend(struct apart *a,
                                  const struct dsflow_task_spec *t, unsigned i,
                                  unsigned k)
{
    dsflow_data_id id;

    if (t->op == &dsf_op_sum || is_straight(a, t, i))
        return received(a, t, i, k, DSF_RECEIVED);
    id = buffer_for(a, t, i, k, DSF_RECEIVED);
    arrive(a, t, i, k, id, 0, true);
    return id;
}

static void take_beside(struct apart *a, const struct dsflow_task_spec *t)
{
    struct dsflow_task_spec own = *t;
    unsigned k = 0;

    dsf_grow(&a->ports, &a->cap_ports, t->ndata, sizeof(*a->ports));
    for (unsigned i = 0; i < t->ndata; i++)
        a->ports[i] = a->from[i] < 0 ? dsflow_rewrite_data(&a->rw, t->data[i])
                                     : take_addend(a, t, i, k++);
    dsf_process_buffers_turn(&a->buffers, t->rank);
    own.data = a->ports;
    dsflow_graph_add_task(a->rw.out, &own);
}

/* --- tasks ---------------------------------------------------------------- */

/* Of what others have between them it may not have been told all. */
static bool concerns(const struct apart *a, const struct dsflow_task_spec *t,
                     unsigned i, int32_t process)
{
    return process == a->own || home_of(a, t, i) == a->own;
}

static int check(const struct apart *a, const struct dsflow_task_spec *t,
                 struct dsflow_err *err)
{
    int32_t process = t->rank < 0 ? -1 : dsf_process_of(a->all, t->rank);

    if (process < 0)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "task %s has no rank: expected one where there are "
                           "several processes",
                           t->op->name);
    for (unsigned i = 0; i < t->ndata; i++)
        if (data_of(a, t, i)->home < 0 ||
            (home_of(a, t, i) != process && concerns(a, t, i, process) &&
             (dsflow_task_access(t, i) != DSFLOW_R || !t->op->comm)))
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s of rank %d: %s is in another process: "
                               "expected that only tasks that move data read "
                               "there, and none writes",
                               t->op->name, t->rank, data_of(a, t, i)->name);
    return DSFLOW_OK;
}

/* Find the messages of the task, number those that go from here or come here,
 * and send the first; returns how many there are. */
static unsigned find_messages(struct apart *a, const struct dsflow_task_spec *t,
                              int32_t to)
{
    unsigned n = 0;

    dsf_grow(&a->from, &a->cap_from, t->ndata, sizeof(*a->from));
    dsf_grow(&a->tags, &a->cap_tags, t->ndata, sizeof(*a->tags));
    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t from = home_of(a, t, i);

        a->from[i] = from == to ? -1 : from;
        if (from == to)
            continue;
        n++;
        if (to == a->own) {
            mix_message(a, a->in, from, t, i);
            a->tags[i] = a->got[from]++;
        }
        if (from == a->own)
            transmit(a, t, i, a->sent[to]++);
    }
    return n;
}

/* Each has a tag. */
static int check_tags(const struct apart *a, struct dsflow_err *err)
{
    for (int32_t p = 0; p < a->all->n; p++)
        if (a->sent[p] > DSF_GRAPH_TAGS || a->got[p] > DSF_GRAPH_TAGS)
            return dsflow_fail(err, DSFLOW_EFIT,
                               "mesh: %u messages of a step between processes "
                               "%d and %d: expected at most %u: more processes "
                               "have less between two",
                               a->sent[p] > a->got[p] ? a->sent[p] : a->got[p],
                               (int)a->own, (int)p, DSF_GRAPH_TAGS);
    return DSFLOW_OK;
}

static bool is_own(const struct apart *a, const struct dsflow_task_spec *t)
{
    return dsf_process_of(a->all, t->rank) == a->own;
}

static void note_written(struct apart *a, const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++)
        a->written[t->data[i].i] += (dsflow_task_access(t, i) & DSFLOW_W) != 0;
}

static int take(struct apart *a, const struct dsflow_task_spec *t,
                struct dsflow_err *err)
{
    int status = check(a, t, err);
    int32_t to;
    unsigned n;

    if (status < 0)
        return status;
    to = dsf_process_of(a->all, t->rank);
    n = find_messages(a, t, to);
    if (to != a->own)
        return DSFLOW_OK;
    if (n == 0)
        dsflow_rewrite_task(&a->rw, t);
    else if (t->op == &dsf_op_send)
        take_copies(a, t, 1);
    else if (t->op == &dsf_op_copy || t->op == &dsf_op_gather ||
             t->op == &dsf_op_gather_coded || takes_heads(t))
        take_copies(a, t, 0);
    else
        take_beside(a, t);
    note_written(a, t);
    return DSFLOW_OK;
}

/* What no task of the process touches, but the program around it may. */
static void add_persistent(struct apart *a)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(a->rw.in, i)) != NULL; i++)
        if (d->persistent && dsf_process_of(a->all, d->home) == a->own)
            dsflow_rewrite_data(&a->rw, (dsflow_data_id){ i });
}

/* Of the tasks of the part that there are for one of the whole graph, the last
 * one is that, where this process has it. The others carry something for it:
 * what goes out, or what comes, which in the whole graph is what it is made
 * into. */
static void find_moved(const struct apart *a, struct dsf_graph_part *part)
{
    const uint32_t n = dsflow_graph_ntasks(part->graph);

    part->moved = dsf_xcalloc((size_t)n + 1, sizeof(*part->moved));
    part->to = dsf_xcalloc((size_t)n + 1, sizeof(*part->to));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t = dsf_nth_task(part->graph, i);
        const uint32_t of = part->tasks[i];
        const bool last = i + 1 == n || part->tasks[i + 1] != of;
        dsflow_data_id in;

        part->moved[i] =
            part->nth[i] == DSF_NOT_IN_PART ? a->carried[i] : DSF_NOT_IN_PART;
        part->to[i] = t->op == &dsf_op_transmit
                          ? dsf_nth_task(a->rw.in, of)->rank
                          : DSFLOW_ANYWHERE;
        if (last || part->nth[i] == DSF_NOT_IN_PART)
            continue;
        if (!dsflow_graph_find(
                a->rw.in, dsf_nth_data(part->graph, t->data[0].i)->name, &in)) {
            const struct dsflow_task_spec *is = dsf_nth_task(a->rw.in, of);

            in = is->data[made_by(is)];
        }
        part->moved[i] = a->rw.copy[in.i].i;
    }
}

static void find_data(const struct apart *a, struct dsf_graph_part *part)
{
    uint32_t n = dsflow_graph_ndata(a->rw.in);

    part->data = dsf_xcalloc((size_t)n + 1, sizeof(*part->data));
    part->process = dsf_xcalloc((size_t)n + 1, sizeof(*part->process));
    for (uint32_t i = 0; i < n; i++) {
        part->data[i] = a->rw.copied[i] ? a->rw.copy[i].i : DSF_NOT_IN_PART;
        part->process[i] =
            dsf_process_of(a->all, dsf_nth_data(a->rw.in, i)->home);
    }
}

int dsf_process_part(const struct dsf_processes *all, int32_t p,
                     struct dsflow_graph *whole, struct dsf_graph_part *part,
                     struct dsflow_err *err)
{
    struct dsflow_graph *out = dsflow_graph_new();
    struct apart a = { .all = all,
                       .own = p,
                       .rw = dsflow_rewrite_begin(whole, out),
                       .sent = dsf_xcalloc((size_t)all->n, sizeof(*a.sent)),
                       .got = dsf_xcalloc((size_t)all->n, sizeof(*a.got)),
                       .out = dsf_xcalloc((size_t)all->n, sizeof(*a.out)),
                       .in = dsf_xcalloc((size_t)all->n, sizeof(*a.in)),
                       .written =
                           dsf_xcalloc((size_t)dsflow_graph_ndata(whole) + 1,
                                       sizeof(*a.written)) };
    const struct dsflow_task_spec *t;
    int status = DSFLOW_OK;
    size_t cap = 0, cap_nth = 0;
    uint32_t own = 0;

    *part = (struct dsf_graph_part){ .graph = out, .out = a.out, .in = a.in };
    for (uint32_t i = 0;
         status == DSFLOW_OK && (t = dsf_nth_task(whole, i)) != NULL; i++) {
        uint32_t before = dsflow_graph_ntasks(out), n;

        status = take(&a, t, err);
        n = dsflow_graph_ntasks(out);
        dsf_grow(&part->tasks, &cap, (size_t)n + 1, sizeof(*part->tasks));
        dsf_grow(&part->nth, &cap_nth, (size_t)n + 1, sizeof(*part->nth));
        for (bool here = status == DSFLOW_OK && is_own(&a, t); before < n;
             before++) {
            part->tasks[before] = i;
            part->nth[before] = here ? own : DSF_NOT_IN_PART;
        }
        own += status == DSFLOW_OK && is_own(&a, t);
    }
    if (status == DSFLOW_OK)
        status = check_tags(&a, err);
    if (status == DSFLOW_OK) {
        add_persistent(&a);
        find_data(&a, part);
        find_moved(&a, part);
        dsf_process_tasks(all, whole, part);
    }
    free(a.sent);
    free(a.got);
    free(a.written);
    free(a.carried);
    dsf_process_buffers_fini(&a.buffers);
    free(a.from);
    free(a.tags);
    free(a.ports);
    dsflow_rewrite_end(&a.rw);
    if (status == DSFLOW_OK)
        status = dsflow_graph_check(out, err);
    if (status < 0)
        dsf_graph_part_free(part);
    return status;
}

void dsf_graph_part_forget_whole(struct dsf_graph_part *part)
{
    free(part->tasks);
    free(part->data);
    free(part->process);
    free(part->ordered);
    free(part->first);
    part->tasks = part->data = part->ordered = part->first = NULL;
    part->process = NULL;
}

int dsf_process_build_from(const struct dsf_processes *all, int32_t p,
                           const struct dsf_asked_graph *asked,
                           struct dsf_graph_part *part, struct dsflow_err *err)
{
    int status = dsf_process_part(all, p, asked->graph, part, err);

    part->plain = asked->plain;
    part->alone = !asked->is_whole;
    return status;
}

int dsf_process_build(const struct dsf_processes *all, int32_t p,
                      struct dsflow_plan *plan, struct dsf_graph_part *part,
                      struct dsflow_err *err)
{
    struct dsf_asked_graph asked;
    int status = dsf_policies_build_asked(plan, all, p, &asked, err);

    if (status < 0)
        return status;
    status = dsf_process_build_from(all, p, &asked, part, err);
    dsflow_graph_free(asked.graph);
    if (status == DSFLOW_OK)
        dsf_graph_part_forget_whole(part);
    return status;
}

void dsf_graph_part_free(struct dsf_graph_part *part)
{
    dsflow_graph_free(part->graph);
    free(part->nth);
    free(part->moved);
    free(part->to);
    free(part->hashes);
    free(part->out);
    free(part->in);
    dsf_graph_part_forget_whole(part);
    *part = (struct dsf_graph_part){ .graph = NULL };
}
