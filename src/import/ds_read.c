/* ds_read.c - values of a configuration, with the types that they must have. */
#include "import/ds_private.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool is_dropped(const struct dsf_ds *x, const char *path)
{
    for (unsigned i = 0; i < x->wish->ndrop; i++) {
        size_t n = strlen(x->wish->drop[i]);

        if (strncmp(path, x->wish->drop[i], n) == 0 &&
            (path[n] == '\0' || path[n] == '.'))
            return true;
    }
    return false;
}

const json_t *dsf_ds_get(struct dsf_ds *x, const char *path)
{
    const json_t *value = dsf_relaxed_get(&x->json, path);

    return value == NULL || json_is_null(value) || is_dropped(x, path) ? NULL
                                                                       : value;
}

bool dsf_ds_is_auto(struct dsf_ds *x, const char *path)
{
    const char *text = json_string_value(dsf_ds_get(x, path));

    return text != NULL && strcmp(text, "auto") == 0;
}

/* What is wrong with it first is said. */
static bool is_refused(const struct dsf_ds *x, const char *path)
{
    for (size_t i = 0; i < x->nrefused; i++)
        if (strcmp(x->refused[i].path, path) == 0)
            return true;
    return false;
}

void dsf_ds_refuse(struct dsf_ds *x, const char *path, const char *fmt, ...)
{
    struct dsf_ds_refusal r = { .line = dsf_relaxed_line(&x->json, path) };
    char what[400];
    va_list args;

    if (is_refused(x, path))
        return;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    r.text = r.line > 0
                 ? dsf_xasprintf("%s:%d: %s: %s", x->path, r.line, path, what)
                 : dsf_xasprintf("%s: %s: %s", x->path, path, what);
    dsf_utf8_clean(r.text); /* one line, whatever the file has in its strings */
    r.path = dsf_xstrdup(path);
    dsf_grow(&x->refused, &x->cap_refused, x->nrefused + 1,
             sizeof(*x->refused));
    x->refused[x->nrefused++] = r;
}

char *dsf_ds_value_text(const json_t *value)
{
    return json_dumps(value,
                      JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
}

static void refuse_type(struct dsf_ds *x, const char *path, const char *type)
{
    char *text = dsf_ds_value_text(dsf_ds_get(x, path));

    dsf_ds_refuse(x, path, "%.80s: expected %s", text, type);
    free(text);
}

/* The value, if it is there and not "auto". */
static const json_t *said(struct dsf_ds *x, const char *path)
{
    return dsf_ds_is_auto(x, path) ? NULL : dsf_ds_get(x, path);
}

bool dsf_ds_true(struct dsf_ds *x, const char *path, bool fallback)
{
    const json_t *value = said(x, path);

    if (value == NULL)
        return fallback;
    if (!json_is_boolean(value))
        refuse_type(x, path, "true or false");
    return json_is_true(value);
}

double dsf_ds_number(struct dsf_ds *x, const char *path, double fallback)
{
    const json_t *value = said(x, path);

    if (value == NULL)
        return fallback;
    if (json_is_number(value))
        return json_number_value(value);
    refuse_type(x, path, "a number");
    return fallback;
}

int64_t dsf_ds_whole(struct dsf_ds *x, const char *path, int64_t fallback)
{
    double value = dsf_ds_number(x, path, (double)fallback);

    /* DeepSpeed takes 1e5 for 100000, too; sys.maxsize is no bound at all. */
    if (value == floor(value) && fabs(value) <= 0x1p63)
        return value > 0x1p53    ? (int64_t)1 << 53
               : value < -0x1p53 ? -((int64_t)1 << 53)
                                 : (int64_t)value;
    refuse_type(x, path, "a whole number");
    return fallback;
}

const char *dsf_ds_text(struct dsf_ds *x, const char *path,
                        const char *fallback)
{
    const json_t *value = said(x, path);

    if (value == NULL)
        return fallback;
    if (json_is_string(value))
        return json_string_value(value);
    refuse_type(x, path, "a string");
    return fallback;
}
