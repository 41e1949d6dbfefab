/* test_when.c - conditions over the keys of a job. */
#include "config/when.h"

#include "config/option.h"
#include "lib/job.h"
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static const char text[] = "[job]\nsteps = 5\n[data]\ntrain = \"x\"\n";

/* A job with overrides, separated by spaces. */
static void read_it(struct dsf_job *job, const char *sets)
{
    char words[400], *save, *word;
    struct dsflow_err err;

    if (dsf_job_parse(text, strlen(text), "t", NULL, 0, NULL, job, &err) < 0)
        fail_msg("%s", err.msg);
    snprintf(words, sizeof(words), "%s", sets);
    for (word = strtok_r(words, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save))
        if (job_set(job, word, &err) < 0)
            fail_msg("%s", err.msg);
}

static enum dsf_truth truth(const char *sets, const char *when,
                            dsf_foreign_fn foreign, struct dsf_when_text *why)
{
    enum dsf_truth is;
    struct dsf_job job;

    read_it(&job, sets);
    is = dsf_when(&job, when, foreign, why);
    dsf_job_fini(&job);
    return is;
}

/* Of each key that has a condition: a job in which it has an effect, and one in
 * which it has none. */
static const struct {
    const char *key, *used, *idle;
} keys[] = {
    { "job.seed", "", "model.init=m data.shuffle=false" },
    { "job.seed", "model.init=m data.shuffle=false precision.states=int8",
      "model.init=m data.shuffle=false" },
    { "model.window_layers", "model.window=8", "" },
    { "model.window_layers", "model.window=8", "model.window=0" },
    { "sparse_attention.block", "sparse_attention.mode=fixed", "" },
    { "sparse_attention.different_layout_per_head",
      "sparse_attention.mode=bigbird",
      "sparse_attention.mode=local_sliding_window" },
    { "sparse_attention.num_local_blocks", "sparse_attention.mode=fixed",
      "sparse_attention.mode=variable" },
    { "sparse_attention.num_global_blocks", "sparse_attention.mode=bigbird",
      "sparse_attention.mode=variable" },
    { "sparse_attention.num_different_global_patterns",
      "sparse_attention.mode=fixed", "sparse_attention.mode=bigbird" },
    { "sparse_attention.horizontal_global_attention",
      "sparse_attention.mode=variable", "sparse_attention.mode=bigbird" },
    { "sparse_attention.num_random_blocks", "sparse_attention.mode=bigbird",
      "sparse_attention.mode=fixed" },
    { "sparse_attention.local_window_blocks", "sparse_attention.mode=variable",
      "sparse_attention.mode=fixed" },
    { "sparse_attention.global_block_indices",
      "sparse_attention.mode=bslongformer", "sparse_attention.mode=bigbird" },
    { "sparse_attention.global_block_end_indices",
      "sparse_attention.mode=variable", "sparse_attention.mode=fixed" },
    { "sparse_attention.num_sliding_window_blocks",
      "sparse_attention.mode=local_sliding_window",
      "sparse_attention.mode=fixed" },
    { "sparse_attention.attention", "sparse_attention.mode=fixed", "" },
    { "sparse_attention.layers", "sparse_attention.mode=fixed", "" },
    { "sparse_attention.seed", "sparse_attention.mode=variable",
      "sparse_attention.mode=fixed" },
    { "model.rope_theta", "model.family=llama", "" },
    { "model.qkv_bias", "model.family=llama", "" },
    { "model.rope_scaling", "model.family=llama", "" },
    { "model.rope_factor", "model.family=llama model.rope_scaling=llama3",
      "model.family=llama" },
    { "model.rope_low_freq_factor",
      "model.family=llama model.rope_scaling=llama3",
      "model.rope_scaling=llama3" },
    { "model.rope_high_freq_factor",
      "model.family=llama model.rope_scaling=llama3", "model.family=llama" },
    { "model.rope_original_context",
      "model.family=llama model.rope_scaling=llama3", "model.family=llama" },
    { "data.validation", "", "data.validation_files=[\"v\"]" },
    { "batch.in_flight", "", "batch.order=layer_major" },
    { "optimizer.betas", "", "optimizer.kind=sgd" },
    { "optimizer.eps", "optimizer.kind=adam", "optimizer.kind=lion" },
    { "optimizer.momentum", "optimizer.kind=sgd", "" },
    { "optimizer.nesterov", "optimizer.kind=sgd optimizer.momentum=0.5",
      "optimizer.kind=sgd" },
    { "optimizer.bias_correction", "optimizer.kind=adam",
      "optimizer.kind=sgd" },
    { "muon.momentum", "optimizer.kind=muon", "" },
    { "muon.nesterov", "optimizer.kind=muon", "" },
    { "muon.steps", "optimizer.kind=muon", "" },
    { "muon.scale", "optimizer.kind=muon", "" },
    { "muon.adam_lr", "optimizer.kind=muon", "optimizer.kind=lamb" },
    { "lamb.max_coeff", "optimizer.kind=lamb", "" },
    { "lamb.min_coeff", "optimizer.kind=lamb", "optimizer.kind=adam" },
    { "schedule.warmup", "schedule.kind=warmup", "schedule.kind=one_cycle" },
    { "schedule.warmup_shape", "schedule.kind=warmup schedule.warmup=2",
      "schedule.kind=warmup" },
    { "schedule.warmup_ratio", "schedule.kind=warmup_linear schedule.warmup=2",
      "schedule.warmup=2" },
    { "schedule.min_ratio", "schedule.kind=warmup_linear",
      "schedule.kind=warmup" },
    { "schedule.total", "schedule.kind=warmup_linear", "schedule.kind=warmup" },
    { "schedule.half_cycle", "schedule.kind=one_cycle", "" },
    { "schedule.second_half_cycle", "schedule.kind=one_cycle", "" },
    { "schedule.decay_steps", "schedule.kind=one_cycle schedule.decay_rate=0.1",
      "schedule.kind=one_cycle" },
    { "schedule.cycle_min_ratio", "schedule.kind=one_cycle", "" },
    { "schedule.decay_rate", "schedule.kind=one_cycle schedule.decay_steps=1",
      "schedule.kind=one_cycle" },
    { "schedule.range_steps", "schedule.kind=range_test", "" },
    { "schedule.range_rate", "schedule.kind=range_test", "" },
    { "schedule.staircase", "schedule.kind=range_test",
      "schedule.kind=one_cycle" },
    { "validation.every", "", "data.validation=0" },
    { "validation.every", "data.validation=0 data.validation_files=[\"v\"]",
      "data.validation=0" },
    { "validation.sequences", "", "data.validation=0" },
    { "checkpoint.keep", "", "checkpoint.at_end=false" },
    { "checkpoint.keep", "checkpoint.at_end=false checkpoint.every=1",
      "checkpoint.at_end=false" },
    { "checkpoint.keep", "checkpoint.at_end=false checkpoint.every=5min",
      "checkpoint.at_end=false" },
    { "sample.prompt", "sample.tokens=1", "" },
    { "sample.temperature", "sample.tokens=1", "" },
    { "sample.top_p", "sample.tokens=1", "" },
    { "sample.top_k", "sample.tokens=1",
      "sample.tokens=1 sample.temperature=0" },
    { "sample.seed", "sample.tokens=1", "" },
    { "zero.stage", "mesh.sequence=2", "" },
    { "zero.prefetch", "mesh.data=2 zero.stage=3", "mesh.data=2 zero.stage=2" },
    { "zero.keep", "mesh.data=2 zero.stage=3", "zero.stage=3" },
    { "weights.bits", "weights.quantize=symmetric",
      "weights.quantize=ternary" },
    { "weights.start_bits", "weights.quantize=asymmetric", "" },
    { "weights.period", "weights.quantize=symmetric weights.start_bits=8",
      "weights.quantize=symmetric" },
    { "weights.group", "weights.quantize=binary", "weights.prune=2:4" },
    { "weights.quantize_from", "weights.quantize=binary", "" },
    { "weights.prune_from", "weights.prune=2:4", "weights.quantize=binary" },
    { "weights.embedding", "weights.prune=1:2", "" },
    { "activations.bits", "activations.quantize=symmetric", "" },
    { "activations.group", "activations.quantize=asymmetric", "" },
    { "activations.quantize_from", "activations.quantize=symmetric", "" },
    { "compress.block", "compress.gradients=int8", "" },
    { "compress.keep", "compress.params=bf16", "" },
    { "compress.error", "compress.gradients=int4", "compress.params=int8" },
    { "compress.error_beta", "compress.gradients=int4 compress.error=fp32",
      "compress.gradients=int4" },
    { "compress.error_reset", "compress.gradients=int4 compress.error=int8",
      "compress.gradients=int4" },
    { "compress.two_level", "compress.gradients=int8", "" },
    { "compress.node", "compress.gradients=int8",
      "compress.gradients=int8 compress.two_level=false" },
    { "compress.secondary", "mesh.data=2 zero.stage=3", "zero.stage=3" },
    { "compress.keep", "optimizer.kind=onebit_adam", "" },
    { "onebit_adam.freeze_step", "optimizer.kind=onebit_adam", "" },
    { "onebit_adam.errors", "optimizer.kind=onebit_adam", "" },
    { "compress.keep", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.freeze_step", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.errors", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.coeff_beta", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.max_coeff", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.min_coeff", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.factor_max", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.factor_min", "optimizer.kind=onebit_lamb", "" },
    { "onebit_lamb.factor_threshold", "optimizer.kind=onebit_lamb", "" },
    { "compress.keep", "optimizer.kind=zeroone_adam", "" },
    { "zeroone_adam.var_freeze_step", "optimizer.kind=zeroone_adam", "" },
    { "zeroone_adam.var_update_scaler", "optimizer.kind=zeroone_adam", "" },
    { "zeroone_adam.local_step_scaler", "optimizer.kind=zeroone_adam", "" },
    { "zeroone_adam.local_step_clipper", "optimizer.kind=zeroone_adam", "" },
    { "zeroone_adam.errors", "optimizer.kind=zeroone_adam", "" },
    { "compress.embedding", "mesh.data=2 model.tied=false",
      "mesh.data=2 model.tied=true" },
    { "compress.embedding", "compress.gradients=int4 model.tied=false",
      "compress.gradients=int4 model.tied=true" },
    { "pipeline.schedule", "mesh.pipeline=2", "" },
    { "pipeline.chunks", "mesh.pipeline=2 pipeline.schedule=interleaved",
      "mesh.pipeline=2" },
    { "pipeline.split", "mesh.pipeline=2", "" },
    { "pipeline.strict", "mesh.pipeline=2",
      "mesh.pipeline=2 pipeline.schedule=zero_bubble" },
    { "recompute.layers", "recompute.what=block", "" },
    { "offload.share", "offload.optimizer=nvme", "offload.params=nvme" },
    { "offload.read_ahead", "offload.activations=cpu", "" },
    { "offload.write_behind", "offload.gradients=cpu", "" },
    { "offload.piece", "offload.optimizer=cpu", "offload.params=cpu" },
    { "precision.master", "precision.compute=bf16", "" },
    { "offload.piece", "precision.states=int8", "precision.states=fp32" },
    { "mesh.transport", "mesh.tensor=2", "" },
    { "mesh.sequence_kind", "mesh.sequence=2", "batch.sequence_groups=2" },
    { "mesh.key_slots", "batch.sequence_groups=2", "" },
    { "memory.host", "", "memory.device=1GiB" },
    { "precision.head", "precision.compute=bf16", "" },
    { "precision.tf32", "", "precision.compute=bf16" },
    { "precision.gradients", "precision.compute=fp16", "" },
    { "precision.loss_scale", "precision.compute=fp16",
      "precision.compute=bf16" },
    { "precision.initial_scale", "precision.compute=fp16",
      "precision.compute=fp16 precision.loss_scale=8" },
    { "precision.scale_window", "precision.compute=fp16", "" },
    { "precision.hysteresis", "precision.compute=fp16", "" },
    { "precision.consecutive_hysteresis", "precision.compute=fp16",
      "precision.compute=fp16 precision.hysteresis=1" },
    { "precision.min_scale", "precision.compute=fp16",
      "precision.compute=fp16 precision.loss_scale=8" },
    { "memory.nvme.path", "offload.optimizer=nvme", "offload.optimizer=cpu" },
    { "memory.nvme.size", "offload.params=nvme", "" },
    { "memory.nvme.block", "offload.gradients=nvme", "" },
    { "memory.nvme.depth", "offload.activations=nvme", "" },
    { "memory.nvme.verify", "offload.params=nvme", "" },
    { "machine.virtual_memory", "machine.virtual=1", "" },
    { "machine.virtual_link", "machine.virtual=1", "" },
};
enum { NKEYS = sizeof(keys) / sizeof(*keys) };

static bool is_listed(const char *table, const char *key)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.%s", table, key);
    for (unsigned i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].key, name) == 0)
            return true;
    return false;
}

