/* tokenizer_export.h - a tokenizer as the files that transformers loads. */
#ifndef DSF_TEXT_TOKENIZER_EXPORT_H
#define DSF_TEXT_TOKENIZER_EXPORT_H

#include <jansson.h>
#include "text/text.h"

struct dsf_tokenizer_file {
    const char *name; /* in the folder */
    char *text;
    size_t n;
};

enum { DSF_MOST_TOKENIZER_FILES = 5 };

struct dsf_tokenizer_export {
    struct dsf_tokenizer_file files[DSF_MOST_TOKENIZER_FILES];
    unsigned nfiles;
    json_t
        *ids; /* bos_token_id, eos_token_id and pad_token_id of config.json */
};

/* The files of `tok` for a model of `context` tokens: its own, or for bytes a
 * tokenizer.json; the template of chats beside them; tokenizer_config.json and
 * generation_config.json. `source`: the folder of the model it began as, if
 * this is its tokenizer (else NULL), whose special tokens and settings are
 * kept. */
int dsf_tokenizer_export(const struct dsf_tokenizer *tok, const char *source,
                         int64_t context, struct dsf_tokenizer_export *out,
                         struct dsflow_err *err);
void dsf_tokenizer_export_fini(struct dsf_tokenizer_export *out);

#endif
