/* model_inputs.c - which inputs of matrices are rounded. */
#include "model/model_inputs.h"

#include "segments/segment.h"

#include <string.h>

void dsf_model_find_inputs(struct dsf_model *m, const struct dsf_job *job)
{
    const struct dsf_job_activations *keys = &job->activations;

    if (keys->quantize == DSF_INPUTS_EXACT)
        return;
    m->dims.input_quantizer = (int16_t)keys->quantize;
    m->dims.input_bits = (int16_t)keys->bits;
    m->dims.input_group = (int32_t)keys->group;
}

bool dsf_inputs_wait(const struct dsf_job *job, int64_t updates)
{
    const struct dsf_job_activations *keys = &job->activations;

    return keys->quantize != DSF_INPUTS_EXACT && updates < keys->quantize_from;
}

static int check_group(const struct dsf_job *job, int32_t n, const char *what,
                       struct dsflow_err *err)
{
    const int64_t group = job->activations.group;

    if (group == 0 && n % DSF_QUANTIZE_LEAST != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "activations", "group",
                            "0: expected a multiple of %d in %s, not %d",
                            DSF_QUANTIZE_LEAST, what, (int)n);
    if (group == 0 || n % group == 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "activations", "group",
                        "%lld: expected a divisor of %s, %d", (long long)group,
                        what, (int)n);
}

static int check_layer(const struct dsf_job *job, const struct dsf_dims *d,
                       struct dsflow_err *err)
{
    int status = check_group(job, d->width, "model.width", err);

    if (status == DSFLOW_OK)
        status = check_group(job, d->heads * d->head_dim,
                             "the width of all heads", err);
    return status < 0 ? status
                      : check_group(job, d->ffn, "the width of the MLP", err);
}

/* What a plug-in brings may multiply what it has not rounded. */
static int check_built_in(const struct dsf_model *m, const struct dsf_job *job,
                          struct dsflow_err *err)
{
    static const char *const names[] = { DSF_INPUT_QUANTIZERS(
        DSF_CHOICE_NAME) };
    static const char *const multiply[] = { "qkv", "out", "mlp" };
    const char *by = NULL;

    for (unsigned i = 0; m->block[i] != NULL; i++)
        if (m->block[i]->hooks == NULL)
            by = m->block[i]->name;
    for (size_t i = 0; i < sizeof(multiply) / sizeof(*multiply); i++)
        if (strcmp(dsf_job_replacing(job, multiply[i]), "builtin") != 0)
            by = dsf_job_replacing(job, multiply[i]);
    if (by == NULL)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "activations", "quantize",
                        "\"%s\": expected none with the segment \"%s\" of a "
                        "plug-in, whose inputs nobody rounds",
                        names[job->activations.quantize], by);
}

int dsf_model_check_inputs(const struct dsf_model *m, const struct dsf_job *job,
                           struct dsflow_err *err)
{
    const int64_t group = job->activations.group;
    int status;

    if (job->activations.quantize == DSF_INPUTS_EXACT)
        return DSFLOW_OK;
    if (group != 0 && !dsf_is_quantize_group(group))
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "activations", "group",
                            "%lld: expected 0, 16, 32, 64 or 128",
                            (long long)group);
    status = check_built_in(m, job, err);
    for (int32_t l = 0; l < m->layers && status == DSFLOW_OK; l++)
        status = check_layer(job, &dsf_model_layer(m, l)->dims, err);
    return status;
}
