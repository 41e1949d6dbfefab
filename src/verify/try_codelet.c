/* try_codelet.c - a codelet on random cases. What it leaves must be that of its
 * reference, and must depend on nothing but what its op says it reads. */
#include "verify/try_codelet.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/random.h"
#include "base/units.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What stands in memory that has no contents: not a number; or anything. */
enum garbage { NAN_BYTES, RANDOM_BYTES };

/* One way to run a case. */
struct way {
    bool at_end, on_thread;
    unsigned random_ports; /* bit i: port i has RANDOM_BYTES, if it has none */
    enum garbage scratch;
};

static const struct dsflow_port *port_of(const struct dsf_case *c, unsigned i)
{
    unsigned last = c->op->nports - 1;

    return &c->op->ports[i < last ? i : last];
}

/* Is there no such port, or does the case leave it out? */
static bool is_left_out(const struct dsf_case *c, unsigned i)
{
    const struct dsflow_port *port = port_of(c, i);

    return port->name == NULL || (port->optional && c->shapes[i].bytes == 0);
}

static enum dsflow_access access_of(const struct dsf_case *c, unsigned i)
{
    if (c->fresh >> i & 1)
        return DSFLOW_W;
    return is_left_out(c, i) ? DSFLOW_R : port_of(c, i)->access;
}

static const char *name_of(const struct dsf_case *c, unsigned i)
{
    return is_left_out(c, i) ? "(none)" : port_of(c, i)->name;
}

/* How many ports a task must have at least. */
static unsigned required(const struct dsflow_op *op)
{
    unsigned n = 0;

    for (unsigned i = 0; i < op->nports; i++)
        if (op->ports[i].name != NULL && !op->ports[i].optional)
            n = i + 1;
    return n;
}

void dsf_case_words(const struct dsf_case *c, char *to, size_t size)
{
    size_t at = 0;

    for (unsigned i = 0; i < c->n && at < size; i++)
        if (!is_left_out(c, i))
            at += (size_t)snprintf(to + at, size - at, "%s%s %lld %s",
                                   at > 0 ? ", " : "", name_of(c, i),
                                   (long long)c->shapes[i].elems,
                                   dsflow_dtype_str(c->shapes[i].dtype));
    if (at < size)
        snprintf(to + at, size - at, "; --seed %llu --cases 1",
                 (unsigned long long)c->seed);
}

static void garbage(void *to, size_t bytes, enum garbage what)
{
    unsigned char *p = to;
    uint64_t state = bytes;

    memset(p, 0xff, bytes);
    for (size_t i = 0; i + 8 <= bytes && what == RANDOM_BYTES; i += 8) {
        uint64_t x = dsf_random(&state);

        memcpy(p + i, &x, 8);
    }
    for (size_t i = bytes / 8 * 8; i < bytes && what == RANDOM_BYTES; i++)
        p[i] = 0x3b;
}

void dsf_case_fill(uint64_t seed, unsigned port, float *v, size_t n)
{
    uint64_t state = seed * 256 + port;

    for (size_t i = 0; i < n; i++)
        v[i] = (float)dsf_random_normal(&state);
}

static void fill_port(struct dsf_case *c, unsigned i)
{
    const struct dsflow_trials *t = c->trials;
    const struct dsflow_shape *s = &c->shapes[i];
    void *v = c->before[i] = dsf_xcalloc(1, s->bytes + 1);
    uint64_t state = c->seed + i;

    if (t->fill != NULL && t->fill(c->op, c->seed, i, v, s->elems, c->args))
        return;
    if (s->dtype == DSFLOW_FP32)
        dsf_case_fill(c->seed, i, v, (size_t)s->elems);
    for (int64_t k = 0; k < s->elems; k++)
        switch (s->dtype) {
        case DSFLOW_FP64:
            ((double *)v)[k] = dsf_random_normal(&state);
            break;
        case DSFLOW_BF16:
            ((uint16_t *)v)[k] = dsf_to_bf16((float)dsf_random_normal(&state));
            break;
        case DSFLOW_FP16:
            ((uint16_t *)v)[k] = dsf_to_fp16((float)dsf_random_normal(&state));
            break;
        default: /* zeroes: who has others fills them */
            break;
        }
}

