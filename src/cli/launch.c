/* launch.c - the processes of a run, by mpirun, from their start to the end.
 *
 * mpirun is in a session of its own: Ctrl-C at the terminal is for this process
 * alone, which tells process 0, by the signals that mpirun forwards. It would
 * end the others within a second, before they have saved. What it says itself
 * is not shown but where no process began. */
#include "cli/launch.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/hosts_left.h"
#include "cli/launched.h"
#include "cli/mpirun.h"
#include "cli/screen.h"
#include "cli/tagged.h"
#include "net/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A line of one of the others, until it is whole. */
struct whole {
    char text[1024];
    size_t n;
};

struct process {
    struct whole lines[2]; /* of its output, of its error */
    char host[64];
    int pid;
    bool begun, told, ended; /* told: mpirun ended it, as another had died */
    int status;              /* its own, where it has `ended` */
};

struct launch;

struct stream {
    struct launch *l;
    struct dsf_tagged tagged;
    int from, to; /* files */
    bool open;
};

struct launch {
    struct dsf_places places;
    const struct dsf_cli_args *args;
    char program[PATH_MAX];

    pid_t mpirun;
    int status; /* of mpirun, as waitpid says it */
    unsigned long job; /* as it numbers them */
    bool over;
    struct stream streams[2];
    struct process *processes;
    size_t nprocesses, cap;
    bool joined;  /* signals are taken by process 0 */
    bool in_line; /* what process 0 wrote last was no whole line */
    bool terminal;
    struct whole said; /* the beginning of what mpirun said itself */
    char found[512];   /* what a process says of another's death, or "" */
    double ending;     /* when it was first heard that all are to end; 0: not */

    int sig;        /* the first that came; 0: none */
    double sig_at;  /* when, */
    unsigned nsigs; /* and how many came, more than a second apart */
};

/* --- what processes say --------------------------------------------------- */

