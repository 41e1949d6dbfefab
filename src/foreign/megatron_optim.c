/* megatron_optim.c - Adam's moments and the fp32 masters in files of
 * Megatron-LM:
 *
 *   optimizer                    or, in fp32, what is in its "optimizer"
 *     optimizer  state           [0] exp_avg, exp_avg_sq, step; [1] …
 *                param_groups    params [0, 1, …], lr, step; …
 *     fp32_from_fp16_params      [group][those that the model has in 16 bits]
 *
 * Parameters are in the order of the model: all of one group, or those that
 * decay (matrices) in a group and the others (vectors) in another one
 * (get_param_groups of Megatron's optimizer). Shapes must bear that out. */
#include "foreign/megatron_private.h"

#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static const char with_flag[] =
    "--weights-only goes on without the state of the optimizer";

/* One file's optimizer. */
struct optimizer {
    const struct dsf_torch_file *file;
    const struct dsf_torch_node *state, *groups;
    const struct dsf_torch_node *masters; /* or NULL */
    double step, lr;                      /* -1: not known */
};

static int find_optimizer(const struct dsf_torch_file *file,
                          const struct dsf_torch_node *node,
                          struct optimizer *o, struct dsflow_err *err)
{
    const struct dsf_torch_node *inner = dsf_torch_find(node, "optimizer");
    int status;

    *o = (struct optimizer){ .file = file, .step = -1, .lr = -1 };
    if (node->kind != DSF_TORCH_DICT)
        return dsf_torch_fail(file, node, err,
                              "%s: expected that of one optimizer; %s",
                              dsf_torch_kind_str(node->kind), with_flag);
    o->masters = dsf_torch_find(node, "fp32_from_fp16_params");
    if (inner == NULL)
        inner = node;
    if (dsf_torch_find(inner, "state") == NULL)
        return dsf_torch_fail(file, inner, err,
                              "has no \"state\": it is kept by ranks of data "
                              "(--use-distributed-optimizer), which is not "
                              "read; %s",
                              with_flag);
    status =
        dsf_torch_entry(file, inner, "state", DSF_TORCH_DICT, &o->state, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_entry(file, inner, "param_groups", DSF_TORCH_LIST,
                                 &o->groups, err);
    if (status == DSFLOW_OK && o->masters != NULL)
        status = dsf_torch_expect(file, o->masters, DSF_TORCH_LIST, err);
    if (status == DSFLOW_OK && o->masters != NULL &&
        o->masters->n != o->groups->n)
        status = dsf_torch_fail(file, o->masters, err,
                                "has %u groups: param_groups has %u; %s",
                                o->masters->n, o->groups->n, with_flag);
    return status;
}

/* A tensor with the shape of a parameter. */
static int take_tensor(const struct optimizer *o,
                       const struct dsf_torch_node *node,
                       const struct dsf_source_tensor *of,
                       const struct dsf_megatron_param *p,
                       const struct dsf_torch_tensor **out,
                       struct dsflow_err *err)
{
    const struct dsf_torch_tensor *t;
    char has[200], wanted[200];
    int status = dsf_torch_floats(o->file, node, &t, err);

    if (status < 0)
        return status;
    *out = t;
    if (t->ndims == p->is->ndims &&
        memcmp(t->dims, p->is->dims, t->ndims * sizeof(*t->dims)) == 0)
        return DSFLOW_OK;
    return dsf_torch_fail(
        o->file, node, err,
        "shape %s: in the order of the model it is of %s, which has %s; %s",
        dsf_shape_str(t->ndims, t->dims, has, sizeof(has)), of->name,
        dsf_shape_str(p->is->ndims, p->is->dims, wanted, sizeof(wanted)),
        with_flag);
}

static void read_step(struct optimizer *o, const struct dsf_torch_node *node,
                      struct dsflow_err *err)
{
    const struct dsf_torch_node *step = dsf_torch_find(node, "step");
    float value;
    double real;

