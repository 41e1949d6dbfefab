/* crash.c - a command that dies in the code of a plug-in says so. */
#include "cli/crash.h"

#include "cli/stop.h"
#include "plugin/plugin.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int crashes[] = { SIGSEGV, SIGFPE, SIGILL, SIGABRT };
enum { NCRASHES = sizeof(crashes) / sizeof(*crashes), FRAMES = 64 };

static struct sigaction before[NCRASHES];
static pid_t owner;
static atomic_bool leaving;

/* The innermost one among those that called what runs here; NULL: none, or this
 * is a child, which is told of by how it dies. The stack is read by what is
 * there since dsf_crash_catch: nothing is loaded or allocated. */
static const char *find_plugin(void)
{
    const char *path = NULL;
    void *frames[FRAMES];
    int n = getpid() == owner ? backtrace(frames, FRAMES) : 0;

    for (int i = 0; i < n && path == NULL; i++)
        path = dsf_plugin_of(frames[i]);
    return path;
}

_Noreturn static void leave(const char *path, const char *does,
                            const char *what)
{
    char why[512];

    while (atomic_exchange(&leaving, true)) /* another thread does it */
        pause();
    snprintf(why, sizeof(why), "%.200s: %s%s (dsflow codelet check %.200s)",
             path, does, what, path);
    dsf_stop_died("dsflow: ", why);
    _exit(1);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
    const char *path = find_plugin();

    (void)context;
    if (path != NULL)
        leave(path, "crashes: SIG", sigabbrev_np(sig));
    for (int i = 0; i < NCRASHES; i++)
        if (crashes[i] == sig)
            sigaction(sig, &before[i], NULL);
    if (info->si_code <= 0) /* else what failed is done again */
        raise(sig);
}

/* Tasks may call exit in several threads at a time, and each of those would go
 * on without a handler that another one has taken, and end the program before
 * that has said why: so each leaves one for the next. */
static void on_exit_of_all(void)
{
    static _Thread_local bool came;
    const char *path;

    if (came)
        return;
    came = true;
    atexit(on_exit_of_all);
    path = find_plugin();
    if (path != NULL)
        leave(path, "ends the program: exit", "");
    while (atomic_load(&leaving))
        pause();
}

void dsf_crash_catch(void)
{
    struct sigaction action = { .sa_sigaction = on_crash,
                                .sa_flags = SA_SIGINFO | SA_ONSTACK };
    void *frame;

    owner = getpid();
    backtrace(&frame, 1);
    for (int i = 0; i < 2; i++) /* until the first has left one */
        atexit(on_exit_of_all);
    for (int i = 0; i < NCRASHES; i++)
        sigaction(crashes[i], &action, &before[i]);
}
