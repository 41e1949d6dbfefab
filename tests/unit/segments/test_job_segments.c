/* test_job_segments.c - which segments a job puts in its layers, and which ones
 * can be added: that of examples/plugins/gated_norm.c, whole and with faults.
 */
#include "model/model.h"
#include "segments/segment.h"

#include <dsflow/plugin.h>

#include "lib/test.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

static int read_segments(const char *model, const char *more,
                         struct dsflow_err *err)
{
    struct dsf_job job;
    char text[400];
    int n =
        snprintf(text, sizeof(text),
                 "[job]\nsteps = 5\n[data]\ntrain = \"x\"\n%s\n[model]\n%s\n",
                 more, model);
    int status;

    if (dsf_job_parse(text, (size_t)n, "t", NULL, 0, NULL, &job, err) < 0)
        fail_msg("%s", err->msg);
    status = dsf_job_check_segments(&job, err);
    dsf_job_fini(&job);
    return status;
}

static void accepted(const char *model)
{
    struct dsflow_err err = { .msg = "" };

    if (read_segments(model, "", &err) < 0)
        fail_msg("%s: %s", model, err.msg);
}

static void refused(const char *model, const char *message)
{
    struct dsflow_err err = { .msg = "" };

    assert_int_equal(read_segments(model, "", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void a_job_says_what_its_layers_are_made_of(void **state)
{
    accepted("");
    accepted("segments = [\"qkv\", \"attention\", \"out\", \"gated_norm\", "
             "\"mlp\"]");
    accepted("segments = [\"gated_norm\", \"mlp\"]");
    accepted("segments = \"mlp\"");
}

static void what_cannot_stand_so_is_refused(void **state)
{
    refused("segments = [\"gate\"]",
            "t:7: model: segments: \"gate\": expected some of qkv, attention, "
            "out, mlp, gated_norm");
    refused("segments = [\"head\"]",
            "t:7: model: segments: \"head\": expected some of qkv, attention, "
            "out, mlp, gated_norm");
    refused("segments = [\"mlp\", \"mlp\"]",
            "t:7: model: segments: \"mlp\": expected it once");
    refused("segments = [\"attention\", \"qkv\", \"out\"]",
            "t:7: model: segments: \"attention\": expected \"qkv\" before it");
    refused("segments = [\"qkv\", \"mlp\"]",
            "t:7: model: segments: \"qkv\": expected \"attention\" behind it");
    refused("segments = [\"qkv\", \"gated_norm\", \"attention\", \"out\"]",
            "t:7: model: segments: \"gated_norm\": reads what \"qkv\" reads: "
            "expected it before that one, or behind the next that adds to the "
            "stream");
    refused("segments = []",
            "t:7: model: segments: expected at least one that adds to the "
            "stream, such as \"mlp\"");
}

/* The segment of the example, in which `change` makes something wrong. */
static void faulty(void (*change)(struct dsflow_segment *s),
                   const char *message)
{
    struct dsflow_segment s = *dsflow_segment_find(NULL, "gated_norm");
    struct dsflow_err err = { .msg = "" };

    s.codelets = NULL;
    change(&s);
    assert_int_equal(dsflow_segment_register(&s, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void same(struct dsflow_segment *s)
{
}

static void without_arguments(struct dsflow_segment *s)
{
    s->fill = NULL;
}

static void another_name(struct dsflow_segment *s)
{
    s->name = "gate";
}

static void of_another(struct dsflow_segment *s)
{
    s->forward = dsflow_op_find("mlp.forward");
}

static void fewer_ports(struct dsflow_segment *s)
{
    s->nports = 3;
}

static void without_gradient(struct dsflow_segment *s)
{
    s->backward_input = NULL;
}

static void without_rule(struct dsflow_segment *s)
{
    s->rules++;
}

static void odd_tensors(const struct dsflow_layout *layout,
                        struct dsflow_tensor_spec *list)
{
    list[0] = (struct dsflow_tensor_spec){ .name = "v", .cols = 4 };
    list[1] = (struct dsflow_tensor_spec){ .name = "m", .rows = 3, .cols = 4 };
}

static void matrices_behind(struct dsflow_segment *s)
{
    s->tensors = odd_tensors;
}

static void same_names(const struct dsflow_layout *layout,
                       struct dsflow_tensor_spec *list)
{
    list[0] = (struct dsflow_tensor_spec){ .name = "v", .cols = 4 };
    list[1] = (struct dsflow_tensor_spec){ .name = "v", .cols = 4 };
}

static void a_name_twice(struct dsflow_segment *s)
{
    s->tensors = same_names;
}

static void odd_names(const struct dsflow_layout *layout,
                      struct dsflow_tensor_spec *list)
{
    list[0] = (struct dsflow_tensor_spec){ .name = "a/b", .cols = 4 };
}

static void a_name_for_no_file(struct dsflow_segment *s)
{
    s->tensors = odd_names;
}

static void not_a_number(const struct dsflow_layout *layout,
                         struct dsflow_tensor_spec *list)
{
    list[0] =
        (struct dsflow_tensor_spec){ .name = "v", .cols = 4, .value = NAN };
}

static void no_numbers(struct dsflow_segment *s)
{
    s->tensors = not_a_number;
}

static void without_tensors(struct dsflow_segment *s)
{
    s->tensors = NULL;
}

/* Its ports, of which `change` finds one by its name. */
static struct dsflow_segment_port *own_port(struct dsflow_segment *s,
                                            const char *name)
{
    static struct dsflow_segment_port ports[DSFLOW_SEGMENT_PORTS];
    unsigned p = 0;

    memcpy(ports, s->ports, s->nports * sizeof(*ports));
    s->ports = ports;
    while (strcmp(ports[p].name, name) != 0)
        p++;
    return &ports[p];
}

static void a_stream_that_is_not_cut(struct dsflow_segment *s)
{
    own_port(s, "x")->cut = DSFLOW_CUT_UNKNOWN;
}

static void a_stream_in_columns(struct dsflow_segment *s)
{
    own_port(s, "dx")->cut = DSFLOW_CUT_COLUMNS;
}

static void what_is_kept_not_cut(struct dsflow_segment *s)
{
    own_port(s, "gate")->cut = DSFLOW_CUT_UNKNOWN;
}

/* The forward task reads what it makes. */
static void what_is_made_is_read(struct dsflow_segment *s)
{
    own_port(s, "x")->from = DSFLOW_FROM_OUT;
}

static void what_is_kept_passes_by(struct dsflow_segment *s)
{
    own_port(s, "gate")->from = DSFLOW_FROM_PASSING;
}

static void a_description_with_a_fault_is_refused(void **state)
{
    faulty(same, "segment gated_norm: the name is taken (a test)");
    faulty(without_arguments,
           "segment gated_norm: expected forward, fill, needs, and at most 16 "
           "ports; or `replaces`");
    faulty(another_name, "segment gate: task gated_norm.forward: segment: "
                         "gated_norm");
    faulty(of_another, "segment gated_norm: task mlp.forward: segment: mlp");
    faulty(fewer_ports, "segment gated_norm: task gated_norm.forward: port "
                        "gated: it is not said what it is connected to");
    faulty(without_gradient,
           "segment gated_norm: no task has the gradient of the stream");
    faulty(without_rule, "segment gated_norm: its rules have none for task "
                         "gated_norm.forward");
    faulty(
        matrices_behind,
        "segment gated_norm: tensor m: 3 x 4, cut 0: expected matrices, then "
        "vectors, cut in rows or columns or not at all");
    faulty(a_name_twice, "segment gated_norm: tensor v: expected it once");
    faulty(a_name_for_no_file,
           "segment gated_norm: tensor \"a/b\": expected a name of 1 to 64 "
           "letters, digits, '.', '_' and '-'");
    faulty(without_tensors, "segment gated_norm: port unit: is of parameters: "
                            "expected a function tensors");
    faulty(a_stream_that_is_not_cut,
           "segment gated_norm: port x: cut: expected DSFLOW_CUT_ROWS, as it "
           "has rules for tensor ranks");
    faulty(a_stream_in_columns,
           "segment gated_norm: port dx: cut: expected DSFLOW_CUT_ROWS, as it "
           "has rules for tensor ranks");
    faulty(what_is_kept_not_cut,
           "segment gated_norm: port gate: cut: expected a DSFLOW_CUT_…, as it "
           "has rules for tensor ranks");
    faulty(what_is_made_is_read,
           "segment gated_norm: task gated_norm.forward: port x: expected "
           "DSFLOW_W: it has no contents before");
    faulty(what_is_kept_passes_by,
           "segment gated_norm: task gated_norm.forward: port gate: is made in "
           "the backward pass: expected DSFLOW_FROM_KEPT");
    faulty(no_numbers, "segment gated_norm: tensor v: value nan, std 0: "
                       "expected numbers, and a std of at least 0");
}

/* A segment like gated_norm by another name, whose tensors have the names of
 * those of gated_norm: files could not tell them apart. */
static void two_tensors_of_a_layer_have_two_names(void **state)
{
    static struct dsflow_segment twin;
    static struct dsflow_segment_port ports[DSFLOW_SEGMENT_PORTS];
    static struct dsflow_op ops[3];
    const struct dsflow_segment *s = dsflow_segment_find(NULL, "gated_norm");
    const struct dsflow_op *from[] = { s->forward, s->backward_input,
                                       s->backward_weight };
    static const char *const names[] = { "twin.f", "twin.i", "twin.w" };
    static const char *const own[] = { "x",     "unit", "sluice", "twin",
                                       "dtwin", "dx",   "grad" };
    const char *text = "[job]\nsteps = 5\n[data]\ntrain = \"x\"\n[model]\n"
                       "layers = 1\nheads = 1\nwidth = 8\nvocab = 9\n"
                       "segments = [\"gated_norm\", \"twin\"]\n";
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;
    struct dsf_job job;

    for (unsigned i = 0; i < 3; i++) {
        ops[i] = *from[i];
        ops[i].name = names[i];
        ops[i].segment = "twin";
        assert_int_equal(dsflow_op_register(&ops[i], &err), DSFLOW_OK);
    }
    twin = *s;
    for (unsigned p = 0; p < s->nports; p++) {
        ports[p] = s->ports[p];
        ports[p].name = own[p];
    }
    twin.name = "twin";
    twin.ports = ports;
    twin.forward = &ops[0];
    twin.backward_input = &ops[1];
    twin.backward_weight = &ops[2];
    twin.rules = NULL;
    twin.codelets = NULL;
    assert_int_equal(dsflow_segment_register(&twin, &err), DSFLOW_OK);
    assert_int_equal(
        dsf_job_parse(text, strlen(text), "t", NULL, 0, NULL, &job, &err),
        DSFLOW_OK);
    assert_int_equal(dsf_model_init(&m, &job, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "t:10: model: segments: \"twin\": its tensor "
                                 "transformer.h.0.gated_norm.weight is one of "
                                 "\"gated_norm\", too");
    dsf_job_fini(&job);
}

static void tensor_ranks_need_rules(void **state)
{
    struct dsflow_err err = { .msg = "" };

    assert_int_equal(
        read_segments("mlp = \"lone\"", "[mesh]\ntensor = 2", &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "t:8: model: mlp: \"lone\": works on whole layers: "
                        "expected mesh.tensor = 1, not 2");
}

static int add(void **state)
{
    static const struct dsflow_segment lone = {
        .abi = DSFLOW_SEGMENT_ABI,
        .name = "lone",
        .replaces = "mlp",
        .summary = "the built-in one by another name",
        .forward = &dsf_op_mlp_forward,
    };
    struct dsflow_err err;

    return dsflow_plugin_add(&dsflow_plugin, "a test", &err) < 0 ||
                   dsflow_segment_register(&lone, &err) < 0
               ? -1
               : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_says_what_its_layers_are_made_of),
        cmocka_unit_test(what_cannot_stand_so_is_refused),
        cmocka_unit_test(a_description_with_a_fault_is_refused),
        cmocka_unit_test(tensor_ranks_need_rules),
        cmocka_unit_test(two_tensors_of_a_layer_have_two_names),
    };

    return cmocka_run_group_tests(tests, add, NULL);
}