struct dsflow_case dsf_case_of(const struct dsf_case *c,
                               const struct dsflow_op *op)
{
    return (struct dsflow_case){ op, c->shapes, c->n, c->args };
}

void dsf_case_make(struct dsf_case *c, const struct dsflow_op *op,
                   const struct dsflow_trials *trials, uint64_t seed)
{
    struct dsflow_err err = { .msg = "" };
    struct dsflow_case seen;
    char where[64];

    *c = (struct dsf_case){ .seed = seed, .trials = trials, .op = op };
    snprintf(where, sizeof(where), "--seed %llu --cases 1",
             (unsigned long long)seed);
    dsf_child_step("its trials: ", where);
    c->args = dsf_xcalloc(1, op->args_size + 1);
    if (trials->make(op, seed, c->shapes, &c->n, c->args, &c->fresh) < 0) {
        c->n = 0; /* none of this seed */
        return;
    }
    if (c->n < required(op) ||
        c->n > (op->repeats ? DSFLOW_TRIAL_PORTS : op->nports))
        dsf_child_fault("a case has %u ports: expected %u", c->n, op->nports);
    seen = dsf_case_of(c, op);
    if (op->check != NULL && op->check(&seen, &err) < 0)
        dsf_child_fault("the op's check refuses a case: %s", err.msg);
    for (unsigned i = 0; i < c->n; i++)
        if (access_of(c, i) != DSFLOW_W)
            fill_port(c, i);
}

void dsf_case_free(struct dsf_case *c)
{
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(c->before[i]);
    free(c->args);
}

void dsf_left_free(struct dsf_left *l)
{
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(l->v[i]);
}

/* Memory of a call: its ports, its arguments, its scratch. */
struct memory {
    struct dsf_guarded v[DSFLOW_TRIAL_PORTS + 2];
    char names[DSFLOW_TRIAL_PORTS][48];
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_call call;
    unsigned n;
};

static void guard(struct dsf_guarded *g, const char *name,
                  enum dsflow_access access, size_t bytes, bool at_end)
{
    if (!dsf_guarded_init(g, name, access, bytes, at_end))
        dsf_child_fault("cannot be tried: %zu bytes of memory are missing",
                        bytes);
}

static void put_ports(struct memory *m, const struct dsf_case *c,
                      const struct way *way)
{
    for (unsigned i = 0; i < c->n; i++) {
        struct dsf_guarded *g = &m->v[i];
        bool random = way->random_ports >> i & 1;

        snprintf(m->names[i], sizeof(m->names[i]), "port %s", name_of(c, i));
        guard(g, m->names[i], access_of(c, i), c->shapes[i].bytes,
              way->at_end);
        if (c->before[i] != NULL)
            memcpy(g->ptr, c->before[i], c->shapes[i].bytes);
        else
            garbage(g->ptr, g->bytes, random ? RANDOM_BYTES : NAN_BYTES);
        dsf_guarded_close(g);
        m->bufs[i] = (struct dsflow_buf){ is_left_out(c, i) ? NULL : g->ptr,
                                          g->bytes, c->shapes[i].elems,
                                          c->shapes[i].dtype };
    }
}

static void prepare(struct memory *m, const struct dsf_case *c,
                    const struct dsflow_op *op, const struct way *way)
{
    static const struct dsflow_host nobody;
    struct dsflow_case seen = dsf_case_of(c, op);
    size_t bytes = op->scratch == NULL ? 0 : op->scratch(&seen);
    struct dsf_guarded *args = &m->v[c->n], *scratch = &m->v[c->n + 1];

    put_ports(m, c, way);
    guard(args, "its arguments", DSFLOW_R, c->op->args_size,
          way->at_end);
    memcpy(args->ptr, c->args, c->op->args_size);
    dsf_guarded_close(args);
    guard(scratch, "its scratch", DSFLOW_W, bytes, way->at_end);
    garbage(scratch->ptr, bytes, way->scratch);
    m->n = c->n + 2;
    m->call = (struct dsflow_call){ .bufs = m->bufs,
                                    .nbufs = c->n,
                                    .args = args->ptr,
                                    .fresh = c->fresh,
                                    .scratch = bytes > 0 ? scratch->ptr : NULL,
                                    .host = &nobody };
    dsf_child_memory(m->v, m->n);
}

