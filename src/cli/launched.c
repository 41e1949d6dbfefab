/* launched.c - a process of several: what it says to the launcher, and what
 * signals do to it.
 *
 * mpirun ends its processes by SIGTERM when one of them has died: a signal of
 * the parent's, which is not the user's wish to save and stop. It forwards
 * SIGUSR1 and SIGUSR2, by which the launcher says SIGINT and SIGTERM. */
#include "cli/launched.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/fatal.h"
#include "cli/stop.h"
#include "net/pass.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool dsf_is_launched(void)
{
    return getenv(DSF_LAUNCHED) != NULL;
}

int64_t dsf_launched_again(const char **why)
{
    const char *n = getenv(DSF_LAUNCHED);

    *why = getenv(DSF_WHY_AGAIN);
    return n != NULL && *why != NULL ? atoll(n) : 0;
}

/* --- to the launcher ------------------------------------------------------ */

/* In one write, by a handler too. Behind a bar it would not be the beginning of
 * a line: the launcher looks for the first character. */
static void tell(const char *line, size_t n)
{
    ssize_t written;

    do
        written = write(STDERR_FILENO, line, n);
    while (written < 0 && errno == EINTR);
}

void dsf_launched_text(const char *text, size_t n)
{
    const bool launched = dsf_is_launched();
    const char *next;

    for (; launched && (next = memchr(text, '[', n)) != NULL;
         n -= (size_t)(next + 1 - text), text = next + 1) {
        fwrite(text, 1, (size_t)(next + 1 - text), stdout);
        putchar(DSF_NO_TAG);
    }
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

static struct sigaction before; /* what SIGTERM did */

static void on_term(int sig, siginfo_t *info, void *context)
{
    static const char told[] = { DSF_TO_LAUNCHER, 't', 'o', 'l', 'd', '\n' };

    if (info->si_code == SI_USER && info->si_pid == getppid()) {
        tell(told, sizeof(told));
        dsf_aside_drop_all();
        _exit(128 + sig);
    }
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(sig, info, context);
    else if (before.sa_handler != SIG_IGN && before.sa_handler != SIG_DFL)
        before.sa_handler(sig);
}

static void on_user(int sig)
{
    int saved = errno;

    kill(getpid(), sig == SIGUSR1 ? SIGINT : SIGTERM);
    errno = saved;
}

void dsf_launched_begin(void)
{
    struct sigaction user = { .sa_handler = on_user,
                              .sa_flags = SA_RESTART | SA_ONSTACK };
    struct sigaction term = { .sa_sigaction = on_term,
                              .sa_flags =
                                  SA_RESTART | SA_ONSTACK | SA_SIGINFO };
    char host[64] = "", line[128];
    int n;

    if (!dsf_is_launched())
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigaction(SIGTERM, &term, &before);
    sigaction(SIGUSR1, &user, NULL);
    sigaction(SIGUSR2, &user, NULL);
    gethostname(host, sizeof(host) - 1);
    n = snprintf(line, sizeof(line), "%cbegins %d %s\n", DSF_TO_LAUNCHER,
                 (int)getpid(), host);
    tell(line, (size_t)n);
}

void dsf_launched_joined(void)
{
    static const char line[] = { DSF_TO_LAUNCHER, 'j', 'o', 'i', 'n', '\n' };

    if (dsf_is_launched())
        tell(line, sizeof(line));
}

int dsf_launched_end(int status, const struct dsflow_err *err)
{
    char line[32];
    int n;

    if (!dsf_is_launched())
        return status;
    if (status < 0) {
        fprintf(stderr, "dsflow: %s\n", err->msg);
        status = dsflow_status_exit(status);
    }
    fflush(NULL);
    n = snprintf(line, sizeof(line), "%cended %d\n", DSF_TO_LAUNCHER, status);
    tell(line, (size_t)n);
    return status;
}

/* On other hosts than its own, mpirun has a daemon of this name. */
static bool is_of_a_daemon(pid_t parent)
{
    char path[32], name[8] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)parent);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fgets(name, sizeof(name), f) == NULL)
        name[0] = '\0';
    fclose(f);
    return strcmp(name, "orted\n") == 0;
}

void dsf_launched_cut_off(void)
{
    const pid_t parent = getppid();

    if (!dsf_is_launched() || !is_of_a_daemon(parent))
        return;
    usleep(500000); /* it passes on what was said, where it can */
    kill(parent, SIGTERM);
}

/* --- from the others to process 0 ----------------------------------------- */

/* Beside those of src/train/together.c. */
enum { SIGNAL_TAG = DSF_OWN_TAGS + 48 };

/* In process 0, one for each of the others; in those, what they send. */
static struct {
    int pipe[2];
    pthread_t thread;
    struct dsf_wire *wire;
    struct dsf_message *from;
    int32_t *sig; /* 0: none came until the end */
} shared;

static void take(struct dsf_message *m)
{
    int32_t sig = m->status == DSFLOW_OK ? *(int32_t *)m->memory : 0;

    /* Of one that went to all of them, this is the same again. */
    if (sig != 0 && dsf_stop_signal() == 0)
        kill(getpid(), sig);
}

static void on_any(int sig)
{
    unsigned char byte = (unsigned char)sig;
    int saved = errno;

    if (write(shared.pipe[1], &byte, 1) < 0)
        errno = saved;
    errno = saved;
}

/* The first signal, or the end. */
static void *send_one(void *unused)
{
    unsigned char byte = 0;
    int32_t sig;
    ssize_t n;

    do
        n = read(shared.pipe[0], &byte, 1);
    while (n < 0 && errno == EINTR);
    sig = byte;
    dsf_pass(shared.wire, true, 0, SIGNAL_TAG, &sig, sizeof(sig), NULL);
    return NULL;
}

static void begin_sending(void)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_any, .sa_flags = SA_RESTART };

    if (pipe(shared.pipe) < 0)
        dsf_fatal("no pipe for signals: %m");
    errno = pthread_create(&shared.thread, NULL, send_one, NULL);
    if (errno != 0)
        dsf_fatal("no thread for signals: %m");
    /* What the launcher sends goes to process 0 by mpirun. */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i] == SIGTERM && dsf_is_launched())
            before = action; /* what is not of the parent's */
        else
            sigaction(all[i], &action, NULL);
}

void dsf_share_signals(struct dsf_wire *wire)
{
    if (wire == NULL || wire->nprocesses == 1)
        return;
    shared.wire = wire;
    if (wire->process > 0) {
        begin_sending();
        return;
    }
    shared.from = dsf_xcalloc((size_t)wire->nprocesses, sizeof(*shared.from));
    shared.sig = dsf_xcalloc((size_t)wire->nprocesses, sizeof(*shared.sig));
    for (int32_t p = 1; p < wire->nprocesses; p++) {
        shared.from[p] = (struct dsf_message){ .memory = &shared.sig[p],
                                               .bytes = sizeof(*shared.sig),
                                               .process = p,
                                               .tag = SIGNAL_TAG,
                                               .done = take };
        wire->post(wire, &shared.from[p]);
    }
}

/* In process 0 there is nothing to do: dsf_net_close waits for all of them. */
void dsf_share_signals_end(struct dsf_wire *wire)
{
    if (wire == NULL || wire->nprocesses == 1 || wire->process == 0)
        return;
    on_any(0);
    pthread_join(shared.thread, NULL);
}
