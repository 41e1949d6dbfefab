/* test_trainer.c - folders of Hugging Face's Trainer and of Accelerate: what
 * tests/reference/trainer/make.py wrote is read number by number, and what does
 * not fit is named. */
#include "foreign/module_order.h"
#include "foreign/trainer.h"

#include "torch/torch_write.h"
#include "unit/foreign/known.h"

#include <math.h>
#include <unistd.h>

static int unpack(void **state)
{
    return unpack_known(state, "trainer");
}

static const struct {
    const char *name;
    unsigned tensors;
    const char *what;
} folders[] = {
    { "gpt2/checkpoint-3", 28, "Hugging Face's Trainer without DeepSpeed" },
    { "llama/checkpoint-3", 21, "Hugging Face's Trainer without DeepSpeed" },
    { "mistral/checkpoint-3", 21, "Hugging Face's Trainer without DeepSpeed" },
    { "qwen2/checkpoint-3", 26, "Hugging Face's Trainer without DeepSpeed" },
    { "accelerate", 21, "Accelerate without DeepSpeed" },
};

static void open_folder(const char *name, bool weights_only,
                        struct dsf_source *s)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsflow_err err = { .msg = "" };

    assert_true(dsf_trainer_is(path));
    if (dsf_trainer_open(path, weights_only, s, &err) < 0)
        fail_msg("%s: %s", name, err.msg);
    free(path);
}

static void every_model_is_read_number_by_number(void **state)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        for (int alone = 0; alone < 2; alone++) {
            struct dsf_source s;

            open_folder(folders[i].name, alone, &s);
            assert_string_equal(s.what, folders[i].what);
            assert_int_equal(s.n, folders[i].tensors);
            for (size_t k = 0; k < s.n; k++) {
                assert_int_equal(s.tensors[k].has, alone ? 1 : 7);
                for (unsigned m = 0; m < (alone ? 1 : 3); m++)
                    check_known(&s, &s.tensors[k], (enum dsf_source_state)m,
                                s.tensors[k].name);
            }
            if (!alone) {
                assert_int_equal(s.steps, 3);
                assert_int_equal(s.updates, 3);
                assert_int_equal(s.skipped, -1);
                assert_true(s.betas[0] == 0.9 && s.betas[1] == 0.95);
                assert_true(s.eps == 1e-8 && s.weight_decay == 0.1);
                assert_true(s.lr >= 0 && s.lr <= 1e-3);
            }
            dsf_source_fini(&s);
        }
}

static void modules_have_an_order(void **state)
{
    static const char *const names[] = {
        "transformer.wte.weight",
        "transformer.wpe.weight",
        "transformer.h.0.ln_1.weight",
        "transformer.h.0.ln_1.bias",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.0.mlp.c_proj.bias",
        "h.2.ln_1.weight",
        "model.layers.9.self_attn.q_proj.bias",
        "model.layers.9.self_attn.k_proj.weight",
        "model.layers.9.mlp.gate_proj.weight",
        "model.layers.9.post_attention_layernorm.weight",
        "model.layers.10.self_attn.q_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    };
    static const char *const others[] = {
        "weight",
        "model.layers.0.mlp.weight",
        "model.layers.1.self_attn.bias",
        "model.layers.0.mlp.up_proj.lora_A",
        "score.weight",
        "model.layers.99999999999.mlp.up_proj.weight",
        "layers.1",
    };
    int64_t before = -1, place;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (!dsf_module_place(names[i], &place) || place <= before)
            fail_msg("%s", names[i]);
        before = place;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (dsf_module_place(others[i], &place))
            fail_msg("%s", others[i]);
}

/* Opening the folder says this; without its moments it is read. */
static void refused(const char *name, const char *text)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsf_source s;
    struct dsflow_err err = { .msg = "" };

    assert_true(dsf_trainer_open(path, false, &s, &err) < 0);
    if (strstr(err.msg, text) == NULL)
        fail_msg("says: %s", err.msg);
    free(path);
}

