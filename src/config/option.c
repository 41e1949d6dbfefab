/* option.c - from a value of job.toml to a field of a structure. */
#include "config/option_private.h"

#include "base/alloc.h"
#include "base/fatal.h"
#include "base/units.h"
#include "config/when.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct dsflow_option *dsf_option_find(const struct dsflow_option *options,
                                            const char *key)
{
    for (; options->key != NULL; options++)
        if (strcmp(options->key, key) == 0)
            return options;
    return NULL;
}

const char *dsf_option_word(const struct dsflow_option *o, unsigned i)
{
    static const char *const truths[] = { "true", "false" };
    unsigned n = 0;

    switch (o->type) {
    case DSFLOW_BOOL:
        return i < 2 ? truths[i] : NULL;
    case DSFLOW_CHOICE:
        while (n < i && o->choices[n] != NULL)
            n++;
        return o->choices[n];
    case DSFLOW_STRING:
        return o->names != NULL ? o->names(o, i) : NULL;
    case DSFLOW_AUTO:
    case DSFLOW_SIZE:
    case DSFLOW_SHARE:
        return i == 0 ? "auto" : NULL;
    default:
        return NULL;
    }
}

/* "a, b or c". */
static void list_words(const struct dsflow_option *o, char *out, size_t size)
{
    const char *word;
    size_t at = 0;

    for (unsigned i = 0; (word = dsf_option_word(o, i)) != NULL && at < size;
         i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s",
                               i == 0                              ? ""
                               : dsf_option_word(o, i + 1) == NULL ? " or "
                                                                   : ", ",
                               word);
}

struct dsf_expected dsf_option_expected(const struct dsflow_option *o)
{
    struct dsf_expected e;

    switch (o->type) {
    case DSFLOW_BOOL:
    case DSFLOW_CHOICE:
        list_words(o, e.s, sizeof(e.s));
        break;
    case DSFLOW_INT:
        if (o->max >= 9e15)
            snprintf(e.s, sizeof(e.s), "a whole number, %.0f or more", o->min);
        else
            snprintf(e.s, sizeof(e.s), "a whole number, %.0f to %.0f", o->min,
                     o->max);
        break;
    case DSFLOW_AUTO:
        snprintf(e.s, sizeof(e.s), "\"auto\", or %.0f to %.0f", o->min,
                 o->max);
        break;
    case DSFLOW_FLOAT:
        if (o->min == o->max)
            snprintf(e.s, sizeof(e.s), "%g", o->min);
        else
            snprintf(e.s, sizeof(e.s), "a number, %g to %g", o->min, o->max);
        break;
    case DSFLOW_SHARE:
        snprintf(e.s, sizeof(e.s), "\"auto\", or a number, %g to %g", o->min,
                 o->max);
        break;
    case DSFLOW_PAIR:
        snprintf(e.s, sizeof(e.s), "two numbers, %g to %g", o->min, o->max);
        break;
    case DSFLOW_STRING:
        if (o->names != NULL)
            list_words(o, e.s, sizeof(e.s));
        else
            snprintf(e.s, sizeof(e.s), "a string");
        break;
    case DSFLOW_STRINGS:
        snprintf(e.s, sizeof(e.s), "a string, or a list of strings");
        break;
    case DSFLOW_INTS:
        snprintf(e.s, sizeof(e.s), "a list of whole numbers, %.0f to %.0f",
                 o->min, o->max);
        break;
    case DSFLOW_SIZE:
        snprintf(e.s, sizeof(e.s), "a size such as \"512MiB\", or \"auto\"");
        break;
    case DSFLOW_TIME:
        snprintf(e.s, sizeof(e.s), "a time such as \"30s\"");
        break;
    case DSFLOW_EVERY:
        snprintf(e.s, sizeof(e.s),
                 "a whole number of steps, %.0f to %.0f, or a time such as "
                 "\"30min\"",
                 o->min, o->max);
        break;
    case DSFLOW_TABLES:
        snprintf(e.s, sizeof(e.s), "a table [[...]] for each, or []");
        break;
    }
    return e;
}

