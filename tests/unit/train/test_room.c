/* test_room.c - a run that cannot be saved is refused before it begins. */
#include "train/room.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

static struct dsf_job job;

/* A job with these keys, whose checkpoints have 1 MiB and 3 MiB less what goes
 * with them: 4 MiB each. */
static struct dsf_room_use use_of(const char *keys)
{
    static const char text[] = "[job]\nsteps = 100\noutput = \"runs/x\"\n"
                               "[data]\ntrain = \"x\"\n[checkpoint]\n";
    char all[256];
    struct dsflow_err err;

    dsf_job_fini(&job);
    snprintf(all, sizeof(all), "%s%s", text, keys);
    if (dsf_job_parse(all, strlen(all), "job.toml", NULL, 0, NULL, &job, &err) <
        0)
        fail_msg("%s", err.msg);
    return (struct dsf_room_use){ .bytes = { MIB - 3 * 4096, 3 * MIB - 1 },
                                  .saves = dsf_room_saves(&job, 0) };
}

/* Whether there is room for `use` where `mib` are free; `msg` gets why not. */
static bool fits(const struct dsf_room_use *use, double mib, const char **msg)
{
    static struct dsflow_err err;
    struct dsf_room room = { mib * MIB, 4096, INFINITY };
    int status = dsf_room_check(&job, use, &room, &err);

    *msg = err.msg;
    assert_true(status == DSFLOW_OK || status == DSFLOW_EFIT);
    return status == DSFLOW_OK;
}

static void the_saves_of_a_job_are_counted(void **state)
{
    use_of("");
    assert_true(dsf_room_saves(&job, 0) == 1);
    assert_true(dsf_room_saves(&job, 100) == 0);
    use_of("at_end = false\n");
    assert_true(dsf_room_saves(&job, 0) == 0);
    use_of("every = 30\n");
    assert_true(dsf_room_saves(&job, 0) == 4); /* 30, 60, 90, 100 */
    assert_true(dsf_room_saves(&job, 60) == 2);
    assert_true(dsf_room_saves(&job, 95) == 1);
    use_of("every = 50\n");
    assert_true(dsf_room_saves(&job, 0) == 2);
    use_of("every = \"30min\"\n");
    assert_true(isinf(dsf_room_saves(&job, 0)));
    assert_true(dsf_room_saves(&job, 100) == 0);
}

static void one_save_needs_one_checkpoint(void **state)
{
    struct dsf_room_use use = use_of("");
    const char *msg;

    assert_true(fits(&use, 4, &msg));
    assert_false(fits(&use, 3.999, &msg));
    assert_string_equal(
        msg, "job.toml:3: job: output: runs/x: a checkpoint needs 4.0 MiB and "
             "4.0 MiB are free there: set job.output to a folder with more "
             "room");
    assert_false(fits(&use, 2, &msg));
    assert_non_null(strstr(msg, "needs 4.0 MiB and 2.0 MiB are free"));
    use.saves = 0;
    assert_true(fits(&use, 0, &msg));
}

static void the_next_one_is_written_before_the_oldest_goes(void **state)
{
    struct dsf_room_use use = use_of("every = 10\nkeep = 2\n");
    const char *msg;

    assert_true(fits(&use, 12, &msg));
    assert_false(fits(&use, 11, &msg));
    assert_non_null(strstr(msg, "the checkpoints need 12.0 MiB (3 of 4.0 MiB "
                                "at a time, with checkpoint.keep = 2) and "
                                "11.0 MiB are free"));
    assert_non_null(strstr(msg, ", or checkpoint.keep = 1"));
    assert_false(fits(&use, 7, &msg));
    assert_null(strstr(msg, "or checkpoint.keep"));
    use = use_of("every = 10\nkeep = 1000000000\n");
    assert_true(fits(&use, 40, &msg)); /* ten of them, which is all */
    assert_false(fits(&use, 39, &msg));
    assert_non_null(strstr(msg, ", or checkpoint.keep = 8"));
    use = use_of("every = \"5min\"\nkeep = 1\n");
    assert_true(fits(&use, 8, &msg));
    assert_false(fits(&use, 7, &msg));
}

