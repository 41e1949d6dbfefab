/* tokenizer_gpt2.c - GPT-2's own files: encoder.json (vocab.json) has the
 * tokens, vocab.bpe (merges.txt) the merges, a line each. */
#include "text/tokenizer.h"

#include "base/file.h"
#include "text/bpe.h"
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

static const char end_of_text[] = "<|endoftext|>";

static int read_encoder(struct dsf_tokenizer *tok, const char *path,
                        const char *text, size_t n, struct dsflow_err *err)
{
    const char *name;
    json_t *all, *id;
    int status = dsf_json_parse(text, n, path, &all, err);

    if (status < 0)
        return status;
    if (!json_is_object(all) || json_object_size(all) == 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: expected an object of tokens and ids", path);
    json_object_foreach(all, name, id) {
        if (status < 0)
            break;
        if (!json_is_integer(id))
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: token \"%s\": the id is no integer", path,
                                 name);
        else if (dsf_bpe_token(tok->bpe, name, strlen(name),
                               json_integer_value(id), err) < 0)
            status = dsflow_fail_in(err, DSFLOW_EINVAL, path);
    }
    json_decref(all);
    return status;
}

static int read_merges(struct dsf_tokenizer *tok, const char *path,
                       const char *text, size_t n, struct dsflow_err *err)
{
    const char *end = text + n, *space, *stop, *last;
    unsigned number = 1;
    char where[224];

    for (const char *line = text; line < end; line = stop + 1, number++) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            stop = end;
        if (stop == line ||
            (number == 1 && n >= 8 && memcmp(line, "#version", 8) == 0))
            continue;
        last = stop[-1] == '\r' ? stop - 1 : stop;
        space = memchr(line, ' ', (size_t)(last - line));
        if (space == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s:%u: \"%.*s\": expected two tokens with a "
                               "space between",
                               path, number, (int)(last - line), line);
        if (dsf_bpe_merge(tok->bpe, line, (size_t)(space - line), space + 1,
                          (size_t)(last - space - 1), err) < 0) {
            snprintf(where, sizeof(where), "%.200s:%u", path, number);
            return dsflow_fail_in(err, DSFLOW_EINVAL, where);
        }
    }
    return DSFLOW_OK;
}

int dsf_tokenizer_read_gpt2(struct dsf_tokenizer *tok, const char *encoder,
                            const char *merges, struct dsflow_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int status;

    tok->bpe = dsf_bpe_new();
    tok->split = dsf_split_new();
    status = dsf_split_add_regex(tok->split, dsf_gpt2_regex, err);
    if (status == DSFLOW_OK)
        status = dsf_file_load(encoder, DSF_MOST_VOCAB, &text, &n, err);
    if (status == DSFLOW_OK) {
        dsf_tokenizer_add_file(tok, encoder, text, n);
        status = read_encoder(tok, encoder, text, n, err);
    }
    free(text);
    text = NULL;
    if (status == DSFLOW_OK)
        status = dsf_file_load(merges, DSF_MOST_VOCAB, &text, &n, err);
    if (status == DSFLOW_OK) {
        dsf_tokenizer_add_file(tok, merges, text, n);
        status = read_merges(tok, merges, text, n, err);
    }
    free(text);
    if (status < 0)
        return status;
    if (dsf_bpe_finish(tok->bpe, false, err) < 0)
        return dsflow_fail_in(err, DSFLOW_EINVAL, encoder);
    tok->eot = dsf_bpe_find(tok->bpe, end_of_text, sizeof(end_of_text) - 1);
    if (tok->eot >= 0)
        dsf_tokenizer_add(tok, end_of_text, sizeof(end_of_text) - 1, tok->eot,
                          false);
    return dsf_tokenizer_finish(tok, encoder, err);
}
