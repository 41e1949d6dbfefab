/* test_hf.c - weights of a folder are read whole, or what is wrong with them is
 * named. */
#include "model/hf.h"

#include "base/alloc.h"
#include "base/safetensors_write.h"

#include "lib/folder.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the next files have that is not as it should be. */
static struct {
    const char *spoiled;  /* a tensor … */
    size_t index;         /* … of which this element … */
    double value;         /* … is this */
    enum dsflow_dtype dtype; /* of that tensor */
    const char *left_out, *turned, *renamed;
    struct dsf_st_tensor extra;
} odd;

static char *put_values(const struct dsf_tensor *t, struct dsf_st_tensor *out)
{
    size_t n = (size_t)(t->rows * t->cols);
    float *f = dsf_xcalloc(2 * n, sizeof(*f));
    double *d = (double *)f;
    bool is_spoiled = odd.spoiled != NULL && strcmp(odd.spoiled, t->name) == 0;

    out->dtype = is_spoiled ? odd.dtype : DSFLOW_FP32;
    for (size_t i = 0; i < n; i++) {
        double x = is_spoiled && i == odd.index ? odd.value : (double)i / 64;

        if (out->dtype == DSFLOW_FP64)
            d[i] = x;
        else
            f[i] = (float)x;
    }
    if (out->dtype == DSFLOW_FP16 || out->dtype == DSFLOW_BF16)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)f)[i] = i == odd.index ? 0xff80 : 0x3c00;
    out->bytes = n * (out->dtype == DSFLOW_FP32   ? 4
                      : out->dtype == DSFLOW_FP64 ? 8
                                                  : 2);
    return (char *)f;
}

/* The tensors of `m` from unit `first` up to `last`, into a file. */
static void write_file(const struct dsf_model *m, const char *name,
                       unsigned first, unsigned last)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    struct dsf_st_tensor list[64] = { { 0 } };
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct dsflow_err err;
    unsigned n = 0;

    for (unsigned u = first; u < last; u++)
        for (unsigned i = 0; i < m->units[u].ntensors; i++) {
            const struct dsf_tensor *t = &m->units[u].tensors[i];
            bool flip = t->transposed ^ (odd.turned != NULL &&
                                         strcmp(odd.turned, t->name) == 0);

            if (odd.left_out != NULL && strcmp(odd.left_out, t->name) == 0)
                continue;
            list[n].name = (char *)(odd.renamed != NULL &&
                                            strcmp(odd.renamed, t->name) == 0
                                        ? "other"
                                        : t->name);
            list[n].ndims = t->vector ? 1 : 2;
            list[n].dims[0] = t->vector || flip ? t->cols : t->rows;
            list[n].dims[1] = flip ? t->rows : t->cols;
            list[n].data = put_values(t, &list[n]);
            n++;
        }
    if (odd.extra.name != NULL)
        list[n++] = odd.extra;
    assert_int_equal(
        dsf_st_write(fd, path, list, n, NULL, NULL, NULL, NULL, &err), 0);
    for (unsigned i = 0; i < n; i++)
        if (list[i].data != odd.extra.data)
            free((void *)list[i].data);
    close(fd);
    free(path);
}

static void write_text(const char *name, const char *text)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "w");

    fputs(text, f);
    fclose(f);
    free(path);
}

static void remove_file(const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);

    unlink(path);
    free(path);
}

#define GPT2                                                                   \
    "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": "   \
    "4, "                                                                      \
    "\"n_positions\": 4, \"vocab_size\": 8}"
#define LLAMA(tied)                                                            \
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, "                   \
    "\"num_attention_heads\": 1, \"hidden_size\": 4, \"intermediate_size\": "  \
    "6, \"vocab_size\": 8, \"tie_word_embeddings\": " tied "}"

static void make(struct dsf_model *m, const char *config)
{
    char *text = dsf_xasprintf("[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
                               "[model]\ninit = \"%s\"\n",
                               folder);
    struct dsflow_err err;
    struct dsf_job job;

    write_text("config.json", config);
    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job,
                      &err) < 0 ||
        dsf_model_init(m, &job, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_job_fini(&job);
    free(text);
}

