/* exec_direct_post.c - one message between two GPUs, from its task's beginning
 * to its end. */
#include "exec/exec_direct_private.h"

#include "base/alloc.h"
#include "base/units.h"

#include <stdlib.h>

_Static_assert(DSF_GRAPH_TAGS + DSF_DIRECT_GO <= DSF_OWN_TAGS,
               "two tags for each message of a graph");

/* Both ends of it. */
struct dsf_parcel {
    struct dsf_launch launch;
    struct dsf_direct *direct;
    struct dsf_message *message;
    const struct dsf_way *way;
    struct dsf_message ready, go;
    char is_ready, goes;   /* what they carry */
    _Atomic unsigned left; /* of what has to end before it has ended */
    struct dsf_parcel *next;
};

static void end_one(struct dsf_parcel *p)
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

static void post_word(struct dsf_parcel *p, struct dsf_message *word,
                      char *carries, uint32_t tag, bool out,
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
    struct dsf_parcel *p = (struct dsf_parcel *)launch;
    struct dsf_direct_comm *comm = p->way->comm;
    const char *why = "the others have been left";

    pthread_mutex_lock(&comm->lock);
    if (comm->at != NULL)
        why = dsf_direct_put(p->direct, p->way, p->message->memory,
                             p->message->bytes, stream);
    pthread_mutex_unlock(&comm->lock);
    return why;
}

static void launch(struct dsf_parcel *p, enum dsf_queue queue,
                   void (*done)(struct dsf_launch *launch))
{
    p->launch = (struct dsf_launch){ .queue = queue, .put = put, .done = done };
    dsf_device_launch(p->way->device, &p->launch);
}

static void note(struct dsf_parcel *p)
{
    struct dsf_message *m = p->message;

    m->start = p->launch.start;
    m->end = p->launch.end;
    if (p->launch.status == DSFLOW_OK)
        return;
    m->status = p->launch.status;
    m->err = p->launch.err;
    dsf_direct_say_lost(p->direct, &m->err);
}

/* What goes. */
static void sent(struct dsf_launch *launched)
{
    struct dsf_parcel *p = (struct dsf_parcel *)launched;

    note(p);
    end_one(p);
}

static void told_to_go(struct dsf_message *m)
{
    struct dsf_parcel *p = m->user;

    if (p->goes)
        launch(p, DSF_QUEUE_TO, sent);
    else
        end_one(p);
}

static void begin_send(struct dsf_parcel *p)
{
    const uint32_t tag = p->message->tag;

    p->is_ready = is_well(p->direct);
    p->left = p->is_ready ? 2 : 1;
    if (p->is_ready)
        post_word(p, &p->go, &p->goes, tag + DSF_DIRECT_GO, false, told_to_go);
    post_word(p, &p->ready, &p->is_ready, tag, true, end_word);
}

/* What comes. */
static struct dsf_direct_line *line_of(const struct dsf_parcel *p)
{
    return &p->direct->lines[p->way->device - p->direct->exec->devices];
}

/* The next one of a line, if there is one and the GPU receives nothing. */
static struct dsf_parcel *take(struct dsf_direct *d,
                               struct dsf_direct_line *line)
{
    struct dsf_parcel *p = NULL;

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

static void let_others(struct dsf_direct *d, struct dsf_direct_line *line)
{
    pthread_mutex_lock(&d->lock);
    line->busy = false;
    pthread_mutex_unlock(&d->lock);
}

static void received(struct dsf_launch *launched);

static void receive_next(struct dsf_direct *d, struct dsf_direct_line *line)
{
    struct dsf_parcel *p;

    while ((p = take(d, line)) != NULL) {
        const bool goes = is_well(d);

        p->goes = goes;
        p->left = goes ? 2 : 1;
        if (!goes)
            let_others(d, line);
        post_word(p, &p->go, &p->goes, p->message->tag + DSF_DIRECT_GO, true,
                  end_word);
        if (goes)
            launch(p, DSF_QUEUE_FROM, received);
    }
}

static void received(struct dsf_launch *launched)
{
    struct dsf_parcel *p = (struct dsf_parcel *)launched;
    struct dsf_direct *d = p->direct;
    struct dsf_direct_line *line = line_of(p);

    note(p);
    end_one(p);
    let_others(d, line);
    receive_next(d, line);
}

static void hear_ready(struct dsf_message *m)
{
    struct dsf_parcel *p = m->user;
    struct dsf_direct *d = p->direct;
    struct dsf_direct_line *line = line_of(p);

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

static void begin_receive(struct dsf_parcel *p)
{
    p->left = 1;
    post_word(p, &p->ready, &p->is_ready, p->message->tag, false, hear_ready);
}

void dsf_direct_post(struct dsflow_exec *exec, const struct dsf_device *device,
                     int32_t rank, struct dsf_message *m)
{
    struct dsf_direct *d = exec->direct;
    struct dsf_parcel *p = dsf_xcalloc(1, sizeof(*p));

    m->status = DSFLOW_OK;
    m->start = m->end = dsf_now();
    p->direct = d;
    p->message = m;
    p->way = dsf_direct_way(d, device, m->process, dsf_direct_gpu(device, rank),
                            m->out);
    if (m->out)
        begin_send(p);
    else
        begin_receive(p);
}
