/* exec_direct.c - messages that go from a GPU to one of another process, by
 * NCCL.
 *
 * What NCCL puts into a stream stays there until the other end has come, and
 * what is behind it waits, also behind it in the same communicator. So that no
 * two wait for each other, whichever tasks are ready first:
 *
 *   - who sends says that it is ready; who receives takes one that is, where its
 *     GPU receives nothing else, says go, and puts its end into the stream; then
 *     who sends puts its own there;
 *   - a GPU has a communicator of its own for all that it receives.
 *
 * So a receive is alone in its stream and its communicator at its GPU, and waits
 * for its send only; a send waits for sends that were told to go before it, of
 * which the first one goes on. Both words are messages of a byte, in main memory.
 */
#include "exec/exec_direct.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/messages.h"
#include "exec/cuda_module.h"
#include "exec/nccl.h"
#include "net/pass.h"
#include "net/watch.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum {
    GO = UINT32_C(1) << 29, /* added to the tag of a message */
    CARD = DSF_OWN_TAGS + 112,
    WORD
};

struct comm {
    pthread_mutex_t lock; /* one thread at a time */
    void *at;             /* NULL: it was left */
};

/* From a GPU of this process to one of another, or back. */
struct way {
    struct dsf_device *device;
    int32_t process;
    unsigned gpu; /* there */
    bool out;
    uint64_t sender, receiver; /* of all GPUs of the job: their places */
    void *place;               /* of the first message */
    struct comm *comm;
    int32_t number; /* of the other GPU in it */
};

/* How a GPU becomes a member. */
struct card {
    char id[DSF_NCCL_ID];
    int32_t n, number;
};

/* Of a message: both ends of it. */
struct parcel {
    struct dsf_launch launch;
    struct dsf_direct *direct;
    struct dsf_message *message;
    const struct way *way;
    struct dsf_message ready, go;
    char is_ready, goes;   /* what they carry */
    _Atomic unsigned left; /* of what has to end before it has ended */
    struct parcel *next;
};

/* What a GPU is to receive: ready at both ends. */
struct line {
    struct parcel *first, **last;
    bool busy; /* with one that is not in the line any more */
};

/* What a process says once: how it went, and where it went wrong. */
struct word {
    int32_t status, process;
    char msg[248];
};
struct other {
    struct dsf_direct *direct;
    int32_t process;
    struct word theirs, ours;
    struct dsf_message in, out;
};

struct dsf_direct {
    struct dsflow_exec *exec;
    const struct dsf_nccl *nccl;
    struct way *ways;
    size_t nways, cap_ways;
    struct comm *comms;
    size_t ncomms;
    struct other *others; /* processes */
    size_t nothers;

    pthread_mutex_t lock; /* of these: */
    pthread_cond_t changed;
    struct line *lines; /* by device */
    size_t left;        /* words that have not come, or not gone */
    bool joined, said;
};

static int fail(const char *why, struct dsflow_err *err)
{
    return why == NULL ? DSFLOW_OK
                       : dsflow_fail(err, DSFLOW_EIO, "NCCL: %s", why);
}

/* --- who sends to whom ---------------------------------------------------- */

static unsigned gpu_of(const struct dsf_device *device, int32_t rank)
{
    return (unsigned)rank % device->all;
}

static uint64_t place_of(int32_t process, unsigned gpu)
{
    return (uint64_t)(uint32_t)process << 32 | gpu;
}

