/* source.c - a checkpoint of another program as a list of tensors. */
#include "foreign/source.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void dsf_source_init(struct dsf_source *s, const char *path)
{
    *s = (struct dsf_source){ .path = dsf_xstrdup(path),
                              .steps = -1,
                              .skipped = -1,
                              .updates = -1,
                              .samples = -1,
                              .lr = NAN,
                              .betas = { NAN, NAN },
                              .eps = NAN,
                              .weight_decay = NAN,
                              .least_decay = NAN,
                              .momentum = NAN };
}

void dsf_source_fini(struct dsf_source *s)
{
    if (s->close != NULL)
        s->close(s);
    for (size_t i = 0; i < s->n; i++)
        free(s->tensors[i].name);
    free(s->tensors);
    free(s->prefix);
    free(s->path);
    *s = (struct dsf_source){ 0 };
}

struct dsf_source_tensor *dsf_source_add(struct dsf_source *s, const char *name)
{
    dsf_grow(&s->tensors, &s->cap, s->n + 1, sizeof(*s->tensors));
    s->tensors[s->n] = (struct dsf_source_tensor){ .name = dsf_xstrdup(name) };
    return &s->tensors[s->n++];
}

struct dsf_source_tensor *dsf_source_find(const struct dsf_source *s,
                                          const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    return NULL;
}

int64_t dsf_source_elems(const struct dsf_source_tensor *t)
{
    int64_t n = 1;

    for (unsigned d = 0; d < t->ndims; d++)
        n *= t->dims[d];
    return n;
}

const char *dsf_source_state_str(enum dsf_source_state state)
{
    static const char *const words[] = {
        [DSF_SOURCE_WEIGHT] = "weight",
        [DSF_SOURCE_FIRST] = "first moment",
        [DSF_SOURCE_SECOND] = "second moment",
    };

    return words[state];
}
