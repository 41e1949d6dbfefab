/* log.h - lines for people. */
#ifndef DSF_BASE_LOG_H
#define DSF_BASE_LOG_H

#include <dsflow/log.h>

/* What is dropped is above this. */
enum dsflow_log_level dsf_log_level(void);

void dsf_warn(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
/* Of the job, which each of its processes reads: one says it. */
void dsf_warn_of_job(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
/* Another process says it. */
void dsf_log_without_job(void);
void dsf_info(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
void dsf_debug(const char *fmt, ...) DSFLOW_PRINTF(1, 2);

#endif
