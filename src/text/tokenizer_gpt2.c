/* tokenizer_gpt2.c - GPT-2's own files: encoder.json has the tokens, vocab.bpe
 * the merges, a line each. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "text/bpe.h"
#include "text/split.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char end_of_text[] = "<|endoftext|>";

/* No vocabulary is near this; a mistaken path may be. */
#define MOST_BYTES ((off_t)1 << 30)

int dsf_tokenizer_load(const char *path, char **text, size_t *n,
                       struct dsflow_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int status = DSFLOW_OK;
    struct stat st;
    ssize_t got;

    *text = NULL;
    *n = 0;
    if (fd < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    if (fstat(fd, &st) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        goto out_close;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: expected a file of at most %lld bytes", path,
                             (long long)MOST_BYTES);
        goto out_close;
    }
    *text = dsf_xcalloc((size_t)st.st_size + 1, 1);
    while (*n < (size_t)st.st_size) {
        got = read(fd, *text + *n, (size_t)st.st_size - *n);
        if (got < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        if (got <= 0)
            break;
        *n += (size_t)got;
    }
    if (status < 0) {
        free(*text);
        *text = NULL;
    }

out_close:
    close(fd);
    return status;
}

static int read_encoder(struct dsf_tokenizer *tok, const char *path,
                        const char *text, size_t n, struct dsflow_err *err)
{
    int status = DSFLOW_OK;
    json_error_t bad;
    json_t *all = json_loadb(text, n, 0, &bad), *id;
    const char *name;

    if (all == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s:%d: %s", path, bad.line,
                           bad.text);
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
    const char *end = text + n, *space, *stop;
    unsigned number = 1;

    for (const char *line = text; line < end; line = stop + 1, number++) {
        stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            stop = end;
        if (stop == line ||
            (number == 1 && n >= 8 && memcmp(line, "#version", 8) == 0))
            continue;
        space = memchr(line, ' ', (size_t)(stop - line));
        if (space == NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s:%u: \"%.*s\": expected two tokens with a "
                               "space between",
                               path, number, (int)(stop - line), line);
        if (dsf_bpe_merge(tok->bpe, line, (size_t)(space - line), space + 1,
                          (size_t)(stop - space - 1), err) < 0)
            return dsflow_fail_in(err, DSFLOW_EINVAL, path);
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
        status = dsf_tokenizer_load(encoder, &text, &n, err);
    if (status == DSFLOW_OK) {
        dsf_tokenizer_add_file(tok, encoder, text, n);
        status = read_encoder(tok, encoder, text, n, err);
    }
    free(text);
    text = NULL;
    if (status == DSFLOW_OK)
        status = dsf_tokenizer_load(merges, &text, &n, err);
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
    dsf_tokenizer_finish(tok);
    return DSFLOW_OK;
}
