/* registry.c - components known by name. */
#include "base/registry.h"

#include "base/alloc.h"
#include "base/fatal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill(struct dsf_registry *r)
{
    struct dsflow_err err = { .msg = "" };

    if (r->filled)
        return;
    r->filled = true;
    for (size_t i = 0; r->builtin != NULL && r->builtin[i] != NULL; i++)
        if (r->add(r->builtin[i], DSF_BUILTIN, &err) < 0)
            dsf_fatal("bug: built-in %s", err.msg);
}

size_t dsf_registry_count(struct dsf_registry *r)
{
    fill(r);
    return r->n;
}

size_t dsf_registry_all(struct dsf_registry *r, const struct dsf_registered **v)
{
    fill(r);
    *v = r->v;
    return r->n;
}

const struct dsf_registered *dsf_registry_at(struct dsf_registry *r, size_t i)
{
    fill(r);
    return i < r->n ? &r->v[i] : NULL;
}

const struct dsf_registered *dsf_registry_find(struct dsf_registry *r,
                                               const char *name)
{
    fill(r);
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->v[i].name, name) == 0)
            return &r->v[i];
    return NULL;
}

const void *dsf_registry_thing(struct dsf_registry *r, const char *name)
{
    const struct dsf_registered *found = dsf_registry_find(r, name);

    return found != NULL ? found->thing : NULL;
}

const void *dsf_registry_thing_at(struct dsf_registry *r, size_t i)
{
    const struct dsf_registered *found = dsf_registry_at(r, i);

    return found != NULL ? found->thing : NULL;
}

/* Names are words of the command line, of job.toml and of tables. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    return name[strspn(name, letters)] == '\0';
}

int dsf_registry_check(const struct dsf_registry *r, unsigned abi,
                       const char *name, const char *summary,
                       struct dsflow_err *err)
{
    /* Of another ABI only the number and the name are where they were. */
    if (abi != r->abi)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s %.60s: made for interface %u: this dsflow has "
                           "%u",
                           r->sort, name != NULL ? name : "(no name)", abi,
                           r->abi);
    if (name == NULL || name[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: has no name", r->sort);
    if (!is_name(name))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s \"%.60s\": expected a name of letters, digits, "
                           "'.', '_' and '-'",
                           r->sort, name);
    if (summary == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s %.60s: has no summary",
                           r->sort, name);
    return DSFLOW_OK;
}

int dsf_registry_add(struct dsf_registry *r, const char *name,
                     const void *thing, const char *origin,
                     struct dsflow_err *err)
{
    const struct dsf_registered *taken = dsf_registry_find(r, name);

    if (taken != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s %.60s: the name is taken (%.200s)", r->sort,
                           name, taken->origin);
    dsf_grow(&r->v, &r->cap, r->n + 1, sizeof(*r->v));
    r->v[r->n++] = (struct dsf_registered){ dsf_xstrdup(name), thing,
                                            dsf_xstrdup(origin) };
    return DSFLOW_OK;
}

void dsf_registry_cut(struct dsf_registry *r, size_t n)
{
    while (r->n > n) {
        r->n--;
        free(r->v[r->n].name);
        free(r->v[r->n].origin);
    }
}