/* Open the folder and read every unit. */
static int read_all(const struct dsf_model *m, struct dsflow_err *err)
{
    struct dsf_hf *hf = NULL;
    int status = dsf_hf_open(m, folder, &hf, err);

    for (unsigned u = 0; u < m->nunits && status == DSFLOW_OK; u++) {
        float *to = NULL;

        assert_int_equal(dsf_unit_alloc(m, u, &to, err), 0);
        status = dsf_hf_read(hf, u, to, err);
        free(to);
    }
    dsf_hf_close(hf);
    return status;
}

/* Write model.safetensors as `odd` says and read it: this message (NULL: it is
 * good), without the folder's name. */
static void reads(const char *config, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_model m;
    char *at;
    int status;

    make(&m, config);
    write_file(&m, "model.safetensors", 0, m.nunits);
    memset(&odd, 0, sizeof(odd));
    status = read_all(&m, &err);
    dsf_model_fini(&m);
    while ((at = strstr(err.msg, folder)) != NULL)
        memmove(at, at + strlen(folder), strlen(at + strlen(folder)) + 1);
    assert_string_equal(err.msg, message != NULL ? message : "");
    assert_int_equal(status, message != NULL ? DSFLOW_EINVAL : DSFLOW_OK);
}

#define WTE "transformer.wte.weight"
#define FC  "transformer.h.0.mlp.c_fc.weight"

static void numbers_that_are_none_are_named(void **state)
{
    static const struct {
        const char *tensor;
        size_t index;
        enum dsflow_dtype dtype;
        double value;
        const char *message;
    } cases[] = {
        { WTE, 0, DSFLOW_FP32, NAN, WTE ": element [0, 0] is nan" },
        { WTE, 31, DSFLOW_FP32, INFINITY, WTE ": element [7, 3] is inf" },
        { WTE, 6, DSFLOW_FP64, -INFINITY, WTE ": element [1, 2] is -inf" },
        { WTE, 6, DSFLOW_FP64, 1e300, WTE ": element [1, 2] is inf" },
        { WTE, 6, DSFLOW_FP16, 0, WTE ": element [1, 2] is nan" },
        { WTE, 6, DSFLOW_BF16, 0, WTE ": element [1, 2] is -inf" },
        { FC, 33, DSFLOW_FP32, NAN, FC ": element [2, 1] is nan" },
        { "transformer.ln_f.bias", 3, DSFLOW_FP32, -NAN,
          "transformer.ln_f.bias: element [3] is nan" },
    };

    reads(GPT2, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *message = dsf_xasprintf("/model.safetensors: %s: expected finite "
                                      "numbers",
                                      cases[i].message);

        odd.spoiled = cases[i].tensor;
        odd.index = cases[i].index;
        odd.dtype = cases[i].dtype;
        odd.value = cases[i].value;
        reads(GPT2, message);
        free(message);
    }
}

static void buffers_are_ignored_whatever_their_type(void **state)
{
    static const unsigned char mask[128];
    static const struct {
        enum dsflow_dtype dtype;
        size_t bytes;
    } types[] = { { DSFLOW_BOOLEAN, 1 }, { DSFLOW_UINT8, 1 },
                  { DSFLOW_INT8, 1 },    { DSFLOW_FP32, 4 },
                  { DSFLOW_FP16, 2 },    { DSFLOW_INT64, 8 },
                  { DSFLOW_UINT16, 2 },  { DSFLOW_FP64, 8 },
                  { DSFLOW_FP8_E4M3, 1 } };
    static const char *const names[] = { "transformer.h.0.attn.bias",
                                         "h.0.attn.masked_bias" };

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        for (int n = 0; n < 2; n++) {
            odd.extra = (struct dsf_st_tensor){ .name = (char *)names[n],
                                                .dtype = types[i].dtype,
                                                .ndims = 4,
                                                .dims = { 1, 1, 4, 4 },
                                                .data = mask,
                                                .bytes = 16 * types[i].bytes };
            reads(GPT2, NULL);
        }
}

/* A head beside the embedding, of the values that put_values gives that. */
static float *set_head(unsigned rows, enum dsflow_dtype dtype)
{
    static float head[64];

    for (int i = 0; i < 64; i++)
        head[i] = (float)i / 64;
    odd.extra = (struct dsf_st_tensor){ .name = (char *)"lm_head.weight",
                                        .dtype = dtype,
                                        .ndims = 2,
                                        .dims = { rows, 4 },
                                        .data = head,
                                        .bytes = (size_t)rows * 16 };
    return head;
}