/* Is the number there, finite, and in range? */
static bool number_in(const struct dsflow_option *o,
                      const struct dsf_toml_value *v)
{
    return (v->type == DSF_TOML_INT || v->type == DSF_TOML_FLOAT) &&
           isfinite(v->number) && v->number >= o->min && v->number <= o->max;
}

static bool is_auto(const struct dsf_toml_value *v)
{
    return v->type == DSF_TOML_STRING && strcmp(v->string, "auto") == 0;
}

static bool set_ints(const struct dsflow_option *o, struct dsflow_ints *field,
                     const struct dsf_toml_value *v)
{
    if (v->type != DSF_TOML_ARRAY)
        return false;
    for (size_t i = 0; i < v->nitems; i++)
        if (v->items[i].type != DSF_TOML_INT || !number_in(o, &v->items[i]))
            return false;
    field->n = (unsigned)v->nitems;
    field->v = dsf_xrealloc(field->v, v->nitems + 1, sizeof(*field->v));
    for (size_t i = 0; i < v->nitems; i++)
        field->v[i] = v->items[i].integer;
    return true;
}

static bool set_strings(const struct dsflow_option *o,
                        struct dsflow_strings *field,
                        const struct dsf_toml_value *v)
{
    const struct dsf_toml_value *items =
        v->type == DSF_TOML_ARRAY ? v->items : v;
    size_t n = v->type == DSF_TOML_ARRAY ? v->nitems : 1;

    for (size_t i = 0; i < n; i++)
        if (items[i].type != DSF_TOML_STRING)
            return false;
    dsf_field_free(o, field);
    field->v = dsf_xcalloc(n, sizeof(*field->v));
    for (size_t i = 0; i < n; i++)
        field->v[field->n++] = dsf_xstrdup(items[i].string);
    return true;
}

/* The position of the string among the words of the option; -1: none. */
static int find_word(const struct dsflow_option *o,
                     const struct dsf_toml_value *v)
{
    const char *word;

    if (v->type != DSF_TOML_STRING)
        return -1;
    for (unsigned i = 0; (word = dsf_option_word(o, i)) != NULL; i++)
        if (strcmp(word, v->string) == 0)
            return (int)i;
    return -1;
}

static bool set_choice(const struct dsflow_option *o, int *field,
                       const struct dsf_toml_value *v)
{
    int i = find_word(o, v);

    if (i >= 0)
        *field = i;
    return i >= 0;
}

static bool set_size(int64_t *field, const struct dsf_toml_value *v)
{
    if (is_auto(v)) {
        *field = -1;
        return true;
    }
    if (v->type == DSF_TOML_INT && v->integer >= 0) {
        *field = v->integer;
        return true;
    }
    return v->type == DSF_TOML_STRING && dsf_parse_size(v->string, field) == 0;
}

static bool set_every(const struct dsflow_option *o, struct dsflow_every *field,
                      const struct dsf_toml_value *v)
{
    struct dsflow_every every = { 0 };

    if (v->type == DSF_TOML_INT && number_in(o, v))
        every.steps = v->integer;
    else if (v->type != DSF_TOML_STRING ||
             dsf_parse_time(v->string, &every.seconds) < 0 ||
             every.seconds <= 0)
        return false;
    *field = every;
    return true;
}

