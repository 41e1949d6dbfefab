/* relaxed_json.c - what JSON does not have is made blank, so that lines stay
 * what they are; then it is JSON. */
#include "import/relaxed_json.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24 }; /* bytes of a file */

/* Behind the string that begins at `at`, or at the end. */
static char *behind_string(char *at)
{
    for (at++; *at != '"' && *at != '\0'; at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '"' ? at + 1 : at;
}

/* Behind the comment that begins at `at`; there may be none. */
static char *behind_comment(char *at)
{
    char *end;

    if (*at == '#' || (at[0] == '/' && at[1] == '/'))
        return at + strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*')
        return at;
    end = strstr(at + 2, "*/");
    return end != NULL ? end + 2 : at + strlen(at);
}

static void blank_comments(char *text)
{
    for (char *at = text; *at != '\0';) {
        char *end = *at == '"' ? at : behind_comment(at);

        if (*at == '"')
            at = behind_string(at);
        else if (end == at)
            at++;
        for (; at < end; at++)
            if (*at != '\n')
                *at = ' ';
    }
}

static void blank_last_commas(char *text)
{
    for (char *at = text; *at != '\0';) {
        size_t space = strspn(at + 1, " \t\r\n");

        if (*at == '"') {
            at = behind_string(at);
            continue;
        }
        if (*at == ',' && (at[1 + space] == '}' || at[1 + space] == ']'))
            *at = ' ';
        at++;
    }
}

/* --- lines ---------------------------------------------------------------- */

struct scan {
    struct dsf_relaxed *r;
    char *at;
    int line;
};

static void skip(struct scan *s, char *to)
{
    for (; s->at < to; s->at++)
        s->line += *s->at == '\n';
}

static void skip_space(struct scan *s)
{
    skip(s, s->at + strspn(s->at, " \t\r\n"));
}

static void scan_value(struct scan *s, const char *path);

/* Its key, if it is one of an object, and its value. */
static void scan_member(struct scan *s, const char *path, bool named)
{
    char *name = s->at + 1, *whole;
    size_t n;

    if (!named) {
        scan_value(s, path);
        return;
    }
    skip(s, behind_string(s->at));
    n = (size_t)(s->at - name) - 1;
    whole = path[0] == '\0' ? dsf_xstrndup(name, n)
                            : dsf_xasprintf("%s.%.*s", path, (int)n, name);
    dsf_grow(&s->r->v, &s->r->cap, s->r->n + 1, sizeof(*s->r->v));
    s->r->v[s->r->n++] = (struct dsf_key_place){ whole, s->line };
    skip_space(s);
    skip(s, s->at + 1); /* the colon */
    scan_value(s, whole);
}

static void scan_value(struct scan *s, const char *path)
{
    skip_space(s);
    if (*s->at == '"') {
        skip(s, behind_string(s->at));
    } else if (*s->at == '{' || *s->at == '[') {
        bool named = *s->at == '{';

        skip(s, s->at + 1);
        for (skip_space(s); *s->at != '}' && *s->at != ']'; skip_space(s)) {
            scan_member(s, path, named);
            skip_space(s);
            skip(s, s->at + (*s->at == ','));
        }
        skip(s, s->at + 1);
    } else {
        skip(s, s->at + strcspn(s->at, ",]} \t\r\n"));
    }
}

int dsf_relaxed_load(const char *path, struct dsf_relaxed *r,
                     struct dsflow_err *err)
{
    char *text = NULL;
    size_t n;
    int status;

    *r = (struct dsf_relaxed){ .root = NULL };
    status = dsf_file_load(path, MOST, &text, &n, err);
    if (status == DSFLOW_OK && strlen(text) < n)
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: is not text", path);
    if (status == DSFLOW_OK) {
        blank_comments(text);
        blank_last_commas(text);
        status = dsf_json_parse(text, n, path, &r->root, err);
    }
    if (status == DSFLOW_OK && !json_is_object(r->root))
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: expected an object, {…}",
                             path);
    if (status == DSFLOW_OK) {
        struct scan s = { .r = r, .at = text, .line = 1 };

        scan_value(&s, "");
    }
    free(text);
    if (status < 0)
        dsf_relaxed_fini(r);
    return status;
}

void dsf_relaxed_fini(struct dsf_relaxed *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->v[i].path);
    free(r->v);
    json_decref(r->root);
    *r = (struct dsf_relaxed){ .root = NULL };
}

int dsf_relaxed_line(const struct dsf_relaxed *r, const char *path)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->v[i].path, path) == 0)
            return r->v[i].line;
    return 0;
}

const json_t *dsf_relaxed_get(const struct dsf_relaxed *r, const char *path)
{
    const json_t *value = r->root;

    while (value != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        char *key = dsf_xstrndup(path, n);

        value = json_object_get(value, key);
        free(key);
        path += n + (path[n] == '.');
    }
    return value;
}
