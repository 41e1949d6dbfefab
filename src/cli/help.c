/* help.c - what a command is, from its table. */
#include "cli/help.h"

#include "cli/words.h"
#include "cli/wrap.h"

#include <string.h>

struct dsf_usage dsf_usage(const struct dsf_cmd *cmd)
{
    struct dsf_usage u;

    snprintf(u.s, sizeof(u.s), "dsflow%s%s%s%s%s", cmd->outer ? "" : " ",
             cmd->outer ? "" : cmd->name,
             cmd->flags != NULL ? " [OPTION]…" : "",
             cmd->args[0] != '\0' ? " " : "", cmd->args);
    return u;
}

/* Where the help of a flag begins, and lines end. */
enum { HELP_COLUMN = 27, HELP_WIDTH = 80 };

static void print_flag(FILE *out, const struct dsf_flag *f)
{
    char letter[8] = "", left[64], first[80], blank[HELP_COLUMN + 1];

    if (f->letter != '\0')
        snprintf(letter, sizeof(letter), "-%c, ", f->letter);
    snprintf(left, sizeof(left), "%s--%s%s%s", letter, f->name,
             f->arg == NULL || f->arg[0] == '[' ? "" : " ",
             f->arg == NULL ? "" : f->arg);
    snprintf(blank, sizeof(blank), "%*s", HELP_COLUMN, "");
    snprintf(first, sizeof(first), "  %-*s ", HELP_COLUMN - 3, left);
    if (strlen(first) > HELP_COLUMN) { /* it has a line of its own */
        fprintf(out, "  %s\n", left);
        memcpy(first, blank, sizeof(blank));
    }
    dsf_wrap(out, HELP_WIDTH, first, blank, f->help);
}

static void print_cmds(FILE *out)
{
    fputc('\n', out);
    for (unsigned i = 0; dsf_cmds[i] != NULL; i++)
        fprintf(out, "  %-11s %s\n", dsf_cmds[i]->name, dsf_cmds[i]->summary);
}

void dsf_help_print(FILE *out, const struct dsf_cmd *cmd)
{
    const struct dsf_flag *f;

    fprintf(out, "usage: %s\n\n%s\n", dsf_usage(cmd).s, cmd->help);
    if (cmd->outer)
        print_cmds(out);
    fputc('\n', out);
    for (unsigned i = 0; (f = dsf_flag_at(cmd, i)) != NULL; i++)
        print_flag(out, f);
    if (cmd->outer)
        fputs("\ndsflow help COMMAND says more of a command; dsflow(1) and "
              "job.toml(5) are the manual.\n",
              out);
}
