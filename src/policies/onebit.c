/* onebit.c - 1-bit Adam (Tang et al. 2021, arXiv 2102.02888) and 1-bit LAMB (Li
 * et al. 2021, arXiv 2104.06069): what is decided of them, and what of a unit
 * is sent in 1 bit. reference_onebit.c and reference_lamb.c make the tasks.
 */
#include "policies/onebit.h"

#include "policies/compress.h"
#include "policies/keys.h"
#include "policies/zeroone.h"

#include <stdio.h>
#include <string.h>

#define FORMAT "sign"
#define SERVER "server"
#define FRESH  "fresh"
#define LAMB   "lamb"

const struct dsf_onebit_keys *dsf_onebit_keys(const struct dsf_job *job)
{
    const struct dsflow_optimizer *o =
        dsflow_optimizer_find(job->optimizer.kind);

    return o != NULL && (o->options == dsf_onebit_options ||
                         o->options == dsf_onebit_lamb_options)
               ? dsf_job_part(job, o->options)
               : NULL;
}

const struct dsf_onebit_lamb_keys *
dsf_onebit_lamb_keys(const struct dsf_job *job)
{
    const struct dsflow_optimizer *o =
        dsflow_optimizer_find(job->optimizer.kind);

    return o != NULL && o->options == dsf_onebit_lamb_options
               ? dsf_job_part(job, o->options)
               : NULL;
}

bool dsf_sends_signs(const struct dsf_job *job)
{
    return dsf_onebit_keys(job) != NULL || dsf_zeroone_keys(job) != NULL;
}

/* Positions are the second matrix of the first unit. */
enum { POSITIONS = 1 };

/* How many numbers of it have gradients: rows of positions of a sequence. */
static int64_t count_seen(const struct dsf_job *job,
                          const struct dsf_model *model)
{
    const int64_t sequence = dsf_plan_sequence(job, model);
    const int64_t most = model->dims.context;

    return (sequence < most ? sequence : most) * model->dims.width;
}

static bool has_positions(const struct dsf_model *model,
                          const struct dsf_unit *unit, unsigned nmatrices)
{
    return unit == model->units && !model->dims.rope && nmatrices > POSITIONS;
}

struct dsf_coding dsf_onebit_coding(const struct dsf_job *job,
                                    const struct dsf_model *model,
                                    const struct dsf_unit *unit)
{
    struct dsf_coded_tensor matrices[DSF_CODED_TENSORS];
    const unsigned n = dsf_compress_matrices(unit, matrices);
    const struct dsf_coding none = { .block = DSFLOW_WIRE_FORMAT_STEP };
    struct dsf_coding coding;

    if (has_positions(model, unit, n))
        matrices[POSITIONS].elems = count_seen(job, model);
    return dsf_compress_by_tensor(job, FORMAT, unit, n, matrices, &coding)
               ? coding
               : none;
}

/* A part has whole rows of positions. */
void dsf_onebit_code_part(const struct dsf_job *job,
                          const struct dsf_model *model,
                          const struct dsf_part *part,
                          struct dsf_coding *coding)
{
    const struct dsf_unit *unit = &model->units[part->unit];
    struct dsf_coded_tensor of[DSF_CODED_TENSORS];
    struct dsf_part seen = *part;

    if (coding->ntensors == 0)
        return;
    if (has_positions(model, unit, dsf_compress_matrices(unit, of)))
        for (unsigned i = 0; i < seen.nblocks; i++) {
            struct dsf_block *b = &seen.blocks[i];
            const int64_t at = b->at_whole - of[POSITIONS].at;
            const int64_t rows = (count_seen(job, model) - at) / b->cols;

            if (at >= 0 && at < of[POSITIONS].elems && rows < b->rows)
                b->rows = rows > 0 ? rows : 0;
        }
    dsf_compress_part(unit, &seen, coding);
}

uint16_t dsf_onebit_server(const struct dsflow_plan *plan)
{
    return dsf_sends_signs(plan->job) ? dsflow_plan_kept(plan, SERVER) : 0;
}

uint16_t dsf_onebit_fresh(const struct dsflow_plan *plan)
{
    return dsf_onebit_lamb_keys(plan->job) == NULL
               ? 0
               : dsflow_plan_kept(plan, FRESH);
}

uint16_t dsf_onebit_lamb(const struct dsflow_plan *plan)
{
    return dsf_onebit_lamb_keys(plan->job) == NULL
               ? 0
               : dsflow_plan_kept(plan, LAMB);
}

bool dsf_onebit_waits(const struct dsf_job *job)
{
    return dsf_onebit_lamb_keys(job) != NULL ||
           (dsf_onebit_keys(job) != NULL && job->optimizer.clip > 0);
}

