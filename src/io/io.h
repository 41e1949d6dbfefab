/* io.h - the I/O engine: files striped over disks, many requests in flight.
 *
 * A *store* is one range of bytes, striped block by block over a file on each
 * path. The files have no name: the kernel frees them when the program ends,
 * also by kill -9, so no other job's file can be met or removed. Requests are
 * cut in blocks; reads and writes have a queue each, in the order they came,
 * and up to `depth` blocks of each are in flight on each path (libaio,
 * O_DIRECT). Where a file system refuses either, the store says so and uses
 * what there is: the same results, through the page cache.
 */
#ifndef DSF_IO_IO_H
#define DSF_IO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

/* Memory, offsets and lengths of requests are multiples of this. */
enum {
    DSF_IO_ALIGN = 4096,
    DSF_IO_MOST_BLOCK = 1 << 30 /* the kernel moves 2 GiB at once, at most */
};
/* Of a store that does not ask for others. */
enum { DSF_IO_BLOCK = 1 << 20, DSF_IO_DEPTH = 4 };

struct dsf_io;

struct dsf_io_options {
    const char *const *paths; /* folders that exist and can be written */
    unsigned npaths;
    size_t block;   /* a multiple of DSF_IO_ALIGN; 0: DSF_IO_BLOCK */
    unsigned depth; /* blocks in flight for each path and direction; 0:
                       DSF_IO_DEPTH */
    int64_t size;   /* bytes of the store, reserved at once */
    bool verify;    /* keep a checksum (XXH3) of what each request wrote in each
                       block, and check it when a request reads all of that */
};

/* How the store works: what was refused, and why. */
struct dsf_io_info {
    bool direct;      /* O_DIRECT; else through the page cache */
    bool async;       /* libaio; else pread and pwrite */
    char remark[200]; /* one line for people where either is false; or "" */
};

enum dsf_io_op { DSF_IO_READ, DSF_IO_WRITE };

/* One transfer between memory and the store. It belongs to the caller, and must
 * live until `done` was called. */
struct dsf_io_request {
    enum dsf_io_op op;
    void *memory;   /* aligned */
    int64_t offset; /* in the store, aligned */
    size_t bytes;   /* any number: the rest of the last DSF_IO_ALIGN is moved
                       too, so that `memory` has room for it */
    /* Called once, on the engine's thread, when the transfer is over. It must be
     * short. It may submit other requests, and free this one. */
    void (*done)(struct dsf_io_request *request);
    void *user;

    /* Filled in by the engine, before `done`. */
    int status;           /* DSFLOW_OK, or what went wrong: */
    struct dsflow_err err; /* "PATH: read of N bytes at OFFSET: reason" */
    double start, end; /* dsf_now: when the disk began with it (not before it
                          was over with the request before), when it was done */

    struct dsf_io_request *next; /* the engine's */
    size_t begun;                /* bytes that were given to the disk */
    unsigned flying;             /* blocks that it works on */
};

/* Opens a file on each path and reserves the space. Errors, one line each:
 * DSFLOW_EINVAL a path that is no folder, is not there or cannot be written, a
 * size of 0, a block that is no multiple; DSFLOW_EIO no room, with what is
 * needed and what is free on that path. */
int dsf_io_open(const struct dsf_io_options *options, struct dsf_io **io,
                struct dsflow_err *err);
/* Waits for what is under way. NULL is fine. */
void dsf_io_close(struct dsf_io *io);
void dsf_io_info(const struct dsf_io *io, struct dsf_io_info *info);

/* Take the request into its queue; from any thread. Bytes that were never
 * written read as zeroes. */
void dsf_io_submit(struct dsf_io *io, struct dsf_io_request *request);

/* Submit, and wait for it. */
int dsf_io_read(struct dsf_io *io, void *memory, int64_t offset, size_t bytes,
                struct dsflow_err *err);
int dsf_io_write(struct dsf_io *io, const void *memory, int64_t offset,
                 size_t bytes, struct dsflow_err *err);

/* Bytes moved since it was opened. */
struct dsf_io_stats {
    uint64_t read, written;
};
void dsf_io_stats(const struct dsf_io *io, struct dsf_io_stats *stats);

/* For measurements: other blocks, and a depth of at most that of dsf_io_open,
 * while nothing is under way, without `verify`. The files keep their sizes:
 * these must be a multiple of the block. What was written is not found again
 * where there are several paths. */
void dsf_io_tune(struct dsf_io *io, size_t block, unsigned depth);

/* The file on path `i`: for other programs to be measured with, and for tests
 * to do damage. */
int dsf_io_fd(const struct dsf_io *io, unsigned i);

/* Memory for transfers: aligned, in huge pages where the kernel gives them, and
 * locked where it may be (else the kernel pins it anew for every request).
 * NULL with a message: there is no more. */
void *dsf_io_alloc(size_t bytes, struct dsflow_err *err);
void dsf_io_free(void *memory, size_t bytes);

#endif
