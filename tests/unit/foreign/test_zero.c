/* test_zero.c - checkpoint folders of DeepSpeed: what
 * tests/reference/deepspeed/make.py wrote is read number by number. */
#include "foreign/pipeline.h"
#include "foreign/zero.h"

#include "base/alloc.h"
#include "torch/torch_write.h"
#include "unit/foreign/known.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int unpack(void **state)
{
    return unpack_known(state, "deepspeed");
}

static void open_source(const char *name, bool weights_only,
                        struct dsf_source *s)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsflow_err err = { .msg = "" };

    if (dsf_zero_open(path, NULL, weights_only, s, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    free(path);
}

/* The name that a tensor has in the pipeline of the script: layers from 1 on,
 * the norm is layer 3. */
static char *name_in_pipeline(const char *name)
{
    const char *rest = strrchr(name, '.') + 1;

    if (strncmp(name, "transformer.h.", 14) == 0)
        return dsf_xasprintf("%c.block.%s", name[14] + 1, name + 16);
    if (strncmp(name, "transformer.ln_f.", 17) == 0)
        return dsf_xasprintf("3.%s", rest);
    return dsf_xasprintf("tied_modules.embed.%s", name + 12);
}

static void check_state(struct dsf_source *s, const struct dsf_source_tensor *t,
                        enum dsf_source_state state)
{
    char *name = strstr(s->what, "stages") != NULL ? name_in_pipeline(t->name)
                                                   : dsf_xstrdup(t->name);

    check_known(s, t, state, name);
    free(name);
}

/* Tensors with numbers of their own, and those that were not trained. */
static void check_all(struct dsf_source *s, unsigned tensors, unsigned frozen,
                      unsigned states)
{
    unsigned n = 0, nfrozen = 0;

    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_source_tensor *t = &s->tensors[i];
        unsigned has = t->frozen ? 1 : states;

        if (t->again)
            continue;
        n++;
        nfrozen += t->frozen;
        assert_int_equal(t->has, (1u << has) - 1);
        for (unsigned k = 0; k < has; k++)
            check_state(s, t, (enum dsf_source_state)k);
    }
    assert_int_equal(n, tensors);
    assert_int_equal(nfrozen, frozen);
}

enum { GPT2 = 28, LLAMA = 21, QWEN2 = 27 }; /* tensors of two layers */

static const struct {
    const char *name;
    unsigned tensors, frozen;
    const char *what;
    int64_t updates;
} folders[] = {
    { "gpt2_plain", GPT2, 0, "DeepSpeed without ZeRO", 3 },
    { "gpt2_plain_bf16", GPT2, 0, "DeepSpeed without ZeRO", 4 },
    { "gpt2_plain_fp16", GPT2, 0, "DeepSpeed without ZeRO", 4 },
    { "gpt2_zero1_bf16", GPT2, 0, "DeepSpeed, ZeRO 1, 2 ranks", 3 },
    { "gpt2_bf16_optimizer", GPT2, 0, "DeepSpeed, ZeRO 1, 2 ranks", 3 },
    { "gpt2_zero2", GPT2, 0, "DeepSpeed, ZeRO 2, 3 ranks", 3 },
    { "gpt2_zero2_frozen", GPT2, 1, "DeepSpeed, ZeRO 2, 2 ranks", 3 },
    { "gpt2_zero3_frozen", GPT2, 1, "DeepSpeed, ZeRO 3, 3 ranks", 3 },
    { "llama_elastic", LLAMA, 0, "DeepSpeed, ZeRO 1, 2 ranks", 3 },
    { "llama_zero3", LLAMA, 0, "DeepSpeed, ZeRO 3, 2 ranks", 3 },
    { "qwen2_zero2_robin", QWEN2, 0, "DeepSpeed, ZeRO 2, 3 ranks", 3 },
    { "gpt2_pipe_plain", GPT2, 0, "DeepSpeed without ZeRO, 2 stages", 3 },
    { "gpt2_pipe_zero1", GPT2, 0, "DeepSpeed, ZeRO 1, 2 ranks, 2 stages", 3 },
    { "llama_tensor2_zero1", LLAMA, 0,
      "DeepSpeed, ZeRO 1, 2 ranks, 2 tensor ranks", 3 },
    { "llama_tensor2_zero3", LLAMA, 0,
      "DeepSpeed, ZeRO 3, 2 ranks, 2 tensor ranks", 3 },
    { "qwen2_tensor2_bf16", QWEN2, 0,
      "DeepSpeed, ZeRO 1, 1 rank, 2 tensor ranks", 3 },
    { "gpt2_universal", GPT2, 0, "DeepSpeed, universal", 3 },
    { "llama_universal", LLAMA, 0, "DeepSpeed, universal", -1 },
};

