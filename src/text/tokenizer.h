/* tokenizer.h - what a tokenizer is made of. */
#ifndef DSF_TEXT_TOKENIZER_H
#define DSF_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "text/text.h"

/* A token that is found in the text as it is written, before anything else. */
struct dsf_added {
    char *text;
    size_t bytes; /* at least 1 */
    int32_t id;
    bool late; /* looked for after the others ("normalized") */
};

/* Which texts between added tokens get a space in front. */
enum dsf_lead {
    DSF_LEAD_NONE,
    DSF_LEAD_FIRST, /* what a text begins with, if not by a space */
    DSF_LEAD_EACH,  /* all that begin with none */
    DSF_LEAD_ALL,
};

struct dsf_bpe;
struct dsf_split;

struct dsf_tokenizer {
    struct dsf_bpe *bpe;     /* NULL: bytes */
    struct dsf_split *split; /* how text is cut before bpe */
    bool nfc;                /* in normal form C, before that */
    bool prefix;             /* a space is put before what has none, ... */
    enum dsf_lead lead;      /* ... and that of the first word is */
    struct dsf_added *added; /* sorted: the late ones last */
    unsigned nadded;
    size_t added_cap;
    uint64_t *starts[2]; /* of each value of `late`: which pairs of bytes
                            begin an added token; NULL: there is none */
    int first[2];        /* the byte that all of them begin with, or -1 */
    int32_t vocab, eot, begin; /* -1: none */
    int32_t *ends;             /* dsf_tokenizer_is_end: of the folder */
    unsigned nends;
    uint64_t hash;
    char **files; /* at most two, and NULL */
};

struct dsf_tokenizer *dsf_tokenizer_new(void);
/* A file that was read, which becomes part of the hash. */
void dsf_tokenizer_add_file(struct dsf_tokenizer *tok, const char *path,
                            const char *contents, size_t n);
void dsf_tokenizer_add(struct dsf_tokenizer *tok, const char *text, size_t n,
                       int32_t id, bool late);
/* All was added: `path` is for the message where most ids have no token. */
int dsf_tokenizer_finish(struct dsf_tokenizer *tok, const char *path,
                         struct dsflow_err *err);
/* The token of this text, or -1; of NULL, too. */
int32_t dsf_tokenizer_find(const struct dsf_tokenizer *tok, const char *text);

/* Fill a new tokenizer, up to dsf_tokenizer_finish. */
int dsf_tokenizer_read_json(struct dsf_tokenizer *tok, const char *path,
                            struct dsflow_err *err);
/* The same from memory; `path` is for messages only. */
int dsf_tokenizer_parse_json(struct dsf_tokenizer *tok, const char *text,
                             size_t n, const char *path,
                             struct dsflow_err *err);
int dsf_tokenizer_read_gpt2(struct dsf_tokenizer *tok, const char *encoder,
                            const char *merges, struct dsflow_err *err);

/* The files of a folder that make a tokenizer. */
int dsf_tokenizer_read_folder(struct dsf_tokenizer *tok, const char *dir,
                              struct dsflow_err *err);

/* Bytes of a file: no vocabulary is near this; a mistaken path may be. */
#define DSF_MOST_VOCAB ((int64_t)1 << 30)

#endif
