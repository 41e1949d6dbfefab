/* module.c - find a module, and open it. */
#include "base/module.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a program that was built and not installed: libtool's folder beside it. */
static char *beside_program(const char *file)
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
static char *find_file(const struct dsf_module *m, struct dsflow_err *err)
{
    const char *said = getenv(m->variable);
    char *beside, *installed;

    if (said != NULL && strcmp(said, "no") == 0) {
        dsflow_fail(err, DSFLOW_ENOSYS, "%s=%s", m->variable, said);
        return NULL;
    }
    if (said != NULL)
        return dsf_xstrdup(said);
    beside = beside_program(m->file);
    if (beside != NULL && access(beside, F_OK) == 0)
        return beside;
    free(beside);
    installed = dsf_xasprintf("%s/%s", DSF_MODULE_DIR, m->file);
    if (access(installed, F_OK) == 0)
        return installed;
    free(installed);
    dsflow_fail(err, DSFLOW_ENOSYS,
                "this dsflow was built without %s (no %s in %s)", m->lacking,
                m->file, DSF_MODULE_DIR);
    return NULL;
}

/* What the loader says names the file. */
static const void *load(const struct dsf_module *m, const char *path,
                        struct dsflow_err *err)
{
    void *library =
        dlopen(path, RTLD_NOW | (m->shared ? RTLD_GLOBAL : RTLD_LOCAL));
    const unsigned *abi = library != NULL ? dlsym(library, m->symbol) : NULL;

    if (abi != NULL && *abi == m->abi)
        return abi;
    if (abi == NULL)
        dsflow_fail(err, DSFLOW_ENOSYS, "%s", dlerror());
    else
        dsflow_fail(err, DSFLOW_ENOSYS,
                    "%s: interface %u: expected %u, of this version of dsflow",
                    path, *abi, m->abi);
    if (library != NULL)
        dlclose(library);
    return NULL;
}

const void *dsf_module_open(const struct dsf_module *m, struct dsflow_err *err)
{
    char *path = find_file(m, err);
    const void *found = path != NULL ? load(m, path, err) : NULL;

    free(path);
    return found;
}