static void release(struct memory *m)
{
    dsf_child_memory(NULL, 0);
    for (unsigned i = 0; i < m->n; i++)
        dsf_guarded_fini(&m->v[i]);
}

struct on_thread {
    dsflow_cpu_fn cpu;
    const struct dsflow_call *call;
};

static void *call_it(void *user)
{
    const struct on_thread *t = user;

    t->cpu(t->call);
    return NULL;
}

static void run(const struct dsf_case *c, const struct dsf_computes *what,
                const struct way *way, struct dsf_left *left)
{
    struct memory m;
    struct on_thread t = { what->cpu, &m.call };
    pthread_t thread;

    prepare(&m, c, what->op, way);
    if (way->on_thread && pthread_create(&thread, NULL, call_it, &t) == 0)
        pthread_join(thread, NULL);
    else
        what->cpu(&m.call);
    for (unsigned i = 0; i < m.n; i++) {
        long spill = dsf_guarded_spill(&m.v[i]);

        if (spill > 0)
            dsf_child_fault("writes %ld bytes past the end of %s", spill,
                            m.v[i].name);
        if (spill < 0)
            dsf_child_fault("writes %ld bytes before the beginning of %s",
                            -spill, m.v[i].name);
    }
    *left = (struct dsf_left){ { NULL } };
    for (unsigned i = 0; i < c->n; i++)
        if (access_of(c, i) != DSFLOW_R) {
            left->v[i] = dsf_xcalloc(1, c->shapes[i].bytes + 1);
            memcpy(left->v[i], m.bufs[i].ptr, c->shapes[i].bytes);
        }
    release(&m);
}

void dsf_case_run(const struct dsf_case *c, const struct dsf_computes *what,
                  struct dsf_left *left)
{
    run(c, what, &(struct way){ .at_end = true }, left);
}

/* Element `e` of a port; of structures and packed numbers, byte `e`. */
static double number(const struct dsf_case *c, const void *v, unsigned port,
                     size_t e)
{
    switch (c->shapes[port].dtype) {
    case DSFLOW_FP32:
        return (double)((const float *)v)[e];
    case DSFLOW_BF16:
        return (double)dsf_from_bf16(((const uint16_t *)v)[e]);
    case DSFLOW_FP16:
        return (double)dsf_from_fp16(((const uint16_t *)v)[e]);
    case DSFLOW_FP64:
        return ((const double *)v)[e];
    case DSFLOW_INT32:
        return ((const int32_t *)v)[e];
    case DSFLOW_INT64:
        return (double)((const int64_t *)v)[e];
    default:
        return ((const unsigned char *)v)[e];
    }
}

static size_t width(const struct dsf_case *c, unsigned port)
{
    enum dsflow_dtype dtype = c->shapes[port].dtype;

    return dtype == DSFLOW_INT8_BLOCK ? 1 : dsflow_dtype_bytes(dtype, 1);
}

/* The first element that is not the same, bit by bit; or `n`. */
static size_t first_other(const struct dsf_case *c, unsigned port,
                          const void *a, const void *b, size_t n)
{
    size_t w = width(c, port);

    for (size_t e = 0; e < n; e++)
        if (memcmp((const char *)a + e * w, (const char *)b + e * w, w) != 0)
            return e;
    return n;
}

static size_t count(const struct dsf_case *c, unsigned port)
{
    return c->shapes[port].bytes / width(c, port);
}

/* Run it another way: every bit must be the same as in `first`; or what
 * `says` says is wrong. */
static void run_same(const struct dsf_case *c, const struct dsf_computes *what,
                     const struct way *way, const struct dsf_left *first,
                     const char *says)
{
    struct dsf_left other;

    run(c, what, way, &other);
    for (unsigned i = 0; i < c->n; i++) {
        size_t n = count(c, i), e;

        if (other.v[i] == NULL)
            continue;
        e = first_other(c, i, first->v[i], other.v[i], n);
        if (e < n)
            dsf_child_fault("%s: port %s, element %zu: %.9g, then %.9g", says,
                            name_of(c, i), e, number(c, first->v[i], i, e),
                            number(c, other.v[i], i, e));
    }
    dsf_left_free(&other);
}

