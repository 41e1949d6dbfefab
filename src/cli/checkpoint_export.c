/* checkpoint_export.c - dsflow checkpoint export RUN FOLDER: a model for other
 * programs, all of it or a smaller one. */
#include "base/alloc.h"
#include "base/new_folder.h"
#include "base/notice.h"
#include "cli/job_flags.h"
#include "config/layer_list.h"
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

enum { MOST_LAYERS = 1024 }; /* that a job may have */

/* What --layers, --heads and --ffn-width leave of the model. */
static int read_prune(const struct dsf_cli_args *args,
                      const struct dsf_model *m, int32_t *layers,
                      struct dsf_prune *prune, struct dsflow_err *err)
{
    const char *list = dsf_flag_value(args, "layers");
    int status;

    *prune = (struct dsf_prune){
        .layers = layers,
        .nlayers = m->layers,
        .heads = m->dims.heads,
        .ffn_width = m->dims.ffn,
    };
    for (int32_t l = 0; l < m->layers; l++)
        layers[l] = l;
    if (list != NULL)
        prune->nlayers =
            dsf_layer_list_in_order(list, m->layers, layers, MOST_LAYERS);
    if (prune->nlayers < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--layers: %.60s: " DSF_LAYERS_IN_ORDER_EXPECTED,
                           list, MOST_LAYERS, (int)m->layers - 1);
    status =
        dsf_flag_whole(args, "heads", 1, m->dims.heads, &prune->heads, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "ffn-width", 1, m->dims.ffn,
                                &prune->ffn_width, err);
    return status;
}

static bool is_pruned(const struct dsf_cli_args *args)
{
    return dsf_flag_value(args, "layers") != NULL ||
           dsf_flag_value(args, "heads") != NULL ||
           dsf_flag_value(args, "ffn-width") != NULL;
}

static void print_prune(const struct dsf_model *m,
                        const struct dsf_prune *prune)
{
    const struct {
        const char *what;
        long long is, was;
    } sizes[] = {
        { "layers", prune->nlayers, m->layers },
        { "heads", prune->heads, m->dims.heads },
        { "ffn_width", prune->ffn_width, m->dims.ffn },
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        if (sizes[i].is != sizes[i].was)
            printf(", %s %lld of %lld", sizes[i].what, sizes[i].is,
                   sizes[i].was);
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
    int32_t layers[MOST_LAYERS];
    struct dsf_prune prune;
    struct dsf_params *params = NULL;
    int64_t from;
    int status = read_prune(args, &s->model, layers, &prune, err);

    spec.prune = is_pruned(args) ? &prune : NULL;
    if (status == DSFLOW_OK)
        status = dsf_params_open(s, step, &params, &from, err);
    if (status == DSFLOW_OK && (prune.heads != s->model.dims.heads ||
                                prune.ffn_width != s->model.dims.ffn))
        status = dsf_second_moments_open(s, params, &prune.moments, err);
    if (status == DSFLOW_OK) {
        spec.updates = dsf_params_updates(params);
        spec.user = params;
        dsf_notice("writing %.250s", spec.folder);
        status = dsf_export(s, &spec, err);
    }
    dsf_second_moments_close(prune.moments);
    dsf_params_close(params);
    if (status < 0)
        return status;
    if (from == DSF_START)
        printf("%s: the model as it starts, without training", spec.folder);
    else
        printf("%s: the model of step %lld", spec.folder, (long long)from);
    print_prune(&s->model, &prune);
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
    if (is_pruned(args))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "checkpoint export: --layers, --heads and "
                           "--ffn-width: a universal folder (--deepspeed) has "
                           "the whole model");
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
        status = dsf_new_folder_check(args->words[2], err);
    if (status == DSFLOW_OK)
        status = dsf_open_model(&s, args->words[1], args, &step, err);
    if (status == DSFLOW_OK)
        status = universal ? export_universal(&s, args, step, err)
                           : export_hf(&s, args, step, err);
    dsf_session_close(&s);
    return status;
}
