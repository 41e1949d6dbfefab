/* plan_layout.h - the layout of sparse attention, for `dsflow plan --layout`.
 */
#ifndef DSF_CLI_PLAN_LAYOUT_H
#define DSF_CLI_PLAN_LAYOUT_H

#include "train/session.h"

/* Print that of a head of the first layer that has it, and its density. `head`
 * as on the command line, or "": 0. */
int dsf_plan_layout(const struct dsf_session *s, const char *head,
                    struct dsflow_err *err);

#endif
