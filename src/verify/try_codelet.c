/* try_codelet.c - a codelet on random cases. What it leaves must be that of its
 * reference, and must depend on nothing but what its op says it reads. */
#include "verify/try_codelet.h"

#include "base/alloc.h"
#include "base/by_value.h"
#include "base/units.h"
#include "verify/rounding.h"
#include "verify/try_cuda.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first element that is not the same, bit by bit; or `n`. */
static size_t first_other(const struct dsf_case *c, unsigned port,
                          const void *a, const void *b, size_t n)
{
    size_t w = dsf_case_width(c, port);

    for (size_t e = 0; e < n; e++)
        if (memcmp((const char *)a + e * w, (const char *)b + e * w, w) != 0)
            return e;
    return n;
}

/* Run it another way: every bit must be the same as in `first`; or what
 * `says` says is wrong. */
static void run_same(const struct dsf_case *c, const struct dsf_computes *what,
                     const struct dsf_case_way *way,
                     const struct dsf_port_left *first, const char *says)
{
    struct dsf_port_left other;

    dsf_case_run_as(c, what, way, &other);
    for (unsigned i = 0; i < c->n; i++) {
        size_t n = dsf_case_count(c, i), e;

        if (other.v[i] == NULL)
            continue;
        e = first_other(c, i, first->v[i], other.v[i], n);
        if (e < n)
            dsf_child_fault("%s: port %s, element %zu: %.9g, then %.9g", says,
                            dsf_case_port_name(c, i), e,
                            dsf_case_number(c, first->v[i], i, e),
                            dsf_case_number(c, other.v[i], i, e));
    }
    dsf_port_left_free(&other);
}

/* With other garbage in port `p`, which it only writes, nothing changes but
 * what it never writes: those elements are marked in `untouched`. */
static void try_garbage(const struct dsf_case *c,
                        const struct dsf_computes *what, unsigned p,
                        const struct dsf_port_left *first,
                        unsigned char **untouched)
{
    struct dsf_case_way way = { .at_end = true, .random_ports = 1u << p };
    unsigned char *held = dsf_xcalloc(1, c->shapes[p].bytes + 1);
    struct dsf_port_left other;

    dsf_garbage_fill(held, c->shapes[p].bytes, DSF_RANDOM_BYTES);
    dsf_case_run_as(c, what, &way, &other);
    for (unsigned i = 0; i < c->n; i++) {
        size_t n = dsf_case_count(c, i), w = dsf_case_width(c, i);

        for (size_t e = 0; e < n && other.v[i] != NULL; e++) {
            const char *a = (const char *)first->v[i] + e * w;
            const char *b = (const char *)other.v[i] + e * w;

            if (memcmp(a, b, w) == 0)
                continue;
            if (i != p || memcmp(b, held + e * w, w) != 0)
                dsf_child_fault("depends on what port %s held before, which %s",
                                dsf_case_port_name(c, p),
                                c->fresh >> p & 1 ? "is fresh in this case"
                                                  : "it declares as W");
            untouched[p][e] = 1;
        }
    }
    dsf_port_left_free(&other);
    free(held);
}

static bool finite_before(const struct dsf_case *c)
{
    for (unsigned i = 0; i < c->n; i++)
        for (size_t e = 0; c->before[i] != NULL && e < dsf_case_count(c, i);
             e++)
            if (!isfinite(dsf_case_number(c, c->before[i], i, e)))
                return false;
    return true;
}

/* What a reference leaves of a case. */
struct expected {
    const struct dsf_computes *by;
    struct dsf_case of; /* in fp32, where the one that is tried is narrow */
    struct dsf_port_left left;
    unsigned char *untouched[DSFLOW_TRIAL_PORTS];
};

/* How large the numbers of a port are: their root mean square. */
static double size_of(const struct expected *x, unsigned port)
{
    size_t n = dsf_case_count(&x->of, port);
    double squares = 0;

    for (size_t e = 0; e < n; e++) {
        double v = dsf_case_number(&x->of, x->left.v[port], port, e);

        squares += x->untouched[port][e] ? 0 : v * v;
    }
    return sqrt(squares / (double)(n > 0 ? n : 1));
}

/* How far a number may be from `b`, on a port whose numbers have this size.
 * What is computed in bf16 or fp16 is rounded several times, to 8 or 11 bits,
 * and some numbers are sums of larger ones: in fp32, too. */