static void a_tied_head_that_differs_is_refused(void **state)
{
    static const char *const configs[] = { GPT2, LLAMA("true") };
    static const char *const names[] = { WTE, "model.embed_tokens.weight" };

    for (int i = 0; i < 2; i++) {
        char *message = dsf_xasprintf(
            "/model.safetensors: lm_head.weight differs from %s, and "
            "tie_word_embeddings of config.json makes them one: expected it to "
            "be false, or no lm_head.weight",
            names[i]);

        set_head(8, DSFLOW_FP32);
        reads(configs[i], NULL);
        set_head(8, DSFLOW_FP32)[31] += 0x1p-20f;
        reads(configs[i], message);
        set_head(8, DSFLOW_FP32)[3] = NAN;
        reads(configs[i], message);
        set_head(9, DSFLOW_FP32);
        reads(configs[i], "/model.safetensors: lm_head.weight: shape [9, 4]: "
                          "config.json makes it [8, 4]");
        set_head(8, DSFLOW_INT32);
        reads(configs[i], "/model.safetensors: lm_head.weight: dtype I32: "
                          "expected F32, F64, BF16 or F16");
        free(message);
    }
    reads(LLAMA("false"), NULL);
}

static void tensors_that_do_not_fit_are_named(void **state)
{
    odd.turned = FC;
    reads(GPT2, "/model.safetensors: " FC ": shape [16, 4]: config.json makes "
                "it [4, 16]");
    odd.left_out = "transformer.ln_f.bias";
    reads(GPT2, ": has no tensor transformer.ln_f.bias");
    odd.renamed = FC;
    reads(GPT2, ": has no tensor " FC);
    odd.extra = (struct dsf_st_tensor){ .name = (char *)"score.weight",
                                        .dtype = DSFLOW_FP32,
                                        .ndims = 1,
                                        .dims = { 1 },
                                        .data = "abcd",
                                        .bytes = 4 };
    reads(GPT2, "/model.safetensors: score.weight: a tensor that this model "
                "has no place for");
    odd.extra = (struct dsf_st_tensor){ .name = (char *)"ln_f.bias",
                                        .dtype = DSFLOW_FP32,
                                        .ndims = 1,
                                        .dims = { 4 },
                                        .data = "abcdabcdabcdabcd",
                                        .bytes = 16 };
    reads(GPT2, "/model.safetensors: ln_f.bias: is also in model.safetensors "
                "as transformer.ln_f.bias: expected it once");
}

static void shards_are_checked(void **state)
{
    static const struct {
        const char *index, *message;
    } cases[] = {
        { "{\"weight_map\": {\"a\": \"one\", \"b\": \"two\"}}", NULL },
        { "{\"weight_map\": {\"a\": \"one\", \"b\": \"both\"}}",
          "/both: transformer.wte.weight: is also in one: expected it once" },
        { "{\"weight_map\": {\"a\": \"one\"}}",
          ": has no tensor transformer.h.0.attn.c_attn.weight" },
        { "{\"weight_map\": {\"a\": \"one\", \"b\": \"gone\"}}",
          "/model.safetensors.index.json: weight_map: b: gone is not in this "
          "folder" },
        { "{\"weight_map\": {\"a\": \"../one\"}}",
          "/model.safetensors.index.json: weight_map: a: expected the name of "
          "a file beside it" },
        { "{\"weight_map\": {\"a\": 3}}",
          "/model.safetensors.index.json: weight_map: a: expected the name of "
          "a file beside it" },
        { "{\"weight_map\": {}}",
          "/model.safetensors.index.json: weight_map: expected an object of "
          "tensors and files" },
        { "[]", "/model.safetensors.index.json: weight_map: expected an object "
                "of tensors and files" },
        { "{\"weight_map\": {\"a\": \"one\", \"a\": \"two\"}}",
          "/model.safetensors.index.json:1: duplicate object key near "
          "'\"a\"'" },
        { "{", "/model.safetensors.index.json:1: string or '}' expected near "
               "end of file" },
    };
    struct dsf_model m;

    make(&m, GPT2);
    remove_file("model.safetensors");
    write_file(&m, "one", 0, 1);
    write_file(&m, "two", 1, m.nunits);
    write_file(&m, "both", 0, m.nunits);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err = { .msg = "" };
        char *at;

        write_text("model.safetensors.index.json", cases[i].index);
        assert_int_equal(read_all(&m, &err),
                         cases[i].message != NULL ? DSFLOW_EINVAL : DSFLOW_OK);
        at = strstr(err.msg, folder);
        if (cases[i].message != NULL) {
            assert_ptr_equal(at, err.msg);
            assert_string_equal(at + strlen(folder), cases[i].message);
        }
    }
    dsf_model_fini(&m);
    /* As transformers, one file counts before an index. */
    reads(GPT2, NULL);
    remove_file("model.safetensors.index.json");
}

