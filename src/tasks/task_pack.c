/* task_pack.c - states of the optimizer in fewer bytes than they are updated
 * in. */
#include "tasks/tasks.h"

#include "base/random.h"
#include "tasks/packed.h"

#include <string.h>

static size_t count_heads(int64_t elems)
{
    return ((size_t)elems + DSF_PACKED_BLOCK - 1) / DSF_PACKED_BLOCK;
}

size_t dsf_packed_bytes(enum dsf_states format, int64_t elems)
{
    switch (format) {
    case DSF_STATES_BF16:
        return (size_t)elems * sizeof(uint16_t);
    case DSF_STATES_INT8:
        return (size_t)elems + count_heads(elems) * sizeof(uint16_t);
    case DSF_STATES_FP32:
        break;
    }
    return (size_t)elems * sizeof(float);
}

int64_t dsf_packed_elems(enum dsf_states format, size_t bytes)
{
    const size_t block = DSF_PACKED_BLOCK + sizeof(uint16_t);

    switch (format) {
    case DSF_STATES_BF16:
        return (int64_t)(bytes / sizeof(uint16_t));
    case DSF_STATES_INT8:
        return (int64_t)(bytes -
                         (bytes + block - 1) / block * sizeof(uint16_t));
    case DSF_STATES_FP32:
        break;
    }
    return (int64_t)(bytes / sizeof(float));
}

static uint64_t stir(uint64_t into, uint64_t x)
{
    uint64_t state = into ^ x;

    return dsf_random(&state);
}

uint64_t dsf_packed_stream(int64_t seed, const struct dsflow_data_spec *state)
{
    size_t n = strcspn(state->name, "."); /* "m" of "m.layer3.qkv.s1" */
    uint64_t h = stir((uint64_t)seed, n);

    for (size_t i = 0; i < n; i++)
        h = stir(h, (unsigned char)state->name[i]);
    return stir(stir(h, (uint64_t)state->unit), (uint64_t)state->part);
}

static int check(const char *name, size_t whole, size_t packed,
                 const struct dsf_pack_args *a, struct dsflow_err *err)
{
    if (a->format != DSF_STATES_BF16 && a->format != DSF_STATES_INT8)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: format %d: expected bf16 or int8", name,
                           (int)a->format);
    if (a->at < 0 || a->at % DSF_PACKED_BLOCK != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: from number %lld on: expected a multiple of %d",
                           name, (long long)a->at, DSF_PACKED_BLOCK);
    if (a->elems < 0 || whole / sizeof(float) < (size_t)a->elems ||
        packed < dsf_packed_bytes(a->format, a->elems))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers in %zu and, packed, %zu bytes",
                           name, (long long)a->elems, whole, packed);
    return DSFLOW_OK;
}

static int pack_check(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_err *err)
{
    if (bytes[0] < sizeof(struct dsflow_control))
        return dsflow_fail(err, DSFLOW_EINVAL, "pack: control: %zu bytes",
                           bytes[0]);
    return check("pack", bytes[1], bytes[2], args, err);
}

static int unpack_check(const size_t *bytes, unsigned n, const void *args,
                        struct dsflow_err *err)
{
    return check("unpack", bytes[1], bytes[0], args, err);
}

/* No floating-point operations: bytes, and what it takes to make them. */
static void pack_cost(const size_t *bytes, unsigned n, const void *args,
                      struct dsflow_cost *cost)
{
    const struct dsf_pack_args *a = args;

    cost->bytes = (double)dsf_packed_bytes(DSF_STATES_FP32, a->elems) +
                  (double)dsf_packed_bytes(a->format, a->elems);
}

const struct dsflow_op dsf_op_pack = {
    .abi = DSFLOW_OP_ABI,
    .name = "pack",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "states in bf16 or 8 bits, rounded at random",
    .args_size = sizeof(struct dsf_pack_args),
    DSFLOW_PORTS({ "control", DSFLOW_R }, { "whole", DSFLOW_R },
                 { "packed", DSFLOW_W }),
    .check = pack_check,
    .cost = pack_cost,
};

const struct dsflow_op dsf_op_unpack = {
    .abi = DSFLOW_OP_ABI,
    .name = "unpack",
    .direction = DSFLOW_DIR_UPDATE,
    .summary = "states in fp32 from bf16 or 8 bits",
    .args_size = sizeof(struct dsf_pack_args),
    DSFLOW_PORTS({ "packed", DSFLOW_R }, { "whole", DSFLOW_W }),
    .check = unpack_check,
    .cost = pack_cost,
};
