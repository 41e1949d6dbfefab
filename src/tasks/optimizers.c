/* optimizers.c - the optimizers there are, and what is asked of each. */
#include "tasks/tasks.h"

#include "base/registry.h"
#include "config/job_keys.h"
#include "tasks/components.h"
#include "tasks/lamb.h"
#include "tasks/muon.h"
#include "tasks/onebit.h"
#include "tasks/zeroone.h"

#include <stdio.h>
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
    args->uncorrected = !keys->bias_correction;
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

static int fill_lamb(const void *part, const struct dsflow_optimizer_keys *keys,
                     void *args, struct dsflow_err *err)
{
    struct dsf_update_args *a = args;

    fill(keys, 1, a);
    a->width = (int32_t)dsf_lamb_width(a->at.ntensors);
    return dsf_lamb_check_keys(part, err);
}

static int fill_onebit(const void *part,
                       const struct dsflow_optimizer_keys *keys, void *args,
                       struct dsflow_err *err)
{
    struct dsf_update_args *a = args;

    fill(keys, 1, a);
    a->uncorrected = 1;
    return DSFLOW_OK;
}

static int fill_onebit_lamb(const void *part,
                            const struct dsflow_optimizer_keys *keys,
                            void *args, struct dsflow_err *err)
{
    struct dsf_update_args *a = args;

    fill(keys, 1, a);
    a->uncorrected = 1;
    a->width = (int32_t)dsf_lamb_width(a->at.ntensors);
    return dsf_onebit_lamb_check_keys(part, err);
}

static int fill_muon(const void *part, const struct dsflow_optimizer_keys *keys,
                     void *args, struct dsflow_err *err)
{
    fill(keys, 1, args);
    dsf_muon_fill(part, keys, args);
    return DSFLOW_OK;
}

static unsigned sgd_states(const void *part,
                           const struct dsflow_optimizer_keys *keys)
{
    return keys->momentum > 0;
}

#define STATES(...) .states = (const char *const[]){ __VA_ARGS__, NULL }

static const struct dsflow_optimizer optimizers[] = {
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "adamw",
      .summary = "Adam with decoupled weight decay",
      .op = &dsf_op_adam,
      STATES("m", "v"),
      .fill = fill_decoupled },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "adam",
      .summary = "Adam, with weight decay as a part of the gradient",
      .op = &dsf_op_adam,
      STATES("m", "v"),
      .fill = fill_plain },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "sgd",
      .summary = "gradient descent, with or without (Nesterov's) momentum",
      .op = &dsf_op_sgd,
      STATES("m"),
      .uses_momentum = 1,
      .nstates = sgd_states,
      .fill = fill_plain },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "lion",
      .summary = "Lion: the sign of a mix of gradient and momentum",
      .op = &dsf_op_lion,
      STATES("m"),
      .fill = fill_plain },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "adagrad",
      .summary = "AdaGrad: the rate falls with the sum of squared gradients",
      .op = &dsf_op_adagrad,
      STATES("sum"),
      .fill = fill_plain },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "lamb",
      .summary = "LAMB: Adam's step of each tensor, as long as its norm says",
      .op = &dsf_op_lamb,
      STATES("m", "v"),
      .fill = fill_lamb,
      .options = dsf_lamb_options,
      .part_size = sizeof(struct dsf_lamb_keys) },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "muon",
      .summary = "Muon for the matrices of layers, AdamW for the rest",
      .op = &dsf_op_muon,
      STATES("m", "v"),
      .fill = fill_muon,
      .whole = DSFLOW_WHOLE_MATRICES,
      .options = dsf_muon_options,
      .part_size = sizeof(struct dsf_muon_keys) },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "onebit_adam",
      .summary = "1-bit Adam: AdamW, and then momenta that are sent in 1 bit",
      .op = &dsf_op_adam,
      STATES("m", "v"),
      .fill = fill_onebit,
      .options = dsf_onebit_options,
      .part_size = sizeof(struct dsf_onebit_keys) },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "onebit_lamb",
      .summary = "1-bit LAMB: LAMB, and then momenta that are sent in 1 bit",
      .op = &dsf_op_lamb,
      STATES("m", "v"),
      .fill = fill_onebit_lamb,
      .options = dsf_onebit_lamb_options,
      .part_size = sizeof(struct dsf_onebit_lamb_keys) },
    { .abi = DSFLOW_OPTIMIZER_ABI,
      .name = "zeroone_adam",
      .summary =
          "0/1 Adam: signs of gradients, and then steps of each worker's "
          "own",
      .op = &dsf_op_adam,
      STATES("m", "v"),
      .fill = fill_onebit,
      .options = dsf_zeroone_options,
      .part_size = sizeof(struct dsf_zeroone_keys) },
};

