/* when.c - conditions over the keys of a job: "zero.stage = 3 and mesh.data >=
 * 2". They are short and evaluated once a run, so that they stay text. */
#include "config/when.h"

#include "config/job_tables.h"
#include "config/option.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* "zero.stage = 1|2": slices of the condition. */
struct term {
    const char *key, *op, *values;
    size_t nkey, nop, nvalues;
    bool begins; /* an alternative: the first, or one after "or" */
};

static size_t word(const char **at, const char **start)
{
    *at += strspn(*at, " ");
    *start = *at;
    *at += strcspn(*at, " ");
    return (size_t)(*at - *start);
}

static bool is(const char *s, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(s, text, n) == 0;
}

/* The next term from `at` on; 1: there is one, 0: that was all, -1: this is no
 * condition. */
static int next_term(const char **at, const char *whole, struct term *t)
{
    bool first = *at == whole;
    const char *joint = "or";
    size_t n = 2;

    if (!first)
        n = word(at, &joint);
    if (n == 0)
        return 0;
    t->begins = is(joint, n, "or");
    t->nkey = word(at, &t->key);
    t->nop = word(at, &t->op);
    t->nvalues = word(at, &t->values);
    return (t->begins || is(joint, n, "and")) && t->nvalues > 0 ? 1 : -1;
}

/* The key of a term: its table, whose name stands before the last point. */
static const struct dsflow_option *find_key(const struct term *t,
                                            const char *table,
                                            const struct dsflow_option *options,
                                            const struct dsf_table **found)
{
    char name[128];
    char *dot;

    if (t->nkey >= sizeof(name))
        return NULL;
    memcpy(name, t->key, t->nkey);
    name[t->nkey] = '\0';
    dot = strrchr(name, '.');
    if (dot == NULL)
        return NULL;
    *dot = '\0';
    *found = dsf_job_find_table(name);
    if (table != NULL && strcmp(name, table) == 0)
        return dsf_option_find(options, dot + 1);
    /* A condition is of one value. */
    if (*found == NULL || (*found)->rows != NULL)
        return NULL;
    return dsf_option_find((*found)->options, dot + 1);
}

static bool is_number(const struct dsflow_option *o)
{
    return o->type == DSFLOW_INT || o->type == DSFLOW_AUTO ||
           o->type == DSFLOW_SIZE || o->type == DSFLOW_FLOAT ||
           o->type == DSFLOW_SHARE || o->type == DSFLOW_TIME ||
           o->type == DSFLOW_EVERY;
}

static double number_of(const struct dsflow_option *o, const void *field)
{
    if (o->type == DSFLOW_INT || o->type == DSFLOW_AUTO ||
        o->type == DSFLOW_SIZE)
        return (double)*(const int64_t *)field;
    if (o->type == DSFLOW_EVERY) {
        const struct dsflow_every *every = field;

        return (double)every->steps + every->seconds;
    }
    return *(const double *)field;
}

/* A name, for types that have one. */
static const char *name_of(const struct dsflow_option *o, const void *field)
{
    switch (o->type) {
    case DSFLOW_BOOL:
        return *(const bool *)field ? "true" : "false";
    case DSFLOW_CHOICE:
        return o->choices[*(const int *)field];
    case DSFLOW_STRING:
        return *(char *const *)field;
    case DSFLOW_STRINGS:
        return ((const struct dsflow_strings *)field)->n > 0 ? "[…]" : "[]";
    case DSFLOW_INTS:
        return ((const struct dsflow_ints *)field)->n > 0 ? "[…]" : "[]";
    case DSFLOW_TABLES:
        return ((const struct dsflow_tables *)field)->n > 0 ? "[…]" : "[]";
    default:
        return NULL;
    }
}

/* One value of a term, as a number. */
static bool read_number(const struct dsflow_option *o, const char *s, size_t n,
                        double *x)
{
    char text[40], *end;

    if (n >= sizeof(text))
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    if (strcmp(text, "auto") == 0) {
        *x = -1;
        return o->type == DSFLOW_AUTO || o->type == DSFLOW_SIZE ||
               o->type == DSFLOW_SHARE;
    }
    *x = strtod(text, &end);
    return end != text && *end == '\0';
}

