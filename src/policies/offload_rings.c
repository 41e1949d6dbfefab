/* offload_rings.c - which data is offloaded, and how many buffers it gets.
 *
 * Data of one sort (the weights of mlp, the keys and values of a layer …)
 * shares a ring. It has as many buffers as the tasks of one layer and
 * micro-batch use together, as many again for each that is read ahead, and for
 * each that waits to be written. Where that is enough for all there is of the
 * sort, nothing of it is moved.
 */
#include "policies/offload_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is this data of a kind that a key of [offload] names, and not a buffer that
 * passes by already? */
static bool is_kept(const struct dsflow_data_spec *d)
{
    switch (d->role) {
    case DSFLOW_PARAMS:
    case DSFLOW_STATES:
        return d->persistent && d->unit >= 0;
    case DSFLOW_GRADS:
        return d->unit >= 0;
    case DSFLOW_ACTIVATIONS:
        return !d->persistent;
    default:
        return false;
    }
}

/* Updates need the states of a unit in turn: the first ones, which the next
 * step needs first, stay up to the share that was asked for. */
static void keep_share(struct offload *o)
{
    uint32_t n = dsflow_graph_ndata(o->rw.in);
    double *all = dsf_xcalloc((size_t)o->plan->nranks, sizeof(*all));
    double *kept = dsf_xcalloc((size_t)o->plan->nranks, sizeof(*kept));

    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            const struct dsflow_data_spec *d = dsf_nth_data(o->rw.in, i);
            double bytes = (double)d->bytes;

            if (d->role != DSFLOW_STATES || !is_kept(d))
                continue;
            if (pass == 0) {
                all[d->home] += bytes;
            } else if (kept[d->home] + bytes <= o->keys->share * all[d->home]) {
                kept[d->home] += bytes;
                o->items[i].home = DSFLOW_DEVICE;
            }
        }
    free(all);
    free(kept);
}

static void find_homes(struct offload *o)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(o->rw.in, i)) != NULL; i++) {
        o->items[i].ring = o->items[i].slot = -1;
        o->items[i].home =
            is_kept(d) ? (uint8_t)o->keys->home[d->role] : d->tier;
    }
    if (o->keys->home[DSFLOW_STATES] != DSFLOW_DEVICE)
        keep_share(o);
}

/* The uses of each piece of data, in order. */
static void find_uses(struct offload *o)
{
    const struct dsflow_task_spec *t;
    size_t n = 0;

    for (uint32_t i = 0; (t = dsf_nth_task(o->rw.in, i)) != NULL; i++)
        n += t->ndata;
    o->uses = dsf_xcalloc(n, sizeof(*o->uses));
    for (uint32_t i = dsflow_graph_ntasks(o->rw.in); i-- > 0;) {
        t = dsf_nth_task(o->rw.in, i);
        for (unsigned p = t->ndata; p-- > 0;) {
            struct item *item = &o->items[t->data[p].i];

            o->uses[--n] =
                (struct use){ i, item->use, (uint8_t)dsflow_task_access(t, p) };
            item->use = (uint32_t)n + 1;
        }
    }
}

/* Which data share a ring: parameters of one size, whatever layer they are of;
 * one state of all sizes, as it is cut in pieces that can share buffers, and
 * what is not cut is updated one after the other; else one class and size. */
static struct ring key_of(const struct dsflow_data_spec *d, bool near)
{
    struct ring key = { .rank = d->home,
                        .role = (uint8_t)d->role,
                        .tier = d->role == DSFLOW_STATES && !near
                                    ? DSFLOW_HOST
                                    : DSFLOW_DEVICE,
                        .dtype = d->dtype };

    if (d->role != DSFLOW_STATES)
        key.elems = d->elems;
    if (d->role == DSFLOW_STATES)
        key.of = d->kept;
    else if (d->role != DSFLOW_PARAMS)
        key.of = d->ring_class;
    return key;
}

static bool is_same(const struct ring *a, const struct ring *b)
{
    return a->rank == b->rank && a->role == b->role && a->tier == b->tier &&
           a->of == b->of && a->elems == b->elems && a->dtype == b->dtype;
}

