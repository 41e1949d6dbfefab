/* json_lines.c - the texts in a file of JSON Lines. */
#include "text/json_lines.h"

#include "base/alloc.h"
#include "base/parallel.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The number in the file of the line that `at` is in, from 1. */
static size_t line_of(const struct dsf_json_lines *l, size_t at)
{
    const char *p = l->file, *end = l->file + at;
    size_t n = 1;

    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        p++;
        n++;
    }
    return n;
}

static bool is_blank(const char *line, size_t n)
{
    while (n > 0 && memchr(" \t\r", line[n - 1], 3) != NULL)
        n--;
    return n == 0;
}

/* Lines that are read together. */
#define STRETCH ((size_t)4 << 20)

struct reading {
    const struct dsf_json_lines *lines;
    struct line {
        size_t at, bytes;
    } * v;
    size_t n, cap;
    struct dsf_json_text *texts;
    atomic_size_t wrong; /* the first one that is; n: none is */
};

/* The first names of an object, in quotes, to be freed. */
static char *list_names(const json_t *object)
{
    enum { MOST = 6 };
    char *text;
    size_t bytes;
    FILE *out = dsf_xmemstream(&text, &bytes);
    const char *name;
    json_t *value;
    int i = 0;

    json_object_foreach((json_t *)object, name, value) {
        if (i < MOST)
            fprintf(out, "%s\"%s\"", i > 0 ? ", " : "", name);
        i++;
    }
    fprintf(out, "%s", i == 0 ? "nothing" : i > MOST ? ", ..." : "");
    fclose(out);
    return text;
}

static int fail_without(const struct dsf_json_lines *l, size_t at,
                        const json_t *root, struct dsflow_err *err)
{
    const bool other =
        json_is_object(root) && json_object_get(root, l->field) == NULL;
    char *names = other ? list_names(root) : NULL;
    int status =
        dsflow_fail(err, DSFLOW_EINVAL,
                    "line %zu: %sexpected an object with a string "
                    "\"%s\"%s%s",
                    line_of(l, at),
                    !json_is_object(root) ? "is no object: "
                    : other               ? ""
                                          : "has no string there: ",
                    l->field, other ? ": it has " : "", other ? names : "");

    free(names);
    return status;
}

/* Of the object on the line at `at`. */
static int take_text(const struct dsf_json_lines *l, size_t at,
                     const json_t *root, struct dsf_json_text *text,
                     struct dsflow_err *err)
{
    const json_t *string = json_object_get(root, l->field);
    size_t n;

    if (!json_is_string(string))
        return fail_without(l, at, root, err);
    n = json_string_length(string);
    if (memchr(json_string_value(string), 0, n) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "line %zu: is no text: a NUL in \"%s\"",
                           line_of(l, at), l->field);
    if (n > 0)
        *text =
            (struct dsf_json_text){ dsf_xstrndup(json_string_value(string), n),
                                    n };
    return DSFLOW_OK;
}

static int take_line(const struct dsf_json_lines *l, const struct line *line,
                     struct dsf_json_text *text, struct dsflow_err *err)
{
    const char *at = l->file + line->at;
    json_error_t why;
    json_t *root;
    int status;

    if (is_blank(at, line->bytes))
        return DSFLOW_OK;
    root = json_loadb(
        at, line->bytes,
        JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &why);
    if (root == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "line %zu: is no JSON: %s",
                           line_of(l, line->at), why.text);
    status = take_text(l, line->at, root, text, err);
    json_decref(root);
    return status;
}

/* What is wrong is said afterwards, of the first line; those behind it are
 * passed over. */
static void take_lines(void *user, int64_t from, int64_t end)
{
    struct reading *r = user;
    size_t i = (size_t)from, first;

    while (i < (size_t)end && i < atomic_load(&r->wrong) &&
           take_line(r->lines, &r->v[i], &r->texts[i], NULL) == DSFLOW_OK)
        i++;
    first = atomic_load(&r->wrong);
    while (i < (size_t)end && i < first &&
           !atomic_compare_exchange_weak(&r->wrong, &first, i))
        ;
}

static void find_lines(struct dsf_json_lines *l, struct reading *r)
{
    const size_t from = l->at;

    while (l->at < l->end && l->at - from < STRETCH) {
        const size_t at = l->at, left = l->end - at;
        const char *newline = memchr(l->file + at, '\n', left);
        const size_t bytes =
            newline != NULL ? (size_t)(newline - l->file) - at : left;

        dsf_grow(&r->v, &r->cap, r->n + 1, sizeof(*r->v));
        r->v[r->n++] = (struct line){ at, bytes };
        l->at = newline != NULL ? at + bytes + 1 : l->end;
    }
}

int dsf_json_lines_read(struct dsf_json_lines *l, struct dsf_json_texts *texts,
                        struct dsflow_err *err)
{
    struct reading r = { .lines = l };
    struct dsf_json_text none = { .n = 0 };
    int status = DSFLOW_OK;

    find_lines(l, &r);
    dsf_grow(&texts->v, &texts->cap, r.n, sizeof(*texts->v));
    for (texts->n = 0; texts->n < r.n; texts->n++)
        texts->v[texts->n] = (struct dsf_json_text){ .n = 0 };
    r.texts = texts->v;
    atomic_init(&r.wrong, r.n);
    dsf_parallel((int64_t)r.n, 1, take_lines, &r);
    if (r.wrong < r.n) {
        status = take_line(l, &r.v[r.wrong], &none, err);
        for (size_t i = 0; i < r.n; i++)
            free(texts->v[i].text);
        texts->n = 0;
    }
    free(r.v);
    return status;
}
