/* test_late.c - when a message was under way that was waited for: two processes
 * that mpirun starts, of this program. */
#include "net/net.h"

#include "base/units.h"
#include "net/pass.h"

#include "lib/test.h"

#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMES = 9, TAG = 5 };

static struct dsf_wire *wire;
static sem_t ended;

static void on_end(struct dsf_message *m)
{
    (void)m;
    sem_post(&ended);
}

/* Process 1 sends when process 0 has waited, and MPI is looked at every 2 ms.
 * Both are in one machine, which has one clock: no message was under way before
 * it was sent, but for one that is seen just before the bell rings. */
static void what_is_late_is_not_under_way_meanwhile(void **state)
{
    int early = 0;

    for (int i = 0; i < TIMES; i++) {
        double sent = 0;
        char byte = 0;
        struct dsf_message m = { .memory = &sent,
                                 .bytes = sizeof(sent),
                                 .process = 1 - wire->process,
                                 .tag = TAG,
                                 .out = wire->process == 1,
                                 .done = on_end };

        dsf_pass(wire, !m.out, m.process, TAG + 1, &byte, 1, NULL);
        if (m.out)
            usleep(40000 + 300 * (unsigned)i);
        if (m.out)
            sent = dsf_now();
        wire->post(wire, &m);
        while (sem_wait(&ended) < 0)
            ;
        assert_int_equal(m.status, DSFLOW_OK);
        assert_true(m.end >= m.start);
        early += m.start < sent;
    }
    assert_true(early <= TIMES / 2);
}

static int begin_processes(void)
{
    static const char *const settings[][2] = {
        { "OMPI_ALLOW_RUN_AS_ROOT", "1" },
        { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1" },
        { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
        { "OMPI_MCA_hwloc_base_binding_policy", "none" },
        { "OMPI_MCA_btl", "self,vader" },
        { "OMPI_MCA_btl_vader_single_copy_mechanism", "none" },
        { "ASAN_OPTIONS", "detect_leaks=0" },
        { "DSFLOW_MPI", ".libs/dsflow-mpi.so" },
    };
    char self[4096] = "";

    if (access(".libs/dsflow-mpi.so", R_OK) < 0 ||
        system("command -v mpirun > /dev/null") != 0)
        return 77;
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        setenv(settings[i][0], settings[i][1], 1);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) > 0)
        execlp("timeout", "timeout", "-k", "5", "60", "mpirun", "-n", "2", self,
               NULL);
    return 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_late_is_not_under_way_meanwhile),
    };
    struct dsflow_err err = { .msg = "" };
    int failed;

    if (!dsf_net_is_inside())
        return begin_processes();
    sem_init(&ended, 0, 0);
    if (dsf_net_open(&wire, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return dsf_net_close(NULL) < 0 ? 1 : failed;
}
