/* ds_activations.c - what a configuration says of inputs of matrices that are
 * rounded to few bits, as keys of a job. */
#include "import/ds_groups.h"

#include <stdlib.h>
#include <string.h>

#define AQ "compression_training.activation_quantization.shared_parameters."

static void check_range(struct dsf_ds *x)
{
    const char *path = AQ "range_calibration";
    const char *range = dsf_ds_text(x, path, "dynamic");

    if (strcmp(range, "static") == 0)
        dsf_ds_refuse(x, path,
                      "static: dsflow finds the scales of each token anew, "
                      "and keeps no ranges of earlier steps: expected dynamic");
    else if (strcmp(range, "dynamic") != 0)
        dsf_ds_refuse(x, path, "%.40s: expected dynamic", range);
}

static void take_type(struct dsf_ds *x)
{
    const char *path = AQ "quantization_type";
    const char *type = dsf_ds_text(x, path, "symmetric");

    if (strcmp(type, "symmetric") != 0 && strcmp(type, "asymmetric") != 0) {
        dsf_ds_refuse(x, path, "%.40s: expected symmetric or asymmetric", type);
        return;
    }
    dsf_ds_set_text(x, "activations", "quantize", path, type);
}

static void take_bits(struct dsf_ds *x, const struct dsf_ds_groups *g)
{
    char *path = dsf_ds_param(g->first, "bits");

    if (dsf_ds_get(x, path) == NULL) {
        dsf_ds_refuse(x, g->first, "has no params.bits: expected 2 to 8");
    } else {
        dsf_ds_set(x, "activations", "bits", path, "%lld",
                   (long long)dsf_ds_whole(x, path, 0));
        if (g->outside)
            dsf_ds_add_comment(x, "activations", "bits",
                               "; modules outside of blocks, as the head, have "
                               "exact inputs here");
    }
    free(path);
}

void dsf_ds_activations(struct dsf_ds *x)
{
    static const char *const bits[] = { "bits", NULL };
    struct dsf_ds_groups g = {
        .path = "compression_training.activation_quantization.different_groups",
        .params = bits,
        .of = "[activations] is of all matrices of blocks",
    };

    if (!dsf_ds_true(x, AQ "enabled", false))
        return;
    check_range(x);
    take_type(x);
    if (dsf_ds_take_groups(x, &g)) {
        take_bits(x, &g);
        dsf_ds_set(x, "activations", "group", AQ "range_calibration", "0");
        dsf_ds_set(x, "activations", "quantize_from", AQ "schedule_offset",
                   "%lld",
                   (long long)dsf_ds_whole(x, AQ "schedule_offset", 1000));
    }
    free(g.first);
}