static double allowed(const struct dsf_case *c, double size, double b)
{
    const double own = c->trials->tolerance;

    switch (dsf_case_precision(c)) {
    case DSFLOW_BF16:
        return DSF_TRY_BF16 * (size + fabs(b));
    case DSFLOW_FP16:
        return DSF_TRY_FP16 * (size + fabs(b));
    default:
        return (own > 0 ? own : DSF_TRY_FP32) * (1 + fabs(b)) + 0x1p-18 * size;
    }
}

/* Rounding that happens on the way moves a number as far as that of what the case
 * begins with does, several times. */
static bool is_near(const struct dsf_case *c, const struct expected *x,
                    unsigned port, size_t e, double size, double a)
{
    enum { TIMES = 4 };
    const double b = dsf_case_number(&x->of, x->left.v[port], port, e);

    if (a == b || fabs(a - b) <= allowed(c, size, b))
        return true;
    return dsf_case_precision(c) != DSFLOW_FP32 &&
           fabs(a - b) <=
               TIMES * dsf_rounding_moves(c, &x->of, x->by, port, e, b);
}

static const char *who(const struct dsf_computes *reference)
{
    return reference->who != NULL ? reference->who : "its reference ";
}

/* Finite numbers, and those of the reference. */
static void compare(const struct dsf_case *c, const struct dsf_port_left *left,
                    unsigned char *const *untouched, const struct expected *x)
{
    bool finite = finite_before(c);

    for (unsigned i = 0; i < c->n; i++) {
        double size = x != NULL && left->v[i] != NULL ? size_of(x, i) : 0;

        for (size_t e = 0; left->v[i] != NULL && e < dsf_case_count(c, i);
             e++) {
            double a = dsf_case_number(c, left->v[i], i, e);
            const char *name = dsf_case_port_name(c, i);

            if (untouched[i][e]) {
                if (x == NULL || !x->untouched[i][e])
                    dsf_child_fault("does not write port %s, element %zu", name,
                                    e);
                continue;
            }
            if (finite && !isfinite(a))
                dsf_child_fault("returns %s in port %s, element %zu",
                                isnan(a) ? "NaN" : "infinity", name, e);
            if (x == NULL || x->untouched[i][e])
                continue;
            if (!is_near(c, x, i, e, size, a))
                dsf_child_fault("differs from %sin port %s, element %zu: "
                                "%.9g, expected %.9g",
                                who(x->by), name, e, a,
                                dsf_case_number(&x->of, x->left.v[i], i, e));
        }
    }
}

/* Run twice, and once more with other garbage in each port that is only
 * written. */
static void run_with_garbage(const struct dsf_case *c,
                             const struct dsf_computes *what,
                             struct dsf_port_left *first,
                             unsigned char **untouched)
{
    static const struct dsf_case_way plain = { .at_end = true };

    dsf_case_run_as(c, what, &plain, first);
    run_same(c, what, &plain, first, "is not the same twice");
    for (unsigned i = 0; i < c->n; i++) {
        untouched[i] = dsf_xcalloc(1, c->shapes[i].bytes + 1);
        if (c->before[i] == NULL)
            try_garbage(c, what, i, first, untouched);
    }
}

/* Of a narrow case, the reference does the same in fp32; where there is none,
 * the codelet itself does. */
static void expect(const struct dsf_case *c, const struct dsf_computes *by,
                   struct expected *x)
{
    x->by = by;
    dsf_case_widen(c, &x->of);
    run_with_garbage(&x->of, by, &x->left, x->untouched);
}

/* Which NaN it is says nothing in fp32 and fp64. */
static bool is_same(const struct dsf_case *c, unsigned port, const void *a,
                    const void *b, size_t e)
{
    const enum dsflow_dtype type = c->shapes[port].dtype;
    const size_t w = dsf_case_width(c, port);

    return memcmp((const char *)a + e * w, (const char *)b + e * w, w) == 0 ||
           ((type == DSFLOW_FP32 || type == DSFLOW_FP64) &&
            isnan(dsf_case_number(c, a, port, e)) &&
            isnan(dsf_case_number(c, b, port, e)));
}

