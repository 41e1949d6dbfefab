/* test_cost.c - seconds of a task on a described machine. */
#include "sim/cost.h"

#include "lib/test.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

static int any(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* 100 operations a byte of the first port. */
static void cost_of(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = 100.0 * (double)c->shapes[0].bytes;
    for (unsigned i = 0; i < c->n; i++)
        cost->bytes += (double)c->shapes[i].bytes;
}

static const struct dsflow_op work = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    .repeats = 1,
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .check = any,
    .cost = cost_of,
};

static void cost_of_move(const struct dsflow_case *c,
                         struct dsflow_cost *cost)
{
    cost->bytes = 2.0 * (double)c->shapes[0].bytes;
}

static const struct dsflow_op move = {
    .abi = DSFLOW_OP_ABI,
    .name = "move",
    .repeats = 1,
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .comm = 1,
    .check = any,
    .cost = cost_of_move,
};

static dsflow_data_id data(struct dsflow_graph *g, size_t bytes, int home)
{
    char name[32];

    snprintf(name, sizeof(name), "d%u", dsflow_graph_ndata(g));
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = bytes, .home = (int16_t)home));
}

/* Seconds of a task of rank 0 on ports of `bytes` bytes at `homes`. */
static double seconds(const char *machine, const struct dsflow_op *op,
                      unsigned nranks, unsigned n, const size_t *bytes,
                      const int *homes)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_task_spec t = DSFLOW_TASK(.op = op, .ndata = n);
    dsflow_data_id ids[4];
    struct dsf_machine_model m;
    struct dsf_cost_model model = { &m, nranks };
    struct dsflow_err err;
    double s;

    if (dsf_machine_model_parse(machine, strlen(machine), "m.toml", &m, &err) <
        0)
        fail_msg("%s", err.msg);
    for (unsigned i = 0; i < n; i++)
        ids[i] = data(g, bytes[i], homes[i]);
    t.data = ids;
    s = dsf_cost_seconds(&model, g, &t);
    dsf_machine_model_fini(&m);
    dsflow_graph_free(g);
    return s;
}

#define GPUS                                                                   \
    "[machine]\nkind = \"gpu\"\nnodes = 2\ndevices = 4\nfp32 = 1e12\n"         \
    "bandwidth = 1e9\noverhead = \"1us\"\n"                                    \
    "[link]\nbandwidth = 1e8\nlatency = \"10us\"\n"                            \
    "[network]\nbandwidth = 1e7\nlatency = \"100us\"\n"

static void a_task_takes_the_longer_of_arithmetic_and_memory(void **state)
{
    /* 2e6 bytes at 1e9, 1e8 operations at 1e12; a GPU is given the next task
     * while it computes. */
    assert_float_equal(seconds(GPUS, &work, 8, 2,
                               (size_t[]){ 1000000, 1000000 }, (int[]){ 0, 0 }),
                       2e-3, 1e-12);
    assert_float_equal(
        seconds("[machine]\nfp32 = 1e9\nbandwidth = 1e12\noverhead = \"1us\"\n",
                &work, 1, 2, (size_t[]){ 1000000, 0 }, (int[]){ 0, 0 }),
        1e-6 + 0.1, 1e-12);
}

static void what_was_measured_of_a_kind_counts(void **state)
{
    assert_float_equal(seconds(GPUS "[kinds]\n\"work\" = [1e-3, 2e-12, 0]\n"
                                    "\"other\" = [1, 1e-3, 0]\n",
                               &work, 8, 2, (size_t[]){ 1000000, 0 },
                               (int[]){ 0, 0 }),
                       1e-3 + 2e-4, 1e-12);
}

