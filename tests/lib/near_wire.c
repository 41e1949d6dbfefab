/* near_wire.c - messages between executors of one program. */
#include "lib/near_wire.h"

#include "base/units.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One that was sent and not received, or the other way round. */
struct half {
    int32_t from, to;
    uint32_t tag;
    size_t bytes;
    void *sent;                /* a copy; NULL: it is waited for, by */
    struct dsf_message *wants; /* this one */
    struct half *next;
};

struct end {
    struct dsf_wire wire;
    struct near_wire *all;
};

struct near_wire {
    pthread_mutex_t lock;
    struct half *halves; /* in the order of posting */
    struct end *ends;
};

static struct half **find(struct near_wire *all, const struct half *of)
{
    struct half **at = &all->halves;

    while (*at != NULL && ((*at)->from != of->from || (*at)->to != of->to ||
                           (*at)->tag != of->tag ||
                           ((*at)->sent != NULL) == (of->sent != NULL)))
        at = &(*at)->next;
    return at;
}

static void add(struct near_wire *all, const struct half *of)
{
    struct half **last = &all->halves;

    while (*last != NULL)
        last = &(*last)->next;
    *last = malloc(sizeof(**last));
    **last = *of;
    (*last)->next = NULL;
}

static void arrive(struct dsf_message *m, const void *sent, size_t bytes)
{
    if (bytes != m->bytes)
        m->status = dsflow_fail(&m->err, DSFLOW_EIO,
                                "message %u from process %d: %zu bytes: "
                                "expected %zu",
                                m->tag, m->process, bytes, m->bytes);
    else
        memcpy(m->memory, sent, bytes);
    m->end = dsf_now();
    m->done(m);
}

static void post(struct dsf_wire *wire, struct dsf_message *m)
{
    struct near_wire *all = ((struct end *)wire)->all;
    struct half own = { .from = m->out ? wire->process : m->process,
                        .to = m->out ? m->process : wire->process,
                        .tag = m->tag,
                        .bytes = m->bytes };
    struct half *other, **at;

    m->start = m->end = dsf_now();
    if (m->out) {
        own.sent = malloc(m->bytes + 1);
        memcpy(own.sent, m->memory, m->bytes);
    } else {
        own.wants = m;
    }
    pthread_mutex_lock(&all->lock);
    at = find(all, &own);
    other = *at;
    if (other != NULL)
        *at = other->next;
    else
        add(all, &own);
    pthread_mutex_unlock(&all->lock);
    /* One that waits may have ended by now. */
    if (own.sent != NULL)
        m->done(m);
    if (other == NULL)
        return;
    arrive(other->wants != NULL ? other->wants : m,
           other->sent != NULL ? other->sent : own.sent,
           other->sent != NULL ? other->bytes : own.bytes);
    free(other->sent);
    free(own.sent);
    free(other);
}

struct near_wire *near_wires_new(int32_t n)
{
    struct near_wire *all = calloc(1, sizeof(*all));

    pthread_mutex_init(&all->lock, NULL);
    all->ends = calloc((size_t)n, sizeof(*all->ends));
    for (int32_t i = 0; i < n; i++)
        all->ends[i] = (struct end){
            .wire = { .process = i, .nprocesses = n, .post = post },
            .all = all,
        };
    return all;
}

struct dsf_wire *near_wire(struct near_wire *wires, int32_t process)
{
    return &wires->ends[process].wire;
}

unsigned near_wires_free(struct near_wire *wires)
{
    unsigned n = 0;

    for (struct half *h = wires->halves, *next; h != NULL; h = next, n++) {
        next = h->next;
        free(h->sent);
        free(h);
    }
    pthread_mutex_destroy(&wires->lock);
    free(wires->ends);
    free(wires);
    return n;
}
