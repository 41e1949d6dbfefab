/* pattern.c - names by patterns. All places of a pattern where a match may be
 * are followed at once, so that none takes long. */
#include "foreign/pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 512 }; /* places of a pattern */

/* One character of a set, so many times. */
struct place {
    uint32_t set[8];     /* bits, by character */
    bool may_be_missing; /* "*", "?" */
    bool may_repeat;     /* "*", "+" */
};

struct parser {
    const char *whole, *at;
    struct place places[MOST];
    unsigned n;
    bool to_the_end; /* "$" */
    struct dsflow_err *err;
};

static int fail(const struct parser *p, const char *what)
{
    return dsflow_fail(p->err, DSFLOW_EINVAL,
                       "%.80s: character %d: %s: expected a pattern of names "
                       "without such",
                       p->whole, (int)(p->at - p->whole) + 1, what);
}

static void add(struct place *p, unsigned char c)
{
    p->set[c / 32] |= 1u << c % 32;
}

static void add_range(struct place *p, unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        add(p, (unsigned char)c);
}

static bool has(const struct place *p, unsigned char c)
{
    return (p->set[c / 32] & 1u << c % 32) != 0;
}

static void flip(struct place *p)
{
    for (unsigned i = 0; i < 8; i++)
        p->set[i] = ~p->set[i];
}

/* Behind a '\'. */
static int escaped(struct parser *p, struct place *place)
{
    static const char classes[] = "dws";
    char c = *p->at;

    if (c == '\0')
        return fail(p, "a \\ at the end");
    if (strchr(classes, c) == NULL &&
        ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9')))
        return fail(p, "an escape that is not known");
    if (c == 'd' || c == 'w')
        add_range(place, '0', '9');
    if (c == 'w') {
        add_range(place, 'a', 'z');
        add_range(place, 'A', 'Z');
        add(place, '_');
    }
    for (const char *s = c == 's' ? " \t\n\r\f\v" : ""; *s != '\0'; s++)
        add(place, (unsigned char)*s);
    if (strchr(classes, c) == NULL)
        add(place, (unsigned char)c);
    p->at++;
    return DSFLOW_OK;
}

/* Behind a '['. */
static int set(struct parser *p, struct place *place)
{
    bool inverse = *p->at == '^';
    const char *begin;

    p->at += inverse;
    begin = p->at;
    while (*p->at != '\0' && (*p->at != ']' || p->at == begin)) {
        unsigned char c = (unsigned char)*p->at++;

        if (c == '\\') {
            if (escaped(p, place) < 0)
                return DSFLOW_EINVAL;
        } else if (p->at[0] == '-' && p->at[1] != ']' && p->at[1] != '\0') {
            add_range(place, c, (unsigned char)p->at[1]);
            p->at += 2;
        } else {
            add(place, c);
        }
    }
    if (*p->at != ']')
        return fail(p, "a [ without its ]");
    p->at++;
    if (inverse)
        flip(place);
    return DSFLOW_OK;
}

/* The next place. */
static int parse_place(struct parser *p)
{
    struct place *place = &p->places[p->n];
    char c = *p->at;
    int status = DSFLOW_OK;

    if (p->n + 1 == MOST)
        return fail(p, "the end of the 511 characters that there may be");
    if (strchr("(){}*+?", c) != NULL)
        return fail(p, "a group or a count");
    if (c == '^' || c == '$')
        return fail(p, "an end in the middle");
    *place = (struct place){ .set = { 0 } };
    p->at++;
    if (c == '\\') {
        status = escaped(p, place);
    } else if (c == '[') {
        status = set(p, place);
    } else if (c == '.') {
        add(place, '\n');
        flip(place);
    } else {
        add(place, (unsigned char)c);
    }
    if (status < 0)
        return status;
    if (*p->at == '*' || *p->at == '+' || *p->at == '?') {
        place->may_be_missing = *p->at != '+';
        place->may_repeat = *p->at != '?';
        p->at++;
        if (*p->at == '?') /* the shortest: it is the same where there is one */
            p->at++;
    }
    p->n++;
    return DSFLOW_OK;
}

/* One pattern, up to '|' or the end. */
static int parse(struct parser *p)
{
    int status = DSFLOW_OK;

    p->n = 0;
    p->to_the_end = false;
    if (*p->at == '^')
        p->at++;
    while (*p->at != '\0' && *p->at != '|' && status == DSFLOW_OK) {
        if (*p->at == '$' && (p->at[1] == '\0' || p->at[1] == '|')) {
            p->to_the_end = true;
            p->at++;
        } else {
            status = parse_place(p);
        }
    }
    return status;
}

/* Where `place` may be, those behind what may be missing, too. */
static void be_at(const struct parser *p, bool *may, unsigned place)
{
    while (!may[place]) {
        may[place] = true;
        if (place == p->n || !p->places[place].may_be_missing)
            break;
        place++;
    }
}

static bool matches(const struct parser *p, const char *text)
{
    bool may[MOST] = { false };

    be_at(p, may, 0);
    for (; *text != '\0' && (p->to_the_end || !may[p->n]); text++) {
        bool next[MOST] = { false };

        for (unsigned i = 0; i < p->n; i++) {
            if (!may[i] || !has(&p->places[i], (unsigned char)*text))
                continue;
            be_at(p, next, i + 1);
            if (p->places[i].may_repeat)
                be_at(p, next, i);
        }
        memcpy(may, next, sizeof(may));
    }
    return may[p->n];
}

int dsf_pattern_match(const char *pattern, const char *text,
                      struct dsflow_err *err)
{
    struct parser p = { .whole = pattern, .at = pattern, .err = err };
    bool found = false;

    do {
        if (parse(&p) < 0)
            return DSFLOW_EINVAL;
        found = found || matches(&p, text);
    } while (*p.at++ == '|');
    return found;
}
