/* trials_types.c - random cases in the types that data of a task may have. */
#include "codelets/trials.h"

#include "base/alloc.h"
#include "base/random.h"
#include "codelets/cast.h"

#include <stdlib.h>

/* The data of port `p` as `type`, or, where the op's check refuses that, fp32.
 */
static void set_type(const struct dsflow_case *c, struct dsflow_shape *shapes,
                     unsigned p, enum dsflow_dtype type)
{
    shapes[p] = dsflow_shape_of(type, shapes[p].elems);
    if (c->op->check != NULL && c->op->check(c, NULL) < 0)
        shapes[p] = dsflow_shape_of(DSFLOW_FP32, shapes[p].elems);
}

void dsf_trials_narrow(const struct dsflow_op *op, uint64_t seed,
                       struct dsflow_shape *shapes, unsigned n,
                       const void *args)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    const struct dsflow_case c = { op, shapes, n, args };
    const enum dsflow_dtype type = types[seed % 3];
    uint64_t state = seed;

    for (unsigned p = 0; p < n; p++) {
        const unsigned of = p < op->nports ? p : op->nports - 1;

        if (op->ports[of].floats == DSFLOW_NARROW && shapes[p].bytes > 0)
            shapes[p] = dsflow_shape_of(type, shapes[p].elems);
    }
    for (unsigned p = 0; p < n && p < op->nports; p++) {
        bool alone = op->ports[p].floats == DSFLOW_NARROW_ALONE;

        if ((alone || op->ports[p].floats == DSFLOW_NARROW_SUM) &&
            shapes[p].bytes > 0 && dsf_any(&state, 0, 1))
            set_type(&c, shapes, p,
                     alone ? types[dsf_any(&state, 0, 2)] : type);
    }
}

int dsf_fill_as_made(const struct dsflow_trials *trials,
                     const struct dsflow_op *op, uint64_t seed, unsigned port,
                     uint64_t *state, void *data, int64_t elems)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    void *args = dsf_xcalloc(1, op->args_size + 1);
    float *v = dsf_xcalloc((size_t)elems, sizeof(*v));
    unsigned n, fresh = 0;

    trials->make(op, seed, shapes, &n, args, &fresh);
    for (int64_t i = 0; i < elems; i++)
        v[i] = (float)dsf_random_normal(state);
    dsf_pack(shapes[port].dtype, &nearest, v, data, (size_t)elems);
    free(v);
    free(args);
    return 1;
}
