/* test_watch.c - processes that watch each other: forks of this one, which say
 * on a pipe what the watch tells them. */
#include "net/watch.h"

#include "lib/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 3 };

struct run {
    pid_t pids[N];
    int says[N]; /* what each says at its end */
};

static int mouth;
static uint32_t first_port;

static void end(const char *why, bool cut_off)
{
    (void)cut_off;
    if (why != NULL && write(mouth, why, strlen(why)) < 0)
        abort();
}

static void waits_for_first(void *user, struct dsf_watch_state *state)
{
    state->from = 0;
    state->waited = 7;
    snprintf(state->awaits, sizeof(state->awaits), "forward layer 3");
}

static void waits_for_second(void *user, struct dsf_watch_state *state)
{
    waits_for_first(user, state);
    state->from = 1;
}

static void runs(void *user, struct dsf_watch_state *state)
{
    snprintf(state->task, sizeof(state->task), "mlp.forward layer 3");
}

static void works(void *user, struct dsf_watch_state *state)
{
    static uint64_t ended;

    runs(user, state);
    state->ended = ended++;
}

/* What each of the processes does with its watch. */
typedef void (*act_fn)(int32_t process);

_Noreturn static void child(int32_t process, int in, int out, act_fn act)
{
    struct dsf_watch_address own, all[N];
    struct dsflow_err err;
    char go;

    alarm(60);
    if (dsf_watch_listen(&own, &err) < 0 ||
        write(out, &own, sizeof(own)) != sizeof(own) ||
        read(in, all, sizeof(all)) != sizeof(all) ||
        dsf_watch_begin(process, N, all, end, &err) < 0 ||
        write(out, "", 1) != 1 || read(in, &go, 1) != 1) {
        fprintf(stderr, "process %d: %s\n", (int)process, err.msg);
        _exit(99);
    }
    first_port = all[0].port;
    dsf_watch_ranks(2 * process, 2);
    act(process);
    _exit(0);
}

static struct run begin(act_fn act)
{
    struct dsf_watch_address all[N];
    int up[N][2], down[N][2], says[N][2];
    struct run r;
    char reached;

    for (int32_t p = 0; p < N; p++) {
        assert_int_equal(pipe(up[p]), 0);
        assert_int_equal(pipe(down[p]), 0);
        assert_int_equal(pipe(says[p]), 0);
        fflush(NULL);
        r.pids[p] = fork();
        assert_true(r.pids[p] >= 0);
        if (r.pids[p] == 0) {
            for (int32_t q = 0; q <= p; q++)
                close(says[q][0]);
            mouth = says[p][1];
            child(p, down[p][0], up[p][1], act);
        }
        close(says[p][1]);
        close(up[p][1]);
        r.says[p] = says[p][0];
    }
    for (int32_t p = 0; p < N; p++)
        assert_int_equal(read(up[p][0], &all[p], sizeof(all[p])),
                         sizeof(all[p]));
    for (int32_t p = 0; p < N; p++)
        assert_int_equal(write(down[p][1], all, sizeof(all)), sizeof(all));
    for (int32_t p = 0; p < N; p++)
        assert_int_equal(read(up[p][0], &reached, 1), 1);
    for (int32_t p = 0; p < N; p++) { /* all are reached, as in _open */
        assert_int_equal(write(down[p][1], &reached, 1), 1);
        close(up[p][0]);
        close(down[p][0]);
        close(down[p][1]);
    }
    return r;
}

/* Its status, as waitpid has it, and what it said. */
static int ended(struct run *r, int32_t process, char *said, size_t bytes)
{
    size_t n = 0;
    ssize_t got;
    int status;

    assert_int_equal(waitpid(r->pids[process], &status, 0), r->pids[process]);
    while (n + 1 < bytes &&
           (got = read(r->says[process], said + n, bytes - 1 - n)) > 0)
        n += (size_t)got;
    said[n] = '\0';
    close(r->says[process]);
    return status;
}

static void expect(struct run *r, int32_t process, int status, const char *a,
                   const char *b)
{
    char said[2048];

    assert_int_equal(ended(r, process, said, sizeof(said)), status);
    if (a == NULL)
        assert_string_equal(said, "");
    else if (strstr(said, a) == NULL || strstr(said, b) == NULL)
        fail_msg("'%s' does not say '%s' and '%s'", said, a, b);
}

enum { ONE = 1 << 8 }; /* exit status 1 */

static void rest(void)
{
    for (;;)
        pause();
}

/* --- those that die ------------------------------------------------------- */

static void second_dies(int32_t process)
{
    if (process == 0)
        dsf_watch_step(12);
    if (process == 1) {
        dsf_watch_look(runs, NULL);
        sleep(1);
        raise(SIGKILL);
    }
    rest();
}

static void one_that_dies_is_named_by_the_first(void **state)
{
    struct run r = begin(second_dies);

    expect(&r, 1, SIGKILL, NULL, NULL);
    expect(&r, 0, ONE, "process 1 (ranks 2 to 3, host ",
           ") died in step 12; its last task was `mlp.forward layer 3`");
    expect(&r, 2, ONE, NULL, NULL);
}

static void first_dies(int32_t process)
{
    if (process == 0) {
        dsf_watch_step(12);
        sleep(1);
        raise(SIGKILL);
    }
    rest();
}

static void the_first_that_dies_is_named_by_the_next(void **state)
{
    struct run r = begin(first_dies);

    expect(&r, 0, SIGKILL, NULL, NULL);
    expect(&r, 1, ONE, "process 0 (ranks 0 to 1, host ",
           ") died in step 12 or later");
    expect(&r, 2, ONE, NULL, NULL);
}