static struct way *find_way(const struct dsf_direct *d,
                            const struct dsf_device *device, int32_t process,
                            unsigned gpu, bool out)
{
    for (size_t i = 0; i < d->nways; i++) {
        struct way *w = &d->ways[i];

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
    const unsigned gpu = gpu_of(device, m->rank);
    const uint64_t here = place_of(d->exec->wire->process, device->index);
    const uint64_t there = place_of(m->process, gpu);

    if (find_way(d, device, m->process, gpu, out) != NULL)
        return;
    dsf_grow(&d->ways, &d->cap_ways, d->nways + 1, sizeof(*d->ways));
    d->ways[d->nways++] =
        (struct way){ .device = device,
                      .process = m->process,
                      .gpu = gpu,
                      .out = out,
                      .sender = out ? here : there,
                      .receiver = out ? there : here,
                      .place = d->exec->mem[data.i] };
}

/* By who receives, and then by who sends: the same order in all processes. */
static int in_order(const void *x, const void *y)
{
    const struct way *a = x, *b = y;

    if (a->receiver != b->receiver)
        return a->receiver < b->receiver ? -1 : 1;
    return a->sender < b->sender ? -1 : a->sender > b->sender;
}

static void add_other(struct dsf_direct *d, int32_t process)
{
    struct other *o;

    for (size_t i = 0; i < d->nothers; i++)
        if (d->others[i].process == process)
            return;
    o = &d->others[d->nothers++];
    o->direct = d;
    o->process = process;
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
    if (d->nways > 0)
        qsort(d->ways, d->nways, sizeof(*d->ways), in_order);
    d->others = dsf_xcalloc(d->nways + 1, sizeof(*d->others));
    for (size_t i = 0; i < d->nways; i++)
        add_other(d, d->ways[i].process);
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
    d->comms = dsf_xcalloc(d->nways + 1, sizeof(*d->comms));
    d->lines = dsf_xcalloc(exec->ndevices, sizeof(*d->lines));
    for (unsigned i = 0; i < exec->ndevices; i++)
        d->lines[i].last = &d->lines[i].first;
    d->nccl = d->nways > 0 ? dsf_nccl_module_open(err) : NULL;
    return d->nways == 0 || d->nccl != NULL ? DSFLOW_OK : DSFLOW_ENOSYS;
}

/* --- communicators -------------------------------------------------------- */

/* Those of the ways from the first on that are to one GPU. */
static size_t to_one(const struct dsf_direct *d, size_t first)
{
    size_t end = first + 1;

    while (end < d->nways && d->ways[end].receiver == d->ways[first].receiver)
        end++;
    return end - first;
}

static struct comm *new_comm(struct dsf_direct *d)
{
    struct comm *c = &d->comms[d->ncomms++];

    pthread_mutex_init(&c->lock, NULL);
    return c;
}

/* Join it with this GPU; between group_begin and group_end. */
static const char *join(struct dsf_direct *d, const struct dsf_device *device,
                        const struct card *card, struct comm *comm)
{
    dsf_cuda_module(NULL)->use(device->index);
    return d->nccl->join(card->id, card->n, card->number, &comm->at);
}

/* It has the number 0, and who sends to it those that follow. */
static int join_receiver(struct dsf_direct *d, struct way *ways, size_t n,
                         struct dsflow_err *err)
{
    struct card card = { .n = (int32_t)n + 1 };
    struct comm *comm = new_comm(d);
    int status = fail(d->nccl->name(card.id), err);

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        ways[i].comm = comm;
        ways[i].number = card.number = (int32_t)i + 1;
        status = dsf_pass(d->exec->wire, true, ways[i].process, CARD, &card,
                          sizeof(card), err);
    }
    card.number = 0;
    return status == DSFLOW_OK
               ? fail(join(d, ways->device, &card, comm), err)
               : status;
}

static int join_senders(struct dsf_direct *d, struct way *ways, size_t n,
                        struct dsflow_err *err)
{
    struct card *cards = dsf_xcalloc(n, sizeof(*cards));
    const char *why = NULL;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++)
        status = dsf_pass(d->exec->wire, false, ways[i].process, CARD,
                          &cards[i], sizeof(cards[i]), err);
    if (status == DSFLOW_OK)
        why = d->nccl->group_begin();
    for (size_t i = 0; i < n && status == DSFLOW_OK && why == NULL; i++) {
        ways[i].comm = new_comm(d);
        why = join(d, ways[i].device, &cards[i], ways[i].comm);
    }
    if (status == DSFLOW_OK && why == NULL)
        why = d->nccl->group_end();
    free(cards);
    return status == DSFLOW_OK ? fail(why, err) : status;
}

