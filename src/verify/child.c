/* child.c - run something that may crash, hang or exit. */
#include "verify/child.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Of the child: the handlers of signals have nothing else. */
static struct {
    struct dsf_verdict *verdict;
    const struct dsf_guarded *memory;
    unsigned nmemory;
    const char *who;
    char *where; /* what the parent reads too */
    double limit;
    void (*tell)(const struct dsf_verdict *verdict); /* there is no parent */
} child;

enum { WHERE = 256 };

void dsf_child_step(const char *who, const char *where)
{
    struct itimerval timer = { 0 };

    child.who = who;
    if (where != NULL)
        snprintf(child.where, WHERE, "%s", where);
    timer.it_value.tv_sec = (time_t)child.limit;
    timer.it_value.tv_usec =
        (suseconds_t)(1e6 * (child.limit - floor(child.limit)));
    setitimer(ITIMER_REAL, &timer, NULL);
}

void dsf_child_memory(const struct dsf_guarded *v, unsigned n)
{
    child.memory = v;
    child.nmemory = n;
}

void dsf_child_fault(const char *fmt, ...)
{
    char *to = child.verdict->fault;
    size_t size = sizeof(child.verdict->fault), n;
    va_list args;

    n = (size_t)snprintf(to, size, "%s", child.who);
    va_start(args, fmt);
    vsnprintf(to + n, size - n, fmt, args);
    va_end(args);
    n = strlen(to);
    if (child.where[0] != '\0')
        snprintf(to + n, size - n, " (%s)", child.where);
    if (child.tell != NULL)
        child.tell(child.verdict);
    _exit(1);
}

/* Below the stack: a task that needs more of it than there is. */
static int is_stack(const void *address, const ucontext_t *context)
{
#if defined(__x86_64__)
    uintptr_t top = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
    uintptr_t at = (uintptr_t)address;

    return at + (1 << 20) > top && at < top + (1 << 20);
#else
    return 0;
#endif
}

/* Did the instruction that failed want to write? */
static int was_write(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
    return -1;
#endif
}

/* A touch of what guards a port, or a write to one that is read-only. */
static void tell_port(const struct dsf_guarded *g, const unsigned char *at,
                      int write)
{
    const char *verb = write > 0 ? "writes" : write == 0 ? "reads" : "touches";

    if (at < g->ptr)
        dsf_child_fault("%s before the beginning of %s, at byte %ld", verb,
                        g->name, (long)(at - g->ptr));
    if (at >= g->ptr + g->bytes)
        dsf_child_fault("%s past the end of %s, at byte %ld of %zu", verb,
                        g->name, (long)(at - g->ptr), g->bytes);
    dsf_child_fault("%s %s, which it declares as R, at byte %ld",
                    write != 0 ? "writes" : verb, g->name, (long)(at - g->ptr));
}

static void crash(int number, siginfo_t *info, void *context)
{
    if (number == SIGALRM)
        dsf_child_fault("hangs: more than %g s", child.limit);
    if (number == SIGSEGV || number == SIGBUS) {
        for (unsigned i = 0; i < child.nmemory; i++)
            if (dsf_guarded_has(&child.memory[i], info->si_addr))
                tell_port(&child.memory[i], info->si_addr, was_write(context));
        if (is_stack(info->si_addr, context))
            dsf_child_fault("crashes: it uses up the stack");
        dsf_child_fault("crashes: SIG%s at address %p, outside its buffers",
                        sigabbrev_np(number), info->si_addr);
    }
    dsf_child_fault("crashes: SIG%s", sigabbrev_np(number));
}

/* A stack of its own, for a task that has used up the other. */
static void catch_signals(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                   SIGABRT, SIGTRAP, SIGSYS, SIGALRM };
    static unsigned char stack[1 << 16];
    stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigaltstack(&own, NULL);
    action.sa_sigaction = crash;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        sigaction(numbers[i], &action, NULL);
}

void dsf_child_run(void (*body)(const void *user, struct dsf_verdict *verdict),
                   const void *user, double limit, struct dsf_verdict *verdict)
{
    struct {
        struct dsf_verdict verdict;
        char where[WHERE];
        int finished; /* the child came to its end by itself */
    } *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t pid;

    pid = shared == MAP_FAILED ? -1 : fork();
    if (pid < 0) {
        snprintf(verdict->untried, sizeof(verdict->untried),
                 "no process to try it in: %s", strerror(errno));
        return;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        child.verdict = &shared->verdict;
        child.where = shared->where;
        child.limit = limit;
        catch_signals();
        dsf_child_step("", "");
        body(user, &shared->verdict);
        shared->finished = 1;
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *verdict = shared->verdict;
    if (verdict->fault[0] == '\0' && !shared->finished) {
        bool killed = WIFSIGNALED(status);

        snprintf(verdict->fault, sizeof(verdict->fault),
                 "ends the program with %s %d (%s)",
                 killed ? "signal" : "exit status",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status),
                 shared->where);
    }
    munmap(shared, sizeof(*shared));
}

void dsf_child_here(struct dsf_verdict *verdict,
                    void (*tell)(const struct dsf_verdict *verdict))
{
    static char where[WHERE];

    child.verdict = verdict;
    child.where = where;
    child.tell = tell;
    dsf_child_step("", "");
}
