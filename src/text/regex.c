/* regex.c - expressions written for Oniguruma, for PCRE2. Both are descendants
 * of Perl's; what they read differently is spelled out or refused. */
#include "text/regex.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* PCRE2's \s has U+180E, which is no white space since Unicode 6.3. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"

struct reader {
    const char *all, *at;
    bool in_class;
    unsigned depth;    /* of groups */
    unsigned any_case; /* the depth of a (?i: that is open, or 0 */
    char last;         /* the letter before, there */
    char *to;
    size_t n, cap;
};

static void put(struct reader *r, const char *text, size_t n)
{
    dsf_grow(&r->to, &r->cap, r->n + n + 1, 1);
    memcpy(r->to + r->n, text, n);
    r->n += n;
    r->to[r->n] = '\0';
}

static void puts_to(struct reader *r, const char *text)
{
    put(r, text, strlen(text));
}

static int refuse(const struct reader *r, const char *what, size_t n,
                  struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "regular expression \"%s\": \"%.*s\" at offset %zu is "
                       "not supported",
                       r->all, (int)strnlen(what, n), what,
                       (size_t)(what - r->all));
}

/* The name in \p{L}, \P{Lu}, \p{^Han}: `*n` is its length, or 0 where there is
 * none to be read. */
static const char *property_name(const char *at, size_t *n)
{
    const char *name = at + (at[2] == '{' && at[3] == '^' ? 4 : 3);

    *n = 0;
    if (at[2] == '{')
        while (isalnum((unsigned char)name[*n]) || name[*n] == '_')
            ++*n;
    if (at[2] != '{' || name[*n] != '}')
        *n = 0;
    return name;
}

/* Names of properties are of either case, with underscores or without. */
static bool is_name(const char *name, size_t n, const char *known)
{
    size_t i = 0;

    for (; *known != '\0'; known++) {
        while (i < n && name[i] == '_')
            i++;
        if (*known == '_')
            continue;
        if (i == n ||
            tolower((unsigned char)name[i++]) != tolower((unsigned char)*known))
            return false;
    }
    while (i < n && name[i] == '_')
        i++;
    return i == n;
}

/* Whether a property of this name has the characters of `u`. */
static bool is_part(const struct dsf_unicode *u, const char *name, size_t n)
{
    if (u->code != NULL)
        return is_name(name, n, u->name) || is_name(name, n, u->code);
    return n <= 2 && strncasecmp(u->name, name, n) == 0;
}

/* A category is what PCRE2 says, with its youngest characters. A script is
 * that of the character alone, not of all that use it. Returns whether it can
 * be said at all. */
static bool put_property(struct reader *r, const char *name, size_t n,
                         bool negated)
{
    /* What is not assigned gets less with each Unicode; and LC is Lu, Ll and
     * Lt. */
    static const char *const none[] = { "C", "Cn", "LC", "Unknown", "Zzzz" };

    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        if (is_name(name, n, none[i]))
            return false;
    if (!r->in_class)
        puts_to(r, negated ? "[^" : "[");
    puts_to(r, negated && r->in_class ? "\\P{" : "\\p{");
    if (n > 2 || is_name(name, n, "Yi"))
        puts_to(r, "sc:");
    put(r, name, n);
    puts_to(r, "}");
    for (const struct dsf_unicode *u = dsf_unicode_new; u->name != NULL; u++) {
        if (!is_part(u, name, n))
            continue;
        /* What is not of a property cannot have parts taken out in a class. */
        if (negated && r->in_class)
            return false;
        puts_to(r, u->ranges);
    }
    if (!r->in_class)
        puts_to(r, "]");
    return true;
}

static int read_property(struct reader *r, struct dsflow_err *err)
{
    size_t n;
    const char *name = property_name(r->at, &n);
    bool negated;

    /* In a class, Oniguruma adds the other case of all that a property has. */
    if (n == 0 || (r->in_class && r->any_case > 0))
        return refuse(r, r->at, 3, err);
    negated = (r->at[1] == 'P') != (name[-1] == '^');
    if (!put_property(r, name, n, negated))
        return refuse(r, r->at, (size_t)(name - r->at) + n + 1, err);
    r->at = name + n + 1;
    return DSFLOW_OK;
}

/* \xHH, \x{H...}, \uHHHH */
static int read_code(struct reader *r, struct dsflow_err *err)
{
    const char *start = r->at, *digits = start + 2;
    size_t most = start[1] == 'u' ? 4 : 2, n = 0;
    bool braces = start[1] == 'x' && *digits == '{';

    if (braces) {
        digits++;
        most = 6;
    }
    while (n < most && isxdigit((unsigned char)digits[n]))
        n++;
    if (n == 0 || (start[1] == 'u' && n < 4) || (braces && digits[n] != '}'))
        return refuse(r, start, 4, err);
    /* A byte of Oniguruma beyond ASCII is no character. */
    if (start[1] == 'x' && !braces && n == 2 && *digits > '7')
        return refuse(r, start, 4, err);
    puts_to(r, "\\x{");
    put(r, digits, n);
    puts_to(r, "}");
    r->at = digits + n + braces;
    return DSFLOW_OK;
}