static const char *put_on(struct dsf_direct *d, const struct way *w, void *at,
                          size_t bytes, void *stream)
{
    return w->out ? d->nccl->send(at, bytes, w->number, w->comm->at, stream)
                  : d->nccl->receive(at, bytes, w->number, w->comm->at, stream);
}

/* A byte each way: two that meet the first time keep their threads waiting. */
struct trial {
    struct dsf_launch launch;
    struct dsf_direct *direct;
    const struct way *ways;
    size_t n;
    sem_t *ended;
};

static const char *put_trial(struct dsf_launch *launch, void *stream)
{
    struct trial *t = (struct trial *)launch;
    const char *why = t->direct->nccl->group_begin(), *ended;

    for (size_t i = 0; i < t->n && why == NULL; i++)
        why = put_on(t->direct, &t->ways[i], t->ways[i].place, 1, stream);
    ended = t->direct->nccl->group_end();
    return why == NULL ? ended : why;
}

static void end_trial(struct dsf_launch *launch)
{
    sem_post(((struct trial *)launch)->ended);
}

/* All of one communicator: at who receives they are one launch. */
static int try_ways(struct dsf_direct *d, const struct way *ways, size_t n,
                    struct dsflow_err *err)
{
    const size_t launches = ways->out ? n : 1;
    struct trial *v = dsf_xcalloc(launches, sizeof(*v));
    int status = DSFLOW_OK;
    sem_t ended;

    sem_init(&ended, 0, 0);
    for (size_t i = 0; i < launches; i++) {
        v[i] = (struct trial){
            .launch = { .queue = ways->out ? DSF_QUEUE_TO : DSF_QUEUE_FROM,
                        .put = put_trial,
                        .done = end_trial },
            .direct = d,
            .ways = &ways[i],
            .n = ways->out ? 1 : n,
            .ended = &ended
        };
        dsf_device_launch(ways[i].device, &v[i].launch);
    }
    for (size_t i = 0; i < launches; i++)
        while (sem_wait(&ended) != 0)
            ;
    for (size_t i = 0; i < launches && status == DSFLOW_OK; i++)
        if (v[i].launch.status < 0)
            status = dsflow_fail(err, v[i].launch.status, "%s",
                                 v[i].launch.err.msg);
    sem_destroy(&ended);
    free(v);
    return status;
}

/* From any thread. */
static void leave_all(struct dsf_direct *d)
{
    for (size_t i = 0; i < d->ncomms; i++) {
        struct comm *c = &d->comms[i];

        pthread_mutex_lock(&c->lock);
        if (c->at != NULL)
            d->nccl->leave(c->at);
        c->at = NULL;
        pthread_mutex_unlock(&c->lock);
    }
}

/* --- what a process says of how it went ----------------------------------- */

static void word_is_over(struct dsf_message *m)
{
    struct dsf_direct *d = ((struct other *)m->user)->direct;

    pthread_mutex_lock(&d->lock);
    d->left--;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* To each of the others, once. */
static void say(struct dsf_direct *d, const struct word *word)
{
    bool said;

    pthread_mutex_lock(&d->lock);
    said = d->said || !d->joined;
    d->said = true;
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; i < d->nothers && !said; i++) {
        struct other *o = &d->others[i];

        o->ours = *word;
        d->exec->wire->post(d->exec->wire, &o->out);
    }
}

/* A message did not get there: others wait for it, or for one that comes behind
 * it, and their GPUs cannot know. */
static void say_lost(struct dsf_direct *d, const struct dsflow_err *err)
{
    struct word word = { .status = err->status,
                         .process = d->exec->wire->process };

    snprintf(word.msg, sizeof(word.msg), "%.247s", err->msg);
    say(d, &word);
    leave_all(d);
}

