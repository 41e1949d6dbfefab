/* test_import_weights.c - what becomes of DeepSpeed's compression_training. */
#include "import/ds_config.h"

#include "base/alloc.h"
#include "policies/trained_weights.h"
#include "unit/import/one_import.h"

#define FP16    "\"fp16\": {\"enabled\": true}, "
#define FORWARD "\"quantize_weight_in_forward\": true"
#define ON      "\"enabled\": true, "
#define ALL     "\"modules\": [\"attn\", \"mlp\"]"
#define BITS(start, target)                                                    \
    "\"params\": {\"start_bits\": " start ", \"target_bits\": " target "}"
#define ONE(bits) "\"a\": {" bits ", " ALL "}"
#define WQ        "compression_training.weight_quantization."
#define SP        "compression_training.sparse_pruning."

/* The configuration with one section, whose shared parameters are in line 2 and
 * whose groups are in line 3. */
#define SECTION(before, name, shared, groups)                                  \
    "{" BATCH before "\"compression_training\": {\"" name "\": {\n"            \
    "\"shared_parameters\": {" shared "},\n\"different_groups\": {" groups     \
    "}}}}"
#define QUANTIZED(before, shared, groups)                                      \
    SECTION(before, "weight_quantization", ON shared, groups)
#define PRUNED(shared, groups)                                                 \
    SECTION("", "sparse_pruning", "\"enabled\": true" shared, groups)
#define RATIO(ratio)                                                           \
    "\"a\": {\"params\": {\"dense_ratio\": " ratio "}, " ALL "}"

static const struct dsf_weights_keys *make_weights(const char *json,
                                                   struct dsf_job *job)
{
    make_job(json, RANKS(1), job);
    return dsf_weights_keys(job);
}

/* --- quantized ------------------------------------------------------------ */

static void in_the_forward_pass_bits_are_the_last_at_once(void **state)
{
    struct dsf_job job;
    const struct dsf_weights_keys *keys = make_weights(
        QUANTIZED("", FORWARD ", \"schedule_offset\": 7", ONE(BITS("8", "5"))),
        &job);

    assert_int_equal(keys->quantize, DSF_SYMMETRIC);
    assert_int_equal(keys->bits, 5);
    assert_int_equal(keys->start_bits, -1);
    assert_int_equal(keys->quantize_from, 7);
    assert_int_equal(keys->group, 64);
    assert_string_equal(keys->prune, "none");
    assert_false(keys->embedding);
    assert_line("bits = 5                     # " WQ "different_groups.a."
                "params.target_bits, line 3\n");
    assert_line("#group = 64                  # " WQ "shared_parameters."
                "quantize_groups: DeepSpeed's default is 1 scale of a matrix: "
                "here they are of so many inputs\n");
    dsf_job_fini(&job);
}

static void in_moq_bits_fall(void **state)
{
    struct dsf_job job;
    const struct dsf_weights_keys *keys = make_weights(
        QUANTIZED(FP16,
                  "\"quantization_type\": \"asymmetric\", "
                  "\"quantize_groups\": 8",
                  "\"a\": {\"params\": {\"start_bits\": 12, \"target_bits\": "
                  "3, \"quantization_period\": 50}, " ALL "}"),
        &job);

    assert_int_equal(keys->quantize, DSF_ASYMMETRIC);
    assert_int_equal(keys->bits, 3);
    assert_int_equal(keys->start_bits, 12);
    assert_int_equal(keys->period, 50);
    assert_int_equal(keys->quantize_from, 0);
    assert_line("quantize_groups, line 2, says 8 scales of a matrix: ");
    dsf_job_fini(&job);
    keys = make_weights(QUANTIZED(FP16, FORWARD, ONE(BITS("4", "4"))), &job);
    assert_int_equal(keys->start_bits, -1);
    dsf_job_fini(&job);
}

static void few_bits_are_ternary_and_binary(void **state)
{
    struct dsf_job job;

    assert_int_equal(
        make_weights(QUANTIZED("", FORWARD, ONE(BITS("8", "2"))), &job)
            ->quantize,
        DSF_TERNARY);
    dsf_job_fini(&job);
    assert_int_equal(make_weights(QUANTIZED(FP16, "\"rounding\": \"nearest\"",
                                            ONE(BITS("1", "1"))),
                                  &job)
                         ->quantize,
                     DSF_BINARY);
    dsf_job_fini(&job);
    assert_refused(QUANTIZED(FP16, "\"x\": null", ONE(BITS("8", "2"))),
                   RANKS(1),
                   "ds.json:3: " WQ "different_groups.a.params.start_bits: 8: "
                   "expected target_bits, as 2 and 1 bits are from the "
                   "beginning, 2");
    assert_refused(QUANTIZED("",
                             FORWARD ", \"quantization_type\": \"asymmetric\"",
                             ONE(BITS("2", "2"))),
                   RANKS(1),
                   "ds.json:2: " WQ "shared_parameters.quantization_type: "
                   "asymmetric: of 2 and 1 bits DeepSpeed refuses it, too: "
                   "expected symmetric");
}

