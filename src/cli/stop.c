/* stop.c - what SIGINT, SIGTERM, SIGHUP and SIGBUS do to a command.
 *
 * The handler says what happens itself, with write(2), and ends the process
 * where that is to be: it depends on no lock, and on no thread that may hang.
 */
#include "cli/stop.h"

#include "base/aside.h"
#include "cli/screen.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Signals that come so close together are one: timeout(1) sends it to the
 * process and to its group. Nanoseconds. */
static const int64_t SAME = 1000000000;

/* In one word, as the handler may run in any thread, between any two lines: the
 * last step that was claimed, the stage, and the signal that came. */
static _Atomic uint64_t state;
#define STEP(word)   ((int64_t)((word) >> 16))
#define STAGE(word)  ((enum dsf_stop_stage)((word) >> 8 & 0xff))
#define SIGNAL(word) ((int)((word)&0xff))
#define STEP_ONE     ((uint64_t)1 << 16)
#define STAGE_ONE    ((uint64_t)1 << 8)

static _Atomic int64_t done_steps, saved_step = -1, first_at;
static _Atomic int metrics = -1;
static atomic_bool resuming, silent, terminal;
static _Atomic pid_t owner;

/* A line, put together without stdio, which a handler must not use. */
struct line {
    char text[1024];
    size_t n;
};

static void add(struct line *l, const char *text)
{
    size_t n = strlen(text);

    if (n > sizeof(l->text) - l->n)
        n = sizeof(l->text) - l->n;
    memcpy(l->text + l->n, text, n);
    l->n += n;
}

static void add_number(struct line *l, int64_t number)
{
    char digits[24];
    size_t at = sizeof(digits) - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    add(l, digits + at);
}

static void put(int fd, const struct line *l)
{
    size_t at = 0;
    ssize_t n = 0;

    for (; at < l->n && n >= 0; at += n > 0 ? (size_t)n : 0)
        n = write(fd, l->text + at, l->n - at);
}

/* In place of a bar; behind a sample, which may have stopped within a line. */
static void begin(struct line *l, enum dsf_stop_stage stage)
{
    if (stage == DSF_STOP_SAMPLING)
        add(l, "\n");
    else if (atomic_load(&terminal))
        add(l, "\r\033[K");
}

static void add_saved(struct line *l, bool saved, int64_t step)
{
    if (!saved)
        return;
    add(l, "; step ");
    add_number(l, step);
    add(l, " is saved");
}

static const char *again(int sig)
{
    return sig == SIGINT ? "; press again to stop" : "; another signal stops";
}

/* What the first signal makes the run do: where something is still to be saved,
 * and where all is. */
static const struct {
    const char *before, *after, *without; /* around the step */
    const char *ending;
} answers[] = {
    [DSF_STOP_STEPPING] = { "finishing step ", ", then saving",
                            " without saving", "stopping" },
    [DSF_STOP_SAVING] = { "finishing the checkpoint of step ", "",
                          " without it", NULL },
    [DSF_STOP_VALIDATING] = { "ending the validation, then saving step ", "",
                              " without saving", "ending the validation" },
    [DSF_STOP_SAMPLING] = { NULL, NULL, NULL, "ending the sample" },
};

static void answer(uint64_t word, int sig)
{
    enum dsf_stop_stage stage = STAGE(word);
    bool saved = atomic_load(&saved_step) == STEP(word);
    struct line l = { .n = 0 };

    begin(&l, stage);
    if (answers[stage].ending == NULL ||
        (!saved && answers[stage].before != NULL)) {
        add(&l, answers[stage].before);
        add_number(&l, STEP(word));
        add(&l, answers[stage].after);
        add(&l, again(sig));
        add(&l, answers[stage].without);
    } else {
        add(&l, answers[stage].ending);
        add_saved(&l, saved, STEP(word));
    }
    add(&l, "\n");
    if (!atomic_load(&silent))
        put(STDERR_FILENO, &l);
}

/* What there is to go on from, when the process ends at once. */
static void say_left(uint64_t word)
{
    int64_t saved = atomic_load(&saved_step);
    enum dsf_stop_stage stage = STAGE(word);
    struct line l = { .n = 0 };

    begin(&l, stage);
    if (stage == DSF_STOP_PREPARING) {
        add(&l, atomic_load(&resuming)
                    ? "stopped before the first step; the checkpoints stay as "
                      "they are"
                    : "stopped before the first step; nothing was saved");
    } else if (saved == STEP(word)) {
        add(&l, "stopped");
        add_saved(&l, true, saved);
    } else {
        add(&l, "stopped without saving; ");
        add(&l, saved < 0 ? "there is no checkpoint"
                          : "the last checkpoint is of step ");
        if (saved >= 0)
            add_number(&l, saved);
    }
    add(&l, "\n");
    put(STDERR_FILENO, &l);
}

static void tell_metrics(void)
{
    struct line l = { .n = 0 };
    int fd = atomic_load(&metrics);

    if (fd < 0)
        return;
    add(&l, "{\"step\":");
    add_number(&l, atomic_load(&done_steps));
    add(&l, ",\"ended\":\"stopped\"}\n");
    put(fd, &l);
}

_Noreturn static void leave(uint64_t word, int sig)
{
    if (STAGE(word) != DSF_STOP_ENDING) {
        say_left(word);
        tell_metrics();
    }
    dsf_aside_drop_all();
    _exit(128 + sig);
}

