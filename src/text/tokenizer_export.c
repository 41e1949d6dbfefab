/* tokenizer_export.c - a tokenizer as the files that transformers loads. */
#include "text/tokenizer_export.h"

#include "base/alloc.h"
#include "base/file.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const roles[] = { "bos", "eos", "pad" };
enum { NROLES = 3 };

static void add_file(struct dsf_tokenizer_export *x, const char *name,
                     char *text, size_t n)
{
    x->files[x->nfiles++] = (struct dsf_tokenizer_file){ name, text, n };
}

static int add_copy(struct dsf_tokenizer_export *x, const char *name,
                    const char *path, struct dsflow_err *err)
{
    char *text;
    size_t n;
    int status = dsf_file_load(path, DSF_MOST_VOCAB, &text, &n, err);

    if (status == DSFLOW_OK)
        add_file(x, name, text, n);
    return status;
}

static void add_json(struct dsf_tokenizer_export *x, const char *name,
                     const json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                                      JSON_REAL_PRECISION(16));

    add_file(x, name, text, strlen(text));
}

/* Bytes as byte pair encoding without a pair: each byte is a token by its name
 * in GPT-2's alphabet. */
static json_t *bytes_json(void)
{
    json_t *vocab = json_object();
    char name[3];

    for (unsigned byte = 0; byte < 256; byte++) {
        dsf_bpe_byte_name(byte, name);
        json_object_set_new(vocab, name, json_integer(byte));
    }
    return json_pack(
        "{s:s, s:n, s:n, s:[], s:n, s:{s:s, s:b, s:b, s:b}, s:n, "
        "s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, "
        "s:[]}}",
        "version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0,
        "trim_offsets", 1, "use_regex", 1, "post_processor", "decoder", "type",
        "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1,
        "model", "type", "BPE", "dropout", "unk_token",
        "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
        "byte_fallback", 0, "vocab", vocab, "merges");
}

/* The files that made the tokenizer, under the names of transformers. */
static int add_own(struct dsf_tokenizer_export *x,
                   const struct dsf_tokenizer *tok, struct dsflow_err *err)
{
    const char *const *paths = dsf_tokenizer_files(tok);
    bool pair = paths[0] != NULL && paths[1] != NULL;
    const char *const names[] = { pair ? "vocab.json" : "tokenizer.json",
                                  "merges.txt" };
    int status = DSFLOW_OK;
    json_t *bytes;

    if (paths[0] == NULL) {
        bytes = bytes_json();
        add_json(x, names[0], bytes);
        json_decref(bytes);
    }
    for (int i = 0; paths[i] != NULL && status == DSFLOW_OK; i++)
        status = add_copy(x, names[i], paths[i], err);
    return status;
}

/* The template of chats, where it is not in tokenizer_config.json. */
static int add_template(struct dsf_tokenizer_export *x, const char *dir,
                        struct dsflow_err *err)
{
    static const char name[] = "chat_template.jinja";
    char *path;
    int status;

    if (dir == NULL || !dsf_file_is_in(dir, name))
        return DSFLOW_OK;
    path = dsf_xasprintf("%s/%s", dir, name);
    status = add_copy(x, name, path, err);
    free(path);
    return status;
}

/* Numbers that were read as reals so that none is too large, whole again. */
static json_t *made_whole(json_t *v)
{
    json_t *copy, *each;
    const char *key;
    size_t i;

    if (json_is_real(v) && json_real_value(v) == floor(json_real_value(v)) &&
        fabs(json_real_value(v)) < 9e15)
        return json_integer((json_int_t)json_real_value(v));
    if (!json_is_object(v) && !json_is_array(v))
        return json_incref(v);
    copy = json_is_object(v) ? json_object() : json_array();
    json_object_foreach(v, key, each) {
        json_object_set_new(copy, key, made_whole(each));
    }
    json_array_foreach(v, i, each)
    {
        json_array_append_new(copy, made_whole(each));
    }
    return copy;
}

/* An object in a file of `dir` that may be there; else an empty one. */
static json_t *read_object(const char *dir, const char *name)
{
    char *path = dir != NULL ? dsf_xasprintf("%s/%s", dir, name) : NULL;
    json_t *read = NULL, *found = NULL;
    char *text;
    size_t n;

    if (path != NULL && access(path, F_OK) == 0 &&
        dsf_file_load(path, DSF_MOST_VOCAB, &text, &n, NULL) == DSFLOW_OK) {
        /* model_max_length is often 1e30, in digits. */
        read = json_loadb(text, n, JSON_DECODE_INT_AS_REAL, NULL);
        if (json_is_object(read))
            found = made_whole(read);
        json_decref(read);
        free(text);
    }
    free(path);
    return found != NULL ? found : json_object();
}

/* The text of a special token: alone, or in an object. */
static const char *content_of(const json_t *token)
{
    return json_string_value(
        json_is_object(token) ? json_object_get(token, "content") : token);
}

/* What begins a text, by what ends it, where no file says so. */
static const char *guess(const struct dsf_tokenizer *tok, int role)
{
    static const char *const pairs[][2] = {
        { "<|endoftext|>", "<|endoftext|>" },
        { "<|end_of_text|>", "<|begin_of_text|>" },
        { "<\uff5cend\u2581of\u2581sentence\uff5c>",
          "<\uff5cbegin\u2581of\u2581sentence\uff5c>" },
        { "</s>", "<s>" },
        { "<eos>", "<bos>" },
    };
    size_t n;
    const char *end = tok->eot >= 0 ? dsf_decode(tok, tok->eot, &n) : NULL;

    for (size_t i = 0; end != NULL && i < sizeof(pairs) / sizeof(*pairs); i++)
        if (strcmp(end, pairs[i][0]) == 0 && role < 2 &&
            dsf_tokenizer_find(tok, pairs[i][1 - role]) >= 0)
            return pairs[i][1 - role];
    return NULL;
}

