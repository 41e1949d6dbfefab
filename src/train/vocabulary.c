/* vocabulary.c - which tokenizer goes with a model. */
#include "train/vocabulary.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/multiple.h"
#include "train/kept.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the model starts from a folder that has a tokenizer. */
static bool has_own(const struct dsf_job *job)
{
    return strcmp(job->model.init, "random") != 0 &&
           dsf_tokenizer_is_in(job->model.init);
}

/* The tokenizer that a run has kept, where the one of its job is not there any
 * more. */
static int take_kept(struct dsf_session *s, struct dsflow_err *err)
{
    const char *named = s->job->data.tokenizer;
    char *kept = NULL;
    int status = DSFLOW_OK;

    if (strcmp(named, "bytes") != 0 && access(named, F_OK) < 0)
        kept = dsf_kept_tokenizer(s);
    if (kept != NULL) {
        dsf_info("data.tokenizer %s is not there any more: it is %s", named,
                 kept);
        status = dsf_session_set_text(s, "data.tokenizer", kept, err);
    }
    free(kept);
    return status;
}

/* The same where what its job names is another by now. */
static int put_back(struct dsf_session *s, struct dsflow_err *err)
{
    struct dsf_ckpt_fields of;
    struct dsf_tokenizer *tok = NULL;
    char *kept = dsf_job_has_set(s->job, "data", "tokenizer")
                     ? NULL
                     : dsf_kept_tokenizer(s);
    int status = DSFLOW_OK;

    if (kept == NULL)
        return DSFLOW_OK;
    dsf_kept_fields(s->job->main.output, &of);
    if (!dsf_kept_is_of(&of, s->tok) &&
        dsf_tokenizer_open(kept, &tok, NULL) == DSFLOW_OK &&
        dsf_kept_is_of(&of, tok)) {
        dsf_warn("data.tokenizer %s is another than in the run: it is %s",
                 s->job->data.tokenizer, kept);
        dsf_tokenizer_free(s->tok);
        s->tok = tok;
        tok = NULL;
        status = dsf_session_set_text(s, "data.tokenizer", kept, err);
    }
    dsf_tokenizer_free(tok);
    dsf_ckpt_fields_fini(&of);
    free(kept);
    return status;
}

int dsf_vocabulary_open(struct dsf_session *s, struct dsflow_err *err)
{
    bool own = !dsf_job_has(s->job, "data", "tokenizer") && has_own(s->job);
    int status =
        own ? dsf_session_set_text(s, "data.tokenizer", s->job->model.init, err)
            : take_kept(s, err);

    if (status == DSFLOW_OK)
        status = dsf_tokenizer_open(s->job->data.tokenizer, &s->tok, err);
    if (status < 0)
        return dsf_job_fail(s->job, err, status, "data", "tokenizer", "%s%s",
                            own ? "is not given, and that of model.init cannot "
                                  "be read: "
                                : "",
                            err != NULL ? err->msg : "");
    return put_back(s, err);
}

/* Matrices are often made a little larger than the vocabulary: a multiple of a
 * power of two, or some percent. */
static bool is_padding(int32_t vocab, int32_t tokens)
{
    for (int32_t to = 1; to <= 128; to *= 2)
        if (vocab == dsf_round_up(tokens, to))
            return true;
    return vocab - tokens <= tokens / 32;
}

/* A tokenizer that was named, beside the one in the model's folder. */
static bool warn_of_other(const struct dsf_session *s)
{
    const char *init = s->job->model.init, *named = s->job->data.tokenizer;
    struct dsf_tokenizer *own = NULL;
    struct dsflow_err err;
    bool other;

    if (s->origin.lost || strcmp(init, named) == 0 || !has_own(s->job) ||
        dsf_tokenizer_open(init, &own, &err) < 0)
        return false;
    other = !dsf_tokenizer_same(own, s->tok);
    if (other)
        dsf_warn_of_job("data.tokenizer %s (%d tokens) is not the tokenizer of "
                        "model.init %s (%d tokens)",
                        named, dsf_tokenizer_vocab(s->tok), init,
                        dsf_tokenizer_vocab(own));
    dsf_tokenizer_free(own);
    return other;
}

/* Does nothing say what the tokens stand for? Bytes may not be what those of a
 * program are, nor those of a run that had them. */
static bool is_open(const struct dsf_session *s)
{
    const struct dsf_job *job = s->job;
    bool has_text = job->data.train.n + job->data.validation_files.n > 0;

    return !dsf_job_has(job, "data", "tokenizer") &&
           (s->own != NULL || (!has_text && dsf_tokenizer_is_bytes(s->tok)));
}

int dsf_vocabulary_fits(const struct dsf_job *job, const struct dsf_model *m,
                        const struct dsf_tokenizer *tok, struct dsflow_err *err)
{
    int32_t tokens = dsf_tokenizer_vocab(tok), vocab = m->dims.vocab;

    if (vocab >= tokens)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "vocab",
                        "%d: expected at least the %d tokens of %s", vocab,
                        tokens, job->data.tokenizer);
}

int dsf_vocabulary_check(const struct dsf_session *s, struct dsflow_err *err)
{
    int32_t tokens = dsf_tokenizer_vocab(s->tok), vocab = s->model.dims.vocab;
    const struct dsf_job *job = s->job;
    int status;

    if (s->own != NULL && vocab < s->own->vocab)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "vocab",
                            "%d: expected at least the %d of the batches",
                            vocab, s->own->vocab);
    if (job->data.begin && dsf_tokenizer_begin(s->tok) < 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", "begin",
                            "true: tokenizer %s puts no token before a text: "
                            "expected false",
                            job->data.tokenizer);
    if (is_open(s))
        return DSFLOW_OK;
    status = dsf_vocabulary_fits(job, &s->model, s->tok, err);
    if (status < 0 || strcmp(job->model.init, "random") == 0 ||
        warn_of_other(s))
        return status;
    if (!is_padding(vocab, tokens))
        dsf_warn_of_job(
            "data.tokenizer %s has %d tokens, and the model of model.init "
            "%s has %d: is it the one it was trained with?",
            job->data.tokenizer, tokens, job->model.init, vocab);
    return DSFLOW_OK;
}

/* Is the tokenizer the one in that folder? */
static bool is_in(const struct dsf_session *s, const char *folder)
{
    struct dsf_tokenizer *own = NULL;
    bool same;

    if (!dsf_tokenizer_is_in(folder) ||
        dsf_tokenizer_open(folder, &own, NULL) < 0)
        return false;
    same = dsf_tokenizer_same(own, s->tok);
    dsf_tokenizer_free(own);
    return same;
}

char *dsf_vocabulary_source(const struct dsf_session *s)
{
    const char *init = s->job->model.init;
    char *folder = s->origin.lost ? dsf_kept_tokenizer(s)
                   : s->origin.path != NULL
                       ? dsf_xasprintf("%s/../../tokenizer", s->origin.path)
                       : dsf_xstrdup(init);

    if (folder != NULL && strcmp(init, "random") != 0 && is_in(s, folder))
        return folder;
    free(folder);
    return NULL;
}

void dsf_vocabulary_say(const struct dsf_session *s)
{
    const struct dsf_job *job = s->job;

    if (strcmp(job->model.init, "random") == 0 || s->origin.lost ||
        dsf_job_has(job, "data", "tokenizer"))
        return;
    dsf_info("the tokenizer is %s, %d tokens: model.init %s, and "
             "data.tokenizer is not given",
             job->data.tokenizer, dsf_tokenizer_vocab(s->tok),
             job->model.from_run || has_own(job) ? "has it" : "has none");
}
