/* trials.c - random cases of the built-in kinds of task that are no segment. */
#include "codelets/trials.h"

#include "base/random.h"
#include "tasks/args.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

int32_t dsf_any(uint64_t *state, int32_t least, int32_t most)
{
    return least + (int32_t)(dsf_random(state) % (uint64_t)(most - least + 1));
}

struct dsflow_shape dsf_shape_floats(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP32, n);
}

struct dsflow_shape dsf_shape_doubles(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP64, n);
}

struct dsflow_shape dsf_shape_control(void)
{
    return dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control));
}

int64_t dsf_any_place(uint64_t *state)
{
    return 16 * dsf_any(state, 0, 3);
}

/* Who tries a CUDA side has an op of its own, of the same name. */
static bool is_kind(const struct dsflow_op *op, const char *name)
{
    return strcmp(op->name, name) == 0;
}

/* The control of an optimizer's step, and what it may not be below 0. */
static int fill_update(const struct dsflow_op *op, uint64_t seed, unsigned port,
                       void *data, int64_t elems, const void *args)
{
    const bool moments = is_kind(op, "adam") || is_kind(op, "lamb") ||
                         is_kind(op, "lamb_moments") || is_kind(op, "muon");
    const bool second =
        (port == 4 && moments) || (port == 3 && is_kind(op, "adagrad"));
    uint64_t state = seed + port;
    float *v = data;

    if (port == 0)
        *(struct dsflow_control *)data = (struct dsflow_control){
            .step = dsf_any(&state, 1, 9),
            .lr = 0.01,
            .correction1 = 0.3,
            .correction2 = 0.2,
            .norm = 3,
            .scale = 0.5,
            .loss_scale = 4,
        };
    if (second)
        for (int64_t i = 0; i < elems; i++)
            v[i] = (float)fabs(dsf_random_normal(&state));
    return port == 0 || second;
}

/* sgd leaves its state out for every other seed: it has no momentum then. Half of
 * the others have a copy, in bf16 or fp16. */
static int make_update(const struct dsflow_op *op, uint64_t seed,
                       struct dsflow_shape *shapes, unsigned *n, void *args,
                       unsigned *fresh)
{
    const unsigned copy = op->nports - 1;
    const bool none = dsf_is_optional(op, copy - 1) && seed & 1;
    const bool copies = !none && seed & 2;
    struct dsf_update_args *a = args;
    uint64_t state = seed;
    size_t elems = (size_t)dsf_any(&state, 1, 300);

    *n = op->nports - none - !copies;
    a->at.elems = (int64_t)elems;
    a->at.decay = dsf_any(&state, 0, (int32_t)elems);
    a->at.grad_at = 16 * dsf_any(&state, 0, 2);
    a->at.param_at = 16 * dsf_any(&state, 0, 2);
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    a->eps = 1e-8f;
    a->weight_decay = 0.1f;
    a->momentum = none ? 0 : 0.9f;
    a->decoupled = dsf_any(&state, 0, 1);
    a->uncorrected = dsf_any(&state, 0, 3) == 0;
    a->nesterov = !none && dsf_any(&state, 0, 1);
    shapes[0] = dsf_shape_control();
    for (unsigned i = 1; i < *n; i++)
        shapes[i] = dsf_shape_floats(elems);
    shapes[1] = dsf_shape_floats(elems + (size_t)a->at.grad_at);
    shapes[2] = dsf_shape_floats(elems + (size_t)a->at.param_at);
    if (is_kind(op, "adam") && dsf_any(&state, 0, 1)) {
        a->m_at = 16;
        shapes[3] = dsf_shape_floats(elems + 16);
    }
    a->copies = copies;
    a->copy_at = copies ? 16 * dsf_any(&state, 0, 2) : 0;
    if (copies)
        shapes[copy] = dsflow_shape_of(seed & 4 ? DSFLOW_FP16 : DSFLOW_BF16,
                                       (int64_t)elems + a->copy_at);
    return DSFLOW_OK;
}

