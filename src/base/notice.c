/* notice.c - what takes over a second says what it does: a thread waits beside
 * the stage, as its own would have to look at the clock everywhere. */
#include "base/notice.h"

#include "base/log.h"
#include "base/quiet_thread.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* by CLOCK_MONOTONIC */
static bool started;           /* the thread */
static bool pending;           /* there is a stage that was not told */
static struct timespec due;    /* when it is */
static char line[300];
static double patience = 1;

static bool is_due(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > due.tv_sec ||
           (now.tv_sec == due.tv_sec && now.tv_nsec >= due.tv_nsec);
}

/* It is told with the lock held: its end waits for the line. */
static void *tell(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        if (!pending) {
            pthread_cond_wait(&changed, &lock);
        } else if (!is_due()) {
            pthread_cond_timedwait(&changed, &lock, &due);
        } else {
            dsf_info("%s", line);
            pending = false;
        }
    }
    return NULL;
}

/* Without a thread, nothing is told. */
static bool start(void)
{
    pthread_condattr_t attr;
    pthread_t thread;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
    return dsf_quiet_thread(&thread, tell, NULL) == 0 &&
           pthread_detach(thread) == 0;
}

void dsf_notice(const char *fmt, ...)
{
    va_list ap;

    pthread_mutex_lock(&lock);
    if (!started)
        started = start();
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    clock_gettime(CLOCK_MONOTONIC, &due);
    due.tv_sec += (time_t)patience;
    pending = started;
    if (started)
        pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

void dsf_notice_end(void)
{
    pthread_mutex_lock(&lock);
    pending = false;
    pthread_mutex_unlock(&lock);
}

void dsf_notice_after(double seconds)
{
    pthread_mutex_lock(&lock);
    patience = seconds;
    pthread_mutex_unlock(&lock);
}
