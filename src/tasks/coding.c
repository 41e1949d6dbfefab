/* coding.c - numbers of a unit in a format for the wire. */
#include "tasks/coding.h"

#include <dsflow/dtype.h>

#include "base/multiple.h"
#include "kernels/kernels.h"
#include "kernels/wire_blocks.h"

#include <string.h>

bool dsf_coding_is_block(int64_t block)
{
    return block > 0 && block <= DSFLOW_WIRE_FORMAT_MOST &&
           block % DSFLOW_WIRE_FORMAT_STEP == 0;
}

void dsf_coding_fit(struct dsf_coding *c, int64_t cut, int64_t matrices)
{
    c->block = dsf_common_divisor(c->block, cut);
    c->coded = matrices / c->block * c->block;
}

void dsf_coding_by_tensor(struct dsf_coding *c, unsigned n,
                          const struct dsf_coded_tensor *matrices)
{
    c->ntensors = 0;
    memset(c->tensors, 0, sizeof(c->tensors));
    for (unsigned i = 0; i < n && i < DSF_CODED_TENSORS; i++) {
        int64_t from = dsf_round_up(matrices[i].at, c->block);
        int64_t to = (matrices[i].at + matrices[i].elems) / c->block * c->block;

        if (from < to)
            c->tensors[c->ntensors++] =
                (struct dsf_coded_tensor){ from, to - from,
                                           matrices[i].number };
    }
}

/* Numbers from `at` on that are coded, and follow each other, or that are not.
 */
struct run {
    bool coded;
    int64_t tensor; /* that they are of */
    int64_t elems;
};

static struct run run_at(const struct dsf_coding *c, int64_t at, int64_t most)
{
    struct run r = { .elems = most };
    int64_t end = c->coded;

    r.coded = c->ntensors == 0 && at < c->coded;
    for (int64_t i = 0; i < c->ntensors; i++) {
        const struct dsf_coded_tensor *t = &c->tensors[i];

        if (at >= t->at + t->elems)
            continue;
        r.coded = at >= t->at;
        r.tensor = i;
        end = r.coded ? t->at + t->elems : t->at;
        break;
    }
    if (end > at && end - at < most)
        r.elems = end - at;
    return r;
}

static int64_t run_bytes(const struct dsf_coding *c, const struct run *r)
{
    const struct dsflow_wire_format *f = dsflow_wire_format_find(c->format);

    return r->coded ? r->elems / c->block * (int64_t)f->bytes((size_t)c->block)
                    : (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, r->elems);
}

int64_t dsf_coding_bytes(const struct dsf_coding *c, int64_t at, int64_t elems)
{
    int64_t bytes = 0, end = at + elems;
    struct run r;

    for (; at < end; at += r.elems) {
        r = run_at(c, at, end - at);
        bytes += run_bytes(c, &r);
    }
    return bytes;
}

/* Numbers of a tensor whose squares are added up at a time, by dsf_square_sum.
 */
enum { SOME = 2048 };

static float tensor_scale(const float *in, int64_t elems)
{
    double squares = 0;

    for (int64_t k = 0, n; k < elems; k += n) {
        n = elems - k < SOME ? elems - k : SOME;
        squares += dsf_square_sum(in + k, (size_t)n);
    }
    return dsf_wire1_scale(squares, (size_t)elems);
}

struct dsf_scales dsf_coding_scales(const struct dsf_coding *c,
                                    const float *unit)
{
    struct dsf_scales scales = { { 0 } };

    for (int64_t i = 0; i < c->ntensors; i++)
        scales.of[i] =
            tensor_scale(unit + c->tensors[i].at, c->tensors[i].elems);
    return scales;
}

/* A tensor by its own scale, in the built-in format: its signs are known before
 * the scale is, so that it is read once. */
static void encode_signs(size_t block, const float *in, int64_t elems,
                         uint8_t *out)
{
    const size_t bytes = dsf_wire1_bytes(block), codes = block / 8;
    uint8_t signs[SOME / 8], *at = out;
    double squares = 0;
    float scale;

    for (int64_t k = 0, n; k < elems; k += n) {
        n = elems - k < SOME ? elems - k : SOME;
        squares += dsf_square_signs(in + k, (size_t)n, signs);
        for (size_t i = 0; i < (size_t)n / 8; i += codes, at += bytes)
            memcpy(at + DSF_WIRE_SCALE, signs + i, codes);
    }
    scale = dsf_wire1_scale(squares, (size_t)elems);
    for (at = out; elems > 0; elems -= (int64_t)block, at += bytes)
        memcpy(at, &scale, sizeof(scale));
}

static void encode_tensor(const struct dsflow_wire_format *f, size_t block,
                          const float *in, int64_t elems, uint8_t *out)
{
    if (f->encode_by == dsf_wire1_encode_by && SOME % block == 0)
        encode_signs(block, in, elems, out);
    else
        f->encode_by(block, tensor_scale(in, elems), in, out,
                     (size_t)elems / block);
}

