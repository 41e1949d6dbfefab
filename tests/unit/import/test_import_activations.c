/* test_import_activations.c - what becomes of DeepSpeed's
 * activation_quantization. */
#include "import/ds_config.h"

#include "base/alloc.h"
#include "policies/trained_weights.h"
#include "unit/import/one_import.h"

#define AQ "compression_training.activation_quantization."

/* The configuration with this section, whose shared parameters are in line 2
 * and whose groups are in line 3. */
#define SECTION(shared, groups)                                                \
    "{" BATCH "\"compression_training\": {\"activation_quantization\": {\n"    \
    "\"shared_parameters\": {" shared "},\n\"different_groups\": {" groups     \
    "}}}}"
#define ROUNDED(shared, groups) SECTION("\"enabled\": true" shared, groups)
#define FROM_0                  ", \"schedule_offset\": 0"
#define ONE(params)                                                            \
    "\"a\": {\"params\": {" params "}, \"modules\": [\"attn\", \"mlp\"]}"
#define IN_BITS(bits) ONE("\"bits\": " bits)

static void inputs_of_matrices_are_rounded(void **state)
{
    struct dsf_job job;

    make_job(ROUNDED(FROM_0 ", \"quantization_type\": \"asymmetric\", "
                            "\"range_calibration\": \"dynamic\"",
                     IN_BITS("4")),
             RANKS(1), &job);
    assert_int_equal(job.activations.quantize, DSF_INPUTS_ASYMMETRIC);
    assert_int_equal(job.activations.bits, 4);
    assert_int_equal(job.activations.group, 0);
    assert_int_equal(dsf_weights_keys(&job)->quantize, DSF_UNQUANTIZED);
    assert_line("quantize = \"asymmetric\"      # " AQ
                "shared_parameters.quantization_type, line 2\n");
    assert_line("bits = 4                     # " AQ
                "different_groups.a.params.bits, line 3\n");
    assert_line("group = 0                    # " AQ
                "shared_parameters.range_calibration, line 2\n");
    assert_line("quantize_from = 0            # " AQ
                "shared_parameters.schedule_offset, line 2\n");
    dsf_job_fini(&job);
}

/* It is dynamic and symmetric, from step 1000 on. */
static void what_is_not_said_of_activations_is_deepspeeds(void **state)
{
    struct dsf_job job;

    make_job(ROUNDED("", IN_BITS("8")), RANKS(1), &job);
    assert_int_equal(job.activations.quantize, DSF_INPUTS_SYMMETRIC);
    assert_int_equal(job.activations.bits, 8);
    assert_int_equal(job.activations.group, 0);
    assert_int_equal(job.activations.quantize_from, 1000);
    assert_line(
        "shared_parameters.quantization_type: DeepSpeed's default\n");
    assert_line("shared_parameters.schedule_offset: DeepSpeed's default\n");
    dsf_job_fini(&job);
}

static void what_differs_of_activations_is_refused(void **state)
{
    assert_refused(
        ROUNDED(", \"range_calibration\": \"static\"", IN_BITS("8")), RANKS(1),
        "ds.json:2: " AQ "shared_parameters.range_calibration: static: dsflow "
        "finds the scales of each token anew, and keeps no ranges of earlier "
        "steps: expected dynamic");
    assert_refused(
        ROUNDED(", \"range_calibration\": \"both\"", IN_BITS("8")), RANKS(1),
        "ds.json:2: " AQ "shared_parameters.range_calibration: both: expected "
        "dynamic");
    assert_refused(
        ROUNDED(", \"quantization_type\": \"none\"", IN_BITS("8")), RANKS(1),
        "ds.json:2: " AQ "shared_parameters.quantization_type: none: expected "
        "symmetric or asymmetric");
    assert_refused(
        ROUNDED(", \"schedule_offset\": -1", IN_BITS("8")), RANKS(1),
        "ds.json:2: " AQ "shared_parameters.schedule_offset: -1: expected a "
        "whole number, 0 to 2147483647, as activations.quantize_from");
}

static void bits_of_activations_are_2_to_8(void **state)
{
    static const char *const others[] = { "1", "9", "16", "-4" };

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        char *json = dsf_xasprintf(ROUNDED(FROM_0, IN_BITS("%s")), others[i]);
        char *line = dsf_xasprintf("ds.json:3: " AQ
                                   "different_groups.a.params.bits: %s: "
                                   "expected a whole number, 2 to 8, as "
                                   "activations.bits",
                                   others[i]);

        assert_refused(json, RANKS(1), line);
        free(json);
        free(line);
    }
    assert_refused(ROUNDED(FROM_0, ONE("")), RANKS(1),
                   "ds.json:3: " AQ "different_groups.a: has no params.bits: "
                   "expected 2 to 8");
}

