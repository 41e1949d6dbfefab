/* process_messages.c - what goes from one process to another, and what comes.
 *
 * What a task only copies is received where it belongs; what it adds up comes
 * into buffers, of which so many take turns that one task's may come while
 * another's are added.
 *
 * Where ranks are on devices, messages are of buffers in main memory: what goes
 * is copied there first, and what comes is copied on, which engines of devices
 * do beside kernels. Where GPUs are to send to each other, what is on GPUs at
 * both ends goes straight.
 */
#include "policies/process_private.h"

#include "base/alloc.h"
#include "policies/policies.h"
#include "policies/processes.h"
#include "tasks/tasks.h"

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
        return dsf_compressed_move(t->args, dsf_apart_data(a, t, i)->elems);
    return (struct dsf_range){ dsf_apart_data(a, t, i)->elems, 0, 0 };
}

/* Does it go from GPU to GPU? Both processes say the same. Batches, control and
 * the like are the host's: they, and sums of a few numbers, are in main memory.
 */
static bool is_direct(const struct apart *a, const struct dsflow_task_spec *t,
                      unsigned i)
{
    const struct dsflow_data_spec *from = dsf_apart_data(a, t, i);

    return a->all->direct && from->tier == DSFLOW_DEVICE &&
           dsf_apart_data(a, t, dsf_task_makes(t))->tier == DSFLOW_DEVICE &&
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
                            (enum dsflow_dtype)dsf_apart_data(a, t, i)->dtype,
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
    const struct dsflow_data_spec *d = dsf_apart_data(a, t, i);
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

void dsf_apart_send(struct apart *a, const struct dsflow_task_spec *t,
                    unsigned i)
{
    const int32_t to = dsf_process_of(a->all, t->rank);
    int64_t at = range_of(a, t, i).from;
    dsflow_data_id data = dsflow_rewrite_data(&a->rw, t->data[i]), from = data;
    struct dsf_message_args args;

    mix_message(a, a->out, to, t, i);
    if (!is_straight(a, t, i) || takes_heads(t)) {
        from = leave(a, t, i, data);
        at = 0;
    }
    args = message(a, t, i, at, to, a->sent[to]++, t->rank);
    dsf_add_like(a->rw.out, t, &dsf_op_transmit, &args,
                 dsf_apart_data(a, t, i)->home, 0, 1, &from);
    note_carried(a, data);
}

/* --- what comes ----------------------------------------------------------- */

void dsf_apart_expect(struct apart *a, const struct dsflow_task_spec *t,
                      unsigned i)
{
    mix_message(a, a->in, a->from[i], t, i);
    a->tags[i] = a->got[a->from[i]]++;
}

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
                   dsf_apart_data(a, t, i)->home);
}

/* A buffer on the task's rank for what it takes of its data[i], the `k`-th of
 * its buffers of that name. */
static dsflow_data_id buffer_for(struct apart *a,
                                 const struct dsflow_task_spec *t, unsigned i,
                                 unsigned k, const char *name)
{
    return dsf_process_buffer(&a->buffers, a->rw.out, name, t->rank,
                              dsf_apart_data(a, t, i)->dtype,
                              range_of(a, t, i).elems, k);
}

/* Such a buffer, and the task that receives it. */
static dsflow_data_id received(struct apart *a,
                               const struct dsflow_task_spec *t, unsigned i,
                               unsigned k, const char *name)
{
    struct dsf_receive_args parts = { .n = 1, .part = { coming(a, t, i, 0) } };
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

void dsf_apart_take(struct apart *a, const struct dsflow_task_spec *t)
{
    if (t->op == &dsf_op_send)
        take_copies(a, t, 1);
    else if (t->op == &dsf_op_copy || t->op == &dsf_op_gather ||
             t->op == &dsf_op_gather_coded || takes_heads(t))
        take_copies(a, t, 0);
    else
        take_beside(a, t);
}
