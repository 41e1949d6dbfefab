/* task_pack.c - states of the optimizer in fewer bytes than they are updated
 * in. */
#include "tasks/tasks.h"

#include "base/random.h"
#include "tasks/packed.h"
#include "tasks/shapes.h"

#include <string.h>

static size_t count_heads(int64_t elems)
{
    return ((size_t)elems + DSF_PACKED_BLOCK - 1) / DSF_PACKED_BLOCK;
}

enum dsflow_dtype dsf_packed_dtype(enum dsf_states format)
{
    switch (format) {
    case DSF_STATES_BF16:
        return DSFLOW_BF16;
    case DSF_STATES_INT8:
        return DSFLOW_INT8_BLOCK;
    case DSF_STATES_FP32:
        break;
    }
    return DSFLOW_FP32;
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

static int check(const struct dsflow_op *op, unsigned whole, unsigned packed,
                 const struct dsflow_shape *shapes,
                 const struct dsf_pack_args *a, struct dsflow_err *err)
{
    int status;

    if (a->format != DSF_STATES_BF16 && a->format != DSF_STATES_INT8)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: format %d: expected bf16 or int8", op->name,
                           (int)a->format);
    if (a->at < 0 || a->at % DSF_PACKED_BLOCK != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: from number %lld on: expected a multiple of %d",
                           op->name, (long long)a->at, DSF_PACKED_BLOCK);
    status = dsf_range_check(op, whole, &shapes[whole], DSFLOW_FP32, 0,
                             a->elems, err);
    if (status == DSFLOW_OK)
        status = dsf_range_check(op, packed, &shapes[packed],
                                 dsf_packed_dtype(a->format), 0, a->elems, err);
    return status;
}

static int pack_check(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_err *err)
{
    int status = dsf_control_check(&dsf_op_pack, 0, &shapes[0], err);

    return status < 0 ? status : check(&dsf_op_pack, 1, 2, shapes, args, err);
}

static int unpack_check(const struct dsflow_shape *shapes, unsigned n,
                        const void *args, struct dsflow_err *err)
{
    return check(&dsf_op_unpack, 1, 0, shapes, args, err);
}

/* No floating-point operations: bytes, and what it takes to make them. */
static void pack_cost(const struct dsflow_shape *shapes, unsigned n,
                      const void *args, struct dsflow_cost *cost)
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
