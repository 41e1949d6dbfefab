/* test_memory.c - what a process may use, on machines that are folders. */
#include "machine/memory.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64];

static int make_root(void **state)
{
    strcpy(root, "/tmp/test-memory.XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    char *command = dsf_xasprintf("rm -rf %s", root);
    int status = system(command);

    free(command);
    return status;
}

/* A file below the root, and the folders it is in. */
static void put(const char *name, const char *text)
{
    char *path = dsf_xasprintf("%s%s", root, name);
    FILE *f;

    for (char *c = path + strlen(root) + 1; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0777);
            *c = '/';
        }
    f = fopen(path, "w");
    if (f == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    fputs(text, f);
    fclose(f);
    free(path);
}

static void put_machine(void)
{
    put("/proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n"
                         "MemAvailable:   4194304 kB\n");
}

static void check(int64_t total_mib, int64_t available_mib)
{
    struct dsf_memory m = dsf_memory_probe(root);

    assert_int_equal(m.total, total_mib << 20);
    assert_int_equal(m.available, available_mib << 20);
}

static void without_cgroups_it_is_what_the_kernel_says(void **state)
{
    put_machine();
    check(8192, 4096);
    put("/proc/self/cgroup", "0::/\n");
    check(8192, 4096);
}

static void a_cgroup_and_those_above_it_are_limits(void **state)
{
    put_machine();
    put("/proc/self/cgroup", "0::/slice/job\n");
    put("/sys/fs/cgroup/slice/job/memory.max", "max\n");
    put("/sys/fs/cgroup/slice/job/memory.current", "104857600\n");
    check(8192, 4096);
    put("/sys/fs/cgroup/slice/memory.max", "2147483648\n"); /* 2 GiB */
    put("/sys/fs/cgroup/slice/memory.current", "536870912\n"); /* 512 MiB */
    check(2048, 1536);
    put("/sys/fs/cgroup/slice/job/memory.high", "1073741824\n"); /* 1 GiB */
    check(1024, 924);
}

static void files_in_the_page_cache_are_free(void **state)
{
    put_machine();
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/job/memory.current", "1073741824\n");
    check(1024, 0);
    put("/sys/fs/cgroup/job/memory.stat",
        "anon 268435456\nfile 805306368\nshmem 104857600\n"
        "inactive_anon 0\nactive_file 268435456\ninactive_file 268435456\n");
    check(1024, 512);
}

static void version_1_is_read_too(void **state)
{
    put_machine();
    put("/proc/self/cgroup",
        "9:name=systemd:/\n4:cpu,memory:/jobs/a\n3:memoryx:/b\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4294967296\n");
    check(8192, 4096);
    put("/sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/jobs/a/memory.usage_in_bytes", "536870912\n");
    put("/sys/fs/cgroup/memory/jobs/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 268435456\n");
    check(1024, 768);
}

/* In a container the path is often that of outside. */
static void a_path_of_outside_leaves_the_top(void **state)
{
    put_machine();
    put("/proc/self/cgroup", "4:memory:/docker/0123\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "2147483648\n");
    check(1024, 0);
}

static void without_proc_all_that_there_is_counts_as_free(void **state)
{
    struct dsf_memory m = dsf_memory_probe(root);
    struct sysinfo info;

    assert_int_equal(sysinfo(&info), 0);
    assert_int_equal(m.total, (int64_t)info.totalram * info.mem_unit);
    assert_int_equal(m.available, m.total);
}

/* Cgroups hold all the same. */
static void what_the_environment_says_is_believed(void **state)
{
    struct dsflow_err err;
    int64_t said;

    put_machine();
    setenv("DSFLOW_MEMORY", "100GiB", 1);
    check(102400, 102400);
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/job/memory.current", "536870912\n");
    check(1024, 512);
    setenv("DSFLOW_MEMORY", "much", 1);
    assert_int_equal(dsf_memory_said(&said, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "DSFLOW_MEMORY: \"much\": expected a size, "
                                 "such as 100GiB");
    unsetenv("DSFLOW_MEMORY");
}

enum { HELD = 512 << 20 };

/* The program that is started holds little. */
static void what_another_program_held_does_not_count(void **state)
{
    char *memory = malloc(HELD);
    int status = 0;
    pid_t child;

    assert_non_null(memory);
    memset(memory, 1, HELD);
    assert_true(dsf_memory_most() >= HELD);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_memory", "most", (char *)NULL);
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free(memory);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return dsf_memory_most() >= HELD / 2;
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        TEST(without_cgroups_it_is_what_the_kernel_says),
        TEST(a_cgroup_and_those_above_it_are_limits),
        TEST(files_in_the_page_cache_are_free),
        TEST(version_1_is_read_too),
        TEST(a_path_of_outside_leaves_the_top),
        TEST(what_the_environment_says_is_believed),
        TEST(without_proc_all_that_there_is_counts_as_free),
        TEST(what_another_program_held_does_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
