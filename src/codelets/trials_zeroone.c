/* trials_zeroone.c - random cases of the tasks of 0/1 Adam. */
#include "codelets/trials.h"

#include "base/random.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct dsf_zeroone_schedule any_schedule(uint64_t *state)
{
    return (struct dsf_zeroone_schedule){
        .var_freeze_step = dsf_any(state, 1, 10),
        .var_update_scaler = dsf_any(state, 1, 3),
        .local_step_scaler = dsf_any(state, 1, 3),
        .local_step_clipper = dsf_any(state, 1, 4)
    };
}

static unsigned make_held(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_held_args *a)
{
    a->elems = dsf_any(state, 1, 300);
    a->decay = dsf_any(state, -20, 320);
    a->grad_at = dsf_any_place(state);
    a->param_at = dsf_any_place(state);
    a->m_at = dsf_any_place(state);
    a->v_at = dsf_any_place(state);
    a->beta1 = 0.9;
    a->eps = 1e-6f;
    a->weight_decay = 0.1f;
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] = dsf_shape_floats(a->param_at + a->elems);
    shapes[3] = dsf_shape_floats(a->m_at + a->elems);
    shapes[4] = dsf_shape_floats(a->v_at + a->elems);
    return 5;
}

static struct dsflow_shape shape_step(void)
{
    return dsf_shape_doubles(DSF_ZEROONE_STEP_FIELDS);
}

static unsigned make_step(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_local_step_args *a)
{
    a->schedule = any_schedule(state);
    snprintf(a->rates.schedule, sizeof(a->rates.schedule), "constant");
    a->rates.keys.lr = 1e-3;
    a->rates.keys.total = 100;
    shapes[0] = dsf_shape_control();
    shapes[1] = shape_step();
    return 2;
}

static void any_local(uint64_t *state, struct dsf_local_args *a)
{
    a->elems = dsf_any(state, 1, 300);
    a->decay = dsf_any(state, -20, 320);
    a->at = dsf_any_place(state);
    a->grad_at = dsf_any_place(state);
    a->own_at = dsf_any_place(state);
    a->local_at = dsf_any_place(state);
    a->groups = dsf_any(state, 1, 8);
    a->beta1 = 0.9;
    a->eps = 1e-6f;
    a->weight_decay = 0.1f;
}

static unsigned make_weights(uint64_t *state, struct dsflow_shape *shapes,
                             struct dsf_local_args *a)
{
    any_local(state, a);
    shapes[0] = shape_step();
    shapes[1] = dsf_shape_floats(a->at + a->elems);
    shapes[2] = dsf_shape_floats(a->local_at + a->elems);
    shapes[3] = dsf_shape_floats(a->weights_at + a->elems);
    return 4;
}

static unsigned make_update(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_local_args *a)
{
    any_local(state, a);
    shapes[0] = shape_step();
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] = shapes[3] = shapes[4] = dsf_shape_floats(a->at + a->elems);
    shapes[5] = dsf_shape_floats(a->own_at + a->elems);
    shapes[6] = dsf_shape_floats(a->local_at + a->elems);
    return 7;
}

static unsigned make_feed(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_feed_local_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16 };

    a->coding = dsf_any_signs(state, &a->elems);
    a->local_at = dsf_any_place(state);
    a->grad_at = dsf_any_place(state);
    a->error_at = dsf_any_place(state);
    a->groups = dsf_any(state, 1, 8);
    a->eps = 1e-6;
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->local_at + a->elems);
    shapes[2] = dsf_shape_floats(a->elems);
    shapes[3] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[4] =
        dsflow_shape_of(types[dsf_any(state, 0, 1)], a->error_at + a->elems);
    return 5;
}

static unsigned make_serve(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_chunk_args *a)
{
    dsf_any_chunks(state, a);
    a->last = dsf_any(state, 0, 3);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] = dsf_shape_doubles(a->coding.ntensors * a->groups);
    shapes[3] = dsf_shape_floats(a->server_at + a->elems);
    return 4;
}

static unsigned make_settle(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_settle_args *a)
{
    a->elems = dsf_any(state, 1, 300);
    a->mean_at = dsf_any_place(state);
    a->param_at = dsf_any_place(state);
    a->m_at = dsf_any_place(state);
    a->v_at = dsf_any_place(state);
    a->eps = 1e-6;
    shapes[0] = shape_step();
    shapes[1] = dsf_shape_floats(a->mean_at + a->elems);
    shapes[2] = dsf_shape_floats(a->param_at + a->elems);
    shapes[3] = dsf_shape_floats(a->m_at + a->elems);
    shapes[4] = dsf_shape_floats(a->v_at + a->elems);
    return 5;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    if (op == &dsf_op_held_update)
        *n = make_held(&state, shapes, args);
    else if (op == &dsf_op_local_step)
        *n = make_step(&state, shapes, args);
    else if (op == &dsf_op_local_weights)
        *n = make_weights(&state, shapes, args);
    else if (op == &dsf_op_local_update)
        *n = make_update(&state, shapes, args);
    else if (op == &dsf_op_feed_local)
        *n = make_feed(&state, shapes, args);
    else if (op == &dsf_op_serve_mean)
        *n = make_serve(&state, shapes, args);
    else
        *n = make_settle(&state, shapes, args);
    return DSFLOW_OK;
}

static void fill_control(uint64_t *state, struct dsflow_control *c)
{
    memset(c, 0, sizeof(*c));
    c->step = dsf_any(state, 1, 20);
    c->lr = 1e-3;
    c->loss_scale = c->scale = 1;
}

static void fill_step(uint64_t *state, struct dsf_zeroone_step *s)
{
    s->fresh = dsf_any(state, 0, 1);
    s->lr = 1e-3;
    s->rates = dsf_any(state, 0, 5) == 0 ? 0 : 5e-3;
}

/* Second moments, some of which are 0. */
static int fill_moments(uint64_t *state, float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = dsf_any(state, 0, 7) == 0
                   ? 0
                   : fabsf((float)dsf_random_normal(state));
    return 1;
}

/* Controls and what follows from them, second moments, and errors of their
 * type. */
static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed + port;

    if (port == 0 && strcmp(op->ports[0].name, "step") == 0)
        fill_step(&state, data);
    else if (port == 0)
        fill_control(&state, data);
    if (port == 0)
        return 1;
    if (op->ports[port].name[0] == 'v')
        return fill_moments(&state, data, elems);
    return op == &dsf_op_feed_local && port == 4
               ? dsf_fill_as_made(&dsf_trials_zeroone, op, seed, port, &state,
                                  data, elems)
               : 0;
}

const struct dsflow_trials dsf_trials_zeroone = { .make = make_case,
                                                  .fill = fill_case };