static const struct dsflow_option *find(const char *name)
{
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++) {
        size_t n = strlen(t->name);

        if (strncmp(name, t->name, n) == 0 && name[n] == '.' &&
            strchr(name + n + 1, '.') == NULL)
            return dsf_option_find(t->options, name + n + 1);
    }
    return NULL;
}

static void every_condition_of_the_tables_holds_here_and_not_there(void **state)
{
    struct dsf_when_text why;
    const struct dsf_table *t;

    for (unsigned i = 0; i < NKEYS; i++) {
        const struct dsflow_option *o = find(keys[i].key);

        assert_non_null(o);
        if (o->used_with == NULL)
            fail_msg("%s has no condition", keys[i].key);
        if (truth(keys[i].used, o->used_with, NULL, &why) != DSF_YES)
            fail_msg("%s with %s: %s", keys[i].key, keys[i].used, why.s);
        if (truth(keys[i].idle, o->used_with, NULL, &why) != DSF_NO ||
            why.s[0] == '\0')
            fail_msg("%s is used with %s", keys[i].key, keys[i].idle);
    }
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            if (o->used_with != NULL && !is_listed(t->name, o->key))
                fail_msg("%s.%s: no case above", t->name, o->key);
}

static void the_tables_pass_the_check_of_those_from_outside(void **state)
{
    const struct dsf_table *t;
    struct dsflow_err err;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (dsf_options_check(t->name, t->options, sizeof(struct dsf_job),
                              &err) < 0)
            fail_msg("[%s] %s", t->name, err.msg);
}

