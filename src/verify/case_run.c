/* case_run.c - one run of a case, in guarded memory (guarded.h) that held
 * garbage. */
#include "verify/case_run.h"

#include "base/alloc.h"
#include "base/random.h"
#include "verify/child.h"

#include <fenv.h>
#include <float.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dsf_garbage_fill(void *to, size_t bytes, enum dsf_garbage what)
{
    unsigned char *p = to;
    uint64_t state = bytes;

    memset(p, 0xff, bytes);
    for (size_t i = 0; i + 8 <= bytes && what == DSF_RANDOM_BYTES; i += 8) {
        uint64_t x = dsf_random(&state);

        memcpy(p + i, &x, 8);
    }
    for (size_t i = bytes / 8 * 8; i < bytes && what == DSF_RANDOM_BYTES; i++)
        p[i] = 0x3b;
}

void dsf_port_left_free(struct dsf_port_left *l)
{
    for (unsigned i = 0; i < DSFLOW_TRIAL_PORTS; i++)
        free(l->v[i]);
}

static void guard(struct dsf_guarded *g, const char *name,
                  enum dsflow_access access, size_t bytes, bool at_end)
{
    if (!dsf_guarded_init(g, name, access, bytes, at_end))
        dsf_child_fault("cannot be tried: %zu bytes of memory are missing",
                        bytes);
}

static void put_ports(struct dsf_case_memory *m, const struct dsf_case *c,
                      const struct dsf_case_way *way)
{
    for (unsigned i = 0; i < c->n; i++) {
        struct dsf_guarded *g = &m->v[i];
        bool random = way->random_ports >> i & 1;

        snprintf(m->names[i], sizeof(m->names[i]), "port %s",
                 dsf_case_port_name(c, i));
        guard(g, m->names[i], dsf_case_access(c, i), c->shapes[i].bytes,
              way->at_end);
        if (c->before[i] != NULL)
            memcpy(g->ptr, c->before[i], c->shapes[i].bytes);
        else
            dsf_garbage_fill(g->ptr, g->bytes,
                             random ? DSF_RANDOM_BYTES : DSF_NAN_BYTES);
        dsf_guarded_close(g);
        m->bufs[i] =
            (struct dsflow_buf){ dsf_case_lacks(c, i) ? NULL : g->ptr, g->bytes,
                                 c->shapes[i].elems, c->shapes[i].dtype };
    }
}

void dsf_case_memory_init(struct dsf_case_memory *m, const struct dsf_case *c,
                          const struct dsflow_op *op,
                          const struct dsf_case_way *way)
{
    static const struct dsflow_host nobody;
    struct dsflow_case seen = dsf_case_of(c, op);
    size_t bytes = op->scratch == NULL ? 0 : op->scratch(&seen);
    struct dsf_guarded *args = &m->v[c->n], *scratch = &m->v[c->n + 1];

    put_ports(m, c, way);
    guard(args, "its arguments", DSFLOW_R, c->op->args_size, way->at_end);
    memcpy(args->ptr, c->args, c->op->args_size);
    dsf_guarded_close(args);
    guard(scratch, "its scratch", DSFLOW_W, bytes, way->at_end);
    dsf_garbage_fill(scratch->ptr, bytes, way->scratch);
    m->n = c->n + 2;
    m->call = (struct dsflow_call){ .bufs = m->bufs,
                                    .nbufs = c->n,
                                    .args = args->ptr,
                                    .fresh = c->fresh,
                                    .scratch = bytes > 0 ? scratch->ptr : NULL,
                                    .host = &nobody };
    dsf_child_memory(m->v, m->n);
}

void dsf_case_memory_fini(struct dsf_case_memory *m)
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

/* A worker runs other tasks behind this one. */
static void check_rounding(void)
{
    volatile float least = FLT_MIN;

    if (fegetround() != FE_TONEAREST || least / 2 == 0 || fegetexcept() != 0)
        dsf_child_fault("changes how its thread rounds numbers, or traps what "
                        "is none, for all tasks behind it");
}

void dsf_case_run_as(const struct dsf_case *c, const struct dsf_computes *what,
                     const struct dsf_case_way *way, struct dsf_port_left *left)
{
    struct dsf_case_memory m;
    struct on_thread t = { what->cpu, &m.call };
    pthread_t thread;

    dsf_case_memory_init(&m, c, what->op, way);
    if (way->on_thread && pthread_create(&thread, NULL, call_it, &t) == 0)
        pthread_join(thread, NULL);
    else
        what->cpu(&m.call);
    check_rounding();
    for (unsigned i = 0; i < m.n; i++) {
        long spill = dsf_guarded_spill(&m.v[i]);

        if (spill > 0)
            dsf_child_fault("writes %ld bytes past the end of %s", spill,
                            m.v[i].name);
        if (spill < 0)
            dsf_child_fault("writes %ld bytes before the beginning of %s",
                            -spill, m.v[i].name);
    }
    *left = (struct dsf_port_left){ { NULL } };
    for (unsigned i = 0; i < c->n; i++)
        if (dsf_case_access(c, i) != DSFLOW_R) {
            left->v[i] = dsf_xcalloc(1, c->shapes[i].bytes + 1);
            memcpy(left->v[i], m.bufs[i].ptr, c->shapes[i].bytes);
        }
    dsf_case_memory_fini(&m);
}

void dsf_case_run(const struct dsf_case *c, const struct dsf_computes *what,
                  struct dsf_port_left *left)
{
    dsf_case_run_as(c, what, &(struct dsf_case_way){ .at_end = true }, left);
}
