/* optimizers.c - the optimizers there are, and what is asked of each. */
#include "tasks/tasks.h"

#include "base/registry.h"
#include "config/job_tables.h"
#include "tasks/components.h"

#include <string.h>

static void fill(const struct dsflow_optimizer_keys *keys, int decoupled,
                 struct dsf_update_args *args)
{
    args->beta1 = keys->betas[0];
    args->beta2 = keys->betas[1];
    args->eps = (float)keys->eps;
    args->weight_decay = (float)keys->weight_decay;
    args->momentum = (float)keys->momentum;
    args->decoupled = decoupled;
    args->nesterov = keys->nesterov;
}

static int fill_decoupled(const void *part,
                          const struct dsflow_optimizer_keys *keys, void *args,
                          struct dsflow_err *err)
{
    fill(keys, 1, args);
    return DSFLOW_OK;
}

static int fill_plain(const void *part,
                      const struct dsflow_optimizer_keys *keys, void *args,
                      struct dsflow_err *err)
{
    fill(keys, 0, args);
    return DSFLOW_OK;
}

static unsigned sgd_states(const void *part,
                           const struct dsflow_optimizer_keys *keys)
{
    return keys->momentum > 0;
}

static const struct dsflow_optimizer adamw = {
    .abi = DSFLOW_OPTIMIZER_ABI,
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .op = &dsf_op_adam,
    .states = (const char *const[]){ "m", "v", NULL },
    .fill = fill_decoupled,
};

static const struct dsflow_optimizer adam = {
    .abi = DSFLOW_OPTIMIZER_ABI,
    .name = "adam",
    .summary = "Adam, with weight decay as a part of the gradient",
    .op = &dsf_op_adam,
    .states = (const char *const[]){ "m", "v", NULL },
    .fill = fill_plain,
};

static const struct dsflow_optimizer sgd = {
    .abi = DSFLOW_OPTIMIZER_ABI,
    .name = "sgd",
    .summary = "gradient descent, with or without (Nesterov's) momentum",
    .op = &dsf_op_sgd,
    .states = (const char *const[]){ "m", NULL },
    .uses_momentum = 1,
    .nstates = sgd_states,
    .fill = fill_plain,
};

static const struct dsflow_optimizer lion = {
    .abi = DSFLOW_OPTIMIZER_ABI,
    .name = "lion",
    .summary = "Lion: the sign of a mix of gradient and momentum",
    .op = &dsf_op_lion,
    .states = (const char *const[]){ "m", NULL },
    .fill = fill_plain,
};

static const void *const builtin[] = { &adamw, &adam, &sgd, &lion, NULL };

static unsigned count_states(const struct dsflow_optimizer *o)
{
    unsigned n = 0;

    while (o->states != NULL && o->states[n] != NULL)
        n++;
    return n;
}

/* Names of states stand in front of those of units: "m.layer3.qkv". */
static int check_states(const struct dsflow_optimizer *o,
                        struct dsflow_err *err)
{
    unsigned n = count_states(o);

    for (unsigned i = 0; i < n; i++) {
        if (o->states[i][0] == '\0' || strlen(o->states[i]) > 16)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "optimizer %.60s: state \"%.40s\": expected 1 "
                               "to 16 letters",
                               o->name, o->states[i]);
        for (unsigned k = 0; k < i; k++)
            if (strcmp(o->states[i], o->states[k]) == 0)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "optimizer %.60s: state %s is named twice",
                                   o->name, o->states[i]);
    }
    return DSFLOW_OK;
}

