/* wire.h - what the executor asks of what carries messages between the
 * processes processes of a job. */
#ifndef DSF_NET_WIRE_H
#define DSF_NET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

/* Tags from this one on are of no graph, and of all there are DSF_TAGS: what
 * MPI has over UCX, which it takes on InfiniBand. */
#define DSF_TAGS     (UINT32_C(1) << 23)
#define DSF_OWN_TAGS (DSF_TAGS - 1024)

/* Bytes that go from one process to another. It belongs to who posts it, and
 * must live until it is `done`. */
struct dsf_message {
    void *memory; /* main memory; that of one that goes out is not changed */
    size_t bytes; /* both ends name as many */
    size_t unsent;   /* of one that goes out: of these, so many at its end stay
                        here; of one that comes, filled in before `done` */
    int32_t process; /* from which it comes, or to which it goes */
    uint32_t tag;    /* both ends name the same */
    bool out;
    void (*done)(struct dsf_message *m); /* called once, on any thread; short */
    void *user;

    /* Filled in before `done`. */
    int status;            /* DSFLOW_OK, or what went wrong: */
    struct dsflow_err err; /* "process 1: …" */
    double start, end; /* of dsf_now: its bytes were under way; of what comes
                          that is known from its end back to about there */

    struct dsf_message *next; /* the wire's, */
    unsigned left;            /* and its pieces that are under way */
};

/* Messages of one tag between two processes arrive in the order in which they
 * were posted; others in any order. None waits for one that was posted later.
 */
struct dsf_wire {
    int32_t process, nprocesses; /* this one, of so many */
    const int32_t *hosts; /* by process: the first one that shares memory with
                             it; NULL: all do */
    /* Begin it; from any thread. */
    void (*post)(struct dsf_wire *wire, struct dsf_message *m);
};

/* Are two processes on one host? */
static inline bool dsf_wire_is_near(const struct dsf_wire *wire, int32_t a,
                                    int32_t b)
{
    return wire->hosts == NULL || wire->hosts[a] == wire->hosts[b];
}

#endif
