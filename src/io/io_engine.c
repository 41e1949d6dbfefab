/* io_engine.c - the thread that keeps the disks busy.
 *
 * It sleeps on one eventfd, which is written to by whoever submits a request
 * and, by the kernel, when a transfer is over. Each time it wakes it takes the
 * requests that came, looks at the transfers that are over, begins as many as
 * the depth allows and hands all of them to the kernel at once. */
#include "io/io_private.h"

#include "base/quiet_thread.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const verbs[] = {
    [DSF_IO_READ] = "read", [DSF_IO_WRITE] = "write"
};

static size_t request_bytes(const struct dsf_io_request *r)
{
    return dsf_io_aligned(r->bytes);
}

static void pop(struct dsf_io_queue *q)
{
    q->first = q->first->next;
}

static void finish(struct dsf_io *io, struct dsf_io_request *r)
{
    double *last = &io->last_end[r->op];

    io->again = true; /* `done` may submit */
    r->end = dsf_now();
    r->start = fmax(r->start, *last);
    *last = r->end;
    r->done(r); /* which may free it */
}

/* Where it cannot be: only a bug asks for it, but the store of others must not
 * suffer. */
static bool is_outside(const struct dsf_io *io, const struct dsf_io_request *r)
{
    return r->offset < 0 || r->offset % DSF_IO_ALIGN != 0 ||
           (uintptr_t)r->memory % DSF_IO_ALIGN != 0 ||
           r->bytes > (size_t)io->size ||
           r->offset > io->size - (int64_t)request_bytes(r);
}

static void take(struct dsf_io *io, struct dsf_io_request *r)
{
    r->start = dsf_now();
    if (is_outside(io, r))
        r->status = dsflow_fail(&r->err, DSFLOW_EINVAL,
                                "%s: %s of %zu bytes at %lld: expected an "
                                "aligned range of %lld bytes",
                                io->files[0].path, verbs[r->op], r->bytes,
                                (long long)r->offset, (long long)io->size);
    if (r->status < 0 || r->bytes == 0)
        finish(io, r);
    else
        dsf_io_push(&io->queues[r->op], r);
}

/* Returns true when no more will come. */
static bool take_inbox(struct dsf_io *io)
{
    struct dsf_io_request *r, *next;
    bool closing;

    pthread_mutex_lock(&io->lock);
    r = io->inbox.first;
    io->inbox.first = NULL;
    closing = io->closing;
    pthread_mutex_unlock(&io->lock);
    for (; r != NULL; r = next) {
        next = r->next;
        take(io, r);
    }
    return closing;
}

static void wait_to_be_sent(struct dsf_io *io, struct dsf_io_piece *p)
{
    p->next = NULL;
    *io->waiting_end = p;
    io->waiting_end = &p->next;
}

/* Blocks take turns on the files; `left` is what the block has from there. */
static void locate(const struct dsf_io *io, int64_t offset, unsigned *file,
                   int64_t *at, size_t *left)
{
    int64_t block = offset / (int64_t)io->block;
    int64_t within = offset % (int64_t)io->block;

    *file = (unsigned)(block % io->nfiles);
    *at = block / io->nfiles * (int64_t)io->block + within;
    *left = io->block - (size_t)within;
}

/* The next piece of a request; false: its file has enough to do. */
static bool begin_piece(struct dsf_io *io, struct dsf_io_request *r)
{
    struct dsf_io_piece *p = io->unused;
    size_t left = request_bytes(r) - r->begun, in_block;
    unsigned file;
    int64_t at;

    locate(io, r->offset + (int64_t)r->begun, &file, &at, &in_block);
    if (io->flying[r->op][file] == io->depth)
        return false;
    if (r->begun == 0)
        r->start = dsf_now();
    io->unused = p->next;
    p->request = r;
    p->file = file;
    p->memory = (char *)r->memory + r->begun;
    p->offset = r->offset + (int64_t)r->begun;
    p->at = at;
    p->bytes = left < in_block ? left : in_block;
    p->moved = 0;
    io->flying[r->op][file]++;
    r->flying++;
    r->begun += p->bytes;
    wait_to_be_sent(io, p);
    return true;
}

