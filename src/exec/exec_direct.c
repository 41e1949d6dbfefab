/* exec_direct.c - messages that go from a GPU to one of another process, by
 * NCCL: which there are.
 *
 * What NCCL puts into a stream stays there until the other end has come, and
 * what is behind it waits, also behind it in the same communicator. So that no
 * two wait for each other, whichever tasks are ready first:
 *
 *   - who sends says that it is ready; who receives takes one that is, where
 *     its GPU receives nothing else, says go, and puts its end into the stream;
 *     then who sends puts its own there (exec_direct_post.c);
 *   - a GPU sends in other communicators than it receives in
 *     (exec_direct_comms.c).
 *
 * So a receive is alone in its stream and its communicator at its GPU, and
 * waits for its send only; a send waits for sends that were told to go before
 * it, of which the first one goes on. Both words are messages of a byte, in
 * main memory.
 *
 * CUDA loads kernels when they are first launched, and may wait for all that
 * the GPU has begun before it does: for a receive, whose send may be behind a
 * kernel that another GPU loads. So they are all loaded before
 * (dsf_cuda_expect_messages).
 */
#include "exec/exec_direct_private.h"

#include "base/alloc.h"
#include "codelets/messages.h"

#include <stdlib.h>

static uint64_t place_of(int32_t process, unsigned gpu)
{
    return (uint64_t)(uint32_t)process << 32 | gpu;
}

struct dsf_way *dsf_direct_way(const struct dsf_direct *d,
                               const struct dsf_device *device, int32_t process,
                               unsigned gpu, bool out)
{
    for (size_t i = 0; i < d->nways; i++) {
        struct dsf_way *w = &d->ways[i];

        if (w->device == device && w->process == process && w->gpu == gpu &&
            w->out == out)
            return w;
    }
    return NULL;
}

static void add_way(struct dsf_direct *d, const struct dsf_exec_call *call,
                    const struct dsf_part_message *m, bool out)
{
    const dsflow_data_id data = call->task->data[0];
    struct dsf_device *device = d->exec->on[data.i];
    const unsigned gpu = dsf_direct_gpu(device, m->rank);
    const uint64_t here = place_of(d->exec->wire->process, device->index);
    const uint64_t there = place_of(m->process, gpu);

    if (dsf_direct_way(d, device, m->process, gpu, out) != NULL)
        return;
    dsf_grow(&d->ways, &d->cap_ways, d->nways + 1, sizeof(*d->ways));
    d->ways[d->nways++] = (struct dsf_way){ .device = device,
                                            .process = m->process,
                                            .gpu = gpu,
                                            .out = out,
                                            .sender = out ? here : there,
                                            .receiver = out ? there : here,
                                            .place = d->exec->mem[data.i] };
}

static void find_ways(struct dsf_direct *d)
{
    const struct dsflow_exec *exec = d->exec;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];
        struct dsf_part_message parts[DSF_MOST_MESSAGES];
        bool out;

        if (!dsf_is_direct(call->task) ||
            exec->on[call->task->data[0].i] == NULL)
            continue;
        for (unsigned k = dsf_messages(call->task, parts, &out); k-- > 0;)
            add_way(d, call, &parts[k], out);
    }
}

int dsf_direct_open(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_direct *d;

    if (exec->ndevices == 0 || exec->wire == NULL)
        return DSFLOW_OK;
    d = exec->direct = dsf_xcalloc(1, sizeof(*d));
    d->exec = exec;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    find_ways(d);
    d->lines = dsf_xcalloc(exec->ndevices, sizeof(*d->lines));
    for (unsigned i = 0; i < exec->ndevices; i++)
        d->lines[i].last = &d->lines[i].first;
    d->nccl = d->nways > 0 ? dsf_nccl_module_open(err) : NULL;
    return d->nways == 0 || d->nccl != NULL ? DSFLOW_OK : DSFLOW_ENOSYS;
}

void dsf_direct_close(struct dsflow_exec *exec)
{
    struct dsf_direct *d = exec->direct;

    if (d == NULL)
        return;
    dsf_direct_look_no_more(d);
    dsf_direct_part(d);
    dsf_direct_leave(d, "NCCL does not end");
    for (size_t i = 0; i < d->ncomms; i++)
        pthread_mutex_destroy(&d->comms[i].lock);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->ways);
    free(d->comms);
    free(d->gpus);
    free(d->others);
    free(d->lines);
    free(d);
    exec->direct = NULL;
}
