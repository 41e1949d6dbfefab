/* watch_private.h - what the files of the watch have together. */
#ifndef DSF_NET_WATCH_PRIVATE_H
#define DSF_NET_WATCH_PRIVATE_H

#include "net/watch.h"

#include <poll.h>
#include <pthread.h>

/* Milliseconds: between two words; to reach another process, at one address. */
enum { DSF_WATCH_BEAT = 250, DSF_WATCH_REACH = 1000 };

enum dsf_watch_what {
    DSF_WATCH_HELLO = 0x64735701,
    DSF_WATCH_LIVES,
    DSF_WATCH_FAILED,
    DSF_WATCH_ENDS,
    DSF_WATCH_BYE
};

struct dsf_watch_word {
    uint32_t what;   /* enum dsf_watch_what */
    int32_t process; /* that says it */
    uint64_t secret;
    int64_t step;    /* of process 0: that is under way, */
    double patience; /* and this */
    int32_t first, nranks;
    struct dsf_watch_state state;
    char text[400];
};

/* Another process. */
struct dsf_watch_peer {
    int fd;        /* -1: it is not watched, or has ended */
    bool awaited;  /* it has not said who it is as yet */
    bool bye;      /* it ends, and all is well */
    double heard;  /* when */
    char task[96]; /* the last one that it was seen to run */
    struct dsf_watch_word last;
    struct dsf_watch_word in; /* as much of it as has come */
    size_t got;
    struct dsf_watch_word out; /* as much of it as is still to go */
    size_t left;
};

extern struct dsf_the_watch {
    pthread_t thread;
    pthread_mutex_t lock; /* of what other threads set */
    bool open, closing;
    int wake[2];
    int listening;
    uint64_t secret;
    int32_t process, n;
    struct dsf_watch_address *all;
    struct dsf_watch_peer
        *peers; /* by process; of others than 0, only the first */
    struct pollfd *polls;

    struct dsf_watch_word own;  /* of the thread, */
    struct dsf_watch_word told; /* and what others have told it */
    bool unreached;             /* some do not reach this one */
    void (*look)(void *, struct dsf_watch_state *);
    void *user;
    int32_t waits_for;
    char waits[96];
    double waits_since;
    uint64_t came; /* how often what was waited for has come */

    uint64_t ended; /* tasks of all processes, when one last ended: */
    double moved;
    dsf_watch_end *end;
    bool cut_off; /* see dsf_watch_end */
} dsf_the_watch;

/* watch_thread.c: from its beginning until it is closing. */
void *dsf_watch_work(void *arg);

/* Nothing where what was said before has not gone. */
void dsf_watch_say(struct dsf_watch_peer *p, enum dsf_watch_what what,
                   const char *text);

/* The run ends, in all processes: as process 0 says, or as it was lost. */
_Noreturn void dsf_watch_end_all(const char *why);
_Noreturn void dsf_watch_lost_first(const char *why);

/* watch_judge.c: a process has ended without a word, or said that it failed. */
_Noreturn void dsf_watch_died(int32_t process);

/* Ends the run where one is silent, or no task ends. */
void dsf_watch_judge(double now);

#endif
