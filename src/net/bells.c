/* bells.c - counters in memory that the processes of a machine share, with a
 * futex for who waits. */
#include "net/bells.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Each is in a page that MPI gives, alone. */
static struct {
    MPI_Win window;
    _Atomic uint32_t **of; /* of each process; NULL: out of reach */
    _Atomic uint32_t *own;
    int32_t *hosts;
} bells = { .window = MPI_WIN_NULL };

/* Those of comm are to be in its order. */
static int find(MPI_Comm comm, MPI_Comm near)
{
    MPI_Group group, all;
    int n, nprocesses, error;

    MPI_Comm_size(near, &n);
    MPI_Comm_size(comm, &nprocesses);
    bells.of = calloc((size_t)nprocesses, sizeof(*bells.of));
    if (bells.of == NULL)
        return MPI_ERR_NO_MEM;
    MPI_Comm_group(near, &group);
    MPI_Comm_group(comm, &all);
    for (int i = 0; i < n; i++) {
        MPI_Aint bytes;
        void *at;
        int unit, process;

        error = MPI_Win_shared_query(bells.window, i, &bytes, &unit, &at);
        if (error != MPI_SUCCESS)
            return error;
        MPI_Group_translate_ranks(group, 1, &i, all, &process);
        bells.of[process] = at;
    }
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    return MPI_SUCCESS;
}

static int find_hosts(MPI_Comm comm)
{
    int nprocesses;
    int32_t first = 0;

    MPI_Comm_size(comm, &nprocesses);
    bells.hosts = calloc((size_t)nprocesses, sizeof(*bells.hosts));
    if (bells.hosts == NULL)
        return MPI_ERR_NO_MEM;
    while (bells.of[first] == NULL)
        first++;
    return MPI_Allgather(&first, 1, MPI_INT32_T, bells.hosts, 1, MPI_INT32_T,
                         comm);
}

int dsf_bells_open(MPI_Comm comm)
{
    MPI_Comm near;
    MPI_Info apart;
    void *own;
    int rank, error;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
    MPI_Info_create(&apart);
    MPI_Info_set(apart, "alloc_shared_noncontig", "true");
    error = MPI_Win_allocate_shared(sizeof(*bells.own), 1, apart, near, &own,
                                    &bells.window);
    MPI_Info_free(&apart);
    if (error == MPI_SUCCESS) {
        bells.own = own;
        atomic_init(bells.own, 0);
        error = find(comm, near);
    }
    if (error == MPI_SUCCESS)
        error = find_hosts(comm);
    if (error == MPI_SUCCESS)
        error = MPI_Barrier(near); /* nobody rings one that is not there */
    MPI_Comm_free(&near);
    return error;
}

void dsf_bells_close(void)
{
    MPI_Win_free(&bells.window);
    free(bells.of);
    free(bells.hosts);
}

bool dsf_bells_reach(int process)
{
    return bells.of[process] != NULL;
}

const int32_t *dsf_bells_hosts(void)
{
    return bells.hosts;
}

void dsf_bells_ring(int process)
{
    _Atomic uint32_t *bell = bells.of[process];

    if (bell == NULL)
        return;
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t dsf_bells_heard(void)
{
    return atomic_load(bells.own);
}

void dsf_bells_wait(uint32_t heard, long nanoseconds)
{
    const struct timespec t = { nanoseconds / 1000000000,
                                nanoseconds % 1000000000 };

    syscall(SYS_futex, bells.own, FUTEX_WAIT, heard,
            nanoseconds > 0 ? &t : NULL, NULL, 0);
}