static int read_escape(struct reader *r, struct dsflow_err *err)
{
    char c = r->at[1];
    bool known = true;

    if (c == 'p' || c == 'P')
        return read_property(r, err);
    if ((c == 'x' || c == 'u') && r->any_case == 0)
        return read_code(r, err);
    if (c == '\0' || (unsigned char)c >= 0x80)
        return refuse(r, r->at, 1, err);
    if (c == 's')
        puts_to(r, r->in_class ? SPACE : "[" SPACE "]");
    else if (c == 'S')
        puts_to(r, r->in_class ? "\\S\\x{180e}" : "[^" SPACE "]");
    else if (c == 'd' || c == 'D')
        known = put_property(r, "Nd", 2, c == 'D');
    else if (c == 'v')
        puts_to(r, "\\x0b"); /* of PCRE2: any line end */
    else if (ispunct((unsigned char)c) || c == ' ' ||
             strchr("rntfae", c) != NULL ||
             (!r->in_class && strchr("Az", c) != NULL))
        put(r, r->at, 2);
    else
        known = false;
    if (!known)
        return refuse(r, r->at, 2, err);
    r->at += 2;
    return DSFLOW_OK;
}

static int read_in_class(struct reader *r, struct dsflow_err *err)
{
    /* Oniguruma has classes in classes, and their intersection. */
    if (*r->at == '[' || (r->at[0] == '&' && r->at[1] == '&'))
        return refuse(r, r->at, 2, err);
    if (*r->at == ']')
        r->in_class = false;
    put(r, r->at, 1);
    r->at++;
    return DSFLOW_OK;
}

static int read_group(struct reader *r, struct dsflow_err *err)
{
    static const char *const known[] = { "(?:",  "(?=",  "(?!",  "(?>",
                                         "(?<=", "(?<!", "(?i:", "(?-i:" };
    size_t n = 1;

    if (r->at[1] == '*')
        return refuse(r, r->at, 2, err);
    if (r->at[1] == '?') {
        n = 0;
        for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
            if (strncmp(r->at, known[i], strlen(known[i])) == 0)
                n = strlen(known[i]);
        if (n == 0)
            return refuse(r, r->at, 4, err);
    }
    r->depth++;
    if (r->any_case == 0 && strncmp(r->at, "(?i:", 4) == 0)
        r->any_case = r->depth;
    put(r, r->at, n);
    r->at += n;
    return DSFLOW_OK;
}

/* Of either case, "ss" is also one letter to Oniguruma, and so are letters
 * beyond ASCII and others: those that stand together in "st" and "ffl". */
static int check_case(struct reader *r, struct dsflow_err *err)
{
    static const char *const pairs[] = { "ss", "st", "ff", "fi", "fl" };
    char c = (char)tolower((unsigned char)*r->at), last = r->last;

    if (r->any_case == 0)
        return DSFLOW_OK;
    if ((unsigned char)c >= 0x80)
        return refuse(r, r->at, dsf_utf8_char(r->at, strlen(r->at)), err);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
        if (pairs[i][0] == last && pairs[i][1] == c)
            return refuse(r, r->at, 1, err);
    /* Parentheses do not part letters. */
    if (c != '(' && c != ')')
        r->last = r->in_class ? '\0' : c;
    return DSFLOW_OK;
}

/* {n,m}: a "+" behind it is possessive for PCRE2, and repeats the whole for
 * Ruby; so does a "?" behind {n}, which is none or n of them there. */
static int read_interval(struct reader *r, struct dsflow_err *err)
{
    size_t n = 1 + strspn(r->at + 1, "0123456789,");

    if (n == 1 || !isdigit((unsigned char)r->at[1]) || r->at[n] != '}' ||
        memchr(r->at, ',', n) != memrchr(r->at, ',', n))
        return refuse(r, r->at, n + 1, err);
    n++;
    if (r->at[n] == '+' || (r->at[n] == '?' && memchr(r->at, ',', n) == NULL))
        return refuse(r, r->at, n + 1, err);
    put(r, r->at, n);
    r->at += n;
    return DSFLOW_OK;
}

static int read_one(struct reader *r, struct dsflow_err *err)
{
    int status = check_case(r, err);

    if (status < 0)
        return status;
    if (*r->at == '\\')
        return read_escape(r, err);
    if (r->in_class)
        return read_in_class(r, err);
    if (*r->at == '(')
        return read_group(r, err);
    if (*r->at == '{')
        return read_interval(r, err);
    if (*r->at == '[') {
        size_t n = r->at[1] == '^' ? 2 : 1;

        if (r->at[n] == ']') /* in Ruby: an empty class, with a warning */
            return refuse(r, r->at, n + 1, err);
        put(r, r->at, n);
        r->at += n;
        r->in_class = true;
        return DSFLOW_OK;
    }
    if (*r->at == ')') {
        if (r->any_case == r->depth)
            r->any_case = 0;
        r->depth -= r->depth > 0;
    }
    put(r, r->at, 1);
    r->at++;
    return DSFLOW_OK;
}

int dsf_regex_translate(const char *from, char **to, struct dsflow_err *err)
{
    struct reader r = { .all = from, .at = from };
    int status = DSFLOW_OK;

    put(&r, "", 0);
    while (*r.at != '\0' && status == DSFLOW_OK)
        status = read_one(&r, err);
    if (status < 0) {
        free(r.to);
        r.to = NULL;
    }
    *to = r.to;
    return status;
}

char *dsf_regex_quote(const char *string)
{
    struct reader r = { .all = string };

    put(&r, "", 0);
    for (; *string != '\0'; string++) {
        if (ispunct((unsigned char)*string))
            put(&r, "\\", 1);
        put(&r, string, 1);
    }
    return r.to;
}