static void put(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(fd, bytes, n);

        if (written < 0 && errno != EINTR)
            return; /* nobody reads it any more: the run goes on */
        bytes += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct process *process_of(struct launch *l, int i)
{
    if ((size_t)i >= l->nprocesses) {
        dsf_grow(&l->processes, &l->cap, (size_t)i + 1, sizeof(*l->processes));
        l->nprocesses = (size_t)i + 1;
    }
    return &l->processes[i];
}

/* A line for this program, without its first character. */
static void hear(struct launch *l, int i, const char *line)
{
    struct process *p = process_of(l, i);

    if (sscanf(line, "begins %d %63s %lu", &p->pid, p->host, &l->job) == 3)
        p->begun = true;
    else if (sscanf(line, "ended %d", &p->status) == 1)
        p->ended = true;
    else if (strncmp(line, "found ", 6) == 0 && l->found[0] == '\0')
        snprintf(l->found, sizeof(l->found), "%.500s", line + 6);
    else if (strcmp(line, "told") == 0)
        p->told = true;
    else if (strcmp(line, "join") == 0)
        l->joined = true;
    if (l->ending == 0 &&
        (p->told || p->status != 0 || l->found[0] != '\0'))
        l->ending = now();
}

static void clear_bar(struct launch *l)
{
    if (l->in_line)
        put(STDERR_FILENO, l->terminal ? "\r\033[K" : "\n",
            l->terminal ? 4 : 1);
    l->in_line = false;
}

static void end_line(struct launch *l, int i, struct whole *w)
{
    char front[32];
    int n;

    w->text[w->n] = '\0';
    w->n = 0;
    if (w->text[0] == DSF_TO_LAUNCHER) {
        hear(l, i, w->text + 1);
        return;
    }
    clear_bar(l);
    dsf_utf8_clean(w->text);
    n = snprintf(front, sizeof(front), "process %d: ", i);
    put(STDERR_FILENO, front, (size_t)n);
    put(STDERR_FILENO, w->text, strlen(w->text));
    put(STDERR_FILENO, "\n", 1);
}

static void take_byte(struct launch *l, int i, struct whole *w, char c)
{
    if (c == '\n') {
        end_line(l, i, w);
    } else {
        w->text[w->n++] = c;
        if (w->n + 1 == sizeof(w->text))
            end_line(l, i, w);
    }
}

/* Process 0 writes as if it were alone, but for lines to this program, which
 * may begin behind a bar. */
static void take_first(struct stream *s, const char *bytes, size_t n)
{
    struct launch *l = s->l;
    bool error = s->to == STDERR_FILENO;
    struct whole *w = &process_of(l, 0)->lines[error];
    size_t from = 0;

    /* Both streams are one terminal, and what was written to one first may come
     * behind the other. A bar goes before the next text, which nothing wipes
     * out. */
    if (!error)
        clear_bar(l);
    else if (l->terminal && !l->in_line && n >= 4 &&
             memcmp(bytes, "\r\033[K", 4) == 0)
        from = 4;
    for (size_t i = from; i < n; i++) {
        if (w->n == 0 && bytes[i] != DSF_TO_LAUNCHER)
            continue;
        if (w->n == 0 && i > from) {
            put(s->to, bytes + from, i - from);
            l->in_line = error && bytes[i - 1] != '\n';
        }
        take_byte(l, 0, w, bytes[i]);
        from = i + 1;
    }
    put(s->to, bytes + from, n - from);
    if (n > from)
        l->in_line = error && bytes[n - 1] != '\n';
}

static void take_own(struct launch *l, const char *bytes, size_t n)
{
    size_t room = sizeof(l->said.text) - 1 - l->said.n;

    if (dsf_log_level() >= DSFLOW_DEBUG)
        put(STDERR_FILENO, bytes, n);
    memcpy(l->said.text + l->said.n, bytes, n < room ? n : room);
    l->said.n += n < room ? n : room;
}

static void take(void *user, int process, const char *bytes, size_t n)
{
    struct stream *s = user;

    if (process == DSF_OF_MPIRUN) {
        take_own(s->l, bytes, n);
    } else if (process == 0) {
        take_first(s, bytes, n);
    } else {
        struct process *p = process_of(s->l, process);

        for (size_t i = 0; i < n; i++)
            take_byte(s->l, process, &p->lines[s->to == STDERR_FILENO],
                      bytes[i]);
    }
}

/* --- signals -------------------------------------------------------------- */

static int woken[2]; /* a byte for each signal */

static void on_signal(int sig)
{
    unsigned char byte = (unsigned char)sig;
    int saved = errno;

    if (write(woken[1], &byte, 1) < 0)
        errno = saved;
    errno = saved;
}

static int catch_signals(struct dsflow_err *err)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = SA_RESTART },
                     old;

    if (pipe2(woken, O_CLOEXEC | O_NONBLOCK) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "no pipe for signals: %m");
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        /* nohup(1) */
        if (all[i] == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 &&
            old.sa_handler == SIG_IGN)
            continue;
        sigaction(all[i], &action, NULL);
    }
    return DSFLOW_OK;
}

/* The first makes process 0 save and stop, the second makes it stop, and the
 * third is for what does not answer. */
static void pass_on(struct launch *l, int sig)
{
    double at = now();

    if (l->sig != 0 && at - l->sig_at < 1)
        return; /* one that was sent to several */
    l->nsigs++;
    l->sig_at = at;
    if (l->sig == 0)
        l->sig = sig;
    if (l->over)
        return;
    if (l->nsigs > 2)
        kill(-l->mpirun, SIGKILL);
    else if (!l->joined)
        kill(l->mpirun, SIGTERM);
    else
        kill(l->mpirun, sig == SIGINT ? SIGUSR1 : SIGUSR2);
}

static void look_at_signals(struct launch *l)
{
    unsigned char sig;

    while (read(woken[0], &sig, 1) == 1)
        if (sig != SIGCHLD)
            pass_on(l, sig);
        else if (!l->over && waitpid(l->mpirun, &l->status, WNOHANG) > 0)
            l->over = true;
}

/* --- one start ------------------------------------------------------------ */

