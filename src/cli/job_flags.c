/* job_flags.c - flags that commands with a job share. */
#include "cli/job_flags.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "config/job_saved.h"
#include "train/params.h"
#include "train/traced.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int dsf_open_job(struct dsf_session *s, const char *path,
                 const struct dsf_cli_args *args, struct dsflow_err *err)
{
    unsigned nsets;
    const char **sets = dsf_flag_values(args, "set", &nsets);
    int64_t steps = 0;
    int status = dsf_flag_whole(args, "steps", 1, 1000000000, &steps, err);
    char *last = dsf_xasprintf("job.steps=%lld", (long long)steps);

    if (steps > 0)
        sets[nsets++] = last;
    if (status == DSFLOW_OK)
        status = dsf_session_model(s, path, sets, nsets, err);
    free(sets);
    free(last);
    return status;
}

bool dsf_is_hf_folder(const char *path)
{
    return dsf_file_is_in(path, "config.json") &&
           !dsf_file_is_in(path, "job.toml");
}

/* A Hugging Face folder is a job of its own: a model and its tokenizer, unless
 * --set names another one. */
static int open_folder(struct dsf_session *s, const char *folder,
                       const struct dsf_cli_args *args, struct dsflow_err *err)
{
    static const char text[] = "[job]\nsteps = 1\n";
    char *init = dsf_xasprintf("model.init=%s", folder);
    unsigned nopts;
    const char **given = dsf_flag_values(args, "set", &nopts);
    const char **sets = dsf_xcalloc(nopts + 1, sizeof(*sets));
    int status;

    sets[0] = init;
    memcpy(sets + 1, given, nopts * sizeof(*sets));
    status = dsf_session_parse(s, text, folder, sets, nopts + 1, NULL, err);
    free(sets);
    free(given);
    free(init);
    return status;
}

int dsf_open_model(struct dsf_session *s, const char *path,
                   const struct dsf_cli_args *args, int64_t *step,
                   struct dsflow_err *err)
{
    if (!dsf_is_hf_folder(path))
        return dsf_open_job(s, path, args, err);
    if (*step >= 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--step: %s is a Hugging Face folder and has no "
                           "steps",
                           path);
    *step = DSF_START;
    return open_folder(s, path, args, err);
}

int64_t dsf_flag_ranks(const struct dsf_cli_args *args)
{
    const char *path = args->words[0];
    bool is_run = dsf_is_run(path);
    char *file =
        is_run ? dsf_xasprintf("%s/job.toml", path) : dsf_xstrdup(path);
    unsigned nsets;
    const char **sets = dsf_flag_values(args, "set", &nsets);
    struct dsf_job job;
    int64_t ranks = 0;
    int status =
        is_run ? dsf_job_read_saved(file, sets, nsets, NULL, true, &job, NULL)
               : dsf_job_read(file, sets, nsets, NULL, &job, NULL);

    if (status == DSFLOW_OK) {
        ranks = (int64_t)fmin(dsf_job_ranks(&job), INT32_MAX);
        dsf_job_fini(&job);
    }
    free(file);
    free(sets);
    return ranks;
}

enum dsflow_exec_kind dsf_flag_executor(const struct dsf_cli_args *args)
{
    const char *name = dsf_flag_value(args, "executor");

    return name != NULL && strcmp(name, "serial") == 0 ? DSFLOW_SERIAL
                                                       : DSFLOW_STARPU;
}

int dsf_flag_resume(const struct dsf_cli_args *args, struct dsf_resume *r,
                    struct dsflow_err *err)
{
    const char *resume = dsf_flag_value(args, "resume");

    r->asked = resume != NULL;
    r->overwrite = dsf_flag_value(args, "overwrite") != NULL;
    if (r->asked && r->overwrite)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--resume and --overwrite: expected one of them");
    r->good = r->asked && strcmp(resume, "latest-good") == 0;
    r->changes = r->asked && strcmp(resume, "changed") == 0;
    return DSFLOW_OK;
}

int dsf_flag_trace(const struct dsf_cli_args *args, struct dsf_session *s,
                   int64_t done, struct dsflow_err *err)
{
    const char *value = dsf_flag_value(args, "trace");
    int64_t steps = s->job->main.steps;
    long long first = 1, last = steps;
    char *set, rest;
    int status;

    if (value == NULL || done == steps)
        return DSFLOW_OK;
    if (value[0] == '\0') {
        int64_t from, to;

        dsf_traced_some(steps, done, &from, &to);
        first = from;
        last = to;
    } else if (strcmp(value, "all") != 0 &&
               (sscanf(value, "%lld:%lld%c", &first, &last, &rest) != 2 ||
                first < 1 || first > last || first > steps)) {
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--trace=%.60s: expected FIRST:LAST, steps from 1 "
                           "to %lld, or all",
                           value, (long long)steps);
    }
    if (last <= done) /* no error: a restart has the flags of the run */
        dsf_warn("--trace=%s: has no effect: the run goes on from step %lld",
                 value, (long long)done);
    if (last > steps)
        last = steps;
    set = dsf_xasprintf("trace.steps=[%lld, %lld]", first, last);
    status = dsf_session_set(s, DSF_GIVEN, (const char *const *)&set, 1, err);
    free(set);
    return status;
}
