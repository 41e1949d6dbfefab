/* test_hf_config.c - config.json means what it means to transformers, or is
 * refused with the key. */
#include "model/model.h"

#include "base/alloc.h"

#include "lib/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_config(const char *text, size_t n)
{
    char *path = dsf_xasprintf("%s/config.json", folder);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    fwrite(text, 1, n, f);
    fclose(f);
    free(path);
}

/* A model of that folder, in a job with these lines in [model] and [batch]. */
static int make(struct dsf_model *m, const char *model, const char *batch,
                struct dsflow_err *err)
{
    char *text = dsf_xasprintf("[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
                               "[model]\ninit = \"%s\"\n%s\n[batch]\n%s\n",
                               folder, model, batch);
    struct dsf_job job;
    int status =
        dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job, err);

    assert_int_equal(status, DSFLOW_OK);
    status = dsf_model_init(m, &job, err);
    dsf_job_fini(&job);
    free(text);
    return status;
}

#define LLAMA                                                                  \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "                   \
    "\"hidden_size\": 32, \"intermediate_size\": 64, \"vocab_size\": 100"

/* A config.json of `type` with more keys; what is in LLAMA may be there again
 * with another value only if `type` is "-": then it is all in `keys`. */
static void write_keys(const char *type, const char *keys)
{
    char *text = strcmp(type, "-") == 0
                     ? dsf_xasprintf("{%s}", keys)
                     : dsf_xasprintf("{\"model_type\": \"%s\", " LLAMA "%s%s}",
                                     type, keys[0] != '\0' ? ", " : "", keys);

    write_config(text, strlen(text));
    free(text);
}

static void refused(const char *type, const char *keys, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;

    write_keys(type, keys);
    if (make(&m, "", "", &err) == DSFLOW_OK)
        fail_msg("{%s}: expected: %s", keys, message);
    assert_int_equal(err.status, DSFLOW_EINVAL);
    check_message(&err, message);
}

static struct dsf_model taken(const char *type, const char *keys)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;

    write_keys(type, keys);
    if (make(&m, "", "", &err) < 0)
        fail_msg("{%s}: %s", keys, err.msg);
    dsf_model_fini(&m);
    return m;
}

