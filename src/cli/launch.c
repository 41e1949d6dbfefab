/* launch.c - the processes of a run, by mpirun, from their start to the end.
 *
 * mpirun is in a session of its own: Ctrl-C at the terminal is for this process
 * alone, which tells process 0, by the signals that mpirun forwards. It would
 * end the others within a second, before they have saved. So SIGTERM and
 * SIGHUP, which service managers send to all processes at once, are blocked in
 * it, and SIGINT is this process's way to end it. What it says itself is not
 * shown but where no process began. */
#include "cli/launch.h"

#include "base/log.h"
#include "base/units.h"
#include "cli/hosts_left.h"
#include "cli/launch_private.h"
#include "cli/screen.h"
#include "net/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* mpirun and all that it started here, which may be in groups of their own, as
 * ssh to a host out of reach is. */
static void kill_all(const struct launch *l)
{
    DIR *all = opendir("/proc");
    const struct dirent *e;

    while (all != NULL && (e = readdir(all)) != NULL) {
        pid_t pid = atoi(e->d_name);

        if (pid > 0 && getsid(pid) == l->mpirun)
            kill(pid, SIGKILL);
    }
    if (all != NULL)
        closedir(all);
}

/* The first makes process 0 save and stop, the second makes it stop, and the
 * third is for what does not answer. */
static void pass_on(struct launch *l, int sig)
{
    double at = dsf_now();

    if (l->sig != 0 && at - l->sig_at < 1)
        return; /* one that was sent to several */
    l->nsigs++;
    l->sig_at = at;
    if (l->sig == 0)
        l->sig = sig;
    if (l->over)
        return;
    if (l->nsigs > 2)
        kill_all(l);
    else if (!l->joined)
        kill(l->mpirun, SIGINT);
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
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD };
    int null = open("/dev/null", O_RDONLY);
    sigset_t blocked;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        signal(all[i], SIG_DFL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGINT);
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
        dsf_tagged_init(&l->streams[i].tagged, dsf_launch_take, &l->streams[i]);
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
 * while it began, or that does not end, and for a host that is out of reach. */
static int time_to_end(struct launch *l)
{
    static const double LONGEST = 5;
    double left = l->ending + LONGEST - dsf_now();

    if (l->over)
        return 0;
    if (l->ending == 0)
        return -1;
    if (left < 0)
        kill_all(l);
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
    dsf_launch_end_lines(l);
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
    if (l->nprocesses > 0)
        memset(l->processes, 0, l->nprocesses * sizeof(*l->processes));
    dsf_mpirun_environment(n, failed);
    words = dsf_mpirun_words(&l->places, l->args, l->program, n > 0);
    status = start(l, words, err);
    dsf_mpirun_free(words);
    if (status < 0)
        return status;
    follow(l);
    return dsf_launch_judge(l, again, err);
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

static int look(struct launch *l, const char *command, struct dsflow_err *err)
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
               dsf_launch_check_fn check, struct dsflow_err *err)
{
    struct launch l = { .args = args };
    char failed[sizeof(err->msg)] = "";
    struct dsf_hosts_left left = { .room = 0 };
    struct dsf_places asked;
    bool again = false;
    int status = look(&l, command, err);

    if (status == DSFLOW_OK && check != NULL)
        status = check(args, l.places.n, err);
    if (status == DSFLOW_OK)
        status = catch_signals(err);
    if (status < 0) {
        free(l.places.read);
        return status;
    }
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
    if (status < 0 && again && l.found[0] == '\0' &&
        dsf_launch_process(&l, 0)->ended)
        status = dsf_launch_process(&l, 0)->status;
    if (status == DSFLOW_OK && l.unwritten)
        status =
            dsflow_fail(err, DSFLOW_EIO, "standard output cannot be written");
    dsf_hosts_left_free(&left);
    free(asked.read);
    free(l.processes);
    return status;
}