    if (step == NULL)
        return;
    if (step->kind == DSF_TORCH_TENSOR && step->tensor->elems == 1 &&
        dsf_torch_read_f32(o->file, step->tensor, 0, 1, &value, err) ==
            DSFLOW_OK)
        o->step = (double)value;
    else if (dsf_torch_real(o->file, step, &real, err) == DSFLOW_OK)
        o->step = real;
}

/* The states of parameter number `id`. */
static int take_param(struct dsf_source *s, struct dsf_megatron *m,
                      struct optimizer *o, const struct dsf_megatron_file *file,
                      const struct dsf_megatron_param *p, int64_t id,
                      const struct dsf_torch_node *master,
                      struct dsflow_err *err)
{
    struct dsf_source_tensor *t = &s->tensors[p->tensor];
    struct dsf_shard *shard = &m->tensors[t->at].shards[file->tensor];
    const struct dsf_torch_node *state = dsf_torch_find_int(o->state, id);
    const struct dsf_torch_node *first = dsf_torch_find(state, "exp_avg");
    const struct dsf_torch_node *second = dsf_torch_find(state, "exp_avg_sq");
    int status = DSFLOW_OK;

    if (first == NULL || second == NULL)
        return dsf_torch_fail(o->file, o->state, err,
                              "[%lld]: has no exp_avg and exp_avg_sq of Adam, "
                              "for %s; %s",
                              (long long)id, t->name, with_flag);
    status = take_tensor(o, first, t, p, &shard->state[DSF_SOURCE_FIRST], err);
    if (status == DSFLOW_OK)
        status =
            take_tensor(o, second, t, p, &shard->state[DSF_SOURCE_SECOND], err);
    if (status == DSFLOW_OK && master != NULL)
        status =
            take_tensor(o, master, t, p, &shard->state[DSF_SOURCE_WEIGHT], err);
    t->has |= 1u << DSF_SOURCE_FIRST | 1u << DSF_SOURCE_SECOND;
    if (o->step < 0)
        read_step(o, state, err);
    return status;
}

static bool is_narrow(const struct dsf_torch_tensor *t)
{
    return t->dtype == DSFLOW_BF16 || t->dtype == DSFLOW_FP16;
}

/* Where a walk over the parameters of one sort is. */
struct walk {
    size_t at;
};

/* The next parameter of a file, of those that `vectors` (0, 1; 2: both) are. */
static const struct dsf_megatron_param *
next_param(const struct dsf_megatron_file *file, int vectors, struct walk *w)
{
    while (w->at < file->nparams) {
        const struct dsf_megatron_param *p = &file->params[w->at++];

        if (vectors == 2 || p->is_vector == (vectors == 1))
            return p;
    }
    return NULL;
}

/* Are the parameters of a group vectors (1) or matrices (0), by the first? */
static int sort_of(const struct optimizer *o, const struct dsf_torch_node *ids)
{
    const struct dsf_torch_node *id =
        ids->n > 0 ? dsf_torch_item(ids, 0) : NULL;
    const struct dsf_torch_node *first;

    if (o->groups->n == 1)
        return 2;
    if (id == NULL || id->kind != DSF_TORCH_INT)
        return 0;
    first = dsf_torch_find(dsf_torch_find_int(o->state, id->integer.value),
                           "exp_avg");
    return first != NULL && first->kind == DSF_TORCH_TENSOR &&
           first->tensor->ndims == 1;
}

static int take_group(struct dsf_source *s, struct dsf_megatron *m,
                      struct optimizer *o, const struct dsf_megatron_file *file,
                      uint32_t g, struct walk walks[3], size_t *taken,
                      struct dsflow_err *err)
{
    const struct dsf_torch_node *group = dsf_torch_item(o->groups, g), *ids;
    const struct dsf_torch_node *masters =
        o->masters != NULL ? dsf_torch_item(o->masters, g) : NULL;
    const struct dsf_torch_node *lr = dsf_torch_find(group, "lr");
    uint32_t master = 0;
    int sort, status;