static void bits_that_there_are_not_are_refused(void **state)
{
    assert_refused(QUANTIZED("", FORWARD, ONE(BITS("16", "12"))), RANKS(1),
                   "ds.json:3: " WQ
                   "different_groups.a.params.target_bits: 12: "
                   "expected a whole number, 2 to 8, as weights.bits");
    assert_refused(QUANTIZED("", FORWARD, ONE(BITS("8", "0"))), RANKS(1),
                   "ds.json:3: " WQ "different_groups.a.params.target_bits: 0: "
                   "expected 1 to 8");
    assert_refused(QUANTIZED(FP16, "\"x\": null", ONE(BITS("3", "4"))),
                   RANKS(1),
                   "ds.json:3: " WQ "different_groups.a.params.start_bits: 3: "
                   "expected target_bits or more, 4");
}

static void what_differs_of_quantization_is_refused(void **state)
{
    assert_refused(
        QUANTIZED(FP16, "\"rounding\": \"stochastic\"", ONE(BITS("8", "8"))),
        RANKS(1),
        "ds.json:2: " WQ "shared_parameters.rounding: "
        "\"stochastic\": codes are rounded to the nearest: expected "
        "\"nearest\"; --drop " WQ "shared_parameters.rounding goes "
        "on without it");
    assert_refused(
        QUANTIZED(FP16, "\"quantizer_kernel\": true", ONE(BITS("8", "8"))),
        RANKS(1),
        "ds.json:2: " WQ "shared_parameters.quantizer_kernel: true: "
        "that kernel rounds by chance, dsflow to the nearest: "
        "expected false");
    assert_refused(QUANTIZED("\"bf16\": {\"enabled\": true}, ",
                             "\"quantize_weight_in_forward\": false",
                             ONE(BITS("8", "8"))),
                   RANKS(1),
                   "ds.json:2: " WQ "shared_parameters.quantize_weight_in_"
                   "forward: false: DeepSpeed has it with fp16.enabled alone: "
                   "expected true");
    assert_refused(
        QUANTIZED(FP16, "\"quantize_groups\": 0", ONE(BITS("8", "8"))),
        RANKS(1),
        "ds.json:2: " WQ "shared_parameters.quantize_groups: 0: "
        "expected 1 or more");
}

/* --- modules -------------------------------------------------------------- */

#define B8 BITS("8", "8")
static void modules_are_all_matrices(void **state)
{
    static const struct {
        const char *modules;
        bool taken, embedding;
    } table[] = {
        { "[\"*\"]", true, true },
        { "[\"attn\", \"mlp\"]", true, false },
        { "[\"transformer\\\\.h\"]", true, false },
        { "[\"self_attn\", \"mlp\"]", true, false },
        { "[\"_proj\"]", true, false },
        { "[\"self_attention\", \"mlp\"]", true, false },
        { "[\"layers\", \"embed_tokens\", \"lm_head\"]", true, true },
        { "[\"model.layers\", \"lm_head\"]", false, false },
        { "[\"attn\"]", false, false },
        { "[\"h.0\", \"h.1\"]", false, false },
        { "[]", false, false },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char *json = dsf_xasprintf(QUANTIZED("", FORWARD,
                                             "\"a\": {" B8 ", \"modules\": "
                                             "%s}"),
                                   table[i].modules);
        struct dsf_job job;

        if (table[i].taken) {
            assert_int_equal(make_weights(json, &job)->embedding,
                             table[i].embedding);
            dsf_job_fini(&job);
        } else {
            assert_refused(json, RANKS(1),
                           "ds.json:3: " WQ "different_groups: [weights] is of "
                           "all matrices of blocks, and of embeddings and the "
                           "head together or not: expected modules that are "
                           "these, as [\"*\"]");
        }
        free(json);
    }
}

