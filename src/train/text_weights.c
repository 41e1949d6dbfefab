/* text_weights.c - the weights of a model as text is made with them. */
#include "train/text_weights.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "kernels/narrow.h"
#include "model/model_inputs.h"
#include "policies/trained_weights.h"
#include "train/generation_types.h"

#include <stdlib.h>
#include <string.h>

static void begin(struct dsf_text_weights *w, const struct dsf_model *m,
                  const struct dsf_job *job, int64_t updates)
{
    *w = (struct dsf_text_weights){
        .v = dsf_xcalloc(m->nunits, sizeof(*w->v)),
        .own = dsf_xcalloc(m->nunits, sizeof(*w->own)),
        .n = m->nunits,
        .exact = job != NULL && dsf_inputs_wait(job, updates),
    };
}

/* Numbers of fp32 as those of `type`, in memory of their own. */
static int round_unit(struct dsf_text_weights *w, const struct dsf_model *m,
                      unsigned u, enum dsflow_dtype type, const float *wide,
                      struct dsflow_err *err)
{
    const size_t n = (size_t)m->units[u].elems;
    const size_t bytes = n * sizeof(uint16_t);

    w->v[u] = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (w->v[u] == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for unit %s of the model",
                           dsf_size_text((double)bytes).s, m->units[u].name);
    w->own[u] = true;
    dsf_narrow(type)->narrow(wide, n, NULL, w->v[u], n, 1, n);
    return DSFLOW_OK;
}

/* What tasks use of numbers in memory of their own, which it takes over. */
static int take_unit(struct dsf_text_weights *w, const struct dsf_model *m,
                     unsigned u, enum dsflow_dtype type, float *wide,
                     struct dsflow_err *err)
{
    int status;

    if (type == DSFLOW_FP32) {
        w->v[u] = wide;
        w->own[u] = true;
        return DSFLOW_OK;
    }
    status = round_unit(w, m, u, type, wide, err);
    free(wide);
    return status;
}

static bool is_changed(const struct dsf_model *m, const struct dsf_job *job,
                       unsigned u)
{
    struct dsf_weight_form form;

    return dsf_trained_form(job, m, &m->units[u], &form);
}

static int lend_changed(struct dsf_text_weights *w, const struct dsf_model *m,
                        const struct dsf_job *job, int64_t updates, unsigned u,
                        enum dsflow_dtype type, const float *params,
                        struct dsflow_err *err)
{
    float *wide = NULL;
    int status = dsf_unit_alloc(m, u, &wide, err);

    if (status < 0)
        return status;
    memcpy(wide, params, (size_t)m->units[u].elems * sizeof(*wide));
    dsf_trained_apply(job, m, u, updates, wide);
    return take_unit(w, m, u, type, wide, err);
}

int dsf_text_weights_lend(struct dsf_text_weights *w, const struct dsf_model *m,
                          const struct dsf_job *job, int64_t updates,
                          float *const *params, struct dsflow_err *err)
{
    const struct dsf_generation_types types = dsf_generation_types(m, job);
    int status = DSFLOW_OK;

    begin(w, m, job, updates);
    for (unsigned u = 0; u < m->nunits && status == DSFLOW_OK; u++) {
        enum dsflow_dtype type = dsf_generation_unit_type(m, types, u);

        if (is_changed(m, job, u))
            status = lend_changed(w, m, job, updates, u, type, params[u], err);
        else if (type == DSFLOW_FP32)
            w->v[u] = params[u];
        else
            status = round_unit(w, m, u, type, params[u], err);
    }
    return status;
}

int dsf_text_weights_read(struct dsf_text_weights *w, const struct dsf_model *m,
                          const struct dsf_job *job, int64_t updates,
                          dsf_unit_fn read, void *user, struct dsflow_err *err)
{
    const struct dsf_generation_types types = dsf_generation_types(m, job);
    int status = DSFLOW_OK;

    begin(w, m, job, updates);
    dsf_notice("reading the weights");
    for (unsigned u = 0; u < m->nunits && status == DSFLOW_OK; u++) {
        float *wide = NULL;

        status = dsf_unit_alloc(m, u, &wide, err);
        if (status == DSFLOW_OK)
            status = read(user, u, wide, err);
        if (status < 0) {
            free(wide);
            break;
        }
        dsf_trained_apply(job, m, u, updates, wide);
        status = take_unit(w, m, u, dsf_generation_unit_type(m, types, u), wide,
                           err);
    }
    dsf_notice_end();
    return status;
}

void dsf_text_weights_fini(struct dsf_text_weights *w)
{
    for (unsigned u = 0; u < w->n; u++)
        if (w->own[u])
            free(w->v[u]);
    free(w->v);
    free(w->own);
    *w = (struct dsf_text_weights){ .n = 0 };
}

double dsf_text_weights_bytes(const struct dsf_model *m,
                              const struct dsf_job *job)
{
    const struct dsf_generation_types types = dsf_generation_types(m, job);
    double bytes = 0;

    for (unsigned u = 0; u < m->nunits; u++) {
        enum dsflow_dtype type = dsf_generation_unit_type(m, types, u);

        if (type != DSFLOW_FP32 || is_changed(m, job, u))
            bytes += (double)dsflow_dtype_bytes(type, m->units[u].elems);
    }
    return bytes;
}
