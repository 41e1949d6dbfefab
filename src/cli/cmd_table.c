/* cmd_table.c - the commands, in the order `dsflow --help` lists them. */
#include "cli/cmd.h"

#include <stddef.h>

const struct dsf_cmd *const dsf_cmds[] = {
    &dsf_cmd_init, &dsf_cmd_run,    &dsf_cmd_watch,    &dsf_cmd_plan,
    &dsf_cmd_eval, &dsf_cmd_trace,  &dsf_cmd_generate, &dsf_cmd_checkpoint,
    &dsf_cmd_list, &dsf_cmd_report, &dsf_cmd_bench,    &dsf_cmd_codelet,
    NULL,
};
