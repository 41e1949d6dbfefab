/* test_aside.c - a file has its old contents or all of the new ones. */
#include "base/aside.h"

#include "lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/dsflow-aside.XXXXXX";
static char path[100];

static const char *contents(void)
{
    static char text[100];
    FILE *f = fopen(path, "r");
    size_t n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;

    text[n] = '\0';
    if (f != NULL)
        fclose(f);
    return text;
}

static int count_files(void)
{
    DIR *dir = opendir(folder);
    int n = 0;

    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void write_whole(const char *text)
{
    struct dsf_aside a;

    assert_int_equal(dsf_aside_open(&a, path), 0);
    fputs(text, a.out);
    assert_int_equal(dsf_aside_close(&a, true), 0);
}

static void a_whole_file_takes_the_place_of_the_old_one(void **state)
{
    write_whole("old");
    write_whole("new");
    assert_string_equal(contents(), "new");
    assert_int_equal(count_files(), 1);
}

static void the_old_one_stays_until_then(void **state)
{
    struct dsf_aside a;

    write_whole("old");
    assert_int_equal(dsf_aside_open(&a, path), 0);
    fputs("half", a.out);
    fflush(a.out);
    assert_string_equal(contents(), "old");
    assert_int_equal(count_files(), 2);
    assert_int_equal(dsf_aside_close(&a, false), 0);
    assert_string_equal(contents(), "old");
    assert_int_equal(count_files(), 1);
}

static void a_write_that_fails_leaves_the_old_one(void **state)
{
    struct rlimit all, none;
    struct dsf_aside a;

    write_whole("old");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &all);
    none = (struct rlimit){ 0, all.rlim_max };
    for (int flushes = 0; flushes < 2; flushes++) {
        assert_int_equal(dsf_aside_open(&a, path), 0);
        setrlimit(RLIMIT_FSIZE, &none);
        fputs("new", a.out);
        if (flushes)
            assert_int_not_equal(fflush(a.out), 0);
        errno = 0; /* it is long ago */
        assert_int_equal(dsf_aside_close(&a, true), -1);
        assert_int_equal(errno, EFBIG);
        setrlimit(RLIMIT_FSIZE, &all);
        assert_string_equal(contents(), "old");
        assert_int_equal(count_files(), 1);
    }
}

/* Who says that it is not whole knows why. */
static void the_reason_of_another_stays(void **state)
{
    struct dsf_aside a;

    assert_int_equal(dsf_aside_open(&a, path), 0);
    errno = ENOSPC;
    assert_int_equal(dsf_aside_close(&a, false), 0);
    assert_int_equal(errno, ENOSPC);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    struct dsf_aside a;

    assert_int_equal(dsf_aside_open(&a, "/no/such/folder/file"), -1);
    assert_int_equal(errno, ENOENT);
}

static void a_process_that_ends_removes_what_is_not_whole(void **state)
{
    struct dsf_aside a[12]; /* more than it keeps in mind */
    char name[120];
    int status;
    pid_t child = fork();

    if (child == 0) {
        write_whole("whole");
        for (int i = 0; i < 6; i++) {
            snprintf(name, sizeof(name), "%s/f%d", folder, i);
            dsf_aside_open(&a[i], name);
        }
        dsf_aside_drop_all();
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_string_equal(contents(), "whole");
    assert_int_equal(count_files(), 1);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "%s/f%d", folder, i);
        assert_int_equal(dsf_aside_open(&a[i], name), 0);
    }
    for (int i = 0; i < 12; i++)
        assert_int_equal(dsf_aside_close(&a[i], false), 0);
    assert_int_equal(count_files(), 1);
}

/* With a name, in a folder in it. */
static void make_tree(const char *name)
{
    char command[300];

    snprintf(command, sizeof(command),
             "mkdir -p %s/%s/a/b && touch %s/%s/a/b/c %s/%s/d && "
             "ln -s %s %s/%s/link && cd %s/%s/a && "
             "for i in $(seq 200); do : > $i-with-a-long-name; done",
             folder, name, folder, name, folder, name, folder, folder, name,
             folder, name);
    assert_int_equal(system(command), 0);
}

static void a_folder_goes_with_what_is_in_it(void **state)
{
    char kept[120], dropped[120];

    write_whole("whole");
    make_tree("kept");
    make_tree("dropped");
    snprintf(kept, sizeof(kept), "%s/kept", folder);
    snprintf(dropped, sizeof(dropped), "%s/dropped", folder);
    dsf_aside_add_folder(kept);
    dsf_aside_add_folder(dropped);
    dsf_aside_forget_folder(kept);
    dsf_aside_drop_all();
    assert_int_equal(access(dropped, F_OK), -1);
    assert_int_equal(access(kept, F_OK), 0);
    assert_string_equal(contents(), "whole"); /* what a link leads to */
    dsf_aside_forget_folder(dropped);
    dsf_aside_add_folder(kept);
    dsf_aside_drop_all();
    dsf_aside_forget_folder(kept);
    assert_int_equal(count_files(), 1);
}

static int make_folder(void **state)
{
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_file_takes_the_place_of_the_old_one),
        cmocka_unit_test(the_old_one_stays_until_then),
        cmocka_unit_test(a_write_that_fails_leaves_the_old_one),
        cmocka_unit_test(the_reason_of_another_stays),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
        cmocka_unit_test(a_process_that_ends_removes_what_is_not_whole),
        cmocka_unit_test(a_folder_goes_with_what_is_in_it),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
