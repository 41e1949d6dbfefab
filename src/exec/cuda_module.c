/* cuda_module.c - find and open the module with the CUDA side. */
#include "exec/cuda_module.h"

#include "base/alloc.h"
#include "base/module.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dsf_module file = {
    .file = "dsflow-cuda.so",
    .variable = DSF_CUDA_VARIABLE,
    .lacking = "CUDA's toolkit",
    .symbol = DSF_GPU_SYMBOL,
    .abi = DSF_GPU_ABI,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static const struct dsf_gpu *module;
static struct dsflow_err why_not;

const struct dsf_gpu *dsf_cuda_module(struct dsflow_err *err)
{
    pthread_mutex_lock(&lock);
    if (!tried)
        module = dsf_module_open(&file, &why_not);
    tried = true;
    pthread_mutex_unlock(&lock);
    if (module == NULL)
        dsflow_fail(err, DSFLOW_ENOSYS, "%s", why_not.msg);
    return module;
}

static struct setting {
    const char *name, *value;
    char *before; /* of who started this process */
} settings[] = {
    { "CUDA_MODULE_LOADING", "EAGER", NULL },
    { "CUDA_DEVICE_MAX_CONNECTIONS", "32", NULL },
    { "CUDA_LAUNCH_BLOCKING", "0", NULL },
    { "NCCL_LAUNCH_ORDER_IMPLICIT", "0", NULL },
    { "NCCL_LAUNCH_MODE", "PARALLEL", NULL },
    { "NCCL_COMM_BLOCKING", "1", NULL },
};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };
static bool expected;

void dsf_cuda_expect_messages(void)
{
    for (int i = 0; i < SETTINGS && !expected; i++) {
        struct setting *s = &settings[i];
        const char *before = getenv(s->name);

        s->before = before != NULL ? dsf_xstrdup(before) : NULL;
        setenv(s->name, s->value, 1);
    }
    expected = true;
}

void dsf_cuda_expect_none(void)
{
    for (int i = 0; i < SETTINGS && expected; i++) {
        struct setting *s = &settings[i];

        if (s->before != NULL)
            setenv(s->name, s->before, 1);
        else
            unsetenv(s->name);
        free(s->before);
    }
    expected = false;
}

/* What the driver is for, as 13000; 0: there is none. */
static int driver_version(void)
{
    int version = 0;

    if (dsf_cuda_module(NULL) == NULL || module->driver(&version) != NULL)
        return 0;
    return version;
}

int dsf_cuda_count(unsigned *n, struct dsflow_err *err)
{
    const struct dsf_gpu *cuda = dsf_cuda_module(err);
    int driver = driver_version();
    const char *why;

    *n = 0;
    if (cuda == NULL)
        return DSFLOW_ENOSYS;
    if (driver == 0)
        return dsflow_fail(err, DSFLOW_ENOSYS, "NVIDIA's driver is not there");
    why = cuda->count(n);
    if (why != NULL)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "a driver for CUDA %d.%d, and dsflow was built with "
                           "%d.%d: %s",
                           driver / 1000, driver % 1000 / 10,
                           cuda->runtime / 1000, cuda->runtime % 1000 / 10,
                           why);
    return *n > 0 ? DSFLOW_OK
                  : dsflow_fail(err, DSFLOW_ENOSYS,
                                "NVIDIA's driver shows no GPU");
}

int dsf_cuda_about(unsigned gpu, struct dsf_gpu_about *about,
                   struct dsflow_err *err)
{
    const struct dsf_gpu *cuda = dsf_cuda_module(err);
    const char *why;

    if (cuda == NULL)
        return DSFLOW_ENOSYS;
    why = cuda->about(gpu, about);
    return why == NULL
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_ENOSYS, "GPU %u: %s", gpu, why);
}

void dsf_cuda_round_to_tf32(bool does)
{
    if (module != NULL)
        module->round(does);
}

void dsf_cuda_versions(char *text, size_t size)
{
    int driver = driver_version(), built = module->runtime;
    unsigned long products = module->products();
    char library[64] = "no cuBLASLt";

    if (products > 0)
        snprintf(library, sizeof(library), "cuBLASLt %lu.%lu.%lu",
                 products / 10000, products / 100 % 100, products % 100);
    snprintf(text, size, "CUDA %d.%d (driver for %d.%d), %s", built / 1000,
             built % 1000 / 10, driver / 1000, driver % 1000 / 10, library);
}

const struct dsf_gpu_side *dsf_cuda_side(const struct dsflow_op *op)
{
    const struct dsf_gpu_side *const *side =
        module != NULL ? module->sides : NULL;

    for (; side != NULL && *side != NULL; side++)
        if (strcmp((*side)->op, op->name) == 0)
            return *side;
    return NULL;
}