    status =
        dsf_torch_entry(o->file, group, "params", DSF_TORCH_LIST, &ids, err);
    if (status == DSFLOW_OK && masters != NULL)
        status = dsf_torch_expect(o->file, masters, DSF_TORCH_LIST, err);
    if (status < 0)
        return status;
    if (lr != NULL && o->lr < 0)
        status = dsf_torch_real(o->file, lr, &o->lr, err);
    read_step(o, group, err);
    sort = sort_of(o, ids);
    for (uint32_t i = 0; i < ids->n && status == DSFLOW_OK; i++, (*taken)++) {
        const struct dsf_megatron_param *p =
            next_param(file, sort, &walks[sort]);
        const struct dsf_torch_node *own = NULL;
        int64_t id;

        status = dsf_torch_int(o->file, dsf_torch_item(ids, i), &id, err);
        if (status < 0)
            break;
        if (p == NULL)
            return dsf_torch_fail(o->file, ids, err,
                                  "has more parameters than the model; %s",
                                  with_flag);
        if (is_narrow(p->is)) {
            if (masters == NULL || master >= masters->n)
                return dsf_torch_fail(
                    o->file, group, err,
                    "there is no fp32_from_fp16_params of %s; "
                    "%s",
                    s->tensors[p->tensor].name, with_flag);
            own = dsf_torch_item(masters, master++);
        }
        status = take_param(s, m, o, file, p, id, own, err);
    }
    return status;
}

static int take_file(struct dsf_source *s, struct dsf_megatron *m,
                     const struct dsf_megatron_file *file,
                     const struct dsf_torch_node *node, struct optimizer *o,
                     struct dsflow_err *err)
{
    struct walk walks[3] = { { 0 } };
    size_t taken = 0;
    int status = find_optimizer(file->torch, node, o, err);

    for (uint32_t g = 0; status == DSFLOW_OK && g < o->groups->n; g++)
        status = take_group(s, m, o, file, g, walks, &taken, err);
    if (status == DSFLOW_OK && taken != file->nparams)
        status =
            dsf_torch_fail(file->torch, o->groups, err,
                           "have %zu parameters in all: the model has %zu; "
                           "%s",
                           taken, file->nparams, with_flag);
    return status;
}

static void read_scale(struct dsf_source *s, const struct dsf_torch_file *file,
                       const struct dsf_torch_node *node,
                       struct dsflow_err *err)
{
    const struct dsf_torch_node *scale = dsf_torch_find(node, "scale");
    const struct dsf_torch_node *growth =
        dsf_torch_find(node, "growth_tracker");
    const struct dsf_torch_node *left =
        dsf_torch_find(node, "hysteresis_tracker");
    float value;

    if (scale == NULL || growth == NULL || growth->kind != DSF_TORCH_INT ||
        scale->kind != DSF_TORCH_TENSOR || scale->tensor->elems != 1 ||
        dsf_torch_read_f32(file, scale->tensor, 0, 1, &value, err) < 0)
        return;
    s->scale.is_there = true;
    s->scale.scale = (double)value;
    /* Steps since the last overflow. */
    s->scale.steps = growth->integer.value;
    s->scale.last_overflow = -1;
    s->scale.hysteresis =
        left != NULL && left->kind == DSF_TORCH_INT ? left->integer.value : 1;
}

int dsf_megatron_optimizer(struct dsf_source *s, struct dsf_megatron *m,
                           struct dsflow_err *err)
{
    size_t n = (size_t)m->folder.tensor * (size_t)m->folder.stages;
    struct optimizer o = { .step = -1, .lr = -1 };
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        const struct dsf_torch_file *file = m->files[i].torch;
        const struct dsf_torch_node *node =
            dsf_torch_find(dsf_torch_root(file), "optimizer");

        if (node == NULL || node->kind == DSF_TORCH_NONE)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: has no state of the optimizer%s: "
                "--weights-only begins a run with the weights",
                dsf_torch_path(file),
                m->folder.distributed
                    ? " that is read: distrib_optim.pt beside it "
                      "(--use-distributed-optimizer) has it without names "
                      "or shapes"
                    : "");
        status = take_file(s, m, &m->files[i], node, &o, err);
        if (i == 0 && status == DSFLOW_OK)
            read_scale(s, file, dsf_torch_find(node, "grad_scaler"), err);
    }
    if (status < 0)
        return status;
    strcpy(s->optimizer, "Adam");
    if (o.step >= 0)
        s->updates = (int64_t)o.step;
    if (o.lr >= 0)
        s->lr = o.lr;
    if (s->steps >= s->updates && s->updates >= 0)
        s->skipped = s->steps - s->updates;
    return DSFLOW_OK;
}