/* Seconds of a task that writes 8 numbers of a type in a tier. */
static double typed(enum dsflow_dtype dtype, enum dsflow_tier tier)
{
    static const char machine[] =
        GPUS "[kinds]\nwork = [1e-3, 0, 0]\n[kinds.bf16]\nwork = [2e-3, 0, 0]\n"
             "[kinds.host]\nwork = [3e-3, 0, 0]\n"
             "[kinds.host.fp16]\nwork = [4e-3, 0, 0]\n";
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id x = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "x", .elems = 8, .dtype = (uint8_t)dtype,
                        .tier = (uint8_t)tier));
    dsflow_data_id y = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "y", .elems = 8, .dtype = DSFLOW_INT8));
    struct dsflow_task_spec t = DSFLOW_TASK(.op = &work, .ndata = 2,
                                            .data = (dsflow_data_id[]){ x, y });
    struct dsf_machine_model m;
    struct dsf_cost_model model = { &m, 1 };
    struct dsflow_err err;
    double s;

    if (dsf_machine_model_parse(machine, strlen(machine), "m.toml", &m, &err) <
        0)
        fail_msg("%s", err.msg);
    s = dsf_cost_seconds(&model, g, &t);
    dsf_machine_model_fini(&m);
    dsflow_graph_free(g);
    return tier == DSFLOW_HOST ? s - 1e-6 : s;
}

static void what_was_measured_counts_by_device_and_type(void **state)
{
    assert_float_equal(typed(DSFLOW_FP32, DSFLOW_DEVICE), 1e-3, 1e-12);
    assert_float_equal(typed(DSFLOW_BF16, DSFLOW_DEVICE), 2e-3, 1e-12);
    assert_float_equal(typed(DSFLOW_FP16, DSFLOW_DEVICE), 1e-3, 1e-12);
    assert_float_equal(typed(DSFLOW_FP32, DSFLOW_HOST), 3e-3, 1e-12);
    assert_float_equal(typed(DSFLOW_FP16, DSFLOW_HOST), 4e-3, 1e-12);
}

static const struct dsflow_op sum = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    .repeats = 1,
    DSFLOW_PORTS({ "sum", DSFLOW_W, .floats = DSFLOW_NARROW_SUM },
                 { "in", DSFLOW_R, .floats = DSFLOW_NARROW }),
    .check = any,
    .cost = cost_of,
};

/* Seconds of a task that adds 8 numbers of a type to a sum in fp32. */
static double summed(const char *machine, enum dsflow_dtype dtype)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id out = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "sum", .elems = 8, .dtype = DSFLOW_FP32));
    dsflow_data_id in = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "in", .elems = 8, .dtype = (uint8_t)dtype));
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = &sum, .ndata = 2,
                    .data = (dsflow_data_id[]){ out, in });
    struct dsf_machine_model m;
    struct dsf_cost_model model = { &m, 1 };
    struct dsflow_err err;
    double s;

    if (dsf_machine_model_parse(machine, strlen(machine), "m.toml", &m, &err) <
        0)
        fail_msg("%s", err.msg);
    s = dsf_cost_seconds(&model, g, &t);
    dsf_machine_model_fini(&m);
    dsflow_graph_free(g);
    return s;
}

static void the_type_is_that_of_the_computation(void **state)
{
    static const char kinds[] =
        "[machine]\nfp32 = 1e9\nbandwidth = 1e12\noverhead = \"0us\"\n"
        "[kinds]\nwork = [1e-3, 0, 0]\n[kinds.bf16]\nwork = [2e-3, 0, 0]\n";

    assert_float_equal(summed(kinds, DSFLOW_FP32), 1e-3, 1e-12);
    assert_float_equal(summed(kinds, DSFLOW_BF16), 2e-3, 1e-12);
}

/* 3200 operations. */
static void arithmetic_is_as_fast_as_its_type(void **state)
{
    static const char both[] =
        "[machine]\nfp32 = 1e9\nbf16 = 4e9\nbandwidth = 1e12\n"
        "overhead = \"0us\"\n";

    assert_float_equal(summed(both, DSFLOW_FP32), 3.2e-6, 1e-12);
    assert_float_equal(summed(both, DSFLOW_BF16), 0.8e-6, 1e-12);
    /* Of which the machine says nothing. */
    assert_float_equal(summed(both, DSFLOW_FP16), 3.2e-6, 1e-12);
}

