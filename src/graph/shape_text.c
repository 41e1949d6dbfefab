/* shape_text.c - the shape of a piece of data as people read it. */
#include "graph/shape_text.h"

struct dsf_shape_text dsf_shape_text(const struct dsflow_data_spec *data)
{
    const char *dtype = dsflow_dtype_str((enum dsflow_dtype)data->dtype);
    struct dsf_shape_text text;
    size_t at = 0;

    if (data->ndims == 0) {
        snprintf(text.s, sizeof(text.s),
                 data->dtype == DSFLOW_BYTES ? "%lld %s" : "[%lld] %s",
                 (long long)data->elems, dtype);
        return text;
    }
    for (unsigned i = 0; i < data->ndims && i < DSFLOW_MAX_DIMS; i++)
        at += (size_t)snprintf(text.s + at, sizeof(text.s) - at, "%s%lld",
                               i == 0 ? "[" : ", ", (long long)data->dims[i]);
    snprintf(text.s + at, sizeof(text.s) - at, "] %s", dtype);
    return text;
}