/* With other garbage in port `p`, which it only writes, nothing changes but
 * what it never writes: those elements are marked in `untouched`. */
static void try_garbage(const struct dsf_case *c,
                        const struct dsf_computes *what, unsigned p,
                        const struct dsf_left *first, unsigned char **untouched)
{
    struct way way = { .at_end = true, .random_ports = 1u << p };
    unsigned char *held = dsf_xcalloc(1, c->shapes[p].bytes + 1);
    struct dsf_left other;

    garbage(held, c->shapes[p].bytes, RANDOM_BYTES);
    run(c, what, &way, &other);
    for (unsigned i = 0; i < c->n; i++) {
        size_t n = count(c, i), w = width(c, i);

        for (size_t e = 0; e < n && other.v[i] != NULL; e++) {
            const char *a = (const char *)first->v[i] + e * w;
            const char *b = (const char *)other.v[i] + e * w;

            if (memcmp(a, b, w) == 0)
                continue;
            if (i != p || memcmp(b, held + e * w, w) != 0)
                dsf_child_fault("depends on what port %s held before, which %s",
                                name_of(c, p),
                                c->fresh >> p & 1 ? "is fresh in this case"
                                                  : "it declares as W");
            untouched[p][e] = 1;
        }
    }
    dsf_left_free(&other);
    free(held);
}

static bool finite_before(const struct dsf_case *c)
{
    for (unsigned i = 0; i < c->n; i++)
        for (size_t e = 0; c->before[i] != NULL && e < count(c, i); e++)
            if (!isfinite(number(c, c->before[i], i, e)))
                return false;
    return true;
}

/* Finite numbers, and those of the reference. */
static void compare(const struct dsf_case *c, const struct dsf_left *left,
                    unsigned char *const *untouched,
                    const struct dsf_left *expected,
                    unsigned char *const *reference_untouched)
{
    double tolerance = c->trials->tolerance > 0 ? c->trials->tolerance : 1e-4;
    bool finite = finite_before(c);

    for (unsigned i = 0; i < c->n; i++) {
        for (size_t e = 0; left->v[i] != NULL && e < count(c, i); e++) {
            double a = number(c, left->v[i], i, e), b;
            const char *name = name_of(c, i);

            if (untouched[i][e]) {
                if (expected == NULL || !reference_untouched[i][e])
                    dsf_child_fault("does not write port %s, element %zu", name,
                                    e);
                continue;
            }
            if (finite && !isfinite(a))
                dsf_child_fault("returns %s in port %s, element %zu",
                                isnan(a) ? "NaN" : "infinity", name, e);
            if (expected == NULL || reference_untouched[i][e])
                continue;
            b = number(c, expected->v[i], i, e);
            if (!(fabs(a - b) <= tolerance * (1 + fabs(b))) && !(a == b))
                dsf_child_fault("differs from its reference in port %s, "
                                "element %zu: %.9g, expected %.9g",
                                name, e, a, b);
        }
    }
}

/* Run twice, and once more with other garbage in each port that is only
 * written. */
static void run_with_garbage(const struct dsf_case *c,
                             const struct dsf_computes *what,
                             struct dsf_left *first, unsigned char **untouched)
{
    static const struct way plain = { .at_end = true };

    run(c, what, &plain, first);
    run_same(c, what, &plain, first, "is not the same twice");
    for (unsigned i = 0; i < c->n; i++) {
        untouched[i] = dsf_xcalloc(1, c->shapes[i].bytes + 1);
        if (c->before[i] == NULL)
            try_garbage(c, what, i, first, untouched);
    }
}