static bool set(const struct dsflow_option *o, void *base,
                const struct dsf_toml_value *v)
{
    void *field = (char *)base + o->offset;

    switch (o->type) {
    case DSFLOW_BOOL:
        if (v->type != DSF_TOML_BOOL)
            return false;
        *(bool *)field = v->integer != 0;
        return true;
    case DSFLOW_AUTO:
        if (is_auto(v)) {
            *(int64_t *)field = -1;
            return true;
        }
        /* fall through */
    case DSFLOW_INT:
        if (v->type != DSF_TOML_INT || !number_in(o, v))
            return false;
        *(int64_t *)field = v->integer;
        return true;
    case DSFLOW_SHARE:
        if (is_auto(v)) {
            *(double *)field = -1;
            return true;
        }
        /* fall through */
    case DSFLOW_FLOAT:
        if (!number_in(o, v))
            return false;
        *(double *)field = v->number;
        return true;
    case DSFLOW_PAIR:
        if (v->type != DSF_TOML_ARRAY || v->nitems != 2 ||
            !number_in(o, &v->items[0]) || !number_in(o, &v->items[1]))
            return false;
        ((double *)field)[0] = v->items[0].number;
        ((double *)field)[1] = v->items[1].number;
        return true;
    case DSFLOW_STRING:
        if (v->type != DSF_TOML_STRING ||
            (o->names != NULL && find_word(o, v) < 0))
            return false;
        dsf_field_free(o, field);
        *(char **)field = dsf_xstrdup(v->string);
        return true;
    case DSFLOW_STRINGS:
        return set_strings(o, field, v);
    case DSFLOW_INTS:
        return set_ints(o, field, v);
    case DSFLOW_CHOICE:
        return set_choice(o, field, v);
    case DSFLOW_SIZE:
        return set_size(field, v);
    case DSFLOW_TIME:
        return v->type == DSF_TOML_STRING &&
               dsf_parse_time(v->string, field) == 0;
    case DSFLOW_EVERY:
        return set_every(o, field, v);
    case DSFLOW_TABLES: /* none; others are added one by one */
        if (v->type != DSF_TOML_ARRAY || v->nitems > 0)
            return false;
        dsf_field_free(o, field);
        return true;
    }
    return false;
}

int dsf_option_set(const struct dsflow_option *o, void *base,
                   const struct dsf_toml_value *value, struct dsflow_err *err)
{
    if (set(o, base, value))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "%.100s: expected %s", value->text,
                       dsf_option_expected(o).s);
}

/* Is what TOML reads one value, and a string where the key is of strings? */
static bool is_one_value(const struct dsflow_option *o,
                         const struct dsf_toml *toml)
{
    bool one = toml->n == 1 && toml->v[0].table[0] == '\0';

    if (!one || o == NULL || toml->v[0].value.type == DSF_TOML_STRING)
        return one;
    if (o->type == DSFLOW_STRINGS)
        return toml->v[0].value.type == DSF_TOML_ARRAY;
    return o->type != DSFLOW_STRING && o->type != DSFLOW_CHOICE;
}

void dsf_option_read(const struct dsflow_option *o, const char *value,
                     struct dsf_toml *toml)
{
    char *text = dsf_xasprintf("x = %s", value);
    int status = strchr(value, '\n') != NULL
                     ? DSFLOW_EINVAL
                     : dsf_toml_parse(text, strlen(text), "", toml, NULL);

    free(text);
    if (status == DSFLOW_OK && is_one_value(o, toml))
        return;
    dsf_toml_fini(toml);
    dsf_grow(&toml->v, &toml->cap, 1, sizeof(*toml->v));
    toml->n = 1;
    toml->v[0].table = dsf_xstrdup("");
    toml->v[0].key = dsf_xstrdup("x");
    toml->v[0].value = (struct dsf_toml_value){
        .type = DSF_TOML_STRING,
        .string = dsf_xstrdup(value),
        .text = dsf_toml_quote(value),
    };
}

static int set_text(const struct dsflow_option *o, void *base,
                    const char *value, struct dsflow_err *err)
{
    struct dsf_toml toml = { 0 };
    char *text = dsf_xasprintf("x = %s", value);
    int status = dsf_toml_parse(text, strlen(text), o->key, &toml, err);

    if (status == DSFLOW_OK && toml.n != 1)
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%.60s: expected a value", value);
    if (status == DSFLOW_OK)
        status = dsf_option_set(o, base, &toml.v[0].value, err);
    dsf_toml_fini(&toml);
    free(text);
    return status;
}

