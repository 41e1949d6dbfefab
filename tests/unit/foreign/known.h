/* known.h - folders whose every number is known, which scripts in
 * tests/reference have made. */
#ifndef DSF_TESTS_FOREIGN_KNOWN_H
#define DSF_TESTS_FOREIGN_KNOWN_H

#include "foreign/source.h"

#include "base/alloc.h"
#include "lib/folder.h"

#include <stdlib.h>
#include <string.h>

/* All of them, out of tests/reference/WHICH/known.tar.xz. */
static inline int unpack_known(void **state, const char *which)
{
    const char *srcdir = getenv("srcdir");
    char *command;
    int status;

    if (make_folder(state) != 0)
        return -1;
    command = dsf_xasprintf("tar xJf %s/tests/reference/%s/known.tar.xz -C %s",
                            srcdir != NULL ? srcdir : ".", which, folder);
    status = system(command);
    free(command);
    return status;
}

/* What the script has given number `i` of a tensor. */
static inline float value(const char *name, const char *state, uint32_t i)
{
    uint32_t h = 2166136261u;

    for (const char *c = name; *c != '\0'; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    h = (h ^ '/') * 16777619u;
    for (const char *c = state; *c != '\0'; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    return (float)(((i * 2654435761u + h) * 2246822519u) >> 24) / 256;
}

/* Every number of a state, in pieces that cross those of ranks; the script
 * calls the tensor `name`. */
static inline void check_known(struct dsf_source *s,
                               const struct dsf_source_tensor *t,
                               enum dsf_source_state state, const char *name)
{
    enum { PIECE = 37 };
    static const char *const words[] = { "fp32", "exp_avg", "exp_avg_sq" };
    const char *word = words[state];
    int64_t elems = dsf_source_elems(t);
    struct dsflow_err err = { .msg = "" };
    float got[PIECE];

    for (int64_t at = 0; at < elems; at += PIECE) {
        int64_t n = elems - at < PIECE ? elems - at : PIECE;

        if (s->read(s, t, state, at, (size_t)n, got, &err) < 0)
            fail_msg("%s: %s", t->name, err.msg);
        for (int64_t i = 0; i < n; i++)
            if (got[i] != value(name, word, (uint32_t)(at + i)))
                fail_msg("%s: %s[%lld] is %g: expected %g", name, word,
                         (long long)(at + i), (double)got[i],
                         (double)value(name, word, (uint32_t)(at + i)));
    }
}

#endif
