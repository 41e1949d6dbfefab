/* copies.c - an axis of the mesh that dsflow does not have: the ranks along
 * `copies` share out nothing, so all do the same, on weights of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <dsflow/plan.h>
#include <dsflow/plugin.h>
#include <dsflow/rewrite.h>

#ifndef ORDER
#define ORDER 5 /* outside of the stages */
#endif
#ifndef REGROUPS
#define REGROUPS 0
#endif

static const struct dsflow_axis axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "copies",
    .summary = "ranks that do what the first of them does",
    .order = ORDER,
    .regroups = REGROUPS,
    .max = 4,
};

struct copies {
    const struct dsflow_plan *plan;
    struct dsflow_rewrite rw; /* of the first copy, which is the step itself */
    dsflow_data_id *copy;     /* by copy and data of the old graph … */
    uint8_t *copied;          /* … where there is one */
};

/* The position of the step and of the text stay one: copies receive them. */
static int is_common(const struct dsflow_data_spec *d)
{
    return d->persistent && d->unit < 0;
}

static int goes_on_once(const struct copies *c,
                        const struct dsflow_task_spec *t)
{
    int writes = 0;

    for (unsigned i = 0; i < t->ndata; i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(c->rw.in, t->data[i]);

        if (dsflow_task_access(t, i) == DSFLOW_R)
            continue;
        writes = 1;
        if (is_common(d))
            return 1;
    }
    return !writes; /* a report */
}

static dsflow_data_id copy_of(struct copies *c, dsflow_data_id id, int32_t at)
{
    struct dsflow_data_spec d = *dsflow_graph_data(c->rw.in, id);
    size_t i = (size_t)at * dsflow_graph_ndata(c->rw.in) + id.i;
    char name[200];

    if (at == 0 || is_common(&d))
        return dsflow_rewrite_data(&c->rw, id);
    if (c->copied[i])
        return c->copy[i];
    snprintf(name, sizeof(name), "%s.copy%d", d.name, (int)at);
    d.name = name;
    if (d.home >= 0)
        d.home = (int16_t)dsflow_plan_peer(c->plan, d.home, "copies", at);
    c->copied[i] = 1;
    return c->copy[i] = dsflow_graph_add_data(c->rw.out, &d);
}

static void emit(struct copies *c, const struct dsflow_task_spec *task,
                 int32_t at)
{
    dsflow_data_id *data = calloc(task->ndata, sizeof(*data));
    struct dsflow_task_spec t = *task;

    for (unsigned i = 0; i < t.ndata; i++)
        data[i] = copy_of(c, t.data[i], at);
    t.data = data;
    t.rank = (int16_t)dsflow_plan_peer(c->plan, t.rank, "copies", at);
    dsflow_graph_add_task(c->rw.out, &t);
    free(data);
}

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    int32_t copies = dsflow_plan_axis(plan, "copies");
    size_t ndata = (size_t)copies * dsflow_graph_ndata(in) + 1;
    struct copies c = { .plan = plan,
                        .rw = dsflow_rewrite_begin(in, out),
                        .copy = calloc(ndata, sizeof(*c.copy)),
                        .copied = calloc(ndata, 1) };

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });
        int32_t times = goes_on_once(&c, t) ? 1 : copies;

        for (int32_t at = 0; at < times; at++)
            emit(&c, t, at);
    }
    dsflow_rewrite_end(&c.rw);
    free(c.copy);
    free(c.copied);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "copies",
    .summary = "what the first copy does, on all of them",
    .after = "collectives",
    .rewrite = rewrite,
};

const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "copies",
    .summary = "an axis of ranks that do the same",
    .axes = (const struct dsflow_axis *const[]){ &axis, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
