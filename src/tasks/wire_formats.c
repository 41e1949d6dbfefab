/* wire_formats.c - how numbers are coded that ranks send each other. */
#include "tasks/components.h"
#include "tasks/coding.h"

#include "base/random.h"
#include "kernels/narrow.h"
#include "kernels/wire_blocks.h"

#include <stdbool.h>
#include <string.h>

static size_t bf16_bytes(size_t block)
{
    return block * sizeof(uint16_t);
}

/* The caller's bytes may be at any address; the loops do not care. */
static void bf16_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    block *= n;
    dsf_narrow(DSFLOW_BF16)
        ->narrow(in, block, NULL, (void *)out, block, 1, block);
}

static void bf16_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    dsf_narrow(DSFLOW_BF16)->widen((const void *)in, out, n * block);
}

static const struct dsflow_wire_format formats[] = {
    { .abi = DSFLOW_WIRE_FORMAT_ABI,
      .name = "bf16",
      .summary = "half the bytes of fp32, rounded to the nearest",
      .block = 256,
      .error = 1.0 / 256,
      .bytes = bf16_bytes,
      .encode = bf16_encode,
      .decode = bf16_decode },
    { .abi = DSFLOW_WIRE_FORMAT_ABI,
      .name = "int8",
      .summary = "a quarter: whole numbers of 8 bits, with a scale a block",
      .block = 2048,
      .error = 1.0 / 128,
      .bytes = dsf_wire8_bytes,
      .encode = dsf_wire8_encode,
      .decode = dsf_wire8_decode },
    { .abi = DSFLOW_WIRE_FORMAT_ABI,
      .name = "int4",
      .summary = "an eighth: whole numbers of 4 bits, with a scale a block",
      .block = 256,
      .error = 1.0 / 8,
      .bytes = dsf_wire4_bytes,
      .encode = dsf_wire4_encode,
      .decode = dsf_wire4_decode },
    { .abi = DSFLOW_WIRE_FORMAT_ABI,
      .name = "sign",
      .summary = "a thirty-second: signs, with a scale a tensor",
      .block = DSFLOW_WIRE_FORMAT_MOST,
      .error = 1,
      .bytes = dsf_wire1_bytes,
      .encode = dsf_wire1_encode,
      .decode = dsf_wire1_decode,
      .encode_by = dsf_wire1_encode_by },
};

static const void *const builtin[] = { &formats[0], &formats[1], &formats[2],
                                       &formats[3], NULL };

/* --- what may be registered ----------------------------------------------- */

static int check_sizes(const struct dsflow_wire_format *f,
                       struct dsflow_err *err)
{
    if (strlen(f->name) >= DSFLOW_WIRE_FORMAT_NAME ||
        strcmp(f->name, DSF_NO_FORMAT) == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: name: expected at most %d letters, "
                           "and not " DSF_NO_FORMAT,
                           f->name, DSFLOW_WIRE_FORMAT_NAME - 1);
    if (f->bytes == NULL || f->encode == NULL || f->decode == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: expected the functions bytes, encode "
                           "and decode",
                           f->name);
    if (!(f->error >= 0 && f->error <= 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: error: %g: expected 0 to 1", f->name,
                           f->error);
    if (!dsf_coding_is_block(f->block))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: block: %lld: expected a multiple of "
                           "%d, up to %d",
                           f->name, (long long)f->block,
                           DSFLOW_WIRE_FORMAT_STEP, DSFLOW_WIRE_FORMAT_MOST);
    return DSFLOW_OK;
}

/* Some blocks, before and behind which nothing may be written. */
enum { NUMBERS = DSFLOW_WIRE_FORMAT_STEP * 6, BLOCKS = 2, MARGIN = 64 };
struct attempt {
    float in[NUMBERS * BLOCKS];
    uint8_t coded[NUMBERS * BLOCKS * 8 + 2 * MARGIN];
    float out[NUMBERS * BLOCKS + 2 * MARGIN];
};

static bool is_all(const void *from, int byte, size_t n)
{
    const uint8_t *p = from;

    for (size_t i = 0; i < n; i++)
        if (p[i] != byte)
            return false;
    return true;
}

/* Encode into memory of `byte`s and decode, with others behind what was
 * written. */
static bool try_format(const struct dsflow_wire_format *f, struct attempt *a,
                       int byte)
{
    const size_t bytes = f->bytes(NUMBERS) * BLOCKS;
    const size_t margin = dsflow_dtype_bytes(DSFLOW_FP32, MARGIN);
    uint8_t *end = a->coded + MARGIN + bytes;

    memset(a->coded, byte, sizeof(a->coded));
    memset(a->out, byte, sizeof(a->out));
    f->encode(NUMBERS, a->in, a->coded + MARGIN, BLOCKS);
    if (!is_all(a->coded, byte, MARGIN) ||
        !is_all(end, byte, (size_t)(a->coded + sizeof(a->coded) - end)))
        return false;
    f->decode(NUMBERS, a->coded + MARGIN, a->out + MARGIN, BLOCKS);
    return is_all(a->out, byte, margin) &&
           is_all(a->out + MARGIN + NUMBERS * BLOCKS, byte, margin);
}

/* Does it keep to the bytes that it names? What it decodes must not depend on
 * what stands behind them. */
static int check_bytes(const struct dsflow_wire_format *f,
                       struct dsflow_err *err)
{
    struct attempt a, b;
    uint64_t state = 1;
    const size_t bytes = f->bytes(NUMBERS);
    const size_t most = dsflow_dtype_bytes(DSFLOW_FP32, NUMBERS);

    if (bytes == 0 || bytes > most)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: %zu bytes for %d numbers: expected 1 "
                           "to %zu",
                           f->name, bytes, NUMBERS, most);
    for (size_t i = 0; i < NUMBERS * BLOCKS; i++)
        a.in[i] = b.in[i] = (float)dsf_random_normal(&state);
    if (!try_format(f, &a, 0x5a) || !try_format(f, &b, 0xa5))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: writes beyond the %zu bytes and %d "
                           "numbers of a block",
                           f->name, bytes, NUMBERS);
    if (memcmp(a.out + MARGIN, b.out + MARGIN, sizeof(a.in)) != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "format %.60s: decodes more than the %zu bytes that "
                           "it encodes",
                           f->name, bytes);
    return DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_wire_format *f = thing;
    int status =
        dsf_registry_check(&dsf_wire_formats, f->abi, f->name, f->summary, err);

    if (status == DSFLOW_OK)
        status = check_sizes(f, err);
    if (status == DSFLOW_OK)
        status = check_bytes(f, err);
    if (status == DSFLOW_OK)
        status = dsf_registry_add(&dsf_wire_formats, f->name, f, origin, err);
    return status;
}

struct dsf_registry dsf_wire_formats = {
    .sort = "format",
    .abi = DSFLOW_WIRE_FORMAT_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_wire_format_register(const struct dsflow_wire_format *f,
                                struct dsflow_err *err)
{
    return dsf_wire_formats.add(f, DSF_PROGRAM, err);
}

const struct dsflow_wire_format *dsflow_wire_format_find(const char *name)
{
    return dsf_registry_thing(&dsf_wire_formats, name);
}

const struct dsflow_wire_format *dsflow_wire_format_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_wire_formats, i);
}
