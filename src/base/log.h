/* log.h - lines for people, on standard error. */
#ifndef DSF_BASE_LOG_H
#define DSF_BASE_LOG_H

#include <dsflow/log.h>

void dsf_warn(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
void dsf_info(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
void dsf_debug(const char *fmt, ...) DSFLOW_PRINTF(1, 2);

#endif
