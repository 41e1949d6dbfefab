/* test_vocabulary.c - which tokenizer goes with a model that starts from a
 * folder, and what is said where it is another one. */
#include "small.h"

#include "train/vocabulary.h"

static const char config[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 2, "
    "\"n_layer\": 1, \"n_positions\": 16, \"vocab_size\": %d}";

/* A Hugging Face folder without weights, whose model has so many tokens. */
static void make_model(const char *name, int vocab, bool tokenizer)
{
    char *text = dsf_xasprintf(config, vocab);
    char *file = dsf_xasprintf("%s/config.json", name);

    make_subfolder(name);
    write_text(file, text);
    free(file);
    if (tokenizer) {
        file = dsf_xasprintf("%s/tokenizer.json", name);
        write_tokenizer(file);
        free(file);
    }
    free(text);
}

/* The bare job with these keys: what is said of it. */
static void check(const char *keys, const char *tokenizer, const char *source,
                  const char *lines)
{
    struct dsflow_err err;
    struct dsf_session s;
    char *folder_of, *found;

    hush();
    must(open_job(&s, TO_MODEL, "bare.toml", keys, &err), &err);
    dsf_vocabulary_say(&s);
    assert_string_equal(said, lines);
    folder_of = in_folder(tokenizer);
    assert_string_equal(s.job->data.tokenizer, folder_of);
    free(folder_of);
    folder_of = in_folder(source);
    found = dsf_vocabulary_source(&s);
    if (source[0] == '\0')
        assert_null(found);
    else
        assert_string_equal(found, folder_of);
    free(found);
    free(folder_of);
    dsf_session_close(&s);
}

static void that_of_the_folder_is_taken_where_none_is_named(void **state)
{
    check("model.width=16 model.layers=1 model.heads=2", "bytes", "", "");
    check("model.init=@/own", "@/own", "@/own",
          "the tokenizer is /own, 274 tokens: model.init has it, and "
          "data.tokenizer is not given\n");
    check("model.init=@/own data.tokenizer=@/own", "@/own", "@/own", "");
}

static void another_one_is_a_warning(void **state)
{
    check("model.init=@/own data.tokenizer=bytes", "bytes", "",
          "data.tokenizer bytes (256 tokens) is not the tokenizer of "
          "model.init /own (274 tokens)\n");
    check("model.init=@/own data.tokenizer=@/same/tokenizer.json",
          "@/same/tokenizer.json", "@/own", "");
}

/* A matrix a little larger than the vocabulary is usual. */
static void a_model_of_other_tokens_is_a_warning(void **state)
{
#define NONE                                                                   \
    "the tokenizer is bytes, 256 tokens: model.init has none, and "            \
    "data.tokenizer is not given\n"

    check("model.init=@/padded", "bytes", "", NONE);
    check("model.init=@/none", "bytes", "",
          "data.tokenizer bytes has 256 tokens, and the model of model.init "
          "/none has 1000: is it the one it was trained with?\n" NONE);
    check("model.init=@/none data.tokenizer=@/own", "@/own", "",
          "data.tokenizer /own has 274 tokens, and the model of model.init "
          "/none has 1000: is it the one it was trained with?\n");
}

static void a_model_of_fewer_tokens_is_refused(void **state)
{
    refuse(TO_MODEL, "bare.toml", "model.init=@/few", DSFLOW_EINVAL,
           "/bare.toml: model: vocab: 100: expected at least the 256 tokens of "
           "bytes");
    refuse(TO_MODEL, "job.toml", "model.vocab=255", DSFLOW_EINVAL,
           "--set: model: vocab: 255: expected at least the 256 tokens of "
           "bytes");
}

static void a_tokenizer_that_cannot_be_read_is_named(void **state)
{
    refuse(TO_MODEL, "bare.toml", "model.init=@/broken", DSFLOW_EINVAL,
           "/bare.toml: data: tokenizer: is not given, and that of model.init "
           "cannot be read: /broken/tokenizer.json: model: expected an object");
    refuse(TO_MODEL, "job.toml", "data.tokenizer=@/nothing", DSFLOW_EINVAL,
           "--set: data: tokenizer: /nothing: No such file or directory; "
           "expected \"bytes\", "
           "a tokenizer.json or a folder");
}

/* Bytes do not say what a program's own tokens stand for. */
static void own_tokens_need_no_tokenizer(void **state)
{
    static const struct {
        const char *keys, *message;
    } cases[] = {
        { "model.vocab=50", "" },
        { "model.vocab=80", "" },
        { "model.vocab=49",
          "--set: model: vocab: 49: expected at least the 50 of the batches" },
        { "model.vocab=80 data.tokenizer=bytes",
          "--set: model: vocab: 80: expected at least the 256 tokens of "
          "bytes" },
    };
    static const char job[] = "[job]\nsteps = 1\n[model]\nlayers = 1\n"
                              "heads = 1\nwidth = 16\ncontext = 16\n";
    const struct dsflow_batches own = DSFLOW_BATCHES(.vocab = 50);

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *keys = dsf_xstrdup(cases[i].keys), *two = strchr(keys, ' ');
        const char *sets[2] = { keys, two + 1 };
        struct dsflow_err err = { .msg = "" };
        struct dsf_session s;

        if (two != NULL)
            *two = '\0';
        dsf_session_parse(&s, job, "job", sets, two != NULL ? 2 : 1, &own,
                          &err);
        assert_string_equal(err.msg, cases[i].message);
        dsf_session_close(&s);
        free(keys);
    }
}

static int make_models(void **state)
{
    if (make_small(state) < 0)
        return -1;
    make_model("own", 274, true);
    make_model("padded", 264, false);
    make_model("none", 1000, false);
    make_model("few", 100, false);
    make_model("broken", 274, false);
    write_text("broken/tokenizer.json", "{\"model\": 7}");
    make_subfolder("same");
    write_tokenizer("same/tokenizer.json");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(that_of_the_folder_is_taken_where_none_is_named),
        cmocka_unit_test(another_one_is_a_warning),
        cmocka_unit_test(a_model_of_other_tokens_is_a_warning),
        cmocka_unit_test(a_model_of_fewer_tokens_is_refused),
        cmocka_unit_test(a_tokenizer_that_cannot_be_read_is_named),
        cmocka_unit_test(own_tokens_need_no_tokenizer),
    };

    return cmocka_run_group_tests(tests, make_models, remove_small);
}