const struct dsflow_trials dsf_trials_update = { .make = make_update,
                                                 .fill = fill_update };

/* What a part has of three tensors of a unit: the second in two pieces, between
 * which numbers of none stand; a shard may begin within the first. */
static void make_tensors(struct dsf_update_args *a, uint64_t *state)
{
    static const int16_t numbers[] = { 0, 1, 1, 3 };
    int64_t at = -(int64_t)dsf_any(state, 0, 40);

    a->at.ntensors = 4;
    for (int i = 0; i < 4; i++) {
        struct dsflow_tensor *t = &a->at.tensors[i];
        int64_t left = a->at.elems - at, least = at < 0 ? 1 - at : 1;

        *t = (struct dsflow_tensor){ .at = at,
                                     .rows = 1,
                                     .cols = dsf_any(state, (int32_t)least,
                                                     (int32_t)left),
                                     .kind = DSFLOW_VECTOR,
                                     .decays = (int16_t)dsf_any(state, 0, 1),
                                     .number = numbers[i] };
        at += t->cols + dsf_any(state, 0, 8);
        if (at >= a->at.elems) {
            a->at.ntensors = i + 1;
            return;
        }
    }
}

/* The two tasks of LAMB that work on a unit: of the moments, two of three seeds
 * have a gradient in bf16 or fp16; of the other, every second has a copy. */
static int make_lamb(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    struct dsf_update_args *a = args;
    const bool moments = is_kind(op, "lamb_moments");
    uint64_t state = seed;
    int64_t blocks = dsf_any(&state, 1, 4);

    a->at.block = seed % 7 == 6 ? 5000 : dsf_any(&state, 16, 600);
    a->at.elems = a->at.block * blocks;
    a->at.grad_at = 16 * dsf_any(&state, 0, 2);
    a->at.param_at = 16 * dsf_any(&state, 0, 2);
    make_tensors(a, &state);
    a->width = 8;
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    a->eps = 1e-6f;
    a->weight_decay = 0.1f;
    a->uncorrected = dsf_any(&state, 0, 3) == 0;
    a->copies = !moments && seed & 1;
    a->copy_at = a->copies ? 16 * dsf_any(&state, 0, 2) : 0;
    *n = 5 + (moments || a->copies);
    shapes[0] = dsf_shape_control();
    shapes[1] = moments
                    ? dsf_shape_floats((size_t)(a->at.grad_at + a->at.elems))
                    : dsf_shape_doubles(4);
    shapes[2] = dsf_shape_floats((size_t)(a->at.param_at + a->at.elems));
    shapes[3] = shapes[4] = dsf_shape_floats((size_t)a->at.elems);
    if (moments)
        shapes[5] = dsf_shape_doubles((size_t)(blocks * a->width));
    else if (a->copies)
        shapes[5] = dsflow_shape_of(seed & 2 ? DSFLOW_FP16 : DSFLOW_BF16,
                                    a->at.elems + a->copy_at);
    return DSFLOW_OK;
}

const struct dsflow_trials dsf_trials_lamb = { .make = make_lamb,
                                               .fill = fill_update };

/* Wide, tall and square matrices of a layer, and a vector behind them, of which
 * alone there may be second moments; or no vector, and none; or, for every
 * fourth seed, an embedding that is cut. Half of them have a copy; some are
 * large, and some begin anywhere. */