/* Of those outside of blocks any may be there: they are exact. */
static void activations_are_of_all_blocks(void **state)
{
    static const struct {
        const char *modules;
        bool taken, outside;
    } table[] = {
        { "[\"*\"]", true, true },
        { "[\"attn\", \"mlp\"]", true, false },
        { "[\"layers\", \"lm_head\"]", true, true },
        { "[\"layers\", \"embed_tokens\"]", true, true },
        { "[\"mlp\"]", false, false },
        { "[\"lm_head\"]", false, false },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char *json =
            dsf_xasprintf(ROUNDED(FROM_0, "\"a\": {\"params\": {\"bits\": 8}, "
                                          "\"modules\": %s}"),
                          table[i].modules);

        if (table[i].taken) {
            make(json, RANKS(1));
            assert_line(table[i].outside
                            ? "params.bits, line 3; modules outside of blocks, "
                              "as the head, have exact inputs here\n"
                            : "params.bits, line 3\n");
        } else {
            assert_refused(json, RANKS(1),
                           "ds.json:3: " AQ "different_groups: [activations] "
                           "is of all matrices of blocks: expected modules "
                           "that are these, as [\"*\"]");
        }
        free(json);
    }
}

/* What one of them lacks, too. */
static void groups_of_one_kind_are_one(void **state)
{
    static const struct {
        const char *a, *b, *line, *has, *expected;
    } table[] = {
        { "\"bits\": 8", "\"bits\": 4", ":3", "4", "8" },
        { "\"bits\": 8", "", "", "none", "8" },
        { "", "\"bits\": 8", ":3", "8", "none" },
        { "\"bits\": 8", "\"bits\": -1", ":3", "-1", "8" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char *json = dsf_xasprintf(
            ROUNDED(FROM_0,
                    "\"a\": {\"params\": {%s}, \"modules\": [\"attn\"]}, "
                    "\"b\": {\"params\": {%s}, \"modules\": [\"mlp\"]}"),
            table[i].a, table[i].b);
        char *line = dsf_xasprintf(
            "ds.json%s: " AQ "different_groups.b.params.bits: %s: all matrices "
            "have the same: expected %s, as " AQ "different_groups.a has it",
            table[i].line, table[i].has, table[i].expected);

        assert_refused(json, RANKS(1), line);
        free(json);
        free(line);
    }
}

static void what_is_not_enabled_asks_for_nothing(void **state)
{
    make(SECTION("\"enabled\": false, \"schedule_offset\": 1000, "
                 "\"range_calibration\": \"static\"",
                 IN_BITS("16")),
         RANKS(1));
    assert_null(strstr(did.text, "[activations]"));
}

static void weights_are_quantized_with_them(void **state)
{
    struct dsf_job job;

    make_job("{" BATCH "\"compression_training\": {"
             "\"weight_quantization\": {\"shared_parameters\": "
             "{\"enabled\": true, \"quantize_weight_in_forward\": true},"
             "\"different_groups\": {\"w\": {\"params\": {\"start_bits\": 4, "
             "\"target_bits\": 4}, \"modules\": [\"*\"]}}}, "
             "\"activation_quantization\": {\"shared_parameters\": "
             "{\"enabled\": true" FROM_0 "},"
             "\"different_groups\": {" IN_BITS("8") "}}}}",
             RANKS(1), &job);
    assert_int_equal(dsf_weights_keys(&job)->bits, 4);
    assert_int_equal(job.activations.quantize, DSF_INPUTS_SYMMETRIC);
    assert_int_equal(job.activations.bits, 8);
    dsf_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_of_matrices_are_rounded),
        cmocka_unit_test(what_is_not_said_of_activations_is_deepspeeds),
        cmocka_unit_test(what_differs_of_activations_is_refused),
        cmocka_unit_test(bits_of_activations_are_2_to_8),
        cmocka_unit_test(activations_are_of_all_blocks),
        cmocka_unit_test(groups_of_one_kind_are_one),
        cmocka_unit_test(what_is_not_enabled_asks_for_nothing),
        cmocka_unit_test(weights_are_quantized_with_them),
    };

    return cmocka_run_group_tests(tests, into_folder, out_of_folder);
}
