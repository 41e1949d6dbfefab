/* test_progress.c - what a run shows fits its terminal. */
#include "base/log.h"
#include "cli/progress.h"

#include "lib/step.h"
#include "lib/test.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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
    size_t n = 0;
    ssize_t got;

    ioctl(slave, TIOCSWINSZ, &ws);
    saved = dup(STDERR_FILENO);
    dup2(slave, STDERR_FILENO);
    dsf_progress_begin(&p, 200000, 10);
    for (int i = 99998; i <= 100000; i++) {
        struct dsf_step s = step_of(i, known);

        p.drawn = -1; /* every one is drawn */
        dsf_progress_step(&p, &s);
    }
    if (warning != NULL)
        dsf_warn("%s", warning);
    dsf_progress_close(&p);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(slave); /* the end of what there is to read */
    while ((got = read(master, text + n, size - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
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

/* What five steps print into a file; with `overflows`, losses are scaled, and so
 * many steps were skipped, the second the last of them. */
static void run_into_file(int64_t overflows, char *text, size_t size)
{
    struct dsf_progress p = { 0 };
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    dsf_progress_begin(&p, 5, 2);
    for (int i = 1; i <= 5; i++) {
        struct dsf_step s = step_of(i, 1);

        s.overflows = overflows;
        s.loss_scale = overflows < 0 ? 1 : i <= 2 ? 65536 : 32768;
        s.skipped = overflows > 0 && i == 2;
        dsf_progress_step(&p, &s);
    }
    dsf_progress_say(&p, "that is %s", "all");
    dsf_progress_close(&p);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
}

static void a_file_gets_a_line_every_so_many_steps(void **state)
{
    char text[4096];

    run_into_file(-1, text, sizeof(text));
    assert_non_null(strstr(text, "2/5"));
    assert_non_null(strstr(text, "4/5"));
    assert_non_null(strstr(text, "5/5")); /* the last */
    assert_null(strstr(text, "1/5"));
    assert_null(strstr(text, "3/5"));
    assert_null(strstr(text, "\033"));
    assert_non_null(strstr(text, "\nthat is all\n"));
}

static void the_loss_scale_is_shown_where_there_is_one(void **state)
{
    char text[4096];

    run_into_file(-1, text, sizeof(text));
    assert_null(strstr(text, "scale"));
    run_into_file(4, text, sizeof(text));
    assert_non_null(strstr(text, "step 2: the loss is 12.3457, and the "
                                 "gradients overflow with a loss scale of "
                                 "65536: skipped, nothing was updated\n"));
    assert_non_null(strstr(text, "norm 1.500  scale 65536  skipped"));
    assert_non_null(strstr(text, "norm 1.500  scale 32768  "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_never_wraps),
        cmocka_unit_test(a_warning_takes_the_place_of_the_bar),
        cmocka_unit_test(eighty_columns_show_where_the_time_goes),
        cmocka_unit_test(colours_and_redrawing_can_be_refused),
        cmocka_unit_test(a_file_gets_a_line_every_so_many_steps),
        cmocka_unit_test(the_loss_scale_is_shown_where_there_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
