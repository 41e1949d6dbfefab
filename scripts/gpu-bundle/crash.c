/* crash.c - what a program of the bundle that crashes says of itself: preloaded
 * into it, where there is no debugger. Each line begins with "crash: "; the
 * numbers behind the files are places in them, for addr2line on what they were
 * stripped from. */
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { DEPTH = 64, TEXT = 512 };

static void say(const char *text)
{
    ssize_t n = write(STDERR_FILENO, text, strlen(text));

    (void)n;
}

/* Nothing here is sure to work in a handler; it is tried before the end. */
static void tell(int number, siginfo_t *info, void *context)
{
    char text[TEXT], thread[17] = "";
    void *frames[DEPTH];
    int n = backtrace(frames, DEPTH);

    (void)context;
    prctl(PR_GET_NAME, thread);
    snprintf(text, sizeof(text),
             "\ncrash: signal %d (%s), address %p, thread %s, %d frames\n",
             number, strsignal(number), info->si_addr, thread, n);
    say(text);
    backtrace_symbols_fd(frames, n, STDERR_FILENO);
    say("crash: end\n");
    raise(number); /* as it would have ended */
}

/* Whoever has handlers of their own sets them later. */
__attribute__((constructor)) static void begin(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
    static unsigned char stack[1 << 16];
    stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction action = { .sa_flags =
                                    SA_SIGINFO | SA_ONSTACK | SA_RESETHAND };
    void *frame;

    backtrace(&frame, 1); /* it loads what it needs the first time */
    sigaltstack(&own, NULL);
    action.sa_sigaction = tell;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        sigaction(numbers[i], &action, NULL);
}
