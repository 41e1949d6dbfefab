/* test_virtual.c - a virtual device alone: memory that is counted, launches that
 * complete later, queues beside each other, copies held to a link. */
#include "exec/device.h"

#include "lib/test.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, MANY = 5000 };

static sem_t go, began, ended;
static int order[MANY], norder;

static void blocked(const struct dsflow_call *call)
{
    sem_post(&began);
    sem_wait(&go);
}

static void note(const struct dsflow_call *call)
{
    order[norder++] = *(const int *)call->args;
}

static const struct dsflow_codelet block = { .cpu = blocked };
static const struct dsflow_codelet noting = { .cpu = note };

static void end(struct dsf_launch *launch)
{
    sem_post(&ended);
}

static struct dsf_device device(size_t limit, double rate)
{
    return (struct dsf_device){ .class = &dsf_device_virtual,
                                .limit = limit,
                                .rate = rate };
}

static void open_device(struct dsf_device *d)
{
    sem_init(&go, 0, 0);
    sem_init(&began, 0, 0);
    sem_init(&ended, 0, 0);
    norder = 0;
    assert_int_equal(dsf_device_open(d, NULL), DSFLOW_OK);
}

static void memory_is_counted_to_the_byte(void **state)
{
    struct dsf_device d = device(3 * PAGE, 0);
    struct dsflow_err err;
    char *a, *b;

    open_device(&d);
    a = d.class->allocate(&d, PAGE, "a", &err);
    b = d.class->allocate(&d, 2 * PAGE, "b", &err);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(d.used, 3 * PAGE);
    assert_int_equal(b[2 * PAGE - 1], 0);
    assert_null(d.class->allocate(&d, PAGE, "the scratch", &err));
    assert_int_equal(err.status, DSFLOW_EFIT);
    assert_string_equal(err.msg,
                        "machine: virtual_memory: device 0: 4.0 KiB for the "
                        "scratch: 0 B of 12.0 KiB are free");
    d.class->release(&d, a, PAGE);
    assert_int_equal(d.used, 2 * PAGE);
    assert_int_equal(d.peak, 3 * PAGE);
    d.class->release(&d, b, 2 * PAGE);
    dsf_device_close(&d);
}

/* More launches than a device takes at once, none of which waits for another. */
static void launches_complete_in_order_and_later(void **state)
{
    struct dsf_launch first = { .codelet = &block, .done = end };
    struct dsf_launch *all = calloc(MANY, sizeof(*all));
    struct dsf_device d = device(0, 0);
    int *args = calloc(MANY, sizeof(*args)), n;

    open_device(&d);
    dsf_device_launch(&d, &first);
    for (int i = 0; i < MANY; i++) {
        args[i] = i;
        all[i] = (struct dsf_launch){ .codelet = &noting,
                                      .call = { .args = &args[i] },
                                      .done = end };
        dsf_device_launch(&d, &all[i]);
    }
    sem_wait(&began);
    sem_getvalue(&ended, &n);
    assert_int_equal(n, 0);
    sem_post(&go);
    dsf_device_wait(&d);
    sem_getvalue(&ended, &n);
    assert_int_equal(n, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(order[i], i);
        assert_true(all[i].start >= (i > 0 ? all[i - 1].end : first.end));
    }
    dsf_device_close(&d);
    free(all);
    free(args);
}

/* Both directions, while a kernel runs. */
static void queues_run_beside_each_other(void **state)
{
    struct dsf_launch kernel = { .codelet = &block };
    struct dsf_device d = device(0, 0);
    struct dsf_launch in, out;
    struct dsf_copy to, from;
    char *far, *near = aligned_alloc(PAGE, 2 * PAGE);

    open_device(&d);
    far = d.class->allocate(&d, PAGE, "a page", NULL);
    memset(near, 7, PAGE);
    memset(near + PAGE, 0, PAGE);
    assert_int_equal(d.class->pin(&d, near, 2 * PAGE, NULL), DSFLOW_OK);
    dsf_device_launch(&d, &kernel);
    sem_wait(&began);
    to = (struct dsf_copy){ far, near, PAGE, &d, NULL };
    in = (struct dsf_launch){
        .queue = DSF_QUEUE_IN, .copies = &to, .ncopies = 1, .done = end
    };
    dsf_device_launch(&d, &in);
    sem_wait(&ended);
    from = (struct dsf_copy){ near + PAGE, far, PAGE, NULL, &d };
    out = (struct dsf_launch){
        .queue = DSF_QUEUE_OUT, .copies = &from, .ncopies = 1, .done = end
    };
    dsf_device_launch(&d, &out);
    sem_wait(&ended);
    assert_memory_equal(near, near + PAGE, PAGE);
    sem_post(&go);
    dsf_device_wait(&d);
    assert_true(kernel.start <= in.start && out.end <= kernel.end);
    d.class->release(&d, far, PAGE);
    dsf_device_close(&d);
    free(near);
}

