/* try_segment.c - gradients of segments by central differences. All passes work
 * on one set of buffers, known by the names of their ports. */
#include "verify/try_segment.h"

#include "base/random.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUFFERS = 24, DIRECTIONS = 8 };

/* The sum of products of what is left and what is right of it in `sums` is what
 * the passes differentiate; the head has a loss of its own. `gradients` are
 * pairs too: by what, and the port that has the result. */
struct segment_sums {
    const char *segment;
    const char *sums[4][2], *gradients[4][2];
};
static const struct segment_sums builtin[] = {
    { "embed", { { "dx", "x" } }, { { "embed", "grad" } } },
    { "qkv",
      { { "dq", "q" }, { "dkv", "kv" }, { "dres", "x" } },
      { { "x", "dx" }, { "unit", "grad" } } },
    { "attention", { { "datt", "att" } }, { { "q", "dq" }, { "kv", "dkv" } } },
    { "out", { { "dy", "y" } }, { { "att", "datt" }, { "unit", "grad" } } },
    { "mlp", { { "dy", "y" } }, { { "x", "dx" }, { "unit", "grad" } } },
    { "head",
      { { NULL } },
      { { "x", "dx" }, { "weight", "grad" }, { "norm", "norm_grad" } } },
};

struct buffer {
    const char *name;
    float *v; /* or numbers of another type */
    size_t floats;
    struct dsflow_shape shape;
};

struct passes {
    const struct dsflow_segment *segment;
    const struct segment_sums *sums;
    uint64_t seed;
    union {
        struct dsflow_attention_args attention;
        struct dsflow_head_args head;
        unsigned char bytes[512];
    } args;
    struct buffer v[MOST_BUFFERS];
    unsigned n;
    struct buffer kept[4]; /* left sides of `sums`, as they were */
};

enum { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, HIDDEN, LOGITS, NPASSES };

static const struct dsflow_op *own_op(const struct dsflow_segment *s, int pass)
{
    const struct dsflow_op *const all[NPASSES] = {
        s->forward, s->backward_input, s->backward_weight, s->hidden, s->logits
    };

    return all[pass];
}

/* What it takes the place of; or itself. */
static const struct dsflow_segment *original(const struct dsflow_segment *s)
{
    return s->replaces != NULL ? dsflow_segment_find(NULL, s->replaces) : s;
}

static const struct dsflow_op *original_op(const struct dsflow_segment *s,
                                           int pass)
{
    return own_op(original(s), pass);
}

static const struct dsflow_op *op_of(const struct dsflow_segment *s, int pass)
{
    const struct dsflow_op *own = own_op(s, pass);

    return own != NULL ? own : original_op(s, pass);
}

const struct dsflow_segment *dsf_segment_of(const struct dsflow_op *op,
                                            const struct dsflow_op **of)
{
    const struct dsflow_segment *s;

    for (unsigned i = 0; (s = dsflow_segment_at(i)) != NULL; i++)
        for (int pass = 0; pass < NPASSES; pass++)
            if (op_of(s, pass) == op) {
                *of = original_op(s, pass);
                return s;
            }
    return NULL;
}

/* The name of the port of a pass that is connected to `from`; NULL: none. */
static const char *port_from(const struct dsflow_op *op,
                             const struct dsflow_segment *s,
                             enum dsflow_from from)
{
    for (unsigned p = 0; op != NULL && p < op->nports; p++)
        if (op->ports[p].name != NULL && s->ports[p].from == from)
            return op->ports[p].name;
    return NULL;
}

/* Of a pass in the stream: its gradient is what leaves it by what enters. */
static struct segment_sums sums_of(const struct dsflow_segment *segment)
{
    const struct dsflow_segment *s = original(segment);
    struct segment_sums sums = { .segment = s->name };
    const char *grad = port_from(s->backward_weight, s, DSFLOW_FROM_GRADIENTS);
    unsigned n = 0;

    for (size_t i = 0; i < sizeof(builtin) / sizeof(*builtin); i++)
        if (strcmp(builtin[i].segment, s->name) == 0)
            return builtin[i];
    sums.sums[0][0] = port_from(s->backward_input, s, DSFLOW_FROM_DOUT);
    sums.sums[0][1] = port_from(s->forward, s, DSFLOW_FROM_OUT);
    if (port_from(s->backward_input, s, DSFLOW_FROM_DIN) != NULL) {
        sums.gradients[n][0] = port_from(s->forward, s, DSFLOW_FROM_IN);
        sums.gradients[n++][1] =
            port_from(s->backward_input, s, DSFLOW_FROM_DIN);
    }
    if (grad != NULL) {
        sums.gradients[n][0] = port_from(s->forward, s, DSFLOW_FROM_PARAMETERS);
        sums.gradients[n][1] = grad;
    }
    return sums;
}

