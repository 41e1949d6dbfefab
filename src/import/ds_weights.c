/* ds_weights.c - what a configuration says of weights that are trained to be
 * quantized or pruned, as keys of a job.
 *
 * DeepSpeed has weights quantized in two ways. With quantize_weight_in_forward
 * they have target_bits at once. Without it, in MoQ, its optimizer for fp16
 * writes them quantized behind each update, and bits fall; masters stay exact.
 * Both give what [weights] does.
 */
#include "import/ds_private.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CT           "compression_training."
#define SHARED(name) CT name ".shared_parameters."
#define GROUPS(name) CT name ".different_groups"
#define WQ           SHARED("weight_quantization")
#define SP           SHARED("sparse_pruning")

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

struct groups {
    const char *path;          /* of all of them */
    const char *const *params; /* that each may have */
    char *first;               /* path of the first one; NULL: there is none */
    bool hit[NMODULES];
    bool taken, embedding;
};

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

static void hit_word(struct dsf_ds *x, struct groups *g, const char *path,
                     const char *word)
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

static void hit_modules(struct dsf_ds *x, struct groups *g, const char *group)
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

/* "path.params.key" */
static char *param_path(const char *group, const char *key)
{
    return dsf_xasprintf("%s.params.%s", group, key);
}

/* All matrices are trained alike. `fallback`: of the one that may be absent. */
static void compare_params(struct dsf_ds *x, const struct groups *g,
                           const char *group)
{
    for (size_t i = 0; g->params[i] != NULL; i++) {
        char *one = param_path(group, g->params[i]);
        char *first = param_path(g->first, g->params[i]);
        const double fallback =
            strcmp(g->params[i], "quantization_period") == 0 ? 1 : -1;
        const double value = dsf_ds_number(x, one, fallback);
        const double wanted = dsf_ds_number(x, first, fallback);

        if (value != wanted)
            dsf_ds_refuse(x, one,
                          "%g: all matrices have the same: expected "
                          "%g, as %s has it",
                          value, wanted, g->first);
        free(one);
        free(first);
    }
}

static void take_group(struct dsf_ds *x, struct groups *g, const char *group)
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

/* Are all matrices of blocks hit, of one family, and of the others all or none?
 */
static bool covers(struct groups *g, int family)
{
    unsigned missed = 0, hit = 0, outside = 0;

    for (size_t i = 0; i < NMODULES; i++)
        if (modules[i].family == family && modules[i].outside) {
            outside++;
            hit += g->hit[i];
        } else if (modules[i].family == family) {
            missed += !g->hit[i];
        }
    g->embedding = hit > 0;
    return missed == 0 && (hit == 0 || hit == outside);
}

/* True: there are groups that can be had. */
static bool take_groups(struct dsf_ds *x, struct groups *g)
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
                      "[weights] is of all matrices of blocks, and of "
                      "embeddings and the head together or not: expected "
                      "modules that are these, as [\"*\"]");
    g->taken = x->nrefused == before;
    return g->taken;
}

/* --- quantized ------------------------------------------------------------ */

static bool is_moq(struct dsf_ds *x)
{
    return !dsf_ds_true(x, WQ "quantize_weight_in_forward", false);
}

/* DeepSpeed quantizes what its optimizer for fp16 writes; its kernel for that
 * rounds by chance, whatever `rounding` says. */
static void check_moq(struct dsf_ds *x, const char *compute)
{
    const char *path = WQ "quantize_weight_in_forward";

    if (strcmp(compute, "fp16") != 0 && !dsf_ds_is_auto(x, "fp16.enabled"))
        dsf_ds_refuse(x, path,
                      "false%s: DeepSpeed has it with fp16.enabled alone: "
                      "expected true",
                      dsf_ds_get(x, path) == NULL ? " by default" : "");
    if (dsf_ds_true(x, WQ "quantizer_kernel", false))
        dsf_ds_refuse(x, WQ "quantizer_kernel",
                      "true: that kernel rounds by chance, dsflow to the "
                      "nearest: expected false");
}

/* Bits at first, of MoQ: the others are without effect there. */
static void take_start(struct dsf_ds *x, const struct groups *g, int64_t bits)
{
    char *from = param_path(g->first, "start_bits");
    char *period = param_path(g->first, "quantization_period");
    const int64_t start = dsf_ds_whole(x, from, bits);

    if (start < bits || (start > bits && bits < 3)) {
        dsf_ds_refuse(
            x, from, "%lld: expected target_bits%s, %lld", (long long)start,
            bits < 3 ? ", as 2 and 1 bits are from the beginning" : " or more",
            (long long)bits);
    } else if (start > bits) {
        dsf_ds_set(x, "weights", "start_bits", from, "%lld", (long long)start);
        dsf_ds_set(x, "weights", "period", period, "%lld",
                   (long long)dsf_ds_whole(x, period, 1));
    }
    free(from);
    free(period);
}