static void only_what_comes_from_other_ranks_uses_a_wire(void **state)
{
    /* Own: the copy alone, 2e5 bytes at 1e9, which a GPU does like a kernel. */
    assert_float_equal(seconds(GPUS, &move, 8, 2, (size_t[]){ 100000, 100000 },
                               (int[]){ 0, 0 }),
                       2e-4, 1e-12);
    /* From the same node. */
    assert_float_equal(seconds(GPUS, &move, 8, 2, (size_t[]){ 100000, 100000 },
                               (int[]){ 0, 3 }),
                       1e-6 + 1e-5 + 1e-3, 1e-12);
    /* From the other node. */
    assert_float_equal(seconds(GPUS, &move, 8, 2, (size_t[]){ 100000, 100000 },
                               (int[]){ 0, 4 }),
                       1e-6 + 1e-4 + 1e-2, 1e-12);
    /* From both: the wires work together. */
    assert_float_equal(seconds(GPUS, &move, 8, 4,
                               (size_t[]){ 100000, 100000, 100000, 100000 },
                               (int[]){ 0, 3, 4, 5 }),
                       1e-6 + 1e-4 + 2e-2, 1e-12);
}

static void ranks_in_one_memory_have_no_wire(void **state)
{
    const char *cpu = "[machine]\nworkers = 4\nfp32 = 1e12\nbandwidth = 1e9\n"
                      "overhead = \"1us\"\n[link]\nbandwidth = 1e3\n";

    assert_float_equal(seconds(cpu, &move, 8, 2, (size_t[]){ 100000, 100000 },
                               (int[]){ 0, 7 }),
                       1e-6 + 2e-4, 1e-12);
}

static void a_task_that_is_no_transfer_uses_no_wire(void **state)
{
    assert_float_equal(seconds(GPUS, &work, 8, 2, (size_t[]){ 0, 1000000 },
                               (int[]){ 0, DSFLOW_ANYWHERE }),
                       1e-3, 1e-12);
}

/* Seconds of a task of rank 0, with data of 1e6 bytes in these two memories. */
static double between(const char *machine, const struct dsflow_op *op,
                      enum dsflow_tier from, enum dsflow_tier to)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_task_spec t = DSFLOW_TASK(.op = op, .ndata = 2);
    dsflow_data_id ids[2];
    enum dsflow_tier tiers[2] = { from, to };
    struct dsf_machine_model m;
    struct dsf_cost_model model = { &m, 8 };
    struct dsflow_err err;
    double s;

    if (dsf_machine_model_parse(machine, strlen(machine), "m.toml", &m, &err) <
        0)
        fail_msg("%s", err.msg);
    for (unsigned i = 0; i < 2; i++)
        ids[i] = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = i == 0 ? "from" : "to",
                            .elems = i == 0 ? 1000000 : 1500000,
                            .tier = (uint8_t)tiers[i]));
    t.data = ids;
    s = dsf_cost_seconds(&model, g, &t);
    dsf_machine_model_fini(&m);
    dsflow_graph_free(g);
    return s;
}

static void a_disk_has_a_rate_each_way_and_a_latency(void **state)
{
    const char *cpu = "[machine]\nworkers = 4\nfp32 = 1e12\nbandwidth = 1e9\n"
                      "overhead = \"1us\"\n"
                      "[disk]\nread = 4e9\nwrite = 2e9\nlatency = \"80us\"\n";

    /* The smaller of the two sizes is what moves; no worker, no overhead. */
    assert_float_equal(
        between(cpu, &dsf_op_swap_in, DSFLOW_NVME, DSFLOW_DEVICE),
        8e-5 + 2.5e-4, 1e-12);
    assert_float_equal(between(cpu, &dsf_op_swap_out, DSFLOW_HOST, DSFLOW_NVME),
                       8e-5 + 5e-4, 1e-12);
    /* Between parts of main memory it is a copy: read once, written once. */
    assert_float_equal(
        between(cpu, &dsf_op_swap_in, DSFLOW_HOST, DSFLOW_DEVICE), 1e-6 + 2e-3,
        1e-12);
}

static void a_gpu_reaches_main_memory_over_wires(void **state)
{
    const char *gpus = "[machine]\nkind = \"gpu\"\ndevices = 4\nfp32 = 1e12\n"
                       "bandwidth = 1e9\noverhead = \"1us\"\n"
                       "host_bandwidth = 4e8\nhost_link = 5e7\n"
                       "[link]\nbandwidth = 1e8\nlatency = \"10us\"\n";

    assert_float_equal(
        between(gpus, &dsf_op_swap_out, DSFLOW_DEVICE, DSFLOW_HOST),
        1e-6 + 1e-5 + 2e-2, 1e-12);
    /* Four ranks share the 4e8 bytes a second: 2.5e6 bytes at 1e8. */
    assert_float_equal(between(gpus, &work, DSFLOW_HOST, DSFLOW_HOST),
                       1e-6 + 2.5e-2, 1e-12);
    assert_float_equal(between(gpus, &work, DSFLOW_DEVICE, DSFLOW_DEVICE),
                       2.5e-3, 1e-12);
}

