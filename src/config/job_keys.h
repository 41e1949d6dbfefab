/* job_keys.h - the keys of each table of job.toml that dsflow itself has;
 * job_tables.c has the list of the tables, in the order of the manual. */
#ifndef DSF_CONFIG_JOB_KEYS_H
#define DSF_CONFIG_JOB_KEYS_H

#include "config/job.h"

#define MANY     1e9
#define NO_LIMIT 9e15

/* job_keys_model.c */
extern const struct dsflow_option dsf_model_options[];
extern const struct dsflow_option dsf_sparse_options[];
extern const struct dsflow_option dsf_activations_options[];

/* job_keys_training.c */
extern const struct dsflow_option dsf_main_options[];
extern const struct dsflow_option dsf_data_options[];
extern const struct dsflow_option dsf_batch_options[];
extern const struct dsflow_option dsf_optimizer_options[];
extern const struct dsflow_option dsf_schedule_options[];
extern const struct dsflow_option dsf_train_options[];

/* job_keys_results.c */
extern const struct dsflow_option dsf_validation_options[];
extern const struct dsflow_option dsf_checkpoint_options[];
extern const struct dsflow_option dsf_sample_options[];
extern const struct dsflow_option dsf_trace_options[];

/* job_keys_machine.c */
extern const struct dsflow_option dsf_memory_options[];
extern const struct dsflow_option dsf_nvme_options[];
extern const struct dsflow_option dsf_machine_options[];
extern const struct dsflow_option dsf_run_options[];
extern const struct dsflow_option dsf_codelets_options[];

/* Names that a value may be (option.h: names), from the lists of higher floors:
 * in tasks/sparsity.c, optimizers.c, lr_schedules.c, segments/replaced.c,
 * machine/schedulers.c. */
const char *dsf_job_sparsity_name(const struct dsflow_option *option,
                                  unsigned i);
const char *dsf_job_optimizer_name(const struct dsflow_option *option,
                                   unsigned i);
const char *dsf_job_schedule_name(const struct dsflow_option *option,
                                  unsigned i);
const char *dsf_job_segment_name(const struct dsflow_option *option,
                                 unsigned i);
const char *dsf_job_scheduler_name(const struct dsflow_option *option,
                                   unsigned i);

#endif
