/* words.c - the words of a command line, sorted into flags and others. */
#include "cli/words.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "cli/help.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What every command takes. */
static const struct dsf_flag common[] = {
    { "quiet", NULL, "warnings and errors only", 'q' },
    { "verbose", NULL, "say more", 'v' },
    { "help", NULL, "say what it does, and end", 'h' },
};

enum {
    NCOMMON = sizeof(common) / sizeof(*common),
    MOST_FLAGS = 32,
    FIRST = 256, /* what getopt_long says of the first flag: no letter */
};

const struct dsf_flag *dsf_flag_at(const struct dsf_cmd *cmd, unsigned i)
{
    unsigned n = 0;

    while (cmd->flags != NULL && cmd->flags[n].name != NULL)
        n++;
    if (i < n)
        return &cmd->flags[i];
    return i - n < NCOMMON ? &common[i - n] : NULL;
}

/* Flags that begin with `name`; only the one that is called so, if there is
 * one. */
static unsigned candidates(const struct dsf_cmd *cmd, const char *name,
                           size_t n, const struct dsf_flag **found)
{
    const struct dsf_flag *f;
    unsigned nfound = 0;

    for (unsigned i = 0; (f = dsf_flag_at(cmd, i)) != NULL; i++) {
        if (strncmp(f->name, name, n) != 0)
            continue;
        if (f->name[n] == '\0') {
            found[0] = f;
            return 1;
        }
        found[nfound++] = f;
    }
    return nfound;
}

const struct dsf_flag *dsf_flag_find(const struct dsf_cmd *cmd,
                                     const char *name, size_t n)
{
    const struct dsf_flag *found[MOST_FLAGS];

    return candidates(cmd, name, n, found) == 1 ? found[0] : NULL;
}

const char *dsf_next_alternative(const char **at, size_t *n)
{
    const char *word = *at + strspn(*at, "[=|]");

    *n = strcspn(word, "|]");
    *at = word + *n;
    return *n > 0 ? word : NULL;
}

bool dsf_is_fixed(const char *word, size_t n)
{
    return n > 0 && strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-") >= n;
}

/* "run: ", but for dsflow itself, whose name is in front of every message. */
static const char *in_front(const struct dsf_cmd *cmd)
{
    static char text[64];

    snprintf(text, sizeof(text), "%s: ", cmd->name);
    return cmd->outer ? "" : text;
}

/* Where more is said. */
static const char *see(const struct dsf_cmd *cmd)
{
    static char text[64];

    snprintf(text, sizeof(text), "dsflow help %s", cmd->name);
    return cmd->outer ? "dsflow --help" : text;
}

static int unknown_flag(const struct dsf_cmd *cmd, const char *word,
                        struct dsflow_err *err)
{
    const char *names[MOST_FLAGS], *nearest;
    unsigned n;

    for (n = 0; dsf_flag_at(cmd, n) != NULL; n++)
        names[n] = dsf_flag_at(cmd, n)->name;
    nearest = dsf_nearest(word + strspn(word, "-"), names, n);
    if (nearest != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s%.60s: unknown option; did you mean --%s",
                           in_front(cmd), word, nearest);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s%.60s: unknown option (%s)",
                       in_front(cmd), word, see(cmd));
}

/* "a, b or c" of words with `before` in front of each. */
struct listed {
    char s[300];
};

static void add_listed(struct listed *l, const char *before, const char *word,
                       size_t n, bool last)
{
    size_t at = strlen(l->s);

    snprintf(l->s + at, sizeof(l->s) - at, "%s%s%.*s",
             at == 0 ? ""
             : last  ? " or "
                     : ", ",
             before, (int)n, word);
}

static int ambiguous_flag(const struct dsf_cmd *cmd, const char *word,
                          const struct dsf_flag *const *found, unsigned n,
                          struct dsflow_err *err)
{
    struct listed l = { "" };

    for (unsigned i = 0; i < n; i++)
        add_listed(&l, "--", found[i]->name, strlen(found[i]->name),
                   i + 1 == n);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s%.*s: expected one of %s",
                       in_front(cmd), (int)strcspn(word, "="), word, l.s);
}

/* What a flag expects, in words: "serial or starpu", "FILE". */
static struct listed expected_of(const struct dsf_flag *flag)
{
    struct listed l = { "" };
    const char *at = flag->arg, *word, *next, *peek;
    size_t n, npeek;

