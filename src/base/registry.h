/* registry.h - components known by name, and where each one comes from: those
 * that dsflow has itself, and those of plug-ins and programs. All go the same
 * way in. */
#ifndef DSF_BASE_REGISTRY_H
#define DSF_BASE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>

#define DSF_BUILTIN "built-in"

struct dsf_registered {
    char *name;
    const void *thing; /* borrowed for good */
    char *origin;      /* DSF_BUILTIN, the path of a library, … */
};

/* One for each sort of component; static, in the file that has the built-in
 * list. It is not for several threads. */
struct dsf_registry {
    const char *sort; /* "optimizer", for messages */
    unsigned abi;     /* of its structure */

    /* Checks `thing`, and ends with dsf_registry_add. */
    int (*add)(const void *thing, const char *origin, struct dsflow_err *err);
    const void *const *builtin; /* ends with NULL; added when first asked */

    bool filled;
    struct dsf_registered *v;
    size_t n, cap;
};

/* The i-th, in order of registration, or the one of this name; or NULL. */
const struct dsf_registered *dsf_registry_at(struct dsf_registry *r, size_t i);
const struct dsf_registered *dsf_registry_find(struct dsf_registry *r,
                                               const char *name);

/* All of them, and how many there are: for who asks at each task. Borrowed
 * until one is added. */
size_t dsf_registry_all(struct dsf_registry *r,
                        const struct dsf_registered **v);

/* The thing of this name, or of the i-th; or NULL. */
const void *dsf_registry_thing(struct dsf_registry *r, const char *name);
const void *dsf_registry_thing_at(struct dsf_registry *r, size_t i);

/* Is it a name, of the right ABI, with a summary? What every `add` checks
 * first. */
int dsf_registry_check(const struct dsf_registry *r, unsigned abi,
                       const char *name, const char *summary,
                       struct dsflow_err *err);

/* `name` and `origin` are copied. An error when the name is taken. */
int dsf_registry_add(struct dsf_registry *r, const char *name,
                     const void *thing, const char *origin,
                     struct dsflow_err *err);

/* How many there are; and forget all but the first n: what was added by a
 * plug-in that then turned out wrong. */
size_t dsf_registry_count(struct dsf_registry *r);
void dsf_registry_cut(struct dsf_registry *r, size_t n);

#endif