/* Set the field to its default, where it has one. */
static int set_default(const struct dsflow_option *o, void *base,
                       struct dsflow_err *err)
{
    if (o->fallback != NULL)
        return set_text(o, base, o->fallback, err);
    if (o->type == DSFLOW_STRING)
        *(char **)((char *)base + o->offset) = dsf_xstrdup("");
    return DSFLOW_OK;
}

int dsf_option_check(const struct dsflow_option *option, const char *value,
                     struct dsflow_err *err)
{
    const struct dsflow_option alone[] = { *option, { 0 } };
    void *base = dsf_xcalloc(1, option->offset + dsf_field_size(option->type));
    int status = set_text(option, base, value, err);

    dsf_options_fini(alone, base);
    free(base);
    return status;
}

void dsf_options_default(const struct dsflow_option *options, void *base)
{
    struct dsflow_err err = { .msg = "" };

    for (; options->key != NULL; options++)
        if (set_default(options, base, &err) < 0)
            dsf_fatal("bug: default of %s: %s", options->key, err.msg);
}

/* A key as it stands in job.toml and behind --set, once in its table. */
static int check_key(const struct dsflow_option *options,
                     const struct dsflow_option *o, struct dsflow_err *err)
{
    size_t n = strspn(o->key, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    if (n == 0 || o->key[n] != '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "key \"%.60s\": expected letters, digits, '_' and "
                           "'-'",
                           o->key);
    for (; options != o; options++)
        if (strcmp(options->key, o->key) == 0)
            return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: expected it once",
                               o->key);
    return DSFLOW_OK;
}

static int check_option(const struct dsflow_option *o, size_t size,
                        struct dsflow_err *err)
{
    size_t field = dsf_field_size(o->type);

    if (o->help == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: has no help", o->key);
    if (o->type == DSFLOW_CHOICE && o->choices == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: has no choices", o->key);
    if (o->type == DSFLOW_TABLES && (o->keys == NULL || o->size == 0))
        return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: has no keys", o->key);
    for (const struct dsflow_option *k = o->keys;
         o->type == DSFLOW_TABLES && k->key != NULL; k++)
        if (k->type == DSFLOW_TABLES)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%.60s: %.60s: a table that repeats in another",
                               o->key, k->key);
    if (field == 0 || o->offset > size || field > size - o->offset)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.60s: its field is not within the %zu bytes of "
                           "the part",
                           o->key, size);
    return DSFLOW_OK;
}

static int check_conditions(const char *name,
                            const struct dsflow_option *options,
                            struct dsflow_err *err)
{
    char what[100];

    for (const struct dsflow_option *o = options; o->key != NULL; o++)
        if (o->used_with != NULL &&
            dsf_when_check(o->used_with, name, options, err) < 0) {
            snprintf(what, sizeof(what), "%.60s", o->key);
            return dsflow_fail_in(err, DSFLOW_EINVAL, what);
        }
    return DSFLOW_OK;
}

int dsf_options_check(const char *name, const struct dsflow_option *options,
                      size_t size, struct dsflow_err *err)
{
    const struct dsflow_option *o;
    int status = DSFLOW_OK;
    void *base;

    for (o = options; o->key != NULL && status == DSFLOW_OK; o++) {
        status = check_key(options, o, err);
        if (status == DSFLOW_OK)
            status = check_option(o, size, err);
    }
    if (status == DSFLOW_OK)
        status = check_conditions(name, options, err);
    if (status < 0)
        return status;
    base = dsf_xcalloc(1, size + 1);
    for (o = options; o->key != NULL && status == DSFLOW_OK; o++)
        if (set_default(o, base, err) < 0) {
            char what[100];

            snprintf(what, sizeof(what), "%.60s: default", o->key);
            status = dsflow_fail_in(err, DSFLOW_EINVAL, what);
        }
    dsf_options_fini(options, base);
    free(base);
    return status;
}
