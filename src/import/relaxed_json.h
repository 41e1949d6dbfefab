/* relaxed_json.h - JSON as people write it: with comments and with commas
 * behind the last item; and in which line each key stands. */
#ifndef DSF_IMPORT_RELAXED_JSON_H
#define DSF_IMPORT_RELAXED_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <dsflow/error.h>

struct dsf_relaxed {
    json_t *root; /* an object */
    struct dsf_key_place {
        char *path; /* "optimizer.params.lr" */
        int line;
    } * v;
    size_t n, cap;
};

/* Comments begin with #, // or / *. A key that an object has twice is an error.
 * DSFLOW_EINVAL: the file and the line of what is no JSON. */
int dsf_relaxed_load(const char *path, struct dsf_relaxed *r,
                     struct dsflow_err *err);
void dsf_relaxed_fini(struct dsf_relaxed *r);

/* The line of a key; 0: it is not there. */
int dsf_relaxed_line(const struct dsf_relaxed *r, const char *path);

/* The value of "optimizer.params.lr", or NULL. */
const json_t *dsf_relaxed_get(const struct dsf_relaxed *r, const char *path);

#endif
