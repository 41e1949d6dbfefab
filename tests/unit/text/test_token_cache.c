/* test_token_cache.c - tokens on their way to a file, and what becomes of them
 * when the disk is full. */
#include "text/token_cache.h"

#include "base/alloc.h"

#include "lib/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { KEY = 17, PART = 1000, PARTS = 300, N = PART * PARTS, TRAIN = 1234 };

/* Bytes that a disk takes, and then memory. */
static int64_t room = INT64_MAX, memory = INT64_MAX;
static bool full;

/* In place of the C library's. The disk takes what it has room for. */
ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    int64_t *left = full ? &memory : &room;
    size_t some = (int64_t)n < *left ? n : (size_t)*left;

    if (some == 0) {
        full = true;
        errno = ENOSPC;
        return -1;
    }
    *left -= (int64_t)some;
    return syscall(SYS_pwrite64, fd, from, some, at);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off_t at)
{
    return pwrite(fd, from, n, at);
}

static int32_t token_of(uint64_t i, unsigned width)
{
    return (int32_t)(i * 2654435761u % (width == 2 ? 65536 : 200000));
}

static int write_all(unsigned width, struct dsf_token_store *store,
                     struct dsflow_err *err)
{
    struct dsf_token_writer *w = dsf_token_writer_new(folder, KEY, width);
    int32_t part[PART];

    for (uint64_t i = 0; i < N; i += PART) {
        assert_int_equal(dsf_token_writer_count(w), i);
        for (unsigned k = 0; k < PART; k++)
            part[k] = token_of(i + k, width);
        dsf_token_writer_put(w, part, PART);
    }
    return dsf_token_writer_end(w, &(struct dsf_token_split){ TRAIN, 5, 3 },
                                store, err);
}

static void check(struct dsf_token_store *store, unsigned width)
{
    const uint16_t *two = store->tokens;
    const uint32_t *four = store->tokens;

    assert_int_equal(store->width, width);
    assert_int_equal(store->train, TRAIN);
    assert_int_equal(store->validation, N - TRAIN);
    assert_int_equal(store->train_bytes, 5);
    assert_int_equal(store->validation_bytes, 3);
    assert_true(store->most > 60000);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(width == 2 ? two[i] : four[i], token_of(i, width));
    dsf_token_store_fini(store);
}

static unsigned count_files(void)
{
    DIR *dir = opendir(folder);
    unsigned n = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void set_room(int64_t on_disk, int64_t in_memory)
{
    room = on_disk;
    memory = in_memory;
    full = false;
}

static void tokens_are_mapped_as_they_were_put(void **state)
{
    struct dsf_token_store store;
    struct dsflow_err err;

    set_room(INT64_MAX, 0);
    for (unsigned width = 2; width <= 4; width += 2) {
        assert_int_equal(write_all(width, &store, &err), DSFLOW_OK);
        check(&store, width);
        assert_true(dsf_token_cache_open(folder, KEY, &store));
        check(&store, width);
        assert_false(dsf_token_cache_open(folder, KEY + 1, &store));
    }
}

/* At the first byte, in a part, between two, and where only the header has no
 * room any more. */
static void tokens_go_to_memory_where_the_disk_is_full(void **state)
{
    static const int64_t rooms[] = { 0, 1, 2000, 300001, N * 2 };
    struct dsf_token_store store;
    struct dsflow_err err;

    for (unsigned i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
        set_room(rooms[i], INT64_MAX);
        assert_int_equal(write_all(2, &store, &err), DSFLOW_OK);
        assert_true(full);
        assert_int_equal(count_files(), 0);
        check(&store, 2);
    }
}

static void memory_that_is_full_is_an_error(void **state)
{
    struct dsf_token_store store;
    struct dsflow_err err;

    for (int64_t in_memory = 0; in_memory < N; in_memory += 123457) {
        set_room(100000, in_memory);
        assert_int_equal(write_all(4, &store, &err), DSFLOW_ENOMEM);
        assert_string_equal(err.msg, "300000 tokens of the text: No space left "
                                     "on device");
        assert_int_equal(count_files(), 0);
    }
}

static void what_is_dropped_leaves_nothing(void **state)
{
    struct dsf_token_writer *w = dsf_token_writer_new(folder, KEY, 2);

    set_room(INT64_MAX, INT64_MAX);
    dsf_token_writer_put(w, (int32_t[]){ 1, 2, 3 }, 3);
    dsf_token_writer_drop(w);
    assert_int_equal(count_files(), 0);
}

static void write_empty(const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fclose(f);
    free(path);
}

/* One of a writer that was killed, and one of another that is at work. */
static void what_a_killed_writer_left_is_removed(void **state)
{
    struct dsf_token_writer *other, *w;
    struct dsf_token_store store;
    struct dsflow_err err;

    set_room(INT64_MAX, 0);
    other = dsf_token_writer_new(folder, KEY + 1, 2);
    write_empty("tokens-0123456789abcdef.bin.17.tmp");
    write_empty("tokens-0123456789abcdef.bin");
    write_empty("tokens-");
    assert_int_equal(count_files(), 4);
    w = dsf_token_writer_new(folder, KEY, 2);
    assert_int_equal(count_files(), 4);
    dsf_token_writer_drop(w);
    assert_int_equal(count_files(), 3);
    assert_int_equal(dsf_token_writer_end(other, &(struct dsf_token_split){ 0 },
                                          &store, &err),
                     DSFLOW_OK);
    assert_int_equal(count_files(), 3);
    dsf_token_store_fini(&store);
    assert_true(dsf_token_cache_open(folder, KEY + 1, &store));
    dsf_token_store_fini(&store);
}

#define WITH_FOLDER(test)                                                      \
    cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(tokens_are_mapped_as_they_were_put),
        WITH_FOLDER(tokens_go_to_memory_where_the_disk_is_full),
        WITH_FOLDER(memory_that_is_full_is_an_error),
        WITH_FOLDER(what_is_dropped_leaves_nothing),
        WITH_FOLDER(what_a_killed_writer_left_is_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