static void numbers_are_checked(void **state)
{
    static const char *const values[] = { "0",      "-1",         "32.0",
                                          "\"32\"", "1e9",        "null",
                                          "true",   "[32]",       "65537",
                                          "{}",     "99999999999" };
    static const struct {
        const char *key, *rest;
    } sizes[] = {
        { "hidden_size", "\"num_hidden_layers\": 2, \"num_attention_heads\": "
                         "4, \"intermediate_size\": 64, \"vocab_size\": 100" },
        { "intermediate_size", "\"num_hidden_layers\": 2, "
                               "\"num_attention_heads\": 4, \"hidden_size\": "
                               "32, \"vocab_size\": 100" },
        { "vocab_size", "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                        "\"hidden_size\": 32, \"intermediate_size\": 64" },
    };

    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
        for (size_t v = 0; v < sizeof(values) / sizeof(*values); v++) {
            struct dsflow_err err = { .msg = "" };
            struct dsf_model m;
            char *keys = dsf_xasprintf("\"model_type\": \"llama\", %s, "
                                       "\"%s\": %s",
                                       sizes[s].rest, sizes[s].key, values[v]);
            char *start = dsf_xasprintf("/config.json: %s: ", sizes[s].key);

            write_keys("-", keys);
            free(keys);
            if (strcmp(values[v], "65537") == 0 && s > 0) {
                free(start);
                continue; /* a good one */
            }
            assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
            assert_ptr_equal(strstr(err.msg, start), err.msg + strlen(folder));
            assert_non_null(strstr(err.msg, "expected a whole number, "));
            free(start);
        }
    refused("-", "\"model_type\": \"llama\"",
            "/config.json: num_hidden_layers: is missing: expected a whole "
            "number, 1 to 1024");
    refused("llama", "\"rms_norm_eps\": 0",
            "/config.json: rms_norm_eps: 0: expected a number, 1e-12 to 0.1");
    refused("llama", "\"rms_norm_eps\": null",
            "/config.json: rms_norm_eps: null: expected a number, 1e-12 to "
            "0.1");
    refused("llama", "\"rms_norm_eps\": NaN",
            "/config.json:1: invalid token near 'NaN'");
    refused("llama", "\"max_position_embeddings\": \"2k\"",
            "/config.json: max_position_embeddings: \"2k\": expected a whole "
            "number, 1 to 1048576");
    refused("llama", "\"num_key_value_heads\": 3",
            "/config.json: num_key_value_heads: 3: expected a divisor of "
            "num_attention_heads, 4");
    refused("llama", "\"num_key_value_heads\": 0",
            "/config.json: num_key_value_heads: 0: expected a whole number, 1 "
            "to 1024");
    refused("llama", "\"head_dim\": 7",
            "/config.json: head_dim: 7: expected heads of an even width");
    refused("llama", "\"head_dim\": 8.5",
            "/config.json: head_dim: 8.5: expected a whole number, 1 to 4096");
    refused("-",
            "\"model_type\": \"llama\", \"num_hidden_layers\": 2, "
            "\"num_attention_heads\": 1, \"hidden_size\": 8192, "
            "\"intermediate_size\": 64, \"vocab_size\": 100",
            "job.toml: model: width: 8192: expected heads of at most 4096 "
            "numbers (width / heads)");
    refused("llama", "\"hidden_act\": null",
            "/config.json: hidden_act: null: expected silu or swish");
    refused("llama", "\"tie_word_embeddings\": 1",
            "/config.json: tie_word_embeddings: 1: expected true or false");
    refused("llama", "\"attention_bias\": true",
            "/config.json: attention_bias: true: expected false");
    refused("llama", "\"quantization_config\": {\"bits\": 4}",
            "/config.json: quantization_config: {\"bits\": 4}: expected none: "
            "weights must be floats");
    refused("-", "\"model_type\": \"gpt2\", \"n_head\": 5",
            "/config.json: n_head: 5: expected a divisor of n_embd, 768");
    refused("-", "\"model_type\": \"gpt2\", \"n_inner\": 0",
            "/config.json: n_inner: 0: expected a whole number, 1 to 1048576");
    refused("-", "\"model_type\": \"gpt2\", \"tie_word_embeddings\": false",
            "/config.json: tie_word_embeddings: false: expected true");
    refused("-", "\"model_type\": 3",
            "/config.json: model_type: 3: expected gpt2, llama, mistral or "
            "qwen2");
    refused("-", "\"n_head\": 1, \"n_head\": 2",
            "/config.json:1: duplicate object key near '\"n_head\"'");
}

static void files_that_are_no_config_are_named(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "/config.json: is empty: expected JSON" },
        { "\xef\xbb\xbf{}", "/config.json: begins with a byte order mark: "
                            "expected JSON in UTF-8 without one" },
        { "{\n\"a\": 1,\n", "/config.json:3: string or '}' expected near end "
                            "of file" },
        { "model", "/config.json:1: '[' or '{' expected near 'model'" },
        { "[]", "/config.json: expected an object" },
    };
    char *big = dsf_xcalloc((16 << 20) + 1, 1), *path;
    struct dsflow_err err;
    struct dsf_model m;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        write_config(cases[i].text, strlen(cases[i].text));
        assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
        check_message(&err, cases[i].message);
    }
    memset(big, ' ', (16 << 20) + 1);
    write_config(big, (16 << 20) + 1);
    free(big);
    assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
    check_message(&err, "/config.json: has 16777217 bytes: expected at most "
                        "16777216");
    path = dsf_xasprintf("%s/config.json", folder);
    unlink(path);
    assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
    check_message(&err, "/config.json: No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
    check_message(&err, "/config.json: is not a regular file");
    unlink(path);
    mkdir(path, 0700);
    assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
    check_message(&err, "/config.json: is a folder: expected a file");
    rmdir(path);
    free(path);
}

