/* mpi_module.c - messages between processes by MPI.
 *
 * One thread does all that MPI is asked: it begins what is posted, looks which
 * messages have ended, and tells. The cores are for kernels: between two looks
 * it sleeps until its bell is rung, and where none rings, as what comes from
 * another machine does not, for longer and longer while nothing ends. */
#include "net/mpi_module.h"

#include "net/bells.h"
#include "net/shared_files.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* MPI counts bytes in an int: a longer message goes in pieces, of one tag,
 * which arrive in their order. */
enum { PIECE = 1 << 30 };

/* Nanoseconds between two looks: at first, and at most: of what goes piece by
 * piece on this machine; of what comes from another; and where all that is
 * under way is of this one, and goes at once when a bell is rung. */
enum {
    LEAST_PAUSE = 5000,
    MOST_PIECES = 100000,
    MOST_FAR = 500000,
    MOST_NEAR = 2000000
};

/* Those of the arrays that belong together are of one piece under way. */
static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    struct dsf_message *first, **last; /* posted, and not begun */
    bool closing;

    MPI_Comm comm;
    MPI_Request *requests;
    struct dsf_message **of;
    int *indices;
    MPI_Status *statuses;
    int n, cap;
    int rank, far; /* this process; how many of n are of other machines */
    double unrung; /* of 16 that ended of late, those for which no bell rang */
    double looked; /* when it began to look the last time but this one */
    double rang;   /* when a bell ended its sleep the last time */
} mpi;

/* That of dsf_now. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *grown(void *at, size_t bytes)
{
    at = realloc(at, bytes);
    if (at == NULL)
        abort(); /* no memory for metadata */
    return at;
}

static void fail(struct dsf_message *m, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (m->status < 0)
        return;
    MPI_Error_string(error, text, &length);
    m->status = m->err.status = DSFLOW_EIO;
    snprintf(m->err.msg, sizeof(m->err.msg), "message %u %s process %d: %.200s",
             m->tag, m->out ? "to" : "from", m->process, text);
}

static void end(struct dsf_message *m)
{
    if (--m->left > 0)
        return;
    m->end = now();
    if (m->status < 0)
        m->unsent = 0;
    /* Nobody says when it was sent. It had not come when MPI was looked at
     * before, where what comes is mostly copied, nor before the bell rang, if
     * there is one. */
    if (!m->out && m->start < mpi.looked)
        m->start = mpi.looked;
    if (!m->out && m->start < mpi.rang && dsf_bells_reach(m->process))
        m->start = mpi.rang;
    m->done(m);
}

static void begin_piece(struct dsf_message *m, size_t at, int bytes)
{
    MPI_Request *request;
    int error;

    if (mpi.n == mpi.cap) {
        mpi.cap = 2 * mpi.cap + 64;
        mpi.requests =
            grown(mpi.requests, (size_t)mpi.cap * sizeof(*mpi.requests));
        mpi.of = grown(mpi.of, (size_t)mpi.cap * sizeof(*mpi.of));
        mpi.indices =
            grown(mpi.indices, (size_t)mpi.cap * sizeof(*mpi.indices));
        mpi.statuses =
            grown(mpi.statuses, (size_t)mpi.cap * sizeof(*mpi.statuses));
    }
    request = &mpi.requests[mpi.n];
    error = m->out ? MPI_Isend((char *)m->memory + at, bytes, MPI_BYTE,
                               m->process, (int)m->tag, mpi.comm, request)
                   : MPI_Irecv((char *)m->memory + at, bytes, MPI_BYTE,
                               m->process, (int)m->tag, mpi.comm, request);
    if (error != MPI_SUCCESS) {
        fail(m, error);
        end(m);
        return;
    }
    mpi.of[mpi.n++] = m;
    mpi.far += !dsf_bells_reach(m->process);
}

/* What the piece at `at` has of the bytes before `end`: those of a message that
 * ends early may be empty, as the other end awaits as many. */
static int piece(size_t at, size_t end)
{
    return at >= end ? 0 : end - at < PIECE ? (int)(end - at) : (int)PIECE;
}

static void begin(struct dsf_message *m)
{
    const size_t bytes = m->bytes;
    const size_t sent = m->out ? bytes - m->unsent : bytes;
    const int process = m->process;
    const bool out = m->out;

    m->status = DSFLOW_OK;
    m->start = now();
    m->left = (unsigned)((bytes + PIECE - 1) / PIECE);
    if (!out)
        m->unsent = bytes;
    for (size_t at = 0; at < bytes; at += PIECE)
        begin_piece(m, at, piece(at, sent));
    if (out)
        dsf_bells_ring(process);
}

/* Where MPI may not read another process's memory, it copies piece by piece, at
 * both ends, and no bell says how far it is. */
enum { MANY = 4 }; /* of the last 16 that ended without a bell, about */
static bool goes_at_once(void)
{
    return mpi.far == 0 && mpi.unrung < MANY;
}

