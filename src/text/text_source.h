/* text_source.h - the text of a job before it is tokens. */
#ifndef DSF_TEXT_TEXT_SOURCE_H
#define DSF_TEXT_TEXT_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>
#include "config/job.h"
#include "text/text.h"
#include "text/text_files.h"

struct dsf_text_source {
    const struct dsf_job *job;
    const struct dsf_tokenizer *tok;
    struct dsf_text_files train, validation;
    size_t *cuts; /* of each train file: where its validation text begins */
};

/* Are the files JSON Lines? */
static inline bool dsf_is_json_lines(const struct dsf_job *job)
{
    return job->data.text_field[0] != '\0';
}

/* Is there a file to train on? */
int dsf_text_source_has_train(const struct dsf_job *job,
                              struct dsflow_err *err);

/* Where the files of [data] are, and where they are cut; there may be some to
 * validate on alone. To be closed, whatever it returns. */
int dsf_text_source_find(struct dsf_text_source *s, const struct dsf_job *job,
                         const struct dsf_tokenizer *tok,
                         struct dsflow_err *err);
void dsf_text_source_close(struct dsf_text_source *s);

/* Is it text? That reads all of it. */
int dsf_text_source_check(const struct dsf_text_source *s,
                          struct dsflow_err *err);
/* Of a validation file that is trained on, too, and of JSON Lines that are
 * taken for a text. */
void dsf_text_source_warn(const struct dsf_text_source *s);
/* Hash of what decides the tokens and their split. */
uint64_t dsf_text_source_key(const struct dsf_text_source *s);

#endif
