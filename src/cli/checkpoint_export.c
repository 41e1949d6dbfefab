/* checkpoint_export.c - dsflow checkpoint export RUN FOLDER: a model for other
 * programs. */
#include "base/alloc.h"
#include "base/notice.h"
#include "cli/job_flags.h"
#include "foreign/to_universal.h"
#include "policies/keys.h"
#include "train/export.h"
#include "train/params.h"

#include <stdlib.h>
#include <string.h>

/* As asked for, or the type that the run computes in. */
static enum dsflow_dtype dtype_of(const struct dsf_cli_args *args,
                                  const struct dsf_job *job)
{
    static const enum dsflow_dtype all[] = { DSFLOW_FP32, DSFLOW_BF16,
                                             DSFLOW_FP16 };
    const char *name = dsf_flag_value(args, "dtype");
    size_t i = 0;

    if (name == NULL)
        return dsf_compute_type(job);
    while (strcmp(name, dsflow_dtype_str(all[i])) != 0)
        i++;
    return all[i];
}

static int export_universal(const struct dsf_session *s,
                            const struct dsf_cli_args *args, int64_t step,
                            struct dsflow_err *err)
{
    int64_t from;
    int status = dsf_to_universal(s, args->words[2], step, &from, err);

    if (status == DSFLOW_OK)
        printf("%s: a universal checkpoint of step %lld, for DeepSpeed\n",
               args->words[2], (long long)from);
    return status;
}

/* The weights of the session as a Hugging Face folder. */
static int export_hf(const struct dsf_session *s,
                     const struct dsf_cli_args *args, int64_t step,
                     struct dsflow_err *err)
{
    struct dsf_export_spec spec = {
        .folder = args->words[2],
        .dtype = dtype_of(args, s->job),
        .read = dsf_params_read,
    };
    struct dsf_params *params = NULL;
    int64_t from;
    int status = dsf_params_open(s, step, &params, &from, err);

    if (status == DSFLOW_OK) {
        spec.updates = dsf_params_updates(params);
        spec.user = params;
        dsf_notice("writing %.250s", spec.folder);
        status = dsf_export(s, &spec, err);
    }
    dsf_params_close(params);
    if (status < 0)
        return status;
    if (from == DSF_START)
        printf("%s: the model as it starts, without training", spec.folder);
    else
        printf("%s: the model of step %lld", spec.folder, (long long)from);
    putchar('\n');
    return DSFLOW_OK;
}

/* What a universal folder cannot be. */
static int check_universal(const struct dsf_cli_args *args,
                           struct dsflow_err *err)
{
    if (dsf_flag_value(args, "dtype") != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "checkpoint export: --dtype: a universal folder "
                           "(--deepspeed) has fp32");
    if (dsf_is_hf_folder(args->words[1]))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "checkpoint export: --deepspeed: %s is a Hugging "
                           "Face folder: expected a run, which has moments",
                           args->words[1]);
    return DSFLOW_OK;
}

int dsf_checkpoint_export(const struct dsf_cli_args *args,
                          struct dsflow_err *err)
{
    const bool universal = dsf_flag_value(args, "deepspeed") != NULL;
    struct dsf_session s = { 0 };
    int64_t step = DSF_LATEST;
    int status = dsf_flag_whole(args, "step", 0, 1000000000, &step, err);

    if (status == DSFLOW_OK && universal)
        status = check_universal(args, err);
    if (status == DSFLOW_OK)
        status = dsf_open_model(&s, args->words[1], args, &step, err);
    if (status == DSFLOW_OK)
        status = universal ? export_universal(&s, args, step, err)
                           : export_hf(&s, args, step, err);
    dsf_session_close(&s);
    return status;
}
