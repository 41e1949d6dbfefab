/* option.h - the keys of a table of job.toml, described once: the reader, the
 * messages, `dsflow list keys` and the manual page all come from this. */
#ifndef DSFLOW_OPTION_H
#define DSFLOW_OPTION_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

/* The type of the field that receives the value. */
enum dsflow_option_type {
    DSFLOW_BOOL,    /* bool */
    DSFLOW_INT,     /* int64_t */
    DSFLOW_FLOAT,   /* double; an integer is accepted */
    DSFLOW_STRING,  /* char *, owned by the table, never NULL once read */
    DSFLOW_CHOICE,  /* int: position in `choices` */
    DSFLOW_SIZE,    /* int64_t bytes, written "80GiB"; -1 is "auto" */
    DSFLOW_TIME,    /* double seconds, written "30s", "5min" */
    DSFLOW_STRINGS, /* struct dsflow_strings; one string is a list of one */
    DSFLOW_PAIR,    /* double[2], written [0.9, 0.95] */
    DSFLOW_AUTO,    /* int64_t, or "auto", which is stored as -1 */
    DSFLOW_INTS,    /* struct dsflow_ints, written [4, 3, 5] */
    DSFLOW_SHARE,   /* double, or "auto", which is stored as -1 */
    DSFLOW_EVERY,   /* struct dsflow_every: steps, or a time "30min" */
    DSFLOW_TABLES   /* struct dsflow_tables: [[table.key]], once for each */
};

struct dsflow_strings {
    char **v;
    unsigned n;
};

struct dsflow_ints {
    int64_t *v;
    unsigned n;
};

/* A table that repeats: `n` structures, one after the other, each filled by the
 * keys of one [[table.key]]. */
struct dsflow_tables {
    void *v;
    unsigned n;
};

/* How often something is done: one of the two is 0; both are: never. */
struct dsflow_every {
    int64_t steps;
    double seconds;
};

/* A table of options ends with an entry whose key is NULL. */
struct dsflow_option {
    const char *key;
    enum dsflow_option_type type;
    size_t offset;              /* of the field that receives the value */
    const char *fallback;       /* the default as one writes it in TOML;
                                   NULL: the key must be given */
    double min, max;            /* for numbers; both bounds are allowed */
    const char *const *choices; /* for DSFLOW_CHOICE, ends with NULL */
    const char *help;           /* one line */

    /* When the key has an effect: NULL: always. A job that sets the key where
     * it has none is warned. Comparisons of keys of any table with values,
     * joined by "and" and "or" (which binds less):
     *     "zero.stage = 3 and mesh.data >= 2"
     *     "schedule.kind = warmup|warmup_linear or schedule.total > 0"
     * with = and != (of one value or of one among several), <, <=, > and >=.
     * Values are numbers, true, false, words without quotes, or [] for an
     * empty list. */
    const char *used_with;

    /* For DSFLOW_TABLES: the keys of each, among which there are no tables, and
     * the bytes of the structure that they fill. */
    const struct dsflow_option *keys;
    size_t size;

    /* For DSFLOW_STRING: the i-th name that it may be, of those that are known
     * when it is read; NULL past the last. Without this, any string. */
    const char *(*names)(const struct dsflow_option *option, unsigned i);
};

/* The last arguments of the macros below are the help and, optionally,
 * used_with. */
#define DSFLOW_OPTION_WORDS(text, when, ...) text, when
#define DSFLOW_OPTION_FULL(name, kind, at, dflt, lowest, highest, names, ...)  \
    {                                                                          \
        name, kind, at, dflt, lowest, highest, names,                          \
            DSFLOW_OPTION_WORDS(__VA_ARGS__, NULL, 0), NULL, 0, NULL           \
    }
/* `table` is the structure that `options` fill. */
#define DSFLOW_OPTION_TABLES(type, field, options, table, ...)                 \
    {                                                                          \
#field, DSFLOW_TABLES, offsetof(type, field), "[]", 0, 0, NULL,        \
            DSFLOW_OPTION_WORDS(__VA_ARGS__, NULL, 0), options, sizeof(table), \
            NULL                                                               \
    }
/* `list` is the function `names`. */
#define DSFLOW_OPTION_NAME(type, field, dflt, list, ...)                       \
    {                                                                          \
#field, DSFLOW_STRING, offsetof(type, field), dflt, 0, 0, NULL,        \
            DSFLOW_OPTION_WORDS(__VA_ARGS__, NULL, 0), NULL, 0, list           \
    }
#define DSFLOW_OPTION_NUMBER(kind, type, field, dflt, lowest, highest, ...)    \
    DSFLOW_OPTION_FULL(#field, kind, offsetof(type, field), dflt, lowest,      \
                       highest, NULL, __VA_ARGS__)
#define DSFLOW_OPTION_INT(type, field, dflt, lowest, highest, ...)             \
    DSFLOW_OPTION_FULL(#field, DSFLOW_INT, offsetof(type, field), dflt,        \
                       lowest, highest, NULL, __VA_ARGS__)
#define DSFLOW_OPTION_FLOAT(type, field, dflt, lowest, highest, ...)           \
    DSFLOW_OPTION_FULL(#field, DSFLOW_FLOAT, offsetof(type, field), dflt,      \
                       lowest, highest, NULL, __VA_ARGS__)
#define DSFLOW_OPTION_AUTO(type, field, dflt, lowest, highest, ...)            \
    DSFLOW_OPTION_FULL(#field, DSFLOW_AUTO, offsetof(type, field), dflt,       \
                       lowest, highest, NULL, __VA_ARGS__)
#define DSFLOW_OPTION_CHOICE(type, field, dflt, names, ...)                    \
    DSFLOW_OPTION_FULL(#field, DSFLOW_CHOICE, offsetof(type, field), dflt, 0,  \
                       0, names, __VA_ARGS__)
#define DSFLOW_OPTION_OF(kind, type, field, dflt, ...)                         \
    DSFLOW_OPTION_FULL(#field, kind, offsetof(type, field), dflt, 0, 0, NULL,  \
                       __VA_ARGS__)

DSFLOW_END_DECLS

#endif
