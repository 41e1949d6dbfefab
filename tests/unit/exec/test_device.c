/* test_device.c - the thread that launches on a device: launches that are over
 * at once, as many that never end as may be under way, those of another queue,
 * and those that are to be alone. */
#include "exec/device.h"

#include "base/units.h"
#include "lib/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { MANY = 3 * DSF_DEVICE_MOST };

/* What a device does with a launch. */
struct kept {
    struct dsf_launch launch;
    unsigned number;
    _Atomic unsigned launched, done;
};
static struct kept all[MANY], other;
static struct dsf_device device;
static _Atomic unsigned begun, begun_other, told;
static bool at_once; /* launches end in the call that begins them */

static int open_it(struct dsf_device *d, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void close_it(struct dsf_device *d)
{
}

static void launch_it(struct dsf_device *d, struct dsf_launch *launch)
{
    if (launch->queue != DSF_QUEUE_COMPUTE) {
        atomic_fetch_add(&begun_other, 1);
        return;
    }
    /* In order, one after the other. */
    assert_ptr_equal(launch, &all[atomic_load(&begun)].launch);
    atomic_fetch_add(&begun, 1);
    if (at_once)
        dsf_device_done(d, launch);
}

static double show(const struct dsf_device *d)
{
    return dsf_now();
}

static const struct dsf_device_class class = { .name = "test",
                                               .open = open_it,
                                               .close = close_it,
                                               .launch = launch_it,
                                               .clock = show };

static void tell(void *user)
{
    struct kept *k = user;

    atomic_fetch_add(&k->launched, 1);
    atomic_fetch_add(&told, 1);
}

/* It is its owner's again, who keeps no such thing there. */
static void tell_of_another(void *user)
{
    fail_msg("launch %u is looked at when it is over",
             ((struct kept *)user)->number);
}

static void end(struct dsf_launch *launch)
{
    struct kept *k = (struct kept *)launch;

    atomic_fetch_add(&k->done, 1);
    launch->launched = tell_of_another;
    launch->next = NULL;
}

static void start(bool ends)
{
    struct dsflow_err err;

    at_once = ends;
    atomic_store(&begun, 0);
    atomic_store(&told, 0);
    device = (struct dsf_device){ .class = &class };
    assert_int_equal(dsf_device_open(&device, &err), DSFLOW_OK);
    for (unsigned i = 0; i < MANY; i++) {
        memset(&all[i], 0, sizeof(all[i]));
        all[i].number = i;
        all[i].launch.done = end;
        all[i].launch.launched = i % 3 == 0 ? NULL : tell;
        all[i].launch.user = &all[i];
    }
    for (unsigned i = 0; i < MANY; i++)
        dsf_device_launch(&device, &all[i].launch);
}

/* Each is launched and ends once, and who asks is told once. */
static void stop(void)
{
    dsf_device_wait(&device);
    dsf_device_close(&device);
    assert_int_equal(atomic_load(&begun), MANY);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(atomic_load(&all[i].done), 1);
        assert_int_equal(atomic_load(&all[i].launched), i % 3 != 0);
    }
}

static void a_launch_may_be_over_when_it_is_launched(void **state)
{
    start(true);
    stop();
}

static void wait_for(const _Atomic unsigned *count, unsigned n)
{
    const double late = dsf_now() + 30;

    while (atomic_load(count) < n && dsf_now() < late)
        sched_yield();
    assert_int_equal(atomic_load(count), n);
}

/* Devices have places for so many, which are used in turn. */
static void end_in_turn(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        const unsigned end = i + DSF_DEVICE_MOST;

        wait_for(&begun, end < MANY ? end : (unsigned)MANY);
        dsf_device_done(&device, &all[i].launch);
    }
}

static void so_many_are_under_way_at_once(void **state)
{
    start(false);
    end_in_turn();
    stop();
}

static void a_full_queue_does_not_hold_up_another(void **state)
{
    start(false);
    memset(&other, 0, sizeof(other));
    atomic_store(&begun_other, 0);
    other.launch.queue = DSF_QUEUE_OUT;
    dsf_device_launch(&device, &other.launch);
    wait_for(&begun_other, 1);
    dsf_device_done(&device, &other.launch);
    end_in_turn();
    stop();
}

/* What is to be alone waits for messages, and so does what is behind it in its
 * queue; a message waits for neither. */
static void what_is_to_be_alone_waits_for_messages(void **state)
{
    struct kept messages[2];
    struct dsflow_err err;

    at_once = false;
    atomic_store(&begun, 0);
    atomic_store(&begun_other, 0);
    memset(all, 0, sizeof(all));
    memset(messages, 0, sizeof(messages));
    device = (struct dsf_device){ .class = &class };
    assert_int_equal(dsf_device_open(&device, &err), DSFLOW_OK);
    all[0].launch.alone = true;
    messages[0].launch.queue = DSF_QUEUE_FROM;
    messages[1].launch.queue = DSF_QUEUE_TO;
    dsf_device_launch(&device, &messages[0].launch);
    wait_for(&begun_other, 1);
    dsf_device_launch(&device, &all[0].launch);
    dsf_device_launch(&device, &all[1].launch);
    dsf_device_launch(&device, &messages[1].launch);
    wait_for(&begun_other, 2);
    dsf_device_done(&device, &messages[0].launch);
    assert_int_equal(atomic_load(&begun), 0);
    dsf_device_done(&device, &messages[1].launch);
    wait_for(&begun, 2);
    for (int i = 0; i < 2; i++)
        dsf_device_done(&device, &all[i].launch);
    dsf_device_wait(&device);
    dsf_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_may_be_over_when_it_is_launched),
        cmocka_unit_test(so_many_are_under_way_at_once),
        cmocka_unit_test(a_full_queue_does_not_hold_up_another),
        cmocka_unit_test(what_is_to_be_alone_waits_for_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