static int make_muon(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    struct dsf_update_args *a = args;
    uint64_t state = seed;
    const bool embedding = seed % 4 == 3, large = seed % 8 == 5;
    const int step = seed % 8 == 2 ? 1 : 16;
    int64_t at = embedding ? -(int64_t)dsf_any(&state, 0, 30) : 0;

    a->at.ntensors = embedding ? 1 : seed % 8 == 4 ? 2 : 3;
    for (int16_t i = 0; i < a->at.ntensors; i++) {
        struct dsflow_tensor *t = &a->at.tensors[i];
        const bool vector = !embedding && i == 2;

        *t = (struct dsflow_tensor){
            .at = at,
            .rows = vector ? 1 : dsf_any(&state, embedding ? 31 : 1, 40),
            .cols = dsf_any(&state, 1, 40) * (large ? 8 : 1),
            .kind = embedding ? DSFLOW_EMBEDDING
                    : vector  ? DSFLOW_VECTOR
                              : DSFLOW_MATRIX,
            .decays = !vector,
            .number = i,
        };
        at = (at + t->rows * t->cols + 15) / 16 * 16;
    }
    a->at.elems = embedding ? at / 2 + 1 : at;
    if (seed % 8 == 4)
        a->v_at = at;
    else if (seed % 8 < 2)
        a->v_at = a->at.tensors[2].at;
    a->at.grad_at = step * dsf_any(&state, 0, 2);
    a->at.param_at = step * dsf_any(&state, 0, 2);
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    a->eps = 1e-6f;
    a->weight_decay = 0.1f;
    a->momentum = 0.95f;
    a->nesterov = dsf_any(&state, 0, 1);
    a->steps = dsf_any(&state, 1, 5);
    a->scale = dsf_any(&state, DSF_MUON_SHAPE, DSF_MUON_RMS);
    a->adam_rate = 0.1;
    a->copies = seed & 1;
    a->copy_at = a->copies ? step * dsf_any(&state, 0, 2) : 0;
    *n = seed % 8 == 4 ? 4 : 5 + (unsigned)a->copies;
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats((size_t)(a->at.grad_at + a->at.elems));
    shapes[2] = dsf_shape_floats((size_t)(a->at.param_at + a->at.elems));
    shapes[3] = dsf_shape_floats((size_t)a->at.elems);
    if (*n > 4)
        shapes[4] = dsf_shape_floats((size_t)(a->at.elems - a->v_at));
    if (a->copies)
        shapes[5] = dsflow_shape_of(seed & 2 ? DSFLOW_FP16 : DSFLOW_BF16,
                                    a->at.elems + a->copy_at);
    return DSFLOW_OK;
}

const struct dsflow_trials dsf_trials_muon = { .make = make_muon,
                                               .fill = fill_update };

static int make_ratio(const struct dsflow_op *op, uint64_t seed,
                      struct dsflow_shape *shapes, unsigned *n, void *args,
                      unsigned *fresh)
{
    struct dsf_ratio_args *a = args;
    uint64_t state = seed;

    a->n = dsf_any(&state, 1, 4);
    a->width = 8;
    a->least = 0.01;
    a->most = dsf_any(&state, 0, 1) ? 10 : 0.5;
    *n = (unsigned)dsf_any(&state, 2, 9);
    shapes[0] = dsf_shape_doubles((size_t)a->n);
    for (unsigned i = 1; i < *n; i++)
        shapes[i] = dsf_shape_doubles(8 * (size_t)dsf_any(&state, 1, 9));
    return DSFLOW_OK;
}

/* Sums of squares, some of them 0. */
static int fill_ratio(const struct dsflow_op *op, uint64_t seed, unsigned port,
                      void *data, int64_t elems, const void *args)
{
    uint64_t state = seed + port;
    double *v = data;

    for (int64_t i = 0; i < elems; i++)
        v[i] =
            (int64_t)(seed % 3) == i % 4 ? 0 : fabs(dsf_random_normal(&state));
    return 1;
}
const struct dsflow_trials dsf_trials_ratio = { .make = make_ratio,
                                                .fill = fill_ratio };

