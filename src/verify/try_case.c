/* try_case.c - a random case of a kind of task: its shapes, and what its ports
 * have before it runs. */
#include "verify/try_case.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/random.h"
#include "codelets/trials.h"
#include "graph/task.h"
#include "verify/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_port *port_of(const struct dsf_case *c, unsigned i)
{
    unsigned last = c->op->nports - 1;

    return &c->op->ports[i < last ? i : last];
}

bool dsf_case_lacks(const struct dsf_case *c, unsigned i)
{
    const struct dsflow_port *port = port_of(c, i);

    return port->name == NULL || (port->optional && c->shapes[i].bytes == 0);
}

enum dsflow_access dsf_case_access(const struct dsf_case *c, unsigned i)
{
    if (c->fresh >> i & 1)
        return DSFLOW_W;
    return dsf_case_lacks(c, i) ? DSFLOW_R : port_of(c, i)->access;
}

const char *dsf_case_port_name(const struct dsf_case *c, unsigned i)
{
    return dsf_case_lacks(c, i) ? "(none)" : port_of(c, i)->name;
}

/* How many ports a task must have at least. */
static unsigned required(const struct dsflow_op *op)
{
    unsigned n = 0;

    for (unsigned i = 0; i < op->nports; i++)
        if (op->ports[i].name != NULL && !op->ports[i].optional)
            n = i + 1;
    return n;
}

void dsf_case_words(const struct dsf_case *c, char *to, size_t size)
{
    size_t at = 0;

    for (unsigned i = 0; i < c->n && at < size; i++)
        if (!dsf_case_lacks(c, i))
            at += (size_t)snprintf(to + at, size - at, "%s%s %lld %s",
                                   at > 0 ? ", " : "", dsf_case_port_name(c, i),
                                   (long long)c->shapes[i].elems,
                                   dsflow_dtype_str(c->shapes[i].dtype));
    if (at < size)
        snprintf(to + at, size - at, "; --seed %llu --cases 1",
                 (unsigned long long)c->seed);
}

void dsf_case_fill(uint64_t seed, unsigned port, float *v, size_t n)
{
    uint64_t state = seed * 256 + port;

    for (size_t i = 0; i < n; i++)
        v[i] = (float)dsf_random_normal(&state);
}

/* Does the case have bf16 or fp16 where its trials have fp32? */
static bool is_narrow(const struct dsf_case *c, unsigned i)
{
    enum dsflow_dtype dtype = c->shapes[i].dtype;

    return !dsf_case_lacks(c, i) && port_of(c, i)->floats != DSFLOW_FP32_ONLY &&
           (dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16);
}

enum dsflow_dtype dsf_case_precision(const struct dsf_case *c)
{
    for (unsigned i = 0; i < c->n; i++)
        if (is_narrow(c, i))
            return c->shapes[i].dtype;
    return DSFLOW_FP32;
}

static void fill_numbers(const struct dsf_case *c, unsigned i,
                         enum dsflow_dtype dtype, void *v)
{
    const struct dsflow_trials *t = c->trials;
    const int64_t elems = c->shapes[i].elems;
    uint64_t state = c->seed + i;

    if (t->fill != NULL && t->fill(c->op, c->seed, i, v, elems, c->args))
        return;
    if (dtype == DSFLOW_FP32)
        dsf_case_fill(c->seed, i, v, (size_t)elems);
    for (int64_t k = 0; k < elems; k++)
        switch (dtype) {
        case DSFLOW_FP64:
            ((double *)v)[k] = dsf_random_normal(&state);
            break;
        case DSFLOW_BF16:
            ((uint16_t *)v)[k] = dsf_to_bf16((float)dsf_random_normal(&state));
            break;
        case DSFLOW_FP16:
            ((uint16_t *)v)[k] = dsf_to_fp16((float)dsf_random_normal(&state));
            break;
        default: /* zeroes: who has others fills them */
            break;
        }
}

/* What trials fill in is fp32 where the port may be narrow. */
static void fill_port(struct dsf_case *c, unsigned i)
{
    const struct dsflow_shape *s = &c->shapes[i];
    uint16_t *half = c->before[i] = dsf_xcalloc(1, s->bytes + 1);
    float *wide;

    if (!is_narrow(c, i)) {
        fill_numbers(c, i, s->dtype, half);
        return;
    }
    wide = dsf_xcalloc((size_t)s->elems, sizeof(*wide));
    fill_numbers(c, i, DSFLOW_FP32, wide);
    for (int64_t k = 0; k < s->elems; k++)
        half[k] = s->dtype == DSFLOW_BF16 ? dsf_to_bf16(wide[k])
                                          : dsf_to_fp16(wide[k]);
    free(wide);
}