/* As a string of JSON has it: what is no plain character is left out. */
static void add_plain(struct line *l, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text >= ' ' && *text < 127 && *text != '"' && *text != '\\')
            add(l, (char[]){ *text, '\0' });
}

void dsf_stop_died(const char *front, const char *why)
{
    uint64_t word = atomic_load(&state);
    int64_t saved = atomic_load(&saved_step);
    int fd = atomic_load(&metrics);
    struct line l = { .n = 0 };

    /* What starts processes ends all with a signal when one has died. */
    atomic_store(&silent, true);
    if (why != NULL) {
        begin(&l, STAGE(word));
        add(&l, front);
        add(&l, why);
        if (saved >= 0) {
            add(&l, "; the last checkpoint is of step ");
            add_number(&l, saved);
        }
        add(&l, "\n");
        put(STDERR_FILENO, &l);
    }
    if (fd >= 0) {
        l.n = 0;
        add(&l, "{\"step\":");
        add_number(&l, atomic_load(&done_steps));
        add(&l, ",\"ended\":\"failed\",\"why\":\"");
        add_plain(&l, why != NULL ? why : "another process died");
        add(&l, "\"}\n");
        put(fd, &l);
    }
    dsf_aside_drop_all();
}

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_signal(int sig)
{
    int64_t at = now(), first = 0;
    int saved = errno;
    uint64_t word;

    if (atomic_load(&owner) != getpid()) /* a child that was not exec'd */
        _exit(128 + sig);
    if (STAGE(atomic_load(&state)) == DSF_STOP_NO_RUN) {
        dsf_aside_drop_all();
        signal(sig, SIG_DFL);
        raise(sig); /* once this returns */
    } else if (atomic_compare_exchange_strong(&first_at, &first, at)) {
        word = atomic_fetch_or(&state, (uint64_t)sig);
        if (STAGE(word) == DSF_STOP_PREPARING)
            leave(word, sig);
        if (STAGE(word) != DSF_STOP_ENDING)
            answer(word, sig);
    } else if (at - first > SAME) {
        leave(atomic_load(&state), sig);
    }
    errno = saved;
}

/* What is mapped is read as memory: where the file has become shorter, or its
 * disk fails, that is what comes of it. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    /* A child that was not exec'd is told of by how it dies. */
    if (info->si_code != BUS_ADRERR || atomic_load(&owner) != getpid()) {
        signal(sig, SIG_DFL);
        raise(sig); /* once this returns */
        return;
    }
    dsf_stop_died("dsflow: ", "bus error: a file that is mapped was cut short, "
                              "or its disk failed or is full");
    _exit(1);
}

static bool is_ignored(int sig)
{
    struct sigaction old;

    return sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static void catch (int sig)
{
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = SA_RESTART | SA_ONSTACK };

    sigaction(sig, &action, NULL);
}

/* A stack of its own: while kernels that oneDNN makes at run time are called,
 * the stack pointer may be in a buffer of the heap, which a handler would write
 * to. The first thread, to which signals go, runs them with the serial
 * executor. */
static void set_stack(void)
{
    static unsigned char memory[1 << 16];
    stack_t own = { .ss_sp = memory, .ss_size = sizeof(memory) };

    sigaltstack(&own, NULL);
}

void dsf_stop_catch(void)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction bus = { .sa_sigaction = on_bus,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK };

    atomic_store(&owner, getpid());
    set_stack();
    for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (!is_ignored(all[i]))
            catch (all[i]);
    sigaction(SIGBUS, &bus, NULL);
}

void dsf_stop_prepare(bool resumes, bool quiet)
{
    atomic_store(&resuming, resumes);
    atomic_store(&silent, quiet);
    atomic_store(&terminal, dsf_screen_look(STDERR_FILENO).terminal);
    atomic_fetch_or(&state, DSF_STOP_PREPARING * STAGE_ONE);
    catch (SIGINT);
    catch (SIGTERM);
}

void dsf_stop_metrics(int fd)
{
    atomic_store(&metrics, fd);
}

void dsf_stop_progress(int64_t done, int64_t saved)
{
    atomic_store(&done_steps, done);
    atomic_store(&saved_step, saved);
}

/* The handler that has seen this stage ends the process. */
static void wait_for_end(uint64_t word)
{
    while (SIGNAL(word) != 0 && STAGE(word) == DSF_STOP_PREPARING)
        pause();
}

bool dsf_stop_claim(int64_t step)
{
    uint64_t old = atomic_load(&state), new;

    do {
        wait_for_end(old);
        if (SIGNAL(old) != 0)
            return false;
        new = (uint64_t)step *STEP_ONE + DSF_STOP_STEPPING *STAGE_ONE;
    } while (!atomic_compare_exchange_weak(&state, &old, new));
    return true;
}

int dsf_stop_stage(enum dsf_stop_stage stage)
{
    uint64_t old = atomic_load(&state), new;

    do {
        wait_for_end(old);
        new = (old & ~(0xff * STAGE_ONE)) | stage *STAGE_ONE;
    } while (!atomic_compare_exchange_weak(&state, &old, new));
    return SIGNAL(old);
}

int dsf_stop_signal(void)
{
    return SIGNAL(atomic_load(&state));
}

void dsf_stop_raise(void)
{
    int sig = dsf_stop_signal();

    if (sig == 0)
        return;
    signal(sig, SIG_DFL);
    raise(sig);
}
