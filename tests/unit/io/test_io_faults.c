/* test_io_faults.c - what a disk and a user can do wrong is one clear line, and
 * the store goes on. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum { PAGE = DSF_IO_ALIGN, BLOCK = 4 * PAGE, BYTES = 16 * BLOCK };

static struct folders folders;
static struct dsf_io *io;
static unsigned char *memory;
static struct dsflow_err err;

static int interruptions; /* of what reserves room, by signals */

/* In place of the C library's. */
int fallocate(int fd, int mode, off_t at, off_t n)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, n);
}

int fallocate64(int fd, int mode, off_t at, off_t n)
{
    return fallocate(fd, mode, at, n);
}

static int open_two_disks(void **state)
{
    make_folders(&folders);
    io = open_store(&(struct dsf_io_options){ .paths = folders.paths,
                                              .npaths = 2,
                                              .block = BLOCK,
                                              .depth = 2,
                                              .size = BYTES,
                                              .verify = true });
    memory = memory_of(BYTES);
    for (int i = 0; i < BYTES; i++)
        memory[i] = (unsigned char)(i % 251);
    assert_int_equal(dsf_io_write(io, memory, 0, BYTES, NULL), DSFLOW_OK);
    return 0;
}

static int close_disks(void **state)
{
    dsf_io_close(io);
    dsf_io_free(memory, BYTES);
    remove_folders(&folders);
    return 0;
}

/* The message is "FOLDER: rest". */
static void assert_says(const char *path, const char *rest)
{
    char expected[512];

    snprintf(expected, sizeof(expected), "%s: %s", path, rest);
    assert_string_equal(err.msg, expected);
}

static void flip_a_bit(unsigned disk, off_t at)
{
    unsigned char *page = memory_of(PAGE);
    off_t start = at / PAGE * PAGE;

    assert_int_equal(pread(dsf_io_fd(io, disk), page, PAGE, start), PAGE);
    page[at % PAGE] ^= 4;
    assert_int_equal(pwrite(dsf_io_fd(io, disk), page, PAGE, start), PAGE);
    dsf_io_free(page, PAGE);
}

static void a_flipped_bit_is_found(void **state)
{
    /* Block 5 is the third of the second disk. */
    flip_a_bit(1, 2 * BLOCK + 3 * PAGE + 77);
    assert_int_equal(dsf_io_read(io, memory, 0, BYTES, &err), DSFLOW_EIO);
    assert_says(folders.paths[1],
                "read of 16384 bytes at 32768: the checksum is not that of "
                "what was written");
    /* Other blocks are right, and so is this one once it is written again. */
    assert_int_equal(dsf_io_read(io, memory, 0, 5 * BLOCK, NULL), DSFLOW_OK);
    assert_int_equal(dsf_io_write(io, memory, 5 * BLOCK, BLOCK, NULL),
                     DSFLOW_OK);
    assert_int_equal(dsf_io_read(io, memory, 0, BYTES, &err), DSFLOW_OK);
}

/* Two pieces of data with a block in common, each read as it was written. */
static void a_flipped_bit_is_found_where_data_share_a_block(void **state)
{
    assert_int_equal(dsf_io_write(io, memory, 0, BLOCK + PAGE, NULL), 0);
    assert_int_equal(
        dsf_io_write(io, memory, BLOCK + PAGE, 2 * BLOCK + 5, NULL), 0);
    flip_a_bit(1, 12); /* the last page of the first */
    assert_int_equal(dsf_io_read(io, memory, BLOCK + PAGE, 2 * BLOCK + 5, NULL),
                     DSFLOW_OK);
    assert_int_equal(dsf_io_read(io, memory, 0, BLOCK + PAGE, NULL),
                     DSFLOW_EIO);
    flip_a_bit(1, 12);
    assert_int_equal(dsf_io_read(io, memory, 0, BLOCK + PAGE, NULL), DSFLOW_OK);
    flip_a_bit(1, PAGE); /* the first page of the second */
    assert_int_equal(dsf_io_read(io, memory, 0, BLOCK + PAGE, NULL), DSFLOW_OK);
    assert_int_equal(dsf_io_read(io, memory, BLOCK + PAGE, 2 * BLOCK + 5, NULL),
                     DSFLOW_EIO);
}

static void a_file_that_was_cut_is_an_error(void **state)
{
    assert_int_equal(ftruncate(dsf_io_fd(io, 0), 3 * BLOCK + PAGE), 0);
    assert_int_equal(dsf_io_read(io, memory, 6 * BLOCK, BLOCK, &err),
                     DSFLOW_EIO);
    assert_says(folders.paths[0],
                "read of 16384 bytes at 49152: it ends after 4096 bytes");
    assert_int_equal(dsf_io_read(io, memory, 0, 6 * BLOCK, &err), DSFLOW_OK);
    assert_int_equal(dsf_io_read(io, memory, 7 * BLOCK, BLOCK, &err),
                     DSFLOW_OK);
}

static sem_t over;

static void count(struct dsf_io_request *r)
{
    ++*(unsigned *)r->user;
    sem_post(&over);
}