static void what_does_not_hold_is_said(void **state)
{
    struct dsf_when_text why;

    assert_int_equal(
        truth("", "schedule.kind = warmup|warmup_cosine", NULL, &why), DSF_NO);
    assert_string_equal(why.s, "schedule.kind is \"constant\" (needs warmup or "
                               "warmup_cosine)");
    truth("", "zero.stage = 3 and mesh.data > 1", NULL, &why);
    assert_string_equal(why.s, "zero.stage is 0 (needs 3) and mesh.data is 1 "
                               "(needs more than 1)");
    truth("zero.stage=auto", "zero.stage >= 2 or offload.params != none", NULL,
          &why);
    assert_string_equal(why.s, "zero.stage is \"auto\" (needs 2 or more) and "
                               "offload.params is \"none\"");
}

static void and_binds_more_than_or(void **state)
{
    static const char when[] = "zero.stage = 1 or zero.stage = 2 and "
                               "mesh.data = 2";
    struct dsf_when_text why;

    assert_int_equal(truth("zero.stage=1", when, NULL, &why), DSF_YES);
    assert_int_equal(truth("zero.stage=2", when, NULL, &why), DSF_NO);
    assert_int_equal(truth("zero.stage=2 mesh.data=2", when, NULL, &why),
                     DSF_YES);
    assert_int_equal(truth("mesh.data=2", when, NULL, &why), DSF_NO);
    assert_string_equal(dsf_when_words("a.b = c|d or e.f > 1").s,
                        "a.b = c or d or e.f > 1");
}

