/* step_bytes.h - what ranks read of each other in each kind of step of
 * optimizers that send in 1 bit. */
#ifndef TESTS_UNIT_POLICIES_STEP_BYTES_H
#define TESTS_UNIT_POLICIES_STEP_BYTES_H

#include "tests/same/trial.h"

#include "policies/onebit.h"
#include "sim/step_kinds.h"

#include "lib/test.h"

#include <math.h>

/* What the ranks read in a step of a program. */
static inline struct dsf_step_kind kind(const struct trial *t, const char *name)
{
    dsflow_program program;

    assert_true(dsflow_graph_find_program(t->graph, name, &program));
    return dsf_step_kind(t->plan, t->graph, NULL, program);
}

static inline void assert_bytes(const char *what, int n, double got,
                                double expected)
{
    if (fabs(got - expected) > 0.02 * expected)
        fail_msg("%d ranks: %s: %.0f bytes: expected %.0f", n, what, got,
                 expected);
}

/* Each of N ranks reads, of each number, (N - 1) / N twice: once from each of
 * the others, and once what the others have served. A block of 1024 is 132
 * bytes in 1 bit, the numbers that do not go so are in fp32; `whole`: so are
 * all. */
static inline void expected_bytes(const struct trial *t, int n, double *signs,
                                  double *whole)
{
    int64_t coded = 0, all = 0;

    for (unsigned u = 0; u < t->model.nunits; u++) {
        struct dsf_coding c =
            dsf_onebit_coding(&t->job, &t->model, &t->model.units[u]);

        all += t->model.units[u].elems;
        for (int64_t i = 0; i < c.ntensors; i++)
            coded += c.tensors[i].elems;
    }
    assert_true(coded > 9 * (all - coded));
    *signs = 2.0 * (n - 1) *
             ((double)coded / 1024 * 132 + 4 * (double)(all - coded));
    *whole = 8.0 * (n - 1) * (double)all;
}

#endif
