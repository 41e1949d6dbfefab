/* split.c - text cut in words by regular expressions, with PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split.h"

#include "base/alloc.h"
#include "text/regex.h"
#include "base/utf8.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 8 };

const char dsf_gpt2_regex[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";

struct dsf_split {
    struct step {
        char *source;
        pcre2_code *code; /* NULL: a space in front */
    } steps[MOST_STEPS];
    unsigned n;
};

struct dsf_splitter {
    const struct dsf_split *split;
    pcre2_match_data *match[MOST_STEPS];
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    dsf_word_fn fn;
    void *user;
    struct dsflow_err *err;
};

struct dsf_split *dsf_split_new(void)
{
    return dsf_xcalloc(1, sizeof(struct dsf_split));
}

void dsf_split_free(struct dsf_split *split)
{
    if (split == NULL)
        return;
    for (unsigned i = 0; i < split->n; i++) {
        free(split->steps[i].source);
        pcre2_code_free(split->steps[i].code);
    }
    free(split);
}

static int add(struct dsf_split *split, struct step step,
               struct dsflow_err *err)
{
    if (split->n == MOST_STEPS) {
        free(step.source);
        pcre2_code_free(step.code);
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "pre_tokenizer: more than %d steps", MOST_STEPS);
    }
    split->steps[split->n++] = step;
    return DSFLOW_OK;
}

static int add_code(struct dsf_split *split, const char *source,
                    const char *pattern, struct dsflow_err *err)
{
    char text[128];
    PCRE2_SIZE at;
    pcre2_code *code;
    int rc;

    code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                             PCRE2_NEVER_BACKSLASH_C,
                         &rc, &at, NULL);
    if (code == NULL) {
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)text, sizeof(text));
        return dsflow_fail(err, DSFLOW_EINVAL, "regular expression \"%s\": %s",
                           source, text);
    }
    /* Without it, or where it cannot be had, matching is slower. */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return add(split, (struct step){ dsf_xstrdup(source), code }, err);
}

int dsf_split_add_regex(struct dsf_split *split, const char *regex,
                        struct dsflow_err *err)
{
    char *pattern;
    int status = dsf_regex_translate(regex, &pattern, err);

    if (status == DSFLOW_OK)
        status = add_code(split, regex, pattern, err);
    free(pattern);
    return status;
}

int dsf_split_add_string(struct dsf_split *split, const char *string,
                         struct dsflow_err *err)
{
    char *pattern = dsf_regex_quote(string);
    int status = add_code(split, string, pattern, err);

    free(pattern);
    return status;
}

int dsf_split_add_prefix(struct dsf_split *split, struct dsflow_err *err)
{
    return add(split, (struct step){ 0 }, err);
}

struct dsf_splitter *dsf_splitter_new(const struct dsf_split *split)
{
    struct dsf_splitter *s = dsf_xcalloc(1, sizeof(*s));

    s->split = split;
    s->context = pcre2_match_context_create(NULL);
    s->stack = pcre2_jit_stack_create((size_t)32 << 10, (size_t)8 << 20, NULL);
    pcre2_jit_stack_assign(s->context, NULL, s->stack);
    for (unsigned i = 0; i < split->n; i++)
        if (split->steps[i].code != NULL)
            s->match[i] = pcre2_match_data_create_from_pattern(
                split->steps[i].code, NULL);
    return s;
}

void dsf_splitter_free(struct dsf_splitter *s)
{
    if (s == NULL)
        return;
    for (unsigned i = 0; i < s->split->n; i++)
        pcre2_match_data_free(s->match[i]);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
}

static int run_step(struct dsf_splitter *s, unsigned step, const char *text,
                    size_t n);

static int put_prefix(struct dsf_splitter *s, unsigned step, const char *text,
                      size_t n)
{
    char *with;
    int status;

    if (n == 0 || text[0] == ' ')
        return run_step(s, step + 1, text, n);
    with = dsf_xcalloc(n + 1, 1);
    with[0] = ' ';
    memcpy(with + 1, text, n);
    status = run_step(s, step + 1, with, n + 1);
    free(with);
    return status;
}

/* The next match at or after `at`: 1 found, 0 none, or a status. */
static int find(struct dsf_splitter *s, unsigned step, const char *text,
                size_t n, size_t at, size_t *from, size_t *to)
{
    const struct step *st = &s->split->steps[step];
    const PCRE2_SIZE *place;
    char why[128];
    int rc = pcre2_match(st->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK,
                         s->match[step], s->context);

    /* The interpreter has all the memory there is. */
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(st->code, (PCRE2_SPTR)text, n, at,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match[step],
                         s->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0) {
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof(why));
        return dsflow_fail(s->err, DSFLOW_EFAIL,
                           "regular expression \"%s\": %s", st->source, why);
    }
    place = pcre2_get_ovector_pointer(s->match[step]);
    *from = place[0];
    *to = place[1];
    return 1;
}

/* Cut at matches: each is a word, and so is what lies between. */
static int run_regex(struct dsf_splitter *s, unsigned step,
                     struct dsf_split_part *part)
{
    const char *text = part->text;
    size_t n = part->n, done = part->from, at = done, from = 0, to = 0;
    int status = 1;

    while (at < n && done < part->limit) {
        status = find(s, step, text, n, at, &from, &to);
        if (status <= 0)
            break;
        /* A match of nothing is a cut, and the search goes on behind it. */
        at = to > from ? to
             : to < n  ? to + dsf_utf8_char(text + to, n - to)
                       : n;
        if (from > done)
            status = run_step(s, step + 1, text + done, from - done);
        if (status >= 0 && to > from)
            status = run_step(s, step + 1, text + from, to - from);
        if (status < 0)
            break;
        done = to;
    }
    if (status >= 0 && done < part->limit) {
        if (done < n)
            status = run_step(s, step + 1, text + done, n - done);
        done = n;
    }
    part->end = done;
    return status < 0 ? status : DSFLOW_OK;
}

static int run_step(struct dsf_splitter *s, unsigned step, const char *text,
                    size_t n)
{
    struct dsf_split_part whole = { .text = text, .n = n, .limit = n };

    if (step < s->split->n)
        return s->split->steps[step].code == NULL ? put_prefix(s, step, text, n)
                                                  : run_regex(s, step, &whole);
    s->fn(s->user, text, n);
    return DSFLOW_OK;
}

/* Is the first step one that cuts a text alike wherever it begins to? */
static bool cuts(const struct dsf_split *split)
{
    return split->n > 0 && split->steps[0].code != NULL;
}

int dsf_split_text(struct dsf_splitter *splitter, struct dsf_split_part *part,
                   dsf_word_fn fn, void *user, struct dsflow_err *err)
{
    splitter->fn = fn;
    splitter->user = user;
    splitter->err = err;
    if (cuts(splitter->split))
        return run_regex(splitter, 0, part);
    part->end = part->n;
    return part->n == 0 ? DSFLOW_OK
                        : run_step(splitter, 0, part->text, part->n);
}

/* Wherever in a word the search begins, some matches later it mostly finds what
 * it finds from the beginning of the text. */
size_t dsf_split_guess(struct dsf_splitter *splitter, const char *text,
                       size_t n, size_t at)
{
    enum { MATCHES = 4 };
    size_t from, to = n;

    splitter->err = NULL; /* who splits this text is told */
    if (!cuts(splitter->split))
        return n;
    while (at < n && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    for (int i = 0; i < MATCHES && at < n; i++) {
        if (find(splitter, 0, text, n, at, &from, &to) <= 0)
            return n;
        at = to > from || to == n ? to : to + dsf_utf8_char(text + to, n - to);
    }
    return to;
}