static struct buffer *buffer_of(struct passes *p, const char *name)
{
    for (unsigned i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return &p->v[i];
    return NULL;
}

static float *floats(size_t n)
{
    float *v = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64 + 64);

    if (v == NULL)
        dsf_child_fault("cannot be tried: memory is missing");
    memset(v, 0xff, n * sizeof(float)); /* not numbers */
    return v;
}

static bool is_attention(const struct passes *p)
{
    return strcmp(p->sums->segment, "attention") == 0;
}

/* A port that is added to begins fresh. */
static bool is_sum(const struct passes *p, const char *name)
{
    static const char *const of_attention[] = { "att", "lse", "dq", "dkv" };

    for (int i = 0; i < 4 && is_attention(p); i++)
        if (strcmp(name, of_attention[i]) == 0)
            return true;
    return strstr(name, "grad") != NULL;
}

static const struct dsflow_trials *trials_of(const struct dsflow_op *op)
{
    const struct dsflow_codelet *codelet = dsflow_codelet_find(op);

    return codelet->trials != NULL ? codelet->trials : &dsf_trials_described;
}

/* The buffers of a pass that are not there yet, with contents where it is the
 * first to read them. Returns how many ports it has. */
static unsigned add_buffers(struct passes *p, int pass)
{
    const struct dsflow_op *of = original_op(p->segment, pass);
    const struct dsflow_trials *t = trials_of(of);
    unsigned n = 0, fresh = 0;
    unsigned char args[512] = { 0 };
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS] = { { 0 } };

    t->make(of, p->seed, shapes, &n, args, &fresh);
    for (unsigned i = 0; i < n; i++) {
        const char *name = of->ports[i].name;
        size_t size = (shapes[i].bytes + 3) / 4;
        struct buffer *b;

        if (size == 0) /* it has no such port, or leaves it out */
            continue;
        b = buffer_of(p, name);
        if (b != NULL || p->n == MOST_BUFFERS)
            continue;
        b = &p->v[p->n++];
        *b = (struct buffer){ name, floats(size), size, shapes[i] };
        if (of->ports[i].access == DSFLOW_W || is_sum(p, name))
            continue;
        if (t->fill == NULL ||
            !t->fill(of, p->seed, i, b->v, shapes[i].elems, args))
            dsf_case_fill(p->seed, 16 * (unsigned)pass + i, b->v, b->floats);
        for (size_t k = 0; k < b->floats && strstr("unit weight", name); k++)
            b->v[k] *= 0.2f; /* as weights are: sums of many stay near 1 */
    }
    return n;
}

/* Is there a pass of this kind, and are its shapes welcome? */
static bool run_pass(struct passes *p, int pass)
{
    const struct dsflow_op *op = op_of(p->segment, pass);
    const struct dsflow_codelet *codelet;
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS] = { { .ptr = NULL } };
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS] = { { 0 } };
    struct dsflow_case c = { op, shapes, 0, &p->args };
    size_t scratch_bytes;
    unsigned fresh = 0;
    float *scratch;

    if (op == NULL)
        return true;
    c.n = add_buffers(p, pass);
    if (c.n > op->nports) /* what it replaces has more */
        c.n = op->nports;
    codelet = dsflow_codelet_find(op);
    for (unsigned i = 0; i < c.n; i++) {
        const char *name = op->ports[i].name;
        const struct buffer *b = name != NULL ? buffer_of(p, name) : NULL;

        if (b == NULL && (name == NULL || op->ports[i].optional))
            continue;
        if (b == NULL)
            return false;
        shapes[i] = b->shape;
        bufs[i] = (struct dsflow_buf){ b->v, b->shape.bytes, b->shape.elems,
                                       b->shape.dtype };
        if (op->ports[i].access == DSFLOW_RW && is_sum(p, op->ports[i].name))
            fresh |= 1u << i;
    }
    if (codelet == NULL || codelet->cpu == NULL ||
        (op->check != NULL && op->check(&c, NULL) < 0))
        return false;
    scratch_bytes = op->scratch != NULL ? op->scratch(&c) : 0;
    scratch = floats(scratch_bytes / sizeof(float) + 1);
    codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                        .nbufs = c.n,
                                        .args = &p->args,
                                        .fresh = fresh,
                                        .scratch = scratch });
    free(scratch);
    return true;
}

