/* cmd_table.c - the commands, in the order `dsflow --help` lists them. */
#include "cli/cmd.h"

#include "base/nearest.h"

#include <limits.h>
#include <string.h>

static const struct dsf_flag program_flags[] = {
    { "version", NULL, "print the version" },
    { 0 },
};

const struct dsf_cmd dsf_program = {
    .name = "dsflow",
    .args = "COMMAND …",
    .help = "Trains transformer language models as graphs of tasks that "
            "StarPU places.",
    .flags = program_flags,
    .most = UINT_MAX,
    .outer = true,
};

const struct dsf_cmd *const dsf_cmds[] = {
    &dsf_cmd_init,   &dsf_cmd_run,    &dsf_cmd_watch,    &dsf_cmd_plan,
    &dsf_cmd_eval,   &dsf_cmd_trace,  &dsf_cmd_generate, &dsf_cmd_checkpoint,
    &dsf_cmd_list,   &dsf_cmd_report, &dsf_cmd_bench,    &dsf_cmd_codelet,
    &dsf_cmd_import, &dsf_cmd_help,   &dsf_cmd_complete, NULL,
};

const struct dsf_cmd *dsf_cmd_find(const char *name, struct dsflow_err *err)
{
    const char *names[sizeof(dsf_cmds) / sizeof(*dsf_cmds)], *nearest;
    unsigned n;

    for (n = 0; dsf_cmds[n] != NULL; n++) {
        if (strcmp(dsf_cmds[n]->name, name) == 0)
            return dsf_cmds[n];
        names[n] = dsf_cmds[n]->name;
    }
    nearest = dsf_nearest(name, names, n);
    dsflow_fail(err, DSFLOW_EINVAL, "%.60s: unknown command%s%s", name,
                nearest != NULL ? "; did you mean " : "",
                nearest != NULL ? nearest : " (dsflow --help)");
    return NULL;
}
