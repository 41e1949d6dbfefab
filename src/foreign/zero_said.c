/* zero_said.c - what a checkpoint of DeepSpeed says beside its tensors: how far
 * the run was, and with which optimizer. */
#include "foreign/zero_private.h"

#include <stdio.h>

/* An optional whole number; `value` stays where there is none. */
static int take_int(const struct dsf_zero_source *z, const char *key,
                    int64_t *value, struct dsflow_err *err)
{
    const struct dsf_torch_node *n = dsf_torch_find(z->root, key);

    return n == NULL || n->kind == DSF_TORCH_NONE
               ? DSFLOW_OK
               : dsf_torch_int(z->model, n, value, err);
}

/* The optimizer of the configuration that is kept with it. */
static void take_optimizer(struct dsf_zero_source *z)
{
    const struct dsf_torch_node *type = dsf_torch_find(
        dsf_torch_find(dsf_torch_find(z->root, "ds_config"), "optimizer"),
        "type");

    if (type != NULL && type->kind == DSF_TORCH_STR)
        snprintf(z->source->optimizer, sizeof(z->source->optimizer), "%s",
                 type->str);
}

int dsf_zero_numbers(struct dsf_zero_source *z, struct dsflow_err *err)
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
void dsf_zero_scale(struct dsf_zero_source *z,
                    const struct dsf_torch_file *file,
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
