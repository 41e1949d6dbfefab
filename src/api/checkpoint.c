/* checkpoint.c - checkpoints of runs. */
#include <dsflow/checkpoint.h>

#include "base/alloc.h"
#include "checkpoint/checkpoint.h"

#include <stdlib.h>

int dsflow_checkpoint_verify(const char *folder, int64_t *step,
                             struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta;
    int status = dsf_ckpt_verify(folder, &meta, err);

    if (status == DSFLOW_OK && step != NULL)
        *step = meta.step;
    return status;
}

int dsflow_checkpoint_latest(const char *output, int64_t *step,
                             struct dsflow_err *err)
{
    char *dir = dsf_xasprintf("%s/checkpoints", output), *path = NULL;
    struct dsf_ckpt_meta meta;
    int status = dsf_ckpt_latest(dir, 0, &path, &meta, err);

    if (status == DSFLOW_OK)
        *step = path != NULL ? meta.step : -1;
    free(path);
    free(dir);
    return status;
}