static void shell(const char *what)
{
    char *command = dsf_xasprintf("cd %s && %s", folder, what);

    assert_int_equal(system(command), 0);
    free(command);
}

static void what_does_not_fit_is_refused(void **state)
{
    /* The optimizer of a model of another shape, and of one with more. */
    shell("cp -r llama/checkpoint-3 a && cp gpt2/checkpoint-3/optimizer.pt a");
    refused("a",
            "a/optimizer.pt: state[1].exp_avg: shape [16, 8]: in the order "
            "of the module it is of model.layers.0.self_attn.q_proj."
            "weight, which has [8, 8]; --weights-only goes on");
    shell("cp -r qwen2/checkpoint-3 b && cp gpt2/checkpoint-3/optimizer.pt b");
    refused("b", "b/optimizer.pt: ");
    /* All in one group of another number. */
    shell("cp -r gpt2/checkpoint-3 c && cp accelerate/optimizer.bin "
          "c/optimizer.pt");
    refused("c", "c/optimizer.pt: ");
    /* Half a state. */
    shell("cp -r gpt2/checkpoint-3 d && printf '{}' > d/trainer_state.json");
    refused("d", "d/trainer_state.json: global_step: expected a number");
    shell("cp -r gpt2/checkpoint-3 e && rm e/model.safetensors");
    refused("e", "e: has no model.safetensors, nor");
    shell("cp -r gpt2/checkpoint-3 f && head -c 4000 "
          "gpt2/checkpoint-3/optimizer.pt > f/optimizer.pt");
    refused("f", "f/optimizer.pt: ");
}

static int put_nothing(void *user, unsigned i, struct dsf_torch_out *out,
                       struct dsflow_err *err)
{
    (void)user;
    (void)i;
    (void)out;
    (void)err;
    return DSFLOW_OK;
}

/* An optimizer of one group that has these two settings, 0.5 and true, and of
 * which there is no state: LLaMA's 21 tensors. */
static void write_optimizer(const char *name, const char *real,
                            const char *truth)
{
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsflow_err err = { .msg = "" };

    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "state");
    dsf_torch_put_dict(t);
    dsf_torch_put_end(t);
    dsf_torch_put_key(t, "param_groups");
    dsf_torch_put_list(t);
    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, real);
    dsf_torch_put_real(t, 0.5);
    dsf_torch_put_key(t, truth);
    dsf_torch_put_bool(t, true);
    dsf_torch_put_key(t, "params");
    dsf_torch_put_list(t);
    for (int i = 0; i < 21; i++)
        dsf_torch_put_int(t, i);
    for (int i = 0; i < 4; i++)
        dsf_torch_put_end(t);
    if (dsf_torch_write(t, path, put_nothing, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_torch_tree_free(t);
    free(path);
}

/* Of SGD without momentum torch keeps no state; settings say the rule. */
static void an_optimizer_may_have_no_state(void **state)
{
    static const struct {
        const char *rule, *real, *truth;
    } rules[] = {
        { "SGD", "momentum", "dampening" },
        { "AMSGrad", "betas", "amsgrad" },
        { "Lion", "betas", "maximize" },
        { "Adagrad", "eps", "initial_accumulator_value" },
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        struct dsf_source s;

        shell("rm -rf s && cp -r accelerate s && rm s/optimizer.bin");
        write_optimizer("s/optimizer.bin", rules[i].real, rules[i].truth);
        open_folder("s", false, &s);
        assert_string_equal(s.optimizer, rules[i].rule);
        assert_true(i == 0 ? s.momentum == 0.5 : isnan(s.momentum));
        assert_int_equal(s.n, 21);
        for (size_t k = 0; k < s.n; k++)
            assert_int_equal(s.tensors[k].has, 1u << DSF_SOURCE_WEIGHT);
        dsf_source_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_is_read_number_by_number),
        cmocka_unit_test(modules_have_an_order),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(an_optimizer_may_have_no_state),
    };

    return cmocka_run_group_tests(tests, unpack, remove_folder);
}
