/* cmd.h - a command of dsflow, and what commands share. */
#ifndef DSF_CLI_CMD_H
#define DSF_CLI_CMD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <dsflow/error.h>

/* A word such as --set KEY=VALUE. */
struct dsf_flag {
    const char *name; /* "set", without the dashes */
    /* Its value, as in a usage line; NULL: it takes none; "[=VALUE]": it may.
     * Words in small letters, "fp32|bf16", are all that is accepted. What is in
     * capitals is checked by the command. */
    const char *arg;
    const char *help;
    char letter; /* 'q': also -q; 'n' of one with a value: also -n VALUE */
};

/* What stood after the command's name, without what every command takes. */
struct dsf_cli_args {
    const char **words; /* that are no flags */
    unsigned nwords;
    struct dsf_cli_opt {
        const struct dsf_flag *flag;
        const char *value; /* "" when there is none */
    } * opts;
    unsigned nopts;
    bool help;     /* --help: then nothing else was looked at */
    char loudness; /* 'q' quiet, 'v' verbose; 0: not said */
};

struct dsf_cmd {
    const char *name, *summary;
    const char *args; /* words that are no flags, as in a usage line: what is in
                         small letters stands there as it is */
    const char *help; /* a paragraph or more, after the usage line */
    const struct dsf_flag *flags; /* ends with a NULL name; NULL: there are none */
    unsigned least, most;         /* words that are no flags */
    bool outer; /* behind its first word come the words of another command */
    bool may_be_empty; /* words: otherwise "" is refused, which names nothing */
    /* Returns DSFLOW_OK, a negative status with `err`, or an exit status
     * above 0 when everything was said. */
    int (*run)(const struct dsf_cli_args *args, struct dsflow_err *err);
};

/* The last value of a flag; NULL when it was not given. */
const char *dsf_flag_value(const struct dsf_cli_args *args, const char *name);

/* Every value of a flag, in order; the array is freed by the caller. */
const char **dsf_flag_values(const struct dsf_cli_args *args, const char *name,
                             unsigned *n);

/* The value of a flag as a number in [min, max]; *value stays without one. */
int dsf_flag_number(const struct dsf_cli_args *args, const char *name,
                    double min, double max, double *value,
                    struct dsflow_err *err);

/* The same of a whole number. */
int dsf_flag_whole(const struct dsf_cli_args *args, const char *name,
                   int64_t min, int64_t max, int64_t *value,
                   struct dsflow_err *err);

extern const struct dsf_cmd dsf_cmd_init, dsf_cmd_run, dsf_cmd_plan,
    dsf_cmd_eval, dsf_cmd_generate, dsf_cmd_checkpoint, dsf_cmd_list,
    dsf_cmd_report, dsf_cmd_bench, dsf_cmd_trace, dsf_cmd_watch,
    dsf_cmd_codelet, dsf_cmd_import, dsf_cmd_help, dsf_cmd_complete;

extern const struct dsf_cmd *const dsf_cmds[]; /* ends with NULL */
extern const struct dsf_cmd dsf_program;       /* dsflow itself */

/* Where the machine file of dsflow bench goes, known before anything is
 * measured: --output, or `cached` (NULL: nowhere), which this takes. Freed by
 * the caller, also on an error. */
int dsf_bench_output(const struct dsf_cli_args *args, char *cached, char **path,
                     struct dsflow_err *err);
/* `dsflow bench gpu`: bench_gpu.c. */
int dsf_bench_gpu(const struct dsf_cli_args *args, struct dsflow_err *err);
/* `dsflow bench link -n N`, or what mpirun started of it: bench_link.c. */
bool dsf_bench_link_is_asked(const struct dsf_cli_args *args);
int dsf_bench_link(const struct dsf_cli_args *args, struct dsflow_err *err);
/* `dsflow bench io FOLDER…`: bench_io.c. */
int dsf_bench_io(const struct dsf_cli_args *args, struct dsflow_err *err);

/* `dsflow checkpoint show PATH`, `export RUN FOLDER` and `import FOLDER JOB`:
 * checkpoint_show.c, checkpoint_export.c, checkpoint_import.c. */
int dsf_checkpoint_show(const struct dsf_cli_args *args,
                        struct dsflow_err *err);
int dsf_checkpoint_export(const struct dsf_cli_args *args,
                          struct dsflow_err *err);
int dsf_checkpoint_import(const struct dsf_cli_args *args,
                          struct dsflow_err *err);

/* The command of this name; NULL, with a message, where there is none. */
const struct dsf_cmd *dsf_cmd_find(const char *name, struct dsflow_err *err);

#endif
