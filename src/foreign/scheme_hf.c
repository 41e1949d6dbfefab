/* scheme_hf.c - tensors that have Hugging Face's names, as those of jobs do. */
#include "foreign/match.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

/* GPT-2's are known without it, too. */
static const char gpt2[] = "transformer.";

static const char *bare(const char *name)
{
    size_t n = sizeof(gpt2) - 1;

    return strncmp(name, gpt2, n) == 0 ? name + n : NULL;
}

static struct dsf_source_tensor *
find_in(const struct dsf_source *s, const char *name, char *wanted, size_t size)
{
    snprintf(wanted, size, "%s%s", s->prefix != NULL ? s->prefix : "", name);
    return dsf_source_find(s, wanted);
}

static int find(const struct dsf_source *s, const struct dsf_model *m,
                const struct dsf_unit *u, const struct dsf_tensor *t,
                struct dsf_match *match, char *wanted, size_t size,
                struct dsflow_err *err)
{
    const char *without = bare(t->name);
    char other[200];

    match->from = find_in(s, t->name, wanted, size);
    if (match->from == NULL && without != NULL)
        match->from = find_in(s, without, other, sizeof(other));
    return match->from == NULL ? DSFLOW_OK
                               : dsf_match_whole(s, match, m, t, true, err);
}

/* Where the name of the embedding ends a name, what stands before it. */
static void find_prefix(struct dsf_source *s, const struct dsf_model *m)
{
    const char *name = m->units[0].tensors[0].name;
    const char *names[] = { name, bare(name) };

    for (size_t i = 0; i < 2 && s->prefix == NULL; i++) {
        size_t n = names[i] == NULL ? 0 : strlen(names[i]);

        for (size_t k = 0; k < s->n && n > 0 && s->prefix == NULL; k++) {
            const char *whole = s->tensors[k].name;
            size_t all = strlen(whole);

            if (all < n || strcmp(whole + all - n, names[i]) != 0)
                continue;
            if (all == n || whole[all - n - 1] == '.')
                s->prefix = dsf_xasprintf("%.*s", (int)(all - n), whole);
        }
    }
}

/* Buffers of old files (model/hf.c). */
static bool ignores(const struct dsf_source *s, const struct dsf_model *m,
                    const struct dsf_source_tensor *t)
{
    static const char *const endings[] = { ".attn.bias", ".attn.masked_bias",
                                           "rotary_emb.inv_freq" };
    size_t n = strlen(t->name);

    (void)s;
    (void)m;
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t k = strlen(endings[i]);

        if (n >= k && strcmp(t->name + n - k, endings[i]) == 0)
            return true;
    }
    return false;
}

const struct dsf_scheme dsf_scheme_hf = {
    .find = find,
    .find_prefix = find_prefix,
    .ignores = ignores,
};
