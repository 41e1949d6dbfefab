/* main.c - the command line of dsflow. */
#include "config.h"

#include "base/log.h"
#include "base/notice.h"
#include "cli/stop.h"
#include "cli/words.h"
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

static void print_help(FILE *out)
{
    fprintf(out, "usage: dsflow [-q|-v] COMMAND …\n\n"
                 "Trains transformer language models as graphs of tasks that "
                 "StarPU places.\n\n");
    for (unsigned i = 0; dsf_cmds[i] != NULL; i++)
        fprintf(out, "  %-11s %s\n", dsf_cmds[i]->name, dsf_cmds[i]->summary);
    fprintf(out, "\n"
                 "  -q          warnings and errors only\n"
                 "  -v          say more\n"
                 "  --version   print the version\n\n"
                 "dsflow COMMAND --help says more of a command; dsflow(1) and "
                 "job.toml(5) are the manual.\n");
}

/* Where the help of a flag begins, and lines end. */
enum { HELP_COLUMN = 27, HELP_WIDTH = 80 };

static void print_wrapped(const char *text)
{
    size_t at = HELP_COLUMN;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (at > HELP_COLUMN && at + 1 + n > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        at +=
            (size_t)printf("%s%.*s", at > HELP_COLUMN ? " " : "", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    putchar('\n');
}

static void print_cmd_help(const struct dsf_cmd *cmd)
{
    printf("usage: dsflow %s%s%s\n\n%s\n", cmd->name,
           cmd->args[0] != '\0' ? " " : "", cmd->args, cmd->help);
    if (cmd->flags->name != NULL)
        printf("\n");
    for (const struct dsf_flag *f = cmd->flags; f->name != NULL; f++) {
        char left[64];

        snprintf(left, sizeof(left), "--%s%s%s", f->name,
                 f->arg == NULL || f->arg[0] == '[' ? "" : " ",
                 f->arg == NULL ? "" : f->arg);
        if (strlen(left) > HELP_COLUMN - 3)
            printf("  %s\n%*s", left, HELP_COLUMN, "");
        else
            printf("  %-*s ", HELP_COLUMN - 3, left);
        print_wrapped(f->help);
    }
}

static int find_cmd(const char *name, const struct dsf_cmd **cmd,
                    struct dsflow_err *err)
{
    const char *names[32], *nearest;
    unsigned n;

    for (n = 0; dsf_cmds[n] != NULL; n++) {
        if (strcmp(dsf_cmds[n]->name, name) == 0) {
            *cmd = dsf_cmds[n];
            return DSFLOW_OK;
        }
        names[n] = dsf_cmds[n]->name;
    }
    nearest = dsf_nearest(name, names, n);
    return dsflow_fail(err, DSFLOW_EINVAL, "%.60s: unknown command%s%s", name,
                       nearest != NULL ? "; did you mean " : "",
                       nearest != NULL ? nearest : " (dsflow --help)");
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_cmd(int argc, char **argv, struct dsflow_err *err)
{
    const struct dsf_cmd *cmd = NULL;
    struct dsf_cli_args args;
    bool help = strcmp(argv[0], "help") == 0; /* as people try it */
    int status;

    if (help && argc == 1) {
        print_help(stdout);
        return DSFLOW_OK;
    }
    status = find_cmd(argv[help ? 1 : 0], &cmd, err);
    if (status < 0)
        return status;
    if (help || wants_help(argc - 1, argv + 1)) {
        print_cmd_help(cmd);
        return DSFLOW_OK;
    }
    status = dsf_cli_args_read(cmd, argc - 1, argv + 1, &args, err);
    if (status == DSFLOW_OK)
        status = cmd->run(&args, err);
    dsf_notice_end();
    dsf_cli_args_fini(&args);
    return status;
}

int main(int argc, char **argv)
{
    struct dsflow_err err = { 0 };
    int i = 1, status;

    /* Where /sys is not mounted, hwloc would say so at each look. */
    setenv("HWLOC_HIDE_ERRORS", "2", 0);
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-q") == 0) {
            dsflow_log_level_set(DSFLOW_WARN);
        } else if (strcmp(argv[i], "-v") == 0) {
            dsflow_log_level_set(DSFLOW_DEBUG);
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("dsflow %s\n", PACKAGE_VERSION);
            return 0;
        } else if (strcmp(argv[i], "--help") == 0 ||
                   strcmp(argv[i], "-h") == 0) {
            print_help(stdout);
            return 0;
        } else {
            dsflow_fail(&err, DSFLOW_EINVAL,
                        "%.60s: unknown option (dsflow --help)", argv[i]);
            fprintf(stderr, "dsflow: %s\n", err.msg);
            return 2;
        }
    }
    if (i == argc) {
        print_help(stderr);
        return 2;
    }
    dsf_stop_catch();
    status = run_cmd(argc - i, argv + i, &err);
    if (status < 0) {
        fprintf(stderr, "dsflow: %s\n", err.msg);
        return dsflow_status_exit(status);
    }
    if (status == 0 && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "dsflow: standard output cannot be written\n");
        return 1;
    }
    return status;
}
