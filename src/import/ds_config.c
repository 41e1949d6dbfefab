/* ds_config.c - from a configuration of DeepSpeed to a job: every key of it has
 * a fate, rules make the lines of the job, and a job is what they must be. */
#include "import/ds_private.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "config/job.h"
#include "import/ds_keys.h"

#include <stdlib.h>
#include <string.h>

/* --- what becomes of each key --------------------------------------------- */

/* Python takes 1 and "true" for true, too; "auto" is nobody's to fill in. */
static bool is_on(const json_t *enabled)
{
    const char *text = json_string_value(enabled);

    if (json_is_number(enabled))
        return json_number_value(enabled) != 0;
    return text != NULL ? strcmp(text, "auto") != 0
                        : !json_is_null(enabled) && !json_is_false(enabled);
}

/* Does a value ask for something? A section does not where it is not enabled.
 */
static bool asks(const json_t *value)
{
    const json_t *enabled = json_object_get(value, "enabled"), *one;
    const char *key;

    if (!json_is_object(value))
        return !json_is_null(value) && !json_is_false(value);
    if (enabled != NULL)
        return is_on(enabled);
    json_object_foreach((json_t *)value, key, one)
        if (asks(one))
            return true;
    return false;
}

static bool is_off(const json_t *value, const char *off)
{
    json_t *wanted;
    bool same;

    if (off == NULL)
        return !asks(value);
    wanted = json_loads(off, JSON_DECODE_ANY, NULL);
    same = json_is_number(value) && json_is_number(wanted)
               ? json_number_value(value) == json_number_value(wanted)
               : json_equal((json_t *)value, wanted) == 1;
    json_decref(wanted);
    return same;
}

/* Has the table keys below this one? */
static bool is_section(const char *path)
{
    const struct dsf_ds_key *key;
    size_t n = strlen(path);

    for (size_t i = 0; (key = dsf_ds_key_at(i)) != NULL; i++)
        if (strncmp(key->key, path, n) == 0 && key->key[n] == '.')
            return true;
    return false;
}

static void refuse_key(struct dsf_ds *x, const struct dsf_ds_key *key,
                       const char *path, const json_t *value)
{
    const char *expected = key->off != NULL         ? key->off
                           : json_is_object(value)  ? "\"enabled\": false"
                           : json_is_boolean(value) ? "false"
                                                    : NULL;
    char *text = json_is_object(value) ? NULL : dsf_ds_value_text(value);

    dsf_ds_refuse(x, path, "%.60s%s%s%s%s; --drop %s goes on without it",
                  text != NULL ? text : "", text != NULL ? ": " : "",
                  key->words, expected != NULL ? ": expected " : "",
                  expected != NULL ? expected : "", path);
    free(text);
}

static void refuse_unknown(struct dsf_ds *x, const char *path)
{
    const struct dsf_ds_key *key;
    const char **names, *near;
    unsigned n = 0;

    while (dsf_ds_key_at(n) != NULL)
        n++;
    names = dsf_xcalloc(n, sizeof(*names));
    for (unsigned i = 0; (key = dsf_ds_key_at(i)) != NULL; i++)
        names[i] = key->key;
    near = dsf_nearest(path, names, n);
    free(names);
    dsf_ds_refuse(
        x, path, "is no key of DeepSpeed's%s%s; --drop %s goes on without it",
        near != NULL ? ": expected " : "", near != NULL ? near : "", path);
}

static void refuse_type(struct dsf_ds *x, const char *path, const json_t *value)
{
    char *text = dsf_ds_value_text(value);

    dsf_ds_refuse(x, path, "%.60s: expected an object, {…}", text);
    free(text);
}

/* The keys of an object; `off`: it is below one that is not enabled, where none
 * of DeepSpeed's asks for anything. */
