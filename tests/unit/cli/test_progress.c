/* test_progress.c - what a run shows fits its terminal, and what it writes is
 * whole, whatever ends it. */
#include "base/log.h"
#include "cli/progress.h"

#include "lib/test.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/dsflow-progress.XXXXXX";

/* `<folder>/name`; static. */
static const char *in_folder(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static struct dsf_step step_of(int64_t n, double known)
{
    struct dsf_step s = {
        .step = n,
        .loss = 12.3456789,
        .lr = 1.23456789e-5,
        .grad_norm = 1.5,
        .seconds = 0.5,
        .loss_scale = 1,
        .tokens = 123456,
        .peak_bytes = 123456789012,
        .device_bytes = 1234567890,
        .nvme_bytes = 12345678901234,
        .io_seconds = 0.25 * known,
        .io_hidden = 0.75 * known,
        .efficiency = 0.875 * known,
        .share = { 0.31 * known, 0.5 * known, 0.06 * known, 0.05 * known,
                   0.08 * known },
        .moved = { 1, 2, 3, 4, 5 },
    };

    return s;
}

/* The columns that text without control sequences takes, the most of any line
 * in it: \r and \n begin one. */
static unsigned widest(const char *text)
{
    unsigned columns = 0, most = 0;

    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\033') {
            c += strcspn(c, "mKHJhl");
            continue;
        }
        if (*c == '\r' || *c == '\n')
            columns = 0;
        else if (((unsigned char)*c & 0xc0) != 0x80)
            columns++;
        most = columns > most ? columns : most;
    }
    return most;
}

/* Both ends of a terminal; the test is skipped where none can be made, as in a
 * chroot without /dev/pts. */
static int open_terminal(int *slave)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    const char *name = NULL;

    if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
        name = ptsname(master);
    *slave = name != NULL ? open(name, O_RDWR | O_NOCTTY) : -1;
    if (*slave < 0) {
        if (master >= 0)
            close(master);
        skip();
    }
    return master;
}

/* A warning after those steps; NULL: none. */
static const char *warning;

