/* starpu_sched.c - StarPU's schedulers: how their idle workers wait.
 *
 * A worker of StarPU that finds no task looks again, and again, without pause.
 * Where each has a core, that is the fastest way to find the next one. Where
 * there are more workers than cores, or other programs want the cores, the idle
 * ones keep them from those that have a task: there a scheduler is wrapped, so
 * that its workers sleep until a task is pushed. */
#include "exec/starpu_private.h"

#include "machine/schedulers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* Microseconds of a sleep. */
enum { SHORTEST = 50, LONGEST = 1000 };

/* There is one StarPU in a process. */
static const struct starpu_sched_policy *wrapped;
static struct starpu_sched_policy wrapper;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pushed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic unsigned npushed, nasleep;

static void make_condition(void)
{
    pthread_condattr_t a;

    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&pushed, &a);
    pthread_condattr_destroy(&a);
}

static void wake_all(void)
{
    atomic_fetch_add(&npushed, 1);
    if (atomic_load(&nasleep) == 0)
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&pushed);
    pthread_mutex_unlock(&lock);
}

static int push(struct starpu_task *task)
{
    int ret = wrapped->push_task(task);

    wake_all();
    return ret;
}

static struct timespec in_microseconds(long us)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += us * 1000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* Nothing was pushed since `seen`: sleep until something is, or it is time to
 * look at what else there is to do. */
static void sleep_until_push(unsigned seen, long us)
{
    struct timespec until = in_microseconds(us);

    starpu_worker_relax_on(); /* others may push to this worker meanwhile */
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&nasleep, 1);
    while (atomic_load(&npushed) == seen &&
           pthread_cond_timedwait(&pushed, &lock, &until) == 0)
        ;
    atomic_fetch_sub(&nasleep, 1);
    pthread_mutex_unlock(&lock);
    starpu_worker_relax_off();
}

static struct starpu_task *pop(unsigned context)
{
    static _Thread_local long us = SHORTEST;
    unsigned seen = atomic_load(&npushed);
    struct starpu_task *task =
        wrapped->pop_task != NULL ? wrapped->pop_task(context) : NULL;

    if (task != NULL) {
        us = SHORTEST;
        return task;
    }
    sleep_until_push(seen, us);
    us = 2 * us < LONGEST ? 2 * us : LONGEST;
    return NULL;
}

static struct starpu_sched_policy *find(const char *name)
{
    struct starpu_sched_policy **all = starpu_sched_get_predefined_policies();

    while (*all != NULL && strcmp((*all)->policy_name, name) != 0)
        all++;
    return *all;
}

void dsf_starpu_set_scheduler(struct starpu_conf *conf, const char *name,
                              bool sleeping)
{
    conf->sched_policy_name = NULL;
    conf->sched_policy = find(name != NULL ? name : dsf_scheduler_at(0));
    if (!sleeping)
        return;
    pthread_once(&once, make_condition);
    wrapped = conf->sched_policy;
    wrapper = *wrapped;
    wrapper.push_task = push;
    wrapper.pop_task = pop;
    conf->sched_policy = &wrapper;
}