static void hear(struct dsf_message *m)
{
    struct other *o = m->user;
    struct dsf_direct *d = o->direct;
    struct dsflow_err err;

    if (o->theirs.status < 0) {
        dsflow_fail(&err, (enum dsflow_status)o->theirs.status, "%s: %s",
                    dsf_watch_name(o->theirs.process).s, o->theirs.msg);
        dsf_exec_fail(d->exec, &err);
        say(d, &o->theirs);
        leave_all(d);
    }
    word_is_over(m);
}

static void listen(struct dsf_direct *d)
{
    d->joined = true;
    d->left = 2 * d->nothers;
    for (size_t i = 0; i < d->nothers; i++) {
        struct other *o = &d->others[i];

        o->in = (struct dsf_message){ .memory = &o->theirs,
                                      .bytes = sizeof(o->theirs),
                                      .process = o->process,
                                      .tag = WORD,
                                      .done = hear,
                                      .user = o };
        o->out = o->in;
        o->out.memory = &o->ours;
        o->out.out = true;
        o->out.done = word_is_over;
        d->exec->wire->post(d->exec->wire, &o->in);
    }
}

int dsf_direct_join(struct dsflow_exec *exec, struct dsflow_err *err)
{
    struct dsf_direct *d = exec->direct;
    int status = DSFLOW_OK;

    if (d == NULL || d->nways == 0)
        return DSFLOW_OK;
    for (size_t i = 0, n; i < d->nways && status == DSFLOW_OK; i += n) {
        n = to_one(d, i);
        status = d->ways[i].out ? join_senders(d, &d->ways[i], n, err)
                                : join_receiver(d, &d->ways[i], n, err);
        if (status == DSFLOW_OK)
            status = try_ways(d, &d->ways[i], n, err);
    }
    if (status == DSFLOW_OK)
        listen(d);
    return status;
}

void dsf_direct_close(struct dsflow_exec *exec)
{
    struct dsf_direct *d = exec->direct;

    if (d == NULL)
        return;
    say(d, &(struct word){ .status = DSFLOW_OK });
    pthread_mutex_lock(&d->lock);
    while (d->left > 0)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
    leave_all(d);
    for (size_t i = 0; i < d->ncomms; i++)
        pthread_mutex_destroy(&d->comms[i].lock);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d->ways);
    free(d->comms);
    free(d->others);
    free(d->lines);
    free(d);
    exec->direct = NULL;
}

/* --- messages ------------------------------------------------------------- */

static void end_one(struct parcel *p)
{
    if (atomic_fetch_sub(&p->left, 1) > 1)
        return;
    p->message->done(p->message);
    free(p);
}

static void end_word(struct dsf_message *m)
{
    end_one(m->user);
}

static void post_word(struct parcel *p, struct dsf_message *word, char *carries,
                      uint32_t tag, bool out,
                      void (*done)(struct dsf_message *m))
{
    struct dsf_wire *wire = p->direct->exec->wire;

    *word = (struct dsf_message){ .memory = carries,
                                  .bytes = 1,
                                  .process = p->way->process,
                                  .tag = tag,
                                  .out = out,
                                  .done = done,
                                  .user = p };
    wire->post(wire, word);
}

static bool is_well(const struct dsf_direct *d)
{
    return dsflow_exec_failed(d->exec, NULL) == DSFLOW_OK;
}

static const char *put(struct dsf_launch *launch, void *stream)
{
    struct parcel *p = (struct parcel *)launch;
    struct comm *comm = p->way->comm;
    const char *why = "the others have been left";

    pthread_mutex_lock(&comm->lock);
    if (comm->at != NULL)
        why = put_on(p->direct, p->way, p->message->memory, p->message->bytes,
                     stream);
    pthread_mutex_unlock(&comm->lock);
    return why;
}

static void launch(struct parcel *p, enum dsf_queue queue,
                   void (*done)(struct dsf_launch *launch))
{
    p->launch =
        (struct dsf_launch){ .queue = queue, .put = put, .done = done };
    dsf_device_launch(p->way->device, &p->launch);
}

