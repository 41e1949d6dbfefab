/* plugin.c - components from shared libraries: all of one, or nothing. */
#include "plugin/plugin.h"

#include "base/alloc.h"
#include "codelets/codelets.h"
#include "policies/policies.h"
#include "segments/segment.h"
#include "tasks/components.h"
#include "tasks/sparsity.h"

#include <dlfcn.h>
#include <fenv.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* By name; the origin is the path of the library. */
static struct dsf_registry plugins = {
    .sort = "plug-in",
    .abi = DSFLOW_PLUGIN_ABI,
};

/* The lists of a plug-in, in the order they are added: the later name the
 * earlier. */
struct list {
    const void *const *things;
    struct dsf_registry *registry;
};
enum { NLISTS = 9 };

static void lists_of(const struct dsflow_plugin *p, struct list lists[NLISTS])
{
    const struct list all[NLISTS] = {
        { (const void *const *)p->ops, &dsf_task_kinds },
        { (const void *const *)p->codelets, &dsf_codelet_kinds },
        { (const void *const *)p->optimizers, &dsf_optimizers },
        { (const void *const *)p->schedules, &dsf_lr_schedules },
        { (const void *const *)p->layouts, &dsf_sparsities },
        { (const void *const *)p->segments, &dsf_segments },
        { (const void *const *)p->axes, &dsf_axes },
        { (const void *const *)p->policies, &dsf_policies },
        { (const void *const *)p->formats, &dsf_wire_formats },
    };

    memcpy(lists, all, sizeof(all));
}

static int add_lists(const struct list lists[NLISTS], const char *origin,
                     struct dsflow_err *err)
{
    size_t n = 0;

    for (int k = 0; k < NLISTS; k++)
        for (const void *const *t = lists[k].things; t != NULL && *t != NULL;
             t++, n++) {
            int status = lists[k].registry->add(*t, origin, err);

            if (status < 0)
                return status;
        }
    if (n == 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "plug-in has no component");
    return DSFLOW_OK;
}

static int add(const struct dsflow_plugin *p, const char *origin,
               struct dsflow_err *err)
{
    unsigned ntables = dsf_job_added_tables();
    struct list lists[NLISTS];
    size_t before[NLISTS];
    int status = dsf_registry_check(&plugins, p->abi, p->name, p->summary, err);

    if (status == DSFLOW_OK)
        status = dsf_registry_add(&plugins, p->name, p, origin, err);
    if (status < 0)
        return status;
    lists_of(p, lists);
    for (int k = 0; k < NLISTS; k++)
        before[k] = dsf_registry_count(lists[k].registry);
    status = add_lists(lists, origin, err);
    if (status == DSFLOW_OK)
        return DSFLOW_OK;
    for (int k = 0; k < NLISTS; k++)
        dsf_registry_cut(lists[k].registry, before[k]);
    dsf_job_cut_tables(ntables);
    dsf_registry_cut(&plugins, dsf_registry_count(&plugins) - 1);
    return status;
}

static bool is_added(const struct dsflow_plugin *p)
{
    const struct dsf_registered *r;

    for (size_t i = 0; (r = dsf_registry_at(&plugins, i)) != NULL; i++)
        if (r->thing == p)
            return true;
    return false;
}

int dsflow_plugin_add(const struct dsflow_plugin *p, const char *origin,
                      struct dsflow_err *err)
{
    int status = is_added(p) ? DSFLOW_OK : add(p, origin, err);

    return status < 0 ? dsflow_fail_in(err, status, origin) : status;
}

const struct dsflow_plugin *dsflow_plugin_at(unsigned i, const char **origin)
{
    const struct dsf_registered *r = dsf_registry_at(&plugins, i);

    if (r != NULL && origin != NULL)
        *origin = r->origin;
    return r != NULL ? r->thing : NULL;
}

/* The first bytes of a file; not those of a library where it has fewer. */
static int read_head(const char *file, ElfW(Ehdr) * head, struct stat *st)
{
    FILE *f =
        stat(file, st) == 0 && S_ISREG(st->st_mode) ? fopen(file, "rb") : NULL;

    memset(head, 0, sizeof(*head));
    if (f == NULL)
        return S_ISREG(st->st_mode) ? -1 : 0;
    if (fread(head, sizeof(*head), 1, f) != 1)
        head->e_ident[0] = 0;
    fclose(f);
    return 0;
}

/* Is it a whole library for this processor? The loader ends the program in one
 * that is cut off, and says of one for another that there is no such file. */
static int check_file(const char *path, const char *file,
                      struct dsflow_err *err)
{
    struct stat st = { .st_mode = S_IFREG };
    const ElfW(Ehdr) * own;
    ElfW(Ehdr) head;
    Dl_info here;

    if (read_head(file, &head, &st) < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%.200s: %m", path);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.200s: expected a shared library", path);
    dladdr(&plugins, &here);
    own = here.dli_fbase;
    if (head.e_machine != own->e_machine ||
        head.e_ident[EI_CLASS] != own->e_ident[EI_CLASS])
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.200s: is for another processor than this dsflow",
                           path);
    if (head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize >
        (uint64_t)st.st_size)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.200s: is cut off: it has %lld bytes", path,
                           (long long)st.st_size);
    return DSFLOW_OK;
}

/* What the loader says begins with the path as it knows it; ours does too. */
static int cannot_open(const char *path, const char *file,
                       struct dsflow_err *err)
{
    const char *why = dlerror(), *at = strstr(why, file);

    if (at != NULL && strncmp(at + strlen(file), ": ", 2) == 0)
        why = at + strlen(file) + 2;
    return dsflow_fail(err, DSFLOW_EINVAL, "%.200s: %.250s", path, why);
}

static const char *opening; /* the path of what is being loaded; or NULL */

/* One that was built with -Ofast makes the thread that loads it round small
 * numbers to zero, and all threads that this one starts. */
static void *open_library(const char *path, const char *file)
{
    void *library;
    fenv_t own;

    fegetenv(&own);
    opening = path;
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    opening = NULL;
    fesetenv(&own);
    return library;
}

const char *dsf_plugin_of(const void *code)
{
    Dl_info of, own, here;
    const struct dsf_registered *r;

    if (opening != NULL)
        return opening;
    if (dladdr(code, &of) == 0)
        return NULL;
    dladdr(&plugins, &here);
    for (size_t i = 0; (r = dsf_registry_at(&plugins, i)) != NULL; i++)
        if (dladdr(r->thing, &own) != 0 && own.dli_fbase == of.dli_fbase &&
            own.dli_fbase != here.dli_fbase)
            return r->origin;
    return NULL;
}

int dsflow_plugin_load(const char *path, struct dsflow_err *err)
{
    /* Without a slash the loader would search its own folders. */
    char *file = strchr(path, '/') != NULL ? dsf_xstrdup(path)
                                           : dsf_xasprintf("./%s", path);
    const struct dsflow_plugin *p;
    int status = check_file(path, file, err);
    void *library = NULL;

    if (status == DSFLOW_OK)
        library = open_library(path, file);
    if (status == DSFLOW_OK && library == NULL)
        status = cannot_open(path, file, err);
    free(file);
    if (status < 0)
        return status;
    p = dlsym(library, "dsflow_plugin");
    status = p == NULL ? dsflow_fail(err, DSFLOW_EINVAL,
                                     "%.200s: defines no dsflow_plugin: "
                                     "expected a plug-in of dsflow",
                                     path)
                       : dsflow_plugin_add(p, path, err);
    if (status < 0)
        dlclose(library);
    return status;
}
