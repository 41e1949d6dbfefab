/* test_metrics.c - what a run writes of its steps is whole, whatever ends it. */
#include "train/metrics.h"

#include "base/log.h"
#include "lib/folder.h"
#include "lib/step.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_line_reads_back(void **state)
{
    struct dsf_metrics m;
    struct dsflow_err err = { 0 };
    struct dsf_step s = step_of(7, 1), *r;
    struct dsf_line line;
    char text[4096];
    int fd;
    ssize_t n;

    unlink(path_in("metrics.jsonl"));
    assert_int_equal(dsf_metrics_open(&m, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    s.loss = NAN;
    strcpy(s.program, "every_fifth");
    assert_int_equal(dsf_metrics_step(&m, &s, &err), DSFLOW_OK);
    fd = open(path_in("metrics.jsonl"), O_RDONLY);
    n = read(fd, text, sizeof(text));
    assert_true(n > 0 && text[n - 1] == '\n');
    assert_true(dsf_metrics_parse(text, (size_t)n, &line));
    assert_int_equal(line.kind, DSF_LINE_STEP);
    r = &line.step;
    assert_int_equal(r->step, 7);
    assert_string_equal(r->program, "every_fifth");
    assert_true(isnan(r->loss));
    assert_true(fabs(r->efficiency - 0.875) < 1e-8);
    assert_true(r->mfu == 0.4375);
    for (unsigned i = 0; i < DSF_NSHARES; i++)
        assert_true(fabs(r->share[i] - s.share[i]) < 1e-8);
    assert_memory_equal(r->moved, s.moved, sizeof(s.moved));
    assert_int_equal(r->peak_bytes, s.peak_bytes);
    assert_int_equal(r->device_bytes, s.device_bytes);
    assert_int_equal(r->nvme_bytes, s.nvme_bytes);
    assert_true(r->io_seconds == 0.25 && r->io_hidden == 0.75);

    assert_int_equal(dsf_metrics_end(&m, 7, DSF_FAILED, "no \"luck\"", &err),
                     DSFLOW_OK);
    n = pread(fd, text, sizeof(text), n);
    assert_true(dsf_metrics_parse(text, (size_t)n, &line));
    assert_int_equal(line.kind, DSF_LINE_END);
    assert_int_equal(line.end.end, DSF_FAILED);
    assert_string_equal(line.end.why, "no \"luck\"");
    assert_false(dsf_metrics_parse("{}", 2, &line));
    assert_false(dsf_metrics_parse("{\"step\":1", 9, &line));
    close(fd);
    dsf_metrics_close(&m);
}

/* Where losses are not scaled, there is nothing to count. */
static void overflows_are_counted_where_losses_are_scaled(void **state)
{
    struct dsf_metrics m;
    struct dsflow_err err = { 0 };
    struct dsf_step s = step_of(8, 1);
    struct dsf_line line;
    char text[4096], *end;
    FILE *in;

    unlink(path_in("scaled.jsonl"));
    assert_int_equal(dsf_metrics_open(&m, path_in("scaled.jsonl"), &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_metrics_step(&m, &s, &err), DSFLOW_OK);
    s.loss_scale = 32768;
    s.overflows = 3;
    assert_int_equal(dsf_metrics_step(&m, &s, &err), DSFLOW_OK);
    dsf_metrics_close(&m);
    in = fopen(path_in("scaled.jsonl"), "r");
    assert_non_null(fgets(text, sizeof(text), in));
    assert_null(strstr(text, "overflows"));
    assert_true(dsf_metrics_parse(text, strlen(text), &line));
    assert_int_equal(line.step.overflows, -1);
    end = fgets(text, sizeof(text), in);
    assert_true(dsf_metrics_parse(end, strlen(end), &line));
    assert_int_equal(line.step.overflows, 3);
    assert_true(line.step.loss_scale == 32768);
    fclose(in);
}

static void one_run_at_a_time_has_the_file(void **state)
{
    struct dsf_metrics a, b;
    struct dsflow_err err = { 0 };
    int fd;

    assert_int_equal(dsf_metrics_open(&a, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    fd = open(path_in("metrics.jsonl"), O_RDONLY);
    assert_int_equal(dsf_metrics_is_open(fd), 1);
    assert_int_equal(dsf_metrics_open(&b, path_in("metrics.jsonl"), &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "another run is writing it"));
    dsf_metrics_close(&b);
    dsf_metrics_close(&a);
    assert_int_equal(dsf_metrics_is_open(fd), 0);
    close(fd);
}

/* Steps as fast as they go, until killed; a byte says that one begins. */
static void write_until_killed(int begins)
{
    struct dsf_metrics m;

    if (dsf_metrics_open(&m, path_in("metrics.jsonl"), NULL) == DSFLOW_OK)
        for (int i = 1; write(begins, "", 1) == 1; i++) {
            struct dsf_step s = step_of(i, 1);

            dsf_metrics_step(&m, &s, NULL);
        }
    _exit(1);
}

/* A process that writes, killed while it is at step `step` or a later one. */
static void write_and_kill(int step)
{
    int begins[2];
    pid_t child;
    char byte;

    assert_int_equal(pipe(begins), 0);
    child = fork();
    if (child == 0)
        write_until_killed(begins[1]);
    close(begins[1]);
    for (int i = 0; i < step; i++)
        assert_int_equal(read(begins[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(begins[0]);
}

static void a_run_that_is_killed_leaves_whole_lines(void **state)
{
    enum { KILLS = 200 };
    size_t cap = 0;
    char *text = NULL;
    ssize_t n;

    for (int i = 0; i < KILLS; i++) {
        struct dsf_line line;
        FILE *f;

        unlink(path_in("metrics.jsonl"));
        write_and_kill(1 + i * 37 % 20);
        f = fopen(path_in("metrics.jsonl"), "r");
        while (f != NULL && (n = getline(&text, &cap, f)) > 0)
            if (text[n - 1] != '\n' ||
                !dsf_metrics_parse(text, (size_t)n, &line))
                fail_msg("after kill %d: half a line: %s", i, text);
        if (f != NULL)
            fclose(f);
    }
    free(text);
}

static char said[300];

static void take(void *user, enum dsflow_log_level level, const char *line)
{
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", line);
}

/* What is left of four steps and a validation, of which line 2 is damaged, for
 * a run that goes on after step `done`; in lines. */
static unsigned begin_after(int64_t done, struct dsf_metrics *m)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_validation v = { 3, 1, 1, 1 };
    unsigned lines = 0;
    int c;
    FILE *f;

    unlink(path_in("damaged.jsonl"));
    assert_int_equal(dsf_metrics_open(m, path_in("damaged.jsonl"), &err),
                     DSFLOW_OK);
    for (int i = 1; i <= 4; i++) {
        struct dsf_step s = step_of(i, 1);

        if (i == 2)
            assert_int_equal(write(m->fd, "\"\0damaged\n", 10), 10);
        else
            assert_int_equal(dsf_metrics_step(m, &s, &err), DSFLOW_OK);
        if (i == 3)
            assert_int_equal(dsf_metrics_validation(m, &v, &err), DSFLOW_OK);
    }
    assert_int_equal(dsf_metrics_begin(m, done, &err), DSFLOW_OK);
    f = fopen(path_in("damaged.jsonl"), "r");
    while ((c = getc(f)) != EOF)
        lines += c == '\n';
    fclose(f);
    dsf_metrics_close(m);
    return lines;
}

static void lines_after_a_damaged_one_stay(void **state)
{
    struct dsf_metrics m;

    dsflow_log_sink_set(take, NULL);
    assert_int_equal(begin_after(4, &m), 5);
    assert_non_null(strstr(said, "/damaged.jsonl:2: a damaged line: expected "
                                 "JSON; the lines after it stay\n"));
    assert_int_equal(begin_after(3, &m), 4);
    said[0] = '\0';
    assert_int_equal(begin_after(1, &m), 1); /* nothing to keep behind it */
    assert_string_equal(said, "");
    dsflow_log_sink_set(NULL, NULL);
}

/* Reading the beginning of a process's memory is an input/output error. */
static void what_cannot_be_read_is_not_cut_off(void **state)
{
    struct dsf_metrics m;
    struct dsflow_err err;
    char wanted[300];

    unlink(path_in("metrics.jsonl"));
    assert_int_equal(symlink("/proc/self/mem", path_in("metrics.jsonl")), 0);
    assert_int_equal(dsf_metrics_open(&m, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_metrics_begin(&m, 7, &err), DSFLOW_EIO);
    snprintf(wanted, sizeof(wanted), "%s: %s", path_in("metrics.jsonl"),
             strerror(EIO));
    assert_string_equal(err.msg, wanted);
    dsf_metrics_close(&m);
    unlink(path_in("metrics.jsonl"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_reads_back),
        cmocka_unit_test(overflows_are_counted_where_losses_are_scaled),
        cmocka_unit_test(one_run_at_a_time_has_the_file),
        cmocka_unit_test(a_run_that_is_killed_leaves_whole_lines),
        cmocka_unit_test(lines_after_a_damaged_one_stay),
        cmocka_unit_test(what_cannot_be_read_is_not_cut_off),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