static int make_add(const struct dsflow_op *op, uint64_t seed,
                    struct dsflow_shape *shapes, unsigned *n, void *args,
                    unsigned *fresh)
{
    struct dsf_sum_args *a = args;
    uint64_t state = seed;

    /* No port is without a type, as one without numbers would be. */
    a->elems = dsf_any(&state, 1, 300);
    /* What is fresh is all written. */
    a->at = seed & 1 ? 0 : dsf_any(&state, 0, 20);
    a->from = dsf_any(&state, 0, 40);
    *n = (unsigned)dsf_any(&state, 2, 9);
    a->self = dsf_any(&state, 0, (int32_t)*n - 1);
    shapes[0] = dsf_shape_floats((size_t)(a->at + a->elems));
    for (unsigned i = 1; i < *n; i++)
        shapes[i] = dsf_shape_floats((size_t)(a->from + a->elems));
    *fresh = seed & 1;
    return DSFLOW_OK;
}
const struct dsflow_trials dsf_trials_add = { .make = make_add };

static int make_wait(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    *n = (unsigned)dsf_any(&state, 2, 5);
    for (unsigned i = 0; i < *n; i++)
        shapes[i] = dsf_shape_floats((size_t)dsf_any(&state, 1, 40));
    return DSFLOW_OK;
}
const struct dsflow_trials dsf_trials_wait = { .make = make_wait };

static int make_square(const struct dsflow_op *op, uint64_t seed,
                       struct dsflow_shape *shapes, unsigned *n, void *args,
                       unsigned *fresh)
{
    struct dsf_square_args *a = args;
    uint64_t state = seed;

    int32_t block = dsf_any(&state, 1, 40), blocks = dsf_any(&state, 1, 9);

    a->elems = block * blocks;
    a->at = block * dsf_any(&state, 0, 3);
    shapes[0] = dsf_shape_floats((size_t)(a->at + a->elems));
    shapes[1] = dsf_shape_doubles((size_t)blocks);
    *n = 2;
    return DSFLOW_OK;
}
const struct dsflow_trials dsf_trials_square = { .make = make_square };

static int make_sum(const struct dsflow_op *op, uint64_t seed,
                    struct dsflow_shape *shapes, unsigned *n, void *args,
                    unsigned *fresh)
{
    uint64_t state = seed;

    *n = (unsigned)dsf_any(&state, 2, DSFLOW_TRIAL_PORTS);
    shapes[0] = dsf_shape_doubles(1);
    for (unsigned i = 1; i < *n; i++)
        shapes[i] = dsf_shape_doubles((size_t)dsf_any(&state, 1, 30));
    *fresh = seed & 1;
    return DSFLOW_OK;
}
const struct dsflow_trials dsf_trials_sum = { .make = make_sum };

static int make_clip(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    ((struct dsf_clip_args *)args)->limit = dsf_any(&state, 0, 3);
    ((struct dsf_clip_args *)args)->nonfinite = dsf_any(&state, 0, 2);
    shapes[0] = shapes[1] = dsf_shape_doubles(1);
    shapes[2] = dsf_shape_control();
    *n = 3;
    return DSFLOW_OK;
}

static int fill_clip(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed;

    if (port < 2)
        *(double *)data = 4 * fabs(dsf_random_normal(&state));
    if (port == 0 && seed % 5 == 4)
        *(double *)data = INFINITY;
    if (port == 1 && seed % 5 == 3)
        *(double *)data = NAN;
    return port < 2 ? 1 : fill_update(op, seed, 0, data, elems, args);
}
const struct dsflow_trials dsf_trials_clip = { .make = make_clip,
                                               .fill = fill_clip };

static int make_clip_group(const struct dsflow_op *op, uint64_t seed,
                           struct dsflow_shape *shapes, unsigned *n, void *args,
                           unsigned *fresh)
{
    struct dsf_clip_group_args *a = args;
    uint64_t state = seed;

    a->elems = dsf_any(&state, 1, 3000);
    a->at = 16 * dsf_any(&state, 0, 3);
    a->groups = dsf_any(&state, 1, 8);
    a->limit = dsf_any(&state, 1, 3);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats((size_t)(a->at + a->elems));
    shapes[2] = dsf_shape_doubles(1);
    *n = 3;
    return DSFLOW_OK;
}

