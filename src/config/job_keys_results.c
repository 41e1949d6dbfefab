/* job_keys_results.c - the keys of job.toml that say what a run measures,
 * writes and keeps. */
#include "config/job_keys.h"

/* Conditions that several keys have. */
#define VALIDATES "data.validation > 0 or data.validation_files != []"
#define SAMPLES   "sample.tokens >= 1"
#define CHOOSES   SAMPLES " and sample.temperature > 0"

#define VALIDATION struct dsf_job_validation
const struct dsflow_option dsf_validation_options[] = {
    DSFLOW_OPTION_INT(VALIDATION, every, "0", 0, MANY,
                      "steps between validations; 0: at the end only",
                      VALIDATES),
    DSFLOW_OPTION_AUTO(VALIDATION, sequences, "\"auto\"", 1, MANY,
                       "of the validation text used each time; auto: all",
                       VALIDATES),
    { 0 },
};

#define CHECKPOINT struct dsf_job_checkpoint
const struct dsflow_option dsf_checkpoint_options[] = {
    DSFLOW_OPTION_NUMBER(DSFLOW_EVERY, CHECKPOINT, every, "0", 0, MANY,
                         "steps between checkpoints, or the time after which "
                         "the next is saved, \"30min\"; 0: at the end only"),
    DSFLOW_OPTION_INT(CHECKPOINT, keep, "2", 0, MANY,
                      "newest ones that are kept; 0: all",
                      "checkpoint.every != 0 or checkpoint.at_end = true"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, CHECKPOINT, at_end, "true",
                     "save when the last step is done"),
    { 0 },
};

#define SAMPLE struct dsf_job_sample
const struct dsflow_option dsf_sample_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, SAMPLE, prompt, "\"\\n\"",
                     "text the sample begins with", SAMPLES),
    DSFLOW_OPTION_INT(SAMPLE, tokens, "0", 0, 1048576,
                      "tokens printed when the run ends; 0: none"),
    DSFLOW_OPTION_FLOAT(SAMPLE, temperature, "0.8", 0, 100,
                        "0: always the likeliest token", SAMPLES),
    DSFLOW_OPTION_FLOAT(SAMPLE, top_p, "1.0", 0, 1,
                        "choose among the likeliest tokens of this share",
                        CHOOSES),
    DSFLOW_OPTION_INT(SAMPLE, top_k, "0", 0, 4194304,
                      "choose among so many tokens; 0: all", CHOOSES),
    DSFLOW_OPTION_INT(SAMPLE, seed, "1", 0, NO_LIMIT, "of the choices",
                      CHOOSES),
    { 0 },
};

#define TRACE struct dsf_job_trace
const struct dsflow_option dsf_trace_options[] = {
    DSFLOW_OPTION_NUMBER(DSFLOW_INTS, TRACE, steps, "[]", 1, MANY,
                         "[first, last]: of these steps every task and every "
                         "transfer is kept, for dsflow trace; empty: of none"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, TRACE, tensorboard, "true",
                     "write the curves of the run for TensorBoard too: half a "
                     "kilobyte a step"),
    { 0 },
};
