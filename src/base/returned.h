/* returned.h - what functions that others have written return: a plug-in's
 * check or policy may return what is no status, or an error and no message. */
#ifndef DSF_BASE_RETURNED_H
#define DSF_BASE_RETURNED_H

#include <dsflow/error.h>

/* Before such a function is called: no message is in `err`, which may be NULL.
 */
void dsf_no_message(struct dsflow_err *err);

/* `status`, which the function `function` of `sort` `name` ("policy", "mine")
 * has returned; or DSFLOW_EINVAL, and a message that names it, where it is
 * above `most`. An error that has no message gets one. */
int dsf_returned(int status, int most, const char *sort, const char *name,
                 const char *function, struct dsflow_err *err);

#endif