static int fill_clip_group(const struct dsflow_op *op, uint64_t seed,
                           unsigned port, void *data, int64_t elems,
                           const void *args)
{
    uint64_t state = seed;

    if (port == 2)
        *(double *)data = 4 * fabs(dsf_random_normal(&state));
    return port == 2   ? 1
           : port == 0 ? fill_update(op, seed, 0, data, elems, args)
                       : 0;
}
const struct dsflow_trials dsf_trials_clip_group = { .make = make_clip_group,
                                                     .fill = fill_clip_group };

/* The types of a case: one of the two is fp32. */
static void cast_types(uint64_t *state, enum dsflow_dtype *in,
                       enum dsflow_dtype *out, int32_t *rounding)
{
    static const enum dsflow_dtype others[] = { DSFLOW_BF16, DSFLOW_INT8_BLOCK,
                                                DSFLOW_FP16, DSFLOW_FP64 };

    *rounding = dsf_any(state, DSF_ROUND_NEAREST, DSF_ROUND_STOCHASTIC);
    *in = *out = DSFLOW_FP32;
    if (*rounding == DSF_ROUND_STOCHASTIC)
        *out = others[dsf_any(state, 0, 1)];
    else
        *(dsf_any(state, 0, 1) ? in : out) = others[dsf_any(state, 0, 3)];
}

static int make_cast(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    struct dsf_cast_args *a = args;
    enum dsflow_dtype in, out;
    uint64_t state = seed;

    cast_types(&state, &in, &out, &a->rounding);
    a->elems = dsf_any(&state, 0, 3) == 0 ? 5000 : dsf_any(&state, 0, 900);
    a->at = DSFLOW_BLOCK_ELEMS * dsf_any(&state, 0, 9);
    *n = 2;
    if (a->rounding == DSF_ROUND_STOCHASTIC) {
        a->stream = dsf_random(&state);
        shapes[(*n)++] = dsf_shape_control();
    }
    a->in_at = DSFLOW_BLOCK_ELEMS * dsf_any(&state, 0, 2);
    shapes[0] = dsflow_shape_of(in, a->in_at + a->elems);
    shapes[1] = dsflow_shape_of(out, a->elems);
    *fresh = 1u << 1; /* all of it is written */
    return DSFLOW_OK;
}

/* Codes of any kind, but none of what is no number: `heads` of 16 bits. */
static void fill_codes(uint8_t *to, size_t bytes, size_t heads, uint16_t mask,
                       uint64_t *state)
{
    uint16_t *v = (uint16_t *)(void *)to;

    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)dsf_random(state);
    for (size_t i = 0; i < heads; i++)
        v[i] &= mask;
}

/* Squares, as of a second moment, or any numbers. */
static int fill_cast(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed;
    enum dsflow_dtype in, out;
    int32_t rounding;
    size_t bytes;

    if (port == 2)
        return fill_update(op, seed, 0, data, elems, args);
    cast_types(&state, &in, &out, &rounding);
    bytes = dsflow_dtype_bytes(in, elems);
    if (in == DSFLOW_INT8_BLOCK)
        fill_codes(data, bytes, (bytes - (size_t)elems) / 2, 0x17f, &state);
    else if (in == DSFLOW_BF16 || in == DSFLOW_FP16)
        fill_codes(data, bytes, bytes / 2, 0xbfff, &state);
    for (int64_t i = 0; i < elems; i++) {
        double v = dsf_random_normal(&state);

        v *= seed & 1 ? v : 1;
        if (in == DSFLOW_FP32)
            ((float *)data)[i] = (float)v;
        else if (in == DSFLOW_FP64)
            ((double *)data)[i] = v;
    }
    return 1;
}

const struct dsflow_trials dsf_trials_cast = { .make = make_cast,
                                               .fill = fill_cast };
