/* toml_check.c - what is wrong with a text before it is worth parsing: bytes
 * that are not UTF-8, strings without an end, characters that stand outside of
 * strings and comments nowhere, and tables in too many others. toml++ 3.3 has
 * undefined behaviour for some of these, no line for others, and a call within
 * each for the last. */
#include "config/toml_read.h"

#include "base/utf8.h"

#include <string.h>

/* Parts of a dotted key. toml++ itself ends at 256 values in each other. */
enum { MOST_PARTS = 8 };

struct scan {
    const char *path, *at, *end;
    unsigned line;
    unsigned points; /* since the last character that stands in no dotted key */
    struct dsflow_err *err;
};

static unsigned count_lines(const char *from, const char *to)
{
    unsigned n = 0;

    for (; from < to; from++)
        n += *from == '\n';
    return n;
}

static int check_bytes(const struct scan *s)
{
    const char *nul = memchr(s->at, '\0', (size_t)(s->end - s->at));
    const char *bad = s->at + dsf_utf8_valid(s->at, (size_t)(s->end - s->at));

    if (nul != NULL && nul < bad)
        return dsflow_fail(s->err, DSFLOW_EINVAL,
                           "%s:%u: a byte 0: expected text", s->path,
                           1 + count_lines(s->at, nul));
    if (bad == s->end)
        return DSFLOW_OK;
    return dsflow_fail(
        s->err, DSFLOW_EINVAL, "%s:%u: a byte 0x%02x: expected text in UTF-8%s",
        s->path, 1 + count_lines(s->at, bad), (unsigned)(unsigned char)*bad,
        bad == s->at && (*bad == '\xff' || *bad == '\xfe') ? ", not in UTF-16"
                                                           : "");
}

static bool starts(const struct scan *s, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(s->end - s->at) >= n && memcmp(s->at, text, n) == 0;
}

/* A string of one line, from its opening quote to behind the closing one. */
static int skip_string(struct scan *s, char quote)
{
    for (s->at++; s->at < s->end && *s->at != '\n'; s->at++) {
        if (*s->at == quote) {
            s->at++;
            return DSFLOW_OK;
        }
        if (*s->at == '\\' && quote == '"' && s->at + 1 < s->end &&
            s->at[1] != '\n')
            s->at++;
    }
    return dsflow_fail(s->err, DSFLOW_EINVAL,
                       "%s:%u: a string without its end: expected %c", s->path,
                       s->line, quote);
}

/* The same of one of several lines. It may end with up to two quotes more. */
static int skip_text(struct scan *s, const char *quotes)
{
    unsigned first = s->line;

    for (s->at += 3; s->at < s->end; s->at++) {
        if (starts(s, quotes)) {
            s->at += 3;
            for (int i = 0; i < 2 && s->at < s->end && *s->at == *quotes; i++)
                s->at++;
            return DSFLOW_OK;
        }
        if (*s->at == '\\' && *quotes == '"' && s->at + 1 < s->end)
            s->at++;
        s->line += *s->at == '\n';
    }
    return dsflow_fail(s->err, DSFLOW_EINVAL,
                       "%s:%u: a string without its end: expected %s", s->path,
                       first, quotes);
}

static int check_outside(const struct scan *s)
{
    static const char marks[] = "_-+.:=,[]{} \t\r\n";
    unsigned char c = (unsigned char)*s->at;
    size_t n = dsf_utf8_char(s->at, (size_t)(s->end - s->at));

    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
        (c >= 'a' && c <= 'z') || memchr(marks, c, sizeof(marks) - 1) != NULL)
        return DSFLOW_OK;
    if (c < 0x20 || c == 0x7f)
        return dsflow_fail(s->err, DSFLOW_EINVAL,
                           "%s:%u: a byte 0x%02x: expected text", s->path,
                           s->line, c);
    return dsflow_fail(s->err, DSFLOW_EINVAL,
                       "%s:%u: %.*s: expected within quotes: without, there "
                       "are only letters from A to Z, digits, _ and -",
                       s->path, s->line, (int)n, s->at);
}

static int check_parts(struct scan *s)
{
    if (strchr("=,[{\n", *s->at) != NULL)
        s->points = 0;
    s->points += *s->at == '.';
    if (s->points < MOST_PARTS)
        return DSFLOW_OK;
    return dsflow_fail(s->err, DSFLOW_EINVAL,
                       "%s:%u: a key of more than %d parts: expected such as "
                       "table.key",
                       s->path, s->line, MOST_PARTS);
}

int dsf_toml_check(const char *text, size_t bytes, const char *path,
                   struct dsflow_err *err)
{
    struct scan s = { path, text, text + bytes, 1, 0, err };
    int status = check_bytes(&s);

    if (starts(&s, "\xef\xbb\xbf")) /* a byte order mark */
        s.at += 3;
    while (s.at < s.end && status == DSFLOW_OK) {
        if (starts(&s, "\"\"\"") || starts(&s, "'''")) {
            status = skip_text(&s, *s.at == '"' ? "\"\"\"" : "'''");
        } else if (*s.at == '"' || *s.at == '\'') {
            status = skip_string(&s, *s.at);
        } else if (*s.at == '#') {
            while (s.at < s.end && *s.at != '\n')
                s.at++;
        } else {
            status = check_outside(&s);
            if (status == DSFLOW_OK)
                status = check_parts(&s);
            s.line += *s.at == '\n';
            s.at++;
        }
    }
    return status;
}