static bool equals(const struct dsflow_option *o, const void *field,
                   const char *s, size_t n)
{
    double x;

    if (is_number(o))
        return read_number(o, s, n, &x) && number_of(o, field) == x;
    return is(s, n, name_of(o, field));
}

static bool is_among(const struct dsflow_option *o, const void *field,
                     const struct term *t)
{
    const char *end = t->values + t->nvalues;

    for (const char *v = t->values; v < end;) {
        size_t n = strcspn(v, "| ");

        if (equals(o, field, v, n))
            return true;
        v += n + 1;
    }
    return false;
}

static bool holds(const struct dsflow_option *o, const void *field,
                  const struct term *t)
{
    double x = 0, now;

    if (is(t->op, t->nop, "="))
        return is_among(o, field, t);
    if (is(t->op, t->nop, "!="))
        return !is_among(o, field, t);
    read_number(o, t->values, t->nvalues, &x);
    now = number_of(o, field);
    if (is(t->op, t->nop, "<"))
        return now < x;
    if (is(t->op, t->nop, "<="))
        return now <= x;
    return is(t->op, t->nop, ">") ? now > x : now >= x;
}

struct dsf_value_text dsf_value_text(const struct dsflow_option *o,
                                     const void *base)
{
    const void *field = (const char *)base + o->offset;
    const char *name = name_of(o, field);
    double number = name == NULL ? number_of(o, field) : 0;
    struct dsf_value_text text;

    if (name == NULL && number == -1 && o->type != DSFLOW_FLOAT)
        name = "auto";
    if (name == NULL && o->type == DSFLOW_SIZE && number > 0 &&
        fmod(number, 1 << 20) == 0)
        snprintf(text.s, sizeof(text.s), "\"%.0fMiB\"", number / (1 << 20));
    else if (name == NULL)
        snprintf(text.s, sizeof(text.s), "%.10g", number);
    else if (o->type == DSFLOW_BOOL || name[0] == '[')
        snprintf(text.s, sizeof(text.s), "%s", name);
    else
        snprintf(text.s, sizeof(text.s), "\"%.60s\"", name);
    return text;
}

static void append(struct dsf_when_text *text, const char *more)
{
    size_t n = strlen(text->s);

    snprintf(text->s + n, sizeof(text->s) - n, "%s", more);
}

/* "a|b" as "a or b". */
static void append_values(struct dsf_when_text *text, const char *s, size_t n)
{
    size_t at = strlen(text->s);

    for (size_t i = 0; i < n && at + 5 < sizeof(text->s); i++)
        if (s[i] == '|')
            at += (size_t)sprintf(text->s + at, " or ");
        else
            text->s[at++] = s[i];
    text->s[at] = '\0';
}

/* Add "mesh.data is 1 (needs 2 or more)" to the reasons. */
static void explain(const struct dsflow_option *o, const void *base,
                    const struct term *t, struct dsf_when_text *why)
{
    struct dsf_when_text what;
    bool equal = is(t->op, t->nop, "=");

    snprintf(what.s, sizeof(what.s), "%.*s is %s", (int)t->nkey, t->key,
             dsf_value_text(o, base).s);
    if (strstr(why->s, what.s) != NULL)
        return;
    if (!is(t->op, t->nop, "!=")) {
        append(&what, " (needs ");
        if (!equal && t->op[0] == '>' && t->nop == 1)
            append(&what, "more than ");
        else if (!equal && t->nop == 1)
            append(&what, "less than ");
        append_values(&what, t->values, t->nvalues);
        append(&what, t->nop == 1       ? ")"
                      : t->op[0] == '>' ? " or more)"
                                        : " or less)");
    }
    if (why->s[0] != '\0')
        append(why, " and ");
    append(why, what.s);
}

/* Of one term. */
static enum dsf_truth truth_of(const struct dsf_job *job, const struct term *t,
                               dsf_foreign_fn foreign,
                               struct dsf_when_text *why)
{
    const struct dsf_table *table;
    const struct dsflow_option *o = find_key(t, NULL, NULL, &table);
    const char *fields = dsf_job_fields(job, table);

