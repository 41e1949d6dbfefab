/* tile.c - the checks that all segments share. */
#include "tasks/tile.h"

#include "config/job.h"
#include "kernels/narrow.h"
#include "tasks/shapes.h"

#include <stdbool.h>

_Static_assert((int)DSF_INPUTS_SYMMETRIC == (int)DSF_SYMMETRIC &&
                   (int)DSF_INPUTS_ASYMMETRIC == (int)DSF_ASYMMETRIC,
               "[activations] names the quantizers of the kernels");

/* Larger numbers are nobody's model. */
#define MOST (1 << 24)

int dsf_tile_check(const struct dsflow_op *op, const struct dsflow_tile *t,
                   struct dsflow_err *err)
{
    const struct {
        const char *name;
        int32_t value, most;
    } numbers[] = {
        { "rows", t->rows, DSF_MOST_ROWS },
        { "nseq", t->nseq, MOST },
        { "width", t->width, MOST },
        { "heads", t->heads, 4096 },
        { "kv_heads", t->kv_heads, 4096 },
        { "head_dim", t->head_dim, DSF_MOST_HEAD_DIM },
        { "ffn", t->ffn, MOST },
        { "vocab", t->vocab, MOST },
        { "context", t->context, MOST },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (numbers[i].value < 1 || numbers[i].value > numbers[i].most)
            return dsflow_fail(
                err, DSFLOW_EINVAL, "%s: %s: %d: expected 1 to %d", op->name,
                numbers[i].name, (int)numbers[i].value, (int)numbers[i].most);
    }
    if (t->rows % t->nseq != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d rows for %d sequences: expected a multiple",
                           op->name, (int)t->rows, (int)t->nseq);
    if (t->pos < 0 || (t->nseq > 1 && t->pos != 0))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: pos: %d: expected 0%s",
                           op->name, (int)t->pos,
                           t->nseq > 1 ? " for whole sequences" : " or more");
    if (t->pos > t->context - t->rows / t->nseq)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: tokens %d to %d in a context of %d", op->name,
                           (int)t->pos, (int)(t->pos + t->rows / t->nseq),
                           (int)t->context);
    if (t->heads % t->kv_heads != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: kv_heads: %d: expected a divisor of %d heads",
                           op->name, (int)t->kv_heads, (int)t->heads);
    if (t->rope && t->head_dim % 2 != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: head_dim: %d: expected an even number for "
                           "rotary positions",
                           op->name, (int)t->head_dim);
    /* Written so that it refuses what is not a number. */
    if (!(t->eps > 0 && t->eps < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: eps: %g: expected more than 0 and less than 1",
                           op->name, (double)t->eps);
    return DSFLOW_OK;
}

int dsf_tile_quantizer_check(const struct dsflow_op *op,
                             const struct dsflow_tile *t, size_t n,
                             struct dsflow_err *err)
{
    const int32_t group = t->input_group;

    if (!dsf_tile_rounds(t))
        return DSFLOW_OK;
    if ((t->input_quantizer != DSF_SYMMETRIC &&
         t->input_quantizer != DSF_ASYMMETRIC) ||
        t->input_bits < 2 || t->input_bits > DSF_QUANTIZE_MOST_BITS ||
        (group != 0 && !dsf_is_quantize_group(group)))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: inputs by quantizer %d of %d bits in groups of "
                           "%d: there is none",
                           op->name, (int)t->input_quantizer,
                           (int)t->input_bits, (int)group);
    if (n % (size_t)(group > 0 ? group : DSF_QUANTIZE_LEAST) != 0)
        return dsflow_fail(
            err, DSFLOW_EINVAL, "%s: rows of %zu inputs: expected groups of %d",
            op->name, n, (int)(group > 0 ? group : DSF_QUANTIZE_LEAST));
    return DSFLOW_OK;
}

