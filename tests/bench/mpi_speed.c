/* mpi_speed.c - what MPI itself carries between two processes, for links.sh: MB/s
 * one way, and each way where both are at it, in messages as bench link sends. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 4, BYTES = 4 << 20 };

/* One round: four messages out, in, or both. */
static void exchange(char *out, char *in, int sends, int receives)
{
    MPI_Request all[2 * BLOCKS];
    int rank, n = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < BLOCKS; i++) {
        size_t at = (size_t)i * BYTES;

        if (receives)
            MPI_Irecv(in + at, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                      &all[n++]);
        if (sends)
            MPI_Isend(out + at, BYTES, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                      &all[n++]);
    }
    MPI_Waitall(n, all, MPI_STATUSES_IGNORE);
}

/* For about a second, after rounds that say how many that is. */
static double rate(char *out, char *in, int both)
{
    int rank, rounds = 2;
    double from, seconds = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int again = 0; again < 2; again++) {
        MPI_Barrier(MPI_COMM_WORLD);
        from = MPI_Wtime();
        for (int i = 0; i < rounds; i++)
            exchange(out, in, both || rank == 0, both || rank == 1);
        MPI_Barrier(MPI_COMM_WORLD);
        seconds = MPI_Wtime() - from;
        if (again == 0)
            rounds = seconds < 1 ? (int)(rounds / seconds) : rounds;
        MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return (double)rounds * BLOCKS * BYTES / seconds * 1e-6;
}

int main(int argc, char **argv)
{
    char *out = malloc((size_t)BLOCKS * BYTES), *in;
    double one, both;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    in = malloc((size_t)BLOCKS * BYTES);
    memset(out, 1, (size_t)BLOCKS * BYTES);
    memset(in, 1, (size_t)BLOCKS * BYTES);
    one = rate(out, in, 0);
    both = rate(out, in, 1);
    if (rank == 0)
        printf("%.1f %.1f\n", one, both);
    free(out);
    free(in);
    MPI_Finalize();
}