static void those_of_before_make_way(void **state)
{
    struct dsf_room_use use = use_of("every = 10\nkeep = 2\n");
    const char *msg;

    use.there = 2;
    use.there_bytes = 8 * MIB;
    assert_true(fits(&use, 4, &msg));
    assert_false(fits(&use, 3, &msg));
    use.there = 1;
    use.there_bytes = 4 * MIB;
    assert_true(fits(&use, 8, &msg));
    assert_false(fits(&use, 7, &msg));
    use.there = 0;
    use.removed = 8 * MIB; /* --overwrite */
    assert_true(fits(&use, 4, &msg));
}

static void what_else_is_on_that_disk_counts(void **state)
{
    struct dsf_room_use use = use_of("");
    const char *msg;

    use.others = 10 * MIB;
    assert_true(fits(&use, 14, &msg));
    assert_false(fits(&use, 13, &msg));
    assert_non_null(strstr(msg, "needs 14.0 MiB, with 10.0 MiB for "
                                "memory.nvme.path and 13.0 MiB are free"));
}

static void where_all_are_kept_one_must_fit(void **state)
{
    struct dsf_room_use use = use_of("every = 10\nkeep = 0\n");
    const char *msg;

    assert_true(fits(&use, 5, &msg));
    assert_false(fits(&use, 3, &msg));
}

static void a_file_that_may_not_be_so_large_is_found_too(void **state)
{
    struct dsf_room_use use = use_of("");
    struct dsf_room room = { INFINITY, 4096, 2 * MIB };
    struct dsflow_err err;

    assert_int_equal(dsf_room_check(&job, &use, &room, &err), DSFLOW_EFIT);
    assert_non_null(strstr(err.msg, "a file of 3.0 MiB and files may have 2.0 "
                                    "MiB here: raise the limit (ulimit -f)"));
    room.file = 3 * MIB;
    assert_int_equal(dsf_room_check(&job, &use, &room, &err), DSFLOW_OK);
}

static void a_folder_that_is_not_there_yet_is_where_it_will_be(void **state)
{
    struct dsf_room here, there;

    dsf_room_look("/tmp", &here);
    dsf_room_look("/tmp/no/such/folder", &there);
    assert_true(here.free > 0 && here.block > 0);
    assert_true(there.block == here.block);
    assert_true(isfinite(there.free));
    dsf_room_look("nothing-of-this-name/x", &there);
    assert_true(isfinite(there.free));
    dsf_room_look("/nothing-of-this-name", &there);
    assert_true(isfinite(there.free));
}

/* As they are planned, on a disk of blocks of 4 KiB. */
static void a_plan_says_how_many_there_are(void **state)
{
    static const struct {
        const char *keys;
        double n, kept, most;
    } cases[] = {
        { "", 1, 1, 1 },
        { "at_end = false\n", 0, 0, 0 },
        { "every = 30\nkeep = 2\n", 4, 2, 3 },
        { "every = 30\nkeep = 3\n", 4, 3, 4 },
        { "every = 30\nkeep = 9\n", 4, 4, 4 },
        { "every = 30\nkeep = 0\n", 4, 4, 4 },
        { "every = \"30min\"\nkeep = 2\n", INFINITY, 2, 3 },
        { "every = \"30min\"\nkeep = 0\n", INFINITY, INFINITY, INFINITY },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_room_use use = use_of(cases[i].keys);
        struct dsf_plan_saves saves = dsf_room_plan(&job, &use);

        assert_true(saves.bytes == 4 * MIB);
        assert_true(saves.n == cases[i].n);
        assert_true(saves.kept == cases[i].kept);
        assert_true(saves.most == cases[i].most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_saves_of_a_job_are_counted),
        cmocka_unit_test(one_save_needs_one_checkpoint),
        cmocka_unit_test(the_next_one_is_written_before_the_oldest_goes),
        cmocka_unit_test(those_of_before_make_way),
        cmocka_unit_test(what_else_is_on_that_disk_counts),
        cmocka_unit_test(where_all_are_kept_one_must_fit),
        cmocka_unit_test(a_file_that_may_not_be_so_large_is_found_too),
        cmocka_unit_test(a_folder_that_is_not_there_yet_is_where_it_will_be),
        cmocka_unit_test(a_plan_says_how_many_there_are),
    };
    int status = cmocka_run_group_tests(tests, NULL, NULL);

    dsf_job_fini(&job);
    return status;
}
