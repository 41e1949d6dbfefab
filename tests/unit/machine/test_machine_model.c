/* test_machine_model.c - descriptions of machines, right and wrong. */
#include "machine/machine_model.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST "[machine]\nfp32 = 1e12\nbandwidth = 1e11\n"

static int parse(const char *text, struct dsf_machine_model *m,
                 struct dsflow_err *err)
{
    return dsf_machine_model_parse(text, strlen(text), "m.toml", m, err);
}

static void what_is_left_out_has_a_default(void **state)
{
    struct dsf_machine_model m;
    struct dsflow_err err;

    if (parse(LEAST, &m, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(m.main.kind, DSF_MACHINE_CPU);
    assert_int_equal(m.main.nodes, 1);
    assert_int_equal(m.main.workers, 1);
    assert_int_equal(m.main.memory, -1);
    assert_float_equal(m.main.overhead, 5e-6, 1e-12);
    assert_null(dsf_machine_model_kind(&m, "adam", false, DSFLOW_BYTES));
    dsf_machine_model_fini(&m);
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
    static const struct {
        const char *text, *expected;
    } wrong[] = {
        { "[machine]\nfp32 = 1e12\n",
          "m.toml: machine: bandwidth: is missing: expected a number, 1e+07 "
          "to 1e+16" },
        { LEAST "kind = \"tpu\"\n",
          "m.toml:4: machine: kind: \"tpu\": expected cpu or gpu" },
        { LEAST "nodes = 0\n",
          "m.toml:4: machine: nodes: 0: expected a whole number, 1 to 65536" },
        { LEAST "device = 8\n",
          "m.toml:4: machine: device: unknown key; did you mean devices?" },
        { LEAST "[links]\n",
          "m.toml:4: [links]: unknown table; did you mean link?" },
        { LEAST "[link]\nlatency = 3\n",
          "m.toml:5: link: latency: 3: expected a time such as \"30s\"" },
        { LEAST "[kinds]\nadam = [1, 2]\n",
          "m.toml:5: kinds: adam: [1, 2]: expected three or four numbers of "
          "seconds, not all 0: of a task (0 to 10), an operation, a byte, a "
          "score of attention (0 to 1e-3)" },
        { LEAST "[kinds.bf61]\nadam = [1, 0, 0]\n",
          "m.toml:5: [kinds.bf61]: unknown table" },
        { LEAST "[kinds.host.bf16]\nadam = [1, 0, 0]\n",
          "m.toml:5: [kinds.host.bf16]: is of the cores beside GPUs: expected "
          "kind = \"gpu\" in [machine]" },
        { LEAST "[kinds.bf16]\nadam = [1, 2]\n",
          "m.toml:5: kinds.bf16: adam: [1, 2]: expected three or four numbers "
          "of seconds, not all 0: of a task (0 to 10), an operation, a byte, a "
          "score of attention (0 to 1e-3)" },
        { LEAST "[kinds]\nadam = [1, 2, -3]\n", NULL },
        { LEAST "[kinds]\nadam = \"fast\"\n", NULL },
        { LEAST "[kinds]\nadam = [1, nan, 1]\n", NULL },
        { LEAST "[kinds]\nadam = [0, 0, 0]\n", NULL },
        { LEAST "[kinds]\nadam = [0, 0.0, 0, 0]\n", NULL },
        { LEAST "[kinds]\nadam = [1e300, 0, 0]\n", NULL },
        { LEAST "[kinds]\nadam = [1, \"2\", 1]\n", NULL },
        { "[machine]\nfp32 = 0\nbandwidth = 1e11\n",
          "m.toml:2: machine: fp32: 0: expected a number, 1e+08 to 1e+18" },
        { "[machine]\nfp32 = -1e12\nbandwidth = 1e11\n",
          "m.toml:2: machine: fp32: -1e+12: expected a number, 1e+08 "
          "to 1e+18" },
        { "[machine]\nfp32 = 1e12\nbandwidth = inf\n",
          "m.toml:3: machine: bandwidth: inf: expected a number, 1e+07 to "
          "1e+16" },
        { LEAST "[link]\nbandwidth = nan\n",
          "m.toml:5: link: bandwidth: nan: expected a number, 1000 to 1e+16" },
        { LEAST "[network]\nlatency = \"9h\"\n",
          "m.toml:5: network: latency: \"9h\": expected a time such as "
          "\"5us\", 10s at most" },
        { LEAST "overhead = \"-1us\"\n", NULL },
        { LEAST "[disk]\nread = 1e9\nwrite = 0\n",
          "m.toml:6: disk: write: 0: expected a number, 10000 to 1e+14" },
        { LEAST "[disk]\nread = 0.0\nwrite = 1e9\n", NULL },
        { LEAST "[disk]\nread = 1e9\n",
          "m.toml: disk: write: is missing: expected a number, 10000 to "
          "1e+14" },
        { LEAST "[disk]\nread = 1e9\nwrite = 1e300\n", NULL },
        { LEAST "[scatter]\nread = -1\n", NULL },
        { "fp32 = 1e12\n", NULL },
        { "[machine\n", NULL },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct dsf_machine_model m;
        struct dsflow_err err = { 0 };

        assert_int_equal(parse(wrong[i].text, &m, &err), DSFLOW_EINVAL);
        if (wrong[i].expected != NULL)
            assert_string_equal(err.msg, wrong[i].expected);
        else
            assert_non_null(strstr(err.msg, "m.toml:"));
    }
}

/* What a measurement that was disturbed may give. */
static void a_figure_that_no_machine_has_is_found_and_mended(void **state)
{
    static const double wrong[] = { 0, -1, NAN, INFINITY, 1e300, 1e-3 };
    struct dsf_machine_model m;
    struct dsflow_err err;
    char text[32];

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        dsf_machine_model_init(&m);
        assert_int_equal(dsf_machine_model_check(&m, &err), DSFLOW_OK);
        m.main.fp32 = wrong[i];
        m.disk.read = 1e9;
        m.disk.write = wrong[i];
        dsf_machine_model_add_kind(&m, "adam", false, DSFLOW_BYTES)->per_byte =
            -wrong[i];
        dsf_machine_model_add_kind(&m, "add", false, DSFLOW_BYTES)->fixed =
            1e-6;
        assert_int_equal(dsf_machine_model_check(&m, &err), DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "machine: fp32: "));
        dsf_machine_model_mend(&m, text, sizeof(text));
        assert_string_equal(text, "1e+11");
        assert_int_equal(dsf_machine_model_check(&m, &err), DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "disk: write: "));
        dsf_machine_model_mend(&m, text, sizeof(text));
        assert_string_equal(text, "1e+09");
        while (dsf_machine_model_check(&m, &err) < 0) {
            assert_non_null(strstr(err.msg, "kinds: adam: "));
            dsf_machine_model_mend(&m, text, sizeof(text));
            assert_string_equal(text, "an estimate");
        }
        assert_null(dsf_machine_model_kind(&m, "adam", false, DSFLOW_BYTES));
        assert_non_null(dsf_machine_model_kind(&m, "add", false, DSFLOW_BYTES));
        dsf_machine_model_fini(&m);
    }
}