/* Those before and behind the one that fails are as they should be, and each
 * is done once. */
static void a_failing_write_fails_alone(void **state)
{
    int good = dup(dsf_io_fd(io, 0)), bad = open("/dev/null", O_RDONLY);
    struct dsf_io_request r[3];
    unsigned done[3] = { 0 };

    assert_true(good >= 0 && bad >= 0);
    assert_true(dup2(bad, dsf_io_fd(io, 0)) >= 0);
    sem_init(&over, 0, 0);
    for (int i = 0; i < 3; i++) {
        /* The first and the last are all on the second disk. */
        int64_t offset = i == 1 ? 0 : BLOCK;

        r[i] = (struct dsf_io_request){ .op = DSF_IO_WRITE,
                                        .memory = memory + offset,
                                        .offset = offset,
                                        .bytes = i == 1 ? BYTES : BLOCK,
                                        .done = count,
                                        .user = &done[i] };
    }
    for (int i = 0; i < 3; i++)
        dsf_io_submit(io, &r[i]);
    assert_int_equal(dsf_io_write(io, memory + BLOCK, BLOCK, BLOCK, NULL),
                     DSFLOW_OK);
    for (int i = 0; i < 3; i++)
        sem_wait(&over);
    sem_destroy(&over);
    err = r[1].err;
    assert_int_equal(r[0].status, DSFLOW_OK);
    assert_int_equal(r[1].status, DSFLOW_EIO);
    assert_int_equal(r[2].status, DSFLOW_OK);
    assert_non_null(strstr(err.msg, "disk0: write of 16384 bytes at "));
    assert_non_null(strstr(err.msg, ": Bad file descriptor"));

    assert_true(dup2(good, dsf_io_fd(io, 0)) >= 0);
    close(good);
    close(bad);
    assert_int_equal(dsf_io_write(io, memory, 0, BYTES, &err), DSFLOW_OK);
    assert_int_equal(dsf_io_read(io, memory, 0, BYTES, &err), DSFLOW_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(done[i], 1);
}

/* The kernel first writes what it may, then refuses the rest. */
static void a_short_write_is_an_error(void **state)
{
    struct rlimit before, limit;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 2 * BLOCK + 2 * PAGE;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(dsf_io_write(io, memory, 4 * BLOCK, BLOCK, &err),
                     DSFLOW_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_says(folders.paths[0],
                "write of 16384 bytes at 32768: File too large");
    assert_int_equal(dsf_io_write(io, memory, 0, BYTES, &err), DSFLOW_OK);
}

static void ranges_that_are_not_there_are_refused(void **state)
{
    assert_int_equal(dsf_io_read(io, memory, BYTES - PAGE, 2 * PAGE, &err),
                     DSFLOW_EINVAL);
    assert_says(folders.paths[0],
                "read of 8192 bytes at 258048: expected an aligned range of "
                "262144 bytes");
    assert_int_equal(dsf_io_read(io, memory, 100, 8, &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_io_read(io, memory, -PAGE, 8, &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_io_read(io, memory + 8, 0, 8, &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_io_read(io, memory, BYTES, 0, &err), DSFLOW_OK);
}

static void what_was_never_written_is_zero(void **state)
{
    struct dsf_io *fresh = open_store(&(struct dsf_io_options){
        .paths = folders.paths, .npaths = 3, .block = PAGE, .size = BYTES });

    assert_int_equal(dsf_io_read(fresh, memory, 0, BYTES, NULL), DSFLOW_OK);
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(memory[i], 0);
    dsf_io_close(fresh);
}

static void refused(struct dsf_io_options o, int status)
{
    struct dsf_io *none = NULL;
    const char *paths[] = { folders.paths[0], folders.paths[1] };

    if (o.paths == NULL)
        o.paths = paths;
    assert_int_equal(dsf_io_open(&o, &none, &err), status);
    assert_null(none);
}

static void a_signal_does_not_keep_room_from_being_reserved(void **state)
{
    struct dsf_io_options o = { .paths = folders.paths,
                                .npaths = 2,
                                .size = BYTES };
    struct dsf_io *store = NULL;

    interruptions = 3;
    assert_int_equal(dsf_io_open(&o, &store, &err), DSFLOW_OK);
    assert_int_equal(interruptions, 0);
    dsf_io_close(store);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    refused((struct dsf_io_options){ .npaths = 0, .size = 1 }, DSFLOW_EINVAL);
    assert_string_equal(err.msg, "no folder for the files: expected one or "
                                 "more");
    refused((struct dsf_io_options){ .npaths = 1, .size = 0 }, DSFLOW_EINVAL);
    assert_says(folders.paths[0], "a size of 0 bytes: expected 1 or more");
    refused((struct dsf_io_options){ .npaths = 1, .size = 1, .block = 5000 },
            DSFLOW_EINVAL);
    assert_string_equal(err.msg, "a block of 5000 bytes: expected a multiple "
                                 "of 4096, at most 1GiB");
    refused((struct dsf_io_options){ .npaths = 1, .size = 1, .depth = 4096 },
            DSFLOW_EINVAL);
    assert_string_equal(err.msg, "a depth of 4096: expected 1 to 1024");
}

static void folders_that_cannot_be_used_are_refused(void **state)
{
    const char *paths[] = { folders.paths[0], "/nowhere/at/all" };
    struct dsf_io_options o = { .paths = paths, .npaths = 2, .size = BYTES };

    refused(o, DSFLOW_EINVAL);
    assert_says("/nowhere/at/all", "No such file or directory: expected a "
                                   "folder that can be written");
    paths[1] = "/dev/null";
    refused(o, DSFLOW_EINVAL);
    assert_says("/dev/null",
                "Not a directory: expected a folder that can be written");
    if (geteuid() == 0) {
        paths[1] = "/proc";
        refused(o, DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "expected a folder that can be"));
        return;
    }
    paths[1] = folders.paths[1];
    assert_int_equal(chmod(paths[1], 0500), 0);
    refused(o, DSFLOW_EINVAL);
    assert_says(paths[1],
                "Permission denied: expected a folder that can be written");
    assert_int_equal(chmod(paths[1], 0700), 0);
}

static void more_than_there_is_is_refused_at_once(void **state)
{
    refused((struct dsf_io_options){ .npaths = 1, .size = INT64_C(1) << 59 },
            DSFLOW_EIO);
    assert_non_null(
        strstr(err.msg, "disk0: no room on the disk: 512.0 PiB needed, "));
    assert_non_null(strstr(err.msg, " free"));
}

/* Both paths are on one small disk: the first file fits. */
static void a_full_disk_is_found_when_it_is_opened(void **state)
{
    const char *paths[] = { folders.v[2], folders.v[2] };
    struct dsf_io *small = NULL;
    struct dsf_io_options o = { .paths = paths, .npaths = 2, .size = 12 << 20 };

    if (mount("tmpfs", paths[0], "tmpfs", 0, "size=8m") < 0)
        skip();
    refused(o, DSFLOW_EIO);
    o.size = 4 << 20;
    assert_int_equal(dsf_io_open(&o, &small, NULL), DSFLOW_OK);
    dsf_io_close(small);
    assert_int_equal(umount(paths[0]), 0);
    assert_says(paths[0], "no room on the disk: 6.0 MiB needed, 2.0 MiB free");
}

/* Where space cannot be reserved another program may take it: sparse files, and
 * a disk that is filled meanwhile. */
static void fill_a_sparse_disk(struct folders *f)
{
    struct dsf_io_options o = { .paths = &f->paths[2],
                                .npaths = 1,
                                .size = 4 << 20 };
    char *name = dsf_xasprintf("%s/other", f->v[2]);
    struct dsf_io *store = NULL;
    char expected[300];
    int fd;

    refuse(SYS_fallocate, 0, 0, EOPNOTSUPP);
    expect(dsf_io_open(&o, &store, &err) == DSFLOW_OK, "a store");
    expect(dsf_io_write(store, memory, 0, BYTES, &err) == DSFLOW_OK, "room");
    fd = open(name, O_CREAT | O_WRONLY, 0600);
    while (write(fd, memory, BYTES) > 0)
        ;
    expect(dsf_io_write(store, memory, 2 << 20, BYTES, &err) == DSFLOW_EIO,
           "a full disk");
    snprintf(expected, sizeof(expected),
             "%s: write of 262144 bytes at 2097152: No space left on device",
             f->v[2]);
    expect(strcmp(err.msg, expected) == 0, expected);
    expect(dsf_io_read(store, memory, 0, BYTES, &err) == DSFLOW_OK,
           "what was written before");
    dsf_io_close(store);
    unlink(name);
}

static void a_disk_that_becomes_full_is_an_error(void **state)
{
    int status;

    make_folders(&folders);
    if (mount("tmpfs", folders.v[2], "tmpfs", 0, "size=8m") < 0) {
        remove_folders(&folders);
        skip();
    }
    memory = memory_of(BYTES);
    status = in_a_child(fill_a_sparse_disk, &folders);
    dsf_io_free(memory, BYTES);
    assert_int_equal(umount(folders.v[2]), 0);
    remove_folders(&folders);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_two_disks, close_disks)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flipped_bit_is_found),
        TEST(a_flipped_bit_is_found_where_data_share_a_block),
        TEST(a_file_that_was_cut_is_an_error),
        TEST(a_failing_write_fails_alone),
        TEST(a_short_write_is_an_error),
        TEST(ranges_that_are_not_there_are_refused),
        TEST(what_was_never_written_is_zero),
        TEST(a_signal_does_not_keep_room_from_being_reserved),
        TEST(options_that_make_no_sense_are_refused),
        TEST(folders_that_cannot_be_used_are_refused),
        TEST(more_than_there_is_is_refused_at_once),
        TEST(a_full_disk_is_found_when_it_is_opened),
        /* A child cannot have threads where its parent had some. */
        cmocka_unit_test(a_disk_that_becomes_full_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
