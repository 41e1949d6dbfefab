/* cuda_module.c - find and open the module with the CUDA side. */
#include "exec/cuda_module.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file[] = "dsflow-cuda.so";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool tried;
static const struct dsf_gpu *module;
static struct dsflow_err why_not;

/* Of a program that was built and not installed: libtool's folder beside it. */
static char *beside_program(void)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    program[n < 0 ? 0 : n] = '\0';
    slash = strrchr(program, '/');
    if (slash == NULL)
        return NULL;
    *slash = '\0';
    return dsf_xasprintf("%s/.libs/%s", program, file);
}

/* Freed by the caller. */
static char *find_file(struct dsflow_err *err)
{
    const char *said = getenv(DSF_CUDA_VARIABLE);
    char *beside, *installed;

    if (said != NULL && strcmp(said, DSF_CUDA_NEVER) == 0) {
        dsflow_fail(err, DSFLOW_ENOSYS, "%s=%s", DSF_CUDA_VARIABLE, said);
        return NULL;
    }
    if (said != NULL)
        return dsf_xstrdup(said);
    beside = beside_program();
    if (beside != NULL && access(beside, F_OK) == 0)
        return beside;
    free(beside);
    installed = dsf_xasprintf("%s/%s", DSF_MODULE_DIR, file);
    if (access(installed, F_OK) == 0)
        return installed;
    free(installed);
    dsflow_fail(err, DSFLOW_ENOSYS,
                "this dsflow was built without CUDA's toolkit (no %s in %s)",
                file, DSF_MODULE_DIR);
    return NULL;
}

/* What the loader says names the file. */
static const struct dsf_gpu *load(const char *path, struct dsflow_err *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct dsf_gpu *found =
        library != NULL ? dlsym(library, DSF_GPU_SYMBOL) : NULL;

    if (found != NULL && found->abi == DSF_GPU_ABI)
        return found;
    if (found == NULL)
        dsflow_fail(err, DSFLOW_ENOSYS, "%s", dlerror());
    else
        dsflow_fail(err, DSFLOW_ENOSYS,
                    "%s: interface %u: expected %u, of this version of dsflow",
                    path, found->abi, DSF_GPU_ABI);
    if (library != NULL)
        dlclose(library);
    return NULL;
}

const struct dsf_gpu *dsf_cuda_module(struct dsflow_err *err)
{
    char *path;

    pthread_mutex_lock(&lock);
    if (!tried) {
        path = find_file(&why_not);
        if (path != NULL)
            module = load(path, &why_not);
        free(path);
    }
    tried = true;
    pthread_mutex_unlock(&lock);
    if (module == NULL)
        dsflow_fail(err, DSFLOW_ENOSYS, "%s", why_not.msg);
    return module;
}

int dsf_cuda_driver(void)
{
    int version = 0;

    if (dsf_cuda_module(NULL) == NULL || module->driver(&version) != NULL)
        return 0;
    return version;
}

int dsf_cuda_count(unsigned *n, struct dsflow_err *err)
{
    const struct dsf_gpu *cuda = dsf_cuda_module(err);
    int driver = dsf_cuda_driver();
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

void dsf_cuda_versions(char *text, size_t size)
{
    int driver = dsf_cuda_driver(), built = module->runtime;
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