static void groups_of_one_kind_are_one(void **state)
{
    struct dsf_job job;

    make_weights(QUANTIZED("", FORWARD,
                           "\"a\": {" B8 ", \"modules\": [\"attn\"]}, "
                           "\"b\": {" B8 ", \"modules\": [\"mlp\"]}"),
                 &job);
    dsf_job_fini(&job);
    assert_refused(QUANTIZED("", FORWARD,
                             "\"a\": {" B8 ", \"modules\": [\"attn\"]},\n"
                             "\"b\": {" BITS("8", "4") ", \"modules\": "
                                                       "[\"mlp\"]}"),
                   RANKS(1),
                   "ds.json:4: " WQ "different_groups.b.params.target_bits: 4: "
                   "all matrices have the same: expected 8, as " WQ
                   "different_groups.a has it");
}

static void what_no_group_has_is_refused(void **state)
{
    assert_refused(
        QUANTIZED("", FORWARD, "\"a\": {" B8 ", \"module\": [\"*\"]}"),
        RANKS(1),
        "ds.json:3: " WQ "different_groups.a.module: is no key of "
        "DeepSpeed's there; --drop " WQ "different_groups.a.module "
        "goes on without it");
    assert_refused(
        QUANTIZED("", FORWARD, "\"a\": {" B8 ", \"modules\": [\"h.[0-9]\"]}"),
        RANKS(1),
        "ds.json:3: " WQ "different_groups.a.modules: h.[0-9]: "
        "expected words that names of modules have, or \"*\"");
    assert_refused(
        QUANTIZED("", FORWARD, "\"a\": {" B8 ", \"modules\": \"mlp\"}"),
        RANKS(1),
        "ds.json:3: " WQ "different_groups.a.modules: expected a "
        "list, as [\"*\"]");
    assert_refused(QUANTIZED("", FORWARD, "\"a.b\": {" B8 "}"), RANKS(1),
                   "ds.json:3: " WQ "different_groups.a.b: expected a name "
                   "without a dot");
    assert_refused(
        QUANTIZED("", FORWARD, "\"a\": {\"x.y\": 1, " B8 ", " ALL "}"),
        RANKS(1),
        "ds.json:3: " WQ "different_groups.a.x.y: expected a name "
        "without a dot");
    assert_refused(QUANTIZED("", FORWARD, "\"a\": 3"), RANKS(1),
                   "ds.json:3: " WQ "different_groups.a: expected an object, "
                   "{…}");
}

/* A name of several lines makes no line of the job. */
static void names_of_groups_stay_in_comments(void **state)
{
    struct dsf_job job;

    make_weights(
        QUANTIZED("", FORWARD, "\"a\\n[job]\\nsteps = 3\": {" B8 ", " ALL "}"),
        &job);
    assert_line("different_groups.a?[job]?steps = 3.params.target_bits");
    dsf_job_fini(&job);
}

/* --- pruned --------------------------------------------------------------- */

static void a_ratio_becomes_so_many_of_so_many(void **state)
{
    static const struct {
        const char *ratio, *prune;
    } table[] = {
        { "0.5", "2:4" },   { "0.25", "1:4" },    { "0.75", "3:4" },
        { "0.125", "1:8" }, { "0.0625", "1:16" }, { "0.6875", "11:16" },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char *json = dsf_xasprintf(PRUNED("", RATIO("%s")), table[i].ratio);
        struct dsf_job job;
        const struct dsf_weights_keys *keys = make_weights(json, &job);

        assert_string_equal(keys->prune, table[i].prune);
        assert_int_equal(keys->prune_from, 1000);
        assert_int_equal(keys->quantize, DSF_UNQUANTIZED);
        assert_line("dense_ratio, line 3: here of each ");
        dsf_job_fini(&job);
        free(json);
    }
}

static void what_differs_of_pruning_is_refused(void **state)
{
    assert_refused(PRUNED("", RATIO("0.1")), RANKS(1),
                   "ds.json:3: " SP "different_groups.a.params.dense_ratio: "
                   "0.1: of each 16 weights a whole number stays: expected a "
                   "multiple of 0.0625, less than 1");
    assert_refused(PRUNED(", \"method\": \"topk\"", RATIO("0.5")), RANKS(1),
                   "ds.json:2: " SP "shared_parameters.method: topk: dsflow "
                   "learns no scores of weights: expected l1");
    assert_refused(PRUNED(", \"method\": \"snip_momentum\"", ""), RANKS(1),
                   "ds.json:2: " SP "shared_parameters.method: snip_momentum: "
                   "dsflow prunes by size, not by gradients: expected l1");
}

