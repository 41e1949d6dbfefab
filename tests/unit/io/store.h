/* store.h - what the tests of src/io share: folders, stores, requests. */
#ifndef DSF_TESTS_UNIT_IO_STORE_H
#define DSF_TESTS_UNIT_IO_STORE_H

#include "lib/test.h"

#include "base/alloc.h"
#include "io/io.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 3 };

struct folders {
    char *base, *v[FOLDERS];
    const char *paths[FOLDERS];
};

static inline void make_folders(struct folders *f)
{
    const char *tmp = getenv("TMPDIR");

    f->base = dsf_xasprintf("%s/dsflow-io.XXXXXX", tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->base));
    for (int i = 0; i < FOLDERS; i++) {
        f->v[i] = dsf_xasprintf("%s/disk%d", f->base, i);
        assert_int_equal(mkdir(f->v[i], 0700), 0);
        f->paths[i] = f->v[i];
    }
}

/* Fails where a store left something in one. */
static inline void remove_folders(struct folders *f)
{
    for (int i = 0; i < FOLDERS; i++) {
        assert_int_equal(rmdir(f->v[i]), 0);
        free(f->v[i]);
    }
    assert_int_equal(rmdir(f->base), 0);
    free(f->base);
}

static inline struct dsf_io *open_store(const struct dsf_io_options *options)
{
    struct dsf_io *io = NULL;
    struct dsflow_err err = { 0 };
    int status = dsf_io_open(options, &io, &err);

    if (status < 0)
        print_error("%s\n", err.msg);
    assert_int_equal(status, DSFLOW_OK);
    return io;
}

static inline unsigned char *memory_of(size_t bytes)
{
    struct dsflow_err err;
    unsigned char *memory = dsf_io_alloc(bytes, &err);

    assert_non_null(memory);
    return memory;
}

#endif
