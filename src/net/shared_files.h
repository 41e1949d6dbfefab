/* shared_files.h - the files by which MPI shares memory between the processes
 * of a machine. Whoever is killed would leave them in /dev/shm. */
#ifndef DSF_NET_SHARED_FILES_H
#define DSF_NET_SHARED_FILES_H

#include <mpi.h>

/* Before MPI_Init: what of this job has a name when this process ends loses it,
 * until dsf_shared_files_unlink has returned. Where no other process can be
 * started for that, it stays. */
void dsf_shared_files_guard(void);

/* All processes of comm call it: all of them have the memory from then on, and
 * no name of it is left. Returns what MPI says. */
int dsf_shared_files_unlink(MPI_Comm comm);

/* All processes of comm call it, before MPI_Finalize, which complains where a
 * name that it removes is not there: it finds empty files. Who is killed there
 * leaves one. */
void dsf_shared_files_end(MPI_Comm comm);

#endif