/* Of the same numbers the reference leaves the same bits. */
static void compare_bits(const struct dsf_case *c,
                         const struct dsf_port_left *left,
                         unsigned char *const *untouched,
                         const struct dsf_computes *reference)
{
    unsigned char *others[DSFLOW_TRIAL_PORTS] = { NULL };
    struct dsf_port_left own;

    run_with_garbage(c, reference, &own, others);
    for (unsigned i = 0; i < c->n; i++)
        for (size_t e = 0; own.v[i] != NULL && e < dsf_case_count(c, i); e++)
            if (!(untouched[i][e] && others[i][e]) &&
                !is_same(c, i, left->v[i], own.v[i], e))
                dsf_child_fault("has other bits than %sin port %s, element "
                                "%zu: %.9g, expected %.9g",
                                who(reference), dsf_case_port_name(c, i), e,
                                dsf_case_number(c, left->v[i], i, e),
                                dsf_case_number(c, own.v[i], i, e));
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(others[i]);
    dsf_port_left_free(&own);
}

static void expected_free(struct expected *x)
{
    dsf_case_free(&x->of);
    dsf_port_left_free(&x->left);
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(x->untouched[i]);
}

void dsf_case_try(const struct dsf_case *c, const struct dsf_computes *codelet,
                  const struct dsf_computes *reference)
{
    const bool narrow = dsf_case_precision(c) != DSFLOW_FP32;
    const bool compares = narrow || reference->cpu != NULL;
    const bool bits = reference->cpu != NULL && reference->same_bits;
    unsigned char *untouched[DSFLOW_TRIAL_PORTS] = { NULL };
    struct expected expected = { .left = { { NULL } } };
    struct dsf_port_left first;
    char where[256];

    dsf_case_words(c, where, sizeof(where));
    dsf_child_step("", where);
    if (codelet->on_gpu)
        dsf_cuda_begin();
    run_with_garbage(c, codelet, &first, untouched);
    run_same(
        c, codelet,
        &(struct dsf_case_way){ .at_end = true, .scratch = DSF_RANDOM_BYTES },
        &first, "depends on what its scratch held before");
    run_same(c, codelet, &(struct dsf_case_way){ .on_thread = true }, &first,
             "differs at other addresses, on another thread");
    if (codelet->on_gpu)
        dsf_cuda_try_skipped(c, codelet);
    if (compares && !bits) {
        dsf_child_step(who(reference), where);
        expect(c, reference->cpu != NULL ? reference : codelet, &expected);
        dsf_child_step("", where);
    }
    if (bits)
        compare_bits(c, &first, untouched, reference);
    else
        compare(c, &first, untouched, compares ? &expected : NULL);
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(untouched[i]);
    dsf_port_left_free(&first);
    expected_free(&expected);
}

/* What a port holds is renewed before each run. */
static void renew(const struct dsf_case *c, struct dsf_case_memory *m)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->before[i] != NULL && dsf_case_access(c, i) != DSFLOW_R)
            memcpy(m->bufs[i].ptr, c->before[i], c->shapes[i].bytes);
}

/* A case that runs again and again, while another one does. */
struct again {
    const struct dsf_case *c;
    dsflow_cpu_fn cpu;
    pthread_barrier_t *both;
    struct dsf_port_left alone; /* what it leaves when no other one runs */
    struct dsf_case_memory m;
    bool differs;
    unsigned port;
    size_t at;
};

static void compare_alone(struct again *a)
{
    for (unsigned i = 0; i < a->c->n && !a->differs; i++) {
        const size_t n = dsf_case_count(a->c, i);

        if (a->alone.v[i] == NULL)
            continue;
        a->port = i;
        a->at = first_other(a->c, i, a->alone.v[i], a->m.bufs[i].ptr, n);
        a->differs = a->at < n;
    }
}

static void *run_again(void *user)
{
    enum { LEAST = 3 };
    const double SECONDS = 0.01;
    struct again *a = user;
    double begin;

    pthread_barrier_wait(a->both);
    begin = dsf_now();
    for (int n = 0; (n < LEAST || dsf_now() - begin < SECONDS) && !a->differs;
         n++) {
        renew(a->c, &a->m);
        a->cpu(&a->m.call);
        compare_alone(a);
    }
    return NULL;
}

