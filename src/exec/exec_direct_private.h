/* exec_direct_private.h - what the files of messages between GPUs share. */
#ifndef DSF_EXEC_EXEC_DIRECT_PRIVATE_H
#define DSF_EXEC_EXEC_DIRECT_PRIVATE_H

#include "exec/exec_direct.h"
#include "exec/nccl.h"
#include "graph/part.h"

enum {
    DSF_DIRECT_GO = DSF_GRAPH_TAGS, /* added to the tag of a message */
    DSF_DIRECT_MEET = DSF_OWN_TAGS + 112,
    DSF_DIRECT_WORD
};

struct dsf_direct_comm {
    const struct dsf_nccl *nccl;
    const struct dsf_device *device; /* that is the member, … */
    int32_t member;                  /* … of this number */
    pthread_mutex_t lock;            /* one thread at a time */
    void *at;                        /* NULL: it was left */
};

/* From a GPU of this process to one of another, or back. */
struct dsf_way {
    struct dsf_device *device;
    int32_t process;
    unsigned gpu; /* there */
    bool out;
    uint64_t sender, receiver; /* of all GPUs of the job: their places */
    void *place;               /* of the first message */
    struct dsf_direct_comm *comm;
    int32_t number; /* of the other GPU in it */
};

/* What a GPU is to receive: ready at both ends. */
struct dsf_parcel;
struct dsf_direct_line {
    struct dsf_parcel *first, **last;
    bool busy; /* with one that is not in the line any more */
};

/* What a process says once: how it went, and where it went wrong. */
struct dsf_direct_word {
    int32_t status, process;
    char msg[248];
};
struct dsf_direct_other {
    struct dsf_direct *direct;
    int32_t process;
    struct dsf_direct_word theirs, ours;
    struct dsf_message in, out;
};

struct dsf_direct {
    struct dsflow_exec *exec;
    const struct dsf_nccl *nccl;
    struct dsf_way *ways;
    size_t nways, cap_ways;
    uint64_t *gpus; /* of all processes, that send or receive: their places, in
                       order */
    size_t ngpus, cap_gpus, nown; /* of this process */
    struct dsf_direct_comm *comms;
    size_t ncomms;
    struct dsf_direct_other *others; /* processes */
    size_t nothers;

    pthread_mutex_t lock; /* of these: */
    pthread_cond_t changed;
    struct dsf_direct_line *lines; /* by device */
    size_t left;                   /* words that have not come, or not gone */
    bool joined, said, parts;

    pthread_t looker;
    bool looks; /* it is there */
};

/* The GPU of its node that a rank is on. */
static inline unsigned dsf_direct_gpu(const struct dsf_device *device,
                                      int32_t rank)
{
    return (unsigned)rank % device->all;
}

struct dsf_way *dsf_direct_way(const struct dsf_direct *d,
                               const struct dsf_device *device, int32_t process,
                               unsigned gpu, bool out);

/* --- exec_direct_comms.c: which one carries a message ----------------------
 */

/* How many there are for so many GPUs. */
unsigned dsf_direct_comms(size_t gpus);

/* Which of them carries what one of the GPUs sends to another. */
unsigned dsf_direct_comm(unsigned comms, size_t from, size_t to);

/* --- exec_direct_join.c: communicators ------------------------------------ */

/* One end of a message on a way, into a stream; returns what went wrong. */
const char *dsf_direct_put(struct dsf_direct *d, const struct dsf_way *w,
                           void *at, size_t bytes, void *stream);

/* Leave all of them, which ends what is under way; from any thread. Where NCCL
 * does not return from one of them, it ends the run: `why` is to be said. */
void dsf_direct_leave(struct dsf_direct *d, const char *why);

/* --- exec_direct_look.c: what goes wrong in between ------------------------
 */

/* A thread looks for them, which fail all, until it looks no more. Without a
 * thread nobody does. */
void dsf_direct_look(struct dsf_direct *d);
void dsf_direct_look_no_more(struct dsf_direct *d);

/* --- exec_direct_words.c: what processes say of how it went ----------------
 */

/* From now on each of the others says one word, and is told one. */
void dsf_direct_listen(struct dsf_direct *d);

/* A message did not get there, and the run has failed: others wait for it, or
 * for one that comes behind it, and their GPUs cannot know. */
void dsf_direct_say_lost(struct dsf_direct *d, const struct dsflow_err *err);

/* All is well, and until the others have said something. */
void dsf_direct_part(struct dsf_direct *d);

#endif
