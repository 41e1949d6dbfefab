/* trials_heads.c - random cases of heads that go from ranks to ranks. */
#include "codelets/trials.h"

#include <string.h>

/* All of it has one of the types that activations have. */
static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    const enum dsflow_dtype type = types[seed % 3];
    struct dsf_heads_args *a = args;
    uint64_t state = seed;
    int64_t all;

    a->rows = dsf_any(&state, 1, 20);
    a->runs = dsf_any(&state, 1, 2);
    a->heads = dsf_any(&state, 1, 9);
    a->size = dsf_any(&state, 1, 40);
    a->members =
        dsf_any(&state, 1, a->heads < 7 ? a->heads : DSFLOW_TRIAL_PORTS - 1);
    if (a->members > a->heads)
        a->members = a->heads;
    a->take = dsf_any(&state, -1, a->members - 1);
    all = (int64_t)a->rows * a->runs * a->heads * a->size;
    *n = a->take < 0 ? 1 + (unsigned)a->members : 2;
    for (unsigned i = 0; i < *n; i++)
        shapes[i] =
            dsflow_shape_of(type, i == (a->take < 0 ? 0 : 1)
                                      ? all
                                      : dsf_heads_elems(a, i == 0 ? 1 : i));
    *fresh = 1; /* all of it is written */
    return DSFLOW_OK;
}

/* Whose head is it? */
static int32_t member_of(const struct dsf_heads_args *a, int32_t head)
{
    int32_t i = 0;

    while (head >= (int64_t)a->heads * (i + 1) / a->members)
        i++;
    return i;
}

/* Number by number. */
static void reference(const struct dsflow_call *call)
{
    const struct dsf_heads_args *a = call->args;
    const size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);

    for (int32_t head = 0; head < a->heads; head++) {
        const int32_t i = member_of(a, head);
        const int32_t first = (int32_t)((int64_t)a->heads * i / a->members);
        const int32_t end = (int32_t)((int64_t)a->heads * (i + 1) / a->members);

        for (int32_t k = 0; k < a->rows * a->runs * a->size; k++) {
            const int32_t at = k % a->size, run = k / a->size % a->runs;
            const int64_t row =
                (int64_t)(k / a->size / a->runs) * a->runs + run;
            const int64_t whole = (row * a->heads + head) * a->size + at;
            const int64_t part =
                (row * (end - first) + head - first) * a->size + at;
            const unsigned port = a->take < 0 ? 1 + (unsigned)i : 1;

            if (a->take >= 0 && a->take != i)
                continue;
            memcpy((char *)call->bufs[0].ptr +
                       (size_t)(a->take < 0 ? whole : part) * width,
                   (const char *)call->bufs[port].ptr +
                       (size_t)(a->take < 0 ? part : whole) * width,
                   width);
        }
    }
}

const struct dsflow_trials dsf_trials_heads = { .make = make,
                                                .reference = reference };