void dsf_case_try(const struct dsf_case *c, const struct dsf_computes *codelet,
                  const struct dsf_computes *reference)
{
    unsigned char *untouched[DSFLOW_TRIAL_PORTS] = { NULL };
    unsigned char *by_reference[DSFLOW_TRIAL_PORTS] = { NULL };
    struct dsf_left first, expected = { { NULL } };
    char where[256];

    dsf_case_words(c, where, sizeof(where));
    dsf_child_step("", where);
    run_with_garbage(c, codelet, &first, untouched);
    run_same(c, codelet,
             &(struct way){ .at_end = true, .scratch = RANDOM_BYTES }, &first,
             "depends on what its scratch held before");
    run_same(c, codelet, &(struct way){ .on_thread = true }, &first,
             "differs at other addresses, on another thread");
    if (reference->cpu != NULL) {
        dsf_child_step("its reference ", where);
        run_with_garbage(c, reference, &expected, by_reference);
        dsf_child_step("", where);
    }
    compare(c, &first, untouched, reference->cpu != NULL ? &expected : NULL,
            by_reference);
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++) {
        free(untouched[i]);
        free(by_reference[i]);
    }
    dsf_left_free(&first);
    dsf_left_free(&expected);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of some runs. What a port holds is renewed before each: numbers
 * that are added to again and again would grow. */
double dsf_case_time(const struct dsf_case *c, const struct dsf_computes *what)
{
    static const struct way plain = { .at_end = true };
    enum { MOST = 101 };
    double v[MOST], begin = dsf_now();
    struct memory m;
    unsigned n = 0;

    prepare(&m, c, what->op, &plain);
    while (n < 5 || (n < MOST && dsf_now() - begin < 0.05)) {
        double start;

        for (unsigned i = 0; i < c->n; i++)
            if (c->before[i] != NULL && access_of(c, i) != DSFLOW_R)
                memcpy(m.bufs[i].ptr, c->before[i], c->shapes[i].bytes);
        start = dsf_now();
        what->cpu(&m.call);
        v[n++] = dsf_now() - start;
    }
    release(&m);
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

struct dsflow_cost dsf_case_cost(const struct dsf_case *c,
                                 const struct dsflow_op *op)
{
    struct dsflow_case seen = dsf_case_of(c, op);
    struct dsflow_cost cost = { 0 };

    if (op->cost != NULL)
        op->cost(&seen, &cost);
    for (unsigned i = 0; op->cost == NULL && i < c->n; i++)
        cost.bytes +=
            (double)c->shapes[i].bytes * (access_of(c, i) == DSFLOW_RW ? 2 : 1);
    return cost;
}

static void no_case(const struct dsf_verify_options *how)
{
    char where[64];

    snprintf(where, sizeof(where), "--seed %llu --cases %u",
             (unsigned long long)how->seed, how->cases);
    dsf_child_step("its trials: ", where);
    dsf_child_fault("none of %u seeds gives a case", how->cases);
}

void dsf_try_codelet(const struct dsf_computes *codelet,
                     const struct dsf_computes *reference,
                     const struct dsflow_trials *trials,
                     const struct dsf_verify_options *how, struct dsf_verdict *verdict)
{
    uint64_t largest = how->seed;
    const struct dsflow_op *costs =
        codelet->op->cost == NULL && reference->op != NULL ? reference->op
                                                           : codelet->op;
    double most = -1;
    struct dsf_case c;

    for (unsigned i = 0; i < how->cases; i++) {
        dsf_case_make(&c, codelet->op, trials, how->seed + i);
        if (c.n > 0) {
            struct dsflow_cost cost = dsf_case_cost(&c, costs);

            dsf_child_step("", NULL);
            if (!(cost.flops >= 0 && cost.bytes >= 0))
                dsf_child_fault("the op's cost: %g operations, %g bytes",
                                cost.flops, cost.bytes);
            dsf_case_try(&c, codelet, reference);
            verdict->cases++;
            if (cost.flops + cost.bytes > most) {
                most = cost.flops + cost.bytes;
                largest = c.seed;
            }
        }
        dsf_case_free(&c);
    }
    if (verdict->cases == 0)
        no_case(how);
    dsf_case_make(&c, codelet->op, trials, largest);
    dsf_child_step("", NULL);
    verdict->flops = dsf_case_cost(&c, costs).flops;
    verdict->bytes = dsf_case_cost(&c, costs).bytes;
    verdict->seconds = dsf_case_time(&c, codelet);
    if (reference->cpu != NULL)
        verdict->reference = dsf_case_time(&c, reference);
    dsf_case_free(&c);
}
