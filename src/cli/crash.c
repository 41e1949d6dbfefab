/* crash.c - a command that crashes in the code of a plug-in says so. */
#include "cli/crash.h"

#include "cli/stop.h"
#include "plugin/plugin.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int crashes[] = { SIGSEGV, SIGFPE, SIGILL, SIGABRT };
enum { NCRASHES = sizeof(crashes) / sizeof(*crashes), FRAMES = 64 };

static struct sigaction before[NCRASHES];
static pid_t owner;
static atomic_flag said = ATOMIC_FLAG_INIT;

/* The innermost one among those that called what crashes; NULL: none. */
static const char *plugin_of(void *const *frames, int n)
{
    const char *path = NULL;

    for (int i = 0; i < n && path == NULL; i++)
        path = dsf_plugin_of(frames[i]);
    return path;
}

/* The stack is read by what is there since dsf_crash_catch: nothing is loaded
 * or allocated here. */
static void on_crash(int sig, siginfo_t *info, void *context)
{
    const char *path = NULL;
    void *frames[FRAMES];
    char why[512];

    (void)context;
    if (getpid() == owner) /* a child is told of by how it dies */
        path = plugin_of(frames, backtrace(frames, FRAMES));
    if (path != NULL) {
        while (atomic_flag_test_and_set(&said)) /* another thread does it */
            pause();
        snprintf(why, sizeof(why),
                 "%.200s: crashes: SIG%s (dsflow codelet check %.200s)", path,
                 sigabbrev_np(sig), path);
        dsf_stop_died("dsflow: ", why);
        _exit(1);
    }
    for (int i = 0; i < NCRASHES; i++)
        if (crashes[i] == sig)
            sigaction(sig, &before[i], NULL);
    if (info->si_code <= 0) /* else what failed is done again */
        raise(sig);
}

void dsf_crash_catch(void)
{
    struct sigaction action = { .sa_sigaction = on_crash,
                                .sa_flags = SA_SIGINFO | SA_ONSTACK };
    void *frame;

    owner = getpid();
    backtrace(&frame, 1);
    for (int i = 0; i < NCRASHES; i++)
        sigaction(crashes[i], &action, &before[i]);
}
