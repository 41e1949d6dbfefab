/* test_text_files.c - the files of [data] are found once each, and are text. */
#include "text/text_files.h"

#include "unit/text/folder.h"

static int find(const char *data, struct dsf_text_files *files,
                struct dsflow_err *err)
{
    struct dsf_job job;
    int status;

    make_job(&job, data);
    status = dsf_text_files_open(&job, "train", &job.data.train, files, err);
    dsf_job_fini(&job);
    return status;
}

static void expect_names(const char *data, const char *const *names)
{
    struct dsf_text_files files;
    struct dsflow_err err;
    unsigned n = 0;

    if (find(data, &files, &err) < 0)
        fail_msg("%s", err.msg);
    for (; names[n] != NULL; n++) {
        assert_true(n < files.n);
        assert_string_equal(strrchr(files.v[n].path, '/') + 1, names[n]);
    }
    assert_int_equal(files.n, n);
    dsf_text_files_close(&files);
}

static void link_to(const char *target, const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);

    assert_int_equal(symlink(target, path), 0);
    free(path);
}

static void a_glob_gives_the_texts_among_what_it_matches(void **state)
{
    char *sub = dsf_xasprintf("%s/zfolder", folder);

    write_text("quotes", "one\n");
    write_file("quotes.dat", "\0\0\1", 3);
    write_text("art", "two\n");
    write_text("alone.dat", "no index: nothing beside it\n");
    link_to("quotes", "a-link.u8");
    assert_int_equal(mkdir(sub, 0777), 0);
    free(sub);
    expect_names("train = [\"@/*\"]",
                 (const char *const[]){ "alone.dat", "art", "quotes", NULL });
}

static void files_are_sorted_and_named_once(void **state)
{
    write_text("b", "b\n");
    write_text("a", "a\n");
    write_text("[c]*", "a name like a glob\n");
    expect_names("train = [\"@/b\", \"@/?\", \"@/a\", \"@/[c]*\"]",
                 (const char *const[]){ "[c]*", "a", "b", NULL });
}

static void what_cannot_be_found_is_named(void **state)
{
    struct dsf_text_files files;
    struct dsflow_err err;

    assert_int_equal(find("train = [\"@/no\"]", &files, &err), DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: /no: No such file or "
                        "directory");
    assert_int_equal(find("train = [\"@/no*\"]", &files, &err), DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: /no*: matches no file");
    assert_int_equal(find("train = [\"@\"]", &files, &err), DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: : is a folder; expected a "
                        "file, or \"/*\"");
    write_text("empty", "");
    assert_int_equal(find("train = [\"@/*\"]", &files, &err), DSFLOW_EINVAL);
    check_message(&err,
                  "job.toml:5: data: train: /empty: is empty; expected text");
}

/* A user without rights stands in for root, who may read everything. */
static void what_may_not_be_read_is_named(void **state)
{
    char *path = dsf_xasprintf("%s/secret", folder);
    const bool root = geteuid() == 0;
    struct dsf_text_files files;
    struct dsflow_err err;

    write_text("secret", "s\n");
    assert_int_equal(chmod(path, 0), 0);
    if (root) {
        assert_int_equal(chmod(folder, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    assert_int_equal(find("train = [\"@/secret\"]", &files, &err),
                     DSFLOW_EINVAL);
    if (root)
        assert_int_equal(seteuid(0), 0);
    check_message(&err, "job.toml:5: data: train: /secret: Permission denied");
    free(path);
}

static int check_text(const char *text, size_t n, bool utf8,
                      struct dsflow_err *err)
{
    struct dsf_text_files files;
    struct dsf_job job;
    int status;

    write_file("text", text, n);
    make_job(&job, "train = [\"@/text\"]");
    assert_int_equal(
        dsf_text_files_open(&job, "train", &job.data.train, &files, err),
        DSFLOW_OK);
    status = dsf_text_files_check(&job, "train", &files, utf8, err);
    dsf_text_files_close(&files);
    dsf_job_fini(&job);
    return status;
}

static void what_is_no_text_is_refused_with_the_offset(void **state)
{
    struct dsflow_err err;

    assert_int_equal(check_text("abc\0def", 7, false, &err), DSFLOW_EINVAL);
    check_message(
        &err,
        "job.toml:5: data: train: /text: is no text: a NUL byte at offset 3");
    assert_int_equal(check_text("abcd\xff\xfe"
                                "efgh",
                                10, true, &err),
                     DSFLOW_EINVAL);
    check_message(&err, "job.toml:5: data: train: /text: is no UTF-8 text: 2 "
                        "of 10 bytes are invalid, "
                        "the first at offset 4");
    assert_int_equal(check_text("abcd\xff\xfe"
                                "efgh",
                                10, false, &err),
                     DSFLOW_OK);
    assert_int_equal(check_text("abcd\xff"
                                "efghi",
                                10, true, &err),
                     DSFLOW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_glob_gives_the_texts_among_what_it_matches, make_folder,
            remove_folder),
        cmocka_unit_test_setup_teardown(files_are_sorted_and_named_once,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_found_is_named,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_may_not_be_read_is_named,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(
            what_is_no_text_is_refused_with_the_offset, make_folder,
            remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
