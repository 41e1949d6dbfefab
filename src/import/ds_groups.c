/* ds_groups.c - the groups of modules that a section of compression_training
 * names, and whether a job can have what is asked for of these. */
#include "import/ds_groups.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- modules -------------------------------------------------------------- */

/* Those that DeepSpeed compresses, by the names that they have in programs: the
 * number of a layer is '#', so that no word is of some layers only. */
enum { HF_GPT2, HF_LLAMA, MEGATRON, NFAMILIES };

static const struct {
    int family;
    bool outside; /* of blocks */
    const char *name;
} modules[] = {
    { HF_GPT2, true, "transformer.wte" },
    { HF_GPT2, true, "transformer.wpe" },
    { HF_GPT2, false, "transformer.h.#.attn.c_attn" },
    { HF_GPT2, false, "transformer.h.#.attn.c_proj" },
    { HF_GPT2, false, "transformer.h.#.mlp.c_fc" },
    { HF_GPT2, false, "transformer.h.#.mlp.c_proj" },
    { HF_GPT2, true, "lm_head" },
    { HF_LLAMA, true, "model.embed_tokens" },
    { HF_LLAMA, false, "model.layers.#.self_attn.q_proj" },
    { HF_LLAMA, false, "model.layers.#.self_attn.k_proj" },
    { HF_LLAMA, false, "model.layers.#.self_attn.v_proj" },
    { HF_LLAMA, false, "model.layers.#.self_attn.o_proj" },
    { HF_LLAMA, false, "model.layers.#.mlp.gate_proj" },
    { HF_LLAMA, false, "model.layers.#.mlp.up_proj" },
    { HF_LLAMA, false, "model.layers.#.mlp.down_proj" },
    { HF_LLAMA, true, "lm_head" },
    { MEGATRON, true, "language_model.embedding.word_embeddings" },
    { MEGATRON, false,
      "language_model.encoder.layers.#.self_attention.query_key_value" },
    { MEGATRON, false, "language_model.encoder.layers.#.self_attention.dense" },
    { MEGATRON, false, "language_model.encoder.layers.#.mlp.dense_h_to_4h" },
    { MEGATRON, false, "language_model.encoder.layers.#.mlp.dense_4h_to_h" },
};

enum { NMODULES = sizeof(modules) / sizeof(*modules) };
_Static_assert((int)NMODULES <= (int)DSF_DS_MOST_MODULES, "each has its place");

/* Does the name have the word at its beginning? A dot is any character, as in
 * Python's re, and "\." a dot. */
static bool begins(const char *name, const char *word)
{
    for (; *word != '\0'; word++, name++) {
        const bool any = *word == '.';

        if (word[0] == '\\' && word[1] == '.')
            word++;
        if (*name == '\0' || (!any && *name != *word))
            return false;
    }
    return true;
}

static bool has_word(const char *name, const char *word)
{
    bool found = strcmp(word, "*") == 0 || strcmp(word, ".*") == 0;

    for (; *name != '\0' && !found; name++)
        found = begins(name, word);
    return found;
}

/* --- groups of modules ---------------------------------------------------- */

static void refuse_unknown(struct dsf_ds *x, const char *path,
                           const json_t *object, const char *const *names)
{
    const json_t *value;
    const char *name;
    size_t i;

    json_object_foreach((json_t *)object, name, value) {
        char *at = dsf_xasprintf("%s.%s", path, name);

        for (i = 0; names[i] != NULL && strcmp(names[i], name) != 0; i++)
            ;
        if (strchr(name, '.') != NULL)
            dsf_ds_refuse(x, at, "expected a name without a dot");
        else if (names[i] == NULL && dsf_ds_get(x, at) != NULL)
            dsf_ds_refuse(x, at,
                          "is no key of DeepSpeed's there; --drop %s "
                          "goes on without it",
                          at);
        free(at);
    }
}

/* An object below `path`, or NULL with a refusal. */
static const json_t *object_at(struct dsf_ds *x, const char *path)
{
    const json_t *value = dsf_ds_get(x, path);

    if (json_is_object(value))
        return value;
    dsf_ds_refuse(x, path, "expected an object, {…}");
    return NULL;
}

static void hit_word(struct dsf_ds *x, struct dsf_ds_groups *g,
                     const char *path, const char *word)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyz_.\\-0123456789"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    if (word == NULL ||
        (word[strspn(word, known)] != '\0' && !has_word("#", word)))
        dsf_ds_refuse(x, path,
                      "%.60s: expected words that names of modules "
                      "have, or \"*\"",
                      word != NULL ? word : "no string");
    for (size_t i = 0; word != NULL && i < NMODULES; i++)
        if (has_word(modules[i].name, word))
            g->hit[i] = true;
}