static void note(struct parcel *p)
{
    struct dsf_message *m = p->message;

    m->start = p->launch.start;
    m->end = p->launch.end;
    if (p->launch.status == DSFLOW_OK)
        return;
    m->status = p->launch.status;
    m->err = p->launch.err;
    say_lost(p->direct, &m->err);
}

/* What goes. */
static void sent(struct dsf_launch *launched)
{
    struct parcel *p = (struct parcel *)launched;

    note(p);
    end_one(p);
}

static void told_to_go(struct dsf_message *m)
{
    struct parcel *p = m->user;

    if (p->goes)
        launch(p, DSF_QUEUE_TO, sent);
    else
        end_one(p);
}

static void begin_send(struct parcel *p)
{
    const uint32_t tag = p->message->tag;

    p->is_ready = is_well(p->direct);
    p->left = p->is_ready ? 2 : 1;
    if (p->is_ready)
        post_word(p, &p->go, &p->goes, tag + GO, false, told_to_go);
    post_word(p, &p->ready, &p->is_ready, tag, true, end_word);
}

/* What comes. */
static struct line *line_of(const struct parcel *p)
{
    return &p->direct->lines[p->way->device - p->direct->exec->devices];
}

/* The next one of a line, if there is one and the GPU receives nothing. */
static struct parcel *take(struct dsf_direct *d, struct line *line)
{
    struct parcel *p = NULL;

    pthread_mutex_lock(&d->lock);
    if (!line->busy && (p = line->first) != NULL) {
        line->busy = true;
        line->first = p->next;
        if (p->next == NULL)
            line->last = &line->first;
    }
    pthread_mutex_unlock(&d->lock);
    return p;
}

static void let_others(struct dsf_direct *d, struct line *line)
{
    pthread_mutex_lock(&d->lock);
    line->busy = false;
    pthread_mutex_unlock(&d->lock);
}

static void received(struct dsf_launch *launched);

static void receive_next(struct dsf_direct *d, struct line *line)
{
    struct parcel *p;

    while ((p = take(d, line)) != NULL) {
        const bool goes = is_well(d);

        p->goes = goes;
        p->left = goes ? 2 : 1;
        if (!goes)
            let_others(d, line);
        post_word(p, &p->go, &p->goes, p->message->tag + GO, true, end_word);
        if (goes)
            launch(p, DSF_QUEUE_FROM, received);
    }
}

static void received(struct dsf_launch *launched)
{
    struct parcel *p = (struct parcel *)launched;
    struct dsf_direct *d = p->direct;
    struct line *line = line_of(p);

    note(p);
    end_one(p);
    let_others(d, line);
    receive_next(d, line);
}

static void hear_ready(struct dsf_message *m)
{
    struct parcel *p = m->user;
    struct dsf_direct *d = p->direct;
    struct line *line = line_of(p);

    if (!p->is_ready) {
        end_one(p);
        return;
    }
    pthread_mutex_lock(&d->lock);
    *line->last = p;
    line->last = &p->next;
    pthread_mutex_unlock(&d->lock);
    receive_next(d, line);
}

static void begin_receive(struct parcel *p)
{
    p->left = 1;
    post_word(p, &p->ready, &p->is_ready, p->message->tag, false, hear_ready);
}

void dsf_direct_post(struct dsflow_exec *exec, const struct dsf_device *device,
                     int32_t rank, struct dsf_message *m)
{
    struct dsf_direct *d = exec->direct;
    struct parcel *p = dsf_xcalloc(1, sizeof(*p));

    m->status = DSFLOW_OK;
    m->start = m->end = dsf_now();
    p->direct = d;
    p->message = m;
    p->way = find_way(d, device, m->process, gpu_of(device, rank), m->out);
    if (m->out)
        begin_send(p);
    else
        begin_receive(p);
}
