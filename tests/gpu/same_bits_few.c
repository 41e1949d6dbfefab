/* same_bits_few.c - cases of test_same_bits of what LAMB and 1-bit LAMB compute
 * of sums of blocks, and of few numbers for each tensor: more rows than a block
 * of threads reads at a time, and more ports than a launch is told of. */
#include "gpu/same_bits.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

static struct dsflow_shape doubles(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP64, n);
}

static struct dsflow_shape lamb(void)
{
    return doubles(DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
}

static unsigned any_ports(struct trial *t)
{
    return (unsigned)(one_in(t, 8) ? any(t, 100, MOST_PORTS) : any(t, 2, 9));
}

/* `width` sums for each block of a unit, on some ports. */
static void any_rows(struct trial *t, int64_t width)
{
    const int64_t most = one_in(t, 4) ? 700 : 9;

    t->n = any_ports(t);
    for (unsigned i = 1; i < t->n; i++)
        t->shapes[i] = doubles(width * any(t, 1, i < 3 ? most : 3));
}

static void make_ratio(struct trial *t)
{
    struct dsf_ratio_args *a = (void *)t->args;

    a->n = (int32_t)any(t, 1, DSFLOW_MAX_TENSORS);
    a->width = 2 * a->n + (int32_t)any(t, 0, 9);
    a->least = 0.01;
    a->most = one_in(t, 2) ? 10 : 0.5;
    any_rows(t, a->width);
    t->shapes[0] = doubles(a->n);
}

static void any_factor(struct trial *t)
{
    struct dsf_factor_args *a = (void *)t->args;

    a->n = (int32_t)any(t, 1, DSFLOW_MAX_TENSORS);
    a->width = 4 * a->n + (int32_t)any(t, 0, 9);
    a->least = 0.5;
    a->most = 4;
    a->threshold = one_in(t, 2) ? 0.1 : 3;
}

static void make_totals(struct trial *t)
{
    const struct dsf_factor_args *a = (const void *)t->args;

    any_factor(t);
    any_rows(t, a->width);
    t->shapes[0] = doubles(4 * (int64_t)a->n);
}

static void make_factor(struct trial *t)
{
    const struct dsf_factor_args *a = (const void *)t->args;

    any_factor(t);
    t->n = 4;
    t->shapes[0] = control();
    t->shapes[1] = doubles(4 * (int64_t)a->n);
    t->shapes[2] = lamb();
    t->shapes[3] = doubles(a->n);
}

static void make_mean(struct trial *t)
{
    struct dsf_mean_args *a = (void *)t->args;

    a->beta = 0.9;
    a->n = any(t, 0, DSFLOW_MAX_TENSORS);
    t->n = 3;
    t->shapes[0] = control();
    t->shapes[1] = doubles(DSFLOW_MAX_TENSORS);
    t->shapes[2] = lamb();
}

static void make_unite(struct trial *t)
{
    struct dsf_unite_args *a = (void *)t->args;

    a->ntensors = any(t, 1, DSFLOW_MAX_TENSORS);
    a->n = a->ntensors + any(t, 0, 9);
    t->n = 3;
    t->shapes[0] = doubles(a->ntensors);
    t->shapes[1] = doubles(1);
    t->shapes[2] = lamb();
    if (one_in(t, 4)) {
        leave_out(t, 0);
        leave_out(t, 1);
    }
}

/* Of the blocks of a unit that is one of several, on some ports. */
static void make_chunk_sums(struct trial *t)
{
    struct dsf_united_args *a = (void *)t->args;
    int64_t blocks, most;

    a->at.coding = any_signs(t, &blocks);
    a->at.groups = any(t, 1, 8);
    a->before = any(t, 0, 5000);
    a->all = a->before + any(t, 1, 5000);
    for (int64_t i = 0; i < a->at.coding.ntensors; i++)
        a->all += a->at.coding.tensors[i].elems;
    a->by_tensor = one_in(t, 4);
    if (a->by_tensor)
        a->at.groups = DSFLOW_MAX_TENSORS;
    most = one_in(t, 4) ? 1 : blocks;
    t->shapes[0] = doubles(2 * a->at.groups);
    for (t->n = 1; blocks > 0 && t->n < MOST_PORTS; t->n++) {
        const int64_t n = t->n == MOST_PORTS - 1
                              ? blocks
                              : any(t, 1, most < blocks ? most : blocks);

        t->shapes[t->n] = doubles(n);
        blocks -= n;
    }
}

/* Of half of the numbers it is counted how many they are of. */
static void make_tensor_scales(struct trial *t)
{
    const int64_t n = any(t, 1, one_in(t, 8) ? 300 : DSFLOW_MAX_TENSORS);

    t->n = any_ports(t) - 1;
    t->shapes[0] = doubles(n);
    for (unsigned i = 1; i < t->n; i++)
        t->shapes[i] = doubles(2 * n);
    t->counts = ~1u;
}

static void make_sum_each(struct trial *t)
{
    const int64_t n = any(t, 1, one_in(t, 8) ? 600 : 32);

    t->n = any_ports(t) - 1;
    for (unsigned i = 0; i < t->n; i++)
        t->shapes[i] = doubles(n);
}

static const struct {
    const char *op;
    void (*make)(struct trial *t);
} kinds[] = {
    { "lamb_ratio", make_ratio },
    { "lamb_totals", make_totals },
    { "lamb_factor", make_factor },
    { "lamb_mean", make_mean },
    { "unite_scales", make_unite },
    { "chunk_sums", make_chunk_sums },
    { "tensor_scales", make_tensor_scales },
    { "sum_each", make_sum_each },
};

/* Norms, some of which are 0: every third sum is. */
bool fill_few(struct trial *t, unsigned port)
{
    const struct dsf_ratio_args *a = (const void *)t->args;
    const int64_t zeroes = (int64_t)(t->seed % 3);
    double *v = t->before[port];

    if (strcmp(t->op, "lamb_ratio") != 0 || t->seed % 2 == 0)
        return false;
    for (int64_t i = 0; i < t->shapes[port].elems; i++)
        v[i] = i % a->width % 3 == zeroes ? 0 : fabsf(any_float(t, true));
    return true;
}

void make_few(struct trial *t)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(kinds[i].op, t->op) == 0)
            kinds[i].make(t);
}