/* What three steps of a run say on a terminal of so many columns. */
static void run_on_terminal(unsigned short columns, double known, char *text,
                            size_t size)
{
    struct winsize ws = { .ws_row = 24, .ws_col = columns };
    int slave, master = open_terminal(&slave), saved;
    struct dsf_progress p = { 0 };
    struct dsflow_err err = { 0 };
    size_t n = 0;
    ssize_t got;

    ioctl(slave, TIOCSWINSZ, &ws);
    saved = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    assert_int_equal(dsf_progress_open(&p, folder, &err), DSFLOW_OK);
    assert_int_equal(dsf_progress_begin(&p, 0, 200000, 10, false, &err),
                     DSFLOW_OK);
    for (int i = 99998; i <= 100000; i++) {
        struct dsf_step s = step_of(i, known);

        p.drawn = -1; /* every one is drawn */
        assert_int_equal(dsf_progress_step(&p, &s, &err), DSFLOW_OK);
    }
    if (warning != NULL)
        dsf_warn("%s", warning);
    dsf_progress_close(&p);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    while (poll(&(struct pollfd){ .fd = master, .events = POLLIN }, 1, 50) >
               0 &&
           (got = read(master, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(slave);
    close(master);
}

static void a_warning_takes_the_place_of_the_bar(void **state)
{
    static char text[1 << 16];

    setenv("TERM", "xterm", 1);
    warning = "look here";
    run_on_terminal(80, 1, text, sizeof(text));
    warning = NULL;
    assert_non_null(strstr(text, "\r\033[Kdsflow: warning: look here\r\n"));
}

static void a_bar_never_wraps(void **state)
{
    static const unsigned short sizes[] = { 2,  5,  12,  20,  31,  40,  60, 79,
                                            80, 81, 100, 120, 160, 200, 300 };
    static char text[1 << 16];

    setenv("TERM", "xterm", 1);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (int known = 0; known < 2; known++) {
            run_on_terminal(sizes[i], known ? 1 : NAN, text, sizeof(text));
            if (widest(text) >= sizes[i])
                fail_msg("%u columns of %u: %s", widest(text), sizes[i], text);
            assert_non_null(strstr(text, "\033[K"));
        }
}

static void eighty_columns_show_where_the_time_goes(void **state)
{
    static char text[1 << 16];

    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    run_on_terminal(80, 1, text, sizeof(text));
    assert_non_null(strstr(text, "backward")); /* the legend */
    assert_non_null(strstr(text, "eff 88 %"));
    assert_non_null(strstr(text, "left"));
    assert_non_null(strstr(text, "\033[38;5;25m"));
    run_on_terminal(200, 1, text, sizeof(text));
    assert_non_null(strstr(text, "backward 50 %"));
    run_on_terminal(200, NAN, text, sizeof(text));
    assert_null(strstr(text, "backward"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "eff"));
}

static void colours_and_redrawing_can_be_refused(void **state)
{
    static char text[1 << 16];

    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    run_on_terminal(100, 1, text, sizeof(text));
    assert_null(strstr(text, "38;5"));
    assert_non_null(strstr(text, "eff 88 %"));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    run_on_terminal(100, 1, text, sizeof(text));
    assert_null(strstr(text, "\033"));
}

static void a_line_reads_back(void **state)
{
    struct dsf_metrics m;
    struct dsflow_err err = { 0 };
    struct dsf_step s = step_of(7, 1), *r;
    struct dsf_line line;
    char text[4096];
    int fd;
    ssize_t n;

    unlink(in_folder("metrics.jsonl"));
    assert_int_equal(dsf_metrics_open(&m, in_folder("metrics.jsonl"), &err),
                     DSFLOW_OK);
    s.loss = NAN;
    strcpy(s.program, "every_fifth");
    assert_int_equal(dsf_metrics_step(&m, &s, &err), DSFLOW_OK);
    fd = open(in_folder("metrics.jsonl"), O_RDONLY);
    n = read(fd, text, sizeof(text));
    assert_true(n > 0 && text[n - 1] == '\n');
    assert_true(dsf_metrics_parse(text, (size_t)n, &line));
    assert_int_equal(line.kind, DSF_LINE_STEP);
    r = &line.step;
    assert_int_equal(r->step, 7);
    assert_string_equal(r->program, "every_fifth");
    assert_true(isnan(r->loss));
    assert_true(fabs(r->efficiency - 0.875) < 1e-8);
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

static void one_run_at_a_time_has_the_file(void **state)
{
    struct dsf_metrics a, b;
    struct dsflow_err err = { 0 };
    int fd;

    assert_int_equal(dsf_metrics_open(&a, in_folder("metrics.jsonl"), &err),
                     DSFLOW_OK);
    fd = open(in_folder("metrics.jsonl"), O_RDONLY);
    assert_int_equal(dsf_metrics_is_open(fd), 1);
    assert_int_equal(dsf_metrics_open(&b, in_folder("metrics.jsonl"), &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "another run is writing it"));
    dsf_metrics_close(&b);
    dsf_metrics_close(&a);
    assert_int_equal(dsf_metrics_is_open(fd), 0);
    close(fd);
}

/* Steps as fast as they go, until killed. */
static void write_until_killed(void)
{
    struct dsf_metrics m;

    if (dsf_metrics_open(&m, in_folder("metrics.jsonl"), NULL) == DSFLOW_OK)
        for (int i = 1;; i++) {
            struct dsf_step s = step_of(i, 1);

            dsf_metrics_step(&m, &s, NULL);
        }
    _exit(1);
}

static void a_run_that_is_killed_leaves_whole_lines(void **state)
{
    enum { KILLS = 400 };
    size_t cap = 0;
    char *text = NULL;
    ssize_t n;

    for (int i = 0; i < KILLS; i++) {
        struct dsf_line line;
        pid_t child;
        FILE *f;

        unlink(in_folder("metrics.jsonl"));
        child = fork();
        if (child == 0)
            write_until_killed();
        usleep(1000 + (useconds_t)(i * 37 % 1000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        f = fopen(in_folder("metrics.jsonl"), "r");
        while (f != NULL && (n = getline(&text, &cap, f)) > 0)
            if (text[n - 1] != '\n' ||
                !dsf_metrics_parse(text, (size_t)n, &line))
                fail_msg("after kill %d: half a line: %s", i, text);
        if (f != NULL)
            fclose(f);
    }
    free(text);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    unlink(in_folder("metrics.jsonl"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_never_wraps),
        cmocka_unit_test(a_warning_takes_the_place_of_the_bar),
        cmocka_unit_test(eighty_columns_show_where_the_time_goes),
        cmocka_unit_test(colours_and_redrawing_can_be_refused),
        cmocka_unit_test(a_line_reads_back),
        cmocka_unit_test(one_run_at_a_time_has_the_file),
        cmocka_unit_test(a_run_that_is_killed_leaves_whole_lines),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
