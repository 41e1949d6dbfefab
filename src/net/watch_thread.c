/* watch_thread.c - what processes tell each other of their life.
 *
 * Each tells process 0 some times a second what it does, and process 0 tells
 * all of them that it lives. Sockets of a process that dies are closed at once
 * by its system; of one that is stopped they stay, and nothing comes. A process
 * that is merely slow goes on telling, and its tasks go on ending. */
#include "net/watch_private.h"

#include "base/units.h"
#include "net/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Seconds that the one that said why stays, so that others find it alive. */
static const double LINGER = 0.5;

static void flush(struct dsf_watch_peer *p)
{
    ssize_t n = 1;

    while (p->fd >= 0 && p->left > 0 && n > 0) {
        n = send(p->fd, (char *)&p->out + sizeof(p->out) - p->left, p->left,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        p->left -= n > 0 ? (size_t)n : 0;
    }
}

void dsf_watch_say(struct dsf_watch_peer *p, enum dsf_watch_what what,
                   const char *text)
{
    flush(p);
    if (p->fd < 0 || p->left > 0)
        return;
    p->out = dsf_the_watch.own;
    p->out.what = what;
    snprintf(p->out.text, sizeof(p->out.text), "%s", text != NULL ? text : "");
    p->left = sizeof(p->out);
    flush(p);
}

static void say_all(enum dsf_watch_what what, const char *text)
{
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        dsf_watch_say(&dsf_the_watch.peers[i], what, text);
}

_Noreturn static void leave(const char *why)
{
    /* It is said before others end, whereupon all may get signals. */
    dsf_the_watch.end(why, dsf_the_watch.cut_off);
    say_all(DSF_WATCH_ENDS, NULL);
    if (why != NULL && dsf_the_watch.process > 0)
        usleep((useconds_t)(1e6 * LINGER));
    _exit(1);
}

_Noreturn void dsf_watch_end_all(const char *why)
{
    leave(why);
}

/* Of those behind process 0, which cannot say it: does one live that has a
 * smaller number? */
static bool is_lowest(void)
{
    bool lowest = true;

    for (int32_t i = 1; i < dsf_the_watch.process && lowest; i++) {
        int fd = dsf_reach(&dsf_the_watch.all[i], 200, NULL, NULL);

        lowest = fd < 0;
        if (fd >= 0)
            close(fd);
    }
    return lowest;
}

_Noreturn void dsf_watch_lost_first(const char *why)
{
    if (is_lowest())
        leave(why);
    /* It may find out a little later, and signals come when the first ends. */
    usleep((useconds_t)(2e6 * LINGER));
    leave(NULL);
}

/* --- before there is a watch ---------------------------------------------- */

static struct {
    pthread_t thread;
    bool begun;
    int milliseconds;
    int met[2]; /* a pipe, of which one end is closed when they have met */
    dsf_watch_end *end;
} meeting;

static void *meet(void *arg)
{
    struct pollfd met = { .fd = meeting.met[0] };
    char why[240];
    int n;

    do
        n = poll(&met, 1, meeting.milliseconds);
    while (n < 0 && errno == EINTR);
    if (n != 0)
        return NULL;
    snprintf(why, sizeof(why),
             "the processes have not met %s after they began: one is stopped, "
             "or cannot reach another (OMPI_MCA_btl_tcp_if_include=eth0 takes "
             "that network alone)",
             dsf_time_text(1e-3 * meeting.milliseconds).s);
    meeting.end(why, false);
    _exit(1);
}

void dsf_watch_meet(int milliseconds, dsf_watch_end *end)
{
    meeting.milliseconds = milliseconds;
    meeting.end = end;
    if (pipe2(meeting.met, O_CLOEXEC) < 0)
        return; /* they may meet all the same */
    meeting.begun = pthread_create(&meeting.thread, NULL, meet, NULL) == 0;
    if (!meeting.begun) {
        close(meeting.met[0]);
        close(meeting.met[1]);
    }
}

void dsf_watch_met(void)
{
    if (!meeting.begun)
        return;
    close(meeting.met[1]);
    pthread_join(meeting.thread, NULL);
    close(meeting.met[0]);
    meeting.begun = false;
}

/* --- what is heard -------------------------------------------------------- */

static void heard(int32_t process, double now)
{
    struct dsf_watch_peer *p = &dsf_the_watch.peers[process];
    struct dsf_watch_word *in = &p->in;

    if (in->secret != dsf_the_watch.secret || in->process != process)
        return;
    in->text[sizeof(in->text) - 1] = '\0';
    in->state.task[sizeof(in->state.task) - 1] = '\0';
    in->state.awaits[sizeof(in->state.awaits) - 1] = '\0';
    if (in->state.from >= dsf_the_watch.n)
        in->state.from = -1;
    p->heard = now;
    p->bye |= in->what == DSF_WATCH_BYE;
    if (in->state.task[0] != '\0')
        memcpy(p->task, in->state.task, sizeof(p->task));
    p->last = *in;
    if (in->what == DSF_WATCH_ENDS)
        leave(NULL);
    if (process == 0) {
        dsf_the_watch.own.step = in->step;
        dsf_the_watch.own.patience = in->patience;
    }
    if (in->what == DSF_WATCH_FAILED)
        dsf_watch_died(process);
}

static void receive(int32_t process, double now)
{
    struct dsf_watch_peer *p = &dsf_the_watch.peers[process];
    ssize_t n;

    while ((n = recv(p->fd, (char *)&p->in + p->got, sizeof(p->in) - p->got,
                     MSG_DONTWAIT)) > 0) {
        p->got += (size_t)n;
        if (p->got == sizeof(p->in)) {
            p->got = 0;
            heard(process, now);
        }
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* Also of a connection that was given up: who knows what is there. */
    close(p->fd);
    p->fd = -1;
    if (!p->bye)
        dsf_watch_died(process);
}

static void look_here(double now)
{
    struct dsf_watch_state *s = &dsf_the_watch.own.state;
    struct dsf_watch_state seen = { .from = -1 };

    pthread_mutex_lock(&dsf_the_watch.lock);
    if (dsf_the_watch.look != NULL)
        dsf_the_watch.look(dsf_the_watch.user, &seen);
    if (seen.from < 0 && dsf_the_watch.waits_for >= 0) {
        seen.from = dsf_the_watch.waits_for;
        seen.waited = now - dsf_the_watch.waits_since;
        snprintf(seen.awaits, sizeof(seen.awaits), "%s", dsf_the_watch.waits);
    }
    seen.ended += dsf_the_watch.came;
    *s = seen;
    dsf_the_watch.own.first = dsf_the_watch.told.first;
    dsf_the_watch.own.nranks = dsf_the_watch.told.nranks;
    if (dsf_the_watch.process == 0) {
        dsf_the_watch.own.step = dsf_the_watch.told.step;
        dsf_the_watch.own.patience = dsf_the_watch.told.patience;
    }
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        dsf_the_watch.peers[i].awaited =
            dsf_the_watch.peers[i].awaited && !dsf_the_watch.unreached;
    pthread_mutex_unlock(&dsf_the_watch.lock);
}

/* A process that says who it is. */
static void take(int fd, double now)
{
    struct dsf_watch_word hello;
    struct dsf_watch_peer *p;

    if (!dsf_reach_get(fd, &hello, sizeof(hello), DSF_WATCH_REACH) ||
        hello.what != DSF_WATCH_HELLO || hello.secret != dsf_the_watch.secret ||
        hello.process < 1 || hello.process >= dsf_the_watch.n ||
        dsf_the_watch.peers[hello.process].fd >= 0) {
        close(fd);
        return;
    }
    p = &dsf_the_watch.peers[hello.process];
    dsf_reach_prepare(fd);
    p->fd = fd;
    p->awaited = false;
    p->heard = now;
    p->last = hello;
    dsf_watch_say(p, DSF_WATCH_HELLO, NULL);
}

static void accept_one(double now)
{
    int fd = accept4(dsf_the_watch.listening, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (dsf_the_watch.process == 0)
        take(fd, now);
    else
        close(fd); /* somebody only asked whether this one lives */
}

/* Process 0 lets nobody in any more when all have come: who only looks which
 * ports there are, and says nothing, would keep it each time. */
static void stop_listening(void)
{
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        if (dsf_the_watch.process > 0 || dsf_the_watch.peers[i].awaited)
            return;
    if (dsf_the_watch.listening >= 0)
        close(dsf_the_watch.listening);
    dsf_the_watch.listening = -1;
}

/* What this process was stopped for itself does not count. */
static void forgive(double seconds)
{
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        dsf_the_watch.peers[i].heard += seconds;
    dsf_the_watch.moved += seconds;
}

/* Returns whether there is something to be said at once. `last`: when it did
 * this before. */
static bool wait_for_words(double last)
{
    nfds_t n = 0;
    double now;
    bool hurry = false;
    char byte;

    dsf_the_watch.polls[n++] =
        (struct pollfd){ .fd = dsf_the_watch.wake[0], .events = POLLIN };
    dsf_the_watch.polls[n++] =
        (struct pollfd){ .fd = dsf_the_watch.listening, .events = POLLIN };
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        dsf_the_watch.polls[n++] =
            (struct pollfd){ .fd = dsf_the_watch.peers[i].fd,
                             .events = POLLIN };
    if (poll(dsf_the_watch.polls, n, DSF_WATCH_BEAT / 2) < 0)
        return false;
    now = dsf_now();
    if (now - last > 4e-3 * DSF_WATCH_BEAT)
        forgive(now - last);
    while (read(dsf_the_watch.wake[0], &byte, 1) == 1)
        hurry = true;
    if (dsf_the_watch.polls[1].revents != 0)
        accept_one(now);
    for (int32_t i = 0; i < dsf_the_watch.n; i++)
        if (dsf_the_watch.polls[2 + i].revents != 0 &&
            dsf_the_watch.peers[i].fd >= 0)
            receive(i, now);
    return hurry;
}

static bool is_closing(void)
{
    bool closing;

    pthread_mutex_lock(&dsf_the_watch.lock);
    closing = dsf_the_watch.closing;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    return closing;
}

void *dsf_watch_work(void *arg)
{
    double last = dsf_now(), next = 0;

    while (!is_closing()) {
        bool hurry = wait_for_words(last);
        double now = dsf_now();

        last = now;
        if (now < next && !hurry)
            continue;
        next = now + 1e-3 * DSF_WATCH_BEAT;
        look_here(now);
        stop_listening();
        say_all(DSF_WATCH_LIVES, NULL);
        dsf_watch_judge(now);
    }
    return NULL;
}
