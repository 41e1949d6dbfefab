/* exec_direct_join.c - communicators of NCCL: one for each GPU that receives,
 * of all that send to it. */
#include "exec/exec_direct_private.h"

#include "base/alloc.h"
#include "exec/cuda_module.h"
#include "net/pass.h"
#include "net/watch.h"

#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

/* How a GPU becomes a member. */
struct card {
    char id[DSF_NCCL_ID];
    int32_t n, number;
};

static int nccl_fail(const char *why, struct dsflow_err *err)
{
    return why == NULL ? DSFLOW_OK : dsflow_fail(err, DSFLOW_EIO, "%s", why);
}

/* Those of the ways from the first on that are to one GPU. */
static size_t to_one(const struct dsf_direct *d, size_t first)
{
    size_t end = first + 1;

    while (end < d->nways && d->ways[end].receiver == d->ways[first].receiver)
        end++;
    return end - first;
}

static struct dsf_direct_comm *new_comm(struct dsf_direct *d,
                                        const struct dsf_device *device)
{
    struct dsf_direct_comm *c = &d->comms[d->ncomms++];

    c->nccl = d->nccl;
    c->device = device;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

/* Join it with its GPU; between group_begin and group_end. */
static const char *join(const struct card *card, struct dsf_direct_comm *comm)
{
    dsf_cuda_module(NULL)->use(comm->device->index);
    return comm->nccl->join(card->id, card->n, card->number, &comm->at);
}

/* It has the number 0, and who sends to it those that follow. */
static int join_receiver(struct dsf_direct *d, struct dsf_way *ways, size_t n,
                         struct dsflow_err *err)
{
    struct card card = { .n = (int32_t)n + 1 };
    struct dsf_direct_comm *comm = new_comm(d, ways->device);
    int status = nccl_fail(d->nccl->name(card.id), err);

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        ways[i].comm = comm;
        ways[i].number = card.number = (int32_t)i + 1;
        status = dsf_pass(d->exec->wire, true, ways[i].process, DSF_DIRECT_CARD,
                          &card, sizeof(card), err);
    }
    card.number = 0;
    return status == DSFLOW_OK ? nccl_fail(join(&card, comm), err) : status;
}

static int join_senders(struct dsf_direct *d, struct dsf_way *ways, size_t n,
                        struct dsflow_err *err)
{
    struct card *cards = dsf_xcalloc(n, sizeof(*cards));
    const char *why = NULL;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++)
        status = dsf_pass(d->exec->wire, false, ways[i].process,
                          DSF_DIRECT_CARD, &cards[i], sizeof(cards[i]), err);
    if (status == DSFLOW_OK)
        why = d->nccl->group_begin();
    for (size_t i = 0; i < n && status == DSFLOW_OK && why == NULL; i++) {
        ways[i].comm = new_comm(d, ways[i].device);
        why = join(&cards[i], ways[i].comm);
    }
    if (status == DSFLOW_OK && why == NULL)
        why = d->nccl->group_end();
    free(cards);
    return status == DSFLOW_OK ? nccl_fail(why, err) : status;
}

const char *dsf_direct_put(struct dsf_direct *d, const struct dsf_way *w,
                           void *at, size_t bytes, void *stream)
{
    return w->out ? d->nccl->send(at, bytes, w->number, w->comm->at, stream)
                  : d->nccl->receive(at, bytes, w->number, w->comm->at, stream);
}

/* A byte each way: two that meet the first time keep their threads waiting. */
struct trial {
    struct dsf_launch launch;
    struct dsf_direct *direct;
    const struct dsf_way *ways;
    size_t n;
    sem_t *ended;
    _Atomic bool failed;
};

static const char *put_trial(struct dsf_launch *launch, void *stream)
{
    struct trial *t = (struct trial *)launch;
    const char *why = t->direct->nccl->group_begin(), *ended;

    for (size_t i = 0; i < t->n && why == NULL; i++)
        why =
            dsf_direct_put(t->direct, &t->ways[i], t->ways[i].place, 1, stream);
    ended = t->direct->nccl->group_end();
    return why == NULL ? ended : why;
}

