/* cmd_complete.c - what may stand for the last of some words, for shells. */
#include "cli/words.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "policies/policies.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The word that is completed, of which `typed` stands there already: `before`,
 * "--set=", is put in front of what is offered. */
struct place {
    const char *before, *typed;
    size_t nbefore;
};

/* One more word, if it begins as typed; `behind` is not compared. */
static void offer(const struct place *p, const char *word, size_t n,
                  const char *behind)
{
    size_t typed = strlen(p->typed);

    if (typed <= n && strncmp(word, p->typed, typed) == 0)
        printf("%.*s%.*s%s\n", (int)p->nbefore, p->before, (int)n, word,
               behind);
}

static void offer_commands(const struct place *p)
{
    for (unsigned i = 0; dsf_cmds[i] != NULL; i++)
        offer(p, dsf_cmds[i]->name, strlen(dsf_cmds[i]->name), "");
}

static void offer_policies(const struct place *p)
{
    const struct dsflow_policy *policy;

    for (unsigned i = 0; (policy = dsflow_policy_at(i)) != NULL; i++)
        offer(p, policy->name, strlen(policy->name), "");
}

static void offer_tables(const struct place *p)
{
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        offer(p, t->name, strlen(t->name), "");
}

/* Every "table.key", with `behind` after it. */
static void offer_each_key(const struct place *p, const char *behind)
{
    for (struct dsf_table_key k = { 0 }; dsf_job_next_key(&k);) {
        struct dsf_key_name name = dsf_key_name(&k);

        offer(p, name.s, strlen(name.s), behind);
    }
}

static void offer_keys(const struct place *p)
{
    offer_each_key(p, "");
}

/* The option of "table.key"; NULL where there is none. */
static const struct dsflow_option *find_key(const char *name, size_t n)
{
    for (struct dsf_table_key k = { 0 }; dsf_job_next_key(&k);) {
        struct dsf_key_name own = dsf_key_name(&k);

        if (strlen(own.s) == n && strncmp(own.s, name, n) == 0)
            return k.option;
    }
    return NULL;
}

/* "table.key=", or what stands behind it. */
static void offer_settings(const struct place *p)
{
    size_t n = strcspn(p->typed, "=");
    const struct dsflow_option *o = find_key(p->typed, n);
    char *before;
    const char *word;

    if (p->typed[n] != '=') {
        offer_each_key(p, "=");
        return;
    }
    before = dsf_xasprintf("%.*s%.*s", (int)p->nbefore, p->before, (int)n + 1,
                           p->typed);
    for (unsigned i = 0; o != NULL && (word = dsf_option_word(o, i)) != NULL;
         i++)
        offer(&(struct place){ before, p->typed + n + 1, strlen(before) }, word,
              strlen(word), "");
    free(before);
}

/* Words of usage lines that stand for something that is known. */
static const struct {
    const char *name;
    void (*offer)(const struct place *p);
} known[] = {
    { "TABLE.KEY=VALUE", offer_settings },
    { "COMMAND", offer_commands },
    { "POLICY", offer_policies },
    { "TABLE", offer_tables },
    { "KEY", offer_keys },
};

/* A word of a usage line: itself where it is to be typed so, or what it stands
 * for. */
static void offer_word(const struct place *p, const char *word, size_t n)
{
    if (dsf_is_fixed(word, n))
        offer(p, word, n, "");
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strlen(known[i].name) == n && strncmp(known[i].name, word, n) == 0)
            known[i].offer(p);
}

static void offer_alternatives(const struct place *p, const char *at)
{
    const char *word;
    size_t n;

    while ((word = dsf_next_alternative(&at, &n)) != NULL)
        offer_word(p, word, n);
}

static void offer_flags(const struct place *p, const struct dsf_cmd *cmd)
{
    const struct dsf_flag *f;

    for (unsigned i = 0; (f = dsf_flag_at(cmd, i)) != NULL; i++) {
        char *name = dsf_xasprintf("--%s", f->name);

        offer(p, name, strlen(name), "");
        free(name);
    }
}

/* May this word stand where a usage line has "a|b" or "FILE"? */
static bool is_among(const char *at, const char *word)
{
    const char *each;
    size_t n;

    while ((each = dsf_next_alternative(&at, &n)) != NULL)
        if (!dsf_is_fixed(each, n) ||
            (strlen(word) == n && strncmp(each, word, n) == 0))
            return true;
    return false;
}

/* The next word of a usage line, "RUN" or "[gemm]"; NULL where the alternative
 * ends. Freed by the caller. */