/* Of memory that is not pinned, and outside of what the device has. */
static void copies_of_other_memory_are_refused(void **state)
{
    struct dsf_device d = device(0, 0);
    struct dsf_launch launch[3];
    struct dsf_copy copy[3];
    char *far, *near = aligned_alloc(PAGE, PAGE);

    open_device(&d);
    far = d.class->allocate(&d, PAGE, "a page", NULL);
    memset(near, 7, PAGE);
    copy[0] = (struct dsf_copy){ far, near, PAGE, &d, NULL };
    copy[1] = (struct dsf_copy){ far + 64, near, PAGE, &d, NULL };
    copy[2] = (struct dsf_copy){ far, near, PAGE, &d, NULL };
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            assert_int_equal(d.class->pin(&d, near, PAGE, NULL), DSFLOW_OK);
        launch[i] = (struct dsf_launch){ .queue = DSF_QUEUE_IN,
                                         .copies = &copy[i],
                                         .ncopies = 1 };
        dsf_device_launch(&d, &launch[i]);
        dsf_device_wait(&d);
    }
    assert_int_equal(launch[0].status, DSFLOW_EIO);
    assert_string_equal(launch[0].err.msg, "device 0: a copy of 4.0 KiB: main "
                                           "memory that is not pinned");
    assert_int_equal(launch[1].status, DSFLOW_EIO);
    assert_string_equal(launch[1].err.msg,
                        "device 0: a copy of 4.0 KiB: "
                        "memory that the device does not have");
    assert_int_equal(launch[2].status, DSFLOW_OK);
    assert_memory_equal(far, near, PAGE);
    d.class->release(&d, far, PAGE);
    dsf_device_close(&d);
    free(near);
}

/* By the clock of the device; those that wait follow each other. */
static void copies_take_the_time_of_the_link(void **state)
{
    enum { COPIES = 8 };
    const double rate = 1e6;
    struct dsf_device d = device(0, rate);
    struct dsf_launch launch[COPIES];
    struct dsf_copy copy;
    char *far, *near = aligned_alloc(PAGE, PAGE);

    open_device(&d);
    far = d.class->allocate(&d, PAGE, "a page", NULL);
    d.class->pin(&d, near, PAGE, NULL);
    memset(near, 7, PAGE);
    copy = (struct dsf_copy){ far, near, PAGE, &d, NULL };
    for (int i = 0; i < COPIES; i++) {
        launch[i] = (struct dsf_launch){ .queue = DSF_QUEUE_IN,
                                         .copies = &copy,
                                         .ncopies = 1 };
        dsf_device_launch(&d, &launch[i]);
    }
    dsf_device_wait(&d);
    for (int i = 0; i < COPIES; i++) {
        assert_true(launch[i].end - launch[i].start >= 0.999 * PAGE / rate);
        assert_true(i == 0 || launch[i].start >= launch[i - 1].end);
    }
    d.class->release(&d, far, PAGE);
    dsf_device_close(&d);
    free(near);
}

/* A kernel is over when what it reads of others has come; others do not wait.
 */
static void kernels_take_the_time_of_what_they_read(void **state)
{
    const double rate = 1e6;
    struct dsf_device d = device(0, rate);
    struct dsf_launch far, near;
    int args = 0;

    open_device(&d);
    far = near =
        (struct dsf_launch){ .codelet = &noting, .call = { .args = &args } };
    far.reads = PAGE;
    dsf_device_launch(&d, &far);
    dsf_device_launch(&d, &near);
    dsf_device_wait(&d);
    assert_true(far.end - far.start >= 0.999 * PAGE / rate);
    assert_true(near.end - near.start < 0.999 * PAGE / rate);
    assert_int_equal(norder, 2);
    dsf_device_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_counted_to_the_byte),
        cmocka_unit_test(launches_complete_in_order_and_later),
        cmocka_unit_test(queues_run_beside_each_other),
        cmocka_unit_test(copies_of_other_memory_are_refused),
        cmocka_unit_test(copies_take_the_time_of_the_link),
        cmocka_unit_test(kernels_take_the_time_of_what_they_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