static void every_layout_is_read_number_by_number(void **state)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        struct dsf_source s;

        open_source(folders[i].name, false, &s);
        assert_string_equal(s.what, folders[i].what);
        check_all(&s, folders[i].tensors, folders[i].frozen, 3);
        assert_int_equal(s.steps, 3);
        assert_int_equal(s.skipped,
                         strcmp(folders[i].name, "gpt2_zero2_frozen") == 0);
        assert_int_equal(s.samples, 36);
        assert_int_equal(s.updates, folders[i].updates);
        assert_string_equal(s.optimizer, "AdamW");
        /* "Elastic" and universal ones do not say. */
        assert_true(isnan(s.lr) || (s.lr > 0.00099 && s.lr < 0.00101));
        assert_true(isnan(s.lr) || (s.betas[0] == 0.9 && s.betas[1] == 0.95 &&
                                    s.eps == 1e-8 && s.weight_decay == 0.1));
        assert_true(!isnan(s.lr) ||
                    strstr(folders[i].name, "elastic") != NULL ||
                    strstr(folders[i].name, "universal") != NULL);
        dsf_source_fini(&s);
    }
}

static void weights_alone_are_read(void **state)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        struct dsf_source s;

        open_source(folders[i].name, true, &s);
        check_all(&s, folders[i].tensors, folders[i].frozen, 1);
        dsf_source_fini(&s);
    }
}

/* Of matrices of layers Muon's momentum alone; of the rest AdamW's moments. */
static void muons_states_are_read(void **state)
{
    static const char *const names[] = { "llama_muon_plain", "llama_muon_zero2",
                                         "llama_muon_zero3" };

    for (size_t i = 0; i < 3; i++) {
        struct dsf_source s;

        open_source(names[i], false, &s);
        assert_string_equal(s.optimizer, "Muon");
        assert_int_equal(s.n, LLAMA);
        for (size_t k = 0; k < s.n; k++) {
            const struct dsf_source_tensor *t = &s.tensors[k];
            bool turned = t->ndims == 2 && strstr(t->name, "layers.") != NULL;

            assert_int_equal(t->has, turned ? 3 : 7);
            for (unsigned m = 0; m < (turned ? 2 : 3); m++)
                check_state(&s, t, (enum dsf_source_state)m);
        }
        assert_true(s.lr == 0.02 && s.momentum == 0.95);
        assert_true(s.betas[0] == 0.9 && s.betas[1] == 0.95 && s.eps == 1e-8);
        assert_int_equal(s.updates, 3);
        dsf_source_fini(&s);
    }
}

/* The dynamic loss scale of fp16, and a step that was skipped. */
static void the_loss_scale_is_read(void **state)
{
    struct dsf_source s;

    open_source("gpt2_zero2_frozen", false, &s);
    assert_true(s.scale.is_there);
    assert_true(s.scale.scale == 1024);
    assert_int_equal(s.scale.steps, 7);
    assert_int_equal(s.scale.last_overflow, 2);
    assert_int_equal(s.scale.hysteresis, 1);
    assert_int_equal(s.skipped, 1);
    dsf_source_fini(&s);
    open_source("gpt2_zero2", false, &s);
    assert_false(s.scale.is_there);
    dsf_source_fini(&s);
    open_source("gpt2_plain_fp16", false, &s); /* FP16_Optimizer's own */
    assert_true(s.scale.is_there && s.scale.scale == 1024);
    assert_int_equal(s.scale.last_overflow, -1);
    dsf_source_fini(&s);
}

