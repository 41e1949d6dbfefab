/* tensor_norms.c - how large the parameters are. */
#include "train/tensor_norms.h"

#include "base/units.h"
#include "plan/kept.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_larger(double a, double b)
{
    return isnan(a) ? !isnan(b) : a > b;
}

static void take(struct dsf_tensor_norms *norms, const char *name, double norm)
{
    unsigned at = norms->n;

    norms->ntensors++;
    norms->ninfinite += !isfinite(norm);
    while (at > 0 && is_larger(norm, norms->largest[at - 1].norm))
        at--;
    if (at == DSF_LARGEST_NORMS)
        return;
    if (norms->n < DSF_LARGEST_NORMS)
        norms->n++;
    memmove(&norms->largest[at + 1], &norms->largest[at],
            (norms->n - 1 - at) * sizeof(*norms->largest));
    norms->largest[at].name = name;
    norms->largest[at].norm = norm;
}

static void take_unit(struct dsf_tensor_norms *norms,
                      const struct dsf_unit *unit, const float *whole)
{
    for (unsigned i = 0; i < unit->ntensors; i++) {
        const struct dsf_tensor *t = &unit->tensors[i];
        double sum = 0;

        for (int64_t k = t->offset; k < t->offset + t->rows * t->cols; k++)
            sum += (double)whole[k] * (double)whole[k];
        take(norms, t->name, dsf_unsigned_nan(sqrt(sum)));
    }
}

int dsf_tensor_norms(struct dsf_contents *c, struct dsf_tensor_norms *norms,
                     struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    *norms = (struct dsf_tensor_norms){ 0 };
    for (unsigned u = 0; u < c->model->nunits && status == DSFLOW_OK; u++) {
        float *whole = NULL;

        status = dsf_unit_alloc(c->model, u, &whole, err);
        if (status == DSFLOW_OK)
            status = dsf_contents_get(c, u, DSF_KEPT_PARAM, whole, err);
        if (status == DSFLOW_OK)
            take_unit(norms, &c->model->units[u], whole);
        free(whole);
    }
    return status;
}

struct dsf_norms_text dsf_norms_text(const struct dsf_tensor_norms *norms)
{
    struct dsf_norms_text text;
    size_t at = 0;

    at += (size_t)snprintf(text.s, sizeof(text.s),
                           "the largest norms of parameters:");
    for (unsigned i = 0; i < norms->n; i++)
        at += (size_t)snprintf(text.s + at, sizeof(text.s) - at, "%s %s %.3g",
                               i > 0 ? "," : "", norms->largest[i].name,
                               norms->largest[i].norm);
    if (norms->ninfinite > 0)
        snprintf(text.s + at, sizeof(text.s) - at, " (%u of %u are not finite)",
                 norms->ninfinite, norms->ntensors);
    return text;
}
