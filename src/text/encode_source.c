/* encode_source.c - the texts of a job become the tokens of a cache. */
#include "text/encode_source.h"

#include "base/notice.h"
#include "text/encode.h"
#include "text/json_lines.h"
#include "text/mapped.h"

#include <stdlib.h>

/* Text on its way there. */
struct passing {
    const struct dsf_job *job;
    struct dsf_token_writer *to;
    struct dsf_encoder *encoder;
    int32_t begin, eot;                 /* around texts; or -1 */
    const struct dsf_text_files *files; /* that are being read, */
    const char *key;                    /* of [data], and which of them */
    unsigned first, now;
    uint64_t bytes; /* of texts */
    struct dsflow_err *err;
};

/* Of a text that takes minutes, each half a minute or so says how far it is. */
static void take(void *user, const int32_t *ids, size_t n)
{
    static const uint64_t much = (uint64_t)1 << 28;
    struct dsf_token_writer *to = ((struct passing *)user)->to;
    uint64_t before = dsf_token_writer_count(to);

    dsf_token_writer_put(to, ids, n);
    if (before / much != (before + n) / much)
        dsf_notice("tokenizing: %.1f G tokens so far",
                   (double)(before + n) * 1e-9);
}

static void let_go(void *user)
{
    struct passing *p = user;

    for (unsigned i = p->first; i <= p->now; i++)
        dsf_mapped_let_go(p->files->v[i].text, p->files->v[i].bytes);
    p->first = p->now;
}

/* A text, or its last part: it `begins` where it is none, or whole. */
static int add_text(struct passing *p, const char *name, const char *text,
                    size_t n, bool begins)
{
    int status = DSFLOW_OK;

    if (begins && p->begin >= 0)
        status = dsf_encoder_token(p->encoder, p->begin);
    if (status == DSFLOW_OK)
        status = dsf_encoder_text(p->encoder, name, text, n, 1);
    p->bytes += n;
    return status;
}

static int end_text(struct passing *p)
{
    return p->eot >= 0 ? dsf_encoder_token(p->encoder, p->eot) : DSFLOW_OK;
}

/* A file is a text. */
static int add_file(struct passing *p, const struct dsf_text_file *f,
                    size_t from, size_t end)
{
    int status = add_text(p, f->path, f->text + from, end - from, from == 0);

    return status == DSFLOW_OK ? end_text(p) : status;
}

static int add_line(struct passing *p, const char *name,
                    const struct dsf_json_text *t)
{
    int status = add_text(p, name, t->text, t->n, true);

    if (status == DSFLOW_OK && p->eot < 0)
        status = add_text(p, name, "\n", 1, false);
    return status == DSFLOW_OK ? end_text(p) : status;
}

/* Each of its lines is. */
static int add_lines(struct passing *p, const struct dsf_text_file *f,
                     size_t from, size_t end)
{
    struct dsf_json_lines lines = { f->text, from, end,
                                    p->job->data.text_field };
    struct dsf_json_texts texts = { .n = 0 };
    int status = DSFLOW_OK;
    struct dsflow_err why;

    do {
        if (dsf_json_lines_read(&lines, &texts, &why) < 0)
            status = dsf_job_fail(p->job, p->err, why.status, "data", p->key,
                                  "%s: %s", f->path, why.msg);
        for (size_t i = 0; i < texts.n; i++) {
            if (texts.v[i].text == NULL)
                continue;
            if (status == DSFLOW_OK)
                status = add_line(p, f->path, &texts.v[i]);
            dsf_encoder_keep(p->encoder, texts.v[i].text);
        }
    } while (texts.n > 0 && status == DSFLOW_OK);
    free(texts.v);
    return status;
}

/* From `from[i]` (NULL: the beginning) to `end[i]` (NULL: the end) of each. */
static int add_files(struct passing *p, const struct dsf_text_files *files,
                     const char *key, const size_t *from, const size_t *end)
{
    int (*add)(struct passing *, const struct dsf_text_file *, size_t, size_t) =
        dsf_is_json_lines(p->job) ? add_lines : add_file;
    int status = DSFLOW_OK;

    p->files = files;
    p->key = key;
    p->first = 0;
    p->bytes = 0;
    for (unsigned i = 0; i < files->n && status == DSFLOW_OK; i++) {
        const struct dsf_text_file *f = &files->v[i];
        const size_t a = from != NULL ? from[i] : 0;
        const size_t b = end != NULL ? end[i] : f->bytes;

        p->now = i;
        if (a < b)
            status = add(p, f, a, b);
    }
    if (status == DSFLOW_OK)
        status = dsf_encoder_end(p->encoder);
    if (files->n > 0)
        let_go(p);
    return status;
}

/* What is for validation is behind what is trained on. */
static int add_all(struct passing *p, const struct dsf_text_source *s,
                   struct dsf_token_split *split)
{
    int status = add_files(p, &s->train, "train", NULL, s->cuts);

    split->train = dsf_token_writer_count(p->to);
    split->train_bytes = p->bytes;
    if (status == DSFLOW_OK)
        status = add_files(p, &s->train, "train", s->cuts, NULL);
    split->validation_bytes = p->bytes;
    if (status == DSFLOW_OK)
        status = add_files(p, &s->validation, "validation_files", NULL, NULL);
    split->validation_bytes += p->bytes;
    return status;
}

int dsf_encode_source(const struct dsf_text_source *s, const char *cache_dir,
                      uint64_t key, struct dsf_token_store *store,
                      struct dsflow_err *err)
{
    unsigned width = dsf_tokenizer_vocab(s->tok) <= 65536 ? 2 : 4;
    struct passing p = {
        .job = s->job,
        .to = dsf_token_writer_new(cache_dir, key, width),
        .begin = s->job->data.begin ? dsf_tokenizer_begin(s->tok) : -1,
        .eot = dsf_tokenizer_eot(s->tok),
        .err = err,
    };
    const struct dsf_encoding encoding = { take, let_go, &p, cache_dir };
    struct dsf_token_split split;
    int status;

    p.encoder = dsf_encoder_new(s->tok, dsf_lanes_of_cores(), &encoding, err);
    status = add_all(&p, s, &split);
    dsf_encoder_free(p.encoder);
    if (status == DSFLOW_OK)
        return dsf_token_writer_end(p.to, &split, store, err);
    dsf_token_writer_drop(p.to);
    return status;
}
