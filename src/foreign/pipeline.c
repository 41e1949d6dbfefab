/* pipeline.c - layers of a PipelineModule by the names of a model. */
#include "foreign/pipeline.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the names of layers are like. */
struct family {
    /* A matrix that every block has, and it alone, by one of these names. */
    const char *markers[2];
    enum dsf_source_names names;
    const char *block; /* what stands before the number of a block */
    /* What is no block's: the end of its name, and the name of the model. */
    struct {
        const char *end, *name;
    } others[6];
    /* The same of a layer that is one module, "7.weight": embedding, norm,
     * head.
     */
    const char *embedding, *norm, *head;
};

static const struct family families[] = {
    { .markers = { "attn.c_attn.weight" },
      .names = DSF_NAMES_HF,
      .block = "transformer.h.",
      .others = { { "wte.weight", "transformer.wte.weight" },
                  { "wpe.weight", "transformer.wpe.weight" },
                  { "ln_f.weight", "transformer.ln_f.weight" },
                  { "ln_f.bias", "transformer.ln_f.bias" },
                  { "lm_head.weight", "lm_head.weight" } },
      .embedding = "transformer.wte.",
      .norm = "transformer.ln_f.",
      .head = "lm_head." },
    { .markers = { "self_attn.q_proj.weight" },
      .names = DSF_NAMES_HF,
      .block = "model.layers.",
      .others = { { "embed_tokens.weight", "model.embed_tokens.weight" },
                  { "norm.weight", "model.norm.weight" },
                  { "lm_head.weight", "lm_head.weight" } },
      .embedding = "model.embed_tokens.",
      .norm = "model.norm.",
      .head = "lm_head." },
    { .markers = { "self_attention.query_key_value.weight",
                   "attention.query_key_value.weight" },
      .names = DSF_NAMES_MEGATRON,
      .block = "language_model.encoder.layers.",
      .others = { { "word_embeddings.weight",
                    "language_model.embedding.word_embeddings.weight" },
                  { "position_embeddings.weight",
                    "language_model.embedding.position_embeddings.weight" },
                  { "final_layernorm.weight",
                    "language_model.encoder.final_layernorm.weight" },
                  { "final_layernorm.bias",
                    "language_model.encoder.final_layernorm.bias" },
                  { "lm_head.weight", "language_model.output_layer.weight" } },
      .embedding = "language_model.embedding.word_embeddings.",
      .norm = "language_model.encoder.final_layernorm.",
      .head = "language_model.output_layer." },
};

static const char tied[] = "tied_modules.";

/* The number that a name begins with, and what follows it; -1: none. */
static int number_of(const char *name, const char **rest)
{
    size_t digits = strspn(name, "0123456789");

    if (digits == 0 || digits > 6 || name[digits] != '.')
        return -1;
    *rest = name + digits + 1;
    return atoi(name);
}

/* What follows "tied_modules.embed."; NULL: another name. */
static const char *tied_rest(const char *name)
{
    const char *rest;

    if (strncmp(name, tied, sizeof(tied) - 1) != 0)
        return NULL;
    rest = strchr(name + sizeof(tied) - 1, '.');
    return rest == NULL ? NULL : rest + 1;
}

/* Does `name` end with `end`, as a whole or behind a dot? */
static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && strcmp(name + n - k, end) == 0 &&
           (n == k || name[n - k - 1] == '.');
}

bool dsf_pipeline_is(const struct dsf_source *s)
{
    const char *rest;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (number_of(s->tensors[i].name, &rest) >= 0)
            n++;
        else if (tied_rest(s->tensors[i].name) == NULL && !s->tensors[i].again)
            return false;
    return n > 0;
}

/* The layers that are blocks, in order, and what their names begin with behind
 * the number, "block.". */
struct blocks {
    const struct family *family;
    int *numbers;
    size_t n, cap;
    char before[64];
};

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The marker that a name ends with; NULL: none. */
static const char *marker_of(const struct family *f, const char *name)
{
    for (size_t i = 0; i < 2; i++)
        if (f->markers[i] != NULL && ends(name, f->markers[i]))
            return f->markers[i];
    return NULL;
}

static bool find_blocks(const struct dsf_source *s, const struct family *f,
                        struct blocks *b)
{
    *b = (struct blocks){ .family = f };
    for (size_t i = 0; i < s->n; i++) {
        const char *rest;
        int number = number_of(s->tensors[i].name, &rest);

        const char *marker = number < 0 ? NULL : marker_of(f, rest);

        if (marker == NULL)
            continue;
        dsf_grow(&b->numbers, &b->cap, b->n + 1, sizeof(*b->numbers));
        b->numbers[b->n++] = number;
        snprintf(b->before, sizeof(b->before), "%.*s",
                 (int)(strlen(rest) - strlen(marker)), rest);
    }
    if (b->n > 0)
        qsort(b->numbers, b->n, sizeof(*b->numbers), ascending);
    return b->n > 0;
}

/* Which block a layer is; -1: none. */
static int block_of(const struct blocks *b, int number)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->numbers[i] == number)
            return (int)i;
    return -1;
}

/* "weight" or "bias" of a layer that is one module: the place of the layer and
 * the number of dimensions say what it is. */
static char *name_single(const struct blocks *b, int number, unsigned ndims,
                         const char *rest)
{
    const struct family *f = b->family;
    const char *of = number >= 0 && number > b->numbers[b->n - 1]
                         ? (ndims == 1 ? f->norm : f->head)
                         : (ndims == 2 ? f->embedding : NULL);

    return of == NULL ? NULL : dsf_xasprintf("%s%s", of, rest);
}

/* The name of a tensor in a model; NULL: it is not known. */
static char *rename_one(const struct blocks *b,
                        const struct dsf_source_tensor *t)
{
    const struct family *f = b->family;
    const char *rest = tied_rest(t->name);
    int number = rest != NULL ? -1 : number_of(t->name, &rest);
    int block = number < 0 ? -1 : block_of(b, number);
    size_t before = strlen(b->before);

    if (rest == NULL)
        return NULL;
    if (block >= 0)
        return dsf_xasprintf(
            "%s%d.%s", f->block, block,
            strncmp(rest, b->before, before) == 0 ? rest + before : rest);
    for (size_t i = 0; i < 6 && f->others[i].end != NULL; i++)
        if (ends(rest, f->others[i].end))
            return dsf_xstrdup(f->others[i].name);
    if (strcmp(rest, "weight") == 0 || strcmp(rest, "bias") == 0)
        return name_single(b, number, t->ndims, rest);
    return NULL;
}

void dsf_pipeline_rename(struct dsf_source *s)
{
    struct blocks b = { 0 };
    size_t k = 0;

    while (k < sizeof(families) / sizeof(*families) &&
           !find_blocks(s, &families[k], &b))
        k++;
    if (b.n == 0)
        return;
    s->names = b.family->names;
    for (size_t i = 0; i < s->n; i++) {
        char *name = rename_one(&b, &s->tensors[i]);

        if (name != NULL && dsf_source_find(s, name) != NULL) {
            s->tensors[i].again = true; /* of the other stage */
            free(name);
        } else if (name != NULL) {
            free(s->tensors[i].name);
            s->tensors[i].name = name;
        }
    }
    free(b.numbers);
}
