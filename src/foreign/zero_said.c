/* zero_said.c - what a checkpoint of DeepSpeed says beside its tensors: how far
 * the run was, and with which optimizer. */
#include "foreign/zero_private.h"

#include <math.h>
#include <stdio.h>

/* An optional whole number; `value` stays where there is none. */
static int take_int(const struct dsf_zero *z, const char *key, int64_t *value,
                    struct dsflow_err *err)
{
    const struct dsf_torch_node *n = dsf_torch_find(z->root, key);

    return n == NULL || n->kind == DSF_TORCH_NONE
               ? DSFLOW_OK
               : dsf_torch_int(z->model, n, value, err);
}

/* The optimizer of the configuration that is kept with it. */
static void take_optimizer(struct dsf_zero *z)
{
    const struct dsf_torch_node *type = dsf_torch_find(
        dsf_torch_find(dsf_torch_find(z->root, "ds_config"), "optimizer"),
        "type");

    if (type != NULL && type->kind == DSF_TORCH_STR)
        snprintf(z->source->optimizer, sizeof(z->source->optimizer), "%s",
                 type->str);
}

int dsf_zero_numbers(struct dsf_zero *z, struct dsflow_err *err)
{
    struct dsf_source *s = z->source;
    int status = take_int(z, "global_steps", &s->steps, err);

    if (status == DSFLOW_OK)
        status = take_int(z, "skipped_steps", &s->skipped, err);
    if (status == DSFLOW_OK)
        status = take_int(z, "global_samples", &s->samples, err);
    take_optimizer(z);
    return status;
}

/* The loss scaler of ZeRO's optimizers, an object; of FP16_Optimizer the same
 * numbers stand in its dict. */
void dsf_zero_scale(struct dsf_zero *z, const struct dsf_torch_file *file,
                    const struct dsf_torch_node *in)
{
    static const struct {
        const char *name;
        size_t at;
    } numbers[] = {
        { "cur_iter", offsetof(struct dsf_source_scale, steps) },
        { "last_overflow_iter",
          offsetof(struct dsf_source_scale, last_overflow) },
        { "cur_hysteresis", offsetof(struct dsf_source_scale, hysteresis) },
    };
    struct dsf_source_scale scale = { .is_there = true, .hysteresis = 1 };
    const struct dsf_torch_node *n = dsf_torch_find(in, "cur_scale");

    if (n == NULL || dsf_torch_real(file, n, &scale.scale, NULL) < 0 ||
        dsf_torch_find(in, "last_overflow_iter") == NULL)
        return; /* none, or one that does not change */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        n = dsf_torch_find(in, numbers[i].name);
        if (n != NULL)
            dsf_torch_int(file, n, (int64_t *)((char *)&scale + numbers[i].at),
                          NULL);
    }
    z->source->scale = scale;
}

/* A number, or a tensor of one. */
static bool read_number(const struct dsf_torch_file *file,
                        const struct dsf_torch_node *n, double *x)
{
    float f;

    if (n == NULL)
        return false;
    if (n->kind == DSF_TORCH_TENSOR && n->tensor->elems == 1) {
        if (dsf_torch_read_f32(file, n->tensor, 0, 1, &f, NULL) < 0)
            return false;
        *x = (double)f;
        return true;
    }
    return dsf_torch_real(file, n, x, NULL) == DSFLOW_OK;
}

void dsf_zero_step(struct dsf_zero *z, const struct dsf_torch_file *file,
                   const struct dsf_torch_node *step)
{
    double x;

    if (z->source->updates < 0 && read_number(file, step, &x) && x >= 0 &&
        x < 0x1p62)
        z->source->updates = (int64_t)x;
}

void dsf_zero_updates(struct dsf_zero *z, const struct dsf_torch_file *file,
                      const struct dsf_torch_node *groups,
                      const struct dsf_torch_node *state)
{
    struct dsf_source *s = z->source;
    const struct dsf_torch_node *group =
        groups != NULL && groups->kind == DSF_TORCH_LIST && groups->n > 0
            ? dsf_torch_item(groups, 0)
            : NULL;
    const struct dsf_torch_node *betas = dsf_torch_find(group, "betas");
    double x;

    dsf_zero_step(z, file, dsf_torch_find(state, "step"));
    dsf_zero_step(z, file, dsf_torch_find(group, "step"));
    for (uint32_t i = 0; betas != NULL && i < 2; i++)
        if ((betas->kind == DSF_TORCH_TUPLE || betas->kind == DSF_TORCH_LIST) &&
            i < betas->n && read_number(file, dsf_torch_item(betas, i), &x))
            s->betas[i] = x;
    if (read_number(file, dsf_torch_find(group, "eps"), &x))
        s->eps = x;
    for (uint32_t i = 0; group != NULL && i < groups->n; i++)
        if (read_number(
                file, dsf_torch_find(dsf_torch_item(groups, i), "weight_decay"),
                &x) &&
            !(x <= s->weight_decay)) /* it may be NaN */
            s->weight_decay = x;
    if (isnan(s->lr) && read_number(file, dsf_torch_find(group, "lr"), &x))
        s->lr = x;
}
