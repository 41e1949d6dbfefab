/* test_joined.c - tensors out of what tensor ranks have of them: patterns of
 * names, shares of any widths, and files of ZeRO that are split from a model
 * and are the model again. */
#include "foreign/megatron.h"
#include "foreign/merge.h"
#include "foreign/pattern.h"
#include "foreign/zero.h"

#include "unit/foreign/truth.h"

#include <math.h>

/* --- patterns ------------------------------------------------------------- */

static void patterns_match_as_pythons_do(void **state)
{
    static const struct {
        const char *pattern, *text;
        int found;
    } table[] = {
        { "^model\\.norm\\.weight$", "model.norm.weight", 1 },
        { "^model\\.norm\\.weight$", "model.norm.weights", 0 },
        { "^model\\.norm\\.weight$", "model.normxweight", 0 },
        { "model.norm", "model.norm.weight", 1 }, /* it is a beginning */
        { "norm", "model.norm.weight", 0 },
        { "\\d+.self_attention.dense.weight", "12.self_attention.dense.weight",
          1 },
        { "\\d+.self_attention.dense.weight", ".self_attention.dense.weight",
          0 },
        { ".*\\.experts\\.w[123]$", "a.experts.w2", 1 },
        { ".*\\.experts\\.w[123]$", "a.experts.w4", 0 },
        { ".*[^a-y.]$", "abcz", 1 },
        { ".*[^a-y.]$", "abcy", 0 },
        { "[]x]+$", "]x]", 1 },
        { "ab?c*d+$", "addd", 1 },
        { "ab?c*d+$", "abbd", 0 },
        { "a.*?b$", "aXbXb", 1 },
        { "x|tied_\\w+\\.w$", "tied_9_a.w", 1 },
        { "x$|y$", "xy", 0 },
        { "", "anything", 1 },
        { "$", "", 1 },
        /* What takes others long. */
        { "a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b$",
          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (dsf_pattern_match(table[i].pattern, table[i].text, &err) !=
            table[i].found)
            fail_msg("%s and %s: not %d", table[i].pattern, table[i].text,
                     table[i].found);
}

static void patterns_that_are_not_known_are_refused(void **state)
{
    static const struct {
        const char *pattern, *says;
    } table[] = {
        { "(a|b)", "(a|b): character 1: a group or a count" },
        { "a{2}", "character 2: a group" },
        { "a**", "character 3: a group" },
        { "a$b", "character 2: an end in the middle" },
        { "a^", "character 2: an end in the middle" },
        { "a\\", "character 3: a \\ at the end" },
        { "\\bword", "character 2: an escape" },
        { "[a-", "character 4: a [ without its ]" },
        { "[\\", "a \\ at the end" },
        { "x|(", "character 3: a group" },
    };
    char many[1000];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        assert_int_equal(dsf_pattern_match(table[i].pattern, "a", &err),
                         DSFLOW_EINVAL);
        if (strstr(err.msg, table[i].says) == NULL)
            fail_msg("%s: says %s", table[i].pattern, err.msg);
    }
    memset(many, 'a', sizeof(many));
    many[sizeof(many) - 1] = '\0';
    assert_int_equal(dsf_pattern_match(many, "a", &err), DSFLOW_EINVAL);
}

/* --- shares --------------------------------------------------------------- */

static uint32_t drawn = 1;

static unsigned draw(unsigned n)
{
    drawn = drawn * 1664525 + 1013904223;
    return (drawn >> 8) % n;
}

/* What each rank has, as arrays. */
struct split {
    float *v[8];
    int64_t n[8];
};

static int read_split(void *of, int rank, int64_t at, int64_t n, float *to,
                      struct dsflow_err *e)
{
    const struct split *s = of;

    (void)e;
    assert_true(at >= 0 && n > 0 && at + n <= s->n[rank]);
    memcpy(to, s->v[rank] + at, (size_t)n * sizeof(*to));
    return DSFLOW_OK;
}

/* [outer][parts of all ranks][inner] of the numbers 0, 1, …, split element by
 * element: of each of the blocks, rank after rank. */
static void split(const struct dsf_merge *m, struct split *s)
{
    int64_t value = 0;

    for (int r = 0; r < m->ranks; r++) {
        s->n[r] = m->outer * dsf_merge_share(m, r) * m->inner;
        s->v[r] = dsf_xcalloc((size_t)s->n[r] + 1, sizeof(float));
    }
    for (int64_t o = 0; o < m->outer; o++)
        for (unsigned b = 0; b < m->blocks; b++)
            for (int r = 0; r < m->ranks; r++) {
                int64_t before = 0;
                int64_t w = m->widths[b * (unsigned)m->ranks + (unsigned)r];

                for (unsigned c = 0; c < b; c++)
                    before += m->widths[c * (unsigned)m->ranks + (unsigned)r];
                for (int64_t i = 0; i < w * m->inner; i++)
                    s->v[r][(o * dsf_merge_share(m, r) + before) * m->inner +
                            i] = (float)value++;
            }
}

static void what_was_split_is_merged(void **state)
{
    for (int trial = 0; trial < 400; trial++) {
        const int64_t dims[3] = { draw(5) + 1, draw(30) + 1, draw(5) + 1 };
        struct dsf_merge m;
        struct split s;
        int64_t n, done = 0;
        float *got;

        dsf_merge_join(&m, (int)draw(4) + 1, draw(3) + 1, 1, 3, dims);
        for (unsigned i = 0; i < (unsigned)m.ranks * m.blocks; i++)
            m.widths[i] = draw(6); /* none of some */
        m.widths[0]++;
        split(&m, &s);
        n = m.outer * dsf_merge_length(&m) * m.inner;
        got = dsf_xcalloc((size_t)n, sizeof(*got));
        while (done < n) {
            int64_t k = draw(3) == 0 ? n : draw(40) + 1;

            k = k < n - done ? k : n - done;
            assert_int_equal(
                dsf_merge_read(&m, read_split, &s, done, k, got + done, &err),
                DSFLOW_OK);
            done += k;
        }
        for (int64_t i = 0; i < n; i++)
            assert_true(got[i] == (float)i);
        for (int r = 0; r < m.ranks; r++)
            free(s.v[r]);
        free(got);
        dsf_merge_fini(&m);
    }
}

static void copies_are_compared_or_averaged(void **state)
{
    enum { N = 100000 };
    struct split s;
    struct dsf_merge m = { .ranks = 3 };
    float *got = dsf_xcalloc(N, sizeof(*got));

    for (int r = 0; r < 3; r++) {
        s.n[r] = N;
        s.v[r] = dsf_xcalloc(N, sizeof(float));
        for (int i = 0; i < N; i++)
            s.v[r][i] = (float)i;
    }
    m.kind = DSF_MERGE_SAME;
    assert_int_equal(dsf_merge_read(&m, read_split, &s, 0, N, got, &err), 0);
    assert_memory_equal(got, s.v[0], N * sizeof(float));
    s.v[2][70000] += 9;
    assert_int_equal(dsf_merge_read(&m, read_split, &s, 3, N - 3, got, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "element 70000 is 70000 on tensor rank 0 and "
                                 "70009 on 2: expected that all have the same");
    m.kind = DSF_MERGE_AVERAGE;
    assert_int_equal(dsf_merge_read(&m, read_split, &s, 3, N - 3, got, &err),
                     0);
    assert_true(got[70000 - 3] == 70003 && got[0] == 3);
    m.kind = DSF_MERGE_FIRST;
    assert_int_equal(dsf_merge_read(&m, read_split, &s, 70000, 1, got, &err),
                     0);
    assert_true(got[0] == 70000);
    for (int r = 0; r < 3; r++)
        free(s.v[r]);
    free(got);
}

/* --- files of ZeRO -------------------------------------------------------- */

/* How the files of ZeRO are made of a model. */
struct zero {
    int stage, data;
    bool pipeline; /* names are those of layers by number */
    bool said;     /* there is universal_checkpoint_info */
    const char *wrong;
};

/* The name of Megatron-LM as a layer of a pipeline has it. */
static char *number_layer(const char *name, int layers)
{
    const char *at = strstr(name, "layers."), *rest;

    if (strstr(name, "word_embeddings.weight") != NULL)
        return dsf_xstrdup("tied_modules.embed.word_embeddings.weight");
    if (strstr(name, "position_embeddings.weight") != NULL)
        return dsf_xstrdup("tied_modules.embed.position_embeddings.weight");
    if (at != NULL) {
        rest = strchr(at + 7, '.') + 1;
        return dsf_xasprintf("%d.%s", atoi(at + 7) + 2, rest);
    }
    rest = strrchr(name, '.') + 1;
    return dsf_xasprintf("%d.%s", layers + 3, rest);
}

/* Of a stage: the parameters, with layers numbered through all stages. */
static void list_stage(const struct shards *s, const struct zero *z, int stage,
                       struct params *p)
{
    int each = s->model->layers / s->stages, n = 0;

    add_stage(s, p, stage, 0);
    for (int i = 0; i < p->n; i++) {
        const char *at = strstr(p->name[i], "layers.");
        char *name = dsf_xstrdup(p->name[i]), *numbered;

        if (strstr(name, "word_embeddings_for_head") != NULL) {
            free(name);
            continue; /* tied: the first stage has it */
        }
        if (at != NULL) {
            free(name);
            name = dsf_xasprintf("%.*slayers.%d%s", (int)(at - p->name[i]),
                                 p->name[i], atoi(at + 7) + stage * each,
                                 strchr(at + 7, '.'));
        }
        numbered = z->pipeline ? number_layer(name, s->model->layers)
                               : dsf_xstrdup(name);
        p->shape[n] = p->shape[i];
        snprintf(p->name[n++], sizeof(p->name[0]), "%s", numbered);
        free(numbered);
        free(name);
    }
    p->n = n;
}

static int64_t elems_of(const struct shape *w)
{
    return w->rows * (w->cols > 0 ? w->cols : 1);
}

/* What rank `d` of data has of all parameters of a model rank: in stages 1 and
 * 2 a part of the vector of all, in stage 3 a share of each. */
static float *shares(const struct shards *s, const struct zero *z,
                     const struct params *p, int state, int rank, int d,
                     int64_t *n)
{
    int64_t all = 0, each, at = 0;
    float *whole, *mine;

    for (int i = 0; i < p->n; i++)
        all += elems_of(&p->shape[i]) + z->data;
    each = (all / z->data + 2) / 2 * 2;
    whole = dsf_xcalloc((size_t)(each * z->data), sizeof(*whole));
    mine = dsf_xcalloc((size_t)each, sizeof(*mine));
    *n = z->stage == 3 ? 0 : each;
    for (int i = 0; i < p->n; i++) {
        const struct shape *w = &p->shape[i];
        int64_t cols = w->cols > 0 ? w->cols : 1, k = elems_of(w);
        int64_t share = (k + z->data - 1) / z->data;

        for (int64_t e = 0; e < k; e++)
            whole[at + e] = element(s, w, state, rank, e / cols, e % cols);
        for (int64_t e = 0; z->stage == 3 && e < share; e++, (*n)++)
            mine[*n] = d * share + e < k ? whole[at + d * share + e] : 0;
        at += z->stage == 3 ? 0 : k;
    }
    if (z->stage < 3)
        memcpy(mine, whole + d * each, (size_t)each * sizeof(*mine));
    free(whole);
    return mine;
}

static void put_shares(const struct shards *s, const struct zero *z,
                       struct torch_out *o, const struct params *p, int state,
                       int rank, int d)
{
    int64_t n;
    float *v = shares(s, z, p, state, rank, d, &n);

    put_tensor(o, 1, &n, v, false);
    free(v);
}

static void put_strs(struct torch_out *o, const char *key,
                     const char *const *list)
{
    put_str(o, key);
    begin_list(o);
    for (; *list != NULL; list++)
        put_str(o, *list);
    end_list(o);
}

/* As Megatron-DeepSpeed and AutoTP say it. */
static void put_info(const struct shards *s, const struct zero *z,
                     struct torch_out *o)
{
    const char *const rows[] = { ".*self_attention\\.dense\\.weight$",
                                 ".*mlp\\.dense_4h_to_h\\.weight", NULL };
    const char *const same[] = {
        ".*position_embeddings\\.weight",   ".*layernorm\\.\\w+$",
        ".*self_attention\\.dense\\.bias$", ".*mlp\\.dense_4h_to_h\\.bias$",
        "\\d+\\.weight$|\\d+\\.bias$",      NULL
    };
    const char *const words[] = { ".*word_embeddings\\.weight$",
                                  ".*output_layer\\.weight$", NULL };
    const char *const two[] = { ".*mlp\\.dense_h_to_4h\\.\\w+$", NULL };
    const struct dsf_dims *d = &s->model->dims;

    put_str(o, "universal_checkpoint_info");
    begin_dict(o);
    put_str(o, "universal_checkpoint_version");
    put_real(o, 0.2);
    put_str(o, "original_vocab_size");
    put_int(o, d->vocab);
    put_strs(o, "parameter_with_row_parallelism_patterns", rows);
    put_strs(o, "tp_replicated_parameter_patterns", same);
    put_strs(o, "vocabulary_parameter_patterns", words);
    if (d->swiglu)
        put_strs(o, "parameter_with_2_sub_params_cat_dim_0", two);
    if (s->version == 0) { /* queries, keys, values */
        put_str(o, "parameter_with_sub_params");
        begin_list(o);
        begin_dict(o);
        put_str(o, "patterns");
        begin_list(o);
        put_str(o, ".*query_key_value\\.weight$");
        put_str(o, ".*query_key_value\\.bias$");
        end_list(o);
        put_str(o, "shape");
        begin_list(o);
        put_int(o, 3);
        put_int(o, -1);
        end_list(o);
        put_str(o, "partition_dim");
        put_int(o, 0);
        end_dict(o);
        end_list(o);
    }
    if (z->wrong != NULL) {
        put_str(o, "parameter_to_average_patterns");
        begin_list(o);
        put_str(o, z->wrong);
        end_list(o);
    }
    end_dict(o);
}

static void write_model_rank(const struct shards *s, const struct zero *z,
                             const char *to, int tensor, int stage)
{
    static struct params p;
    int of = stage * s->tensor + tensor;
    char path[300], data[40];
    struct torch_out o;

    list_stage(s, z, stage, &p);
    for (int d = 0; d < z->data; d++) {
        if (d == 0 || z->stage == 3) {
            snprintf(data, sizeof(data), "zero_pp_rank_%d_", d);
            snprintf(path, sizeof(path), "%s/%smp_rank_%02d_model_states.pt",
                     to, z->stage == 3 ? data : "", of);
            torch_begin(&o);
            begin_dict(&o);
            put_str(&o, "checkpoint_version");
            put_real(&o, s->version);
            put_str(&o, "checkpoint_parallel_dimensions");
            begin_dict(&o);
            put_str(&o, "tp_degree");
            put_int(&o, s->tensor);
            end_dict(&o);
            put_str(&o, "global_steps");
            put_int(&o, 90);
            put_str(&o, "module");
            begin_dict(&o);
            end_dict(&o);
            put_str(&o, "param_shapes");
            begin_list(&o);
            begin_dict(&o);
            for (int i = 0; i < p.n; i++) {
                const int64_t dims[2] = { p.shape[i].rows, p.shape[i].cols };

                put_str(&o, p.name[i]);
                put_ints(&o, dims, p.shape[i].cols > 0 ? 2 : 1);
            }
            end_dict(&o);
            end_list(&o);
            if (z->said)
                put_info(s, z, &o);
            end_dict(&o);
            torch_end(&o, path);
        }
        snprintf(path, sizeof(path),
                 "%s/zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", to, d, of);
        torch_begin(&o);
        begin_dict(&o);
        put_str(&o, "optimizer_state_dict");
        begin_dict(&o);
        put_str(&o, "zero_stage");
        put_int(&o, z->stage);
        put_str(&o, "partition_count");
        put_int(&o, z->data);
        put_str(&o, z->stage == 3 ? "fp32_flat_groups"
                                  : "single_partition_of_fp32_groups");
        begin_list(&o);
        put_shares(s, z, &o, &p, 0, tensor, d);
        end_list(&o);
        put_str(&o, z->stage == 3 ? "optimizer_state_dict"
                                  : "base_optimizer_state");
        begin_dict(&o);
        put_str(&o, "state");
        begin_dict(&o);
        put_int(&o, 0);
        begin_dict(&o);
        put_str(&o, "step");
        put_int(&o, 90);
        put_str(&o, "exp_avg");
        put_shares(s, z, &o, &p, 1, tensor, d);
        put_str(&o, "exp_avg_sq");
        put_shares(s, z, &o, &p, 2, tensor, d);
        end_dict(&o);
        end_dict(&o);
        put_str(&o, "param_groups");
        begin_list(&o);
        begin_dict(&o);
        put_str(&o, "params");
        begin_list(&o);
        put_int(&o, 0);
        end_list(&o);
        end_dict(&o);
        end_list(&o);
        end_dict(&o);
        end_dict(&o);
        end_dict(&o);
        torch_end(&o, path);
    }
}

/* Written into `path`. */
static void write_zero(struct shards *s, const struct zero *z, const char *text,
                       char path[100])
{
    make_model(text);
    s->model = &model;
    s->chunks = 1;
    s->skip_rank = -1;
    make_truth(s);
    snprintf(path, 100, "%s/zero", folder);
    mkdir(path, 0777);
    for (int t = 0; t < s->tensor; t++)
        for (int p = 0; p < s->stages; p++)
            write_model_rank(s, z, path, t, p);
}

static void files_that_were_split_are_the_model(void **state)
{
    static const struct {
        double version;
        int tensor, stages;
        const char *text;
        struct zero z;
    } table[] = {
        { 0, 2, 1, gpt2, { 1, 2, false, false, NULL } },
        { 0, 4, 1, gpt2, { 3, 3, false, true, NULL } },
        { 1, 2, 1, gpt2, { 2, 1, false, false, NULL } },
        { 3, 4, 1, llama, { 2, 2, false, false, NULL } },
        { 3, 4, 1, llama, { 3, 2, false, true, NULL } },
        { 3, 2, 1, qwen, { 1, 3, false, true, NULL } },
        { 3, 2, 1, qwen, { 3, 2, false, false, NULL } },
        { 3, 2, 2, gpt2, { 1, 2, true, false, NULL } },
        { 3, 4, 2, gpt2, { 1, 1, true, true, NULL } },
        { 3, 2, 4, gpt2, { 3, 2, true, true, NULL } },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct shards s = { .version = table[i].version,
                            .style = LATER,
                            .tensor = table[i].tensor,
                            .stages = table[i].stages,
                            .padding = 3 };
        char path[100], what[100];

        write_zero(&s, &table[i].z, table[i].text, path);
        if (dsf_zero_open(path, NULL, false, &source, &err) < 0)
            fail_msg("%zu: %s", i, err.msg);
        dsf_megatron_recognize(&source, path, NULL);
        snprintf(what, sizeof(what), ", %d tensor ranks", s.tensor);
        assert_non_null(strstr(source.what, what));
        assert_int_equal(source.steps, 90);
        assert_int_equal(source.updates, 90);
        check_all(&s, 3);
        free_truth(&s);
        end_shards();
    }
}

/* The mean of what differs; nothing that says how; a rank that lacks files. */
static void what_cannot_be_joined_is_refused(void **state)
{
    static const struct {
        struct zero z;
        const char *says;
    } table[] = {
        { { 1, 1, false, true, "(" }, "parameter_to_average_patterns" },
        { { 1, 1, false, true, ".*query_key_value.weight" }, NULL },
    };
    struct shards s = {
        .version = 3, .style = LATER, .tensor = 2, .stages = 1, .padding = 3
    };
    char path[100], file[200];

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        write_zero(&s, &table[i].z, gpt2, path);
        if (table[i].says != NULL) {
            assert_true(dsf_zero_open(path, NULL, false, &source, &err) < 0);
            if (strstr(err.msg, table[i].says) == NULL)
                fail_msg("says: %s", err.msg);
        } else { /* the mean has the shape of one */
            struct dsf_matches matches;

            assert_int_equal(dsf_zero_open(path, NULL, false, &source, &err),
                             0);
            nsaid = 0;
            assert_true(dsf_match_all(&source, &model, 3, false, &matches, note,
                                      NULL) > 0);
            dsf_matches_fini(&matches);
        }
        free_truth(&s);
        end_shards();
    }
    write_zero(&s, &(struct zero){ 1, 1, false, false, NULL }, gpt2, path);
    snprintf(file, sizeof(file), "%s/zero_pp_rank_0_mp_rank_01_optim_states.pt",
             path);
    assert_int_equal(remove(file), 0);
    assert_true(dsf_zero_open(path, NULL, false, &source, &err) < 0);
    if (strstr(err.msg, "zero: ") == NULL)
        fail_msg("says: %s", err.msg);
    free_truth(&s);
    end_shards();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_pythons_do),
        cmocka_unit_test(patterns_that_are_not_known_are_refused),
        cmocka_unit_test(what_was_split_is_merged),
        cmocka_unit_test(copies_are_compared_or_averaged),
        cmocka_unit_test(files_that_were_split_are_the_model),
        cmocka_unit_test(what_cannot_be_joined_is_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