static void what_is_absent_means_what_transformers_means(void **state)
{
    struct dsf_model m = taken("-", "\"model_type\": \"gpt2\", \"n_inner\": "
                                    "null");

    assert_int_equal(m.dims.width, 768);
    assert_int_equal(m.dims.ffn, 3072);
    assert_int_equal(m.dims.context, 1024);
    m = taken("-", "\"model_type\": \"gpt2\", \"num_hidden_layers\": 3, "
                   "\"num_attention_heads\": 2, \"hidden_size\": 24, "
                   "\"n_embd\": 24, \"max_position_embeddings\": 40");
    assert_int_equal(m.layers, 3);
    assert_int_equal(m.dims.heads, 2);
    assert_int_equal(m.dims.width, 24);
    assert_int_equal(m.dims.ffn, 96);
    assert_int_equal(m.dims.context, 40);
    refused("-",
            "\"model_type\": \"gpt2\", \"n_head\": 12, "
            "\"num_attention_heads\": 6",
            "/config.json: n_head: 12: expected what num_attention_heads says");
    m = taken("llama", "");
    assert_int_equal(m.dims.kv_heads, 4);
    assert_int_equal(m.dims.context, 2048);
    assert_true(m.rope_theta == 10000);
    m = taken("llama", "\"num_key_value_heads\": null, \"head_dim\": null");
    assert_int_equal(m.dims.kv_heads, 4);
    assert_int_equal(m.dims.head_dim, 8);
    m = taken("mistral", "\"num_key_value_heads\": null, \"sliding_window\": "
                         "null");
    assert_int_equal(m.dims.kv_heads, 4);
    assert_int_equal(m.dims.context, 131072);
    refused("mistral", "",
            "/config.json: num_key_value_heads: is missing, which means 8: "
            "expected a divisor of num_attention_heads, 4");
    refused("-", "\"model_type\": \"gpt2\", \"n_embd\": 32",
            "/config.json: n_head: is missing, which means 12: expected a "
            "divisor of n_embd, 32");
    m = taken("qwen2", "\"num_key_value_heads\": 2");
    assert_int_equal(m.dims.context, 32768);
    assert_true(m.dims.qkv_bias);
}

#define ROPE(kind, values)                                                     \
    "\"rope_" kind "\": {\"rope_type\": \"llama3\", " values "}"
#define GOOD                                                                   \
    "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "         \
    "\"original_max_position_embeddings\": 512"

