/* tiny.h - a small tokenizer, and others that are like it. */
#ifndef DSF_TESTS_TINY_H
#define DSF_TESTS_TINY_H

#include "text/tokenizer.h"

#include "lib/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline char *path_of_tiny(void)
{
    const char *src = getenv("srcdir");
    static char path[4096];

    snprintf(path, sizeof(path), "%s/tests/unit/text/tiny_tokenizer.json",
             src != NULL ? src : ".");
    return path;
}

/* The tiny tokenizer with parts replaced: objects are merged, all else is put
 * in place of what was there. */
static inline int open_changed(const char *change, struct dsf_tokenizer **tok,
                               struct dsflow_err *err)
{
    json_t *all = json_load_file(path_of_tiny(), 0, NULL);
    json_t *other = json_loads(change, 0, NULL);
    struct dsf_tokenizer *t = dsf_tokenizer_new();
    int status;
    char *text;

    assert_non_null(all);
    assert_non_null(other);
    assert_int_equal(json_object_update_recursive(all, other), 0);
    text = json_dumps(all, 0);
    status = dsf_tokenizer_parse_json(t, text, strlen(text), "t.json", err);
    free(text);
    json_decref(all);
    json_decref(other);
    if (status < 0)
        dsf_tokenizer_free(t);
    else
        *tok = t;
    return status;
}

#endif
