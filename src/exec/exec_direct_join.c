/* exec_direct_join.c - communicators of NCCL: a few, each of all GPUs that send
 * or receive (exec_direct_comms.c). */
#include "exec/exec_direct_private.h"

#include "base/alloc.h"
#include "exec/cuda_module.h"
#include "net/pass.h"
#include "net/watch.h"

#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

static int nccl_fail(const char *why, struct dsflow_err *err)
{
    return why == NULL ? DSFLOW_OK : dsflow_fail(err, DSFLOW_EIO, "%s", why);
}

/* --- who takes part ------------------------------------------------------- */

static int in_order(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

    return (a > b) - (a < b);
}

static uint64_t place_of(const struct dsf_way *w)
{
    return w->out ? w->sender : w->receiver;
}

/* Its number among those that take part, which it is one of. */
static size_t number_of(const struct dsf_direct *d, uint64_t place)
{
    const uint64_t *at =
        bsearch(&place, d->gpus, d->ngpus, sizeof(place), in_order);

    return (size_t)(at - d->gpus);
}

static void add_gpu(struct dsf_direct *d, uint64_t place)
{
    for (size_t i = 0; i < d->ngpus; i++)
        if (d->gpus[i] == place)
            return;
    dsf_grow(&d->gpus, &d->cap_gpus, d->ngpus + 1, sizeof(*d->gpus));
    d->gpus[d->ngpus++] = place;
}

/* All that this process knows of, to a process; or all that that one knows. */
static int pass_gpus(struct dsf_direct *d, bool out, int32_t process,
                     struct dsflow_err *err)
{
    struct dsf_wire *wire = d->exec->wire;
    uint64_t n = d->ngpus, *v;
    int status =
        dsf_pass(wire, out, process, DSF_DIRECT_MEET, &n, sizeof(n), err);

    if (status < 0 || n == 0)
        return status;
    v = out ? d->gpus : dsf_xcalloc(n, sizeof(*v));
    status =
        dsf_pass(wire, out, process, DSF_DIRECT_MEET, v, n * sizeof(*v), err);
    for (size_t i = 0; i < n && !out; i++)
        add_gpu(d, v[i]);
    if (!out)
        free(v);
    return status;
}

/* Of all processes, which tell process 0; it tells them, in order. */
static int find_gpus(struct dsf_direct *d, struct dsflow_err *err)
{
    const struct dsf_wire *wire = d->exec->wire;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < d->nways; i++)
        add_gpu(d, place_of(&d->ways[i]));
    d->nown = d->ngpus;
    if (wire->process > 0) {
        status = pass_gpus(d, true, 0, err);
        d->ngpus = 0;
        return status == DSFLOW_OK ? pass_gpus(d, false, 0, err) : status;
    }
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = pass_gpus(d, false, p, err);
    if (d->ngpus > 0)
        qsort(d->gpus, d->ngpus, sizeof(*d->gpus), in_order);
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = pass_gpus(d, true, p, err);
    return status;
}

/* All that have GPUs in the communicators: nobody leaves these while others
 * still send there. */
static void find_others(struct dsf_direct *d)
{
    int32_t last = d->exec->wire->process;

    d->others = dsf_xcalloc(d->ngpus, sizeof(*d->others));
    for (size_t i = 0; i < d->ngpus; i++) {
        const int32_t process = (int32_t)(d->gpus[i] >> 32);

        if (process != last && process != d->exec->wire->process)
            d->others[d->nothers++] =
                (struct dsf_direct_other){ .direct = d, .process = process };
        last = process;
    }
}

/* The names of as many communicators, which the process of the first GPU gives
 * them. */
static int name_comms(struct dsf_direct *d, char (*names)[DSF_NCCL_ID],
                      unsigned n, struct dsflow_err *err)
{
    struct dsf_wire *wire = d->exec->wire;
    const int32_t first = (int32_t)(d->gpus[0] >> 32);
    const size_t bytes = n * sizeof(*names);
    int32_t told = first;
    int status = DSFLOW_OK;

    if (wire->process != first)
        return dsf_pass(wire, false, first, DSF_DIRECT_MEET, names, bytes, err);
    for (unsigned k = 0; k < n && status == DSFLOW_OK; k++)
        status = nccl_fail(d->nccl->name(names[k]), err);
    for (size_t i = 0; i < d->ngpus && status == DSFLOW_OK; i++) {
        const int32_t process = (int32_t)(d->gpus[i] >> 32);

        if (process != told)
            status = dsf_pass(wire, true, process, DSF_DIRECT_MEET, names,
                              bytes, err);
        told = process;
    }
    return status;
}

/* --- communicators -------------------------------------------------------- */

/* Of each of them as many as this process has GPUs that take part, in the order
 * of these. */