bool dsf_onebit_is_cut(const struct dsflow_plan *plan, uint16_t kept)
{
    return kept != 0 &&
           (kept == dsf_onebit_server(plan) || kept == dsf_onebit_fresh(plan));
}

bool dsf_onebit_is_momentum(const struct dsflow_plan *plan, uint16_t kept)
{
    return kept == 1 + DSF_KEPT_STATE && dsf_onebit_keys(plan->job) != NULL;
}

bool dsf_onebit_keeps(const struct dsf_job *job, const struct dsflow_kept *kept)
{
    return dsf_sends_signs(job) && strcmp(kept->name, SERVER) == 0;
}

int dsf_onebit_refuse(const struct dsflow_plan *plan, struct dsflow_err *err,
                      const char *table, const char *key, const char *words)
{
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, table, key,
                        "expected %s with optimizer.kind = \"%s\"", words,
                        plan->job->optimizer.kind);
}

int dsf_onebit_check(const struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;

    if (dsf_compresses_gradients(job))
        return dsf_onebit_refuse(plan, err, "compress", "gradients",
                                 "none, as momenta are sent,");
    if (plan->reduce_micro)
        return dsf_onebit_refuse(plan, err, "zero", "reduce", "step");
    if (dsf_job_states(job) != DSFLOW_FP32)
        return dsf_onebit_refuse(plan, err, "precision", "states", "fp32");
    if (!dsf_keeps_masters(job))
        return dsf_onebit_refuse(plan, err, "precision", "master", "true");
    if (dsf_gradient_type(job) != DSFLOW_FP32)
        return dsf_onebit_refuse(plan, err, "precision", "gradients", "fp32");
    return DSFLOW_OK;
}

int dsf_onebit_keep(struct dsflow_plan *plan, struct dsflow_err *err)
{
    int status = dsf_keep_of_groups(plan, DSF_OF_ERROR, err);

    return status < 0
               ? status
               : dsflow_plan_keep(plan,
                                  &DSFLOW_KEPT(.name = SERVER,
                                               .kind = DSFLOW_KEPT_TENSORS,
                                               .dtype = DSFLOW_FP32),
                                  err);
}

/* Of 1-bit LAMB: second moments that do not freeze, some numbers of each
 * tensor, and a step that makes both of what it leaves. */
static int decide_lamb(struct dsflow_plan *plan,
                       const struct dsf_onebit_keys *keys,
                       struct dsflow_err *err)
{
    int status = dsflow_plan_keep(plan,
                                  &DSFLOW_KEPT(.name = FRESH,
                                               .kind = DSFLOW_KEPT_TENSORS,
                                               .dtype = DSFLOW_FP32),
                                  err);

    if (status == DSFLOW_OK)
        status = dsflow_plan_keep(
            plan,
            &DSFLOW_KEPT(.name = LAMB, .kind = DSFLOW_KEPT_BY_UNIT,
                         .dtype = DSFLOW_FP64, .ndims = 2,
                         .dims = { DSFLOW_MAX_TENSORS, DSF_LAMB_FIELDS }),
            err);
    return status < 0 ? status
                      : dsflow_plan_add_program(
                            plan,
                            &DSFLOW_PROGRAM_STEPS(.name = DSF_ONEBIT_FREEZING,
                                                  .first = keys->freeze_step,
                                                  .every = 1,
                                                  .last = keys->freeze_step),
                            err);
}

int dsf_onebit_decide(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    const struct dsf_onebit_keys *keys = dsf_onebit_keys(job);
    int status;

    if (keys == NULL)
        return DSFLOW_OK;
    if (keys->freeze_step >= job->main.steps)
        return dsf_job_fail(
            job, err, DSFLOW_EINVAL, job->optimizer.kind, "freeze_step",
            "%lld: expected less than job.steps, %lld",
            (long long)keys->freeze_step, (long long)job->main.steps);
    status = dsf_onebit_check(plan, err);
    if (status == DSFLOW_OK)
        status = dsf_onebit_keep(plan, err);
    plan->gradients_stay = dsf_onebit_waits(job);
    if (status == DSFLOW_OK && dsf_onebit_lamb_keys(job) != NULL)
        status = decide_lamb(plan, keys, err);
    if (status == DSFLOW_OK)
        status = dsflow_plan_add_program(
            plan,
            &DSFLOW_PROGRAM_STEPS(.name = DSF_ONEBIT_PROGRAM,
                                  .first = keys->freeze_step + 1, .every = 1),
            err);
    return status;
}