/* How much of it has come is known then. */
static void count(struct dsf_message *m, const MPI_Status *status)
{
    int bytes = 0;

    if (!m->out && m->status == DSFLOW_OK &&
        MPI_Get_count(status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0)
        m->unsent -= (size_t)bytes;
}

/* Tell of what has ended; returns how much that is. */
static int look(bool rung)
{
    const double began = now();
    int ended = 0, kept = 0, error = MPI_SUCCESS;

    if (mpi.n == 0)
        return 0;
    /* What it moves itself it may find only when it is called once more. */
    for (int again = 0; again < 2 && ended == 0; again++)
        error = MPI_Testsome(mpi.n, mpi.requests, &ended, mpi.indices,
                             mpi.statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS)
        ended = 0;
    for (int i = 0; i < ended; i++) {
        struct dsf_message *m = mpi.of[mpi.indices[i]];

        mpi.of[mpi.indices[i]] = NULL;
        if (error == MPI_ERR_IN_STATUS &&
            mpi.statuses[i].MPI_ERROR != MPI_SUCCESS)
            fail(m, mpi.statuses[i].MPI_ERROR);
        count(m, &mpi.statuses[i]);
        mpi.far -= !dsf_bells_reach(m->process);
        if (dsf_bells_reach(m->process))
            mpi.unrung += (rung ? 0 : 1) - mpi.unrung / 16;
        if (!m->out)
            dsf_bells_ring(m->process); /* it may end there, too */
        end(m);
    }
    for (int i = 0; i < mpi.n; i++)
        if (mpi.of[i] != NULL) {
            mpi.of[kept] = mpi.of[i];
            mpi.requests[kept++] = mpi.requests[i];
        }
    mpi.n = kept;
    mpi.looked = began;
    return ended;
}

static long longer(long pause)
{
    long next = goes_at_once() ? 2 * pause : pause + pause / 4;
    long most = goes_at_once()       ? MOST_NEAR
                : mpi.unrung >= MANY ? MOST_PIECES
                                     : MOST_FAR;

    return next < most ? next : most;
}

static void *work(void *arg)
{
    long pause = LEAST_PAUSE;
    uint32_t heard = 0;

    for (;;) {
        uint32_t before = heard;
        struct dsf_message *posted;
        bool closing, any;

        heard = dsf_bells_heard();

        pthread_mutex_lock(&mpi.lock);
        posted = mpi.first;
        mpi.first = NULL;
        mpi.last = &mpi.first;
        closing = mpi.closing;
        pthread_mutex_unlock(&mpi.lock);
        if (posted == NULL && mpi.n == 0 && closing)
            break;

        any = posted != NULL;
        while (posted != NULL) {
            struct dsf_message *m = posted;

            posted = m->next;
            begin(m);
        }
        any |= look(any || heard != before) > 0;
        pause = any || heard != before ? LEAST_PAUSE : longer(pause);
        if (!any)
            dsf_bells_wait(heard, mpi.n > 0 ? pause : 0);
        if (!any && dsf_bells_heard() != heard)
            mpi.rang = now();
    }
    return NULL;
}

static const char *text_of(int error)
{
    static char text[MPI_MAX_ERROR_STRING];
    int length = 0;

    MPI_Error_string(error, text, &length);
    return text;
}

static const char *mpi_open(int32_t *process, int32_t *nprocesses,
                            const int32_t **hosts)
{
    int error, level, size, *most, known;

    dsf_shared_files_guard();
    error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (error != MPI_SUCCESS)
        return text_of(error);
    if (level < MPI_THREAD_SERIALIZED)
        return "this MPI was built without threads";
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm);
    MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi.comm, &mpi.rank);
    MPI_Comm_size(mpi.comm, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known);
    if (!known || *most < (int)DSF_TAGS - 1)
        return "this MPI has too few tags: expected 2^23";
    *process = mpi.rank;
    *nprocesses = size;
    error = dsf_bells_open(mpi.comm);
    if (error == MPI_SUCCESS)
        error = dsf_shared_files_unlink(mpi.comm);
    if (error != MPI_SUCCESS)
        return text_of(error);
    *hosts = dsf_bells_hosts();

    pthread_mutex_init(&mpi.lock, NULL);
    mpi.last = &mpi.first;
    return pthread_create(&mpi.thread, NULL, work, NULL) == 0
               ? NULL
               : "no thread can be started";
}

static void mpi_post(struct dsf_message *m)
{
    m->next = NULL;
    pthread_mutex_lock(&mpi.lock);
    *mpi.last = m;
    mpi.last = &m->next;
    pthread_mutex_unlock(&mpi.lock);
    dsf_bells_ring(mpi.rank);
}

static const char *mpi_close(void)
{
    int error;

    pthread_mutex_lock(&mpi.lock);
    mpi.closing = true;
    pthread_mutex_unlock(&mpi.lock);
    dsf_bells_ring(mpi.rank);
    pthread_join(mpi.thread, NULL);
    pthread_mutex_destroy(&mpi.lock);
    free(mpi.requests);
    free(mpi.of);
    free(mpi.indices);
    free(mpi.statuses);
    dsf_bells_close();
    dsf_shared_files_end(mpi.comm);
    MPI_Comm_free(&mpi.comm);
    error = MPI_Finalize();
    return error == MPI_SUCCESS ? NULL : text_of(error);
}

static const char *mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;

    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    return text;
}

extern DSFLOW_API const struct dsf_mpi dsf_mpi_module;
const struct dsf_mpi dsf_mpi_module = {
    .abi = DSF_MPI_ABI,
    .open = mpi_open,
    .post = mpi_post,
    .close = mpi_close,
    .version = mpi_version,
};
