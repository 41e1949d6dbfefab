/* io.c - a store: opened, asked for transfers, closed. */
#include "io/io_private.h"

#include "base/alloc.h"
#include "base/awaited.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 1024 };

static int check_options(const struct dsf_io_options *o, struct dsflow_err *err)
{
    if (o->npaths == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "no folder for the files: expected one or more");
    if (o->size <= 0 || o->size > INT64_MAX / 2)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%.200s: a size of %lld bytes: expected 1 or more",
                           o->paths[0], (long long)o->size);
    if (o->block % DSF_IO_ALIGN != 0 || o->block > DSF_IO_MOST_BLOCK)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "a block of %zu bytes: expected a multiple of %d, "
                           "at most 1GiB",
                           o->block, DSF_IO_ALIGN);
    if (o->depth > MOST_DEPTH)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "a depth of %u: expected 1 to %d", o->depth,
                           MOST_DEPTH);
    return DSFLOW_OK;
}

/* Of file i: every nfiles-th block, of which the last may be a part. */
static int64_t file_bytes(const struct dsf_io *io, unsigned i)
{
    int64_t block = (int64_t)io->block, nfiles = io->nfiles;
    int64_t nblocks = (io->size + block - 1) / block;
    int64_t bytes = (nblocks + nfiles - 1 - i) / nfiles * block;

    if ((nblocks - 1) % nfiles == i)
        bytes -= nblocks * block - io->size;
    return bytes;
}

static int open_files(struct dsf_io *io, const char *const *paths,
                      struct dsflow_err *err)
{
    int status = DSFLOW_OK;
    unsigned i = 0;

    while (i < io->nfiles && status == DSFLOW_OK) {
        status = dsf_io_file_open(&io->files[i], paths[i], file_bytes(io, i),
                                  &io->info, err);
        i += status == DSFLOW_OK;
    }
    if (status < 0)
        io->nfiles = i; /* those that are to be closed */
    return status;
}

static void make_pieces(struct dsf_io *io)
{
    io->npieces = 2 * io->depth * io->nfiles;
    io->pieces = dsf_xcalloc(io->npieces, sizeof(*io->pieces));
    for (unsigned i = 0; i < io->npieces; i++) {
        io->pieces[i].next = io->unused;
        io->unused = &io->pieces[i];
    }
    for (int op = 0; op < 2; op++)
        io->flying[op] = dsf_xcalloc(io->nfiles, sizeof(*io->flying[op]));
    io->waiting_end = &io->waiting;
}

static void free_store(struct dsf_io *io)
{
    for (unsigned i = 0; i < io->nfiles; i++)
        dsf_io_file_close(&io->files[i]);
    for (int op = 0; op < 2; op++)
        free(io->flying[op]);
    dsf_io_sums_free(io->sums);
    pthread_mutex_destroy(&io->lock);
    free(io->pieces);
    free(io->files);
    free(io);
}

int dsf_io_open(const struct dsf_io_options *options, struct dsf_io **out,
                struct dsflow_err *err)
{
    int status = check_options(options, err);
    struct dsf_io *io;

    if (status < 0)
        return status;
    io = dsf_xcalloc(1, sizeof(*io));
    io->block = options->block > 0 ? options->block : DSF_IO_BLOCK;
    io->depth = options->depth > 0 ? options->depth : DSF_IO_DEPTH;
    io->size = (int64_t)dsf_io_aligned((size_t)options->size);
    io->nfiles = options->npaths;
    io->files = dsf_xcalloc(io->nfiles, sizeof(*io->files));
    io->info.direct = true;
    pthread_mutex_init(&io->lock, NULL);
    status = open_files(io, options->paths, err);
    if (status == DSFLOW_OK) {
        make_pieces(io);
        if (options->verify)
            io->sums = dsf_io_sums_new(io->size, io->block);
        status = dsf_io_engine_start(io, err);
    }
    if (status < 0)
        free_store(io);
    else
        *out = io;
    return status;
}

void dsf_io_close(struct dsf_io *io)
{
    if (io == NULL)
        return;
    dsf_io_engine_stop(io);
    free_store(io);
}

void dsf_io_info(const struct dsf_io *io, struct dsf_io_info *info)
{
    *info = io->info;
}

void dsf_io_submit(struct dsf_io *io, struct dsf_io_request *r)
{
    r->status = DSFLOW_OK;
    r->begun = 0;
    r->flying = 0;
    pthread_mutex_lock(&io->lock);
    dsf_io_push(&io->inbox, r);
    pthread_mutex_unlock(&io->lock);
    dsf_io_engine_wake(io);
}

static void tell(struct dsf_io_request *r)
{
    dsf_awaited_end(r->user);
}

static int transfer(struct dsf_io *io, enum dsf_io_op op, void *memory,
                    int64_t offset, size_t bytes, struct dsflow_err *err)
{
    struct dsf_awaited end = DSF_AWAITED;
    struct dsf_io_request r = { .op = op,
                                .memory = memory,
                                .offset = offset,
                                .bytes = bytes,
                                .done = tell,
                                .user = &end };

    dsf_io_submit(io, &r);
    dsf_awaited_wait(&end);
    if (r.status < 0 && err != NULL)
        *err = r.err;
    return r.status;
}

int dsf_io_read(struct dsf_io *io, void *memory, int64_t offset, size_t bytes,
                struct dsflow_err *err)
{
    return transfer(io, DSF_IO_READ, memory, offset, bytes, err);
}

int dsf_io_write(struct dsf_io *io, const void *memory, int64_t offset,
                 size_t bytes, struct dsflow_err *err)
{
    /* A write does not change it. */
    return transfer(io, DSF_IO_WRITE, (void *)(uintptr_t)memory, offset, bytes,
                    err);
}

void dsf_io_stats(const struct dsf_io *io, struct dsf_io_stats *stats)
{
    stats->read =
        atomic_load_explicit(&io->moved[DSF_IO_READ], memory_order_relaxed);
    stats->written =
        atomic_load_explicit(&io->moved[DSF_IO_WRITE], memory_order_relaxed);
}

void dsf_io_tune(struct dsf_io *io, size_t block, unsigned depth)
{
    pthread_mutex_lock(&io->lock);
    io->block = block;
    io->depth = depth;
    pthread_mutex_unlock(&io->lock);
}

int dsf_io_fd(const struct dsf_io *io, unsigned i)
{
    return io->files[i].fd;
}