static void cores_beside_gpus_share_memory_and_wires(void **state)
{
    const char *gpus = "[machine]\nkind = \"gpu\"\ndevices = 4\nfp32 = 1e12\n"
                       "workers = 16\nbandwidth = 1e9\noverhead = \"1us\"\n"
                       "host_bandwidth = 4e8\nhost_link = 5e7\n";

    assert_float_equal(between(gpus, &work, DSFLOW_HOST, DSFLOW_HOST),
                       1e-6 + 16 * 2.5e6 / 4e8, 1e-12);
    /* Four of them have to do with a GPU: 1e6 bytes from it are less than
     * what memory has to carry, 1.5e6 are more. */
    assert_float_equal(between(gpus, &work, DSFLOW_DEVICE, DSFLOW_HOST),
                       1e-6 + 16 * 2.5e6 / 4e8, 1e-12);
    assert_float_equal(between(gpus, &work, DSFLOW_HOST, DSFLOW_DEVICE),
                       1e-6 + 4 * 1.5e6 / 5e7, 1e-12);
}

/* Seconds of a task of rank 0, where ranks are on two virtual devices whose
 * links carry 1e6 bytes a second, on data of 1e6 bytes at these homes. */
static double on_devices(const struct dsflow_op *op, enum dsflow_tier from,
                         int home)
{
    static const char cpu[] = "[machine]\nworkers = 4\nfp32 = 1e12\n"
                              "bandwidth = 1e9\noverhead = \"1us\"\n";
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_task_spec t = DSFLOW_TASK(.op = op, .ndata = 2);
    struct dsf_machine_model m;
    struct dsf_cost_model model = { &m, 4, 2, 1e6 };
    struct dsflow_err err;
    dsflow_data_id ids[2];
    double s;

    if (dsf_machine_model_parse(cpu, strlen(cpu), "m.toml", &m, &err) < 0)
        fail_msg("%s", err.msg);
    for (unsigned i = 0; i < 2; i++) {
        bool read = op->swaps ? i == 0 : i == 1;

        ids[i] = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = i == 0 ? "first" : "second",
                            .elems = 1000000, .home = read ? (int16_t)home : 0,
                            .tier = read ? (uint8_t)from : DSFLOW_DEVICE));
    }
    t.data = ids;
    s = dsf_cost_seconds(&model, g, &t);
    dsf_machine_model_fini(&m);
    dsflow_graph_free(g);
    return s;
}

static void
what_crosses_the_link_of_a_virtual_device_takes_its_time(void **state)
{
    assert_float_equal(on_devices(&dsf_op_swap_in, DSFLOW_HOST, 0), 1, 1e-12);
    assert_float_equal(on_devices(&move, DSFLOW_DEVICE, 1), 1, 1e-12);
    /* Rank 2 is on the same device: a copy, read once and written once. */
    assert_float_equal(on_devices(&move, DSFLOW_DEVICE, 2), 1e-6 + 2e-3, 1e-12);
    assert_float_equal(on_devices(&work, DSFLOW_DEVICE, 0), 1e-6 + 2e-3, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_takes_the_longer_of_arithmetic_and_memory),
        cmocka_unit_test(what_was_measured_of_a_kind_counts),
        cmocka_unit_test(what_was_measured_counts_by_device_and_type),
        cmocka_unit_test(the_type_is_that_of_the_computation),
        cmocka_unit_test(arithmetic_is_as_fast_as_its_type),
        cmocka_unit_test(only_what_comes_from_other_ranks_uses_a_wire),
        cmocka_unit_test(ranks_in_one_memory_have_no_wire),
        cmocka_unit_test(a_task_that_is_no_transfer_uses_no_wire),
        cmocka_unit_test(a_disk_has_a_rate_each_way_and_a_latency),
        cmocka_unit_test(a_gpu_reaches_main_memory_over_wires),
        cmocka_unit_test(cores_beside_gpus_share_memory_and_wires),
        cmocka_unit_test(
            what_crosses_the_link_of_a_virtual_device_takes_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
