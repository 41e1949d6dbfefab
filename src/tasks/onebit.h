/* onebit.h - what of 1-bit Adam and 1-bit LAMB the graph is built with. */
#ifndef DSF_TASKS_ONEBIT_H
#define DSF_TASKS_ONEBIT_H

#include <dsflow/option.h>

#include "tasks/args.h"

/* What errors are kept as: name and type. */
#define DSF_ONEBIT_ERRORS(X) X("fp32", DSFLOW_FP32) X("bf16", DSFLOW_BF16)
extern const char *const dsf_onebit_errors[]; /* their names, then NULL */

/* The table [onebit_adam] of a job. */
struct dsf_onebit_keys {
    int64_t freeze_step;
    int errors; /* position in DSF_ONEBIT_ERRORS */
};
extern const struct dsflow_option dsf_onebit_options[];

/* The table [onebit_lamb] of a job: it begins as the other. */
struct dsf_onebit_lamb_keys {
    int64_t freeze_step;
    int errors;
    double coeff_beta, max_coeff, min_coeff;
    double factor_max, factor_min, factor_threshold;
};
extern const struct dsflow_option dsf_onebit_lamb_options[];
int dsf_onebit_lamb_check_keys(const struct dsf_onebit_lamb_keys *k,
                               struct dsflow_err *err);

enum dsflow_dtype dsf_onebit_error_type(const struct dsf_onebit_keys *keys);

#endif
