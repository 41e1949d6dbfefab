/* watch.c - the life of the other processes: as it begins and ends, and what it
 * is told. */
#include "net/watch_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "net/pass.h"
#include "net/reach.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum tag { ADDRESS = DSF_OWN_TAGS + 64, ALL, REACHED, GO };

struct dsf_the_watch dsf_the_watch = { .listening = -1,
                                       .lock = PTHREAD_MUTEX_INITIALIZER };

struct dsf_watch_name dsf_watch_name(int32_t process)
{
    struct dsf_watch_name name;

    if (dsf_the_watch.open)
        snprintf(name.s, sizeof(name.s), "process %d (host %.60s)",
                 (int)process, dsf_the_watch.all[process].host);
    else
        snprintf(name.s, sizeof(name.s), "process %d", (int)process);
    return name;
}

int dsf_watch_listen(struct dsf_watch_address *own, struct dsflow_err *err)
{
    *own = (struct dsf_watch_address){ .port = 0 };
    if (gethostname(own->host, sizeof(own->host) - 1) < 0)
        snprintf(own->host, sizeof(own->host), "unknown");
    if (getrandom(&own->secret, sizeof(own->secret), 0) < 0)
        own->secret = (uint64_t)getpid();
    dsf_the_watch.listening = dsf_reach_listen(own);
    return dsf_the_watch.listening >= 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EIO, "watch: no port can be had: %m");
}

/* Is it process 0 of this run that answers? */
static bool greet(int fd, void *user)
{
    struct dsf_watch_peer p = { .fd = fd };
    struct dsf_watch_word answer;

    dsf_watch_say(&p, DSF_WATCH_HELLO, NULL);
    return p.left == 0 &&
           dsf_reach_get(fd, &answer, sizeof(answer), DSF_WATCH_REACH) &&
           answer.what == DSF_WATCH_HELLO &&
           answer.secret == dsf_the_watch.secret && answer.process == 0;
}

int dsf_watch_begin(int32_t process, int32_t nprocesses,
                    const struct dsf_watch_address *all, dsf_watch_end *end,
                    struct dsflow_err *err)
{
    double now = dsf_now();

    dsf_the_watch.process = process;
    dsf_the_watch.n = nprocesses;
    dsf_the_watch.end = end;
    dsf_the_watch.secret = all[0].secret;
    dsf_the_watch.all =
        dsf_xcalloc((size_t)nprocesses, sizeof(*dsf_the_watch.all));
    memcpy(dsf_the_watch.all, all,
           (size_t)nprocesses * sizeof(*dsf_the_watch.all));
    dsf_the_watch.peers =
        dsf_xcalloc((size_t)nprocesses, sizeof(*dsf_the_watch.peers));
    dsf_the_watch.polls =
        dsf_xcalloc((size_t)nprocesses + 2, sizeof(*dsf_the_watch.polls));
    dsf_the_watch.own = (struct dsf_watch_word){ .process = process,
                                                 .secret = dsf_the_watch.secret,
                                                 .patience = 60,
                                                 .state = { .from = -1 } };
    dsf_the_watch.told = dsf_the_watch.own;
    dsf_the_watch.waits_for = -1;
    dsf_the_watch.moved = now;
    for (int32_t i = 0; i < nprocesses; i++) {
        dsf_the_watch.peers[i].fd = -1;
        dsf_the_watch.peers[i].heard = now;
        dsf_the_watch.peers[i].awaited = process == 0 && i > 0;
    }
    if (pipe2(dsf_the_watch.wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "watch: %m");
    if (process > 0)
        dsf_the_watch.peers[0].fd =
            dsf_reach(&all[0], DSF_WATCH_REACH, greet, NULL);
    if (process > 0 && dsf_the_watch.peers[0].fd < 0)
        return dsflow_fail(err, DSFLOW_EIO,
                           "watch: process 0 (host %s) cannot be reached by "
                           "TCP on port %u",
                           all[0].host, (unsigned)all[0].port);
    dsf_the_watch.open =
        pthread_create(&dsf_the_watch.thread, NULL, dsf_watch_work, NULL) == 0;
    return dsf_the_watch.open ? DSFLOW_OK
                              : dsflow_fail(err, DSFLOW_EIO,
                                            "watch: no thread can be started");
}

static int tell_addresses(struct dsf_wire *wire, struct dsf_watch_address *all,
                          struct dsflow_err *err)
{
    size_t bytes = (size_t)wire->nprocesses * sizeof(*all);
    int status = DSFLOW_OK;

    if (wire->process > 0) {
        status = dsf_pass(wire, true, 0, ADDRESS, &all[wire->process],
                          sizeof(*all), err);
        return status == DSFLOW_OK
                   ? dsf_pass(wire, false, 0, ALL, all, bytes, err)
                   : status;
    }
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = dsf_pass(wire, false, p, ADDRESS, &all[p], sizeof(*all), err);
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = dsf_pass(wire, true, p, ALL, all, bytes, err);
    return status;
}

/* Those that are not reached are not waited for. None goes on before all have
 * tried: it could fail, and process 0 end before another has reached it. */
static int find_reached(struct dsf_wire *wire, int reached,
                        struct dsflow_err *err)
{
    int32_t mine = reached == DSFLOW_OK, alone = -1;
    int status = DSFLOW_OK;