    if (fields == NULL) /* the table came after the job */
        return DSF_MAYBE;
    if (holds(o, fields + o->offset, t))
        return DSF_YES;
    if (foreign != NULL && o->type == DSFLOW_STRING &&
        foreign(table->name, o->key, name_of(o, fields + o->offset)))
        return DSF_MAYBE;
    explain(o, fields, t, why);
    return DSF_NO;
}

enum dsf_truth dsf_when(const struct dsf_job *job, const char *when,
                        dsf_foreign_fn foreign, struct dsf_when_text *why)
{
    enum dsf_truth all = DSF_NO, one = DSF_NO;
    const char *at = when;
    struct term t;

    why->s[0] = '\0';
    while (next_term(&at, when, &t) > 0) {
        enum dsf_truth is = truth_of(job, &t, foreign, why);

        if (t.begins) {
            all = one > all ? one : all;
            one = is;
        } else if (is < one) {
            one = is;
        }
    }
    return one > all ? one : all;
}

bool dsf_job_is(const struct dsf_job *job, const char *when)
{
    struct dsf_when_text why;

    assert(dsf_when_check(when, NULL, NULL, NULL) == DSFLOW_OK);
    return dsf_when(job, when, NULL, &why) == DSF_YES;
}

/* Could the key have this value? */
static bool is_value(const struct dsflow_option *o, const char *s, size_t n)
{
    double x;

    if (is_number(o))
        return read_number(o, s, n, &x);
    if (o->type == DSFLOW_BOOL)
        return is(s, n, "true") || is(s, n, "false");
    if (o->type == DSFLOW_STRINGS || o->type == DSFLOW_INTS ||
        o->type == DSFLOW_TABLES)
        return is(s, n, "[]");
    if (o->type == DSFLOW_CHOICE)
        for (unsigned i = 0; o->choices[i] != NULL; i++)
            if (is(s, n, o->choices[i]))
                return true;
    return o->type == DSFLOW_STRING && n > 0;
}

static int check_term(const struct term *t, const char *table,
                      const struct dsflow_option *options,
                      struct dsflow_err *err)
{
    const char *end = t->values + t->nvalues;
    const struct dsf_table *found;
    const struct dsflow_option *o = find_key(t, table, options, &found);
    bool orders = t->op[0] == '<' || t->op[0] == '>';

    if (o == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "used_with: %.*s: unknown key",
                           (int)t->nkey, t->key);
    if (!is(t->op, t->nop, "=") && !is(t->op, t->nop, "!=") &&
        !(orders && (t->nop == 1 || is(t->op + 1, t->nop - 1, "="))))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "used_with: %.*s: expected =, !=, <, <=, > or >=",
                           (int)t->nop, t->op);
    for (const char *v = t->values; v < end;) {
        size_t n = strcspn(v, "| ");

        if (!is_value(o, v, n) || (orders && !is_number(o)))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "used_with: %.*s %.*s %.*s: not a value that "
                               "this key can be compared with",
                               (int)t->nkey, t->key, (int)t->nop, t->op, (int)n,
                               v);
        v += n + 1;
    }
    return DSFLOW_OK;
}

int dsf_when_check(const char *when, const char *table,
                   const struct dsflow_option *options, struct dsflow_err *err)
{
    const char *at = when;
    struct term t;
    int more, status = DSFLOW_OK;

    while (status == DSFLOW_OK && (more = next_term(&at, when, &t)) != 0) {
        if (more < 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "used_with: \"%.100s\": expected conditions "
                               "such as \"zero.stage = 3\", joined by and, or",
                               when);
        status = check_term(&t, table, options, err);
    }
    return status;
}

struct dsf_when_text dsf_when_words(const char *when)
{
    struct dsf_when_text text = { "" };

    append_values(&text, when, strlen(when));
    return text;
}

bool dsf_is_off(const struct dsflow_option *option, const void *base)
{
    static const char *const offs[] = { "0",        "0.0",      "false",
                                        "\"none\"", "\"auto\"", "[]" };
    const char *fields = base;

    for (size_t i = 0; i < sizeof(offs) / sizeof(*offs); i++) {
        size_t quote = offs[i][0] == '"';

        if (option->fallback != NULL && strcmp(option->fallback, offs[i]) == 0)
            return equals(option, fields + option->offset, offs[i] + quote,
                          strlen(offs[i]) - 2 * quote);
    }
    return false;
}