/* A tied head stands for the numbers of the embedding. */
static void a_tied_head_is_the_embedding(void **state)
{
    struct dsf_source s;
    const struct dsf_source_tensor *t;
    struct dsflow_err err;
    float got;

    open_source("gpt2_zero2", false, &s);
    t = dsf_source_find(&s, "lm_head.weight");
    assert_non_null(t);
    assert_true(t->again);
    assert_int_equal(s.read(&s, t, DSF_SOURCE_SECOND, 9, 1, &got, &err), 0);
    assert_true(got == value("transformer.wte.weight", "exp_avg_sq", 9));
    dsf_source_fini(&s);
}

/* Opening `name` of the test's folder says this. */
static void refused(const char *name, const char *tag, const char *text)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsf_source s;
    struct dsflow_err err = { .msg = "" };

    assert_int_equal(dsf_zero_open(path, tag, false, &s, &err), DSFLOW_EINVAL);
    if (strstr(err.msg, text) == NULL)
        fail_msg("says: %s", err.msg);
    free(path);
}

/* Layers by number have the names of a model; those of Megatron, too. */
static void names_of_layers_become_those_of_a_model(void **state)
{
    static const struct {
        const char *there, *here;
        unsigned ndims;
    } names[] = {
        { "tied_modules.embed.word_embeddings.weight",
          "language_model.embedding.word_embeddings.weight", 2 },
        { "3.self_attention.query_key_value.weight",
          "language_model.encoder.layers.0.self_attention.query_key_value."
          "weight",
          2 },
        { "3.mlp.dense_h_to_4h.bias",
          "language_model.encoder.layers.0.mlp.dense_h_to_4h.bias", 1 },
        { "4.self_attention.query_key_value.weight",
          "language_model.encoder.layers.1.self_attention.query_key_value."
          "weight",
          2 },
        { "6.weight", "language_model.encoder.final_layernorm.weight", 1 },
        { "6.bias", "language_model.encoder.final_layernorm.bias", 1 },
        { "7.weight", "language_model.output_layer.weight", 2 },
        { "7.what", "7.what", 1 },
    };
    enum { N = sizeof(names) / sizeof(*names) };
    struct dsf_source s;

    dsf_source_init(&s, "here");
    for (size_t i = 0; i < N; i++)
        dsf_source_add(&s, names[i].there)->ndims = names[i].ndims;
    dsf_source_add(&s, "8.word_embeddings.weight")->ndims = 2;
    assert_true(dsf_pipeline_is(&s));
    dsf_pipeline_rename(&s);
    assert_int_equal(s.names, DSF_NAMES_MEGATRON);
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(s.tensors[i].name, names[i].here);
        assert_false(s.tensors[i].again);
    }
    assert_true(s.tensors[N].again);
    dsf_source_fini(&s);
}

/* Of a universal checkpoint, a parameter that has lost a moment was trained all
 * the same: whoever wants the moment then does not find it. */
static void a_moment_that_is_lost_is_no_frozen_parameter(void **state)
{
    static const char *const files[] = { "exp_avg.pt", "exp_avg_sq.pt",
                                         "step.pt" };
    const char *name = "transformer.h.1.mlp.c_fc.weight";

    for (unsigned i = 0; i < 3; i++) {
        char *path = dsf_xasprintf("%s/gpt2_universal/global_step3/zero/%s/%s",
                                   folder, name, files[i]);
        const struct dsf_source_tensor *t;
        struct dsf_source s;

        assert_int_equal(remove(path), 0);
        open_source("gpt2_universal", false, &s);
        t = dsf_source_find(&s, name);
        assert_non_null(t);
        assert_int_equal(t->has, i == 0 ? 5 : 1);
        assert_int_equal(t->frozen, i == 2);
        dsf_source_fini(&s);
        free(path);
    }
}

static int put_ones(void *user, unsigned i, struct dsf_torch_out *out,
                    struct dsflow_err *err)
{
    static const int32_t ones[8 * 32] = { 1 };

    (void)user, (void)i;
    return dsf_torch_out(out, ones, sizeof(ones), err);
}

/* Whole numbers are no moments. */
static void moments_are_floats(void **state)
{
    char *path = dsf_xasprintf("%s/gpt2_universal/global_step3/zero/"
                               "transformer.h.0.mlp.c_fc.weight/exp_avg.pt",
                               folder);
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    struct dsflow_err err = { .msg = "" };

    (void)state;
    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "param");
    dsf_torch_put_tensor(t, DSFLOW_INT32, 2, (int64_t[]){ 8, 32 });
    dsf_torch_put_end(t);
    assert_int_equal(remove(path), 0);
    assert_int_equal(dsf_torch_write(t, path, put_ones, NULL, &err), 0);
    dsf_torch_tree_free(t);
    refused("gpt2_universal", NULL,
            "transformer.h.0.mlp.c_fc.weight/exp_avg.pt: param: a tensor of "
            "int32: expected one of floating point");
    free(path);
}

