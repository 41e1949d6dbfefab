/* planned.c - a job planned for a machine. */
#include "train/planned.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "machine/memory.h"
#include "measure/disks.h"
#include "measure/machine_cache.h"
#include "policies/policies.h"
#include "train/early.h"
#include "train/machine_keys.h"
#include "tune/budget.h"

#include <string.h>

int dsf_planned_until(const char *until, struct dsflow_err *err)
{
    const struct dsflow_policy *policy;
    char known[512] = "";

    if (until == NULL || dsflow_policy_find(until) != NULL)
        return DSFLOW_OK;
    for (unsigned i = 0; (policy = dsflow_policy_at(i)) != NULL; i++) {
        size_t n = strlen(known);

        snprintf(known + n, sizeof(known) - n, "%s%s", i > 0 ? ", " : "",
                 policy->name);
    }
    return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: expected one of %s", until,
                       known);
}

/* What can be known before anything is measured or built; `available`: memory
 * of this machine, in which the graph is. */
static int check_early(const struct dsf_session *s, int64_t available,
                       struct dsflow_err *err)
{
    struct dsflow_err text;

    if (dsf_early_check_text(s, &text) == DSFLOW_EFIT)
        dsf_warn("%s", text.msg);
    return dsf_early_check_size(s, available, err);
}

/* As many processes as are wanted, on its nodes. */
static int divide(struct dsf_planned *p, struct dsflow_err *err)
{
    struct dsf_machine *m = &p->s.machine;

    if (p->processes == 0)
        return DSFLOW_OK;
    if (m->nodes == 0) {
        m->nodes = 1;
        m->node_cores = m->cores;
    }
    if ((unsigned)p->processes < m->nodes)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--processes: %d: expected one at least for each of "
                           "%u nodes",
                           (int)p->processes, m->nodes);
    m->processes = (unsigned)p->processes;
    return DSFLOW_OK;
}

static int check_division(const struct dsf_planned *p, struct dsflow_err *err)
{
    const struct dsflow_plan *plan = p->s.plan;

    if (p->processes == 0)
        return DSFLOW_OK;
    if (dsf_plan_has_gpus(plan) || p->s.job->machine.virtuals > 0)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "--processes: the ranks are on devices: expected "
                           "cores, as messages between devices are not "
                           "predicted");
    if (p->processes > plan->nranks)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: mesh: %d rank%s: expected one at least for "
                           "each of %d processes",
                           p->s.job->path, (int)plan->nranks,
                           plan->nranks == 1 ? "" : "s", (int)p->processes);
    return DSFLOW_OK;
}

static int find_this_machine(struct dsf_planned *p, bool predict,
                             struct dsflow_err *err)
{
    struct dsf_session *s = &p->s;
    int status = dsf_machine_probe(&s->machine, err);

    p->machine = &p->own;
    if (status == DSFLOW_OK)
        status = divide(p, err);
    if (status == DSFLOW_OK)
        dsf_machine_keys_warn(s->job, &s->machine);
    if (status == DSFLOW_OK)
        status =
            dsf_machine_keys_find_gpus(s->job, 1, &s->machine, &s->model, err);
    if (status == DSFLOW_OK)
        status = dsf_disks_check(s->job, err);
    if (status == DSFLOW_OK)
        status = check_early(s, s->machine.available, err);
    if (status == DSFLOW_OK && (predict || dsf_fit_is_timed(s->job)))
        status = dsf_machine_of_job(&s->machine, s->job, &p->own, err);
    if (status == DSFLOW_OK && predict && s->machine.gpus > 0 &&
        p->own.main.kind != DSF_MACHINE_GPU)
        dsf_warn("times are those of cores: dsflow bench gpu measures the GPUs "
                 "of this machine (--machine FILE describes others)");
    return status;
}

int dsf_planned_make(struct dsf_planned *p,
                     const struct dsf_machine_model *described,
                     const char *until, bool predict, struct dsflow_err *err)
{
    int status;

    p->whole = until == NULL;
    if (described != NULL) {
        p->machine = described;
        dsf_machine_of_model(described, &p->s.machine);
        dsf_machine_keys_warn_of_model(p->s.job, described);
        status = divide(p, err);
        if (status == DSFLOW_OK)
            status = check_early(&p->s, dsf_memory_probe("").available, err);
    } else {
        status = find_this_machine(p, predict, err);
    }
    if (status == DSFLOW_OK)
        status = dsf_session_fit(&p->s, p->machine, until, err);
    if (status == DSFLOW_OK && p->machine != &p->own) {
        /* As what fits was found, and not as on the present machine. */
        p->s.weights = dsf_xcalloc(1, sizeof(*p->s.weights));
        dsf_fit_weigh(p->s.plan, p->s.graph, p->machine, p->s.weights);
    }
    return status == DSFLOW_OK ? check_division(p, err) : status;
}

/* Is there room on virtual devices for what their ranks have there? */
static int check_virtuals(struct dsf_session *s, struct dsflow_err *err)
{
    const struct dsf_job_machine *m = &s->job->machine;
    const struct dsf_weights *w = dsf_session_weights(s);

    for (unsigned d = 0; d < m->virtuals && m->virtual_memory >= 0; d++) {
        double has = (double)m->virtual_memory, left = has;

        for (unsigned r = d; r < w->nranks; r += (unsigned)m->virtuals) {
            double needs = w->ranks[r].peak;

            if (needs > left)
                return dsf_job_fail(
                    s->job, err, DSFLOW_EFIT, "machine", "virtual_memory",
                    "device %u: %s for the tensors of rank %u: %s of %s are "
                    "free",
                    d, dsf_size_text(needs).s, r, dsf_size_text(left).s,
                    dsf_size_text(has).s);
            left -= needs;
        }
    }
    return DSFLOW_OK;
}

int dsf_planned_check(struct dsf_planned *p, struct dsflow_err *err)
{
    struct dsf_setup setup = dsf_session_setup(&p->s);

    if (!dsf_fit_is_gpu(p->machine) && check_virtuals(&p->s, err) < 0)
        return DSFLOW_EFIT;
    return p->machine == &p->own
               ? dsf_session_check_memory(&p->s, err)
               : dsf_fit_check(&setup, p->machine, dsf_session_weights(&p->s),
                               err);
}

void dsf_planned_close(struct dsf_planned *p)
{
    dsf_session_close(&p->s);
    dsf_machine_model_fini(&p->own);
}
