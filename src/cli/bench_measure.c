/* bench_measure.c - rates of this machine that need no model. */
#include "cli/bench_measure.h"

#include "base/alloc.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"

#include <dsflow/exec.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What every thread does again and again until the time is over. */
struct team {
    void (*once)(const struct team *team, float *const *v);
    size_t floats[3]; /* of the arrays of a thread */
    const void *args;
    double seconds;
    pthread_barrier_t start;
};

struct member {
    struct team *team;
    double seconds; /* of one time */
};

double dsf_thread_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static float *numbers(size_t n)
{
    size_t bytes = (n * sizeof(float) + 4095) / 4096 * 4096;
    float *v = aligned_alloc(4096, bytes > 0 ? bytes : 4096);

    if (v == NULL) {
        fprintf(stderr, "dsflow: not enough memory for a measurement\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(i % 97) * 1e-3f;
    return v;
}

static void *repeat(void *user)
{
    struct member *member = user;
    struct team *team = member->team;
    float *v[3];
    double start, now;
    unsigned n = 0;

    for (int i = 0; i < 3; i++)
        v[i] = numbers(team->floats[i]);
    team->once(team, v);
    pthread_barrier_wait(&team->start);
    start = dsf_thread_seconds();
    do {
        team->once(team, v);
        n++;
        now = dsf_thread_seconds();
    } while (now - start < team->seconds);
    member->seconds = (now - start) / n;
    for (int i = 0; i < 3; i++)
        free(v[i]);
    return NULL;
}

/* The mean over the threads of the seconds of one time. */
static double run_team(struct team *team, unsigned workers)
{
    pthread_t *threads = dsf_xcalloc(workers, sizeof(*threads));
    struct member *members = dsf_xcalloc(workers, sizeof(*members));
    double sum = 0;

    pthread_barrier_init(&team->start, NULL, workers);
    for (unsigned w = 0; w < workers; w++) {
        members[w].team = team;
        if (w > 0 &&
            pthread_create(&threads[w], NULL, repeat, &members[w]) != 0) {
            fprintf(stderr, "dsflow: no thread for a measurement\n");
            exit(1);
        }
    }
    repeat(&members[0]);
    for (unsigned w = 1; w < workers; w++)
        pthread_join(threads[w], NULL);
    for (unsigned w = 0; w < workers; w++)
        sum += members[w].seconds;
    pthread_barrier_destroy(&team->start);
    free(threads);
    free(members);
    return sum / workers;
}

struct product {
    int ta, tb;
    size_t m, n, k;
};

static void multiply(const struct team *team, float *const *v)
{
    const struct product *p = team->args;

    dsf_gemm(p->ta, p->tb, p->m, p->n, p->k, v[0], p->ta ? p->m : p->k, v[1],
             p->tb ? p->k : p->n, 0, v[2], p->n);
}

double dsf_bench_gemm(int ta, int tb, size_t m, size_t n, size_t k,
                      unsigned workers, double seconds)
{
    struct product p = { ta, tb, m, n, k };
    struct team team = { .once = multiply,
                         .floats = { m * k, n * k, m * n },
                         .args = &p,
                         .seconds = seconds };

    return 2.0 * (double)m * (double)n * (double)k / run_team(&team, workers);
}

static void read_all(const struct team *team, float *const *v)
{
    static volatile double sink;

    sink = dsf_square_sum(v[0], team->floats[0]);
    (void)sink;
}

static void write_all(const struct team *team, float *const *v)
{
    memset(v[0], 0, team->floats[0] * sizeof(float));
}

static void copy_all(const struct team *team, float *const *v)
{
    memcpy(v[1], v[0], team->floats[0] * sizeof(float));
}

double dsf_bench_memory(enum dsf_bench_access access, unsigned workers,
                        size_t bytes, double seconds)
{
    size_t n = bytes / sizeof(float);
    struct team team = {
        .once = access == DSF_BENCH_READ    ? read_all
                : access == DSF_BENCH_WRITE ? write_all
                                            : copy_all,
        .floats = { n, access == DSF_BENCH_COPY ? n : 1, 1 },
        .seconds = seconds,
    };
    double moved = (double)bytes * (access == DSF_BENCH_COPY ? 2 : 1);

    return moved / run_team(&team, workers);
}

static dsflow_data_id add_number(struct dsflow_graph *g)
{
    char name[32];

    snprintf(name, sizeof(name), "x%u", dsflow_graph_ndata(g));
    return dsflow_graph_add_data(
        g, &(struct dsflow_data_spec){ .name = name,
                                       .bytes = sizeof(double),
                                       .role = DSFLOW_BUFFERS,
                                       .unit = -1,
                                       .persistent = 1 });
}

/* Chains of sums, more of them than workers, of as many numbers as a segment
 * has buffers. */
static struct dsflow_graph *small_tasks(unsigned ntasks, unsigned chains)
{
    enum { BUFFERS = 6 };
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_task_spec t = { .op = &dsf_op_sum,
                                  .layer = -1,
                                  .microbatch = -1,
                                  .tile = -1,
                                  .rank = DSFLOW_ANYWHERE,
                                  .ndata = BUFFERS };

    for (unsigned i = 1; i < BUFFERS; i++)
        t.data[i] = add_number(g);
    for (unsigned i = 0; i < chains; i++)
        add_number(g);
    for (unsigned i = 0; i < ntasks; i++) {
        t.data[0].i = BUFFERS - 1 + i % chains;
        dsflow_graph_add_task(g, &t);
    }
    return g;
}

/* The shortest of some turns: it is wall time, which other processes
 * lengthen. */
static int time_tasks(unsigned workers, unsigned ntasks, double *seconds,
                      struct dsflow_err *err)
{
    struct dsflow_graph *g = small_tasks(ntasks, 4 * workers);
    struct dsflow_exec_options options = { .kind = DSFLOW_STARPU,
                                           .workers = workers };
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = NULL;
    struct dsflow_exec_stats before, after;
    int status = dsflow_exec_open(g, &options, &host, &exec, err);

    *seconds = INFINITY;
    for (int turn = 0; turn < 8 && status == DSFLOW_OK; turn++) {
        double each;

        dsflow_exec_stats(exec, &before);
        status = dsflow_exec_submit(exec, DSFLOW_STEP, err);
        if (status == DSFLOW_OK)
            status = dsflow_exec_wait(exec, err);
        dsflow_exec_stats(exec, &after);
        each = ((after.wall_seconds - before.wall_seconds) * workers -
                (after.kernel_seconds - before.kernel_seconds)) /
               ntasks;
        if (each < *seconds)
            *seconds = each;
    }
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    return status;
}

/* In a process of its own: StarPU ends the process where its folder cannot be
 * made, and a plan must not depend on that. */
int dsf_bench_overhead(unsigned workers, unsigned ntasks, double *seconds)
{
    double got = INFINITY;
    int fd[2], silence;
    pid_t child;

    if (pipe(fd) < 0)
        return DSFLOW_EFAIL;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        silence = open("/dev/null", O_WRONLY);
        if (silence >= 0)
            dup2(silence, STDERR_FILENO);
        if (time_tasks(workers, ntasks, &got, NULL) < 0 ||
            write(fd[1], &got, sizeof(got)) != sizeof(got))
            _exit(1);
        _exit(0);
    }
    close(fd[1]);
    if (child < 0 || read(fd[0], &got, sizeof(got)) != sizeof(got))
        got = INFINITY;
    close(fd[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (!isfinite(got))
        return DSFLOW_EFAIL;
    *seconds = got;
    return DSFLOW_OK;
}
