/* test_megatron.c - checkpoints of Megatron-LM: what tensor ranks and stages
 * have is the model again, of every version; what does not fit is named. */
#include "foreign/megatron.h"

#include "unit/foreign/truth.h"

#include <unistd.h>

static void open_source(const char *path, const char *tag, bool weights_only)
{
    if (dsf_megatron_open(path, tag, weights_only, &source, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Written, read, and the same. */
static void check_shards(struct shards *s, const char *text)
{
    unsigned states = s->optimizer ? 3 : 1;
    char path[100];

    make_model(text);
    s->model = &model;
    s->chunks = s->chunks > 0 ? s->chunks : 1;
    s->skip_rank = -1;
    make_truth(s);
    snprintf(path, sizeof(path), "%s/run", folder);
    write_shards(s, path);
    if (s->deepspeed)
        strcat(path, "/iter_0000100");
    assert_true(s->deepspeed || dsf_megatron_is(path));
    open_source(path, NULL, !s->optimizer);
    check_all(s, states);
    free_truth(s);
}

static void write_text(const char *name, const char *text)
{
    char path[200];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* --- versions and ranks --------------------------------------------------- */

static void every_version_is_merged_from_1_2_and_4_ranks(void **state)
{
    static const struct {
        double version;
        enum style style;
    } versions[] = {
        { 0, FIRST }, { 1, FIRST }, { 2, LATER },
        { 3, LATER }, { 3, CORE },  { 3, ENGINE },
    };

    for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
        for (int tensor = 1; tensor <= 4; tensor *= 2) {
            struct shards s = { .version = versions[v].version,
                                .style = versions[v].style,
                                .tensor = tensor,
                                .stages = 1,
                                .padding = 3,
                                .args = tensor > 1 };

            check_shards(&s, gpt2);
            assert_int_equal(source.names, DSF_NAMES_MEGATRON);
            assert_int_equal(source.steps, 100);
            assert_int_equal(source.samples, tensor > 1 ? 800 : -1);
            end_shards();
        }
}

static void grouped_queries_and_gates_are_merged(void **state)
{
    for (int style = LATER; style <= ENGINE; style++)
        for (int tensor = 1; tensor <= 4; tensor *= 2) {
            struct shards s = { .version = 3,
                                .style = (enum style)style,
                                .tensor = tensor,
                                .stages = 1,
                                .padding = 3,
                                .args = true };

            check_shards(&s, llama);
            end_shards();
            check_shards(&s, qwen);
            end_shards();
        }
}

static void stages_and_their_chunks_follow_each_other(void **state)
{
    static const struct {
        enum style style;
        int tensor, stages, chunks;
        const char *text;
    } table[] = {
        { LATER, 1, 2, 1, gpt2 }, { FIRST, 2, 4, 1, gpt2 },
        { CORE, 2, 2, 2, gpt2 },  { ENGINE, 4, 2, 1, llama },
        { CORE, 1, 2, 2, llama }, { CORE, 2, 2, 1, qwen },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct shards s = { .version = 3,
                            .style = table[i].style,
                            .tensor = table[i].tensor,
                            .stages = table[i].stages,
                            .chunks = table[i].chunks,
                            .padding = 3,
                            .args = true };

        check_shards(&s, table[i].text);
        end_shards();
    }
}

static void files_of_deepspeed_are_read_the_same_way(void **state)
{
    struct shards s = { .version = 1,
                        .style = LATER,
                        .tensor = 2,
                        .stages = 1,
                        .padding = 3,
                        .deepspeed = true };
    struct dsf_source of_zero;
    char path[100], whole[200];

    check_shards(&s, gpt2);
    snprintf(path, sizeof(path), "%s/run", folder);
    write_text("run/latest", "iter_0000100");
    snprintf(whole, sizeof(whole), "%s/run/latest_checkpointed_iteration.txt",
             folder);
    unlink(whole);
    assert_true(dsf_megatron_is_in_deepspeed(path, NULL));
    assert_true(dsf_megatron_is_in_deepspeed(path, "iter_0000100"));
    assert_false(dsf_megatron_is_in_deepspeed(path, "iter_0000200"));
    assert_false(dsf_megatron_is_in_deepspeed(folder, NULL));
    /* As zero.h would have found them. */
    dsf_source_init(&of_zero, path);
    dsf_source_add(&of_zero, "transformer.h.0.attn.c_attn.weight");
    dsf_megatron_recognize(&of_zero, path, NULL);
    assert_int_equal(of_zero.names, DSF_NAMES_HF);
    dsf_source_add(&of_zero, "module.language_model.encoder.layers.0."
                             "self_attention.query_key_value.weight");
    dsf_megatron_recognize(&of_zero, path, NULL);
    assert_int_equal(of_zero.names, DSF_NAMES_MEGATRON);
    assert_int_equal(of_zero.qkv, 1);
    assert_true(of_zero.padded_vocabulary);
    dsf_source_fini(&of_zero);
    end_shards();
}

/* --- the optimizer -------------------------------------------------------- */

static void
masters_and_moments_are_found_in_the_order_of_the_model(void **state)
{
    for (int half = 0; half < 2; half++)
        for (int one = 0; one < 2; one++)
            for (int stages = 1; stages <= 2; stages++) {
                struct shards s = { .version = 3,
                                    .style = one ? CORE : LATER,
                                    .tensor = 2,
                                    .stages = stages,
                                    .chunks = stages,
                                    .padding = 3,
                                    .half = half,
                                    .one_group = one,
                                    .optimizer = true,
                                    .args = true };

                check_shards(&s, one ? llama : gpt2);
                assert_int_equal(source.updates, 90);
                assert_int_equal(source.skipped, 10);
                assert_true(source.lr == 1.5e-4);
                assert_string_equal(source.optimizer, "Adam");
                assert_int_equal(source.scale.is_there, half);
                if (half) {
                    assert_true(source.scale.scale == 1024);
                    assert_int_equal(source.scale.hysteresis, 2);
                }
                end_shards();
            }
}

/* --- what is wrong -------------------------------------------------------- */

/* Written, and refused with a message that begins with the folder. */
static void assert_refused(struct shards *s, const char *text,
                           const char *wanted)
{
    char path[100];

    make_model(text);
    s->model = &model;
    s->chunks = s->chunks > 0 ? s->chunks : 1;
    make_truth(s);
    snprintf(path, sizeof(path), "%s/run", folder);
    write_shards(s, path);
    free_truth(s);
    if (dsf_megatron_open(path, NULL, false, &source, &err) == DSFLOW_OK)
        fail_msg("is not refused: %s", wanted);
    if (strstr(err.msg, wanted) == NULL || strncmp(err.msg, folder, 5) != 0)
        fail_msg("says: %s\nnot: %s", err.msg, wanted);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
    remove_folder(NULL);
    make_folder(NULL);
}

static void files_that_do_not_make_a_model_are_refused(void **state)
{
    struct shards s = { .version = 4, .tensor = 1, .stages = 1 };

    assert_refused(&s, gpt2, "checkpoint_version: 4: expected 0, 1, 2 or 3");
    s.version = 3;
    s.args = true;
    s.experts = 8;
    assert_refused(&s, gpt2,
                   "args.num_experts: 8: dsflow does not have mixtures of "
                   "experts");
    s.experts = 0;
    s.ranks_of_args = 3;
    assert_refused(&s, gpt2,
                   "/mp_rank_01/model_optim_rng.pt: is not there: expected a "
                   "file of each of 3 tensor ranks and 1 stages, as args say");
    s.ranks_of_args = 0;
    s.tensor = 2;
    s.left_out = "layers.1.mlp.dense_h_to_4h.bias";
    s.skip_rank = 1;
    assert_refused(&s, gpt2,
                   "layers.1.mlp.dense_h_to_4h.bias: tensor rank 1 does not "
                   "have it");
    s.skip_rank = 0;
    assert_refused(&s, gpt2, "tensor rank 0 does not have it");
}

static void states_that_are_not_those_of_the_model_are_refused(void **state)
{
    struct shards s = { .version = 3,
                        .style = LATER,
                        .tensor = 1,
                        .stages = 1,
                        .optimizer = true,
                        .skip_rank = -1,
                        .left_out = "layers.2.self_attention.dense.weight" };

    assert_refused(&s, gpt2, "--weights-only goes on without the state of the");
    s.left_out = NULL;
    s.optimizer = false;
    assert_refused(&s, gpt2,
                   "mp_rank_00/model_optim_rng.pt: has no state of the "
                   "optimizer: --weights-only begins a run with the weights");
    s.optimizer = true;
    s.extra = "more.weight";
    assert_refused(&s, gpt2, "the model has 53; --weights-only goes on");
}

static void assert_no_folder(const char *path, const char *tag,
                             const char *wanted)
{
    char whole[200];

    snprintf(whole, sizeof(whole), "%s%s", folder, path);
    assert_int_equal(dsf_megatron_open(whole, tag, false, &source, &err),
                     DSFLOW_EINVAL);
    if (strstr(err.msg, wanted) == NULL)
        fail_msg("says: %s\nnot: %s", err.msg, wanted);
}

static void folders_are_refused_by_what_is_in_them(void **state)
{
    char path[100];

    assert_no_folder("", NULL,
                     "has no mp_rank_00 of a checkpoint of Megatron-LM "
                     "and no latest_checkpointed_iteration.txt");
    assert_no_folder("/none", NULL, "there is no such folder");
    write_text("latest_checkpointed_iteration.txt", "seven");
    assert_no_folder("", NULL, "seven: expected the number of an iteration");
    write_text("latest_checkpointed_iteration.txt", "7\n");
    assert_no_folder("", NULL, "/iter_0000007: there is no such folder");
    assert_no_folder("", "../x", "--tag: ../x: expected the name of a folder");
    snprintf(path, sizeof(path), "%s/iter_0000007", folder);
    mkdir(path, 0777);
    assert_no_folder("", NULL, "iter_0000007: has no mp_rank_00: expected");
    write_text("iter_0000007/__0_0.distcp", "");
    assert_no_folder(
        "", NULL,
        "iter_0000007: is a torch_dist checkpoint (.distcp), which "
        "is not read: have Megatron-LM write it as torch");
    remove_folder(NULL);
    make_folder(NULL);
}

/* All that is wrong with one model, for a job of another. */
static void what_does_not_fit_a_job_is_all_named(void **state)
{
    struct shards s = { .version = 3,
                        .style = LATER,
                        .tensor = 2,
                        .stages = 1,
                        .padding = 3,
                        .args = true,
                        .extra = "lm_head.dense.weight" };
    static const char other[] =
        "[job]\nname = \"t\"\nsteps = 1\n[data]\ntrain = "
        "\"t\"\n[model]\nfamily = \"gpt2\"\nlayers = 4\nheads = 6\nwidth = 24\n"
        "context = 12\nvocab = 37\n";
    struct dsf_matches matches;
    struct dsf_job other_job;
    struct dsf_model other_model;

    check_shards(&(struct shards){ .version = 3,
                                   .style = LATER,
                                   .tensor = 2,
                                   .stages = 1,
                                   .padding = 3,
                                   .args = true },
                 gpt2);
    end_shards();
    make_model(gpt2);
    s.model = &model;
    s.chunks = 1;
    s.skip_rank = -1;
    s.left_out = "layers.3.mlp.dense_4h_to_h.bias";
    make_truth(&s);
    write_shards(&s, folder);
    free_truth(&s);
    open_source(folder, "iter_0000100", true);
    assert_int_equal(dsf_job_parse(other, strlen(other), "job.toml", NULL, 0,
                                   NULL, &other_job, &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_model_init(&other_model, &other_job, &err), DSFLOW_OK);
    nsaid = 0;
    assert_int_equal(
        dsf_match_all(&source, &other_model, 1, false, &matches, note, NULL),
        5);
    assert_string_equal(
        said[0], "language_model.embedding.position_embeddings.weight: shape "
                 "[10, 24]: the model of the job makes it [12, 24]");
    assert_string_equal(said[1], "layers.3.mlp.dense_4h_to_h.bias: is missing");
    assert_string_equal(said[2], "lm_head.dense.weight: [1]: the model of the "
                                 "job has no place for it");
    assert_non_null(strstr(said[3], "mp_rank_00/model_optim_rng.pt: "
                                    "args.num_attention_heads: 4: the job has "
                                    "model.heads = 6"));
    assert_non_null(strstr(said[4], "args.max_position_embeddings: 10: the job "
                                    "has model.context = 12"));
    dsf_matches_fini(&matches);
    dsf_model_fini(&other_model);
    dsf_job_fini(&other_job);
    end_shards();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_is_merged_from_1_2_and_4_ranks),
        cmocka_unit_test(grouped_queries_and_gates_are_merged),
        cmocka_unit_test(stages_and_their_chunks_follow_each_other),
        cmocka_unit_test(files_of_deepspeed_are_read_the_same_way),
        cmocka_unit_test(
            masters_and_moments_are_found_in_the_order_of_the_model),
        cmocka_unit_test(files_that_do_not_make_a_model_are_refused),
        cmocka_unit_test(states_that_are_not_those_of_the_model_are_refused),
        cmocka_unit_test(folders_are_refused_by_what_is_in_them),
        cmocka_unit_test(what_does_not_fit_a_job_is_all_named),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