static void begin_pieces(struct dsf_io *io, enum dsf_io_op op)
{
    struct dsf_io_queue *q = &io->queues[op];

    while (q->first != NULL && begin_piece(io, q->first))
        if (q->first->begun == request_bytes(q->first))
            pop(q);
}

/* What was not begun of a request that failed never is. */
static void piece_over(struct dsf_io *io, struct dsf_io_piece *p)
{
    struct dsf_io_request *r = p->request;
    struct dsf_io_queue *q = &io->queues[r->op];

    io->flying[r->op][p->file]--;
    p->next = io->unused;
    io->unused = p;
    io->again = true;
    r->flying--;
    if (r->status < 0 && r == q->first)
        pop(q);
    if (r->flying == 0 && (r->status < 0 || r->begun == request_bytes(r)))
        finish(io, r);
}

static void piece_failed(struct dsf_io *io, struct dsf_io_piece *p,
                         const char *why)
{
    struct dsf_io_request *r = p->request;

    if (r->status == DSFLOW_OK)
        r->status = dsflow_fail(&r->err, DSFLOW_EIO,
                                "%.200s: %s of %zu bytes at %lld: %s",
                                io->files[p->file].path, verbs[r->op], p->bytes,
                                (long long)p->at, why);
    if (io->sums != NULL && r->op == DSF_IO_WRITE)
        dsf_io_sums_drop(io->sums, p->offset, p->bytes);
    piece_over(io, p);
}

static void piece_moved(struct dsf_io *io, struct dsf_io_piece *p)
{
    enum dsf_io_op op = p->request->op;

    atomic_fetch_add_explicit(&io->moved[op], p->bytes, memory_order_relaxed);
    if (io->sums != NULL && op == DSF_IO_WRITE)
        dsf_io_sums_note(io->sums, p->memory, p->offset, p->bytes);
    if (io->sums != NULL && op == DSF_IO_READ &&
        !dsf_io_sums_match(io->sums, p->memory, p->offset, p->bytes))
        piece_failed(io, p, "the checksum is not that of what was written");
    else
        piece_over(io, p);
}

/* The kernel's answer: the bytes that moved, or an errno below 0. */
static void answer(struct dsf_io *io, struct dsf_io_piece *p, long result)
{
    char why[64];

    if (result < 0) {
        piece_failed(io, p, strerrordesc_np((int)-result));
        return;
    }
    /* Direct transfers go on where a page begins. */
    if (p->moved + (size_t)result < p->bytes)
        result -= result % DSF_IO_ALIGN;
    p->moved += (size_t)result;
    if (p->moved == p->bytes) {
        piece_moved(io, p);
    } else if (result > 0) {
        wait_to_be_sent(io, p);
        io->again = true;
    } else {
        snprintf(why, sizeof(why), "it ends after %zu bytes", p->moved);
        piece_failed(io, p, why);
    }
}

static void transfer_now(struct dsf_io *io)
{
    while (io->waiting != NULL) {
        struct dsf_io_piece *p = io->waiting;
        int fd = io->files[p->file].fd;
        size_t bytes = p->bytes - p->moved;
        off_t at = (off_t)(p->at + (int64_t)p->moved);
        ssize_t n;

        io->waiting = p->next;
        if (io->waiting == NULL)
            io->waiting_end = &io->waiting;
        n = p->request->op == DSF_IO_READ
                ? pread(fd, p->memory + p->moved, bytes, at)
                : pwrite(fd, p->memory + p->moved, bytes, at);
        answer(io, p, n < 0 ? -errno : (long)n);
    }
}

static void fill_in(struct dsf_io *io, struct dsf_io_piece *p)
{
    int fd = io->files[p->file].fd;
    char *memory = p->memory + p->moved;
    size_t bytes = p->bytes - p->moved;
    long long at = p->at + (long long)p->moved;

    if (p->request->op == DSF_IO_READ)
        io_prep_pread(&p->cb, fd, memory, bytes, at);
    else
        io_prep_pwrite(&p->cb, fd, memory, bytes, at);
    p->cb.data = p;
    io_set_eventfd(&p->cb, io->wake);
}