static void hit_modules(struct dsf_ds *x, struct dsf_ds_groups *g,
                        const char *group)
{
    char *path = dsf_xasprintf("%s.modules", group);
    const json_t *words = dsf_ds_get(x, path), *word;
    size_t i;

    if (words == NULL)
        hit_word(x, g, path, "*");
    else if (!json_is_array(words))
        dsf_ds_refuse(x, path, "expected a list, as [\"*\"]");
    else
        json_array_foreach(words, i, word)
            hit_word(x, g, path, json_string_value(word));
    free(path);
}

char *dsf_ds_param(const char *group, const char *key)
{
    return dsf_xasprintf("%s.params.%s", group, key);
}

/* No number of a file. */
#define ABSENT (-INFINITY)

/* "8", or "none" of a parameter that a group does not have. */
static const char *param_text(double value, char *text, size_t n)
{
    if (value == ABSENT)
        return "none";
    snprintf(text, n, "%g", value);
    return text;
}

/* All matrices are trained alike. `fallback`: of the one that may be absent. */
static void compare_params(struct dsf_ds *x, const struct dsf_ds_groups *g,
                           const char *group)
{
    for (size_t i = 0; g->params[i] != NULL; i++) {
        char *one = dsf_ds_param(group, g->params[i]);
        char *first = dsf_ds_param(g->first, g->params[i]);
        const double fallback =
            strcmp(g->params[i], "quantization_period") == 0 ? 1 : ABSENT;
        const double value = dsf_ds_number(x, one, fallback);
        const double wanted = dsf_ds_number(x, first, fallback);
        char has[32], needs[32];

        if (value != wanted)
            dsf_ds_refuse(x, one,
                          "%s: all matrices have the same: expected "
                          "%s, as %s has it",
                          param_text(value, has, sizeof(has)),
                          param_text(wanted, needs, sizeof(needs)), g->first);
        free(one);
        free(first);
    }
}

static void take_group(struct dsf_ds *x, struct dsf_ds_groups *g,
                       const char *group)
{
    static const char *const names[] = { "params", "modules", "related_modules",
                                         NULL };
    char *params = dsf_xasprintf("%s.params", group);
    char *related = dsf_xasprintf("%s.related_modules", group);
    const json_t *object = object_at(x, group);

    if (object != NULL) {
        refuse_unknown(x, group, object, names);
        object = object_at(x, params);
    }
    if (object != NULL) {
        refuse_unknown(x, params, object, g->params);
        if (dsf_ds_get(x, related) != NULL)
            dsf_ds_refuse(x, related,
                          "no rows or heads are pruned: expected "
                          "null");
        hit_modules(x, g, group);
        if (g->first == NULL)
            g->first = dsf_xstrdup(group);
        else
            compare_params(x, g, group);
    }
    free(params);
    free(related);
}

/* Are all matrices of blocks hit, of one family? */
static bool covers(struct dsf_ds_groups *g, int family)
{
    unsigned missed = 0, hit = 0, outside = 0;

    for (size_t i = 0; i < NMODULES; i++)
        if (modules[i].family == family && modules[i].outside) {
            outside++;
            hit += g->hit[i];
        } else if (modules[i].family == family) {
            missed += !g->hit[i];
        }
    g->outside = hit > 0;
    return missed == 0 && (!g->together || hit == 0 || hit == outside);
}

bool dsf_ds_take_groups(struct dsf_ds *x, struct dsf_ds_groups *g)
{
    const json_t *all = object_at(x, g->path), *group;
    const size_t before = x->nrefused;
    const char *name;
    int family = 0;

    if (all == NULL)
        return false;
    json_object_foreach((json_t *)all, name, group) {
        char *path = dsf_xasprintf("%s.%s", g->path, name);

        if (strchr(name, '.') != NULL)
            dsf_ds_refuse(x, path, "expected a name without a dot");
        else if (dsf_ds_get(x, path) != NULL)
            take_group(x, g, path);
        free(path);
    }
    if (x->nrefused > before)
        return false;
    while (family < NFAMILIES && !covers(g, family))
        family++;
    if (g->first == NULL || family == NFAMILIES)
        dsf_ds_refuse(x, g->path,
                      "%s: expected modules that are these, as [\"*\"]", g->of);
    g->taken = x->nrefused == before;
    return g->taken;
}