/* As if a plug-in had brought it. */
static bool is_lion(const char *table, const char *key, const char *value)
{
    return strcmp(value, "lion") == 0;
}

static void of_a_name_from_outside_nothing_is_said(void **state)
{
    static const char when[] =
        "optimizer.kind = sgd and optimizer.momentum > 0";
    struct dsf_when_text why;

    assert_int_equal(truth("optimizer.kind=lion optimizer.momentum=0.5", when,
                           is_lion, &why),
                     DSF_MAYBE);
    assert_int_equal(truth("optimizer.kind=lion", when, is_lion, &why), DSF_NO);
    assert_int_equal(truth("optimizer.kind=adam optimizer.momentum=0.5", when,
                           is_lion, &why),
                     DSF_NO);
}

struct part {
    int64_t a;
    double b;
};

static void check(const char *when, const char *message)
{
    struct dsflow_option options[] = {
        DSFLOW_OPTION_INT(struct part, a, "1", 0, 9, "a number"),
        DSFLOW_OPTION_FLOAT(struct part, b, "0.5", 0, 9, "another", when),
        { 0 },
    };
    struct dsflow_err err = { .msg = "" };
    int status = dsf_options_check("mine", options, sizeof(struct part), &err);

    assert_int_equal(status, message[0] == '\0' ? DSFLOW_OK : DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void a_condition_that_is_wrong_is_refused(void **state)
{
    check("mine.a > 3 and zero.stage = 1|2", "");
    check("memory.nvme.path != []", "");
    check("mine.c = 1", "b: used_with: mine.c: unknown key");
    check("zero.stages = 1", "b: used_with: zero.stages: unknown key");
    check("yours.a = 1", "b: used_with: yours.a: unknown key");
    check("a = 1", "b: used_with: a: unknown key");
    check("mine.a == 1", "b: used_with: ==: expected =, !=, <, <=, > or >=");
    check("batch.order = sideways",
          "b: used_with: batch.order = sideways: not a value that this key can "
          "be compared with");
    check("batch.order > auto",
          "b: used_with: batch.order > auto: not a value that this key can be "
          "compared with");
    check("mine.a = one", "b: used_with: mine.a = one: not a value that this "
                          "key can be compared with");
    check("mine.a =", "b: used_with: \"mine.a =\": expected conditions such as "
                      "\"zero.stage = 3\", joined by and, or");
    check("mine.a = 1 mine.b = 2",
          "b: used_with: \"mine.a = 1 mine.b = 2\": expected conditions such "
          "as \"zero.stage = 3\", joined by and, or");
    check("", "b: used_with: \"\": expected conditions such as \"zero.stage = "
              "3\", joined by and, or");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            every_condition_of_the_tables_holds_here_and_not_there),
        cmocka_unit_test(the_tables_pass_the_check_of_those_from_outside),
        cmocka_unit_test(what_does_not_hold_is_said),
        cmocka_unit_test(and_binds_more_than_or),
        cmocka_unit_test(of_a_name_from_outside_nothing_is_said),
        cmocka_unit_test(a_condition_that_is_wrong_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
