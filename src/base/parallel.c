/* parallel.c - a loop that all cores share. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { MOST_THREADS = 64 };

struct range {
    dsf_range_fn *fn;
    void *user;
    int64_t from, end;
    pthread_t thread;
    bool started;
};

int dsf_parallel_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return n < MOST_THREADS ? n : MOST_THREADS;
}

static void *work(void *range)
{
    struct range *r = range;

    r->fn(r->user, r->from, r->end);
    return NULL;
}

void dsf_parallel(int64_t n, int64_t least, dsf_range_fn *fn, void *user)
{
    struct range ranges[MOST_THREADS];
    int64_t parts = n / least;
    int count = parts < 2 ? 1 : dsf_parallel_threads();

    if (count > parts && parts > 1)
        count = (int)parts;
    for (int i = 0; i < count; i++) {
        struct range *r = &ranges[i];

        *r = (struct range){ .fn = fn, .user = user,
                             .from = n / count * i,
                             .end = i + 1 < count ? n / count * (i + 1) : n };
        /* Without a thread the range is done at the end. */
        r->started = i + 1 < count &&
                     pthread_create(&r->thread, NULL, work, r) == 0;
    }
    for (int i = 0; i < count; i++)
        if (!ranges[i].started)
            work(&ranges[i]);
    for (int i = 0; i < count; i++)
        if (ranges[i].started)
            pthread_join(ranges[i].thread, NULL);
}