static void both_are_of_the_same_modules(void **state)
{
    static const char format[] =
        "{" BATCH "\"compression_training\": {\"weight_quantization\": "
        "{\"shared_parameters\": {" ON FORWARD
        "}, \"different_groups\": {" ONE(BITS(
            "8",
            "8")) "}}, \"sparse_pruning\": {\"shared_parameters\": {" ON
                  "\"schedule_offset\": 20},\n\"different_groups\": {\"a\": "
                  "{\"params\": {\"dense_ratio\": 0.5}, \"modules\": [%s]}}}}}";
    char *same = dsf_xasprintf(format, "\"attn\", \"mlp\"");
    char *other = dsf_xasprintf(format, "\"*\"");
    struct dsf_job job;
    const struct dsf_weights_keys *keys = make_weights(same, &job);

    assert_int_equal(keys->quantize, DSF_SYMMETRIC);
    assert_string_equal(keys->prune, "2:4");
    assert_int_equal(keys->prune_from, 20);
    dsf_job_fini(&job);
    assert_refused(other, RANKS(1),
                   "ds.json:2: " SP "different_groups: weights.embedding is of "
                   "both: expected the modules of weight_quantization");
    free(same);
    free(other);
}

/* --- the others ----------------------------------------------------------- */

static void what_is_not_enabled_asks_for_nothing(void **state)
{
    static const char *const names[] = {
        "weight_quantization", "activation_quantization",
        "sparse_pruning",      "row_pruning",
        "head_pruning",        "channel_pruning",
    };
    /* Nor do keys of it that would be refused. */
    static const char *const off[] = {
        "\"enabled\": false, \"rounding\": \"stochastic\"",
        "\"enabled\": false, \"fp16_mixed_quantize\": {\"enabled\": true}",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char *json = dsf_xasprintf(
            SECTION("", "%s", "\"enabled\": false", RATIO("0.1")), names[i]);
        struct dsf_job job;

        assert_string_equal(make_weights(json, &job)->prune, "none");
        assert_null(strstr(did.text, "[weights]"));
        dsf_job_fini(&job);
        free(json);
    }
    for (size_t i = 0; i < sizeof(off) / sizeof(*off); i++) {
        char *json =
            dsf_xasprintf(SECTION("", "weight_quantization", "%s", ""), off[i]);
        struct dsf_job job;

        assert_int_equal(make_weights(json, &job)->quantize, DSF_UNQUANTIZED);
        dsf_job_fini(&job);
        free(json);
    }
    assert_refused(
        SECTION("", "weight_quantization", "\"enabled\": false, \"roundin\": 1",
                ""),
        RANKS(1),
        "ds.json:2: compression_training.weight_quantization."
        "shared_parameters.roundin: is no key of DeepSpeed's: expected "
        "compression_training.weight_quantization.shared_parameters.rounding; "
        "--drop compression_training.weight_quantization.shared_parameters."
        "roundin goes on without it");
}

static void others_are_refused_by_name(void **state)
{
    assert_refused(
        SECTION("", "row_pruning", "\"enabled\": true", RATIO("0.5")), RANKS(1),
        "ds.json:2: compression_training.row_pruning."
        "shared_parameters.enabled: true: rows of the MLP go when a "
        "model is exported (dsflow checkpoint export --ffn-width), not "
        "while it trains: expected false; --drop "
        "compression_training.row_pruning.shared_parameters.enabled "
        "goes on without it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_forward_pass_bits_are_the_last_at_once),
        cmocka_unit_test(in_moq_bits_fall),
        cmocka_unit_test(few_bits_are_ternary_and_binary),
        cmocka_unit_test(bits_that_there_are_not_are_refused),
        cmocka_unit_test(what_differs_of_quantization_is_refused),
        cmocka_unit_test(modules_are_all_matrices),
        cmocka_unit_test(groups_of_one_kind_are_one),
        cmocka_unit_test(what_no_group_has_is_refused),
        cmocka_unit_test(names_of_groups_stay_in_comments),
        cmocka_unit_test(a_ratio_becomes_so_many_of_so_many),
        cmocka_unit_test(what_differs_of_pruning_is_refused),
        cmocka_unit_test(both_are_of_the_same_modules),
        cmocka_unit_test(what_is_not_enabled_asks_for_nothing),
        cmocka_unit_test(others_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, into_folder, out_of_folder);
}