/* The data on the first of its narrow ports; NULL: it has none. */
static const struct dsflow_shape *narrow_shape(const struct dsflow_case *c)
{
    for (unsigned i = 0; i < c->op->nports && i < c->n; i++)
        if (c->op->ports[i].floats == DSFLOW_NARROW && c->shapes[i].bytes > 0)
            return &c->shapes[i];
    return NULL;
}

enum dsflow_dtype dsf_case_type(const struct dsflow_case *c)
{
    const struct dsflow_shape *s = narrow_shape(c);

    return s != NULL && dsf_is_narrow(s->dtype) ? s->dtype : DSFLOW_FP32;
}

/* May the data on a port of a type of its own be narrow? A task that computes
 * in fp32, as it might in another type, has gradients in fp32. */
static bool may_be_narrow(const struct dsflow_case *c)
{
    const struct dsflow_shape *s = narrow_shape(c);

    return s == NULL || dsf_is_narrow(s->dtype);
}

/* The type that the data on port `i` should have, where `dtype` is needed. */
static enum dsflow_dtype wanted(const struct dsflow_case *c, unsigned i,
                                enum dsflow_dtype dtype)
{
    enum dsflow_dtype is = c->shapes[i].dtype;

    if (dtype != DSFLOW_FP32)
        return dtype;
    switch (c->op->ports[i].floats) {
    case DSFLOW_NARROW:
        return dsf_case_type(c);
    case DSFLOW_NARROW_SUM:
        return is == DSFLOW_FP32 ? is : dsf_case_type(c);
    case DSFLOW_NARROW_ALONE:
        return dsf_is_narrow(is) && may_be_narrow(c) ? is : dtype;
    default:
        return dtype;
    }
}

/* Is the data on port `i` what is needed there? */
static int check_port(const struct dsflow_case *c, unsigned i,
                      const struct dsflow_need *need, struct dsflow_err *err)
{
    const char *op = c->op->name, *name = c->op->ports[i].name;
    int has = i < c->n && c->shapes[i].bytes > 0;

    if (need->rows == 0 && has)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: expected no such port with these arguments",
                           op, name);
    if (need->rows == 0)
        return DSFLOW_OK;
    /* The control of the step: no argument says whether losses are scaled. */
    if (!has && need->dtype == DSFLOW_BYTES && dsf_is_optional(c->op, i))
        return DSFLOW_OK;
    if (!has)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: is missing", op, name);
    return dsf_port_check(c, i, wanted(c, i, need->dtype),
                          need->rows * need->cols, err);
}

int dsflow_segment_check(const struct dsflow_case *c, dsflow_needs_fn *needs,
                      struct dsflow_err *err)
{
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    int status = needs(c->op, c->args, need, err);

    for (unsigned i = 0; i < c->op->nports && status == DSFLOW_OK; i++)
        if (c->op->ports[i].name != NULL)
            status = check_port(c, i, &need[i], err);
    return status;
}

int dsf_unit_needs(const struct dsflow_op *op,
                   const struct dsf_in_unit *tensors, unsigned n,
                   struct dsflow_need *need, struct dsflow_err *err)
{
    size_t end = 0;

    for (unsigned i = 0; i < n; i++) {
        const struct dsf_in_unit *t = &tensors[i];

        if (t->at == -1 && t->optional)
            continue;
        if (t->at < 0 || t->at > INT64_MAX / 8)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: %s: offset %lld in a unit", op->name,
                               t->name, (long long)t->at);
        if ((size_t)t->at + t->n > end)
            end = (size_t)t->at + t->n;
    }
    *need = dsf_matrix(end > 0, end);
    return DSFLOW_OK;
}

double dsf_ports_bytes(const struct dsflow_case *c, unsigned but)
{
    double sum = 0;

    for (unsigned i = 0; i < c->n; i++)
        if (!(but >> i & 1))
            sum += (double)c->shapes[i].bytes *
                   (c->op->ports[i].access == DSFLOW_RW ? 2 : 1);
    return sum;
}
