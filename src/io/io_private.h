/* io_private.h - what the files of this folder share. Who calls only needs
 * io.h. */
#ifndef DSF_IO_IO_PRIVATE_H
#define DSF_IO_IO_PRIVATE_H

#include "io/io.h"

#include <libaio.h>
#include <pthread.h>
#include <stdatomic.h>

struct dsf_io_file {
    int fd;
    char *path; /* the folder, for messages */
};

/* A piece of a request: what it has in one block, as one transfer. */
struct dsf_io_piece {
    struct iocb cb;
    struct dsf_io_request *request;
    unsigned file;
    char *memory;
    int64_t offset;      /* in the store */
    int64_t at;          /* in the file */
    size_t bytes, moved; /* in all, and so far */
    struct dsf_io_piece *next;
};

struct dsf_io_queue {
    struct dsf_io_request *first, *last;
};

struct dsf_io_sums; /* of what was written; io_verify.c */

struct dsf_io {
    size_t block;
    unsigned depth, nfiles;
    int64_t size; /* a multiple of DSF_IO_ALIGN */
    struct dsf_io_file *files;
    struct dsf_io_info info;
    struct dsf_io_sums *sums; /* NULL: not asked for */

    pthread_t thread;
    int wake; /* an eventfd: a request came, a transfer is over, the end */
    pthread_mutex_t lock;
    struct dsf_io_queue inbox; /* what was submitted; under the lock */
    bool closing;              /* under the lock */

    /* Only the engine's thread touches what follows. */
    io_context_t context;          /* where info.async */
    struct dsf_io_queue queues[2]; /* by enum dsf_io_op, in order */
    unsigned *flying[2];           /* of each file */
    struct dsf_io_piece *pieces, *unused;
    struct dsf_io_piece *waiting, **waiting_end; /* to be sent */
    unsigned npieces, nsent;                     /* there are; in the kernel */
    double last_end[2];
    bool again; /* something changed: more can be begun */

    _Atomic uint64_t moved[2]; /* bytes, by enum dsf_io_op */
};

/* io_file.c: a file without a name in the folder `path`, with its space. What
 * it cannot do goes to `info`. */
int dsf_io_file_open(struct dsf_io_file *file, const char *path, int64_t bytes,
                     struct dsf_io_info *info, struct dsflow_err *err);
void dsf_io_file_close(struct dsf_io_file *file);

/* io_engine.c: the thread. */
int dsf_io_engine_start(struct dsf_io *io, struct dsflow_err *err);
void dsf_io_engine_stop(struct dsf_io *io);
void dsf_io_engine_wake(struct dsf_io *io);

/* io_verify.c */
struct dsf_io_sums *dsf_io_sums_new(int64_t size, size_t block);
void dsf_io_sums_free(struct dsf_io_sums *sums);
/* Offsets of the store: a piece, which is in one block. */
void dsf_io_sums_drop(struct dsf_io_sums *sums, int64_t offset, size_t bytes);
void dsf_io_sums_note(struct dsf_io_sums *sums, const void *memory,
                      int64_t offset, size_t bytes);
/* Is what was read what was written, as far as is known? */
bool dsf_io_sums_match(const struct dsf_io_sums *sums, const void *memory,
                       int64_t offset, size_t bytes);

static inline void dsf_io_push(struct dsf_io_queue *q, struct dsf_io_request *r)
{
    r->next = NULL;
    if (q->first == NULL)
        q->first = r;
    else
        q->last->next = r;
    q->last = r;
}

static inline size_t dsf_io_aligned(size_t bytes)
{
    return (bytes + DSF_IO_ALIGN - 1) / DSF_IO_ALIGN * DSF_IO_ALIGN;
}

#endif