static void rotary_positions_are_checked(void **state)
{
    static const char *const thetas[][2] = {
        { "0", "0" },
        { "-5", "-5" },
        { "\"abc\"", "\"abc\"" },
        { "null", "null" },
        { "true", "true" },
        { "1e300", "1.00000e+300" },
        { "[10000]", "[10000]" },
    };
    static const char *const factors[] = { "factor", "low_freq_factor",
                                           "high_freq_factor",
                                           "original_max_position_embeddings" };
    static const char *const values[] = { "0",    "-5",   "\"abc\"",
                                          "null", "true", "1e300" };
    struct dsf_model m;

    for (size_t i = 0; i < sizeof(thetas) / sizeof(*thetas); i++)
        for (int inside = 0; inside < 2; inside++) {
            char *keys =
                dsf_xasprintf(inside ? "\"rope_parameters\": {\"rope_theta\": "
                                       "%s}"
                                     : "\"rope_theta\": %s",
                              thetas[i][0]);
            char *start = dsf_xasprintf("/config.json: %srope_theta: ",
                                        inside ? "rope_parameters: " : "");
            struct dsflow_err err = { .msg = "" };

            write_keys("llama", keys);
            assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
            assert_ptr_equal(strstr(err.msg, start), err.msg + strlen(folder));
            assert_non_null(strstr(err.msg, "expected a number, 1 to 1e+12"));
            free(keys);
            free(start);
        }
    for (size_t f = 0; f < 4; f++)
        for (size_t v = 0; v <= sizeof(values) / sizeof(*values); v++) {
            bool absent = v == sizeof(values) / sizeof(*values);
            struct dsflow_err err = { .msg = "" };
            char *keys = dsf_xasprintf("\"rope_scaling\": {\"rope_type\": "
                                       "\"llama3\""),
                 *start = dsf_xasprintf("/config.json: rope_scaling: %s: ",
                                        factors[f]);

            for (size_t k = 0; k < 4; k++) {
                static const char *const good[] = { "8", "1", "4", "512" };
                char *more = keys;

                if (k == f && absent)
                    continue;
                keys = dsf_xasprintf("%s, \"%s\": %s", more, factors[k],
                                     k == f ? values[v] : good[k]);
                free(more);
            }
            {
                char *more = keys;

                keys = dsf_xasprintf("%s}", more);
                free(more);
            }
            write_keys("llama", keys);
            if (f == 3 && absent) { /* then it is the context */
                assert_int_equal(make(&m, "", "", &err), DSFLOW_OK);
                assert_int_equal(m.rope_original_context, 2048);
                dsf_model_fini(&m);
            } else {
                assert_int_equal(make(&m, "", "", &err), DSFLOW_EINVAL);
                assert_ptr_equal(strstr(err.msg, start),
                                 err.msg + strlen(folder));
            }
            free(keys);
            free(start);
        }
    refused("llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
            "/config.json: rope_scaling: type: \"linear\": expected default or "
            "llama3");
    refused("llama", "\"rope_scaling\": {\"rope_type\": null}",
            "/config.json: rope_scaling: rope_type: null: expected default or "
            "llama3");
    refused("llama", "\"rope_scaling\": 2",
            "/config.json: rope_scaling: 2: expected an object or null");
    refused("llama",
            "\"rope_parameters\": {\"rope_theta\": 10000, "
            "\"partial_rotary_factor\": 0.5}",
            "/config.json: rope_parameters: partial_rotary_factor: 0.5: "
            "expected 1");
    refused("qwen2",
            "\"num_key_value_heads\": 2, \"rope_parameters\": "
            "{\"full_attention\": {\"rope_theta\": 5000}}",
            "/config.json: rope_parameters: full_attention: {\"rope_theta\": "
            "5000}: expected none: all layers turn alike");
    refused("llama",
            ROPE("scaling", "\"factor\": 8, \"low_freq_factor\": 4, "
                            "\"high_freq_factor\": 4"),
            "/config.json: rope_scaling: high_freq_factor: 4: expected more "
            "than low_freq_factor");
    m = taken("llama", "\"rope_parameters\": {\"rope_theta\": 500000.0, "
                       "\"rope_type\": \"default\"}, \"rope_scaling\": null");
    assert_true(m.rope_theta == 500000 && !m.rope_llama3);
    m = taken("llama", "\"rope_theta\": 20000, \"rope_scaling\": {}");
    assert_true(m.rope_theta == 20000 && !m.rope_llama3);
}

static void rotary_positions_said_twice_must_agree(void **state)
{
    struct dsf_model m =
        taken("llama", ROPE("parameters", GOOD) ", " ROPE("scaling", GOOD));

    assert_true(m.rope_llama3 && m.rope_factor == 8);
    assert_int_equal(m.rope_original_context, 512);
    m = taken(
        "llama",
        "\"rope_theta\": 500000, " ROPE(
            "scaling", GOOD) ", "
                             "\"rope_parameters\": {\"rope_theta\": 500000, "
                             "\"rope_type\": \"llama3\", " GOOD "}");
    assert_true(m.rope_theta == 500000);
    refused("llama",
            "\"rope_parameters\": {\"rope_type\": \"default\"}, "
            "\"rope_scaling\": {\"type\": \"llama3\", " GOOD "}",
            "/config.json: rope_scaling: rope_type (llama3: 1): 1: "
            "rope_parameters says 0");
    refused("llama",
            ROPE("parameters",
                 GOOD) ", \"rope_scaling\": {\"type\": "
                       "\"llama3\", \"factor\": 8, \"low_freq_factor\": 1, "
                       "\"high_freq_factor\": 2}",
            "/config.json: rope_scaling: high_freq_factor: 2: rope_parameters "
            "says 4");
    refused("llama",
            "\"rope_parameters\": {\"rope_theta\": 500000}, "
            "\"rope_scaling\": {\"rope_theta\": 10000}",
            "/config.json: rope_scaling: rope_theta: 10000: rope_parameters "
            "says 500000");
    refused("llama",
            "\"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": "
            "500000}",
            "/config.json: rope_parameters: rope_theta: 500000: the one beside "
            "it says 10000");
    m = taken("llama",
              "\"original_max_position_embeddings\": 512, " ROPE(
                  "parameters", "\"factor\": 8, \"low_freq_factor\": 1, "
                                "\"high_freq_factor\": 4"));
    assert_int_equal(m.rope_original_context, 512);
    refused(
        "llama",
        "\"original_max_position_embeddings\": 256, " ROPE("scaling", GOOD),
        "/config.json: rope_scaling: original_max_position_embeddings: 512: "
        "the one beside it says 256");
    m = taken("llama", "\"original_max_position_embeddings\": 256");
    assert_false(m.rope_llama3);
}

