/* rounding.c - how far the rounding of what a case begins with moves what is
 * computed from it: a sum of large numbers that is small is moved far, and a
 * computation in bf16 or fp16 may be as far from that in fp32. */
#include "verify/rounding.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

enum { RUNS = 8 };

static void move(const struct dsf_case *c, const struct dsf_case *wide,
                 struct dsf_case *moved, uint64_t *state)
{
    const double half =
        dsf_case_precision(c) == DSFLOW_BF16 ? 0x1p-9 : 0x1p-12;

    dsf_case_widen(wide, moved);
    for (unsigned i = 0; i < c->n; i++) {
        float *v = moved->before[i];

        if (v == NULL || c->shapes[i].dtype == wide->shapes[i].dtype)
            continue;
        for (int64_t k = 0; k < wide->shapes[i].elems; k++)
            v[k] *= (float)(1 + half * (2 * dsf_random_unit(state) - 1));
    }
}

double dsf_rounding_moves(const struct dsf_case *c, const struct dsf_case *wide,
                          const struct dsf_computes *by, unsigned port,
                          size_t e, double v)
{
    uint64_t state = c->seed;
    double most = 0;

    for (int i = 0; i < RUNS; i++) {
        struct dsf_case moved;
        struct dsf_port_left left;

        move(c, wide, &moved, &state);
        dsf_case_run(&moved, by, &left);
        most = fmax(most,
                    fabs(dsf_case_number(&moved, left.v[port], port, e) - v));
        dsf_port_left_free(&left);
        dsf_case_free(&moved);
    }
    return most;
}
