/* test_normal.c - texts of any size in normal form, wherever they are kept. */
#include "text/normal.h"

#include "text/nfc.h"

#include "unit/text/folder.h"

#include <signal.h>
#include <sys/resource.h>

enum { BYTES = 5000000 }; /* some pieces */

static char *text;
static size_t bytes;

static void must(int status, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s", err->msg);
}

/* Long words of few letters between accents, so that most pieces would end
 * within one. */
static int make_text(void **state)
{
    static const char *const parts[] = { "e\u0301",      "\u0301\u0323",
                                         "\u304b",       "\u3099",
                                         "\u1112\u1161", "a",
                                         "\xe6\x97\xff", "\u00e9\u0323" };
    uint64_t drawn = 5;

    text = dsf_xcalloc(BYTES, 1);
    for (;;) {
        const char *part;

        drawn = drawn * 6364136223846793005u + 1442695040888963407u;
        part = parts[(drawn >> 33) % (drawn >> 60 == 0 ? 8 : 5)];
        if (bytes + strlen(part) > BYTES)
            return make_folder(state);
        memcpy(text + bytes, part, strlen(part));
        bytes += strlen(part);
    }
}

static int free_text(void **state)
{
    free(text);
    return remove_folder(state);
}

static void count(void *user, size_t n)
{
    *(size_t *)user += n;
}

/* As it is all at once. */
static void check(const char *where, size_t memory, bool in_file)
{
    size_t read = 0, nwant;
    const struct dsf_normalizing how = { where, memory, count, &read };
    char *want = dsf_nfc(text, bytes, &nwant);
    struct dsf_normal got;
    struct dsflow_err err;

    must(dsf_normal_init(&got, text, bytes, &how, &err), &err);
    assert_int_equal(got.in_file, in_file);
    dsf_normal_let_go(&got);
    assert_int_equal(got.n, nwant);
    assert_memory_equal(got.text, want, nwant);
    assert_true(read >= bytes);
    dsf_normal_fini(&got);
    free(want);
}

static void pieces_give_the_form_of_the_whole(void **state)
{
    check(NULL, 0, false);
    check(folder, BYTES, false);
    check(folder, 2500000, true);
    check(folder, 1, true);
    check("/nowhere", 1, false);
}

static void what_has_the_form_stays_where_it_is(void **state)
{
    size_t read = 0, n;
    const struct dsf_normalizing how = { folder, 1, count, &read };
    char *want = dsf_nfc(text, bytes, &n);
    struct dsf_normal got;
    struct dsflow_err err;

    must(dsf_normal_init(&got, want, n, &how, &err), &err);
    assert_ptr_equal(got.text, want);
    assert_int_equal(got.n, n);
    dsf_normal_let_go(&got);
    dsf_normal_fini(&got);
    must(dsf_normal_init(&got, "", 0, &how, &err), &err);
    assert_int_equal(got.n, 0);
    dsf_normal_fini(&got);
    free(want);
}

/* Before there is anything in it, and later. */
static void a_full_disk_is_named(void **state)
{
    size_t read = 0;
    struct rlimit all, some;

    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &all);
    for (rlim_t most = 0; most < 3000000; most += 2000000) {
        const struct dsf_normalizing how = { folder, 1, count, &read };
        struct dsf_normal got;
        struct dsflow_err err;
        int status;

        some = (struct rlimit){ most, all.rlim_max };
        setrlimit(RLIMIT_FSIZE, &some);
        status = dsf_normal_init(&got, text, bytes, &how, &err);
        setrlimit(RLIMIT_FSIZE, &all);
        assert_int_equal(status, DSFLOW_EIO);
        check_message(&err, ": text in normal form C: File too large");
        dsf_normal_let_go(&got);
        dsf_normal_fini(&got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_give_the_form_of_the_whole),
        cmocka_unit_test(what_has_the_form_stays_where_it_is),
        cmocka_unit_test(a_full_disk_is_named),
    };

    return cmocka_run_group_tests(tests, make_text, free_text);
}
