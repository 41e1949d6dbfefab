/* text_source.c - the text of a job before it is tokens: which part of each
 * file is for validation. */
#include "text/text_source.h"

#include "base/alloc.h"
#include "base/log.h"
#include "text/mapped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Each file gives its last part, so that validation is made of the same kinds
 * of text as training, and never of the same text. The cut is at the end of
 * the line nearest to the exact place; where lines are too long for that, it
 * is between two characters, or, where they are `whole`, there is none. */
static size_t cut_of(const struct dsf_text_file *file, double share, bool whole)
{
    size_t keep = (size_t)llround((double)file->bytes * share);
    size_t exact = file->bytes - keep;
    size_t window = whole ? file->bytes : keep / 2 > 4096 ? keep / 2 : 4096;

    if (keep == 0 || exact == 0)
        return file->bytes;
    for (size_t d = 0; d <= window; d++) {
        if (d < keep && file->text[exact + d - 1] == '\n')
            return exact + d;
        if (d < exact && file->text[exact - d - 1] == '\n')
            return exact - d;
    }
    if (whole)
        return file->bytes;
    while (exact < file->bytes && (file->text[exact] & 0xc0) == 0x80)
        exact++;
    return exact;
}

int dsf_text_source_has_train(const struct dsf_job *job, struct dsflow_err *err)
{
    if (job->data.train.n > 0)
        return DSFLOW_OK;
    return dsf_job_fail(
        job, err, DSFLOW_EINVAL, "data", "train", "%s: expected a file or more",
        dsf_job_has(job, "data", "train") ? "[]" : "is missing");
}

int dsf_text_source_find(struct dsf_text_source *s, const struct dsf_job *job,
                         const struct dsf_tokenizer *tok,
                         struct dsflow_err *err)
{
    const struct dsf_job_data *data = &job->data;
    int status = DSFLOW_OK;

    *s = (struct dsf_text_source){ .job = job, .tok = tok };
    if (data->validation_files.n == 0)
        status = dsf_text_source_has_train(job, err);
    if (status < 0)
        return status;
    status = dsf_text_files_open(job, "train", &data->train, &s->train, err);
    if (status == DSFLOW_OK)
        status =
            dsf_text_files_open(job, "validation_files",
                                &data->validation_files, &s->validation, err);
    if (status < 0)
        return status;
    s->cuts = dsf_xcalloc(s->train.n, sizeof(*s->cuts));
    for (unsigned i = 0; i < s->train.n; i++)
        s->cuts[i] = data->validation_files.n > 0 || data->validation <= 0.0
                         ? s->train.v[i].bytes
                         : cut_of(&s->train.v[i], data->validation,
                                  dsf_is_json_lines(job));
    return DSFLOW_OK;
}

int dsf_text_source_check(const struct dsf_text_source *s,
                          struct dsflow_err *err)
{
    bool utf8 = !dsf_tokenizer_is_bytes(s->tok);
    int status = dsf_text_files_check(s->job, "train", &s->train, utf8, err);

    return status == DSFLOW_OK
               ? dsf_text_files_check(s->job, "validation_files",
                                      &s->validation, utf8, err)
               : status;
}

static bool is_same(const struct dsf_text_file *a,
                    const struct dsf_text_file *b)
{
    bool same = a->bytes == b->bytes;
    size_t n;

    for (size_t at = 0;
         same && (n = dsf_mapped_piece(a->text, a->bytes, at)) > 0; at += n) {
        same = memcmp(a->text + at, b->text + at, n) == 0;
        dsf_mapped_let_go(b->text, b->bytes);
    }
    return same;
}

/* A model that is trained on them so writes braces and quotes. */
static void warn_of_json(const struct dsf_text_files *files, const char *key)
{
    static const char end[] = ".jsonl";

    for (unsigned i = 0; i < files->n; i++) {
        const char *path = files->v[i].path;
        const size_t n = strlen(path);

        if (n < sizeof(end) - 1 ||
            strcmp(path + n - (sizeof(end) - 1), end) != 0)
            continue;
        dsf_warn_of_job("data: %s: %s is taken for a text as it is: with "
                        "text_field = \"text\" its lines are JSON, and that "
                        "string of each is one",
                        key, path);
        return;
    }
}

/* What is trained on says nothing of other text: a copy neither. */
static void warn_of_copy(const struct dsf_text_source *s)
{
    for (unsigned i = 0; i < s->validation.n; i++)
        for (unsigned j = 0; j < s->train.n; j++) {
            const struct dsf_text_file *v = &s->validation.v[i];
            const struct dsf_text_file *t = &s->train.v[j];

            if (!is_same(v, t))
                continue;
            dsf_warn_of_job(
                "data: validation_files: %s: the same text is in train, "
                "as %s",
                v->path, t->path);
            return;
        }
}

void dsf_text_source_warn(const struct dsf_text_source *s)
{
    if (!dsf_is_json_lines(s->job)) {
        warn_of_json(&s->train, "train");
        warn_of_json(&s->validation, "validation_files");
    }
    warn_of_copy(s);
}

void dsf_text_source_close(struct dsf_text_source *s)
{
    dsf_text_files_close(&s->train);
    dsf_text_files_close(&s->validation);
    free(s->cuts);
}

uint64_t dsf_text_source_key(const struct dsf_text_source *s)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t words[3] = { dsf_tokenizer_hash(s->tok), s->train.n,
                          s->validation.n };
    uint64_t key;

    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, words, sizeof(words));
    if (s->job->data.begin)
        XXH3_64bits_update(state, "begin", 5);
    if (dsf_is_json_lines(s->job)) {
        const char *field = s->job->data.text_field;

        XXH3_64bits_update(state, "text_field", sizeof("text_field"));
        XXH3_64bits_update(state, field, strlen(field) + 1);
    }
    for (unsigned i = 0; i < s->train.n; i++) {
        words[0] = s->train.v[i].bytes;
        words[1] = s->cuts[i];
        words[2] = dsf_mapped_hash(s->train.v[i].text, s->train.v[i].bytes, 0);
        XXH3_64bits_update(state, words, sizeof(words));
    }
    for (unsigned i = 0; i < s->validation.n; i++) {
        words[0] = words[1] = s->validation.v[i].bytes;
        words[2] = dsf_mapped_hash(s->validation.v[i].text,
                                   s->validation.v[i].bytes, 0);
        XXH3_64bits_update(state, words, sizeof(words));
    }
    key = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return key;
}