static void add_comms(struct dsf_direct *d, unsigned n)
{
    size_t own = 0;

    d->ncomms = n * d->nown;
    d->comms = dsf_xcalloc(d->ncomms, sizeof(*d->comms));
    for (size_t i = 0; i < d->ncomms; i++) {
        d->comms[i].nccl = d->nccl;
        pthread_mutex_init(&d->comms[i].lock, NULL);
    }
    for (size_t i = 0; i < d->nways; i++) {
        struct dsf_way *w = &d->ways[i];
        const size_t from = number_of(d, w->sender);
        const size_t to = number_of(d, w->receiver);
        const unsigned k = dsf_direct_comm(n, from, to);
        size_t j = 0;

        while (j < own && d->comms[j].device != w->device)
            j++;
        for (unsigned c = 0; c < n && j == own; c++) {
            d->comms[c * d->nown + j].device = w->device;
            d->comms[c * d->nown + j].member = (int32_t)(w->out ? from : to);
        }
        own += j == own;
        w->comm = &d->comms[k * d->nown + j];
        w->number = (int32_t)(w->out ? to : from);
    }
}

/* With all GPUs of this process at once. */
static int join(struct dsf_direct *d, const char name[DSF_NCCL_ID],
                struct dsf_direct_comm *comms, struct dsflow_err *err)
{
    const char *why = d->nccl->group_begin();

    for (size_t j = 0; j < d->nown && why == NULL; j++) {
        dsf_cuda_module(NULL)->use(comms[j].device->index);
        why = d->nccl->join(name, (int)d->ngpus, comms[j].member, &comms[j].at);
    }
    return nccl_fail(why == NULL ? d->nccl->group_end() : why, err);
}

const char *dsf_direct_put(struct dsf_direct *d, const struct dsf_way *w,
                           void *at, size_t bytes, void *stream)
{
    return w->out ? d->nccl->send(at, bytes, w->number, w->comm->at, stream)
                  : d->nccl->receive(at, bytes, w->number, w->comm->at, stream);
}

/* --- a first byte --------------------------------------------------------- */

/* A byte on each way of a communicator at a GPU, all of which go or come: two
 * that meet the first time keep their threads waiting. */
struct trial {
    struct dsf_launch launch;
    struct dsf_direct *direct;
    const struct dsf_direct_comm *comm;
    sem_t *ended;
    _Atomic bool failed;
};

static const char *put_trial(struct dsf_launch *launch, void *stream)
{
    struct trial *t = (struct trial *)launch;
    const struct dsf_direct *d = t->direct;
    const char *why = d->nccl->group_begin(), *ended;

    for (size_t i = 0; i < d->nways && why == NULL; i++)
        if (d->ways[i].comm == t->comm)
            why = dsf_direct_put(t->direct, &d->ways[i], d->ways[i].place, 1,
                                 stream);
    ended = d->nccl->group_end();
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

/* The first way of a communicator at a GPU; NULL: it carries nothing there. */
static const struct dsf_way *first_way(const struct dsf_direct *d,
                                       const struct dsf_direct_comm *comm)
{
    for (size_t i = 0; i < d->nways; i++)
        if (d->ways[i].comm == comm)
            return &d->ways[i];
    return NULL;
}

/* Of one communicator, at all GPUs of this process. */
static int try_ways(struct dsf_direct *d, struct dsf_direct_comm *comms,
                    struct dsflow_err *err)
{
    struct trial *v = dsf_xcalloc(d->nown, sizeof(*v));
    int status = DSFLOW_OK;
    size_t n = 0;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (size_t j = 0; j < d->nown; j++) {
        const struct dsf_way *w = first_way(d, &comms[j]);
        struct trial *t = &v[n];

        if (w == NULL)
            continue;
        t->launch = (struct dsf_launch){ .queue = w->out ? DSF_QUEUE_TO
                                                         : DSF_QUEUE_FROM,
                                         .put = put_trial,
                                         .done = end_trial };
        t->direct = d;
        t->comm = &comms[j];
        t->ended = &ended;
        dsf_device_launch(w->device, &t->launch);
        n++;
    }
    await_trials(v, n, &ended);
    for (size_t i = 0; i < n && status == DSFLOW_OK; i++)
        if (v[i].launch.status < 0)
            status =
                dsflow_fail(err, v[i].launch.status, "%s", v[i].launch.err.msg);
    sem_destroy(&ended);
    free(v);
    return status;
}

/* One after the other, by all. */
static int join_all(struct dsf_direct *d, struct dsflow_err *err)
{
    const unsigned n = dsf_direct_comms(d->ngpus);
    const int32_t other = d->ways[0].process;
    char(*names)[DSF_NCCL_ID] = dsf_xcalloc(n, sizeof(*names));
    int status = name_comms(d, names, n, err);

    find_others(d);
    add_comms(d, n);
    for (unsigned k = 0; k < n && status == DSFLOW_OK; k++) {
        struct dsf_direct_comm *comms = &d->comms[k * d->nown];

        dsf_watch_waits(other, "NCCL");
        status = join(d, names[k], comms, err);
        if (status == DSFLOW_OK)
            status = try_ways(d, comms, err);
        dsf_watch_waits(other, NULL);
    }
    free(names);
    return status;
}

/* --- the end -------------------------------------------------------------- */

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
    int status;

    if (d == NULL)
        return DSFLOW_OK;
    status = find_gpus(d, err);
    if (status == DSFLOW_OK && d->nways > 0)
        status = join_all(d, err);
    if (status < 0) /* others may be in NCCL, and wait for this one there */
        dsf_watch_give_up(err->msg);
    if (status == DSFLOW_OK && d->nways > 0) {
        dsf_direct_listen(d);
        dsf_direct_look(d);
    }
    return status;
}
