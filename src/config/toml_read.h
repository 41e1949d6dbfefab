/* toml_read.h - TOML as a flat list of values with their places. The parser is
 * toml++; nothing above this file sees C++. */
#ifndef DSF_CONFIG_TOML_READ_H
#define DSF_CONFIG_TOML_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

enum dsf_toml_type {
    DSF_TOML_BOOL,
    DSF_TOML_INT,
    DSF_TOML_FLOAT,
    DSF_TOML_STRING,
    DSF_TOML_ARRAY, /* of the types above */
    DSF_TOML_TABLE, /* an empty one, whose key is "" */
    DSF_TOML_OTHER  /* a date, a table among other values, … */
};

struct dsf_toml_value {
    enum dsf_toml_type type;
    int64_t integer; /* and bool */
    double number;
    char *string;
    struct dsf_toml_value *items; /* of an array */
    size_t nitems;
    char *text; /* the value as TOML, for messages */
};

struct dsf_toml_entry {
    char *table, *key; /* table "" is the top of the file; a table in a table
                          is "outer.inner", the first of [[name]] "name[0]" */
    int line;          /* 0: there is none */
    struct dsf_toml_value value;
};

struct dsf_toml {
    struct dsf_toml_entry *v;
    size_t n, cap;
};

/* Is it text in which every string ends, and without characters that TOML has
 * in strings and comments only? The parser asks this first. */
int dsf_toml_check(const char *text, size_t bytes, const char *path,
                   struct dsflow_err *err);

/* Append every `table.key = value` of `text`, an entry for each table that has
 * none, and one before those of each [[table]], both with the key "". A syntax
 * error is "path:line: what is wrong". */
int dsf_toml_parse(const char *text, size_t bytes, const char *path,
                   struct dsf_toml *out, struct dsflow_err *err);
void dsf_toml_fini(struct dsf_toml *toml);

/* The string as TOML, in quotes, and the number; freed by the caller. */
char *dsf_toml_quote(const char *string);
char *dsf_toml_real(double x);

DSFLOW_END_DECLS

#endif
