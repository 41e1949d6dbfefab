/* watch.h - the processes of a run know of each other's life, by a connection
 * of each to process 0 beside what carries messages, and a thread of its own in
 * each. One that dies ends the run within a second, and one that is silent, or
 * does nothing of what others wait for, when patience is over: all of them end
 * with status 1. Process 0 says why, or, where it is that one itself, the
 * lowest that lives. */
#ifndef DSF_NET_WATCH_H
#define DSF_NET_WATCH_H

#include "net/wire.h"

/* What a process has done, and what it waits for. */
struct dsf_watch_state {
    uint64_t ended;  /* tasks, and what dsf_watch_waits waited for */
    char task[96];   /* one that runs; "": none does */
    char awaits[96]; /* the one that has been awaited longest, … */
    int32_t from;    /* … of this process; -1: none is */
    int32_t zero;
    double waited; /* for so many seconds */
};

/* Where the watch of a process is reached. */
struct dsf_watch_address {
    char host[64];
    uint64_t secret; /* of process 0: nobody else is heard */
    uint32_t ips[16]; /* as sin_addr has them; 0: no more */
    uint32_t port;
    uint32_t zero;
};

/* Called once, on a thread of its own, when the run ends by a death: `why` is
 * to be said, NULL: another process says it. `cut_off`: process 0 is silent,
 * and so may be its host. The process then exits. */
typedef void dsf_watch_end(const char *why, bool cut_off);

/* Before dsf_net_open: where dsf_watch_met is not called within so many
 * milliseconds, `end` is told so, and the process exits with status 1. */
enum { DSF_WATCH_MEET = 60000 };
void dsf_watch_meet(int milliseconds, dsf_watch_end *end);
void dsf_watch_met(void);

/* Between dsf_net_open and dsf_net_close, in all of the processes. DSFLOW_EIO:
 * process 0 cannot be reached, or not from all: these are not watched. */
int dsf_watch_open(struct dsf_wire *wire, dsf_watch_end *end,
                   struct dsflow_err *err);

/* What follows does nothing where no watch is open. */

/* This process ends, and all is well. */
void dsf_watch_close(void);

/* This process ends, as something failed that it could not tell: process 0 says
 * so. */
void dsf_watch_failed(const char *why);

/* Something failed that others wait for where they cannot be told: all of them
 * end with status 1, this one, too, and process 0 says why. */
void dsf_watch_give_up(const char *why);

/* `look` tells what there is, on any thread, until it is set anew. NULL: there
 * is nothing to tell. */
void dsf_watch_look(void (*look)(void *user, struct dsf_watch_state *state),
                    void *user);

/* This process has these ranks. */
void dsf_watch_ranks(int32_t first, int32_t n);

/* In process 0: the step that is under way, from 1; and the seconds after which
 * silence is an end (0: never), which are 60 before. */
void dsf_watch_step(int64_t step);
void dsf_watch_patience(double seconds);

/* Of a message that this thread waits for: `what` is to come from a process;
 * NULL: it has come. */
void dsf_watch_waits(int32_t process, const char *what);

/* "process 1 (host b)" */
struct dsf_watch_name {
    char s[160];
};
struct dsf_watch_name dsf_watch_name(int32_t process);

/* The two halves of dsf_watch_open, between which addresses are exchanged.
 */
int dsf_watch_listen(struct dsf_watch_address *own, struct dsflow_err *err);
int dsf_watch_begin(int32_t process, int32_t nprocesses,
                    const struct dsf_watch_address *all, dsf_watch_end *end,
                    struct dsflow_err *err);

#endif