static int check_op(const struct dsflow_optimizer *o, struct dsflow_err *err)
{
    static const enum dsflow_access access[] = { DSFLOW_R, DSFLOW_R,
                                                 DSFLOW_RW };
    const struct dsflow_op *op = o->op;
    unsigned n = 3 + count_states(o);

    if (op == NULL || op->name == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "optimizer %.60s: has no kind of task", o->name);
    if (dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "optimizer %.60s: task %.60s: is not registered",
                           o->name, op->name);
    if (!op->update)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "optimizer %.60s: task %.60s: does not say that it "
                           "is an update (op.h)",
                           o->name, op->name);
    if (op->args_size < sizeof(struct dsflow_update_args))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "optimizer %.60s: task %.60s: args_size: %zu: "
                           "expected at least the %zu bytes of struct "
                           "dsflow_update_args",
                           o->name, op->name, op->args_size,
                           sizeof(struct dsflow_update_args));
    if (op->nports != n || op->repeats || op->comm)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "optimizer %.60s: task %.60s: %u ports: expected "
                           "%u: control, grad, param and %u states",
                           o->name, op->name, op->nports, n, n - 3);
    for (unsigned i = 0; i < n; i++)
        if (op->ports[i].access != access[i < 2 ? i : 2])
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "optimizer %.60s: task %.60s: port %.40s: "
                               "expected control R, grad R, param RW, states "
                               "RW",
                               o->name, op->name, op->ports[i].name);
    for (unsigned i = 1; i < n; i++)
        if (op->slice == NULL || op->ports[i].slice != DSFLOW_ELEMS)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "optimizer %.60s: task %.60s: port %.40s: "
                               "expected to be sliced with its unit (op.h)",
                               o->name, op->name, op->ports[i].name);
    return DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_optimizer *o = thing;
    int status =
        dsf_registry_check(&dsf_optimizers, o->abi, o->name, o->summary, err);

    if (status == DSFLOW_OK)
        status = check_states(o, err);
    if (status == DSFLOW_OK)
        status = check_op(o, err);
    if (status == DSFLOW_OK)
        status = dsf_registry_add(&dsf_optimizers, o->name, o, origin, err);
    if (status == DSFLOW_OK)
        status = dsf_component_options(&dsf_optimizers, o->name, o->summary,
                                       o->options, o->part_size, err);
    return status;
}

struct dsf_registry dsf_optimizers = {
    .sort = "optimizer",
    .abi = DSFLOW_OPTIMIZER_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_optimizer_register(const struct dsflow_optimizer *o,
                              struct dsflow_err *err)
{
    return dsf_optimizers.add(o, DSF_PROGRAM, err);
}

const char *dsf_job_optimizer_name(const struct dsflow_option *option,
                                   unsigned i)
{
    const struct dsf_registered *r = dsf_registry_at(&dsf_optimizers, i);

    return r != NULL ? r->name : NULL;
}

const struct dsflow_optimizer *dsflow_optimizer_find(const char *name)
{
    return dsf_registry_thing(&dsf_optimizers, name);
}

const struct dsflow_optimizer *dsflow_optimizer_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_optimizers, i);
}

unsigned dsf_optimizer_nstates(const struct dsflow_optimizer *o,
                               const struct dsf_job *job)
{
    struct dsflow_optimizer_keys keys = dsf_optimizer_keys(job);
    unsigned n = count_states(o), wants;

    if (o->nstates == NULL)
        return n;
    wants = o->nstates(dsf_job_part(job, o->options), &keys);
    return wants < n ? wants : n;
}

struct dsflow_optimizer_keys dsf_optimizer_keys(const struct dsf_job *job)
{
    const struct dsf_job_optimizer *in = &job->optimizer;

    return (struct dsflow_optimizer_keys){
        .lr = in->lr,
        .betas = { in->betas[0], in->betas[1] },
        .eps = in->eps,
        .weight_decay = in->weight_decay,
        .momentum = in->momentum,
        .nesterov = in->nesterov,
    };
}

const struct dsflow_optimizer *dsf_job_optimizer(const struct dsf_job *job,
                                                 struct dsflow_err *err)
{
    const struct dsf_job_optimizer *in = &job->optimizer;
    const struct dsflow_optimizer *o = dsflow_optimizer_find(in->kind);
    int axis = dsf_axis_sharing(job->mesh.size, DSFLOW_SHARE_TENSORS);

    if (o->whole && axis >= 0) {
        dsf_job_fail(job, err, DSFLOW_EINVAL, "optimizer", "kind",
                     "\"%s\": needs whole tensors: expected mesh.%s = 1, "
                     "not %lld",
                     o->name, dsflow_axis_at((unsigned)axis)->name,
                     (long long)job->mesh.size[axis]);
        return NULL;
    }
    return dsf_job_check_part(job, o->options, err) < 0 ? NULL : o;
}
