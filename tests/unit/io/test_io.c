/* test_io.c - a store holds what was written to it, whoever asks and however
 * the requests are cut. */
#include "store.h"

#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

enum { PAGE = DSF_IO_ALIGN };

/* A thread has a region of the store, and knows what must be in it. */
struct client {
    struct dsf_io *io;
    int64_t offset;
    size_t bytes;
    uint64_t seed;
    unsigned requests, wrong;
    unsigned char *model, *memory;
};

/* Writes of random ranges, and reads that are compared with the model: bytes
 * behind the end of a request may change up to the next page, no more. */
static void *use(void *user)
{
    struct client *c = user;
    uint64_t seed = c->seed;

    for (unsigned i = 0; i < c->requests; i++) {
        size_t pages = c->bytes / PAGE, first = dsf_random(&seed) % pages;
        size_t at = first * PAGE;
        size_t bytes = 1 + dsf_random(&seed) % (c->bytes - at);
        size_t moved = (bytes + PAGE - 1) / PAGE * PAGE;
        int status;

        if (dsf_random(&seed) % 2 == 0) {
            for (size_t b = 0; b < moved; b += 8) {
                uint64_t x = dsf_random(&seed);

                memcpy(c->memory + b, &x, 8);
            }
            memcpy(c->model + at, c->memory, moved);
            status = dsf_io_write(c->io, c->memory, c->offset + (int64_t)at,
                                  bytes, NULL);
        } else {
            memset(c->memory, 0xAA, c->bytes);
            status = dsf_io_read(c->io, c->memory, c->offset + (int64_t)at,
                                 bytes, NULL);
            c->wrong += memcmp(c->memory, c->model + at, moved) != 0;
            if (at + moved < c->bytes)
                c->wrong += c->memory[moved] != 0xAA;
        }
        c->wrong += status != DSFLOW_OK;
    }
    return NULL;
}

static void random_requests(const struct dsf_io_options *options, uint64_t seed)
{
    enum { CLIENTS = 3 };
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    struct dsf_io *io = open_store(options);
    size_t each = (size_t)options->size / CLIENTS / PAGE * PAGE;

    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){ .io = io,
                                      .offset = i * (int64_t)each,
                                      .bytes = each,
                                      .seed = seed + (uint64_t)i,
                                      .requests = 40,
                                      .model = calloc(each, 1),
                                      .memory = memory_of(each) };
        assert_int_equal(pthread_create(&threads[i], NULL, use, &clients[i]),
                         0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(clients[i].wrong, 0);
        free(clients[i].model);
        dsf_io_free(clients[i].memory, each);
    }
    dsf_io_close(io);
}

static void what_was_written_is_read(void **state)
{
    struct folders f;

    make_folders(&f);
    for (uint64_t seed = 0; seed < 24; seed++) {
        uint64_t s = seed;
        struct dsf_io_options o = {
            .paths = f.paths,
            .npaths = 1 + (unsigned)(dsf_random(&s) % FOLDERS),
            .block = PAGE * (1 + dsf_random(&s) % 20),
            .depth = 1 + (unsigned)(dsf_random(&s) % 5),
            .size = 600000 + (int64_t)(dsf_random(&s) % 600000),
            .verify = dsf_random(&s) % 2 == 0,
        };

        random_requests(&o, seed * 1000);
    }
    remove_folders(&f);
}

static void the_defaults_hold_a_store_of_one_byte(void **state)
{
    struct folders f;
    struct dsf_io *io;
    struct dsf_io_stats stats;
    unsigned char *memory = memory_of(PAGE);

    make_folders(&f);
    io = open_store(&(struct dsf_io_options){
        .paths = f.paths, .npaths = FOLDERS, .size = 1 });
    memset(memory, 7, PAGE);
    assert_int_equal(dsf_io_write(io, memory, 0, 1, NULL), DSFLOW_OK);
    memset(memory, 0, PAGE);
    assert_int_equal(dsf_io_read(io, memory, 0, 1, NULL), DSFLOW_OK);
    assert_int_equal(memory[0], 7);
    dsf_io_stats(io, &stats);
    assert_int_equal(stats.read, PAGE);
    assert_int_equal(stats.written, PAGE);
    dsf_io_close(io);
    dsf_io_free(memory, PAGE);
    remove_folders(&f);
}

