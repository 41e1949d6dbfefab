/* traced.c - which steps of a run are traced. */
#include "train/traced.h"

#include "base/alloc.h"
#include "train/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int dsf_traced_check(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsflow_ints *steps = &job->trace.steps;

    if (steps->n == 0)
        return DSFLOW_OK;
    if (steps->n != 2 || steps->v[0] > steps->v[1])
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "trace", "steps",
                            "expected the first and the last step");
    if (steps->v[0] > job->main.steps)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "trace", "steps",
                            "%lld: expected at most the %lld steps of the job",
                            (long long)steps->v[0],
                            (long long)job->main.steps);
    return DSFLOW_OK;
}

void dsf_traced_some(int64_t steps, int64_t done, int64_t *first, int64_t *last)
{
    enum { WARM = 2, SOME = 5 };

    *first = done + 1 + WARM;
    if (*first > steps - SOME + 1)
        *first = steps - SOME + 1;
    if (*first < done + 1)
        *first = done + 1;
    *last = *first + SOME - 1;
}

static int record(struct dsf_meter *meter, const struct dsf_session *s,
                  const struct dsf_machine_model *machine,
                  const struct dsf_prediction *prediction, const char *executor,
                  const char *path, int64_t done, struct dsflow_err *err)
{
    const struct dsflow_ints *steps = &s->job->trace.steps;
    int64_t first = steps->v[0] > done ? steps->v[0] : done + 1;
    int64_t last =
        steps->v[1] < s->job->main.steps ? steps->v[1] : s->job->main.steps;
    struct dsf_trace trace;
    int status;

    dsf_record_init(&trace, s, machine, prediction, executor);
    trace.facts.first = done + 1;
    status = dsf_meter_record(meter, &trace, path, first - done - 1,
                              last - done - 1, err);
    dsf_trace_fini(&trace);
    return status;
}

int dsf_traced_open(struct dsf_meter *meter, const struct dsf_session *s,
                    const struct dsf_machine_model *machine,
                    const struct dsf_prediction *prediction,
                    const char *executor, int64_t done, struct dsflow_err *err)
{
    const struct dsflow_ints *steps = &s->job->trace.steps;
    char *path = dsf_xasprintf("%s/trace.dsflow", s->job->main.output);
    int status = DSFLOW_OK;

    if (steps->n > 0 && steps->v[1] > done && done < s->job->main.steps)
        status = record(meter, s, machine, prediction, executor, path, done,
                        err);
    else if (done == 0)
        unlink(path);
    free(path);
    return status;
}