static void end_trial(struct dsf_launch *launch)
{
    struct trial *t = (struct trial *)launch;

    t->failed = launch->status < 0;
    sem_post(t->ended);
}

/* Others, also of this process, may wait in NCCL for one that has failed. */
static void await_trials(const struct trial *v, size_t n, sem_t *ended)
{
    for (size_t left = n; left > 0; left--) {
        while (sem_wait(ended) != 0)
            ;
        for (size_t i = 0; i < n; i++)
            if (v[i].failed)
                dsf_watch_give_up(v[i].launch.err.msg);
    }
}

/* All of one communicator: at who receives they are one launch. */
static int try_ways(struct dsf_direct *d, const struct dsf_way *ways, size_t n,
                    struct dsflow_err *err)
{
    const size_t launches = ways->out ? n : 1;
    struct trial *v = dsf_xcalloc(launches, sizeof(*v));
    int status = DSFLOW_OK;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (size_t i = 0; i < launches; i++) {
        v[i] = (struct trial){ .launch = { .queue = ways->out ? DSF_QUEUE_TO
                                                              : DSF_QUEUE_FROM,
                                           .put = put_trial,
                                           .done = end_trial },
                               .direct = d,
                               .ways = &ways[i],
                               .n = ways->out ? 1 : n,
                               .ended = &ended };
        dsf_device_launch(ways[i].device, &v[i].launch);
    }
    await_trials(v, launches, &ended);
    for (size_t i = 0; i < launches && status == DSFLOW_OK; i++)
        if (v[i].launch.status < 0)
            status =
                dsflow_fail(err, v[i].launch.status, "%s", v[i].launch.err.msg);
    sem_destroy(&ended);
    free(v);
    return status;
}

struct leaver {
    pthread_t thread;
    struct dsf_direct_comm *comm;
    bool runs;
    bool kept; /* NCCL does not return from a call of another thread, without
                  which it cannot be left */
};

static void *leave_one(void *leaver)
{
    static const time_t MOST = 5; /* seconds */
    struct leaver *l = leaver;
    struct dsf_direct_comm *c = l->comm;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += MOST;
    l->kept = pthread_mutex_timedlock(&c->lock, &until) != 0;
    if (l->kept)
        return NULL;
    dsf_cuda_module(NULL)->use(c->device->index);
    if (c->at != NULL)
        c->nccl->leave(c->at);
    c->at = NULL;
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* From any thread. All at once: to leave one frees memory of the GPU, for which
 * CUDA waits for all that is under way there, in the others, too. */
void dsf_direct_leave(struct dsf_direct *d, const char *why)
{
    struct leaver *all = dsf_xcalloc(d->ncomms + 1, sizeof(*all));
    bool kept = false;

    for (size_t i = 0; i < d->ncomms; i++) {
        all[i].comm = &d->comms[i];
        all[i].runs =
            pthread_create(&all[i].thread, NULL, leave_one, &all[i]) == 0;
    }
    for (size_t i = 0; i < d->ncomms; i++)
        if (!all[i].runs)
            leave_one(&all[i]);
    for (size_t i = 0; i < d->ncomms; i++) {
        if (all[i].runs)
            pthread_join(all[i].thread, NULL);
        kept |= all[i].kept;
    }
    free(all);
    if (kept)
        dsf_watch_give_up(why);
}

int dsf_direct_join(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_direct *d = exec->direct;
    int status = DSFLOW_OK;

    if (d == NULL || d->nways == 0)
        return DSFLOW_OK;
    for (size_t i = 0, n; i < d->nways && status == DSFLOW_OK; i += n) {
        const int32_t process = d->ways[i].process;

        n = to_one(d, i);
        dsf_watch_waits(process, "NCCL");
        status = d->ways[i].out ? join_senders(d, &d->ways[i], n, err)
                                : join_receiver(d, &d->ways[i], n, err);
        if (status == DSFLOW_OK)
            status = try_ways(d, &d->ways[i], n, err);
        dsf_watch_waits(process, NULL);
    }
    if (status == DSFLOW_OK) {
        dsf_direct_listen(d);
        dsf_direct_look(d);
    } else { /* others may be in NCCL, and wait for this one there */
        dsf_watch_give_up(err->msg);
    }
    return status;
}
