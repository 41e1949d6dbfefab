/* errors.c - what coding takes from what a worker sends in 1 bit. */
#include "codelets/errors.h"

#include "codelets/cast.h"
#include "kernels/kernels.h"
#include "kernels/wire_blocks.h"

#include <string.h>

static struct dsf_packed packed_at(const struct dsf_errors *e, int64_t i)
{
    return dsf_packed_at(e->buf->dtype, e->buf->ptr, e->buf->elems, e->at + i);
}

void dsf_errors_add(const struct dsf_errors *e, int64_t i)
{
    const size_t n = (size_t)e->coding->block;
    float *error = e->scratch;

    dsf_unpack_at(e->buf->dtype, packed_at(e, i), error, n);
    dsf_add(e->x + i, error, n);
}

static void keep(const struct dsf_errors *e, const struct dsf_scales *scales,
                 int64_t i)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    const struct dsf_error_step by = { .beta = 0, .rest = 1, .scale = 1 };
    const int64_t n = e->coding->block;
    float *error = e->scratch, *sent = error + n;
    uint8_t *coded = (uint8_t *)(sent + n);

    dsf_coding_encode(e->coding, scales, i, n, e->x + i, coded);
    dsf_coding_decode(e->coding, i, n, coded, sent);
    dsf_unpack_at(e->buf->dtype, packed_at(e, i), error, (size_t)n);
    dsf_error_keep(&by, e->x + i, sent, error, (size_t)n);
    if (e->clear)
        memset(error, 0, (size_t)n * sizeof(*error));
    dsf_pack_at(e->buf->dtype, &nearest, error, packed_at(e, i), (size_t)n);
}

void dsf_errors_keep(const struct dsf_errors *e)
{
    const struct dsf_scales scales = dsf_coding_scales(e->coding, e->x);

    for (int64_t i = 0; i < e->elems; i += e->coding->block)
        keep(e, &scales, i);
}
