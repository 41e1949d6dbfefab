/* bench_measure.c - rates of this machine that need no model. */
#include "measure/bench_measure.h"

#include "base/alloc.h"
#include "base/units.h"
#include "kernels/narrow.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 4 };

/* What every thread does again and again until the time is over. */
struct team {
    void (*once)(const struct team *team, float *const *v);
    size_t floats[ARRAYS]; /* of the arrays of a thread */
    bool narrow;           /* they are of bf16 or fp16 */
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

/* Small numbers of fp32; or, of bf16 or fp16, twice as many. */
static float *numbers(size_t n, bool narrow)
{
    size_t bytes = (n * sizeof(float) + 4095) / 4096 * 4096;
    float *v = aligned_alloc(4096, bytes > 0 ? bytes : 4096);
    uint16_t *half = (uint16_t *)v;

    for (size_t i = 0; v != NULL && !narrow && i < n; i++)
        v[i] = (float)(i % 97) * 1e-3f;
    for (size_t i = 0; v != NULL && narrow && i < 2 * n; i++)
        half[i] = (uint16_t)(0x3c00 + i % 97);
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
    float *v[ARRAYS];

    pthread_mutex_lock(&team->gate);
    pthread_mutex_unlock(&team->gate);
    if (team->cancelled) /* nobody would start */
        return NULL;
    for (int i = 0; i < ARRAYS; i++)
        if ((v[i] = numbers(team->floats[i], team->narrow)) == NULL)
            atomic_store(&team->failed, true);
    if (!atomic_load(&team->failed))
        team->once(team, v);
    pthread_barrier_wait(&team->start);
    if (!atomic_load(&team->failed))
        member->seconds = time_one(team, v);
    for (int i = 0; i < ARRAYS; i++)
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

static void multiply(const struct team *team, float *const *v)
{
    const struct dsf_bench_product *p = team->args;
    const size_t lda = p->ta ? p->m : p->k, ldb = p->tb ? p->k : p->n;

    if (p->type == DSFLOW_FP32)
        dsf_gemm(p->ta, p->tb, p->m, p->n, p->k, v[0], lda, v[1], ldb, 0, v[2],
                 p->n);
    else
        dsf_product(&(struct dsf_product){
            p->type, p->ta, p->tb, p->m, p->n, p->k, (const uint16_t *)v[0],
            lda, (const uint16_t *)v[1], ldb, 0, v[2], p->n, v[3] });
}

int dsf_bench_gemm(const struct dsf_bench_product *p, unsigned workers,
                   double seconds, double *rate, struct dsflow_err *err)
{
    struct team team = { .once = multiply,
                         .floats = { p->m * p->k, p->n * p->k, p->m * p->n },
                         .args = p,
                         .seconds = seconds };
    double one;
    int status;

    team.narrow = p->type != DSFLOW_FP32;
    if (team.narrow)
        team.floats[3] = dsf_product_scratch(p->m, p->n, p->k) / sizeof(float);
    status = run_team(&team, workers, &one, err);
    *rate = 2.0 * (double)p->m * (double)p->n * (double)p->k / one;
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

/* What is written is in the cache already. */
static void update_all(const struct team *team, float *const *v)
{
    dsf_scale(v[0], 0.999F, team->floats[0]);
}

int dsf_bench_memory(enum dsf_bench_access access, unsigned workers,
                     size_t bytes, double seconds, double *rate,
                     struct dsflow_err *err)
{
    static const struct {
        void (*once)(const struct team *team, float *const *v);
        unsigned ways; /* to memory and back */
    } kinds[] = { [DSF_BENCH_READ] = { read_all, 1 },
                  [DSF_BENCH_WRITE] = { write_all, 1 },
                  [DSF_BENCH_UPDATE] = { update_all, 2 },
                  [DSF_BENCH_COPY] = { copy_all, 2 } };
    size_t n = bytes / sizeof(float);
    struct team team = {
        .once = kinds[access].once,
        .floats = { n, access == DSF_BENCH_COPY ? n : 0 },
        .seconds = seconds,
    };
    double moved = (double)bytes * kinds[access].ways;
    double one;
    int status = run_team(&team, workers, &one, err);

    *rate = moved / one;
    return status;
}
