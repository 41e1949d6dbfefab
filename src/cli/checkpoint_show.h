/* checkpoint_show.h - dsflow checkpoint show PATH. */
#ifndef DSF_CLI_CHECKPOINT_SHOW_H
#define DSF_CLI_CHECKPOINT_SHOW_H

#include "cli/cmd.h"

int dsf_checkpoint_show(const struct dsf_cli_args *args,
                        struct dsflow_err *err);

#endif
