/* bells.h - a bell for each process: it is rung by the process itself where a
 * message is posted, and by those of the same machine where one has been sent,
 * or received. So nobody looks at MPI again and again while nothing comes. */
#ifndef DSF_NET_BELLS_H
#define DSF_NET_BELLS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* All processes of comm call both. Returns what MPI says. */
int dsf_bells_open(MPI_Comm comm);
void dsf_bells_close(void);

/* Does it share memory with this process? */
bool dsf_bells_reach(int process);

/* By process: the first one that it shares memory with. */
const int32_t *dsf_bells_hosts(void);

void dsf_bells_ring(int process); /* nothing where it is out of reach */

/* How often that of this process was rung; and wait until it is rung once more
 * than heard, or for so long; 0: for as long as it takes. */
uint32_t dsf_bells_heard(void);
void dsf_bells_wait(uint32_t heard, long nanoseconds);

#endif