static int32_t ring_of(struct offload *o, const struct dsflow_data_spec *d,
                       bool near)
{
    struct ring key = key_of(d, near);
    size_t i = 0;

    while (i < o->nrings && !is_same(&o->rings[i], &key))
        i++;
    if (i == o->nrings) {
        dsf_grow(&o->rings, &o->cap_rings, ++o->nrings, sizeof(*o->rings));
        o->rings[i] = key;
    }
    return (int32_t)i;
}

/* States that are in main memory are used there, but for those that a GPU
 * updates. */
static void find_rings(struct offload *o)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(o->rw.in, i)) != NULL; i++) {
        struct item *item = &o->items[i];
        struct ring *ring;

        if (item->home == DSFLOW_DEVICE || item->use == 0 ||
            (d->role == DSFLOW_STATES && item->home == DSFLOW_HOST &&
             !item->near))
            continue;
        item->ring = ring_of(o, d, item->near);
        ring = &o->rings[item->ring];
        ring->members++;
        if (d->elems > ring->most)
            ring->most = d->elems;
    }
}

/* Tasks that follow each other on a rank and are of one layer, micro-batch and
 * pass are an epoch. */
struct place {
    int16_t layer, microbatch;
    uint8_t pass;
    dsflow_program program;
    uint32_t epoch;
};

static uint32_t epoch_of(struct place *p, const struct dsflow_task_spec *t,
                         uint32_t *epochs)
{
    if (p->epoch == 0 || p->layer != t->layer ||
        p->microbatch != t->microbatch || p->pass != t->pass ||
        p->program != t->program)
        *p = (struct place){ t->layer, t->microbatch, t->pass, t->program,
                             ++*epochs };
    return p->epoch;
}

static void count_together(struct offload *o)
{
    struct place *places =
        dsf_xcalloc((size_t)o->plan->nranks + 1, sizeof(*places));
    const struct dsflow_task_spec *t;
    uint32_t epochs = 0;

    for (uint32_t i = 0; (t = dsf_nth_task(o->rw.in, i)) != NULL; i++) {
        uint32_t epoch = epoch_of(&places[t->rank + 1], t, &epochs);

        for (unsigned p = 0; p < t->ndata; p++) {
            struct item *item = &o->items[t->data[p].i];
            struct ring *ring;

            if (item->ring < 0)
                continue;
            ring = &o->rings[item->ring];
            if (ring->epoch != epoch)
                ring->now = 0;
            if (item->epoch != epoch || ring->epoch != epoch)
                ring->now++;
            item->epoch = ring->epoch = epoch;
            if (ring->now > ring->together)
                ring->together = ring->now;
            ring->written |= (dsflow_task_access(t, p) & DSFLOW_W) != 0;
        }
    }
    free(places);
}

static void size_rings(struct offload *o)
{
    const struct dsf_offload_keys *keys = o->keys;

    for (size_t i = 0; i < o->nrings; i++) {
        struct ring *ring = &o->rings[i];
        int64_t times = 1 + keys->read_ahead;

        /* The pieces of a unit are updated one after the other. */
        if (ring->role == DSFLOW_STATES)
            ring->together = 1;
        if (ring->written)
            times += keys->write_behind;
        if ((int64_t)ring->members > (int64_t)ring->together * times) {
            ring->length = (uint32_t)(ring->together * times);
            ring->slots = dsf_xcalloc(ring->length, sizeof(*ring->slots));
        }
    }
    for (uint32_t i = 0; i < dsflow_graph_ndata(o->rw.in); i++) {
        struct item *item = &o->items[i];

        if (item->ring >= 0 && o->rings[item->ring].slots == NULL) {
            item->home = o->rings[item->ring].tier;
            item->ring = -1;
        }
    }
}

void dsf_offload_begin(struct offload *o)
{
    o->items = dsf_xcalloc((size_t)dsflow_graph_ndata(o->rw.in) + 1,
                           sizeof(*o->items));
    find_homes(o);
    dsf_offload_find_near(o);
    find_uses(o);
    find_rings(o);
    count_together(o);
    size_rings(o);
}

void dsf_offload_end(struct offload *o)
{
    for (size_t i = 0; i < o->nrings; i++)
        free(o->rings[i].slots);
    free(o->rings);
    free(o->items);
    free(o->uses);
}
