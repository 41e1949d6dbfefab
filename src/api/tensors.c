/* tensors.c - tensors of a model, as Hugging Face has them. */
#include "api/api.h"

#include <string.h>

/* False: there is none. */
static bool find(const struct dsf_model *model, unsigned i,
                 struct dsf_tensor_place *place)
{
    for (unsigned u = 0; u < model->nunits; u++) {
        unsigned n = model->units[u].ntensors;

        if (i < n) {
            *place =
                (struct dsf_tensor_place){ u, &model->units[u].tensors[i] };
            return true;
        }
        i -= n;
    }
    return false;
}

int dsf_api_describe(const struct dsf_model *model, unsigned i,
                     struct dsflow_tensor_info *out)
{
    struct dsf_tensor_place place;
    const struct dsf_tensor *t;

    if (out->size < sizeof(*out) || !find(model, i, &place))
        return DSFLOW_EINVAL;
    t = place.tensor;
    out->name = t->name;
    out->layer = model->units[place.unit].layer;
    out->ndims = t->vector ? 1 : 2;
    out->dims[0] = t->vector || t->transposed ? t->cols : t->rows;
    out->dims[1] = t->vector ? 1 : t->transposed ? t->rows : t->cols;
    out->elems = t->rows * t->cols;
    return DSFLOW_OK;
}

int dsf_api_find(const struct dsf_model *model, const char *name, int64_t elems,
                 struct dsf_tensor_place *place, struct dsflow_err *err)
{
    for (unsigned i = 0; find(model, i, place); i++) {
        int64_t n = place->tensor->rows * place->tensor->cols;

        if (strcmp(place->tensor->name, name) != 0)
            continue;
        if (n == elems)
            return DSFLOW_OK;
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld elements: expected %lld", name,
                           (long long)elems, (long long)n);
    }
    return dsflow_fail(err, DSFLOW_EINVAL, "the model has no tensor %.100s",
                       name);
}

/* to[cols][rows] of from[rows][cols]. */
static void transpose(const float *from, float *to, int64_t rows, int64_t cols)
{
    enum { BLOCK = 32 }; /* stays in the cache */

    for (int64_t r = 0; r < rows; r += BLOCK)
        for (int64_t c = 0; c < cols; c += BLOCK)
            for (int64_t i = r; i < rows && i < r + BLOCK; i++)
                for (int64_t j = c; j < cols && j < c + BLOCK; j++)
                    to[j * rows + i] = from[i * cols + j];
}

void dsf_api_take(const struct dsf_tensor_place *place, const float *unit,
                  float *to)
{
    const struct dsf_tensor *t = place->tensor;

    if (t->transposed)
        transpose(unit + t->offset, to, t->rows, t->cols);
    else
        memcpy(to, unit + t->offset, (size_t)(t->rows * t->cols) * sizeof(*to));
}

void dsf_api_give(const struct dsf_tensor_place *place, float *unit,
                  const float *from)
{
    const struct dsf_tensor *t = place->tensor;

    if (t->transposed)
        transpose(from, unit + t->offset, t->cols, t->rows);
    else
        memcpy(unit + t->offset, from,
               (size_t)(t->rows * t->cols) * sizeof(*from));
}
