/* pass.h - one message, and wait for its end. */
#ifndef DSF_NET_PASS_H
#define DSF_NET_PASS_H

#include "net/wire.h"

/* To (`out`) or from a process. DSFLOW_EIO: it did not get there. */
int dsf_pass(struct dsf_wire *wire, bool out, int32_t process, uint32_t tag,
             void *memory, size_t bytes, struct dsflow_err *err);

#endif
