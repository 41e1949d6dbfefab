/* near_wire.h - what carries messages between executors of one program, as if
 * each were in a process of its own. What is sent is copied, so nobody who
 * sends waits. */
#ifndef DSF_TESTS_LIB_NEAR_WIRE_H
#define DSF_TESTS_LIB_NEAR_WIRE_H

#include "net/wire.h"

/* `n` wires that reach each other; close them when all executors are closed.
 * Returns how many messages came to nobody, or were waited for in vain. */
struct near_wire;
struct near_wire *near_wires_new(int32_t n);
struct dsf_wire *near_wire(struct near_wire *wires, int32_t process);
unsigned near_wires_free(struct near_wire *wires);

#endif