static void a_folder_without_weights_says_what_is_expected(void **state)
{
    struct dsflow_err err;
    struct dsf_model m;

    make(&m, GPT2);
    remove_file("model.safetensors");
    write_text("pytorch_model.bin", "");
    assert_int_equal(read_all(&m, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg + strlen(folder),
                        ": has no model.safetensors, nor "
                        "model.safetensors.index.json and the files it names "
                        "(pytorch_model.bin is not read: save the model as "
                        "safetensors)");
    dsf_model_fini(&m);
}

/* Units of ones, but for one number. */
struct numbers {
    const struct dsf_model *m;
    float odd;
};

static int give(void *user, unsigned u, float *to, struct dsflow_err *err)
{
    const struct numbers *n = user;

    for (int64_t i = 0; i < n->m->units[u].elems; i++)
        to[i] = 1;
    if (n->m->units[u].segment ==
        &dsf_segment_mlp) /* row 2 of the file, column 1 */
        to[1 * 4 + 2] = n->odd;
    return DSFLOW_OK;
}

static void types_hold_what_they_can(void **state)
{
    static const struct {
        enum dsflow_dtype dtype;
        float odd;
        const char *message;
    } cases[] = {
        { DSFLOW_FP16, 65519, NULL },
        { DSFLOW_BF16, 1e38f, NULL },
        { DSFLOW_FP32, 0x1.fffffep127f, NULL },
        { DSFLOW_FP16, 65520,
          FC ": element [2, 1] is 65520: expected 65504 at most in float16 "
             "(fp32 has more range)" },
        { DSFLOW_FP16, -1e6f,
          FC ": element [2, 1] is -1e+06: expected -65504 at least in float16 "
             "(fp32 has more range)" },
        { DSFLOW_BF16, 0x1.fffffep127f,
          FC ": element [2, 1] is 3.40282e+38: expected 3.38953e+38 at most in "
             "bfloat16 (fp32 has more range)" },
        { DSFLOW_BF16, NAN,
          FC ": element [2, 1] is nan: expected finite numbers" },
        { DSFLOW_FP32, -INFINITY,
          FC ": element [2, 1] is -inf: expected finite numbers" },
    };
    char *to = dsf_xasprintf("%s/out", folder);
    struct dsf_model m;

    make(&m, GPT2);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct numbers numbers = { &m, cases[i].odd };
        struct dsf_hf_export_spec spec = { .folder = to,
                                           .dtype = cases[i].dtype };
        struct dsflow_err err = { .msg = "" };
        char *found = err.msg;
        int status = dsf_hf_export(&m, &spec, give, &numbers, &err);

        assert_int_equal(status, cases[i].message ? DSFLOW_EINVAL : DSFLOW_OK);
        if (cases[i].message != NULL) {
            found = strstr(err.msg, "transformer");
            assert_non_null(found);
            assert_string_equal(found, cases[i].message);
            assert_int_equal(access(to, F_OK), -1);
        } else {
            assert_int_equal(nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
        }
    }
    dsf_model_fini(&m);
    free(to);
}

/* The model of a [model] table. */
static void make_of(struct dsf_model *m, const char *table)
{
    char *text = dsf_xasprintf(
        "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n%s", table);
    struct dsflow_err err;
    struct dsf_job job;

    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job,
                      &err) < 0 ||
        dsf_model_init(m, &job, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_job_fini(&job);
    free(text);
}

/* A model with a window as a folder, and what of config.json says so; or what
 * is said where no model of Hugging Face's has such windows. */
static void check_window(const char *shape, const char *message,
                         const char *type, const char *layers)
{
    char *to = dsf_xasprintf("%s/out", folder);
    struct dsf_hf_export_spec spec = { .folder = to, .dtype = DSFLOW_FP32 };
    struct dsflow_err err = { .msg = "" };
    struct numbers numbers = { .odd = 1 };
    struct dsf_model m, again;
    char *text;
    json_t *c;

    make_of(&m, shape);
    numbers.m = &m;
    assert_int_equal(dsf_hf_export(&m, &spec, give, &numbers, &err),
                     message != NULL ? DSFLOW_EINVAL : DSFLOW_OK);
    if (message != NULL) {
        assert_string_equal(err.msg, message);
        assert_int_equal(access(to, F_OK), -1);
        dsf_model_fini(&m);
        free(to);
        return;
    }
    text = dsf_xasprintf("%s/config.json", to);
    c = json_load_file(text, 0, NULL);
    free(text);
    assert_non_null(c);
    assert_string_equal(json_string_value(json_object_get(c, "model_type")),
                        type);
    text = json_dumps(json_object_get(c, "layer_types"), JSON_COMPACT);
    if (layers == NULL)
        assert_null(text);
    else
        assert_string_equal(text, layers);
    free(text);
    json_decref(c);
    text = dsf_xasprintf("family = \"llama\"\ninit = \"%s\"\n", to);
    make_of(&again, text);
    free(text);
    assert_memory_equal(again.windows, m.windows,
                        (size_t)m.layers * sizeof(*m.windows));
    dsf_model_fini(&again);
    dsf_model_fini(&m);
    assert_int_equal(nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(to);
}

static void a_window_is_written_as_it_is_read(void **state)
{
#define SMALL  "layers = 3\nheads = 2\nwidth = 4\nvocab = 8\ncontext = 8\n"
#define SLIDES "\"sliding_attention\""
#define SEES   "\"full_attention\""
#define OTHERS                                                                 \
    ": expected no window, or a window in all layers of a llama (Mistral), "   \
    "or a llama with qkv_bias (Qwen2): no other model of Hugging Face's has "  \
    "one"

    check_window("family = \"llama\"\n" SMALL, NULL, "llama", NULL);
    check_window("family = \"llama\"\n" SMALL "window = 5\n", NULL, "mistral",
                 NULL);
    /* Three heads do not divide this width. */
    check_window("family = \"llama\"\nlayers = 2\nheads = 3\nhead_dim = 2\n"
                 "width = 4\nvocab = 8\ncontext = 8\n",
                 NULL, "mistral", NULL);
    check_window("family = \"llama\"\nqkv_bias = true\n" SMALL, NULL, "qwen2",
                 NULL);
    check_window("family = \"llama\"\nqkv_bias = true\n" SMALL
                 "window = 5\nwindow_layers = \"0,2\"\n",
                 NULL, "qwen2", "[" SLIDES "," SEES "," SLIDES "]");
    check_window("family = \"llama\"\nqkv_bias = true\n" SMALL "window = 5\n",
                 NULL, "qwen2", "[" SLIDES "," SLIDES "," SLIDES "]");
    check_window(
        "family = \"llama\"\n" SMALL "window = 5\nwindow_layers = \"1\"\n",
        "model.window: 5 in some layers of a llama" OTHERS, NULL, NULL);
    check_window("family = \"gpt2\"\n" SMALL "window = 6\n",
                 "model.window: 6 of a gpt2" OTHERS, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_none_are_named),
        cmocka_unit_test(a_window_is_written_as_it_is_read),
        cmocka_unit_test(buffers_are_ignored_whatever_their_type),
        cmocka_unit_test(a_tied_head_that_differs_is_refused),
        cmocka_unit_test(tensors_that_do_not_fit_are_named),
        cmocka_unit_test(shards_are_checked),
        cmocka_unit_test(types_hold_what_they_can),
        cmocka_unit_test(a_folder_without_weights_says_what_is_expected),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