static char *next_part(const char **usage)
{
    const char *part = *usage + strspn(*usage, " ");
    size_t n = strcspn(part, " ");

    if (n == 0 || *part == '|')
        return NULL;
    *usage = part + n;
    return dsf_xstrndup(part, n);
}

/* Is the word one of what the alternative has in brackets? */
static bool is_optional(const char *usage, const char *word)
{
    bool is = false;
    char *part;

    while (!is && (part = next_part(&usage)) != NULL) {
        is = part[0] == '[' && is_among(part, word);
        free(part);
    }
    return is;
}

/* Do the words go with an alternative of a usage line, "export RUN FOLDER"? */
static bool go_with(const char *usage, const char *const *words,
                    unsigned nwords)
{
    const char *whole = usage;
    bool go = true;
    unsigned at = 0;
    char *part;

    while (go && (part = next_part(&usage)) != NULL) {
        if (part[0] != '[' && at < nwords)
            go = is_among(part, words[at++]);
        free(part);
    }
    while (go && at < nwords)
        go = is_optional(whole, words[at++]);
    return go;
}

/* What a usage line has at place `nwords`, behind words that go with it:
 * "list RUN | export RUN FOLDER", where what is in brackets may come later. */
static void offer_positional(const struct place *p, const char *usage,
                             const char *const *words, unsigned nwords)
{
    while (*usage != '\0') {
        bool goes = go_with(usage, words, nwords);
        unsigned at = 0;
        char *part;

        while ((part = next_part(&usage)) != NULL) {
            bool open = part[0] == '[';

            if (goes && (open ? nwords >= at : nwords == at))
                offer_alternatives(p, part);
            at += !open;
            free(part);
        }
        usage += strspn(usage, " |");
    }
}

/* The flag whose value is the next word; NULL: it is none, or has it. */
static const struct dsf_flag *awaited(const struct dsf_cmd *cmd,
                                      const char *word)
{
    const struct dsf_flag *f =
        strchr(word, '=') == NULL
            ? dsf_flag_find(cmd, word + 2, strlen(word + 2))
            : NULL;

    return f != NULL && f->arg != NULL && f->arg[0] != '[' ? f : NULL;
}

/* The last of the words is completed; `words` is used up. */
static void complete_words(const struct dsf_cmd *cmd, const char **words,
                           unsigned n)
{
    struct place p = { "", words[n - 1], 0 };
    const struct dsf_flag *flag = NULL;
    const char *equals = strchr(p.typed, '=');
    unsigned nplain = 0;
    bool flags = true;

    for (unsigned i = 0; i + 1 < n; i++) {
        if (flag != NULL)
            flag = NULL;
        else if (flags && strcmp(words[i], "--") == 0)
            flags = false;
        else if (flags && strncmp(words[i], "--", 2) == 0)
            flag = awaited(cmd, words[i]);
        else if (!flags || words[i][0] != '-')
            words[nplain++] = words[i];
    }
    if (flag == NULL && flags && equals != NULL &&
        strncmp(p.typed, "--", 2) == 0) {
        flag = dsf_flag_find(cmd, p.typed + 2, (size_t)(equals - p.typed) - 2);
        p = (struct place){ p.typed, equals + 1,
                            (size_t)(equals - p.typed) + 1 };
        if (flag == NULL)
            return;
    }
    if (flag != NULL && flag->arg != NULL)
        offer_alternatives(&p, flag->arg);
    else if (flags && p.typed[0] == '-')
        offer_flags(&p, cmd);
    else
        offer_positional(&p, cmd->args, words, nplain);
}

static int complete(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const struct dsf_cmd *cmd;
    unsigned i = 0;

    while (i + 1 < args->nwords && args->words[i][0] == '-')
        i++;
    cmd = i + 1 < args->nwords ? dsf_cmd_find(args->words[i++], NULL)
                               : &dsf_program;
    if (cmd != NULL)
        complete_words(cmd, args->words + i, args->nwords - i);
    return DSFLOW_OK;
}

const struct dsf_cmd dsf_cmd_complete = {
    .name = "complete",
    .args = "-- WORD…",
    .summary = "what may stand for the last of these words, for shells",
    .help = "Prints, one on a line, what begins as the last WORD does and may\n"
            "stand in its place behind the others: commands, options, keys of\n"
            "a job and their values. A WORD may be empty. Completion for bash\n"
            "asks this, and takes files where nothing is printed.",
    .least = 1,
    .most = UINT_MAX,
    .may_be_empty = true,
    .run = complete,
};