/* What the head multiplies gradients by. */
static double head_scale(struct passes *p)
{
    const struct buffer *b = buffer_of(p, "control");
    struct dsflow_control control = { .loss_scale = 1 };

    if (b != NULL)
        memcpy(&control, b->v, sizeof(control));
    return (double)p->args.head.scale * control.loss_scale;
}

/* What is differentiated, and how large its terms are: the noise of it. */
static double objective(struct passes *p, double *noise)
{
    double sum = 0, squares = 0;

    for (unsigned i = 0; p->sums->sums[i][0] != NULL; i++) {
        const struct buffer *to = buffer_of(p, p->sums->sums[i][1]);

        for (size_t k = 0; k < to->floats; k++) {
            double term = (double)p->kept[i].v[k] * (double)to->v[k];

            sum += term;
            squares += term * term;
        }
    }
    if (p->sums->sums[0][0] == NULL) {
        memcpy(&sum, buffer_of(p, "loss")->v, sizeof(sum));
        sum *= head_scale(p);
        squares = sum * sum;
    }
    *noise = 0x1p-23 * sqrt(squares);
    return sum;
}

/* delta, between the passes: what the segment `out` would have written. */
static void fill_delta(struct passes *p)
{
    const struct dsflow_tile *t = &p->args.attention.tile;
    const struct buffer *datt = buffer_of(p, "datt"),
                        *att = buffer_of(p, "att");
    struct buffer *delta = buffer_of(p, "delta");
    size_t d = (size_t)t->head_dim;

    for (size_t i = 0; i < delta->floats; i++) {
        double sum = 0;

        for (size_t k = i * d; k < (i + 1) * d; k++)
            sum += (double)datt->v[k] * (double)att->v[k];
        delta->v[i] = (float)sum;
    }
}

static void keep_cotangents(struct passes *p)
{
    for (unsigned i = 0; p->sums->sums[i][0] != NULL; i++) {
        const struct buffer *b = buffer_of(p, p->sums->sums[i][0]);

        p->kept[i] =
            (struct buffer){ b->name, floats(b->floats), b->floats, b->shape };
        memcpy(p->kept[i].v, b->v, b->floats * sizeof(float));
    }
}

/* Buffers and contents of all passes, and one run of each. False: the shapes of
 * this seed are not for this segment. */
static bool begin(struct passes *p)
{
    const struct dsflow_op *first = original_op(p->segment, FORWARD);
    const struct dsflow_trials *t = trials_of(first);
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS] = { { 0 } };
    unsigned n, fresh = 0;

    t->make(first, p->seed, shapes, &n, &p->args, &fresh);
    /* No slope of a norm of few numbers; and large ones would take long. */
    if (p->args.attention.tile.width < 8 || p->args.attention.tile.width > 128)
        return false;
    if (is_attention(p)) {
        struct dsflow_attention_args *a = &p->args.attention;

        a->first = a->last = a->first_q = a->first_kv = 1;
        if (op_of(p->segment, FORWARD) != first) /* it sees all keys */
            *a = (struct dsflow_attention_args){ .tile = a->tile,
                                                 .keys = a->keys,
                                                 .diagonal = a->diagonal,
                                                 .first = 1,
                                                 .last = 1,
                                                 .first_q = 1,
                                                 .first_kv = 1 };
    }
    for (int pass = FORWARD; pass <= BACKWARD_WEIGHT; pass++)
        if (op_of(p->segment, pass) != NULL)
            add_buffers(p, pass);
    keep_cotangents(p);
    if (!run_pass(p, FORWARD))
        return false;
    if (is_attention(p))
        fill_delta(p);
    return run_pass(p, BACKWARD_INPUT) && run_pass(p, BACKWARD_WEIGHT);
}

/* The slope along `d` in numbers from .. from + n of a buffer, by differences
 * with step h. */
static double slope(struct passes *p, struct buffer *b, size_t from, size_t n,
                    const float *d, double h, double *noise)
{
    float *saved = floats(n);
    double up, down, moved = 0, asked = 0;

    memcpy(saved, b->v + from, n * sizeof(float));
    for (size_t k = 0; k < n; k++)
        b->v[from + k] = saved[k] + (float)h * d[k];
    run_pass(p, FORWARD);
    up = objective(p, noise);
    for (size_t k = 0; k < n; k++) {
        float above = b->v[from + k];

        b->v[from + k] = saved[k] - (float)h * d[k];
        moved += (double)(above - b->v[from + k]) * (double)d[k];
        asked += 2 * h * (double)d[k] * (double)d[k];
    }
    run_pass(p, FORWARD);
    down = objective(p, noise);
    memcpy(b->v + from, saved, n * sizeof(float));
    free(saved);
    *noise *= 8 / h;
    /* What the numbers moved, and not what they were asked to. */
    return (up - down) / (2 * h) * (moved != 0 ? asked / moved : 1);
}

