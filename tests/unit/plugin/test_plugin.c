/* test_plugin.c - plug-ins of a program itself: all of one, or nothing; and
 * files that are none. (Libraries that are some: tests/cli/plugin.sh.) */
#include "plugin/plugin.h"

#include "config/job.h"
#include "lib/job.h"
#include "lib/train.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static double lr(const void *part, const struct dsflow_lr_keys *keys,
                 int64_t step)
{
    return 1;
}

struct part {
    int64_t n;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_INT(struct part, n, "4", 0, 9, "a number"),
    { 0 },
};

#define POLICY(id, behind)                                                     \
    static const struct dsflow_policy id = { .abi = DSFLOW_POLICY_ABI,         \
                                             .name = #id,                      \
                                             .summary = "of the test",         \
                                             .after = behind,                  \
                                             .rewrite = rewrite };             \
    static const struct dsflow_policy *const list_##id[] = { &id, NULL };      \
    static const struct dsflow_plugin plugin_##id = { .abi =                   \
                                                          DSFLOW_PLUGIN_ABI,   \
                                                      .name = #id,             \
                                                      .summary = "a policy",   \
                                                      .policies = list_##id }

POLICY(early, "pipeline");
POLICY(later, "pipeline");
POLICY(behind_early, "early");
POLICY(last, "priorities");

static void policies_stand_behind_the_one_they_name(void **state)
{
    static const char *const order[] = { "reference",
                                         "recompute",
                                         "tensor_parallel",
                                         "sequence_parallel",
                                         "pipeline",
                                         "early",
                                         "later",
                                         "behind_early",
                                         "replace",
                                         "precision",
                                         "weights",
                                         "compress",
                                         "zero",
                                         "collectives",
                                         "strict",
                                         "send",
                                         "offload",
                                         "priorities",
                                         "last",
                                         NULL };
    struct dsflow_err err;

    must(dsflow_plugin_add(&plugin_last, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_early, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_later, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_behind_early, "test", &err), &err);
    for (unsigned i = 0; order[i] != NULL; i++)
        assert_string_equal(dsflow_policy_at(i)->name, order[i]);
    assert_null(dsflow_policy_at(19));
}

