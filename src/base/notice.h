/* notice.h - what takes over a second says what it does. */
#ifndef DSF_BASE_NOTICE_H
#define DSF_BASE_NOTICE_H

#include <dsflow/error.h>

/* A stage begins: its line is logged once, if it does not end within a second.
 * A stage begins where the one before ends; it is of one thread of the program.
 */
void dsf_notice(const char *fmt, ...) DSFLOW_PRINTF(1, 2);
void dsf_notice_end(void);

/* Within so many seconds, from the next stage on. */
void dsf_notice_after(double seconds);

#endif