/* `own`: tensors are whole, and have scales of their own. */
static void encode(const struct dsf_coding *c, const struct dsf_scales *scales,
                   bool own, int64_t at, int64_t elems, const float *in,
                   uint8_t *out)
{
    const struct dsflow_wire_format *f = dsflow_wire_format_find(c->format);
    const int64_t end = at + elems;
    struct run r;

    for (; at < end; at += r.elems) {
        const size_t block = (size_t)c->block;

        r = run_at(c, at, end - at);
        if (!r.coded)
            memcpy(out, in, (size_t)r.elems * sizeof(*in));
        else if (c->ntensors > 0 && own)
            encode_tensor(f, block, in, r.elems, out);
        else if (c->ntensors > 0 && scales != NULL)
            f->encode_by(block, scales->of[r.tensor], in, out,
                         (size_t)r.elems / block);
        else
            f->encode(block, in, out, (size_t)r.elems / block);
        in += r.elems;
        out += run_bytes(c, &r);
    }
}

void dsf_coding_encode(const struct dsf_coding *c,
                       const struct dsf_scales *scales, int64_t at,
                       int64_t elems, const float *in, uint8_t *out)
{
    encode(c, scales, false, at, elems, in, out);
}

void dsf_coding_encode_whole(const struct dsf_coding *c, int64_t elems,
                             const float *unit, uint8_t *out)
{
    encode(c, NULL, true, 0, elems, unit, out);
}

void dsf_coding_decode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const uint8_t *in, float *out)
{
    const struct dsflow_wire_format *f = dsflow_wire_format_find(c->format);
    const int64_t end = at + elems;
    struct run r;

    for (; at < end; at += r.elems) {
        r = run_at(c, at, end - at);
        if (r.coded)
            f->decode((size_t)c->block, in, out, (size_t)(r.elems / c->block));
        else
            memcpy(out, in, (size_t)r.elems * sizeof(*out));
        in += run_bytes(c, &r);
        out += r.elems;
    }
}

/* Are the tensors whole blocks, one behind the other, of a format that has a
 * scale for each? */
static bool are_tensors(const struct dsf_coding *c)
{
    int64_t end = 0;

    if (c->ntensors < 0 || c->ntensors > DSF_CODED_TENSORS ||
        (c->ntensors > 0 &&
         dsflow_wire_format_find(c->format)->encode_by == NULL))
        return false;
    for (int64_t i = 0; i < c->ntensors; i++) {
        const struct dsf_coded_tensor *t = &c->tensors[i];

        if (t->at < end || t->at % c->block != 0 || t->elems < c->block ||
            t->elems % c->block != 0)
            return false;
        end = t->at + t->elems;
    }
    return true;
}

/* Does a block take some bytes, and no more than in fp32? */
static bool is_small(const struct dsf_coding *c)
{
    const size_t bytes =
        dsflow_wire_format_find(c->format)->bytes((size_t)c->block);

    return bytes > 0 && bytes <= dsflow_dtype_bytes(DSFLOW_FP32, c->block);
}

int dsf_coding_check(const struct dsf_coding *c, const char *op, int64_t at,
                     int64_t elems, struct dsflow_err *err)
{
    if (memchr(c->format, '\0', sizeof(c->format)) == NULL ||
        dsflow_wire_format_find(c->format) == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: format %.23s: there is none", op, c->format);
    if (!dsf_coding_is_block(c->block) || c->coded < 0 ||
        c->coded % c->block != 0 || !is_small(c))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: blocks of %lld, %lld numbers of them: expected "
                           "a multiple of %d, and whole blocks",
                           op, (long long)c->block, (long long)c->coded,
                           DSFLOW_WIRE_FORMAT_STEP);
    if (!are_tensors(c))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld tensors of format %s: expected whole "
                           "blocks, in order, of a format with a scale for "
                           "each",
                           op, (long long)c->ntensors, c->format);
    if (at < 0 || elems < 0 || at % c->block != 0 || elems % c->block != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers from %lld on: expected whole "
                           "blocks of %lld",
                           op, (long long)elems, (long long)at,
                           (long long)c->block);
    return DSFLOW_OK;
}

int dsf_coding_check_whole(const struct dsf_coding *c, const char *op,
                           int64_t at, int64_t elems, struct dsflow_err *err)
{
    const struct dsf_coded_tensor *last;

    if (c->ntensors == 0)
        return DSFLOW_OK;
    last = &c->tensors[c->ntensors - 1];
    if (at == 0 && last->at + last->elems <= elems)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %lld numbers from %lld on: expected whole tensors",
                       op, (long long)elems, (long long)at);
}