static void third_fails(int32_t process)
{
    if (process == 2) {
        dsf_watch_failed("the disk is full");
        _exit(1);
    }
    rest();
}

static void one_that_fails_says_why_through_the_first(void **state)
{
    struct run r = begin(third_fails);

    expect(&r, 2, ONE, NULL, NULL);
    expect(&r, 0, ONE, "process 2 (", "): the disk is full");
    expect(&r, 1, ONE, NULL, NULL);
}

static void third_gives_up(int32_t process)
{
    if (process == 2)
        dsf_watch_give_up("no way to tell");
    pause();
}

static void one_that_gives_up_ends_all_and_the_first_says_why(void **state)
{
    struct run r = begin(third_gives_up);

    expect(&r, 2, ONE, NULL, NULL);
    expect(&r, 0, ONE, "process 2 (", "): no way to tell");
    expect(&r, 1, ONE, NULL, NULL);
}

static void first_gives_up(int32_t process)
{
    if (process == 0)
        dsf_watch_give_up("no way to tell");
    pause();
}

static void the_first_gives_up_in_its_own_words(void **state)
{
    struct run r = begin(first_gives_up);

    expect(&r, 0, ONE, "no way to tell", "");
    expect(&r, 1, ONE, NULL, NULL);
    expect(&r, 2, ONE, NULL, NULL);
}

/* --- those that end ------------------------------------------------------- */

static void all_end(int32_t process)
{
    usleep((useconds_t)(1000000 + 200000 * ((process + 1) % 3)));
    dsf_watch_close();
}

static void an_end_is_no_death(void **state)
{
    struct run r = begin(all_end);

    for (int32_t p = 0; p < N; p++)
        expect(&r, p, 0, NULL, NULL);
}

/* --- those that never meet ------------------------------------------------ */

static void third_meets_nobody(int32_t process)
{
    dsf_watch_meet(500, end);
    if (process < 2)
        dsf_watch_met();
    sleep(1);
    dsf_watch_close();
}

static void one_that_meets_nobody_ends(void **state)
{
    struct run r = begin(third_meets_nobody);

    expect(&r, 2, ONE, "the processes have not met 500 ms after", "stopped");
    expect(&r, 0, ONE, "process 2 (", ") died before the first step");
    expect(&r, 1, ONE, NULL, NULL);
}

/* --- those that are silent ------------------------------------------------ */

static void second_stops(int32_t process)
{
    if (process == 0) {
        dsf_watch_patience(2);
        dsf_watch_look(waits_for_second, NULL);
    }
    rest();
}

static void one_that_is_stopped_is_named_with_who_waits(void **state)
{
    struct run r = begin(second_stops);

    sleep(1);
    kill(r.pids[1], SIGSTOP);
    expect(&r, 0, ONE,
           "process 0 has waited 7.0 s for `forward layer 3` of process 1 (",
           "), which was last heard ");
    expect(&r, 2, ONE, NULL, NULL);
    kill(r.pids[1], SIGCONT); /* it finds out, and keeps silent */
    expect(&r, 1, ONE, NULL, NULL);
}

/* 2 waits for 0, which waits for 1, which runs a task for ever. */
static void second_hangs(int32_t process)
{
    if (process == 0)
        dsf_watch_patience(2);
    dsf_watch_look(process == 0   ? waits_for_second
                   : process == 1 ? runs
                                  : waits_for_first,
                   NULL);
    rest();
}

static void a_task_that_does_not_end_is_named(void **state)
{
    struct run r = begin(second_hangs);

    expect(&r, 0, ONE,
           "process 0 has waited 7.0 s for `forward layer 3` of "
           "process 1 (",
           "), which has run `mlp.forward layer 3` for ");
    expect(&r, 1, ONE, NULL, NULL);
    expect(&r, 2, ONE, NULL, NULL);
}

/* The same, but tasks end, if slowly; and one that waits for a long time. */
static void second_is_slow(int32_t process)
{
    if (process == 0)
        dsf_watch_patience(1);
    dsf_watch_look(process == 1 ? works : waits_for_second, NULL);
    sleep(4);
    dsf_watch_close();
}

static void one_that_is_slow_is_left_alone(void **state)
{
    struct run r = begin(second_is_slow);

    for (int32_t p = 0; p < N; p++)
        expect(&r, p, 0, NULL, NULL);
}

/* Connections that say nothing to the port of the first, as of who looks which
 * ports a host has. */
static void second_calls_the_first(int32_t process)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)first_port),
                              .sin_addr = { htonl(INADDR_LOOPBACK) } };

    if (process == 0)
        dsf_watch_patience(1);
    usleep(500000);
    for (int i = 0; process == 1 && i < 10; i++)
        if (connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&at,
                    sizeof(at)) < 0)
            break;
    sleep(7);
    dsf_watch_close();
}

static void strangers_do_not_keep_it(void **state)
{
    struct run r = begin(second_calls_the_first);

    for (int32_t p = 0; p < N; p++)
        expect(&r, p, 0, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_dies_is_named_by_the_first),
        cmocka_unit_test(the_first_that_dies_is_named_by_the_next),
        cmocka_unit_test(one_that_fails_says_why_through_the_first),
        cmocka_unit_test(one_that_gives_up_ends_all_and_the_first_says_why),
        cmocka_unit_test(the_first_gives_up_in_its_own_words),
        cmocka_unit_test(an_end_is_no_death),
        cmocka_unit_test(one_that_meets_nobody_ends),
        cmocka_unit_test(one_that_is_stopped_is_named_with_who_waits),
        cmocka_unit_test(a_task_that_does_not_end_is_named),
        cmocka_unit_test(one_that_is_slow_is_left_alone),
        cmocka_unit_test(strangers_do_not_keep_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