/* The windows of the two layers of a config.json with these keys, and of a job
 * with keys of [model]; or what is said of them. */
static void window(const char *type, const char *keys, const char *model,
                   const char *message, int first, int second)
{
    char *all = dsf_xasprintf("%s%s\"num_key_value_heads\": 2, "
                              "\"max_position_embeddings\": 16",
                              keys, keys[0] != '\0' ? ", " : "");
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;

    write_keys(type, all);
    free(all);
    if (message != NULL) {
        assert_int_equal(make(&m, model, "", &err), DSFLOW_EINVAL);
        check_message(&err, message);
        return;
    }
    if (make(&m, model, "", &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(m.dims.context, 16);
    assert_int_equal(m.layers, 2);
    assert_int_equal(dsf_model_layer(&m, 0)->dims.window, first);
    assert_int_equal(dsf_model_layer(&m, 1)->dims.window, second);
    dsf_model_fini(&m);
}

static void the_windows_of_layers_are_those_of_transformers(void **state)
{
#define USED "\"use_sliding_window\": true, \"sliding_window\": 8"
#define TYPES(a, b)                                                            \
    "\"layer_types\": [\"" a "_attention\", \"" b "_attention\"]"
    window("mistral", "\"sliding_window\": 8", "", NULL, 8, 8);
    window("mistral", "\"sliding_window\": 1", "", NULL, 1, 1);
    window("mistral", "\"sliding_window\": null", "", NULL, 0, 0);
    window("mistral", "", "", NULL, 4096, 4096);
    window("mistral", "\"sliding_window\": 9223372036854775807", "", NULL,
           1048576, 1048576);
    window("mistral", "\"sliding_window\": 0", "",
           "/config.json: sliding_window: 0: expected a whole number, 1 to "
           "9223372036854775807",
           0, 0);
    window("mistral", "\"sliding_window\": 8, " TYPES("sliding", "sliding"), "",
           NULL, 8, 8);
    window("mistral", "\"sliding_window\": 8, \"layer_types\": null", "", NULL,
           8, 8);
    window("mistral", "\"sliding_window\": 8, " TYPES("full", "sliding"), "",
           "/config.json: layer_types: [\"full_attention\", "
           "\"sliding_attention\"]: expected sliding_attention in all layers",
           0, 0);
    window("llama", "\"sliding_window\": 8", "",
           "/config.json: sliding_window: 8: expected null", 0, 0);
    window("qwen2", "\"sliding_window\": 8", "", NULL, 0, 0);
#define NO_WINDOW                                                              \
    "/config.json: layer_types: [\"full_attention\", "                         \
    "\"sliding_attention\"]: expected full_attention: there is no sliding "    \
    "window"
    window("qwen2", "\"sliding_window\": 8, " TYPES("full", "full"), "", NULL,
           0, 0);
    window("qwen2", "\"sliding_window\": 8, " TYPES("full", "sliding"), "",
           NO_WINDOW, 0, 0);
    window("qwen2",
           "\"use_sliding_window\": true, \"sliding_window\": null, " TYPES(
               "full", "sliding"),
           "", NO_WINDOW, 0, 0);
    window("mistral", "\"sliding_window\": null, " TYPES("full", "full"), "",
           NULL, 0, 0);
    window("mistral", "\"sliding_window\": null, " TYPES("full", "sliding"), "",
           NO_WINDOW, 0, 0);
    window("qwen2", USED, "", NULL, 0, 0); /* 28 layers see all */
    window("qwen2", USED ", \"max_window_layers\": 2", "", NULL, 0, 0);
    window("qwen2", USED ", \"max_window_layers\": 1", "", NULL, 0, 8);
    window("qwen2", USED ", \"max_window_layers\": 0", "", NULL, 8, 8);
    window("qwen2", USED ", " TYPES("full", "sliding"), "", NULL, 0, 8);
    window("qwen2",
           USED ", \"max_window_layers\": 0, " TYPES("sliding", "full"), "",
           NULL, 8, 0);
    window("qwen2", USED ", \"layer_types\": [\"full_attention\"]", "",
           "/config.json: layer_types: [\"full_attention\"]: expected as many "
           "as num_hidden_layers",
           0, 0);
    window("qwen2", USED ", " TYPES("full", "linear"), "",
           "/config.json: layer_types: [\"full_attention\", "
           "\"linear_attention\"]: expected full_attention or "
           "sliding_attention",
           0, 0);
}

/* Keys that are given must say the same. */
static void a_job_may_name_the_window_of_its_folder(void **state)
{
    window("mistral", "\"sliding_window\": 8", "window = 8", NULL, 8, 8);
    window("mistral", "\"sliding_window\": 8",
           "window = \"auto\"\nwindow_layers = \"0-1\"", NULL, 8, 8);
    window("mistral", "\"sliding_window\": 8", "window = 7",
           "job.toml:7: model: window: 7: config.json in  says 8", 0, 0);
    window("llama", "", "window = 7",
           "job.toml:7: model: window: 7: config.json in  says 0", 0, 0);
    window("qwen2", USED ", " TYPES("full", "sliding"), "window_layers = \"1\"",
           NULL, 0, 8);
    window(
        "qwen2", USED ", " TYPES("full", "sliding"), "window_layers = \"all\"",
        "job.toml:7: model: window_layers: \"all\": config.json in  says \"1\"",
        0, 0);
    window("qwen2", USED ", " TYPES("full", "sliding"), "window_layers = \"2\"",
           "job.toml:7: model: window_layers: \"2\": expected \"all\", or "
           "layers 0 to 1 such as "
           "\"0-5,8\"",
           0, 0);
}

/* Of a LLaMA with a context of 64, in a job with these keys of [model]. */
static void context(const char *model, const char *message, int expected)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;

    write_keys("llama", "\"max_position_embeddings\": 64");
    if (message != NULL) {
        assert_int_equal(make(&m, model, "", &err), DSFLOW_EINVAL);
        check_message(&err, message);
        return;
    }
    if (make(&m, model, "", &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(m.dims.context, expected);
    dsf_model_fini(&m);
}

static void a_job_may_have_a_shorter_context_and_no_other_number(void **state)
{
    struct dsflow_err err;
    struct dsf_model m;

    context("context = 16", NULL, 16);
    context("context = 65",
            "job.toml:7: model: context: 65: config.json in  says 64", 0);
    context("rope_theta = 20000",
            "job.toml:7: model: rope_theta: 20000: config.json in  says 10000",
            0);
    context("norm_eps = 1e-5",
            "job.toml:7: model: norm_eps: 1e-05: config.json in  says 1e-06",
            0);
    context("family = \"gpt2\"",
            "job.toml:7: model: family: \"gpt2\": config.json in  says "
            "\"llama\"",
            0);
    context("tied = true",
            "job.toml:7: model: tied: true: config.json in  says false", 0);
    context("rope_scaling = \"llama3\"",
            "job.toml:7: model: rope_scaling: \"llama3\": config.json in  says "
            "\"none\"",
            0);
    context("heads = \"auto\"\nwidth = 32", NULL, 64);
    write_keys("-", "\"model_type\": \"gpt2\", \"n_positions\": 64");
    assert_int_equal(make(&m, "context = 16", "", &err), DSFLOW_EINVAL);
    check_message(&err,
                  "job.toml:7: model: context: 16: config.json in  says 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_checked),
        cmocka_unit_test(files_that_are_no_config_are_named),
        cmocka_unit_test(what_is_absent_means_what_transformers_means),
        cmocka_unit_test(rotary_positions_are_checked),
        cmocka_unit_test(rotary_positions_said_twice_must_agree),
        cmocka_unit_test(the_windows_of_layers_are_those_of_transformers),
        cmocka_unit_test(a_job_may_name_the_window_of_its_folder),
        cmocka_unit_test(a_job_may_have_a_shorter_context_and_no_other_number),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