/* tokenizer_config.json: that beside the tokenizer, and what it lacks. */
static json_t *make_config(const struct dsf_tokenizer *tok, const char *dir,
                           int64_t context)
{
    json_t *config = read_object(dir, "tokenizer_config.json");
    json_t *map = read_object(dir, "special_tokens_map.json");

    for (int i = 0; i < NROLES; i++) {
        char key[16];
        const char *text;

        snprintf(key, sizeof(key), "%s_token", roles[i]);
        text = content_of(json_object_get(config, key));
        if (json_object_get(config, key) != NULL)
            continue;
        text = content_of(json_object_get(map, key));
        if (text == NULL)
            text = guess(tok, i);
        json_object_set_new(config, key,
                            text != NULL ? json_string(text) : json_null());
    }
    if (json_object_get(config, "tokenizer_class") == NULL)
        json_object_set_new(
            config, "tokenizer_class",
            json_string(tok->files[0] != NULL && tok->files[1] != NULL
                            ? "GPT2Tokenizer"
                            : "PreTrainedTokenizerFast"));
    if (json_object_get(config, "clean_up_tokenization_spaces") == NULL)
        json_object_set_new(config, "clean_up_tokenization_spaces",
                            json_false());
    json_object_set_new(config, "model_max_length", json_integer(context));
    json_decref(map);
    return config;
}

static bool is_id(const json_t *v, int32_t vocab)
{
    return json_is_integer(v) && json_integer_value(v) >= 0 &&
           json_integer_value(v) < vocab;
}

/* One id, or some that all end a text, or none. */
static bool are_ids(const json_t *v, int32_t vocab)
{
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!is_id(json_array_get(v, i), vocab))
            return false;
    return json_is_null(v) || json_is_array(v) || is_id(v, vocab);
}

/* What the folder of the tokenizer says that a text ends at. */
static json_t *make_ends(const struct dsf_tokenizer *tok)
{
    json_t *ids;

    if (tok->nends == 1)
        return json_integer(tok->ends[0]);
    ids = json_array();
    for (unsigned i = 0; i < tok->nends; i++)
        json_array_append_new(ids, json_integer(tok->ends[i]));
    return ids;
}

/* The ids of config.json: those of the model it began as, or of the tokenizer's
 * folder, or of the tokens in tokenizer_config.json. null says that there is
 * none: what is absent is some id to transformers. */
static json_t *make_ids(const struct dsf_tokenizer *tok, const char *source,
                        const json_t *config)
{
    json_t *began = read_object(source, "config.json"), *ids = json_object();

    for (int i = 0; i < NROLES; i++) {
        char key[16], token[16];
        json_t *known;
        int32_t id;

        snprintf(key, sizeof(key), "%s_token_id", roles[i]);
        snprintf(token, sizeof(token), "%s_token", roles[i]);
        known = json_object_get(began, key);
        id =
            dsf_tokenizer_find(tok, content_of(json_object_get(config, token)));
        if (known != NULL && are_ids(known, tok->vocab))
            json_object_set(ids, key, known);
        else if (strcmp(roles[i], "eos") == 0 && tok->nends > 0)
            json_object_set_new(ids, key, make_ends(tok));
        else
            json_object_set_new(ids, key,
                                id >= 0 ? json_integer(id) : json_null());
    }
    json_decref(began);
    return ids;
}

static json_t *make_generation(const char *source, const json_t *ids)
{
    json_t *g = read_object(source, "generation_config.json"), *id;
    const char *key;

    if (json_object_size(g) == 0)
        json_object_set_new(g, "_from_model_config", json_true());
    json_object_foreach((json_t *)ids, key, id)
        if (json_object_get(g, key) == NULL && !json_is_null(id))
            json_object_set(g, key, id);
    return g;
}

int dsf_tokenizer_export(const struct dsf_tokenizer *tok, const char *source,
                         int64_t context, struct dsf_tokenizer_export *out,
                         struct dsflow_err *err)
{
    const char *file = tok->files[0], *slash;
    char *dir = NULL;
    json_t *config, *generation;
    int status;

    memset(out, 0, sizeof(*out));
    status = add_own(out, tok, err);
    slash = file != NULL ? strrchr(file, '/') : NULL;
    if (file != NULL)
        dir = slash != NULL ? dsf_xstrndup(file, (size_t)(slash - file))
                            : dsf_xstrdup(".");
    if (status == DSFLOW_OK)
        status = add_template(out, dir, err);
    if (status < 0) {
        dsf_tokenizer_export_fini(out);
        free(dir);
        return status;
    }
    config = make_config(tok, dir, context);
    out->ids = make_ids(tok, source, config);
    generation = make_generation(source, out->ids);
    add_json(out, "tokenizer_config.json", config);
    add_json(out, "generation_config.json", generation);
    json_decref(generation);
    json_decref(config);
    free(dir);
    return DSFLOW_OK;
}

void dsf_tokenizer_export_fini(struct dsf_tokenizer_export *out)
{
    for (unsigned i = 0; i < out->nfiles; i++)
        free(out->files[i].text);
    json_decref(out->ids);
    memset(out, 0, sizeof(*out));
}
