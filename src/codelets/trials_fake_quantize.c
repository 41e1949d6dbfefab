/* trials_fake_quantize.c - random cases of weights that are quantized or
 * pruned. */
#include "codelets/trials.h"

#include <string.h>

static struct dsf_weight_form any_form(uint64_t *state)
{
    struct dsf_weight_form f = {
        .quantizer = dsf_any(state, DSF_UNQUANTIZED, DSF_BINARY),
        .group = DSF_QUANTIZE_LEAST << dsf_any(state, 0, 3),
        .bits = dsf_any(state, 2, 8),
        .period = dsf_any(state, 1, 3),
        .quantize_from = dsf_any(state, 0, 4),
        .prune_from = dsf_any(state, 0, 4),
    };

    f.start_bits = dsf_any(state, f.bits, DSF_QUANTIZE_MOST_BITS);
    if (dsf_any(state, 0, 1)) {
        f.of = 2 << dsf_any(state, 0, 3);
        f.keep = dsf_any(state, 1, f.of - 1);
    }
    f.matrices = (int64_t)f.group * dsf_any(state, 0, 40);
    return f;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    struct dsf_fake_quantize_args *a = args;
    uint64_t state = seed;

    (void)op;
    a->form = any_form(&state);
    a->at = (int64_t)a->form.group * dsf_any(&state, 0, 20);
    a->elems = (int64_t)a->form.group * dsf_any(&state, 1, 40);
    a->in_at = dsf_any_place(&state);
    a->out_at = dsf_any_place(&state);
    a->behind = dsf_any(&state, 0, 1);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->in_at + a->elems);
    shapes[2] =
        dsflow_shape_of(types[dsf_any(&state, 0, 2)], a->out_at + a->elems);
    *n = 3;
    *fresh = 0;
    return DSFLOW_OK;
}

/* A step of some number, which may be skipped. */
static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed;

    (void)op;
    (void)elems;
    (void)args;
    if (port != 0)
        return 0;
    memset(data, 0, sizeof(struct dsflow_control));
    *(struct dsflow_control *)data =
        (struct dsflow_control){ .updates = dsf_any(&state, 0, 12),
                                 .skip = dsf_any(&state, 0, 1) };
    return 1;
}

const struct dsflow_trials dsf_trials_fake_quantize = { .make = make_case,
                                                        .fill = fill_case };
