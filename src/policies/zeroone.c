/* zeroone.c - 0/1 Adam (Lu et al. 2022, arXiv 2202.06009): what is decided of
 * it. reference_zeroone.c makes the tasks.
 */
#include "policies/zeroone.h"

#include "base/multiple.h"
#include "policies/compress.h"
#include "policies/keys.h"
#include "policies/onebit.h"

const struct dsf_zeroone_keys *dsf_zeroone_keys(const struct dsf_job *job)
{
    const struct dsflow_optimizer *o =
        dsflow_optimizer_find(job->optimizer.kind);

    return o != NULL && o->options == dsf_zeroone_options
               ? dsf_job_part(job, o->options)
               : NULL;
}

const char *dsf_zeroone_program(enum dsf_zeroone_kind kind)
{
    static const char *const names[] = { [DSF_ZEROONE_VARIANCE] = "step",
                                         [DSF_ZEROONE_GRADIENT] =
                                             DSF_ONEBIT_PROGRAM,
                                         [DSF_ZEROONE_LOCAL] = "local",
                                         [DSF_ZEROONE_SYNC] = "sync" };

    return names[kind];
}

/* Steps first, first + every, … to `last`, if there are any. */
static int add_steps(struct dsflow_plan *plan, enum dsf_zeroone_kind kind,
                     int64_t first, int64_t every, int64_t last,
                     struct dsflow_err *err)
{
    if (last != 0 && first > last)
        return DSFLOW_OK;
    return dsflow_plan_add_program(
        plan,
        &DSFLOW_PROGRAM_STEPS(.name = dsf_zeroone_program(kind), .first = first,
                              .every = every, .last = last),
        err);
}

/* The steps of a span, and those of them that are multiples of its interval,
 * with which it neither begins nor ends where that can be said. */
static int add_span(struct dsflow_plan *plan,
                    const struct dsf_zeroone_span *span, struct dsflow_err *err)
{
    const int64_t n = span->interval, first = dsf_round_up(span->first, n);
    const int64_t others = span->first + (first == span->first);
    int64_t last = span->last;
    int status = DSFLOW_OK;

    if (last != 0 && last % n == 0 && last > 1)
        last--;
    if (n > 1)
        status = add_steps(
            plan, span->local ? DSF_ZEROONE_LOCAL : DSF_ZEROONE_GRADIENT,
            others, n == 2 ? 2 : 1, last, err);
    if (status == DSFLOW_OK && (span->last == 0 || first <= span->last))
        status = add_steps(
            plan, span->local ? DSF_ZEROONE_SYNC : DSF_ZEROONE_VARIANCE, first,
            n, span->last / n * n, err);
    return status;
}

/* As many spans as the interval can be doubled. */
static int add_programs(struct dsflow_plan *plan,
                        const struct dsf_zeroone_schedule *s,
                        struct dsflow_err *err)
{
    struct dsf_zeroone_span span = dsf_zeroone_first_span(s);
    int status = add_span(plan, &span, err);

    while (span.last != 0 && status == DSFLOW_OK) {
        span = dsf_zeroone_next_span(s, &span);
        status = add_span(plan, &span, err);
    }
    return status;
}

/* Each data rank is a worker, whose weights are its own in some steps; and what
 * a step does follows from its number, so that none may be skipped. */
static int check(const struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    const struct dsf_zeroone_keys *keys = dsf_zeroone_keys(job);

    if (keys->schedule.var_freeze_step + 1 >= job->main.steps)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, job->optimizer.kind,
                            "var_freeze_step",
                            "%lld: expected less than job.steps - 1, %lld",
                            (long long)keys->schedule.var_freeze_step,
                            (long long)job->main.steps - 1);
    if (dsf_zero_stage(job) > 0)
        return dsf_onebit_refuse(
            plan, err, "zero", "stage",
            "0, as each data rank has weights of its own,");
    if (plan->groups != plan->nreplicas)
        return dsf_onebit_refuse(
            plan, err, "batch", "groups",
            "as many as mesh.data, as each data rank has weights of its own,");
    if (plan->sequence_groups > 1)
        return dsf_onebit_refuse(
            plan, err, "batch", "sequence_groups",
            "1, as a sequence goes through the weights of one worker,");
    if (job->optimizer.clip > 0)
        return dsf_onebit_refuse(
            plan, err, "optimizer", "clip",
            "0, as no gradient of all groups is there to be measured,");
    if (dsf_compresses_params(job))
        return dsf_onebit_refuse(
            plan, err, "compress", "params",
            "none, as each data rank has weights of its own,");
    if (dsf_compute_type(job) == DSFLOW_FP16)
        return dsf_onebit_refuse(plan, err, "precision", "compute",
                                 "fp32 or bf16, as no step may be skipped,");
    if (job->train.on_nonfinite == DSF_SKIP_STEP)
        return dsf_onebit_refuse(plan, err, "train", "on_nonfinite",
                                 "stop, as no step may be skipped,");
    return dsf_onebit_check(plan, err);
}

int dsf_zeroone_decide(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_zeroone_keys *keys = dsf_zeroone_keys(plan->job);
    int status;

    if (keys == NULL)
        return DSFLOW_OK;
    status = check(plan, err);
    if (status == DSFLOW_OK)
        status = dsf_onebit_keep(plan, err);
    if (status == DSFLOW_OK)
        status = dsf_keep_of_groups(plan, DSF_OF_MOMENTUM, err);
    if (status == DSFLOW_OK)
        status = dsf_keep_of_groups(plan, DSF_OF_LOCAL, err);
    return status < 0 ? status : add_programs(plan, &keys->schedule, err);
}