/* In the child. */
_Noreturn static void become_mpirun(struct launch *l, char **words,
                                    pid_t parent, const int *out,
                                    const int *error)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE };
    int null = open("/dev/null", O_RDONLY);

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        signal(all[i], SIG_DFL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    dup2(null, STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(error[1], STDERR_FILENO);
    execvp(words[0], words);
    _exit(127);
}

static int start(struct launch *l, char **words, struct dsflow_err *err)
{
    int out[2], error[2];
    pid_t parent = getpid();

    if (pipe2(out, O_CLOEXEC) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "mpirun: no pipe: %m");
    if (pipe2(error, O_CLOEXEC) < 0) {
        close(out[0]);
        close(out[1]);
        return dsflow_fail(err, DSFLOW_EIO, "mpirun: no pipe: %m");
    }
    l->mpirun = fork();
    if (l->mpirun == 0)
        become_mpirun(l, words, parent, out, error);
    close(out[1]);
    close(error[1]);
    l->streams[0] = (struct stream){
        .l = l, .from = error[0], .to = STDERR_FILENO, .open = true
    };
    l->streams[1] = (struct stream){
        .l = l, .from = out[0], .to = STDOUT_FILENO, .open = true
    };
    for (int i = 0; i < 2; i++)
        dsf_tagged_init(&l->streams[i].tagged, take, &l->streams[i]);
    return l->mpirun > 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EIO, "mpirun cannot be started: %m");
}