    if (wire->process > 0) {
        status = dsf_pass(wire, true, 0, REACHED, &mine, sizeof(mine), err);
        return status == DSFLOW_OK
                   ? dsf_pass(wire, false, 0, GO, &mine, sizeof(mine), err)
                   : status;
    }
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++) {
        int32_t theirs = 0;

        status =
            dsf_pass(wire, false, p, REACHED, &theirs, sizeof(theirs), err);
        if (!theirs && alone < 0)
            alone = p;
    }
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.unreached = alone >= 0;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = dsf_pass(wire, true, p, GO, &mine, sizeof(mine), err);
    if (status == DSFLOW_OK && alone >= 0)
        return dsflow_fail(err, DSFLOW_EIO,
                           "process %d (host %s) cannot be watched: it does "
                           "not reach host %s by TCP",
                           (int)alone, dsf_the_watch.all[alone].host,
                           dsf_the_watch.all[0].host);
    return status;
}

int dsf_watch_open(struct dsf_wire *wire, dsf_watch_end *end,
                   struct dsflow_err *err)
{
    struct dsf_watch_address *all =
        dsf_xcalloc((size_t)wire->nprocesses, sizeof(*all));
    int status = dsf_watch_listen(&all[wire->process], err), reached;
    struct dsflow_err other;

    /* One that has no port takes part, and reaches nobody. */
    reached = tell_addresses(wire, all, &other);
    if (reached == DSFLOW_OK)
        reached =
            dsf_watch_begin(wire->process, wire->nprocesses, all, end, &other);
    free(all);
    if (reached < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, (enum dsflow_status)reached, "%s", other.msg);
    reached = find_reached(wire, reached, &other);
    if (reached < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, (enum dsflow_status)reached, "%s", other.msg);
    return status;
}

/* Returns whether there was one, which no other thread stops. */
static bool stop_thread(void)
{
    bool was;

    if (!dsf_the_watch.open)
        return false;
    pthread_mutex_lock(&dsf_the_watch.lock);
    was = dsf_the_watch.closing;
    dsf_the_watch.closing = true;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    if (was || write(dsf_the_watch.wake[1], "", 1) < 0)
        return false; /* it looks twice a second */
    pthread_join(dsf_the_watch.thread, NULL);
    return true;
}

static void end_thread(enum dsf_watch_what what, const char *text)
{
    if (!stop_thread())
        return;
    for (int32_t i = 0; i < dsf_the_watch.n; i++) {
        struct dsf_watch_peer *p = &dsf_the_watch.peers[i];

        dsf_watch_say(p, what, text);
        if (p->fd >= 0) {
            shutdown(p->fd, SHUT_WR);
            close(p->fd);
        }
    }
    dsf_the_watch.open = false;
    if (dsf_the_watch.listening >= 0)
        close(dsf_the_watch.listening);
    close(dsf_the_watch.wake[0]);
    close(dsf_the_watch.wake[1]);
    free(dsf_the_watch.peers);
    free(dsf_the_watch.polls);
    free(dsf_the_watch.all);
}

void dsf_watch_close(void)
{
    end_thread(DSF_WATCH_BYE, NULL);
}

void dsf_watch_failed(const char *why)
{
    end_thread(DSF_WATCH_FAILED, why);
}

void dsf_watch_give_up(const char *why)
{
    if (!stop_thread())
        return;
    if (dsf_the_watch.process == 0)
        dsf_watch_end_all(why);
    dsf_watch_say(&dsf_the_watch.peers[0], DSF_WATCH_FAILED, why);
    dsf_watch_end_all(NULL);
}

void dsf_watch_look(void (*look)(void *user, struct dsf_watch_state *state),
                    void *user)
{
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.look = look;
    dsf_the_watch.user = user;
    pthread_mutex_unlock(&dsf_the_watch.lock);
}

/* Others are to know at once. */
static void hurry(void)
{
    if (dsf_the_watch.open && write(dsf_the_watch.wake[1], "", 1) < 0)
        return; /* it is in a hurry */
}

void dsf_watch_ranks(int32_t first, int32_t n)
{
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.told.first = first;
    dsf_the_watch.told.nranks = n;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    hurry();
}

void dsf_watch_step(int64_t step)
{
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.told.step = step;
    pthread_mutex_unlock(&dsf_the_watch.lock);
}

void dsf_watch_patience(double seconds)
{
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.told.patience = seconds;
    pthread_mutex_unlock(&dsf_the_watch.lock);
    hurry();
}

void dsf_watch_waits(int32_t process, const char *what)
{
    if (!dsf_the_watch.open)
        return;
    pthread_mutex_lock(&dsf_the_watch.lock);
    dsf_the_watch.came += what == NULL;
    dsf_the_watch.waits_for = what != NULL ? process : -1;
    dsf_the_watch.waits_since = dsf_now();
    snprintf(dsf_the_watch.waits, sizeof(dsf_the_watch.waits), "%s",
             what != NULL ? what : "");
    pthread_mutex_unlock(&dsf_the_watch.lock);
}
