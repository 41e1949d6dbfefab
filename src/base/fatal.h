/* fatal.h - what ends the process: metadata that there is no memory for, and
 * what only a bug of ours can bring about. */
#ifndef DSF_BASE_FATAL_H
#define DSF_BASE_FATAL_H

#include <dsflow/export.h>

/* A line goes to the log, and the process is aborted. */
_Noreturn void dsf_fatal(const char *fmt, ...) DSFLOW_PRINTF(1, 2);

/* Call `fn` with the line instead; it does not return. */
void dsf_fatal_set(void (*fn)(const char *line));

#endif
