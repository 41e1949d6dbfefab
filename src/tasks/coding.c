/* coding.c - numbers of a unit in a format for the wire. */
#include "tasks/coding.h"

#include <dsflow/dtype.h>

#include <string.h>

bool dsf_coding_is_block(int64_t block)
{
    return block > 0 && block <= DSFLOW_WIRE_FORMAT_MOST &&
           block % DSFLOW_WIRE_FORMAT_STEP == 0;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

void dsf_coding_fit(struct dsf_coding *c, int64_t cut, int64_t matrices)
{
    c->block = common_divisor(c->block, cut);
    c->coded = matrices / c->block * c->block;
}

/* How many of numbers at .. at+elems are coded. */
static int64_t count_coded(const struct dsf_coding *c, int64_t at,
                           int64_t elems)
{
    int64_t n = c->coded - at;

    return n < 0 ? 0 : n > elems ? elems : n;
}

int64_t dsf_coding_bytes(const struct dsf_coding *c, int64_t at, int64_t elems)
{
    const struct dsflow_wire_format *f = dsflow_wire_format_find(c->format);
    int64_t coded = count_coded(c, at, elems);

    return coded / c->block * (int64_t)f->bytes((size_t)c->block) +
           (int64_t)dsflow_dtype_bytes(DSFLOW_FP32, elems - coded);
}

void dsf_coding_encode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const float *in, uint8_t *out)
{
    int64_t coded = count_coded(c, at, elems);

    dsflow_wire_format_find(c->format)->encode((size_t)c->block, in, out,
                                               (size_t)(coded / c->block));
    memcpy(out + dsf_coding_bytes(c, at, coded), in + coded,
           (size_t)(elems - coded) * sizeof(*in));
}

void dsf_coding_decode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const uint8_t *in, float *out)
{
    int64_t coded = count_coded(c, at, elems);

    dsflow_wire_format_find(c->format)->decode((size_t)c->block, in, out,
                                               (size_t)(coded / c->block));
    memcpy(out + coded, in + dsf_coding_bytes(c, at, coded),
           (size_t)(elems - coded) * sizeof(*out));
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
    if (at < 0 || elems < 0 || at % c->block != 0 || elems % c->block != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers from %lld on: expected whole "
                           "blocks of %lld",
                           op, (long long)elems, (long long)at,
                           (long long)c->block);
    return DSFLOW_OK;
}
