/* test_export.c - a model that is exported is the one that is read again, with
 * its tokenizer. */
#include "small.h"

#include "policies/trained_weights.h"
#include "train/export.h"

/* The weights of the small job with these keys as a folder. */
static void export(const char *keys, const char *name, enum dsflow_dtype dtype)
{
    char *path = in_folder(name);
    struct dsf_params *params;
    struct dsf_session s;
    struct dsflow_err err;
    int64_t from;

    open_small(&s, TO_MODEL, keys);
    must(dsf_params_open(&s, DSF_START, &params, &from, &err), &err);
    must(dsf_export(&s,
                    &(struct dsf_export_spec){ .folder = path,
                                               .dtype = dtype,
                                               .read = dsf_params_read,
                                               .user = params },
                    &err),
         &err);
    dsf_params_close(params);
    dsf_session_close(&s);
    free(path);
}

/* The job that starts from that folder has the model and the tokens of the one
 * with `keys`. */
static void check_same(const char *keys, const char *name, float off)
{
    char *init = dsf_xasprintf("model.init=%s job.output=@/new", name);
    char *config = dsf_xasprintf("%s/generation_config.json", name);
    struct dsf_session was, now;
    struct dsflow_err err;
    float **all;
    int64_t updates;

    open_small(&was, TO_MODEL, keys);
    must(open_job(&now, TO_MODEL, "bare.toml", init, &err), &err);
    assert_true(dsf_tokenizer_same(was.tok, now.tok));
    assert_true(is_there(config));
    assert_int_equal(now.model.nunits, was.model.nunits);
    assert_int_equal(now.model.family, was.model.family);
    must(dsf_params_all(&now, DSF_START, &all, &updates, &err), &err);
    for (unsigned u = 0; u < was.model.nunits; u++) {
        float *want;

        must(dsf_unit_alloc(&was.model, u, &want, &err), &err);
        dsf_model_randomize(&was.model, u, 1, want);
        for (int64_t i = 0; i < was.model.units[u].elems; i++)
            assert_true(all[u][i] >= want[i] - off &&
                        all[u][i] <= want[i] + off);
        free(want);
    }
    dsf_params_free(&now, all);
    dsf_session_close(&now);
    dsf_session_close(&was);
    free(config);
    free(init);
}

static void what_is_exported_is_read_again(void **state)
{
    static const struct {
        const char *keys, *name;
        enum dsflow_dtype dtype;
        float off; /* numbers are below 2 */
    } cases[] = {
        { "", "@/bytes", DSFLOW_FP32, 0 },
        { "data.tokenizer=@/tokenizer.json", "@/own", DSFLOW_FP32, 0 },
        { "model.family=llama model.kv_heads=1", "@/llama", DSFLOW_FP32, 0 },
        { "", "@/half", DSFLOW_BF16, 0x1p-8f },
    };

    write_tokenizer("tokenizer.json");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        export(cases[i].keys, cases[i].name, cases[i].dtype);
        check_same(cases[i].keys, cases[i].name, cases[i].off);
    }
}

/* Weights as the job trains them, after so many updates. */
static void what_is_exported_is_what_was_trained(void **state)
{
    static const int64_t updates[] = { 2, 3 };

    for (int i = 0; i < 2; i++) {
        char *path = in_folder(i == 0 ? "@/exact" : "@/trained");
        char *init = dsf_xasprintf("model.init=%s job.output=@/new", path);
        struct dsf_session s, now;
        struct dsf_params *params;
        struct dsflow_err err;
        float **all, *want;
        int64_t n, moved = 0;

        open_small(&s, TO_MODEL,
                   "weights.quantize=ternary weights.group=16 "
                   "weights.quantize_from=3");
        must(dsf_params_open(&s, DSF_START, &params, &n, &err), &err);
        must(dsf_export(&s,
                        &(struct dsf_export_spec){ .folder = path,
                                                   .dtype = DSFLOW_FP32,
                                                   .updates = updates[i],
                                                   .read = dsf_params_read,
                                                   .user = params },
                        &err),
             &err);
        dsf_params_close(params);
        must(open_job(&now, TO_MODEL, "bare.toml", init, &err), &err);
        must(dsf_params_all(&now, DSF_START, &all, &n, &err), &err);
        for (unsigned u = 0; u < s.model.nunits; u++) {
            const int64_t elems = s.model.units[u].elems;

            must(dsf_unit_alloc(&s.model, u, &want, &err), &err);
            dsf_model_randomize(&s.model, u, 1, want);
            for (int64_t k = 0; k < elems; k++)
                moved += want[k] != all[u][k];
            dsf_trained_apply(s.job, &s.model, u, updates[i], want);
            assert_memory_equal(all[u], want, (size_t)elems * sizeof(*want));
            free(want);
        }
        assert_int_equal(moved > 0, i == 1);
        dsf_params_free(&now, all);
        dsf_session_close(&now);
        dsf_session_close(&s);
        free(init);
        free(path);
    }
}

static int fail_to_read(void *user, unsigned unit, float *to,
                        struct dsflow_err *err)
{
    if (unit == 1)
        return dsflow_fail(err, DSFLOW_EIO, "the disk is gone");
    memset(to, 0, *(const size_t *)user);
    return DSFLOW_OK;
}

static void a_folder_appears_whole_or_not_at_all(void **state)
{
    char *path = in_folder("@/half-done"), *there = in_folder("@/there");
    struct dsf_session s;
    struct dsflow_err err;
    size_t bytes;
    struct dsf_export_spec spec = { .folder = path,
                                    .dtype = DSFLOW_FP32,
                                    .read = fail_to_read,
                                    .user = &bytes };

    open_small(&s, TO_MODEL, "");
    bytes = (size_t)s.model.units[0].elems * sizeof(float);
    assert_int_equal(dsf_export(&s, &spec, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "the disk is gone");
    assert_false(is_there("@/half-done"));
    make_subfolder("there");
    write_text("there/mine.txt", "mine");
    /* Before anything is read or written. */
    spec.folder = there;
    assert_int_equal(dsf_export(&s, &spec, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "there: Directory not empty: expected a "
                                    "new or empty folder"));
    assert_true(is_there("@/there/mine.txt"));
    assert_false(is_there("@/there/config.json"));
    dsf_session_close(&s);
    free(there);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_exported_is_read_again),
        cmocka_unit_test(what_is_exported_is_what_was_trained),
        cmocka_unit_test(a_folder_appears_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
