/* asked.c - which tasks of the plain step one of several processes asks for.
 *
 * A process runs the tasks of the stages and replicas that it has ranks of, and
 * those of the units that are there: the replicas share these out between them.
 * It also asks for tasks of others where messages go to or come from: those
 * that read what its own write, and those that write what its own read. What
 * else the others do is left out, so that a process is as large as what it
 * runs.
 *
 * All pieces of a stage and a replica, of tensor ranks, are asked for together.
 */
#include "policies/asked.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "policies/keys.h"

#include <dsflow/rewrite.h>
#include <stdlib.h>

/* Tasks + 1: the last that wrote a piece of data anew, and that wrote it. */
struct writers {
    uint32_t anew, last;
};

struct finding {
    const struct dsflow_plan *plan;
    const struct dsflow_graph *g;
    struct dsf_asked *asked;
    bool first;              /* it has rank 0, */
    bool *here;              /* [stages][replicas]: a rank of these */
    bool *stages;            /* [stages]: of any replica */
    uint8_t *own;            /* by task */
    struct writers *writers; /* by data and lane */
};

static int32_t stage_of_unit(const struct finding *f, int32_t unit)
{
    return dsflow_plan_stage_of(f->plan, f->plan->model->units[unit].layer);
}

static bool *here_at(const struct finding *f, int32_t stage, int32_t replica)
{
    return &f->here[stage * f->plan->nreplicas + replica];
}

/* Does it do any of what follows the gradients of the unit? Rank 0 adds up the
 * squares of all. A tied head has gradients of the embedding. */
static bool follows(const struct finding *f, int32_t unit)
{
    const struct dsf_model *model = f->plan->model;

    return f->first || f->stages[stage_of_unit(f, unit)] ||
           (model->tied && unit == 0 &&
            f->stages[dsflow_plan_stage_of(f->plan, model->layers)]);
}

static int32_t lane_of(const struct finding *f,
                       const struct dsflow_task_spec *t)
{
    return t->microbatch < 0 ? f->asked->nlanes - 1
                             : f->asked->lanes[t->microbatch];
}

/* What follows the gradients is of a unit, also where it stands with a
 * micro-batch: tensor ranks do all of it together. What has none stands where
 * its layer is, if it has one. */
static bool is_own(const struct finding *f, const struct dsflow_task_spec *t)
{
    int32_t stage;

    if (t->microbatch >= 0 && t->pass != DSFLOW_UPDATE)
        return *here_at(f, dsflow_plan_stage_of(f->plan, t->layer),
                        lane_of(f, t));
    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t unit = dsflow_graph_data(f->g, t->data[i])->unit;

        if (unit >= 0)
            return follows(f, unit);
    }
    stage = dsflow_plan_stage_of(f->plan, t->layer);
    return t->microbatch >= 0 ? *here_at(f, stage, lane_of(f, t))
                              : f->first || (t->layer >= 0 && f->stages[stage]);
}

/* Parameters and gradients are where their unit is, whoever uses them. */
static bool uses_unit(const struct finding *f, const struct dsflow_task_spec *t,
                      unsigned i)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(f->g, t->data[i]);
    int32_t stage = stage_of_unit(f, d->unit);

    if (d->role == DSFLOW_GRADS) /* that is where it is first written */
        return dsflow_task_access(t, i) == DSFLOW_W && follows(f, d->unit);
    if (t->microbatch < 0)
        return false;
    return dsf_zero_stage(f->plan->job) == 3
               ? f->stages[stage]
               : *here_at(f, stage, lane_of(f, t));
}

static void ask_writer(struct finding *f, uint32_t writer)
{
    if (writer > 0)
        f->asked->tasks[writer - 1] = 1;
}

static void follow_data(struct finding *f, uint32_t task,
                        const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(f->g, t->data[i]);
    int32_t all = f->asked->nlanes - 1;
    struct writers *of =
        &f->writers[(size_t)t->data[i].i * (size_t)f->asked->nlanes];
    int32_t lane = d->persistent ? all : lane_of(f, t);
    enum dsflow_access access = dsflow_task_access(t, i);
    uint32_t last = of[lane].last;
    /* What is there from the start is with rank 0. */
    bool wrote =
        last > 0 ? f->own[last - 1] : f->first && d->persistent && !d->constant;

    if (access != DSFLOW_W && f->own[task]) {
        ask_writer(f, of[lane].anew);
        ask_writer(f, of[lane].last);
    } else if (access != DSFLOW_W) {
        f->asked->tasks[task] |= wrote;
    }
    if (access == DSFLOW_W)
        of[lane].anew = of[all].anew = task + 1;
    if (access & DSFLOW_W)
        of[lane].last = of[all].last = task + 1;
}

static void find_places(struct finding *f, const struct dsf_processes *all,
                        int32_t p)
{
    const struct dsf_mesh *mesh = &f->plan->mesh;
    int32_t end = dsf_process_first(all, p + 1);

    for (int32_t r = dsf_process_first(all, p); r < end; r++) {
        int32_t stage = dsf_mesh_at(mesh, r, DSF_AXIS_PIPELINE);

        f->first |= r == 0;
        f->stages[stage] = true;
        *here_at(f, stage, dsf_mesh_at(mesh, r, DSF_AXIS_DATA)) = true;
    }
}

static int32_t *find_lanes(const struct dsflow_plan *plan)
{
    int32_t *lanes = dsf_xcalloc((size_t)plan->nmicro, sizeof(*lanes));

    for (int32_t m = 0; m < plan->nmicro; m++)
        lanes[m] = dsflow_plan_replica_of(plan, m);
    return lanes;
}

void dsf_asked_find(const struct dsflow_plan *plan,
                    const struct dsf_processes *all, int32_t p,
                    const struct dsflow_graph *g, struct dsf_asked *asked)
{
    uint32_t n = dsflow_graph_ntasks(g), ndata = dsflow_graph_ndata(g);
    struct finding f = { .plan = plan, .g = g, .asked = asked };
    const struct dsflow_task_spec *t;

    *asked = (struct dsf_asked){ .tasks = dsf_xcalloc(n + 1, 1),
                                 .lanes = find_lanes(plan),
                                 .nlanes = plan->nreplicas + 1 };
    f.here =
        dsf_xcalloc((size_t)(plan->nstages * plan->nreplicas), sizeof(*f.here));
    f.stages = dsf_xcalloc((size_t)plan->nstages, sizeof(*f.stages));
    f.own = dsf_xcalloc(n + 1, 1);
    f.writers = dsf_xcalloc((size_t)ndata * (size_t)asked->nlanes + 1,
                            sizeof(*f.writers));
    find_places(&f, all, p);
    for (uint32_t i = 0; (t = dsf_nth_task(g, i)) != NULL; i++) {
        f.own[i] = is_own(&f, t);
        asked->tasks[i] |= f.own[i];
        for (unsigned k = 0; k < t->ndata; k++)
            if (dsflow_graph_data(g, t->data[k])->unit >= 0)
                asked->tasks[i] |= uses_unit(&f, t, k);
            else
                follow_data(&f, i, t, k);
    }
    free(f.here);
    free(f.stages);
    free(f.own);
    free(f.writers);
}

void dsf_asked_copy(struct dsflow_graph *in, struct dsflow_graph *out)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        dsf_asked_follow(out, i);
        dsflow_rewrite_task(&rw, t);
    }
    dsflow_rewrite_end(&rw);
}
