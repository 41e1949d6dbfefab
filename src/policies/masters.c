/* masters.c - a master for the optimizer, and a copy for all that computes. */
#include "policies/masters.h"

#include "base/alloc.h"
#include "model/parts.h"
#include "plan/programs.h"
#include "policies/policies.h"
#include "tasks/tasks.h"

#include <stdlib.h>

static const struct dsflow_data_spec *spec_of(const struct dsf_masters *m,
                                              dsflow_data_id id)
{
    return dsflow_graph_data(m->rw.in, id);
}

struct dsf_masters_numbers dsf_masters_numbers(const struct dsflow_plan *plan,
                                               const struct dsflow_data_spec *d)
{
    const struct dsf_unit *unit = &plan->model->units[d->unit];
    struct dsf_part part;

    if (plan->nparts < 2)
        return (struct dsf_masters_numbers){ unit->block, unit->decay };
    dsf_part_init(&part, plan->model, plan->nparts, (unsigned)d->unit, d->part);
    return (struct dsf_masters_numbers){ part.block, part.decay };
}

/* Parameters that the optimizer works on: those of a step in fp32, or masters.
 */
static bool is_param(const struct dsflow_data_spec *d)
{
    return d->unit >= 0 && d->persistent && d->dtype == DSFLOW_FP32 &&
           d->kept == 1 + DSF_KEPT_PARAM;
}

static void find_params(struct dsf_masters *m)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(m->rw.in, i)) != NULL; i++)
        m->wanted[i] = is_param(d) && m->wants(m, d);
}

/* Is it one that has no master yet? */
static bool gets_master(const struct dsf_masters *m, dsflow_data_id id)
{
    return m->wanted[id.i] && spec_of(m, id)->role == DSFLOW_PARAMS;
}

static dsflow_data_id data(struct dsf_masters *m, dsflow_data_id id)
{
    struct dsflow_data_spec spec = *spec_of(m, id);

    if (gets_master(m, id) && !m->rw.copied[id.i]) {
        spec.role = DSFLOW_STATES;
        m->rw.copied[id.i] = 1;
        m->rw.copy[id.i] = dsflow_graph_add_data(m->rw.out, &spec);
    }
    return dsflow_rewrite_data(&m->rw, id);
}

static dsflow_data_id copy_of(struct dsf_masters *m, dsflow_data_id id)
{
    struct dsflow_data_spec spec = *spec_of(m, id);

    if (!dsf_is_data(m->copies[id.i])) {
        spec.kept = 0;
        m->copies[id.i] = dsflow_rewrite_named(m->rw.out, &spec, "%s.%s",
                                               spec.name, m->suffix);
    }
    return m->copies[id.i];
}

/* What works on a unit number by number has the master, others the copy. */
static dsflow_data_id port(void *masters, const struct dsflow_task_spec *t,
                           unsigned i)
{
    struct dsf_masters *m = masters;

    return gets_master(m, t->data[i]) && dsf_task_unit_port(m->rw.in, t) < 0
               ? copy_of(m, t->data[i])
               : data(m, t->data[i]);
}

static void write_copy(struct dsf_masters *m,
                       const struct dsflow_task_spec *like, dsflow_data_id id,
                       dsflow_data_id copy)
{
    m->write(m, like, spec_of(m, id), data(m, id), copy);
}

static void rewrite_task(struct dsf_masters *m,
                         const struct dsflow_task_spec *t)
{
    if (t->op == &dsf_op_cast && m->wanted[t->data[0].i]) {
        write_copy(m, t, t->data[0], dsflow_rewrite_data(&m->rw, t->data[1]));
        return;
    }
    dsf_add_mapped(m->rw.out, t, port, m);
    for (unsigned i = 0; i < t->ndata; i++)
        if (gets_master(m, t->data[i]) && dsflow_task_access(t, i) & DSFLOW_W)
            write_copy(m, t, t->data[i], copy_of(m, t->data[i]));
}

/* What gets its master here, in the order of units and their parts, which is
 * that of the casts in `prepare`: those of another process may get theirs here,
 * where it leaves out who would use a copy in another type, and messages have
 * to go in the order of the whole graph. */
struct fresh {
    uint32_t id;
    const struct dsflow_data_spec *d;
};

static int compare(const void *left, const void *right)
{
    const struct dsflow_data_spec *a = ((const struct fresh *)left)->d;
    const struct dsflow_data_spec *b = ((const struct fresh *)right)->d;

    return a->unit != b->unit ? (a->unit > b->unit) - (a->unit < b->unit)
                              : (a->part > b->part) - (a->part < b->part);
}

static uint32_t find_fresh(const struct dsf_masters *m, struct fresh *v)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(m->rw.in); i++)
        if (gets_master(m, (dsflow_data_id){ i }))
            v[n++] = (struct fresh){ i, spec_of(m, (dsflow_data_id){ i }) };
    qsort(v, n, sizeof(*v), compare);
    return n;
}

/* The copies of those of `v` that come before `next`, or all: NULL. */
static uint32_t add_prepare(struct dsf_masters *m, const struct fresh *v,
                            uint32_t n, const struct fresh *next)
{
    struct dsflow_task_spec like =
        DSFLOW_TASK(.microbatch = -1, .tile = -1, .pass = DSFLOW_UPDATE,
                    .program = m->prepare);
    uint32_t i = 0;

    for (; i < n && (next == NULL || compare(&v[i], next) < 0); i++) {
        const dsflow_data_id id = { v[i].id };

        like.layer = (int16_t)m->plan->model->units[v[i].d->unit].layer;
        write_copy(m, &like, id, copy_of(m, id));
    }
    return i;
}

static void rewrite_all(struct dsf_masters *m)
{
    struct fresh *fresh =
        dsf_xcalloc((size_t)dsflow_graph_ndata(m->rw.in) + 1, sizeof(*fresh));
    const uint32_t n = find_fresh(m, fresh);
    const struct dsflow_task_spec *t;
    uint32_t at = 0;

    m->prepare = dsflow_graph_add_program(m->rw.out, DSF_PREPARE);
    for (uint32_t i = 0; (t = dsf_nth_task(m->rw.in, i)) != NULL; i++) {
        if (t->program > m->prepare)
            at += add_prepare(m, fresh + at, n - at, NULL);
        if (t->program == m->prepare && spec_of(m, t->data[0])->unit >= 0)
            at += add_prepare(m, fresh + at, n - at,
                              &(struct fresh){ 0, spec_of(m, t->data[0]) });
        rewrite_task(m, t);
    }
    add_prepare(m, fresh + at, n - at, NULL);
    free(fresh);
}

void dsf_masters_rewrite(struct dsf_masters *m, struct dsflow_graph *in,
                         struct dsflow_graph *out)
{
    uint32_t n = dsflow_graph_ndata(in);

    m->rw = dsflow_rewrite_begin(in, out);
    m->wanted = dsf_xcalloc((size_t)n + 1, sizeof(*m->wanted));
    m->copies = dsf_xcalloc((size_t)n + 1, sizeof(*m->copies));
    for (uint32_t i = 0; i < n; i++)
        m->copies[i] = dsf_no_data();
    find_params(m);
    rewrite_all(m);
    free(m->wanted);
    free(m->copies);
    dsflow_rewrite_end(&m->rw);
}