/* 2 bits are ternary there, and 1 is binary. */
static void take_bits(struct dsf_ds *x, const char *path, int64_t bits)
{
    static const char *const few[] = { NULL, "binary", "ternary" };
    const char *from = WQ "quantization_type";
    const char *type = dsf_ds_text(x, from, "symmetric");
    const bool symmetric = strcmp(type, "symmetric") == 0;

    if (!symmetric && strcmp(type, "asymmetric") != 0) {
        dsf_ds_refuse(x, from, "%.40s: expected symmetric or asymmetric", type);
    } else if (bits < 1) {
        dsf_ds_refuse(x, path, "%lld: expected 1 to 8", (long long)bits);
    } else if (bits >= 3) {
        dsf_ds_set_text(x, "weights", "quantize", from, type);
        dsf_ds_set(x, "weights", "bits", path, "%lld", (long long)bits);
    } else if (symmetric) {
        dsf_ds_set_text(x, "weights", "quantize", path, few[bits]);
    } else {
        dsf_ds_refuse(x, from,
                      "asymmetric: of 2 and 1 bits DeepSpeed refuses "
                      "it, too: expected symmetric");
    }
}

/* There so many slices of a matrix have a scale each. */
static void leave_group(struct dsf_ds *x)
{
    static const char path[] = WQ "quantize_groups";
    const int line = dsf_relaxed_line(&x->json, path);
    const int64_t slices = dsf_ds_whole(x, path, 1);
    char *why;

    if (slices < 1) {
        dsf_ds_refuse(x, path, "%lld: expected 1 or more", (long long)slices);
        return;
    }
    why = dsf_ds_get(x, path) != NULL
              ? dsf_xasprintf("%s, line %d, says %lld scales of a matrix: here "
                              "they are of so many inputs",
                              path, line, (long long)slices)
              : dsf_xasprintf("%s: DeepSpeed's default is 1 scale of a matrix: "
                              "here they are of so many inputs",
                              path);
    dsf_ds_leave(x, "weights", "group", why);
    free(why);
}

static void take_quantization(struct dsf_ds *x, struct groups *g,
                              const char *compute)
{
    char *path = NULL;
    int64_t bits;

    if (is_moq(x))
        check_moq(x, compute);
    if (!take_groups(x, g))
        return;
    path = param_path(g->first, "target_bits");
    bits = dsf_ds_whole(x, path, 0);
    take_bits(x, path, bits);
    if (is_moq(x))
        take_start(x, g, bits);
    leave_group(x);
    dsf_ds_set(x, "weights", "quantize_from", WQ "schedule_offset", "%lld",
               (long long)dsf_ds_whole(x, WQ "schedule_offset", 0));
    free(path);
}

/* --- pruned --------------------------------------------------------------- */

/* N:M of the smallest M from 4 on, which GPUs have for 2:4. */
static void take_ratio(struct dsf_ds *x, const char *path)
{
    const double ratio = dsf_ds_number(x, path, 0);
    char *why;

    for (int of = 4; of <= 16; of *= 2)
        if (ratio > 0 && ratio < 1 && ratio * of == floor(ratio * of)) {
            why = dsf_xasprintf("%s, line %d: here of each %d inputs, found "
                                "anew after each step",
                                path, dsf_relaxed_line(&x->json, path), of);
            dsf_ds_set(x, "weights", "prune", why, "\"%g:%d\"", ratio * of, of);
            free(why);
            return;
        }
    dsf_ds_refuse(x, path,
                  "%g: of each 16 weights a whole number stays: expected a "
                  "multiple of 0.0625, less than 1",
                  ratio);
}

static void take_pruning(struct dsf_ds *x, struct groups *g)
{
    const char *method = dsf_ds_text(x, SP "method", "l1");
    char *path;

    if (strcmp(method, "topk") == 0)
        dsf_ds_refuse(x, SP "method",
                      "topk: dsflow learns no scores of "
                      "weights: expected l1");
    else if (strcmp(method, "snip_momentum") == 0)
        dsf_ds_refuse(x, SP "method",
                      "snip_momentum: dsflow prunes by size, "
                      "not by gradients: expected l1");
    else if (strcmp(method, "l1") != 0)
        dsf_ds_refuse(x, SP "method", "%.40s: expected l1", method);
    else if (take_groups(x, g)) {
        path = param_path(g->first, "dense_ratio");
        take_ratio(x, path);
        dsf_ds_set(x, "weights", "prune_from", SP "schedule_offset", "%lld",
                   (long long)dsf_ds_whole(x, SP "schedule_offset", 1000));
        free(path);
    }
}

/* --- both ----------------------------------------------------------------- */

void dsf_ds_weights(struct dsf_ds *x, const char *compute)
{
    static const char *const bits[] = { "start_bits", "target_bits",
                                        "quantization_period", NULL };
    static const char *const ratio[] = { "dense_ratio", NULL };
    struct groups q = { .path = GROUPS("weight_quantization"), .params = bits };
    struct groups p = { .path = GROUPS("sparse_pruning"), .params = ratio };

    if (dsf_ds_true(x, WQ "enabled", false))
        take_quantization(x, &q, compute);
    if (dsf_ds_true(x, SP "enabled", false))
        take_pruning(x, &p);
    if (q.taken && p.taken && q.embedding != p.embedding)
        dsf_ds_refuse(x, p.path,
                      "weights.embedding is of both: expected the modules of "
                      "weight_quantization");
    if ((q.taken && q.embedding) || (p.taken && p.embedding))
        dsf_ds_set(x, "weights", "embedding",
                   q.taken && q.embedding ? q.path : p.path, "true");
    free(q.first);
    free(p.first);
}
