/* mfu.c - how much of what its GPUs are built for a run gets out of them. */
#include "train/mfu.h"

#include "exec/cuda_module.h"
#include "machine/gpu_peak.h"
#include "plan/division.h"
#include "plan/sight.h"
#include "policies/keys.h"
#include "segments/segment.h"
#include "train/machine_keys.h"

/* Parameters of blocks and norms. */
static double count_params(const struct dsf_model *m)
{
    double n = 0;

    for (unsigned u = 0; u < m->nunits; u++) {
        const struct dsf_unit *unit = &m->units[u];
        bool matrix = unit->segment == &dsf_segment_embed ||
                      (unit->segment == &dsf_segment_head &&
                       u == dsf_model_unit(m, m->layers, &dsf_segment_head,
                                           DSF_HEAD_UNIT_W));

        for (unsigned t = 0; t < unit->ntensors && !matrix; t++)
            n += (double)(unit->tensors[t].rows * unit->tensors[t].cols);
    }
    return n;
}

double dsf_token_operations(const struct dsf_model *m, int64_t sequence)
{
    double head = (double)m->dims.vocab * m->dims.width, pairs = 0;

    for (int32_t l = 0; l < m->layers; l++) {
        const struct dsf_dims *d = &dsf_model_layer(m, l)->dims;

        pairs +=
            (double)d->heads * d->head_dim * dsf_model_keys(m, l, sequence);
    }
    return 6 * (count_params(m) + head) + 6 * pairs;
}

/* Of those, what layouts of attention leave out. */
static double hidden_operations(const struct dsflow_plan *plan)
{
    double n = 0;

    for (int32_t l = 0; l < plan->model->layers; l++) {
        const struct dsf_dims *d = &dsf_model_layer(plan->model, l)->dims;

        n += 6 * (double)d->heads * d->head_dim *
             (dsf_model_keys(plan->model, l, plan->sequence) -
              dsf_plan_keys(plan, l));
    }
    return n;
}

double dsf_token_seconds(const struct dsflow_plan *plan)
{
    unsigned gpus = dsf_gpus_of(plan->machine, plan->nranks).n;
    struct dsf_gpu_about about;
    struct dsflow_err err;
    double peak;

    if (gpus == 0 || dsf_cuda_about(0, &about, &err) < 0)
        return 0;
    /* By the data sheets, all of them do half as much in TF32 as in bf16. */
    peak = dsf_machine_keys_tf32(plan->job, plan->machine)
               ? dsf_gpu_peak(about.name, DSFLOW_BF16) / 2
               : dsf_gpu_peak(about.name, dsf_compute_type(plan->job));
    return peak > 0 ? (dsf_token_operations(plan->model, plan->sequence) -
                       hidden_operations(plan)) /
                          (peak * gpus)
                    : 0;
}
