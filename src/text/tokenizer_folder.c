/* tokenizer_folder.c - which files of a folder make a tokenizer. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

/* In the order in which they are looked for. */
static const char json[] = "tokenizer.json";
static const char *const pairs[][2] = { { "encoder.json", "vocab.bpe" },
                                        { "vocab.json", "merges.txt" } };

/* The pair of GPT-2's files that is there, or NULL. */
static const char *const *find_pair(const char *dir)
{
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        if (dsf_file_is_in(dir, pairs[i][0]) &&
            dsf_file_is_in(dir, pairs[i][1]))
            return pairs[i];
    return NULL;
}

bool dsf_tokenizer_is_in(const char *folder)
{
    return dsf_file_is_in(folder, json) || find_pair(folder) != NULL;
}

/* What `key` of a file beside it says; NULL where nothing does. Free it. */
static char *find_text(const char *dir, const char *name, const char *key)
{
    char *path = dsf_xasprintf("%s/%s", dir, name), *found = NULL;
    const char *text;
    json_t *root;

    if (dsf_json_load(path, DSF_MOST_VOCAB, &root, NULL) == DSFLOW_OK) {
        text = json_string_value(json_object_get(root, key));
        found = text != NULL ? dsf_xstrdup(text) : NULL;
        json_decref(root);
    }
    free(path);
    return found;
}

/* A pair of files does not say how text is split, nor which tokens were added:
 * they are read for GPT-2 only, where that is known. */
static int check_gpt2(const char *dir, const char *const *pair,
                      struct dsflow_err *err)
{
    char *class = find_text(dir, "tokenizer_config.json", "tokenizer_class");
    char *type = find_text(dir, "config.json", "model_type");
    bool other = class != NULL ? strncmp(class, "GPT2Tokenizer", 13) != 0
                               : type != NULL && strcmp(type, "gpt2") != 0;
    int status = DSFLOW_OK;

    if (other)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %s and %s are read for GPT-2 only, and these "
                             "are of %.60s: expected %s",
                             dir, pair[0], pair[1],
                             class != NULL ? class : type, json);
    else if (dsf_file_is_in(dir, "added_tokens.json"))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %s and %s with added_tokens.json are not "
                             "supported: expected %s",
                             dir, pair[0], pair[1], json);
    free(class);
    free(type);
    return status;
}

/* What the class of the tokenizer adds, where its file does not say so. */
static void find_begin(struct dsf_tokenizer *tok, const char *dir)
{
    char *path = dsf_xasprintf("%s/tokenizer_config.json", dir);
    const json_t *token;
    const char *text;
    json_t *root;

    if (dsf_json_load(path, DSF_MOST_VOCAB, &root, NULL) == DSFLOW_OK) {
        token = json_object_get(root, "bos_token");
        text = json_string_value(
            json_is_object(token) ? json_object_get(token, "content") : token);
        if (json_is_true(json_object_get(root, "add_bos_token")))
            tok->begin = dsf_tokenizer_find(tok, text);
        json_decref(root);
    }
    free(path);
}

/* One id, or some. */
static void add_ends(struct dsf_tokenizer *tok, const json_t *ids)
{
    const size_t n = json_is_array(ids) ? json_array_size(ids) : 1;

    tok->ends = dsf_xcalloc(n > 0 ? n : 1, sizeof(*tok->ends));
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_is_array(ids) ? json_array_get(ids, i) : ids;
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;

        if (value >= 0 && value < tok->vocab)
            tok->ends[tok->nends++] = (int32_t)value;
    }
}

/* Where the model beside it ends a text: the first file that says so, as
 * transformers has it. */
static void find_ends(struct dsf_tokenizer *tok, const char *dir)
{
    static const char *const names[] = { "generation_config.json",
                                         "config.json" };

    for (size_t i = 0; i < 2 && tok->ends == NULL; i++) {
        char *path = dsf_xasprintf("%s/%s", dir, names[i]);
        const json_t *ids;
        json_t *root;

        if (dsf_json_load(path, DSF_MOST_VOCAB, &root, NULL) == DSFLOW_OK) {
            ids = json_object_get(root, "eos_token_id");
            if (ids != NULL && !json_is_null(ids))
                add_ends(tok, ids);
            json_decref(root);
        }
        free(path);
    }
}

static int read_files(struct dsf_tokenizer *tok, const char *dir,
                      struct dsflow_err *err)
{
    const char *const *pair = find_pair(dir);
    char *one, *other = NULL;
    int status;

    if (dsf_file_is_in(dir, json)) {
        one = dsf_xasprintf("%s/%s", dir, json);
        status = dsf_tokenizer_read_json(tok, one, err);
        free(one);
        if (status == DSFLOW_OK && tok->begin < 0)
            find_begin(tok, dir);
        return status;
    }
    if (pair == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: no tokenizer here; expected %s, or %s and %s, "
                           "or %s and %s",
                           dir, json, pairs[0][0], pairs[0][1], pairs[1][0],
                           pairs[1][1]);
    status = check_gpt2(dir, pair, err);
    if (status < 0)
        return status;
    one = dsf_xasprintf("%s/%s", dir, pair[0]);
    other = dsf_xasprintf("%s/%s", dir, pair[1]);
    status = dsf_tokenizer_read_gpt2(tok, one, other, err);
    free(one);
    free(other);
    return status;
}

int dsf_tokenizer_read_folder(struct dsf_tokenizer *tok, const char *dir,
                              struct dsflow_err *err)
{
    int status = read_files(tok, dir, err);

    if (status == DSFLOW_OK)
        find_ends(tok, dir);
    return status;
}
