/* net.h - the other processes of a job. */
#ifndef DSF_NET_NET_H
#define DSF_NET_NET_H

#include "net/wire.h"

/* Was this process started as one of several, by mpirun or srun? */
bool dsf_net_is_one_of_several(void);

/* Was it started by one of these at all, if alone? */
bool dsf_net_is_inside(void);

/* Join them: the wire to them, until dsf_net_close. Once in a process.
 * DSFLOW_ENOSYS: MPI is not there, and why; DSFLOW_EINVAL: srun started it
 * without PMIx, or, in process 0, another one is of another dsflow. */
int dsf_net_open(struct dsf_wire **wire, struct dsflow_err *err);

/* When all that was posted has ended, in all of them; it waits for them. */
int dsf_net_close(struct dsflow_err *err);

/* "Open MPI v4.1.4"; NULL: there is no MPI. */
const char *dsf_net_version(struct dsflow_err *err);

#endif