void dsf_case_try_beside(const struct dsf_case *c, const struct dsf_case *other,
                         const struct dsf_computes *what)
{
    static const struct dsf_case_way plain = { .at_end = true };
    pthread_barrier_t both;
    struct again v[2] = { { .c = c }, { .c = other } };
    pthread_t thread;

    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; i++) {
        v[i].cpu = what->cpu;
        v[i].both = &both;
        dsf_case_run_as(v[i].c, what, &plain, &v[i].alone);
        dsf_case_memory_init(&v[i].m, v[i].c, what->op, &plain);
    }
    if (pthread_create(&thread, NULL, run_again, &v[0]) == 0) {
        run_again(&v[1]);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        const struct again *a = &v[i];

        if (a->differs)
            dsf_child_fault(
                "differs while another thread runs it on another case: port "
                "%s, element %zu: %.9g, then %.9g",
                dsf_case_port_name(a->c, a->port), a->at,
                dsf_case_number(a->c, a->alone.v[a->port], a->port, a->at),
                dsf_case_number(a->c, a->m.bufs[a->port].ptr, a->port, a->at));
    }
    for (int i = 0; i < 2; i++) {
        dsf_case_memory_fini(&v[i].m);
        dsf_port_left_free(&v[i].alone);
    }
    pthread_barrier_destroy(&both);
}

/* The median of some runs: numbers that are added to again and again would
 * grow. */
double dsf_case_time(const struct dsf_case *c, const struct dsf_computes *what)
{
    static const struct dsf_case_way plain = { .at_end = true };
    enum { MOST = 101 };
    double v[MOST], begin = dsf_now();
    struct dsf_case_memory m;
    unsigned n = 0;

    dsf_case_memory_init(&m, c, what->op, &plain);
    while (n < 5 || (n < MOST && dsf_now() - begin < 0.05)) {
        double start;

        renew(c, &m);
        start = dsf_now();
        what->cpu(&m.call);
        v[n++] = dsf_now() - start;
    }
    dsf_case_memory_fini(&m);
    qsort(v, n, sizeof(*v), dsf_by_value);
    return v[n / 2];
}

/* What follows is about all cases. */
static void begin_all(const struct dsf_verify_options *how, const char *step)
{
    char where[64];

    snprintf(where, sizeof(where), "--seed %llu --cases %u",
             (unsigned long long)how->seed, how->cases);
    dsf_child_step(step, where);
}

void dsf_try_codelet(const struct dsf_computes *codelet,
                     const struct dsf_computes *reference,
                     const struct dsflow_trials *trials,
                     const struct dsf_verify_options *how,
                     struct dsf_verdict *verdict)
{
    uint64_t first = 0, largest = 0, last = 0; /* seeds */
    const struct dsflow_op *costs =
        codelet->op->cost == NULL && reference->op != NULL ? reference->op
                                                           : codelet->op;
    double most = -1;
    struct dsf_case c, other;

    for (unsigned i = 0; i < how->cases; i++) {
        dsf_case_make(&c, codelet->op, trials, how->seed + i);
        if (c.n > 0 && (!codelet->on_gpu || dsf_cuda_takes(&c))) {
            struct dsflow_cost cost = dsf_case_cost(&c, costs);

            dsf_child_step("", NULL);
            if (!(cost.flops >= 0 && cost.bytes >= 0))
                dsf_child_fault("the op's cost: %g operations, %g bytes",
                                cost.flops, cost.bytes);
            dsf_case_try(&c, codelet, reference);
            first = verdict->cases++ == 0 ? c.seed : first;
            last = c.seed;
            if (cost.flops + cost.bytes > most) {
                most = cost.flops + cost.bytes;
                largest = c.seed;
            }
        }
        dsf_case_free(&c);
    }
    if (verdict->cases == 0) {
        begin_all(how, "its trials: ");
        dsf_child_fault("none of %u seeds gives a case", how->cases);
    }
    if (codelet->on_gpu)
        return;
    dsf_case_make(&c, codelet->op, trials, first);
    dsf_case_make(&other, codelet->op, trials, last);
    begin_all(how, "");
    dsf_case_try_beside(&c, &other, codelet);
    dsf_case_free(&c);
    dsf_case_free(&other);
    dsf_case_make(&c, codelet->op, trials, largest);
    dsf_child_step("", NULL);
    verdict->flops = dsf_case_cost(&c, costs).flops;
    verdict->bytes = dsf_case_cost(&c, costs).bytes;
    verdict->seconds = dsf_case_time(&c, codelet);
    if (reference->cpu != NULL)
        verdict->reference = dsf_case_time(&c, reference);
    dsf_case_free(&c);
}