/* As many as the kernel takes; it says what is wrong with the first. */
static void send(struct dsf_io *io)
{
    enum { BATCH = 64 };

    while (io->waiting != NULL) {
        struct iocb *batch[BATCH];
        struct dsf_io_piece *p = io->waiting;
        int n = 0, sent;

        for (; p != NULL && n < BATCH; p = p->next) {
            fill_in(io, p);
            batch[n++] = &p->cb;
        }
        sent = io_submit(io->context, n, batch);
        if (sent == -EAGAIN && io->nsent > 0)
            return; /* when another is over */
        p = io->waiting;
        for (int i = 0; i < (sent > 0 ? sent : 1); i++)
            io->waiting = io->waiting->next;
        if (io->waiting == NULL)
            io->waiting_end = &io->waiting;
        if (sent > 0)
            io->nsent += (unsigned)sent;
        else
            answer(io, p, sent);
    }
}

static void take_answers(struct dsf_io *io)
{
    enum { BATCH = 64 };
    struct io_event events[BATCH];
    struct timespec now = { 0 };
    int n;

    do {
        n = io_getevents(io->context, 0, BATCH, events, &now);
        for (int i = 0; i < n; i++) {
            io->nsent--;
            answer(io, events[i].data, (long)events[i].res);
        }
    } while (n == BATCH);
}

/* Everything that can be done now. Returns true when all is over. */
static bool work(struct dsf_io *io)
{
    bool closing;

    do {
        io->again = false;
        closing = take_inbox(io);
        if (io->info.async)
            take_answers(io);
        begin_pieces(io, DSF_IO_READ);
        begin_pieces(io, DSF_IO_WRITE);
        if (io->info.async)
            send(io);
        else
            transfer_now(io);
    } while (io->again);
    return closing && io->nsent == 0;
}

/* Of sched_setattr(2), which the C library does not have. */
struct sched_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

/* Workers keep every core busy, and a disk that has to wait for a time slice
 * of theirs loses a tenth of its speed and more. This thread needs little time,
 * but at once: a short slice has it run first (Linux 6.12), and a better nice
 * value where that may be had. Either may be refused: it is slower then. */
static void be_prompt(void)
{
    struct sched_attributes a = { .size = sizeof(a),
                                  .nice = getpriority(PRIO_PROCESS, 0),
                                  .runtime = 100000 };

    if (syscall(SYS_sched_setattr, 0, &a, 0) < 0)
        return;
    a.nice -= 10;
    syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *engine(void *user)
{
    struct dsf_io *io = user;
    uint64_t count;

    be_prompt();
    while (!work(io))
        while (read(io->wake, &count, sizeof(count)) < 0 && errno == EINTR)
            ;
    return NULL;
}

void dsf_io_engine_wake(struct dsf_io *io)
{
    uint64_t one = 1;

    /* It can only fail when 2^64 - 1 of them wait. */
    while (write(io->wake, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void say_no_libaio(struct dsf_io *io, int number)
{
    size_t n = strlen(io->info.remark);

    snprintf(io->info.remark + n, sizeof(io->info.remark) - n,
             "%slibaio is refused (%s): one transfer at a time",
             n > 0 ? "; " : "", strerrordesc_np(number));
}

static int start_thread(struct dsf_io *io)
{
    int number = dsf_quiet_thread(&io->thread, engine, io);

    if (number == 0)
        pthread_setname_np(io->thread, "dsflow-io");
    return number;
}

int dsf_io_engine_start(struct dsf_io *io, struct dsflow_err *err)
{
    int number;

    io->wake = eventfd(0, EFD_CLOEXEC);
    if (io->wake < 0)
        return dsflow_fail(err, DSFLOW_EFAIL, "an eventfd: %m");
    number = -io_setup((int)io->npieces, &io->context);
    io->info.async = number == 0;
    if (number != 0)
        say_no_libaio(io, number);
    number = start_thread(io);
    if (number == 0)
        return DSFLOW_OK;
    if (io->info.async)
        io_destroy(io->context);
    close(io->wake);
    errno = number;
    return dsflow_fail(err, DSFLOW_EFAIL, "a thread for transfers: %m");
}

void dsf_io_engine_stop(struct dsf_io *io)
{
    pthread_mutex_lock(&io->lock);
    io->closing = true;
    pthread_mutex_unlock(&io->lock);
    dsf_io_engine_wake(io);
    pthread_join(io->thread, NULL);
    if (io->info.async)
        io_destroy(io->context);
    close(io->wake);
}
