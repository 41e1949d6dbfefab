/* reference_kept.c - what the plain step keeps for the next one. */
#include "policies/keys.h"
#include "policies/reference_private.h"

#include "tasks/args.h"
#include "tasks/components.h"

#include <stddef.h>

static const struct dsflow_kept_field cursor_fields[] = {
    { "step", DSFLOW_INT64, 0 },
    { "first", DSFLOW_INT64, sizeof(int64_t) }, /* sequences before step 0 */
    { 0 },
};

#define REAL(name)                                                             \
    {                                                                          \
        #name, DSFLOW_FP64, offsetof(struct dsflow_control, name)              \
    }
static const struct dsflow_kept_field control_fields[] = {
    /* Between steps, that of the last update is how many there were. */
    { "step", DSFLOW_INT64, offsetof(struct dsflow_control, updates) },
    REAL(lr),
    REAL(correction1),
    REAL(correction2),
    REAL(norm),
    REAL(scale),
    REAL(loss_scale),
    { "skipped", DSFLOW_INT64, offsetof(struct dsflow_control, skipped) },
    { 0 },
};
#undef REAL

#define FIELD(name, dtype)                                                     \
    {                                                                          \
        #name, dtype, offsetof(struct dsf_scaler, name)                        \
    }
static const struct dsflow_kept_field scaler_fields[] = {
    FIELD(scale, DSFLOW_FP64),
    FIELD(steps, DSFLOW_INT64),
    FIELD(last_overflow, DSFLOW_INT64),
    FIELD(hysteresis, DSFLOW_INT64),
    FIELD(overflows, DSFLOW_INT64),
    { 0 },
};
#undef FIELD

struct dsf_loss_scale dsf_reference_loss_scale(const struct dsf_job *job)
{
    const struct dsf_precision_keys *keys = dsf_precision_keys(job);

    if (dsf_compute_type(job) != DSFLOW_FP16)
        return (struct dsf_loss_scale){ 0 };
    if (keys->loss_scale > 0)
        return (struct dsf_loss_scale){ .fixed = keys->loss_scale };
    return (struct dsf_loss_scale){
        .initial = keys->initial_scale,
        .least = keys->min_scale,
        .window = keys->scale_window,
        .hysteresis = (int32_t)keys->hysteresis,
        .consecutive = keys->consecutive_hysteresis,
    };
}

/* In the order of the places in plan/kept.h. */
static const struct dsflow_kept fixed[] = {
    [DSF_KEPT_PARAM] = { sizeof(struct dsflow_kept), .name = "params",
                         .kind = DSFLOW_KEPT_TENSORS, .dtype = DSFLOW_FP32 },
    [DSF_KEPT_CURSOR] = { sizeof(struct dsflow_kept), .name = "cursor",
                          .kind = DSFLOW_KEPT_ONE, .dtype = DSFLOW_INT64,
                          .ndims = 1, .dims = { DSF_CURSOR },
                          .fields = cursor_fields },
    [DSF_KEPT_EVAL_CURSOR] = { sizeof(struct dsflow_kept),
                               .name = "eval_cursor", .kind = DSFLOW_KEPT_ONE,
                               .dtype = DSFLOW_INT64, .ndims = 1,
                               .dims = { DSF_CURSOR }, .transient = 1 },
    [DSF_KEPT_CONTROL] = { sizeof(struct dsflow_kept), .name = "control",
                           .kind = DSFLOW_KEPT_ONE, .dtype = DSFLOW_BYTES,
                           .ndims = 1,
                           .dims = { sizeof(struct dsflow_control) },
                           .fields = control_fields },
};

int dsf_reference_keep(const struct dsf_job *job, struct dsf_kept_list *list,
                       struct dsflow_err *err)
{
    const struct dsflow_optimizer *o = dsf_job_optimizer(job, err);
    const struct dsf_loss_scale scale = dsf_reference_loss_scale(job);
    int status = o == NULL ? DSFLOW_EINVAL : DSFLOW_OK;

    for (size_t i = 0; i < DSF_KEPT_STATE && status == DSFLOW_OK; i++)
        status = dsf_kept_add(list, &fixed[i], err);
    for (unsigned i = 0;
         status == DSFLOW_OK && i < dsf_optimizer_nstates(o, job); i++)
        status = dsf_kept_add(list,
                              &DSFLOW_KEPT(.name = o->states[i],
                                           .kind = DSFLOW_KEPT_TENSORS,
                                           .dtype = DSFLOW_FP32),
                              err);
    if (status == DSFLOW_OK && dsf_is_scaled(&scale))
        status =
            dsf_kept_add(list,
                         &DSFLOW_KEPT(.name = DSF_KEPT_SCALER,
                                      .kind = DSFLOW_KEPT_ONE,
                                      .dtype = DSFLOW_BYTES, .ndims = 1,
                                      .dims = { sizeof(struct dsf_scaler) },
                                      .fields = scaler_fields),
                         err);
    return status;
}

void dsf_reference_describe(const struct dsf_unit *unit,
                            struct dsflow_update_args *args)
{
    args->elems = unit->elems;
    args->decay = unit->decay;
    args->block = unit->block;
    args->ntensors = (int32_t)unit->ntensors;
    for (unsigned i = 0; i < unit->ntensors; i++) {
        const struct dsf_tensor *t = &unit->tensors[i];

        args->tensors[i] = (struct dsflow_tensor){
            .at = t->offset,
            .rows = t->rows,
            .cols = t->cols,
            .kind = t->vector ? DSFLOW_VECTOR : unit->matrices,
            .decays = t->offset < unit->decay,
            .number = (int16_t)i,
        };
    }
}

int64_t dsf_reference_state_from(const struct dsf_unit *unit,
                                 const struct dsflow_optimizer *o, unsigned i)
{
    struct dsflow_update_args args = { 0 };

    dsf_reference_describe(unit, &args);
    return dsf_optimizer_state_from(o, i, &args);
}