/* Requests that submit the next when they are done. */
struct chain {
    struct dsf_io *io;
    struct dsf_io_request r;
    unsigned left, done;
    pthread_mutex_t lock;
    pthread_cond_t over;
};

static void go_on(struct dsf_io_request *r)
{
    struct chain *c = r->user;

    assert_int_equal(r->status, DSFLOW_OK);
    pthread_mutex_lock(&c->lock);
    c->done++;
    if (--c->left > 0) {
        r->op = r->op == DSF_IO_WRITE ? DSF_IO_READ : DSF_IO_WRITE;
        dsf_io_submit(c->io, r);
    } else {
        pthread_cond_signal(&c->over);
    }
    pthread_mutex_unlock(&c->lock);
}

static void a_request_may_submit_the_next(void **state)
{
    enum { LINKS = 200, BYTES = 10 * PAGE };
    struct folders f;
    struct chain c = { .left = LINKS,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .over = PTHREAD_COND_INITIALIZER };

    make_folders(&f);
    c.io = open_store(&(struct dsf_io_options){
        .paths = f.paths, .npaths = 2, .block = PAGE, .size = BYTES });
    c.r = (struct dsf_io_request){ .op = DSF_IO_WRITE,
                                   .memory = memory_of(BYTES),
                                   .bytes = BYTES,
                                   .done = go_on,
                                   .user = &c };
    dsf_io_submit(c.io, &c.r);
    pthread_mutex_lock(&c.lock);
    while (c.left > 0)
        pthread_cond_wait(&c.over, &c.lock);
    pthread_mutex_unlock(&c.lock);
    dsf_io_close(c.io);
    assert_int_equal(c.done, LINKS);
    dsf_io_free(c.r.memory, BYTES);
    remove_folders(&f);
}

static void count(struct dsf_io_request *r)
{
    __atomic_fetch_add((unsigned *)r->user, 1, __ATOMIC_RELEASE);
}

/* Close waits for what was submitted. The disk's row in a trace has one
 * transfer of a direction at a time. */
static void spans_of_a_direction_follow_each_other(void **state)
{
    enum { REQUESTS = 60, BYTES = 5 * PAGE + 3 };
    struct folders f;
    struct dsf_io *io;
    struct dsf_io_request r[REQUESTS];
    unsigned char *memory = memory_of(REQUESTS * 6 * PAGE);
    unsigned done = 0;

    make_folders(&f);
    io = open_store(&(struct dsf_io_options){ .paths = f.paths,
                                              .npaths = 2,
                                              .block = 2 * PAGE,
                                              .size = REQUESTS * 6 * PAGE });
    for (int i = 0; i < REQUESTS; i++) {
        r[i] = (struct dsf_io_request){ .op = (enum dsf_io_op)(i % 2),
                                        .memory = memory + i * 6 * PAGE,
                                        .offset = i * 6 * PAGE,
                                        .bytes = BYTES,
                                        .done = count,
                                        .user = &done };
        dsf_io_submit(io, &r[i]);
    }
    dsf_io_close(io);
    assert_int_equal(done, REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(r[i].status, DSFLOW_OK);
        assert_true(r[i].start <= r[i].end);
        for (int k = i % 2; k < REQUESTS; k += 2)
            assert_true(k == i || r[k].end <= r[i].start ||
                        r[i].end <= r[k].start);
    }
    dsf_io_free(memory, REQUESTS * 6 * PAGE);
    remove_folders(&f);
}

