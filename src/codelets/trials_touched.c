/* trials_touched.c - random cases of gradients that are sent as rows. */
#include "codelets/trials.h"

#include "base/random.h"
#include "tasks/tasks.h"

#include <stdbool.h>
#include <string.h>

/* Who tries a CUDA side has an op of its own, of the same name. */
static bool packs(const struct dsflow_op *op)
{
    return strcmp(op->name, dsf_op_pack_rows.name) == 0;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    struct dsf_rows_args *a = args;
    uint64_t state = seed;
    int64_t before = 16 * dsf_any(&state, 0, 2);

    a->width = dsf_any(&state, 1, 40);
    a->most = dsf_any(&state, 1, 12);
    a->elems = dsf_any(&state, 1, 400);
    a->dense = a->elems;
    *fresh = packs(op) ? 2 : 0;
    if (packs(op)) {
        a->at = before;
        shapes[0] = dsflow_shape_of(DSFLOW_FP32, before + a->elems);
        shapes[1] = dsflow_shape_of(DSFLOW_BYTES, dsf_rows_bytes(a));
        *n = 2;
        return DSFLOW_OK;
    }
    a->at = dsf_any(&state, 0, 100);
    a->into_at = before;
    *n = (unsigned)dsf_any(&state, 2, 9);
    shapes[0] = dsflow_shape_of(DSFLOW_FP32, before + a->elems);
    for (unsigned i = 1; i < *n; i++)
        shapes[i] = dsflow_shape_of(DSFLOW_BYTES, dsf_rows_bytes(a));
    return DSFLOW_OK;
}

/* Every second number of a row is a zero, and most rows have no others. */
static void fill_dense(const struct dsf_rows_args *a, uint64_t *state, float *x,
                       int64_t elems)
{
    for (int64_t i = 0; i < elems; i++)
        x[i] = i / a->width % 3 == 0 && i % 2 == 0
                   ? (float)dsf_random_normal(state)
                   : 0;
}

static void fill_packed(const struct dsf_rows_args *a, uint64_t *state,
                        int64_t *count)
{
    char *at = (char *)(count + 1);
    int64_t row = 0;

    *count = dsf_any(state, 0, (int32_t)a->most);
    for (int64_t i = 0; i < a->most; i++, at += dsf_row_bytes(a)) {
        float *x = (float *)(void *)(at + sizeof(row));

        row += dsf_any(state, 1, 3);
        memcpy(at, &row, sizeof(row));
        for (int64_t k = 0; k < a->width; k++)
            x[k] = (float)dsf_random_normal(state);
    }
}

static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed + 31 * port;

    if (packs(op) && port == 0)
        fill_dense(args, &state, data, elems);
    else if (!packs(op) && port > 0)
        fill_packed(args, &state, data);
    else
        return 0;
    return 1;
}

const struct dsflow_trials dsf_trials_rows = { .make = make_case,
                                               .fill = fill_case };