    for (word = dsf_next_alternative(&at, &n); word != NULL; word = next) {
        peek = at;
        next = dsf_next_alternative(&peek, &npeek);
        add_listed(&l, "", word, n, next == NULL);
        n = npeek;
        at = peek;
    }
    return l;
}

/* The flag of a letter that lacks its value. */
static unsigned lacking(const struct dsf_cmd *cmd, int letter,
                        const struct dsf_flag **found)
{
    for (unsigned i = 0; (found[0] = dsf_flag_at(cmd, i)) != NULL; i++)
        if (found[0]->letter == letter)
            return 1;
    return 0;
}

/* What is wrong with the flag that getopt_long stopped at. */
static int fail_flag(const struct dsf_cmd *cmd, const char *word, int why,
                     struct dsflow_err *err)
{
    const struct dsf_flag *found[MOST_FLAGS];
    bool is_long = strncmp(word, "--", 2) == 0;
    size_t n = strcspn(word, "=");
    unsigned nfound = is_long      ? candidates(cmd, word + 2, n - 2, found)
                      : why == ':' ? lacking(cmd, optopt, found)
                                   : 0;

    if (nfound > 1)
        return ambiguous_flag(cmd, word, found, nfound, err);
    if (nfound == 0)
        return unknown_flag(cmd, word, err);
    if (why == ':')
        return dsflow_fail(err, DSFLOW_EINVAL, "%s--%s: expected %s",
                           in_front(cmd), found[0]->name,
                           expected_of(found[0]).s);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s--%s: takes no value",
                       in_front(cmd), found[0]->name);
}

/* Is the value the name of a file or folder? */
static bool is_path(const struct dsf_flag *flag)
{
    return strncmp(flag->arg, "FILE", 4) == 0 ||
           strncmp(flag->arg, "FOLDER", 6) == 0;
}

/* Is the value one of the words that are all that is accepted? */
static int check_value(const struct dsf_flag *flag, const char *value,
                       struct dsflow_err *err)
{
    const char *at = flag->arg, *word;
    bool may = flag->arg != NULL && flag->arg[0] == '[';
    size_t n;

    if (flag->arg == NULL || (may && value[0] == '\0'))
        return DSFLOW_OK;
    if (is_path(flag) && value[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL, "--%s: \"\": expected %s",
                           flag->name, flag->arg);
    while ((word = dsf_next_alternative(&at, &n)) != NULL)
        if (!dsf_is_fixed(word, n) ||
            (strlen(value) == n && strncmp(word, value, n) == 0))
            return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "--%s: %.60s: expected %s%s",
                       flag->name, value, expected_of(flag).s,
                       may ? ", or nothing" : "");
}

/* The flags of a command, as getopt_long wants them. */
struct spec {
    struct option longs[MOST_FLAGS + 1];
    char letters[2 * MOST_FLAGS + 3];
};

static struct spec spec_of(const struct dsf_cmd *cmd)
{
    /* Words come in their order, or, of dsflow itself, end the flags. */
    struct spec s = { .letters = { cmd->outer ? '+' : '-', ':' } };
    const struct dsf_flag *f;
    size_t nletters = 2;

    for (unsigned i = 0; (f = dsf_flag_at(cmd, i)) != NULL; i++) {
        s.longs[i] = (struct option){ f->name,
                                      f->arg == NULL     ? no_argument
                                      : f->arg[0] == '[' ? optional_argument
                                                         : required_argument,
                                      NULL, FIRST + (int)i };
        if (f->letter != '\0')
            s.letters[nletters++] = f->letter;
        if (f->letter != '\0' && f->arg != NULL)
            s.letters[nletters++] = ':';
    }
    return s;
}

static const struct dsf_flag *flag_of(const struct dsf_cmd *cmd, int c)
{
    unsigned i = 0;

    if (c >= FIRST)
        return dsf_flag_at(cmd, (unsigned)(c - FIRST));
    while (dsf_flag_at(cmd, i)->letter != c)
        i++;
    return dsf_flag_at(cmd, i);
}

static void add_opt(struct dsf_cli_args *w, const struct dsf_flag *flag,
                    const char *value)
{
    if (flag->letter == 'h')
        w->help = true;
    else if (flag->letter != '\0' && flag->arg == NULL)
        w->loudness = flag->letter;
    else
        w->opts[w->nopts++] =
            (struct dsf_cli_opt){ flag, value != NULL ? value : "" };
}

