/* same_version.h - whether all processes are of one dsflow. */
#ifndef DSF_NET_SAME_VERSION_H
#define DSF_NET_SAME_VERSION_H

#include "net/wire.h"

/* Before they say anything else to each other; in all of them. DSFLOW_EINVAL,
 * in process 0: another one has another version than this. Those wait for their
 * end then, as they would for a word of it. */
int dsf_same_version(struct dsf_wire *wire, const char *version,
                     struct dsflow_err *err);

#endif
