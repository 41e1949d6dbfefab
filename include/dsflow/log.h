/* log.h - lines on standard error. The library itself prints at debug only. */
#ifndef DSFLOW_LOG_H
#define DSFLOW_LOG_H

#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

enum dsflow_log_level { DSFLOW_WARN, DSFLOW_INFO, DSFLOW_DEBUG };

/* Messages above `level` are dropped; DSFLOW_INFO is the default. */
DSFLOW_API void dsflow_log_level_set(enum dsflow_log_level level);

/* Where lines go instead of standard error; NULL restores it. */
typedef void (*dsflow_log_fn)(void *user, enum dsflow_log_level level,
                              const char *line);
DSFLOW_API void dsflow_log_sink_set(dsflow_log_fn fn, void *user);

DSFLOW_END_DECLS

#endif
