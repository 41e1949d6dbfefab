/* split.h - text cut in words, which is what happens before byte pair
 * encoding. */
#ifndef DSF_TEXT_SPLIT_H
#define DSF_TEXT_SPLIT_H

#include <stddef.h>
#include <dsflow/error.h>

struct dsf_split;    /* opaque: the steps */
struct dsf_splitter; /* opaque: the steps at work, for one thread */

/* The expression of GPT-2's tokenizer, which "ByteLevel" also uses. */
extern const char dsf_gpt2_regex[];

struct dsf_split *dsf_split_new(void); /* no step: the text is one word */
void dsf_split_free(struct dsf_split *split);

/* Next step: what matches is a word, and so is what lies between. `regex` is
 * written for Oniguruma with Ruby's syntax (what Hugging Face uses). What does
 * not mean the same here is refused. */
int dsf_split_add_regex(struct dsf_split *split, const char *regex,
                        struct dsflow_err *err);
/* The same for a string as it is. */
int dsf_split_add_string(struct dsf_split *split, const char *string,
                         struct dsflow_err *err);
/* Next step: a space before every piece that does not begin with one. */
int dsf_split_add_prefix(struct dsf_split *split, struct dsflow_err *err);

struct dsf_splitter *dsf_splitter_new(const struct dsf_split *split);
void dsf_splitter_free(struct dsf_splitter *splitter);

typedef void (*dsf_word_fn)(void *user, const char *word, size_t n);

/* A part of a text of `n` bytes of UTF-8: the words from `from` on, where one
 * begins, up to the first that ends at `limit` or behind it. Expressions see
 * what is around. */
struct dsf_split_part {
    const char *text;
    size_t n, from, limit;
    size_t end; /* of the last word: set here */
};

/* Call `fn` for every word of the part. */
int dsf_split_text(struct dsf_splitter *splitter, struct dsf_split_part *part,
                   dsf_word_fn fn, void *user, struct dsflow_err *err);
/* Where a word of a text of `n` bytes is likely to begin, behind `at`; `n`:
 * nobody knows. Who splits what is before it sees whether one does. */
size_t dsf_split_guess(struct dsf_splitter *splitter, const char *text,
                       size_t n, size_t at);

#endif
