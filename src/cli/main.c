/* main.c - the command line of dsflow. */
#include "config.h"

#include "base/fatal.h"
#include "base/notice.h"
#include "cli/crash.h"
#include "cli/help.h"
#include "cli/progress.h"
#include "cli/stop.h"
#include "cli/words.h"
#include "kernels/kernels.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* What every command takes. */
static void apply(const struct dsf_cli_args *args)
{
    if (args->loudness != '\0')
        dsflow_log_level_set(args->loudness == 'q' ? DSFLOW_WARN
                                                   : DSFLOW_DEBUG);
}

/* A wish that cannot be met is said before anything is done. */
static int run_here(const struct dsf_cmd *cmd, const struct dsf_cli_args *args,
                    struct dsflow_err *err)
{
    int status = dsf_kernels_said(err);

    return status == DSFLOW_OK ? cmd->run(args, err) : status;
}

static int run_cmd(int argc, char **argv, struct dsflow_err *err)
{
    const struct dsf_cmd *cmd = dsf_cmd_find(argv[0], err);
    struct dsf_cli_args args;
    int status;

    if (cmd == NULL)
        return DSFLOW_EINVAL;
    status = dsf_cli_args_read(cmd, argc, argv, &args, err);
    apply(&args);
    if (status == DSFLOW_OK && args.help)
        dsf_help_print(stdout, cmd);
    else if (status == DSFLOW_OK)
        status = run_here(cmd, &args, err);
    dsf_notice_end();
    dsf_cli_args_fini(&args);
    return status;
}

/* An exit status above 0 when everything was said. */
static int run(int argc, char **argv, struct dsflow_err *err)
{
    struct dsf_cli_args args;
    int status = dsf_cli_args_read(&dsf_program, argc, argv, &args, err);

    apply(&args);
    if (status == DSFLOW_OK && args.help) {
        dsf_help_print(stdout, &dsf_program);
    } else if (status == DSFLOW_OK && dsf_flag_value(&args, "version")) {
        printf("dsflow %s\n", PACKAGE_VERSION);
    } else if (status == DSFLOW_OK && args.nwords == 0) {
        dsf_help_print(stderr, &dsf_program);
        status = 2;
    } else if (status == DSFLOW_OK) {
        dsf_stop_catch();
        dsf_crash_catch();
        status = run_cmd((int)args.nwords, argv + argc - args.nwords, err);
    }
    dsf_cli_args_fini(&args);
    return status;
}

/* There is no memory for metadata, or a bug of ours. */
static void end_at_once(const char *line)
{
    fprintf(stderr, "dsflow: %s\n", line);
    exit(1);
}

/* Those that are closed: the next files would take their places, and have in
 * them what is said. */
static void open_standard_files(void)
{
    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct dsflow_err err = { 0 };
    int status;

    open_standard_files();
    /* A write that meets a limit (ulimit -f) is an error of that write. */
    signal(SIGXFSZ, SIG_IGN);
    dsflow_log_sink_set(dsf_print_log, NULL);
    dsf_fatal_set(end_at_once);
    /* Where /sys is not mounted, hwloc would say so at each look. */
    setenv("HWLOC_HIDE_ERRORS", "2", 0);
    /* Nor need it ask ten X servers for GPUs, whose host it may have to ask
     * for, too. */
    setenv("HWLOC_COMPONENTS", "-gl", 0);
    /* Where MPI goes over UCX, that would take SIGHUP for its log, and those of
     * crashes. */
    setenv("UCX_DEBUG_SIGNO", "0", 0);
    setenv("UCX_ERROR_SIGNALS", "", 0);
    status = run(argc, argv, &err);
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