static int read_words(const struct dsf_cmd *cmd, int argc, char **argv,
                      struct dsf_cli_args *w, struct dsflow_err *err)
{
    struct spec s = spec_of(cmd);
    int status = DSFLOW_OK, c = 0;

    optind = 0; /* begin anew */
    opterr = 0;
    while (status == DSFLOW_OK && c != -1) {
        int at = optind > 0 ? optind : 1;

        c = getopt_long(argc, argv, s.letters, s.longs, NULL);
        if (c == 1) {
            w->words[w->nwords++] = optarg;
        } else if (c == '?' || c == ':') {
            status = fail_flag(cmd, argv[at], c, err);
        } else if (c != -1) {
            add_opt(w, flag_of(cmd, c), optarg);
        }
    }
    for (; status == DSFLOW_OK && optind < argc; optind++)
        w->words[w->nwords++] = argv[optind];
    return status;
}

static int check_words(const struct dsf_cmd *cmd, const struct dsf_cli_args *w,
                       struct dsflow_err *err)
{
    unsigned own = cmd->outer && w->nwords > 1 ? 1 : w->nwords;

    if (w->nwords < cmd->least || w->nwords > cmd->most)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: expected: %s (%s)",
                           cmd->name, dsf_usage(cmd).s, see(cmd));
    for (unsigned i = 0; i < own && !cmd->may_be_empty; i++)
        if (w->words[i][0] == '\0')
            return dsflow_fail(err, DSFLOW_EINVAL, "%s\"\": expected: %s (%s)",
                               in_front(cmd), dsf_usage(cmd).s, see(cmd));
    return DSFLOW_OK;
}

int dsf_cli_args_read(const struct dsf_cmd *cmd, int argc, char **argv,
                      struct dsf_cli_args *w, struct dsflow_err *err)
{
    int status;

    memset(w, 0, sizeof(*w));
    w->words = dsf_xcalloc((size_t)argc + 1, sizeof(*w->words));
    w->opts = dsf_xcalloc((size_t)argc + 1, sizeof(*w->opts));
    status = read_words(cmd, argc, argv, w, err);
    if (w->help)
        return status;
    for (unsigned i = 0; i < w->nopts && status == DSFLOW_OK; i++)
        status = check_value(w->opts[i].flag, w->opts[i].value, err);
    return status == DSFLOW_OK ? check_words(cmd, w, err) : status;
}

void dsf_cli_args_fini(struct dsf_cli_args *w)
{
    free(w->words);
    free(w->opts);
}

const char *dsf_flag_value(const struct dsf_cli_args *w, const char *name)
{
    for (unsigned i = w->nopts; i-- > 0;)
        if (strcmp(w->opts[i].flag->name, name) == 0)
            return w->opts[i].value;
    return NULL;
}

const char **dsf_flag_values(const struct dsf_cli_args *w, const char *name,
                             unsigned *n)
{
    const char **values = dsf_xcalloc(w->nopts + 1, sizeof(*values));

    *n = 0;
    for (unsigned i = 0; i < w->nopts; i++)
        if (strcmp(w->opts[i].flag->name, name) == 0)
            values[(*n)++] = w->opts[i].value;
    return values;
}

int dsf_flag_number(const struct dsf_cli_args *w, const char *name, double min,
                    double max, double *value, struct dsflow_err *err)
{
    const char *text = dsf_flag_value(w, name);
    char *end;
    double x;

    if (text == NULL)
        return DSFLOW_OK;
    x = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(x) || x < min || x > max)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--%s: %.60s: expected a number, %.10g to %.10g",
                           name, text, min, max);
    *value = x;
    return DSFLOW_OK;
}

int dsf_flag_whole(const struct dsf_cli_args *w, const char *name, int64_t min,
                   int64_t max, int64_t *value, struct dsflow_err *err)
{
    const char *text = dsf_flag_value(w, name);
    char *end;
    long long x;

    if (text == NULL)
        return DSFLOW_OK;
    errno = 0;
    x = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || x < min || x > max)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--%s: %.60s: expected a whole number, %lld to %lld",
                           name, text, (long long)min, (long long)max);
    *value = x;
    return DSFLOW_OK;
}
