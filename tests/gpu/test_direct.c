/* test_direct.c - communicators of NCCL, where nobody is at the other end. */
#include "exec/cuda_module.h"
#include "exec/exec_direct_private.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COMMS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int begun, done;

/* It is over when all have been told to end, and not before. */
static const char *leave(void *comm)
{
    struct timespec until;

    (void)comm;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&lock);
    begun++;
    pthread_cond_broadcast(&changed);
    while (begun < COMMS &&
           pthread_cond_timedwait(&changed, &lock, &until) == 0)
        ;
    done += begun == COMMS;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void communicators_are_left_at_once(void **state)
{
    const struct dsf_nccl nccl = { .leave = leave };
    struct dsf_device device = { .index = 1 };
    struct dsf_direct_comm comms[COMMS];
    struct dsf_direct d = { .nccl = &nccl, .comms = comms, .ncomms = COMMS };

    (void)state;
    for (int i = 0; i < COMMS; i++) {
        comms[i] = (struct dsf_direct_comm){ .nccl = &nccl,
                                             .device = &device,
                                             .at = &comms[i] };
        pthread_mutex_init(&comms[i].lock, NULL);
    }
    dsf_direct_leave(&d, "");
    assert_int_equal(done, COMMS);
    for (int i = 0; i < COMMS; i++)
        assert_null(comms[i].at);

    dsf_direct_leave(&d, ""); /* once more is nothing */
    assert_int_equal(begun, COMMS);
    for (int i = 0; i < COMMS; i++)
        pthread_mutex_destroy(&comms[i].lock);
}

static const struct dsflow_exec *watched;
static bool had_failed;

static const char *look_and_leave(void *comm)
{
    struct dsflow_err err;

    (void)comm;
    had_failed = dsflow_exec_failed(watched, &err) < 0 &&
                 strcmp(err.msg, "no such bus") == 0;
    return NULL;
}

/* What is under way ends without an error where NCCL is left, and with other
 * bytes than were to come: nobody may compute with them. */
static void the_run_has_failed_before_they_are_left(void **state)
{
    const struct dsf_nccl nccl = { .leave = look_and_leave };
    struct dsf_device device = { .index = 1 };
    struct dsf_wire wire = { .process = 0, .nprocesses = 2 };
    struct dsflow_exec exec = { .wire = &wire };
    struct dsf_direct_comm comm = { .nccl = &nccl,
                                    .device = &device,
                                    .lock = PTHREAD_MUTEX_INITIALIZER,
                                    .at = &comm };
    struct dsf_direct d = { .exec = &exec,
                            .nccl = &nccl,
                            .comms = &comm,
                            .ncomms = 1,
                            .lock = PTHREAD_MUTEX_INITIALIZER };
    struct dsflow_err err;

    (void)state;
    watched = &exec;
    dsflow_fail(&err, DSFLOW_EIO, "no such bus");
    dsf_direct_say_lost(&d, &err);
    assert_true(had_failed);
}

/* A GPU sends in no communicator in which it receives: there are few of them.
 */
static void a_gpu_sends_in_other_communicators(void **state)
{
    (void)state;
    for (unsigned n = 2; n <= 72; n++) {
        const unsigned comms = dsf_direct_comms(n);

        for (unsigned gpu = 0; gpu < n; gpu++) {
            uint64_t out = 0, in = 0;

            for (unsigned other = 0; other < n; other++)
                if (other != gpu) {
                    out |= UINT64_C(1) << dsf_direct_comm(comms, gpu, other);
                    in |= UINT64_C(1) << dsf_direct_comm(comms, other, gpu);
                }
            assert_int_equal(out & in, 0);
            assert_int_equal((out | in) >> comms, 0);
        }
    }
    assert_int_equal(dsf_direct_comms(2), 2);
    assert_int_equal(dsf_direct_comms(8), 5);
    assert_int_equal(dsf_direct_comms(16), 6);
    assert_int_equal(dsf_direct_comms(1716), 13);
    assert_int_not_equal(dsf_direct_comm(34, 2333606218, 2333606219),
                         dsf_direct_comm(34, 2333606219, 2333606218));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communicators_are_left_at_once),
        cmocka_unit_test(the_run_has_failed_before_they_are_left),
        cmocka_unit_test(a_gpu_sends_in_other_communicators),
    };
    struct dsflow_err err;

    setenv("DSFLOW_CUDA", "tests/gpu/.libs/dsflow-cuda-emulated.so", 1);
    if (dsf_cuda_module(&err) == NULL) {
        fprintf(stderr, "%s\n", err.msg);
        return 99;
    }
    return cmocka_run_group_tests_name("direct", tests, NULL, NULL);
}