static const void *const builtin[] = { &optimizers[0], &optimizers[1],
                                       &optimizers[2], &optimizers[3],
                                       &optimizers[4], &optimizers[5],
                                       &optimizers[6], &optimizers[7],
                                       &optimizers[8], &optimizers[9],
                                       NULL };

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
                               "state \"%.40s\": expected 1 to 16 letters",
                               o->states[i]);
        for (unsigned k = 0; k < i; k++)
            if (strcmp(o->states[i], o->states[k]) == 0)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "state %s is named twice", o->states[i]);
    }
    return DSFLOW_OK;
}

static int check_ports(const struct dsflow_optimizer *o, struct dsflow_err *err)
{
    const struct dsflow_op *op = o->op;
    unsigned n = 3 + count_states(o);

    if (dsf_optimizer_front(op) != NULL)
        return DSFLOW_OK;
    if (op->nports != n + (dsf_optimizer_copy_port(op) > 0) || op->repeats ||
        op->comm)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%u ports: expected %u: control, grad, param and %u "
                           "states",
                           op->nports, n, n - 3);
    for (unsigned i = 0; i < n; i++)
        if (op->ports[i].access != (i < 2 ? DSFLOW_R : DSFLOW_RW))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: expected control R, grad R, param "
                               "RW, states RW",
                               op->ports[i].name);
    for (unsigned i = 1; i < n; i++)
        if (op->slice == NULL || op->ports[i].slice != DSFLOW_ELEMS)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: expected to be sliced with its "
                               "unit (op.h)",
                               op->ports[i].name);
    return DSFLOW_OK;
}

static int check_op(const struct dsflow_optimizer *o, struct dsflow_err *err)
{
    const struct dsflow_op *op = o->op;

    if (dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL, "is not registered");
    if (!op->update)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "does not say that it is an update (op.h)");
    if (op->args_size < sizeof(struct dsflow_update_args))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "args_size: %zu: expected at least the %zu bytes of "
                           "struct dsflow_update_args",
                           op->args_size, sizeof(struct dsflow_update_args));
    return check_ports(o, err);
}

/* Of the optimizer, and of its kind of task. */
static int check(const struct dsflow_optimizer *o, struct dsflow_err *err)
{
    int status = check_states(o, err);
    char task[80];

    if (status < 0)
        return status;
    if (o->op == NULL || o->op->name == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "has no kind of task");
    snprintf(task, sizeof(task), "task %.60s", o->op->name);
    status = check_op(o, err);
    return status < 0 ? dsflow_fail_in(err, status, task) : DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_optimizer *o = thing;
    int status =
        dsf_registry_check(&dsf_optimizers, o->abi, o->name, o->summary, err);
    char what[80];

    if (status < 0)
        return status;
    snprintf(what, sizeof(what), "optimizer %.60s", o->name);
    status = check(o, err);
    if (status < 0)
        return dsflow_fail_in(err, status, what);
    status = dsf_registry_add(&dsf_optimizers, o->name, o, origin, err);
    return status < 0 ? status
                      : dsf_component_options(&dsf_optimizers, o->name,
                                              o->summary, o->options,
                                              o->part_size, err);
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

int64_t dsf_optimizer_state_from(const struct dsflow_optimizer *o, unsigned i,
                                 const struct dsflow_update_args *unit)
{
    return o->op == &dsf_op_muon && i == 1 ? dsf_muon_second_from(unit) : 0;
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
        .bias_correction = in->bias_correction,
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