static void scatter_is_named_where_it_is_large(void **state)
{
    struct dsf_machine_model m;
    char text[64];

    dsf_machine_model_init(&m);
    m.scatter.fp32 = 0.25;
    assert_false(dsf_machine_model_scattered(&m, text, sizeof(text)));
    m.scatter.bandwidth = 0.41;
    m.scatter.write = 3;
    assert_true(dsf_machine_model_scattered(&m, text, sizeof(text)));
    assert_string_equal(text, "bandwidth by 41 %, write by 300 %");
    assert_true(dsf_machine_model_scattered(&m, text, 12));
    assert_string_equal(text, "bandwidth b");
    dsf_machine_model_fini(&m);
}

static void what_is_written_reads_back(void **state)
{
    struct dsf_machine_model m, back;
    struct dsf_kind_rate *rate;
    struct dsflow_err err;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    dsf_machine_model_init(&m);
    free(m.main.name);
    m.main.name = strdup("a \"name\"\\");
    m.main.kind = DSF_MACHINE_GPU;
    m.main.nodes = 3;
    m.main.devices = 5;
    m.main.memory = 123456789;
    m.main.fp32 = 1.5e13;
    m.main.bandwidth = 3e12;
    m.main.overhead = 7.5e-6;
    m.link.bandwidth = 4e11;
    m.network.latency = 2.25e-5;
    m.network.duplex = false;
    m.network.core = 2.5e9;
    m.main.host = 987654321;
    m.main.workers = 7;
    m.main.host_bandwidth = 2.5e11;
    m.main.host_link = 5.5e10;
    m.disk = (struct dsf_machine_disk){ .read = 6.5e9,
                                        .write = 3.5e9,
                                        .latency = 8e-5,
                                        .duplex = true,
                                        .size = 1LL << 41 };
    m.main.bf16 = 3.5e12;
    m.scatter.fp32 = 0.125;
    m.scatter.write = 1.5;
    m.scatter.network = 0.25;
    rate = dsf_machine_model_add_kind(&m, "mlp.forward", false, DSFLOW_BYTES);
    rate->fixed = 1e-6;
    rate->per_flop = 2e-11;
    rate->per_byte = 3e-10;
    rate->per_score = 4e-10;
    assert_int_equal(dsf_machine_model_write(&m, f), DSFLOW_OK);
    fclose(f);

    if (dsf_machine_model_parse(text, n, "back.toml", &back, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(back.main.name, m.main.name);
    assert_int_equal(back.main.kind, m.main.kind);
    assert_int_equal(back.main.nodes, 3);
    assert_int_equal(back.main.devices, 5);
    assert_int_equal(back.main.workers, 7);
    assert_int_equal(back.main.memory, 123456789);
    assert_float_equal(back.main.overhead / 7.5e-6, 1, 1e-6);
    assert_float_equal(back.link.bandwidth / 4e11, 1, 1e-6);
    assert_float_equal(back.network.latency / 2.25e-5, 1, 1e-6);
    assert_float_equal(back.network.core / 2.5e9, 1, 1e-6);
    assert_true(back.link.core == 0);
    assert_true(back.link.duplex && !back.network.duplex);
    assert_int_equal(back.main.host, 987654321);
    assert_float_equal(back.main.host_bandwidth / 2.5e11, 1, 1e-6);
    assert_float_equal(back.main.host_link / 5.5e10, 1, 1e-6);
    assert_float_equal(back.disk.read / 6.5e9, 1, 1e-6);
    assert_float_equal(back.disk.write / 3.5e9, 1, 1e-6);
    assert_float_equal(back.disk.latency / 8e-5, 1, 1e-6);
    assert_float_equal(back.main.bf16 / 3.5e12, 1, 1e-6);
    assert_float_equal(back.main.fp16, 0, 0);
    assert_true(back.disk.duplex);
    assert_true(back.disk.size == 1LL << 41);
    assert_float_equal(back.scatter.fp32, 0.125, 0);
    assert_float_equal(back.scatter.write, 1.5, 0);
    assert_float_equal(back.scatter.network, 0.25, 0);
    assert_float_equal(back.scatter.link, 0, 0);
    assert_float_equal(
        dsf_machine_model_kind(&back, "mlp.forward", false, DSFLOW_BYTES)
                ->per_byte /
            3e-10,
        1, 1e-6);
    assert_float_equal(
        dsf_machine_model_kind(&back, "mlp.forward", false, DSFLOW_BYTES)
                ->per_score /
            4e-10,
        1, 1e-6);
    dsf_machine_model_fini(&m);
    dsf_machine_model_fini(&back);
    free(text);
}

static double fixed(const struct dsf_machine_model *m, const char *kind,
                    bool host, enum dsflow_dtype dtype)
{
    const struct dsf_kind_rate *rate =
        dsf_machine_model_kind(m, kind, host, dtype);

    return rate != NULL ? rate->fixed : 0;
}

static void a_kind_has_rates_by_device_and_type(void **state)
{
    static const char file[] =
        LEAST "kind = \"gpu\"\n"
              "[kinds.host.bf16]\nadam = [5, 0, 0]\n"
              "[kinds]\nadam = [1, 0, 0]\n"
              "[kinds.bf16]\nmlp = [3, 0, 0]\nadam = [2, 0, 0]\n";
    struct dsf_machine_model m, back;
    struct dsflow_err err;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (parse(file, &m, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsf_machine_model_write(&m, f), DSFLOW_OK);
    fclose(f);
    if (dsf_machine_model_parse(text, n, "back.toml", &back, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(back.nkinds, 4);
    assert_float_equal(fixed(&back, "adam", false, DSFLOW_BF16), 2, 0);
    assert_float_equal(fixed(&back, "adam", false, DSFLOW_FP32), 1, 0);
    assert_float_equal(fixed(&back, "adam", true, DSFLOW_BF16), 5, 0);
    /* Nothing of it in this type, nor in any. */
    assert_float_equal(fixed(&back, "adam", true, DSFLOW_FP32), 0, 0);
    assert_float_equal(fixed(&back, "mlp", false, DSFLOW_FP32), 0, 0);
    assert_true(dsf_machine_model_knows(&back, DSFLOW_BF16));
    assert_false(dsf_machine_model_knows(&back, DSFLOW_FP16));
    dsf_machine_model_fini(&m);
    dsf_machine_model_fini(&back);
    free(text);
}

static void the_examples_are_right(void **state)
{
    static const char *const names[] = { "laptop", "workstation-1gpu", "h200-8",
                                         "h200-64-nodes" };
    static const int64_t devices[] = { 1, 1, 8, 512 };
    const char *srcdir = getenv("srcdir") ? getenv("srcdir") : ".";

    for (int i = 0; i < 4; i++) {
        struct dsf_machine_model m;
        struct dsflow_err err;
        char path[512];

        snprintf(path, sizeof(path), "%s/examples/machines/%s.toml", srcdir,
                 names[i]);
        if (dsf_machine_model_read(path, &m, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(m.main.nodes * m.main.devices, devices[i]);
        dsf_machine_model_fini(&m);
    }
    assert_true(dsf_machine_model_read("no/such.toml",
                                       &(struct dsf_machine_model){ 0 },
                                       NULL) < 0);
}

static void ranks_fill_one_node_after_the_other(void **state)
{
    struct dsf_machine_model m;

    dsf_machine_model_init(&m);
    m.main.kind = DSF_MACHINE_GPU;
    m.main.nodes = 2;
    m.main.devices = 8;
    assert_int_equal(dsf_machine_model_node(&m, 16, 7), 0);
    assert_int_equal(dsf_machine_model_node(&m, 16, 8), 1);
    m.main.kind = DSF_MACHINE_CPU;
    assert_int_equal(dsf_machine_model_node(&m, 6, 2), 0);
    assert_int_equal(dsf_machine_model_node(&m, 6, 3), 1);
    dsf_machine_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_out_has_a_default),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(a_figure_that_no_machine_has_is_found_and_mended),
        cmocka_unit_test(scatter_is_named_where_it_is_large),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(a_kind_has_rates_by_device_and_type),
        cmocka_unit_test(the_examples_are_right),
        cmocka_unit_test(ranks_fill_one_node_after_the_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
