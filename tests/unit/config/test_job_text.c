/* test_job_text.c - any job that is read and written reads back as the same
 * job: random values of random keys of every table. */
#include "config/job.h"

#include "config/job_tables.h"
#include "config/option.h"
#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 400 };

static uint64_t state = 7;

/* From 0 to `n` - 1. */
static unsigned pick(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static double within(double lowest, double highest)
{
    double share = pick(1000001) / 1e6;

    if (highest > 1e9)
        highest = 1e9;
    return lowest + share * (highest - lowest);
}

static void put_int(const struct dsflow_option *o, FILE *out)
{
    fprintf(out, "%.0f", floor(within(o->min, o->max)));
}

/* Characters that TOML writes in ways of its own, too. */
static void put_string(FILE *out)
{
    static const char *const parts[] = {
        "a",    "\\\"",    "\\\\",         "\\n", "\\t", " ",       "#",
        "[x]",  "\\u00e9", "\xe2\x80\xa6", "'",   "=",   "\\u0001", "1e3",
        "true", "-"
    };

    fputc('"', out);
    for (unsigned n = pick(6); n > 0; n--)
        fputs(parts[pick(sizeof(parts) / sizeof(*parts))], out);
    fputc('"', out);
}

static void put_word(const struct dsflow_option *o, FILE *out)
{
    unsigned n = 0;

    while (dsf_option_word(o, n) != NULL)
        n++;
    fprintf(out, "\"%s\"", dsf_option_word(o, pick(n)));
}

static void put_value(const struct dsflow_option *o, FILE *out)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    static const char *const times[] = { "s", "min", "h" };

    switch (o->type) {
    case DSFLOW_BOOL:
        fputs(pick(2) ? "true" : "false", out);
        break;
    case DSFLOW_INT:
        put_int(o, out);
        break;
    case DSFLOW_FLOAT:
        fprintf(out, "%.17g", within(o->min, o->max));
        break;
    case DSFLOW_STRING:
        if (o->names == NULL)
            put_string(out);
        else
            put_word(o, out);
        break;
    case DSFLOW_CHOICE:
        put_word(o, out);
        break;
    case DSFLOW_SIZE:
        fprintf(out, "\"%u%s\"", 1 + pick(1000), units[pick(4)]);
        break;
    case DSFLOW_TIME:
        fprintf(out, "\"%u%s\"", 1 + pick(50), times[pick(3)]);
        break;
    case DSFLOW_STRINGS:
        fputc('[', out);
        for (unsigned n = pick(4); n > 0; n--) {
            put_string(out);
            fputs(n > 1 ? ", " : "", out);
        }
        fputc(']', out);
        break;
    case DSFLOW_PAIR:
        fprintf(out, "[%.17g, %.17g]", within(0, 0.99), within(0, 0.99));
        break;
    case DSFLOW_AUTO:
        if (pick(3) == 0)
            fputs("\"auto\"", out);
        else
            put_int(o, out);
        break;
    case DSFLOW_INTS:
        fprintf(out, "[%u, %u]", 1 + pick(9), 1 + pick(9));
        break;
    case DSFLOW_SHARE:
        if (pick(3) == 0)
            fputs("\"auto\"", out);
        else
            fprintf(out, "%.17g", within(o->min, o->max));
        break;
    case DSFLOW_TABLES:
        fail();
        break;
    case DSFLOW_EVERY:
        if (pick(2))
            fprintf(out, "%u", pick(1000));
        else
            fprintf(out, "\"%u%s\"", 1 + pick(50), times[pick(3)]);
        break;
    }
}

/* Each key with a chance of one in `rare`; those without a default always. */
static void put_keys(const struct dsf_table *t, unsigned rare, FILE *out)
{
    for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
        if (o->type == DSFLOW_TABLES)
            continue; /* a table of its own, below */
        if (o->fallback != NULL && pick(rare) != 0)
            continue;
        fprintf(out, "%s = ", o->key);
        put_value(o, out);
        fputc('\n', out);
    }
}

static char *random_job(unsigned rare)
{
    const struct dsf_table *t;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++) {
        if (strcmp(t->name, "codelets") == 0)
            continue; /* there is nothing to load */
        for (unsigned n = t->rows == NULL ? 1 : pick(4); n > 0; n--) {
            fprintf(out, t->rows == NULL ? "[%s]\n" : "[[%s]]\n", t->name);
            put_keys(t, rare, out);
        }
    }
    fclose(out);
    return text;
}

static char *written(const struct dsf_job *job)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_int_equal(dsf_job_write(job, out), DSFLOW_OK);
    fclose(out);
    return text;
}