static void read_some(struct stream *s)
{
    char bytes[8192];
    ssize_t n = read(s->from, bytes, sizeof(bytes));

    if (n > 0)
        dsf_tagged_add(&s->tagged, bytes, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        s->open = false;
}

/* Milliseconds for poll(2). mpirun may wait for ever for a process that died
 * while it began, or that does not end. */
static int time_to_end(struct launch *l)
{
    static const double LONGEST = 5;
    double left = l->ending + LONGEST - now();

    if (l->over)
        return 0;
    if (l->ending == 0)
        return -1;
    if (left < 0)
        kill(-l->mpirun, SIGKILL);
    return left > 0 ? 1 + (int)(1e3 * left) : 100;
}

/* Until mpirun has ended, and what it wrote is read: what others still hold its
 * pipes for is not waited for. */
static void follow(struct launch *l)
{
    for (;;) {
        struct pollfd fds[3] = { { .fd = woken[0], .events = POLLIN } };
        bool was_over = l->over;
        int n;

        for (int i = 0; i < 2; i++)
            fds[1 + i] =
                (struct pollfd){ .fd = l->streams[i].open ? l->streams[i].from
                                                          : -1,
                                 .events = POLLIN };
        n = poll(fds, 3, time_to_end(l));
        if (was_over && n <= 0)
            break;
        look_at_signals(l);
        for (int i = 0; i < 2; i++)
            if (fds[1 + i].revents != 0)
                read_some(&l->streams[i]);
    }
    for (int i = 0; i < 2; i++) {
        dsf_tagged_end(&l->streams[i].tagged);
        close(l->streams[i].from);
    }
    for (size_t i = 1; i < l->nprocesses; i++)
        for (int k = 0; k < 2; k++)
            if (l->processes[i].lines[k].n > 0)
                end_line(l, (int)i, &l->processes[i].lines[k]);
}

/* Memory that processes of this host shared has names until all have it: of one
 * that was killed before, they stay. */
static void remove_shared(const struct launch *l)
{
    DIR *folder = l->job != 0 ? opendir("/dev/shm") : NULL;
    const struct dirent *e;
    char job[32];

    snprintf(job, sizeof(job), ".%lx.", l->job);
    while (folder != NULL && (e = readdir(folder)) != NULL)
        if (strstr(e->d_name, "_segment.") != NULL &&
            strstr(e->d_name, job) != NULL)
            unlinkat(dirfd(folder), e->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

/* --- how it ended --------------------------------------------------------- */

static bool has_begun(const struct launch *l)
{
    for (size_t i = 0; i < l->nprocesses; i++)
        if (l->processes[i].begun)
            return true;
    return false;
}

/* What mpirun said first, in a line. */
static const char *first_words(struct launch *l)
{
    char *text = l->said.text, *end;

    text[l->said.n] = '\0';
    while (*text == '-' || *text == '\n')
        text++;
    for (end = strstr(text, "\n\n");
         end != NULL && end > text && end[-1] == ':';)
        end = strstr(end + 1, "\n\n");
    if (end != NULL)
        *end = '\0';
    end = strstr(text, "\n---");
    if (end != NULL)
        *end = '\0';
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    for (end = text; (end = strstr(end, "  ")) != NULL;)
        memmove(end, end + 1, strlen(end));
    for (end = text + strlen(text); end > text && end[-1] == ' ';)
        *--end = '\0';
    dsf_utf8_clean(text);
    return text;
}

/* The one that neither ended by itself nor was told to by mpirun, as another
 * one had: the first of those that failed, if there is none. */
static const struct process *find_dead(const struct launch *l)
{
    const struct process *failed = NULL;

    for (size_t i = 0; i < l->nprocesses; i++) {
        const struct process *p = &l->processes[i];

        if (p->begun && !p->told && !p->ended)
            return p;
        if (p->ended && p->status != 0 && failed == NULL)
            failed = p;
    }
    return failed;
}

static int exit_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Not all began: what mpirun says of it. */
static int fail_to_start(struct launch *l, struct dsflow_err *err)
{
    const char *words = first_words(l);
    int status = exit_of(l->status);

    if (status == 127)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: mpirun cannot be started",
                           l->places.command);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: mpirun could not start the processes: %.400s",
                       l->places.command,
                       words[0] != '\0' ? words : "it does not say why");
}

/* Why processes failed before they met only MPI knows; what it says where one
 * died is known. */
static const char *words_of_mpi(struct launch *l)
{
    const char *words = l->joined ? "" : first_words(l);

    return strncmp(words, "Primary job", 11) == 0 ||
                   strncmp(words, "mpirun ", 7) == 0
               ? ""
               : words;
}

/* Process 0 did not say with which status it ended. */
static int fail_of_death(struct launch *l, struct dsflow_err *err)
{
    const struct process *dead = find_dead(l);
    int status = exit_of(l->status);
    const char *words = words_of_mpi(l);
    char how[64];

    if (WIFSIGNALED(l->status) && l->ending == 0)
        return dsflow_fail(err, DSFLOW_EIO, "mpirun was killed by signal %d",
                           WTERMSIG(l->status));
    if (dead == NULL)
        return dsflow_fail(err, DSFLOW_EIO, "mpirun ended with status %d",
                           status);
    if (dead->ended)
        snprintf(how, sizeof(how), "ended with status %d", dead->status);
    else if (status > 128)
        snprintf(how, sizeof(how), "was killed by signal %d", status - 128);
    else
        snprintf(how, sizeof(how), "ended with status %d", status);
    return dsflow_fail(err, DSFLOW_EIO, "process %d (pid %d on %s) %s%s%.300s",
                       (int)(dead - l->processes), dead->pid, dead->host, how,
                       words[0] != '\0' ? ": " : "", words);
}

/* Stopped by a signal, and process 0 did not say so: it ended at once, or had
 * not begun. */
static int stopped(const struct launch *l)
{
    if (!l->joined)
        fprintf(stderr, "stopped before the first step; %s\n",
                dsf_flag_value(l->args, "resume") != NULL
                    ? "the checkpoints stay as they are"
                    : "nothing was saved");
    return 128 + l->sig;
}

/* The exit status of process 0, or how it came that there is none. `*again`:
 * neither the job nor the user wanted it so. */
static int judge(struct launch *l, bool *again, struct dsflow_err *err)
{
    const struct process *first = process_of(l, 0);
    int status = exit_of(l->status);

    *again = false;
    if (first->ended && first->status > 128)
        return l->sig != 0 ? 128 + l->sig : first->status;
    if (first->ended && (first->status == 0 || first->status == 2))
        return first->status;
    if (l->sig != 0 && (l->nsigs > 1 || l->found[0] == '\0'))
        return stopped(l);
    if (first->begun && !first->told && !first->ended &&
        (status == 128 + SIGINT || status == 128 + SIGTERM ||
         status == 128 + SIGHUP))
        return status;
    if (!has_begun(l) || (!l->joined && l->found[0] == '\0' && !first->ended &&
                          find_dead(l) == NULL))
        return fail_to_start(l, err);
    *again = l->sig == 0;
    if (l->found[0] != '\0')
        return dsflow_fail(err, DSFLOW_EIO, "%s", l->found);
    if (first->ended)
        return dsflow_fail(err, DSFLOW_EIO, "process 0 ended with status %d",
                           first->status);
    return fail_of_death(l, err);
}

static int run_once(struct launch *l, int64_t n, const char *failed,
                    bool *again, struct dsflow_err *err)
{
    char **words;
    int status;

    *again = false;
    l->joined = l->in_line = l->over = false;
    l->said.n = 0;
    l->found[0] = '\0';
    l->ending = 0;
    l->job = 0;
    if (l->nprocesses > 0)
        memset(l->processes, 0, l->nprocesses * sizeof(*l->processes));
    dsf_mpirun_environment(n, failed);
    words = dsf_mpirun_words(&l->places, l->args, l->program, n > 0);
    status = start(l, words, err);
    dsf_mpirun_free(words);
    if (status < 0)
        return status;
    follow(l);
    remove_shared(l);
    return judge(l, again, err);
}

/* --- all of them ---------------------------------------------------------- */

bool dsf_launch_is_asked(const struct dsf_cli_args *args)
{
    return dsf_flag_value(args, "processes") != NULL ||
           dsf_flag_value(args, "hosts") != NULL ||
           dsf_flag_value(args, "hostfile") != NULL ||
           dsf_flag_value(args, "restarts") != NULL;
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");

        snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, name);
        if (n > 0 && access(file, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static int check(struct launch *l, const char *command, struct dsflow_err *err)
{
    ssize_t n = readlink("/proc/self/exe", l->program, sizeof(l->program) - 1);
    int status = dsf_places_read(&l->places, command, l->args, err);

    if (status < 0)
        return status;
    if (dsf_net_is_inside())
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: -n: mpirun or srun started this process: "
                           "expected no -n, --hosts, --hostfile or --restarts",
                           l->places.command);
    if (!is_in_path("mpirun"))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: -n: there is no mpirun in PATH: expected that "
                           "of Open MPI (openmpi-bin)",
                           l->places.command);
    if (n < 0)
        return dsflow_fail(err, DSFLOW_EIO, "/proc/self/exe: %m");
    /* Said once, here. */
    return dsf_net_version(err) != NULL ? DSFLOW_OK : DSFLOW_EINVAL;
}

/* A host that stays away is left out: its ranks are in the processes of the
 * others then. Where another program than ssh starts processes, it is that
 * which knows. */
static void leave_out(struct launch *l, const struct dsf_places *asked,
                      struct dsf_hosts_left *left)
{
    dsf_hosts_left_free(left);
    l->places = *asked;
    if (asked->hosts == NULL || getenv("SLURM_JOB_ID") != NULL)
        return;
    dsf_hosts_left_find(asked->hosts, left);
    if (left->away == NULL || left->hosts == NULL)
        return;
    dsf_warn("%s cannot be reached: it goes on without", left->away);
    l->places.hosts = left->hosts;
    if (l->places.n > left->room)
        l->places.n = left->room;
}

int dsf_launch(const char *command, const struct dsf_cli_args *args,
               struct dsflow_err *err)
{
    struct launch l = { .args = args };
    char failed[sizeof(err->msg)] = "";
    struct dsf_hosts_left left = { .room = 0 };
    struct dsf_places asked;
    bool again = false;
    int status = check(&l, command, err);

    if (status == DSFLOW_OK)
        status = catch_signals(err);
    if (status < 0)
        return status;
    asked = l.places;
    l.terminal = dsf_screen_look(STDERR_FILENO).terminal;
    for (int64_t n = 0;; n++) {
        status = run_once(&l, n, n > 0 ? failed : NULL, &again, err);
        if (!again || n == l.places.restarts || l.sig != 0)
            break;
        snprintf(failed, sizeof(failed), "%s", err->msg);
        dsf_warn("%s: restart %lld of %lld", failed, (long long)n + 1,
                 (long long)l.places.restarts);
        leave_out(&l, &asked, &left);
    }
    /* What process 0 said of itself was said. */
    if (status < 0 && again && l.found[0] == '\0' && process_of(&l, 0)->ended)
        status = process_of(&l, 0)->status;
    dsf_hosts_left_free(&left);
    free(l.processes);
    return status;
}