static int put_weight_and_bias(void *user, unsigned i,
                               struct dsf_torch_out *out,
                               struct dsflow_err *err)
{
    static const float zeroes[8] = { 0 };

    (void)user;
    return dsf_torch_out(out, zeroes, (i == 0 ? 8 : 4) * sizeof(float), err);
}

/* Of layers, the file is named that has another shape than the moments, and
 * not the optimizer. */
static void a_layer_of_another_shape_is_named(void **state)
{
    char *path = dsf_xasprintf(
        "%s/gpt2_pipe_plain/global_step3/layer_03-model_states.pt", folder);
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    struct dsflow_err err = { .msg = "" };

    (void)state;
    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "weight");
    dsf_torch_put_tensor(t, DSFLOW_FP32, 1, (int64_t[]){ 8 });
    dsf_torch_put_key(t, "bias");
    dsf_torch_put_tensor(t, DSFLOW_FP32, 1, (int64_t[]){ 4 });
    dsf_torch_put_end(t);
    assert_int_equal(remove(path), 0);
    assert_int_equal(dsf_torch_write(t, path, put_weight_and_bias, NULL, &err),
                     0);
    dsf_torch_tree_free(t);
    refused("gpt2_pipe_plain", NULL,
            "/layer_03-model_states.pt: bias: shape [4]: its moments, in ");
    refused("gpt2_pipe_plain", NULL, "/mp_rank_01_model_states.pt, have [8]");
    assert_int_equal(remove(path), 0);
    refused("gpt2_pipe_plain", NULL,
            "/mp_rank_01_model_states.pt: optimizer: has 4 parameters: the "
            "files of layers have 2 of them: expected a file of each layer");
    free(path);
}

static void what_is_not_whole_is_refused(void **state)
{
    char *shard = dsf_xasprintf(
        "%s/gpt2_zero2/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt",
        folder);

    refused("none", NULL, "there is no such folder");
    refused("gpt2_zero2", "global_step4", "--tag: global_step4: there is no");
    refused("gpt2_zero2", "../gpt2_plain", "expected the name of a folder");
    refused(".", NULL, "has no files of a checkpoint of DeepSpeed");
    assert_int_equal(remove(shard), 0);
    refused("gpt2_zero2", NULL,
            "/zero_pp_rank_1_mp_rank_00_optim_states.pt: is not there: "
            "expected a file of each of 3 ranks");
    for (int r = 0; r < 3; r += 2) {
        free(shard);
        shard = dsf_xasprintf("%s/gpt2_zero2/global_step3/zero_pp_rank_%d_mp_"
                              "rank_00_optim_states.pt",
                              folder, r);
        assert_int_equal(remove(shard), 0);
    }
    refused("gpt2_zero2", NULL, "is of ZeRO and has no files");
    free(shard);
    shard = dsf_xasprintf("%s/gpt2_pipe_zero1/global_step3/mp_rank_01_model_"
                          "states.pt",
                          folder);
    assert_int_equal(remove(shard), 0);
    refused("gpt2_pipe_zero1", NULL,
            "/mp_rank_01_model_states.pt: is not there: expected a file of "
            "each of 2 model ranks");
    free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_read_number_by_number),
        cmocka_unit_test(weights_alone_are_read),
        cmocka_unit_test(muons_states_are_read),
        cmocka_unit_test(the_loss_scale_is_read),
        cmocka_unit_test(a_tied_head_is_the_embedding),
        cmocka_unit_test(names_of_layers_become_those_of_a_model),
        cmocka_unit_test(a_moment_that_is_lost_is_no_frozen_parameter),
        cmocka_unit_test(moments_are_floats),
        cmocka_unit_test(a_layer_of_another_shape_is_named),
        cmocka_unit_test(what_is_not_whole_is_refused),
    };

    return cmocka_run_group_tests(tests, unpack, remove_folder);
}