static void differs(void *user, const char *table, const char *key,
                    const char *in_a, const char *in_b)
{
    fail_msg("%s.%s: %s was read back as %s, from\n%s", table, key, in_a, in_b,
             (const char *)user);
}

/* The first line that is another one. */
static void assert_same_text(const char *a, const char *b)
{
    while (*a != '\0' && strcspn(a, "\n") == strcspn(b, "\n") &&
           strncmp(a, b, strcspn(a, "\n")) == 0) {
        a += strcspn(a, "\n") + 1;
        b += strcspn(b, "\n") + 1;
    }
    if (strcmp(a, b) != 0)
        fail_msg("%.*s became %.*s", (int)strcspn(a, "\n"), a,
                 (int)strcspn(b, "\n"), b);
}

static bool goes_round(const char *text, struct dsflow_err *err)
{
    struct dsf_job job, again;
    char *once, *twice;

    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job,
                      err) < 0)
        return false;
    once = written(&job);
    if (dsf_job_parse(once, strlen(once), "again.toml", NULL, 0, NULL, &again,
                      err) < 0)
        fail_msg("%s, in\n%s", err->msg, once);
    twice = written(&again);
    assert_same_text(once, twice);
    dsf_job_compare(&job, &again, differs, once);
    dsf_job_fini(&job);
    dsf_job_fini(&again);
    free(once);
    free(twice);
    return true;
}

static void a_written_job_reads_back_as_the_same(void **unused)
{
    unsigned good = 0;
    struct dsflow_err err = { .msg = "" };

    for (unsigned i = 0; i < TRIALS; i++) {
        char *text = random_job(1 + i % 8);

        good += goes_round(text, &err);
        free(text);
    }
    if (good < TRIALS / 2)
        fail_msg("%u of %u jobs were read; the last of the others: %s", good,
                 TRIALS, err.msg);
}

/* One that repeats, as no built-in table does. */
struct row {
    int64_t from;
    char *note;
};
struct list {
    struct dsflow_tables rows;
    double share;
};

static int add_table(void **unused)
{
    static const struct dsflow_option row_options[] = {
        DSFLOW_OPTION_INT(struct row, from, NULL, -9, 9, "where it begins"),
        DSFLOW_OPTION_OF(DSFLOW_STRING, struct row, note, "\"\"", "for people"),
        { 0 },
    };
    static const struct dsflow_option options[] = {
        DSFLOW_OPTION_FLOAT(struct list, share, "0.5", 0, 1, "a number"),
        DSFLOW_OPTION_TABLES(struct list, rows, row_options, struct row,
                             "what there is"),
        { 0 },
    };

    return dsf_job_add_table("list", "a list", options, sizeof(struct list),
                             NULL);
}

/* One after the other: those of each table, and of tables that repeat, but not
 * the key that has them. */
static void keys_are_walked_through(void **unused)
{
    struct dsf_table_key key = { 0 };
    const struct dsf_table *t;
    bool rows = false, last = false;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            if (o->type != DSFLOW_TABLES) {
                assert_true(dsf_job_next_key(&key));
                assert_ptr_equal(key.table, t);
                assert_ptr_equal(key.option, o);
                last = strcmp(dsf_key_name(&key).s, "list.rows.note") == 0;
                rows = rows || strcmp(dsf_key_name(&key).s, "list.rows") == 0;
            }
    assert_false(dsf_job_next_key(&key));
    assert_true(last && !rows);
}

/* Those of the text are nobody's. */
static void messages_of_a_written_job_name_no_line(void **unused)
{
    static const char text[] = "[job]\nsteps = 1\noutput = 'x'\n"
                               "[data]\ntrain = 'y'\n";
    struct dsflow_err err;
    struct dsf_job job;

    if (dsf_job_parse_written(text, sizeof(text) - 1, "job.toml", NULL, &job,
                              &err) < 0)
        fail_msg("%s", err.msg);
    dsf_job_fail(&job, &err, DSFLOW_EINVAL, "job", "output", "no folder");
    assert_string_equal(err.msg, "job.toml: job: output: no folder");
    dsf_job_fini(&job);
    assert_int_equal(dsf_job_parse_written("[job]\nx = 1\n", 12, "job.toml",
                                           NULL, &job, &err),
                     DSFLOW_EINVAL);
    assert_memory_equal(err.msg, "job.toml: job: x", 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_job_reads_back_as_the_same),
        cmocka_unit_test(keys_are_walked_through),
        cmocka_unit_test(messages_of_a_written_job_name_no_line),
    };

    return cmocka_run_group_tests(tests, add_table, NULL);
}