static void expect_it_works(struct folders *f, bool async, const char *remark)
{
    struct dsf_io_options o = { .paths = f->paths,
                                .npaths = 2,
                                .block = 3 * PAGE,
                                .size = 900000,
                                .verify = true };
    struct dsf_io *io;
    struct dsf_io_info info;
    struct dsflow_err err = { 0 };

    expect(dsf_io_open(&o, &io, &err) == DSFLOW_OK, err.msg);
    dsf_io_info(io, &info);
    dsf_io_close(io);
    if (info.async != async || strstr(info.remark, remark) == NULL)
        fprintf(stderr, "remark: %s\n", info.remark);
    expect(info.async == async, "what libaio is");
    expect(strstr(info.remark, remark) != NULL, remark);
    random_requests(&o, 1);
}

static void without_libaio(struct folders *f)
{
    refuse(SYS_io_setup, 0, 0, ENOSYS);
    expect_it_works(f, false,
                    "libaio is refused (Function not implemented): one "
                    "transfer at a time");
}

static void without_unnamed_files(struct folders *f)
{
    refuse(SYS_openat, 2, O_TMPFILE, EOPNOTSUPP);
    expect_it_works(f, true, "");
}

static void without_fallocate(struct folders *f)
{
    refuse(SYS_fallocate, 0, 0, EOPNOTSUPP);
    expect_it_works(f, true, "");
}

static void without_direct(struct folders *f)
{
    refuse(SYS_fcntl, 2, O_DIRECT, EINVAL);
    expect_it_works(f, true, "disk0: ");
}

static void what_a_system_refuses_is_done_without(void **state)
{
    static void (*const without[])(struct folders * f) = {
        without_libaio, without_unnamed_files, without_fallocate, without_direct
    };
    struct folders f;

    make_folders(&f);
    for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
        int status = in_a_child(without[i], &f);

        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            print_message("not tried: no seccomp here\n");
        else
            assert_int_equal(status, 0);
    }
    remove_folders(&f);
}

static void memory_file_systems_say_what_they_are(void **state)
{
    const char *path = "/dev/shm";
    struct dsf_io_options o = { .paths = &path, .npaths = 1, .size = 900000 };
    struct dsf_io_info info;
    struct dsf_io *io;

    if (access(path, W_OK) < 0)
        skip();
    io = open_store(&o);
    dsf_io_info(io, &info);
    dsf_io_close(io);
    assert_false(info.direct);
    assert_string_equal(info.remark, "/dev/shm: tmpfs: it is in main memory");
    random_requests(&o, 5);
}

static void write_and_be_killed(struct folders *f)
{
    struct dsf_io_options o = { .paths = f->paths,
                                .npaths = FOLDERS,
                                .size = 8 << 20 };
    struct dsf_io *io;
    struct dsf_io_request r = { .op = DSF_IO_WRITE,
                                .bytes = 8 << 20,
                                .done = count };
    unsigned done = 0;

    r.memory = dsf_io_alloc(r.bytes, NULL);
    r.user = &done;
    expect(r.memory != NULL, "memory");
    expect(dsf_io_open(&o, &io, NULL) == DSFLOW_OK, "a store");
    dsf_io_submit(io, &r);
    raise(SIGKILL);
}

static void a_killed_program_leaves_no_file(void **state)
{
    struct folders f;
    int status;

    make_folders(&f);
    status = in_a_child(write_and_be_killed, &f);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    remove_folders(&f);
}

static void memory_is_aligned_and_zero(void **state)
{
    for (size_t bytes = 1; bytes < 6 << 20; bytes = bytes * 3 + 4000) {
        unsigned char *memory = memory_of(bytes);

        assert_int_equal((uintptr_t)memory % (2 << 20), 0);
        assert_int_equal(memory[0], 0);
        assert_int_equal(memory[bytes - 1], 0);
        memset(memory, 1, bytes);
        dsf_io_free(memory, bytes);
    }
    dsf_io_free(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_defaults_hold_a_store_of_one_byte),
        cmocka_unit_test(a_request_may_submit_the_next),
        cmocka_unit_test(spans_of_a_direction_follow_each_other),
        cmocka_unit_test(what_a_system_refuses_is_done_without),
        cmocka_unit_test(memory_file_systems_say_what_they_are),
        cmocka_unit_test(a_killed_program_leaves_no_file),
        cmocka_unit_test(memory_is_aligned_and_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