static void check_shapes(const struct dsf_case *c)
{
    if (c->n < required(c->op) ||
        c->n > (c->op->repeats ? DSFLOW_TRIAL_PORTS : c->op->nports))
        dsf_child_fault("a case has %u ports: expected %u", c->n,
                        c->op->nports);
    for (unsigned i = 0; i < c->n; i++) {
        const struct dsflow_shape *s = &c->shapes[i];

        if ((unsigned)s->dtype >= DSFLOW_NDTYPES || s->elems < 0 ||
            s->bytes != dsflow_dtype_bytes(s->dtype, s->elems))
            dsf_child_fault("port %s: %lld elements of type %s in %zu bytes: "
                            "expected what dsflow_shape_of makes",
                            dsf_case_port_name(c, i), (long long)s->elems,
                            dsflow_dtype_str(s->dtype), s->bytes);
    }
}

struct dsflow_case dsf_case_of(const struct dsf_case *c,
                               const struct dsflow_op *op)
{
    return (struct dsflow_case){ op, c->shapes, c->n, c->args };
}

void dsf_case_make(struct dsf_case *c, const struct dsflow_op *op,
                   const struct dsflow_trials *trials, uint64_t seed)
{
    struct dsflow_err err = { .msg = "" };
    struct dsflow_case seen;
    char where[64];

    *c = (struct dsf_case){ .seed = seed, .trials = trials, .op = op };
    snprintf(where, sizeof(where), "--seed %llu --cases 1",
             (unsigned long long)seed);
    dsf_child_step("its trials: ", where);
    c->args = dsf_xcalloc(1, op->args_size + 1);
    if (trials->make(op, seed, c->shapes, &c->n, c->args, &c->fresh) < 0) {
        c->n = 0; /* none of this seed */
        return;
    }
    check_shapes(c);
    dsf_trials_narrow(op, seed, c->shapes, c->n, c->args);
    seen = dsf_case_of(c, op);
    if (op->check != NULL && dsf_check_case(&seen, &err) < 0)
        dsf_child_fault("the op's check refuses a case: %s", err.msg);
    for (unsigned i = 0; i < c->n; i++)
        if (dsf_case_access(c, i) != DSFLOW_W)
            fill_port(c, i);
}

void dsf_case_free(struct dsf_case *c)
{
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(c->before[i]);
    free(c->args);
}

double dsf_case_number(const struct dsf_case *c, const void *v, unsigned port,
                       size_t e)
{
    switch (c->shapes[port].dtype) {
    case DSFLOW_FP32:
        return (double)((const float *)v)[e];
    case DSFLOW_BF16:
        return (double)dsf_from_bf16(((const uint16_t *)v)[e]);
    case DSFLOW_FP16:
        return (double)dsf_from_fp16(((const uint16_t *)v)[e]);
    case DSFLOW_FP64:
        return ((const double *)v)[e];
    case DSFLOW_INT32:
        return ((const int32_t *)v)[e];
    case DSFLOW_INT64:
        return (double)((const int64_t *)v)[e];
    default:
        return ((const unsigned char *)v)[e];
    }
}

size_t dsf_case_width(const struct dsf_case *c, unsigned port)
{
    enum dsflow_dtype dtype = c->shapes[port].dtype;

    return dtype == DSFLOW_INT8_BLOCK ? 1 : dsflow_dtype_bytes(dtype, 1);
}

size_t dsf_case_count(const struct dsf_case *c, unsigned port)
{
    return c->shapes[port].bytes / dsf_case_width(c, port);
}

void dsf_case_widen(const struct dsf_case *c, struct dsf_case *wide)
{
    *wide = *c;
    wide->args = dsf_xcalloc(1, c->op->args_size + 1);
    memcpy(wide->args, c->args, c->op->args_size);
    for (unsigned i = 0; i < c->n; i++) {
        const struct dsflow_shape *s = &c->shapes[i];
        float *v;

        if (is_narrow(c, i))
            wide->shapes[i] = dsflow_shape_of(DSFLOW_FP32, s->elems);
        if (c->before[i] == NULL)
            continue;
        v = wide->before[i] = dsf_xcalloc(1, wide->shapes[i].bytes + 1);
        if (!is_narrow(c, i))
            memcpy(v, c->before[i], s->bytes);
        for (int64_t k = 0; k < s->elems && is_narrow(c, i); k++)
            v[k] = (float)dsf_case_number(c, c->before[i], i, (size_t)k);
    }
}

struct dsflow_cost dsf_case_cost(const struct dsf_case *c,
                                 const struct dsflow_op *op)
{
    struct dsflow_case seen = dsf_case_of(c, op);
    struct dsflow_cost cost = { 0 };

    if (op->cost != NULL)
        op->cost(&seen, &cost);
    for (unsigned i = 0; op->cost == NULL && i < c->n; i++)
        cost.bytes += (double)c->shapes[i].bytes *
                      (dsf_case_access(c, i) == DSFLOW_RW ? 2 : 1);
    return cost;
}