/* A schedule that is fine, then a policy that is not. */
static void of_a_plug_in_that_is_wrong_nothing_stays(void **state)
{
    static const struct dsflow_lr_schedule ones = { .abi =
                                                        DSFLOW_LR_SCHEDULE_ABI,
                                                    .name = "ones",
                                                    .summary = "1",
                                                    .options = options,
                                                    .part_size =
                                                        sizeof(struct part),
                                                    .lr = lr };
    static const struct dsflow_lr_schedule *const schedules[] = { &ones, NULL };
    static struct dsflow_policy policy = { .abi = DSFLOW_POLICY_ABI,
                                           .name = "zero",
                                           .summary = "another",
                                           .after = "send",
                                           .rewrite = rewrite };
    static const struct dsflow_policy *const policies[] = { &policy, NULL };
    static const struct dsflow_plugin plugin = { .abi = DSFLOW_PLUGIN_ABI,
                                                 .name = "half",
                                                 .summary = "half of it",
                                                 .schedules = schedules,
                                                 .policies = policies };
    unsigned ntables = dsf_job_added_tables(), n = 0;
    struct dsflow_err err;

    while (dsflow_plugin_at(n, NULL) != NULL)
        n++;
    assert_int_equal(dsflow_plugin_add(&plugin, "test", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "test: policy zero: the name is taken "
                                 "(built-in)");
    assert_null(dsflow_lr_schedule_find("ones"));
    assert_null(dsflow_plugin_at(n, NULL));
    assert_int_equal(dsf_job_added_tables(), ntables);

    policy.name = "another";
    must(dsflow_plugin_add(&plugin, "test", &err), &err);
    assert_ptr_equal(dsflow_lr_schedule_find("ones"), &ones);
    assert_int_equal(dsf_job_added_tables(), ntables + 1);
    /* Once more is nothing new. */
    must(dsflow_plugin_add(&plugin, "again", &err), &err);
    assert_null(dsflow_plugin_at(n + 1, NULL));
}

static void a_table_of_a_plug_in_is_read_and_written_like_others(void **state)
{
    static const char text[] = "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
                               "[ones]\nn = 7\n";
    struct dsflow_err err;
    struct dsf_job job;
    char *out = NULL;
    size_t bytes;
    FILE *f;

    must(dsf_job_parse(text, sizeof(text) - 1, "t", NULL, 0, NULL, &job, &err),
         &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 7);
    f = open_memstream(&out, &bytes);
    assert_int_equal(dsf_job_write(&job, f), DSFLOW_OK);
    fclose(f);
    assert_non_null(strstr(out, "[ones]\nn = 7\n"));
    free(out);
    dsf_job_fini(&job);
    must(dsf_job_parse(text, 35, "t", NULL, 0, NULL, &job, &err), &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 4);
    must(job_set(&job, "ones.n=2", &err), &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 2);
    assert_int_equal(job_set(&job, "ones.n=12", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "--set: ones: n: 12: expected a whole number, "
                                 "0 to 9");
    dsf_job_fini(&job);
}

struct row {
    int64_t chunk;
    char *note;
};
static const struct dsflow_option row_options[] = {
    DSFLOW_OPTION_INT(struct row, chunk, NULL, 0, 9, "of which chunk"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, struct row, note, "\"none\"", "for people",
                     "job.steps >= 2"),
    { 0 },
};
struct list {
    struct dsflow_tables rows;
    int64_t n;
};
static const struct dsflow_option list_options[] = {
    DSFLOW_OPTION_TABLES(struct list, rows, row_options, struct row,
                         "what is done to chunks"),
    DSFLOW_OPTION_INT(struct list, n, "4", 0, 9, "a number"),
    { 0 },
};

static void add_list(void)
{
    static const struct dsflow_policy policy = { .abi = DSFLOW_POLICY_ABI,
                                                 .name = "list",
                                                 .summary = "of tables",
                                                 .after = "send",
                                                 .options = list_options,
                                                 .part_size =
                                                     sizeof(struct list),
                                                 .rewrite = rewrite };
    static const struct dsflow_policy *const policies[] = { &policy, NULL };
    static const struct dsflow_plugin plugin = { .abi = DSFLOW_PLUGIN_ABI,
                                                 .name = "list",
                                                 .summary = "repeats",
                                                 .policies = policies };
    struct dsflow_err err;

    must(dsflow_plugin_add(&plugin, "test", &err), &err);
}

#define HEAD "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
#define ROWS                                                                   \
    "[[list.rows]]\nchunk = 3\nnote = \"a\"\n"                                 \
    "[[list.rows]]\nchunk = 5\n"

static int parse(const char *text, struct dsf_job *job, struct dsflow_err *err)
{
    return dsf_job_parse(text, strlen(text), "t", NULL, 0, NULL, job, err);
}

static const struct row *row_of(const struct dsf_job *job, unsigned i)
{
    const struct list *list = dsf_job_part(job, list_options);

    return i < list->rows.n ? (const struct row *)list->rows.v + i : NULL;
}

static void a_table_may_repeat(void **state)
{
    struct dsflow_err err;
    struct dsf_job job;

    add_list();
    must(parse(HEAD "[list]\nn = 2\n" ROWS, &job, &err), &err);
    assert_int_equal(row_of(&job, 0)->chunk, 3);
    assert_string_equal(row_of(&job, 0)->note, "a");
    assert_int_equal(row_of(&job, 1)->chunk, 5);
    assert_string_equal(row_of(&job, 1)->note, "none");
    assert_null(row_of(&job, 2));

    /* One is changed, one is added, and then there is none. */
    must(job_set(&job, "list.rows[1].note=b", &err), &err);
    must(job_set(&job, "list.rows[2].chunk=7", &err), &err);
    assert_string_equal(row_of(&job, 1)->note, "b");
    assert_int_equal(row_of(&job, 2)->chunk, 7);
    dsf_job_fail(&job, &err, DSFLOW_EINVAL, "list.rows[0]", "note", "odd");
    assert_string_equal(err.msg, "t:9: list.rows[0]: note: odd");
    must(job_set(&job, "list.rows=[]", &err), &err);
    assert_null(row_of(&job, 0));
    must(job_set(&job, "list.rows[0].note=c", &err), &err);
    assert_false(dsf_job_has(&job, "list.rows[0]", "chunk"));
    assert_true(dsf_job_has(&job, "list.rows[0]", "note"));
    dsf_job_fini(&job);

    must(parse(HEAD, &job, &err), &err);
    assert_null(row_of(&job, 0));
    dsf_job_fini(&job);
}

static void what_is_wrong_with_an_element_has_its_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { ROWS "[[list.rows]]\nchunk = 12\n",
          "t:11: list.rows[2]: chunk: 12: expected a whole number, 0 to 9" },
        { ROWS "[[list.rows]]\nchunky = 1\n",
          "t:11: list.rows: chunky: unknown key; did you mean chunk?" },
        { "[list.rows]\nchunk = 1\n",
          "t:6: list.rows: expected [[list.rows]], of which list.rows[0] is "
          "the next" },
        { "[list]\nrows = 3\n",
          "t:6: list: rows: 3: expected a table [[...]] for each, or []" },
        { "[[list]]\nn = 3\n",
          "t:5: list[0]: expected [list], which does not repeat" },
        { "[[list.row]]\n", "t:5: [list.row]: unknown table; did you mean "
                            "list.rows?" },
        { "[[list.rows]]\nx = { y = 1 }\n",
          "t:6: list.rows[0].x: expected list.rows[0] to list.rows[1], which "
          "would be the next" },
    };
    struct dsflow_err err;
    struct dsf_job job;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[400];

        snprintf(text, sizeof(text), HEAD "%s", cases[i].text);
        assert_int_equal(parse(text, &job, &err), DSFLOW_EINVAL);
        assert_string_equal(err.msg, cases[i].message);
    }
    /* A key that must be given is wanted by who uses the table. */
    must(parse(HEAD ROWS "[[list.rows]]\nnote = \"x\"\n", &job, &err), &err);
    assert_int_equal(dsf_job_check_part(&job, list_options, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "t:10: list.rows[2]: chunk: is missing: "
                                 "expected a whole number, 0 to 9");
    assert_int_equal(job_set(&job, "list.rows[4].chunk=1", &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "--set: list.rows[4]: expected list.rows[0] to "
                        "list.rows[3], which would be the next");
    assert_int_equal(job_set(&job, "list.rows[-1].chunk=1", &err),
                     DSFLOW_EINVAL);
    dsf_job_fini(&job);
}

static void note_difference(void *user, const char *table, const char *key,
                            const char *in_a, const char *in_b)
{
    char *all = user;

    snprintf(all + strlen(all), 400 - strlen(all), "%s.%s %s %s\n", table, key,
             in_a, in_b);
}

static void a_job_with_tables_that_repeat_is_written_and_compared(void **state)
{
    struct dsf_job job, again;
    struct dsflow_err err;
    char *out = NULL, all[400] = "";
    size_t bytes;
    FILE *f;

    must(parse(HEAD "[list]\nn = 2\n" ROWS, &job, &err), &err);
    f = open_memstream(&out, &bytes);
    assert_int_equal(dsf_job_write(&job, f), DSFLOW_OK);
    fclose(f);
    assert_non_null(strstr(out, "[list]\nn = 2\n" ROWS));
    must(parse(out, &again, &err), &err);
    free(out);
    dsf_job_compare(&job, &again, note_difference, all);
    assert_string_equal(all, "");
    must(job_set(&again, "list.rows[1].chunk=6", &err), &err);
    must(job_set(&again, "list.rows[2].chunk=7", &err), &err);
    dsf_job_compare(&job, &again, note_difference, all);
    assert_string_equal(all, "list.rows[1].chunk 5 6\n"
                             "list.rows[2].chunk nothing 7\n"
                             "list.rows[2].note nothing \"none\"\n");
    dsf_job_fini(&job);
    dsf_job_fini(&again);
}

/* The second is no table of options: neither it nor the first stays. */
static void keys_of_elements_are_checked_when_they_come(void **state)
{
    static const struct dsflow_option wrong[] = {
        DSFLOW_OPTION_INT(struct row, chunk, "12", 0, 9, "of which chunk"),
        { 0 },
    };
    static const struct dsflow_option nested[] = {
        DSFLOW_OPTION_TABLES(struct list, rows, row_options, struct row, "in"),
        { 0 },
    };
    static const struct dsflow_option tables[] = {
        DSFLOW_OPTION_TABLES(struct list, rows, wrong, struct row, "rows"),
        { 0 },
    };
    static const struct dsflow_option twice[] = {
        DSFLOW_OPTION_TABLES(struct list, rows, nested, struct list, "rows"),
        { 0 },
    };
    static const struct dsflow_option spaced[] = {
        DSFLOW_OPTION_FULL("a key", DSFLOW_INT, 0, "4", 0, 9, NULL, "a number"),
        { 0 },
    };
    static const struct dsflow_option again[] = {
        DSFLOW_OPTION_INT(struct part, n, "4", 0, 9, "a number"),
        DSFLOW_OPTION_INT(struct part, n, "5", 0, 9, "a number"),
        { 0 },
    };
    unsigned n = dsf_job_added_tables();
    struct dsflow_err err;

    assert_int_equal(
        dsf_job_add_table("odd", "odd", tables, sizeof(struct list), &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "rows: chunk: default: 12: expected a whole "
                                 "number, 0 to 9");
    assert_int_equal(
        dsf_job_add_table("odd", "odd", twice, sizeof(struct list), &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "rows: rows: a table that repeats in another");
    assert_int_equal(
        dsf_job_add_table("odd", "odd", spaced, sizeof(struct part), &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "key \"a key\": expected letters, digits, '_' "
                                 "and '-'");
    assert_int_equal(
        dsf_job_add_table("odd", "odd", again, sizeof(struct part), &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "n: expected it once");
    assert_int_equal(dsf_job_added_tables(), n);
}

/* Each says what it is, with the path as it was given. */
static void what_is_no_plug_in_is_not_loaded(void **state)
{
    static const char *const cases[][2] = {
        { "none-such.so", "none-such.so: No such file or directory" },
        { "./none-such.so", "./none-such.so: No such file or directory" },
        { "/", "/: expected a shared library" },
        { "/proc/self/environ",
          "/proc/self/environ: expected a shared library" },
    };
    struct dsflow_err err;
    char expected[600];
    Dl_info libc;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(dsflow_plugin_load(cases[i][0], &err), DSFLOW_EINVAL);
        assert_int_equal(strncmp(err.msg, cases[i][1], strlen(cases[i][1])), 0);
        assert_null(strstr(err.msg + 1, cases[i][0])); /* once */
    }
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "dlerror"), &libc) != 0);
    snprintf(expected, sizeof(expected),
             "%s: defines no dsflow_plugin: expected a plug-in of dsflow",
             libc.dli_fname);
    assert_int_equal(dsflow_plugin_load(libc.dli_fname, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, expected);
    assert_null(dsflow_plugin_at(1000, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_stand_behind_the_one_they_name),
        cmocka_unit_test(of_a_plug_in_that_is_wrong_nothing_stays),
        cmocka_unit_test(a_table_of_a_plug_in_is_read_and_written_like_others),
        cmocka_unit_test(a_table_may_repeat),
        cmocka_unit_test(what_is_wrong_with_an_element_has_its_line),
        cmocka_unit_test(a_job_with_tables_that_repeat_is_written_and_compared),
        cmocka_unit_test(keys_of_elements_are_checked_when_they_come),
        cmocka_unit_test(what_is_no_plug_in_is_not_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
