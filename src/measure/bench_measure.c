/* bench_measure.c - rates of this machine that need no model. */
#include "measure/bench_measure.h"

#include "base/alloc.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
