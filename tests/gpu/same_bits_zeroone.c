/* same_bits_zeroone.c - cases of test_same_bits of 0/1 Adam, and of gradients
 * of groups that are clipped: numbers that begin anywhere, second moments of
 * which some are 0, steps in which all workers have the same weights and
 * others. */
#include "gpu/same_bits.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

static struct dsflow_shape step(void)
{
    return dsflow_shape_of(DSFLOW_FP64, DSF_ZEROONE_STEP_FIELDS);
}

static void make_clip_group(struct trial *t)
{
    struct dsf_clip_group_args *a = (void *)t->args;

    *a =
        (struct dsf_clip_group_args){ .elems = any_size(t),
                                      .at = any_start(t),
                                      .groups = any(t, 1, 8),
                                      .limit = 1e-3 * (double)any(t, 1, 5000) };
    t->n = 3;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->at + a->elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, 1);
}

static void make_held(struct trial *t)
{
    struct dsf_held_args *a = (void *)t->args;

    a->elems = any_size(t);
    a->decay = any(t, -20, a->elems + 20);
    a->grad_at = any_start(t);
    a->param_at = any_start(t);
    a->m_at = any_start(t);
    a->v_at = any_start(t);
    a->beta1 = 0.9;
    a->eps = one_in(t, 2) ? 1e-8f : 1e-3f;
    a->weight_decay = one_in(t, 4) ? 0 : 0.1f;
    t->n = 5;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->grad_at + a->elems);
    t->shapes[2] = floats(a->param_at + a->elems);
    t->shapes[3] = floats(a->m_at + a->elems);
    t->shapes[4] = floats(a->v_at + a->elems);
}

static void any_local(struct trial *t)
{
    struct dsf_local_args *a = (void *)t->args;

    a->elems = any_size(t);
    a->decay = any(t, -20, a->elems + 20);
    a->at = any_start(t);
    a->grad_at = any_start(t);
    a->own_at = any_start(t);
    a->local_at = any_start(t);
    a->weights_at = any_start(t);
    a->groups = any(t, 1, 8);
    a->beta1 = 0.9;
    a->eps = one_in(t, 2) ? 1e-8f : 1e-3f;
    a->weight_decay = one_in(t, 4) ? 0 : 0.1f;
}

static void make_weights(struct trial *t)
{
    const struct dsf_local_args *a = (const void *)t->args;

    any_local(t);
    t->n = 4;
    t->shapes[0] = step();
    t->shapes[1] = floats(a->at + a->elems);
    t->shapes[2] = floats(a->local_at + a->elems);
    t->shapes[3] = floats(a->weights_at + a->elems);
}

static void make_update(struct trial *t)
{
    const struct dsf_local_args *a = (const void *)t->args;

    any_local(t);
    t->n = 7;
    t->shapes[0] = step();
    t->shapes[1] = floats(a->grad_at + a->elems);
    for (unsigned i = 2; i < 5; i++)
        t->shapes[i] = floats(a->at + a->elems);
    t->shapes[5] = floats(a->own_at + a->elems);
    t->shapes[6] = floats(a->local_at + a->elems);
}

static void make_feed(struct trial *t)
{
    struct dsf_feed_local_args *a = (void *)t->args;
    const bool narrow = one_in(t, 2);
    int64_t blocks;

    a->coding = any_signs(t, &blocks);
    a->elems = blocks * a->coding.block;
    a->local_at = any_start(t);
    a->grad_at = any_start(t);
    a->error_at = any_start(t);
    a->groups = any(t, 1, 8);
    a->eps = one_in(t, 2) ? 1e-8 : 1e-3;
    t->n = 5;
    t->shapes[4] = dsflow_shape_of(narrow ? DSFLOW_BF16 : DSFLOW_FP32,
                                   a->error_at + a->elems);
    if (one_in(t, 4)) {
        a->elems = any(t, 1, a->elems);
        a->at = any_start(t);
        leave_out(t, 4);
    }
    t->shapes[0] = control();
    t->shapes[1] = floats(a->local_at + a->elems);
    t->shapes[2] = floats(a->at + a->elems);
    t->shapes[3] = floats(a->grad_at + a->elems);
}

static void make_serve_mean(struct trial *t)
{
    struct dsf_chunk_args *a = (void *)t->args;

    do
        any_chunks(t);
    while (a->coding.ntensors == 0);
    a->last = any(t, 0, 5);
    t->n = 4;
    t->shapes[0] = control();
    t->shapes[1] = floats(a->grad_at + a->elems);
    t->shapes[2] = dsflow_shape_of(DSFLOW_FP64, a->coding.ntensors * a->groups);
    t->shapes[3] = floats(a->server_at + a->elems);
}

static void make_settle(struct trial *t)
{
    struct dsf_settle_args *a = (void *)t->args;

    a->elems = any_size(t);
    a->mean_at = any_start(t);
    a->param_at = any_start(t);
    a->m_at = any_start(t);
    a->v_at = any_start(t);
    a->eps = one_in(t, 2) ? 1e-8 : 1e-3;
    t->n = 5;
    t->shapes[0] = step();
    t->shapes[1] = floats(a->mean_at + a->elems);
    t->shapes[2] = floats(a->param_at + a->elems);
    t->shapes[3] = floats(a->m_at + a->elems);
    t->shapes[4] = floats(a->v_at + a->elems);
}

/* moments: the port of second moments. */
static const struct {
    const char *op;
    void (*make)(struct trial *t);
    unsigned moments;
} kinds[] = {
    { "clip_group", make_clip_group, 0 }, { "held_update", make_held, 4 },
    { "local_weights", make_weights, 0 }, { "local_update", make_update, 3 },
    { "feed_local", make_feed, 2 },       { "serve_mean", make_serve_mean, 0 },
    { "local_settle", make_settle, 4 },
};

void make_zeroone(struct trial *t)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(kinds[i].op, t->op) == 0) {
            kinds[i].make(t);
            t->moments = kinds[i].moments;
        }
    t->calm = one_in(t, 2);
}

bool fill_zeroone(struct trial *t, unsigned port)
{
    const bool is_step = strncmp(t->op, "local_", 6) == 0 && port == 0;
    struct dsf_zeroone_step *s = t->before[port];
    const bool plain = one_in(t, 2);
    float *v = t->before[port];

    if (is_step)
        *s = (struct dsf_zeroone_step){
            .fresh = (double)any(t, 0, 1),
            .lr = 1e-5 * (double)any(t, 0, 3000),
            .rates = one_in(t, 4) ? 0 : 1e-5 * (double)any(t, 1, 9000),
        };
    if (is_step || t->moments == 0 || port != t->moments)
        return is_step;
    for (int64_t i = 0; i < t->shapes[port].elems; i++)
        v[i] = fabsf(any_float(t, plain));
    return true;
}
