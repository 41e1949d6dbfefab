/* store.h - what the tests of src/io share: folders, stores, requests. */
#ifndef DSF_TESTS_UNIT_IO_STORE_H
#define DSF_TESTS_UNIT_IO_STORE_H

#include "lib/test.h"

#include "base/alloc.h"
#include "io/io.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* In a child, so that nothing of it stays: its exit status, or its signal. */
static inline int in_a_child(void (*body)(struct folders *f), struct folders *f)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        body(f);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* From now on that system call fails with `number`, if its argument `arg` has
 * all bits of `mask`. */
static inline void refuse(long call, unsigned arg, uint32_t mask, int number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 offsetof(struct seccomp_data, args) + 8 * arg),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, mask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)number),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

/* For children: they have no assertions of cmocka. */
static inline void expect(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "expected %s\n", what);
    _exit(1);
}

#endif
