/* bench_measure.c - rates of this machine that need no model. */
#include "measure/bench_measure.h"

#include "base/alloc.h"
#include "base/units.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What every thread does again and again until the time is over. */
struct team {
    void (*once)(const struct team *team, float *const *v);
    size_t floats[3]; /* of the arrays of a thread */
    const void *args;
    double seconds;
    pthread_mutex_t gate; /* until all threads are there */
    pthread_barrier_t start;
    bool cancelled;     /* not all are */
    atomic_bool failed; /* there is no memory */
};

struct member {
    struct team *team;
    double seconds; /* of one time */
};

static float *numbers(size_t n)
{
    size_t bytes = (n * sizeof(float) + 4095) / 4096 * 4096;
    float *v = aligned_alloc(4096, bytes > 0 ? bytes : 4096);

    for (size_t i = 0; v != NULL && i < n; i++)
        v[i] = (float)(i % 97) * 1e-3f;
    return v;
}

/* The mean seconds of one time. */
static double time_one(struct team *team, float *const *v)
{
    double start = dsf_thread_seconds(), now;
    unsigned n = 0;

    do {
        team->once(team, v);
        n++;
        now = dsf_thread_seconds();
    } while (now - start < team->seconds);
    return (now - start) / n;
}

static void *repeat(void *user)
{
    struct member *member = user;
    struct team *team = member->team;
    float *v[3];

    pthread_mutex_lock(&team->gate);
    pthread_mutex_unlock(&team->gate);
    if (team->cancelled) /* nobody would start */
        return NULL;
    for (int i = 0; i < 3; i++)
        if ((v[i] = numbers(team->floats[i])) == NULL)
            atomic_store(&team->failed, true);
    if (!atomic_load(&team->failed))
        team->once(team, v);
    pthread_barrier_wait(&team->start);
    if (!atomic_load(&team->failed))
        member->seconds = time_one(team, v);
    for (int i = 0; i < 3; i++)
        free(v[i]);
    return NULL;
}

/* The mean over the threads of the seconds of one time. */
static int run_team(struct team *team, unsigned workers, double *seconds,
                    struct dsflow_err *err)
{
    pthread_t *threads = dsf_xcalloc(workers, sizeof(*threads));
    struct member *members = dsf_xcalloc(workers, sizeof(*members));
    unsigned n = 1;

    pthread_mutex_init(&team->gate, NULL);
    pthread_barrier_init(&team->start, NULL, workers);
    pthread_mutex_lock(&team->gate);
    for (unsigned w = 0; w < workers; w++)
        members[w].team = team;
    while (n < workers &&
           pthread_create(&threads[n], NULL, repeat, &members[n]) == 0)
        n++;
    team->cancelled = n < workers;
    pthread_mutex_unlock(&team->gate);
    repeat(&members[0]);
    *seconds = members[0].seconds / workers;
    for (unsigned w = 1; w < n; w++) {
        pthread_join(threads[w], NULL);
        *seconds += members[w].seconds / workers;
    }
    pthread_barrier_destroy(&team->start);
    pthread_mutex_destroy(&team->gate);
    free(threads);
    free(members);
    return team->cancelled || atomic_load(&team->failed)
               ? dsflow_fail(err, DSFLOW_ENOMEM,
                             "a measurement on %u threads: there is no memory "
                             "for it, or no thread",
                             workers)
               : DSFLOW_OK;
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

int dsf_bench_gemm(int ta, int tb, size_t m, size_t n, size_t k,
                   unsigned workers, double seconds, double *rate,
                   struct dsflow_err *err)
{
    struct product p = { ta, tb, m, n, k };
    struct team team = { .once = multiply,
                         .floats = { m * k, n * k, m * n },
                         .args = &p,
                         .seconds = seconds };
    double one;
    int status = run_team(&team, workers, &one, err);

    *rate = 2.0 * (double)m * (double)n * (double)k / one;
    return status;
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

int dsf_bench_memory(enum dsf_bench_access access, unsigned workers,
                     size_t bytes, double seconds, double *rate,
                     struct dsflow_err *err)
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
    double one;
    int status = run_team(&team, workers, &one, err);

    *rate = moved / one;
    return status;
}
