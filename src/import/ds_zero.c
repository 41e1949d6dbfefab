/* ds_zero.c - what a configuration says of ZeRO, and of what is kept in which
 * memory, as keys of a job. */
#include "import/ds_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define Z "zero_optimization."

/* Errors of gradients, which are in 8 bits there. */
#define LOCO Z "zeropp_loco_param"
static void take_errors(struct dsf_ds *x)
{
    if (dsf_ds_get(x, LOCO) == NULL)
        return;
    dsf_ds_set_text(x, "compress", "error", LOCO, "int8");
    dsf_ds_take_number(x, "compress", "error_beta", LOCO ".err_beta", 0.8);
    dsf_ds_set(x, "compress", "error_reset", LOCO ".reset_T", "%lld",
               (long long)dsf_ds_whole(x, LOCO ".reset_T", 1024));
}

void dsf_ds_zero(struct dsf_ds *x, const char *compute)
{
    int64_t stage = dsf_ds_whole(x, Z "stage", 0);
    bool narrow = strcmp(compute, "fp32") != 0;
    const char *path = dsf_ds_get(x, Z "param_persistence_threshold") != NULL
                           ? Z "param_persistence_threshold"
                           : Z "stage3_param_persistence_threshold";
    int64_t keep = dsf_ds_whole(x, path, 100000);

    if (dsf_ds_true(x, "sparse_gradients", false))
        dsf_ds_set_text(x, "compress", "embedding", "sparse_gradients", "rows");
    if (stage == 0)
        return;
    dsf_ds_set(x, "zero", "stage", Z "stage", "%lld", (long long)stage);
    /* In bytes; of whole units here. */
    if (stage == 3 && !dsf_ds_is_auto(x, path))
        dsf_ds_set(x, "zero", "keep", path, "\"%lldB\"",
                   (long long)keep * (narrow ? 2 : 4));
    /* ZeRO++, which is of stage 3 there. */
    if (stage == 3 && dsf_ds_true(x, Z "zero_quantized_weights", false))
        dsf_ds_set_text(x, "compress", "params", Z "zero_quantized_weights",
                        "int8");
    if (stage == 3 && dsf_ds_whole(x, Z "zero_hpz_partition_size", 1) > 1)
        dsf_ds_set(x, "compress", "secondary", Z "zero_hpz_partition_size",
                   "%lld",
                   (long long)dsf_ds_whole(x, Z "zero_hpz_partition_size", 1));
    if (stage == 3 && dsf_ds_true(x, Z "zero_quantized_gradients", false)) {
        dsf_ds_set_text(x, "compress", "gradients",
                        Z "zero_quantized_gradients", "int4");
        take_errors(x);
    }
}

/* The folder on NVMe, one for all that is there. */
static void take_disk(struct dsf_ds *x, const char *path)
{
    static const char first[] = Z "offload_optimizer.nvme_path";
    const char *folder = dsf_ds_text(x, path, "/local_nvme");

    if (strcmp(path, first) != 0 &&
        strcmp(dsf_ds_text(x, Z "offload_optimizer.device", ""), "nvme") == 0 &&
        strcmp(dsf_ds_text(x, first, "/local_nvme"), folder) != 0)
        dsf_ds_refuse(x, path,
                      "%.200s: all that is on NVMe is in one folder: expected "
                      "that of offload_optimizer",
                      folder);
    dsf_ds_set_text(x, "memory.nvme", "path", path, folder);
}

/* Of its section, or of the key that it had before. */
static void take_device(struct dsf_ds *x, const char *key, const char *section,
                        const char *before)
{
    char *path = dsf_xasprintf(Z "%s.device", section);
    char *disk = dsf_xasprintf(Z "%s.nvme_path", section);
    const char *device = dsf_ds_text(x, path, NULL), *from = path;

    if (device == NULL && dsf_ds_true(x, before, false)) {
        device = "cpu";
        from = before;
    }
    if (device == NULL || strcmp(device, "none") == 0) {
        /* On the device. */
    } else if (strcmp(device, "cpu") != 0 && strcmp(device, "nvme") != 0) {
        dsf_ds_refuse(x, path, "%.40s: expected none, cpu or nvme", device);
    } else {
        dsf_ds_set_text(x, "offload", key, from, device);
        if (strcmp(device, "nvme") == 0)
            take_disk(x, disk);
    }
    free(path);
    free(disk);
}

static void take_share(struct dsf_ds *x)
{
    const char *path = Z "offload_optimizer.ratio";
    double ratio = dsf_ds_number(x, path, 1);

    if (ratio < 0 || ratio > 1)
        dsf_ds_refuse(x, path, "%g: expected 0 to 1", ratio);
    else if (ratio < 1 &&
             strcmp(dsf_ds_text(x, Z "offload_optimizer.device", "none"),
                    "none") != 0)
        dsf_ds_set_number(x, "offload", "share", path, 1 - ratio);
}

static bool has_disk(const struct dsf_ds *x)
{
    for (size_t i = 0; i < x->nlines; i++)
        if (strcmp(x->lines[i].table, "memory.nvme") == 0)
            return true;
    return false;
}

void dsf_ds_memories(struct dsf_ds *x)
{
    take_device(x, "optimizer", "offload_optimizer", Z "cpu_offload");
    take_device(x, "params", "offload_param",
                dsf_ds_get(x, Z "cpu_offload_param") != NULL
                    ? Z "cpu_offload_param"
                    : Z "cpu_offload_params");
    take_share(x);
    if (dsf_ds_true(x, "activation_checkpointing.cpu_checkpointing", false))
        dsf_ds_set_text(x, "offload", "activations",
                        "activation_checkpointing.cpu_checkpointing", "cpu");
    if (!has_disk(x))
        return;
    dsf_ds_set(x, "memory.nvme", "block", "aio.block_size", "\"%lldB\"",
               (long long)dsf_ds_whole(x, "aio.block_size", 1 << 20));
    dsf_ds_set(x, "memory.nvme", "depth", "aio.queue_depth", "%lld",
               (long long)dsf_ds_whole(x, "aio.queue_depth", 8));
}
