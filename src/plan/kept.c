/* kept.c - the list of what is kept between steps. */
#include "plan/kept.h"

#include "base/alloc.h"
#include "plan/plan.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LETTERS = 40 };

static bool is_name(const char *name)
{
    size_t n = strlen(name);

    for (const char *c = name; *c != '\0'; c++)
        if (!isgraph((unsigned char)*c))
            return false;
    return n > 0 && n <= MOST_LETTERS;
}

int64_t dsf_kept_elems(const struct dsflow_kept *kept)
{
    int64_t elems = 1;

    for (unsigned i = 0; i < kept->ndims; i++)
        if (kept->dims[i] < 0 ||
            __builtin_mul_overflow(elems, kept->dims[i], &elems))
            return 0;
    return elems;
}

const char *dsf_kept_by(const struct dsflow_kept *kept)
{
    return kept->kind == DSFLOW_KEPT_BY_UNIT     ? "by unit"
           : kept->kind == DSFLOW_KEPT_BY_RANK   ? "by rank"
           : kept->kind == DSFLOW_KEPT_BY_WORKER ? "by worker"
                                                 : "";
}

static int check(const struct dsflow_kept *k, struct dsflow_err *err)
{
    if (k->size != sizeof(*k) || k->name == NULL || !is_name(k->name))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "what is kept: expected its size and a name of 1 to "
                           "%d letters",
                           MOST_LETTERS);
    if (k->kind > DSFLOW_KEPT_ONE || k->dtype >= DSFLOW_NDTYPES ||
        k->ndims > DSFLOW_MAX_DIMS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "kept %s: kind %u, type %u, %u dimensions: expected "
                           "one of each enumeration, and at most %d",
                           k->name, k->kind, k->dtype, k->ndims,
                           DSFLOW_MAX_DIMS);
    if (k->kind != DSFLOW_KEPT_TENSORS &&
        (k->ndims == 0 || dsf_kept_elems(k) <= 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "kept %s: expected its dimensions", k->name);
    if (k->kind == DSFLOW_KEPT_TENSORS && k->dtype != DSFLOW_FP32)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "kept %s: tensors of %s: expected fp32", k->name,
                           dsflow_dtype_str(k->dtype));
    if (k->fields != NULL && k->kind != DSFLOW_KEPT_ONE)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "kept %s: fields: expected one for all", k->name);
    return DSFLOW_OK;
}

static bool is_same(const struct dsflow_kept *a, const struct dsflow_kept *b)
{
    return a->kind == b->kind && a->dtype == b->dtype &&
           a->ndims == b->ndims && a->transient == b->transient &&
           a->fields == b->fields &&
           memcmp(a->dims, b->dims, a->ndims * sizeof(*a->dims)) == 0;
}

static size_t find(const struct dsf_kept_list *list, const char *name)
{
    size_t i = 0;

    while (i < list->n && strcmp(list->v[i].name, name) != 0)
        i++;
    return i;
}

int dsf_kept_add(struct dsf_kept_list *list, const struct dsflow_kept *kept,
                 struct dsflow_err *err)
{
    int status = check(kept, err);
    size_t at;

    if (status < 0)
        return status;
    at = find(list, kept->name);
    if (at < list->n && is_same(&list->v[at], kept))
        return DSFLOW_OK;
    if (at < list->n || list->n == UINT16_MAX - 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "kept %s: the name is taken by something else",
                           kept->name);
    dsf_grow(&list->v, &list->cap, list->n + 1, sizeof(*list->v));
    list->v[at] = *kept;
    list->v[at].name = dsf_xstrdup(kept->name);
    list->n++;
    return DSFLOW_OK;
}

void dsf_kept_free(struct dsf_kept_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free((char *)list->v[i].name);
    free(list->v);
    *list = (struct dsf_kept_list){ 0 };
}

int dsflow_plan_keep(struct dsflow_plan *plan, const struct dsflow_kept *kept,
                     struct dsflow_err *err)
{
    return dsf_kept_add(&plan->kept, kept, err);
}

uint16_t dsflow_plan_kept(const struct dsflow_plan *plan, const char *name)
{
    size_t at = find(&plan->kept, name);

    return at < plan->kept.n ? (uint16_t)(at + 1) : 0;
}

struct dsf_kept_text dsf_kept_field_text(const struct dsflow_kept_field *field,
                                         const void *base)
{
    const char *at = (const char *)base + field->at;
    struct dsf_kept_text text;
    int64_t i;
    double x;

    if (field->dtype == DSFLOW_INT64) {
        memcpy(&i, at, sizeof(i));
        snprintf(text.s, sizeof(text.s), "%" PRId64, i);
    } else {
        memcpy(&x, at, sizeof(x));
        snprintf(text.s, sizeof(text.s), "%.17g", x); /* reads back */
    }
    return text;
}

int dsf_kept_field_read(const struct dsflow_kept_field *field, const char *text,
                        void *base, struct dsflow_err *err)
{
    char *at = (char *)base + field->at, *end;

    errno = 0;
    if (field->dtype == DSFLOW_INT64) {
        int64_t i = strtoll(text, &end, 10);

        memcpy(at, &i, sizeof(i));
    } else {
        double x = strtod(text, &end);

        memcpy(at, &x, sizeof(x));
        errno = 0; /* what is next to 0 or infinite reads back too */
    }
    if (end == text || *end != '\0' || errno != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.60s: expected a %s number", field->name, text,
                           field->dtype == DSFLOW_INT64 ? "whole" : "real");
    return DSFLOW_OK;
}