static void judge(struct dsf_ds *x, const json_t *object, const char *above,
                  bool off)
{
    const json_t *enabled = json_object_get(object, "enabled"), *value;
    const char *name;

    off = off || (enabled != NULL && !is_on(enabled));

    json_object_foreach((json_t *)object, name, value) {
        char *path = above[0] == '\0' ? dsf_xstrdup(name)
                                      : dsf_xasprintf("%s.%s", above, name);
        const struct dsf_ds_key *key = dsf_ds_key_find(path);

        if (strchr(name, '.') != NULL) {
            dsf_ds_refuse(x, path,
                          "no key of DeepSpeed's has a dot: expected "
                          "an object in an object");
        } else if (dsf_ds_get(x, path) == NULL) {
            /* It says nothing. */
        } else if (key != NULL && key->fate == DSF_DS_REFUSED) {
            if (!off && !dsf_ds_is_auto(x, path) && !is_off(value, key->off))
                refuse_key(x, key, path, value);
        } else if (key == NULL && json_is_object(value) && is_section(path)) {
            judge(x, value, path, off);
        } else if (key == NULL && is_section(path)) {
            if (asks(value))
                refuse_type(x, path, value);
        } else if (key == NULL) {
            refuse_unknown(x, path);
        }
        free(path);
    }
}

/* --- the job -------------------------------------------------------------- */

static void take_sets(struct dsf_ds *x)
{
    for (unsigned i = 0; i < x->wish->nsets; i++)
        dsf_ds_set_wish(x, x->wish->sets[i]);
}

/* The text is one that dsflow reads. */
static int check(const struct dsf_ds *x, const char *text, size_t n,
                 struct dsflow_err *err)
{
    struct dsflow_err why;
    struct dsf_job job;
    int status = dsf_job_parse(text, n, "job.toml", x->wish->sets,
                               x->wish->nsets, NULL, &job, &why);

    if (status < 0)
        return dsflow_fail(err, status, "%s: does not make a job: %s", x->path,
                           why.msg);
    dsf_job_fini(&job);
    return DSFLOW_OK;
}

static int write_job(const struct dsf_ds *x, FILE *out, struct dsflow_err *err)
{
    char *text, *path = dsf_xstrdup(x->path);
    size_t n;
    FILE *memory = dsf_xmemstream(&text, &n);
    int status;

    dsf_utf8_clean(path); /* a comment has one line */
    fprintf(memory,
            "# From %s, a configuration of DeepSpeed, for %lld rank%s.\n", path,
            (long long)x->wish->ranks, x->wish->ranks == 1 ? "" : "s");
    free(path);
    dsf_ds_write(x, memory);
    fclose(memory);
    status = check(x, text, n, err);
    if (status == DSFLOW_OK)
        fwrite(text, 1, n, out);
    free(text);
    return status;
}

static int by_line(const void *a, const void *b)
{
    const struct dsf_ds_refusal *x = a, *y = b;

    return (x->line > y->line) - (x->line < y->line);
}

static int say_refused(struct dsf_ds *x, void (*refused)(const char *line),
                       struct dsflow_err *err)
{
    if (x->nrefused == 0)
        return DSFLOW_OK;
    qsort(x->refused, x->nrefused, sizeof(*x->refused), by_line);
    for (size_t i = 0; i < x->nrefused; i++)
        refused(x->refused[i].text);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %zu key%s cannot be had",
                       x->path, x->nrefused, x->nrefused == 1 ? "" : "s");
}

static void release(struct dsf_ds *x)
{
    for (size_t i = 0; i < x->nlines; i++) {
        free(x->lines[i].value);
        free(x->lines[i].path);
        free(x->lines[i].comment);
    }
    for (size_t i = 0; i < x->nrefused; i++) {
        free(x->refused[i].path);
        free(x->refused[i].text);
    }
    free(x->lines);
    free(x->refused);
    dsf_relaxed_fini(&x->json);
}

/* What is dropped is there. */
static int check_wish(const struct dsf_ds *x, struct dsflow_err *err)
{
    for (unsigned i = 0; i < x->wish->ndrop; i++)
        if (dsf_relaxed_get(&x->json, x->wish->drop[i]) == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "import: --drop: %.100s: is not in %s",
                               x->wish->drop[i], x->path);
    return DSFLOW_OK;
}

int dsf_ds_import(const char *path, const struct dsf_ds_wish *wish, FILE *out,
                  void (*refused)(const char *line), struct dsflow_err *err)
{
    struct dsf_ds x = { .path = path, .wish = wish };
    int status = dsf_relaxed_load(path, &x.json, err);

    if (status < 0)
        return status;
    status = check_wish(&x, err);
    if (status == DSFLOW_OK) {
        judge(&x, x.json.root, "", false);
        dsf_ds_rules(&x);
        take_sets(&x);
        dsf_ds_check(&x);
        status = say_refused(&x, refused, err);
    }
    if (status == DSFLOW_OK)
        status = write_job(&x, out, err);
    release(&x);
    return status;
}
