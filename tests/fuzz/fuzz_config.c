/* fuzz_config.c - any bytes as the config.json of a Hugging Face folder: a model
 * whose units fit its count of parameters, or one line that says why not. */
#include "config/job.h"
#include "model/model.h"

#include "fuzz/fuzz.h"

static const char *const words[] = {
    "{",    "}",      "[",      "]",     ",",     ":",
    "\"",   "null",   "true",   "false", "0",     "-1",
    "1e9",  "1.5",    "65536",  "1048576",        "9223372036854775807",
    "\"gpt2\"",       "\"llama\"",       "\"qwen2\"",
    "\"model_type\"", "\"rope_scaling\"", "\"llama3\"",
    "\"head_dim\"",   "\"sliding_window\"", "\\u0000",  "\xff",
    NULL,
};

static char *sound(size_t *n)
{
    static const char text[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\",\n"
        "\"attention_bias\": false, \"mlp_bias\": false, \"head_dim\": 8,\n"
        "\"hidden_act\": \"silu\", \"hidden_size\": 32,\n"
        "\"intermediate_size\": 96, \"max_position_embeddings\": 64,\n"
        "\"num_attention_heads\": 4, \"num_hidden_layers\": 2,\n"
        "\"num_key_value_heads\": 2, \"rms_norm_eps\": 1e-5,\n"
        "\"rope_theta\": 10000.0, \"rope_scaling\": {\"rope_type\": \"llama3\",\n"
        "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,\n"
        "\"original_max_position_embeddings\": 32},\n"
        "\"tie_word_embeddings\": false, \"vocab_size\": 256}\n";

    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

static void check_model(const struct dsf_model *model)
{
    int64_t elems = 0;

    for (unsigned u = 0; u < model->nunits; u++)
        elems += model->units[u].elems;
    if (model->nunits == 0 || model->params <= 0 || elems < model->params)
        fuzz_die("a model without its parameters");
}

static bool accepts(const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_model model;
    struct dsf_job job;
    char toml[256];
    int status;

    fuzz_file("config.json", text, n);
    snprintf(toml, sizeof(toml), "[job]\nsteps = 1\n[model]\ninit = \"%s\"\n",
             fuzz_folder());
    if (dsf_job_parse(toml, strlen(toml), "job.toml", NULL, 0, NULL, &job,
                      &err) < 0)
        fuzz_die(err.msg);
    status = dsf_model_init(&model, &job, &err);
    dsf_job_fini(&job);
    if (status < 0) {
        fuzz_refused(&err);
        return false;
    }
    check_model(&model);
    dsf_model_fini(&model);
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "config",
    .rounds = 2000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
