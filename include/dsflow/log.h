/* log.h - lines for people: warnings, and what is done. The library prints none
 * of them itself. */
#ifndef DSFLOW_LOG_H
#define DSFLOW_LOG_H

#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

enum dsflow_log_level { DSFLOW_WARN, DSFLOW_INFO, DSFLOW_DEBUG };

/* Messages above `level` are dropped; DSFLOW_INFO is the default. */
DSFLOW_API void dsflow_log_level_set(enum dsflow_log_level level);

/* Where lines go; NULL, as at first: nowhere. */
typedef void (*dsflow_log_fn)(void *user, enum dsflow_log_level level,
                              const char *line);
DSFLOW_API void dsflow_log_sink_set(dsflow_log_fn fn, void *user);

DSFLOW_END_DECLS

#endif
