/* job_flags.h - flags that commands with a job share, and what they stand for.
 */
#ifndef DSF_CLI_JOB_FLAGS_H
#define DSF_CLI_JOB_FLAGS_H

#include "cli/cmd.h"
#include "train/resume.h"
#include "train/session.h"

#define DSF_FLAG_SET                                                           \
    {                                                                          \
        "set", "TABLE.KEY=VALUE",                                              \
            "set a key of the job, in place of what it says"                   \
    }
#define DSF_FLAG_EXECUTOR                                                      \
    {                                                                          \
        "executor", "starpu|serial", "starpu (default), or the reference"      \
    }

/* dsf_session_model with what --set and --steps say. */
int dsf_open_job(struct dsf_session *s, const char *path,
                 const struct dsf_cli_args *args, struct dsflow_err *err);

/* Is it a model for other programs, and no run? */
bool dsf_is_hf_folder(const char *path);

/* The same of a job, a run or a Hugging Face folder, whose model then is as it
 * starts: `step` becomes DSF_START, and must not be one of a run. */
int dsf_open_model(struct dsf_session *s, const char *path,
                   const struct dsf_cli_args *args, int64_t *step,
                   struct dsflow_err *err);

/* Ranks of the job that they are about; 0: it is not a sound one, or has
 * plug-ins, which are not loaded to find out. */
int64_t dsf_flag_ranks(const struct dsf_cli_args *args);

/* The executor that --executor names. */
enum dsflow_exec_kind dsf_flag_executor(const struct dsf_cli_args *args);

/* What --resume and --overwrite ask for. */
int dsf_flag_resume(const struct dsf_cli_args *args, struct dsf_resume *r,
                    struct dsflow_err *err);

/* The steps of --trace, which then are those of the job. `done`: steps that
 * were done before this run. */
int dsf_flag_trace(const struct dsf_cli_args *args, struct dsf_session *s,
                   int64_t done, struct dsflow_err *err);

#endif