/* One random direction in a random range of a variable. A wrong gradient fits
 * no step, and a right one fits one of them well. */
static void try_direction(struct passes *p, struct buffer *by,
                          const struct buffer *gradient, const float *g,
                          unsigned number)
{
    static const double steps[] = { 3e-2, 1e-2, 3e-3, 1e-3 };
    uint64_t state = p->seed * DIRECTIONS + number;
    size_t n = by->floats >> (number == 0 ? 0 : dsf_random(&state) % 8);
    size_t from;
    float *d;
    double expected = 0, size = 0, length = 0, nearest = INFINITY, found = 0;

    dsf_child_step("", NULL); /* the limit is for each */
    n = n > 0 ? n : 1;
    from = (size_t)(dsf_random_unit(&state) * (double)(by->floats - n + 1));
    d = floats(n);
    dsf_case_fill(p->seed, 100 + number, d, n);
    for (size_t k = 0; k < n; k++) {
        expected += (double)d[k] * (double)g[from + k];
        size += (double)g[from + k] * (double)g[from + k];
        length += (double)d[k] * (double)d[k];
    }
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        double noise, s = slope(p, by, from, n, d, steps[i], &noise);
        double allowed = 0.02 * fmax(fabs(s), fabs(expected)) +
                         0.003 * sqrt(size * length / (double)n) + noise;

        double off = s == expected ? 0 : fabs(s - expected) / allowed;

        if (off < nearest) {
            nearest = off;
            found = s;
        }
    }
    free(d);
    if (!(nearest <= 1))
        dsf_child_fault("its gradient is wrong: port %s is %.6g along a "
                        "direction in numbers %zu to %zu of %s: expected %.6g, "
                        "by differences of the forward pass",
                        gradient->name, expected, from, from + n - 1, by->name,
                        found);
}

/* Is it `op` that answers for this gradient? */
static bool is_asked(const struct dsflow_segment *s, const struct dsflow_op *op,
                     const char *gradient)
{
    for (int pass = BACKWARD_INPUT; pass <= BACKWARD_WEIGHT; pass++) {
        const struct dsflow_op *by = op_of(s, pass);

        for (unsigned i = 0; by != NULL && i < by->nports; i++)
            if (by->ports[i].name != NULL &&
                strcmp(by->ports[i].name, gradient) == 0 &&
                by->ports[i].access != DSFLOW_R)
                return by == op ||
                       (op == s->forward && own_op(s, pass) == NULL);
    }
    return false;
}

static void end(struct passes *p)
{
    for (unsigned i = 0; i < p->n; i++)
        free(p->v[i].v);
    for (unsigned i = 0; i < 4; i++)
        free(p->kept[i].v);
}

static void try_seed(const struct dsflow_segment *segment,
                     const struct segment_sums *sums,
                     const struct dsflow_op *op, uint64_t seed)
{
    struct passes p = { .segment = segment, .sums = sums, .seed = seed };
    float *g;

    if (begin(&p))
        for (unsigned i = 0; sums->gradients[i][0] != NULL; i++) {
            struct buffer *by = buffer_of(&p, sums->gradients[i][0]);
            const struct buffer *of = buffer_of(&p, sums->gradients[i][1]);

            if (!is_asked(segment, op, of->name))
                continue;
            g = floats(of->floats);
            memcpy(g, of->v, of->floats * sizeof(float));
            for (unsigned k = 0; k < DIRECTIONS; k++)
                try_direction(&p, by, of, g, k);
            free(g);
        }
    end(&p);
}

void dsf_try_gradients(const struct dsflow_segment *segment,
                       const struct dsflow_op *op,
                       const struct dsf_verify_options *how)
{
    const struct segment_sums sums = sums_of(segment);
    char where[64];

    for (unsigned k = 0; k < how->cases; k++) {
        uint64_t seed = how->seed + k;

        snprintf(where, sizeof(where), "--seed %llu --cases 1",
                 (unsigned long long)seed);
        dsf_child_step("", where);
        try_seed(segment, &sums, op, seed);
    }
}
