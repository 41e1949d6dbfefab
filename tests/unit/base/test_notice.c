/* test_notice.c - a stage that takes long is told once, a short one is not. */
#include "base/notice.h"

#include "lib/test.h"

#include <dsflow/log.h>
#include <semaphore.h>
#include <string.h>

static sem_t told;
static char said[1000];

static void hear(void *user, enum dsflow_log_level level, const char *line)
{
    strcat(said, line);
    strcat(said, "\n");
    assert_int_equal(level, DSFLOW_INFO);
    sem_post(&told);
}

static void a_stage_that_takes_long_is_told_once(void **state)
{
    dsf_notice_after(0);
    dsf_notice("building %s", "it");
    sem_wait(&told);
    dsf_notice_end();
    assert_string_equal(said, "building it\n");
    dsf_notice("reading it");
    sem_wait(&told);
    dsf_notice("writing it");
    sem_wait(&told);
    dsf_notice_end();
    dsf_notice_end();
    assert_string_equal(said, "building it\nreading it\nwriting it\n");
}

static void a_short_one_is_not_told(void **state)
{
    said[0] = '\0';
    dsf_notice_after(3600);
    dsf_notice("looking");
    dsf_notice_end();
    dsf_notice("looking again");
    dsf_notice_after(0);
    dsf_notice("working");
    sem_wait(&told);
    dsf_notice_end();
    assert_string_equal(said, "working\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_that_takes_long_is_told_once),
        cmocka_unit_test(a_short_one_is_not_told),
    };

    sem_init(&told, 0, 0);
    dsflow_log_sink_set(hear, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
