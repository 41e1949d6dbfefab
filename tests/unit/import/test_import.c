/* test_import.c - jobs out of configurations of DeepSpeed. */
#include "import/ds_config.h"
#include "import/ds_keys.h"
#include "import/relaxed_json.h"

#include "base/alloc.h"
#include "config/job.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "tasks/components.h"
#include "unit/import/one_import.h"

#include <math.h>

/* --- JSON, more or less --------------------------------------------------- */

static void comments_and_last_commas_are_blank(void **state)
{
    static const char text[] = "// of \"ours\"\n"
                               "{ /* two\n lines */ \"a\": [1, 2,], # one\n"
                               "  \"b/*no*/\": \"// \\\" #,}\",\n"
                               "  \"c\": {\n    \"d\": true,\n  },\n}\n";
    struct dsf_relaxed r;

    write_file("a.json", text);
    assert_int_equal(dsf_relaxed_load("a.json", &r, &did.err), DSFLOW_OK);
    assert_int_equal(json_array_size(dsf_relaxed_get(&r, "a")), 2);
    assert_string_equal(json_string_value(dsf_relaxed_get(&r, "b/*no*/")),
                        "// \" #,}");
    assert_true(json_is_true(dsf_relaxed_get(&r, "c.d")));
    assert_null(dsf_relaxed_get(&r, "c.d.e"));
    assert_null(dsf_relaxed_get(&r, "d"));
    assert_int_equal(dsf_relaxed_line(&r, "a"), 3);
    assert_int_equal(dsf_relaxed_line(&r, "b/*no*/"), 4);
    assert_int_equal(dsf_relaxed_line(&r, "c.d"), 6);
    assert_int_equal(dsf_relaxed_line(&r, "c.e"), 0);
    dsf_relaxed_fini(&r);
}

static void assert_not_json(const char *text, const char *msg)
{
    struct dsf_relaxed r;

    write_file("a.json", text);
    assert_int_equal(dsf_relaxed_load("a.json", &r, &did.err), DSFLOW_EINVAL);
    if (strstr(did.err.msg, msg) == NULL)
        fail_msg("%s: not \"%s\"", did.err.msg, msg);
}

static void what_is_no_json_is_named_with_its_line(void **state)
{
    assert_not_json("{\"a\": 1,\n\"b\": ,}", "a.json:2: ");
    assert_not_json("{\"a\": 1,\n\n\"a\": 2}", "duplicate object key");
    assert_not_json("{\"a\": /* open", "a.json:1: ");
    assert_not_json("{\"a\": \"open", "a.json:1: ");
    assert_not_json("[1]", "a.json: expected an object, {…}");
    assert_not_json("", "a.json: is empty");
}

/* --- the table ------------------------------------------------------------ */

/* {"a": {"b": VALUE}} of "a.b". */
static char *nested(const char *path, const char *value)
{
    char *name = dsf_xstrndup(path, strcspn(path, "."));
    char *rest = path[strlen(name)] == '.'
                     ? nested(path + strlen(name) + 1, value)
                     : dsf_xstrdup(value);
    char *all = dsf_xasprintf("{\"%s\": %s}", name, rest);

    free(name);
    free(rest);
    return all;
}

/* Beside what every configuration needs. */
static int import_key(const char *path, const char *value)
{
    char *one, *all;
    int status;

    one = nested(path, value);
    all = dsf_xasprintf("{\"train_batch_size\": 8, %s", one + 1);
    status = import(all, RANKS(1));
    free(one);
    free(all);
    return status;
}

static char *path_of(const struct dsf_ds_key *key)
{
    size_t n = strlen(key->key);

    return n > 2 && strcmp(key->key + n - 2, ".*") == 0
               ? dsf_xasprintf("%.*s.enabled", (int)n - 2, key->key)
               : dsf_xstrdup(key->key);
}

static void check_refused(const struct dsf_ds_key *key, const char *path)
{
    const char *off = key->off != NULL ? key->off : "false";

    if (import_key(path, off) < 0)
        fail_msg("%s %s: %s", path, off, did.refused[0]);
    if (import_key(path, "\"on\"") == DSFLOW_OK &&
        import_key(path, "true") == DSFLOW_OK)
        fail_msg("%s: not refused", path);
    if (did.nrefused != 1 || strstr(did.refused[0], key->words) == NULL ||
        strstr(did.refused[0], "ds.json:1: ") != did.refused[0])
        fail_msg("%s: refused as \"%s\"", path, did.refused[0]);
}

static void every_key_of_the_table_has_its_fate(void **state)
{
    const struct dsf_ds_key *key;

    for (size_t i = 0; (key = dsf_ds_key_at(i)) != NULL; i++) {
        char *path = path_of(key);

        if (key->fate == DSF_DS_REFUSED)
            check_refused(key, path);
        else if (key->fate != DSF_DS_BECOMES &&
                 (import_key(path, "true") < 0 || import_key(path, "7") < 0))
            fail_msg("%s: %s", path, did.refused[0]);
        assert_ptr_equal(dsf_ds_key_find(path), key);
        free(path);
    }
}

/* What it becomes are keys of a job. */
static void every_key_that_becomes_another_names_one_there_is(void **state)
{
    const struct dsf_ds_key *key;

    for (size_t i = 0; (key = dsf_ds_key_at(i)) != NULL; i++) {
        char *words, *save;

        if (key->fate != DSF_DS_BECOMES)
            continue;
        words = dsf_xstrdup(key->words);
        for (char *word = strtok_r(words, ", ", &save); word != NULL;
             word = strtok_r(NULL, ", ", &save)) {
            char *dot = strrchr(word, '.');
            const struct dsf_table *t;

            assert_non_null(dot);
            *dot = '\0';
            t = dsf_job_find_table(word);
            if (t == NULL || dsf_option_find(t->options, dot + 1) == NULL)
                fail_msg("%s: becomes %s.%s", key->key, word, dot + 1);
        }
        free(words);
    }
}

/* --- the batch ------------------------------------------------------------ */

/* B2: two of the three say what the third is. */
static void two_of_three_say_what_the_third_is(void **state)
{
    static const struct {
        int all, micro, steps; /* 0: absent */
        int64_t ranks, sequences, each;
    } table[] = {
        { 32, 2, 4, 4, 32, 2 }, { 32, 2, 0, 4, 32, 2 }, { 32, 0, 4, 4, 32, 2 },
        { 0, 2, 4, 4, 32, 2 },  { 32, 0, 0, 4, 32, 8 }, { 0, 2, 0, 4, 8, 2 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct dsf_job job;
        char json[256];
        int n = snprintf(json, sizeof(json), "{\"wall_clock_breakdown\": true");

        if (table[i].all > 0)
            n += snprintf(json + n, sizeof(json) - (size_t)n,
                          ", \"train_batch_size\": %d", table[i].all);
        if (table[i].micro > 0)
            n += snprintf(json + n, sizeof(json) - (size_t)n,
                          ", \"train_micro_batch_size_per_gpu\": %d",
                          table[i].micro);
        if (table[i].steps > 0)
            n += snprintf(json + n, sizeof(json) - (size_t)n,
                          ", \"gradient_accumulation_steps\": %d",
                          table[i].steps);
        snprintf(json + n, sizeof(json) - (size_t)n, "}");
        make_job(json, RANKS(table[i].ranks), &job);
        assert_int_equal(job.batch.sequences, table[i].sequences);
        assert_int_equal(job.batch.micro, table[i].each);
        assert_int_equal(job.mesh.size[0], table[i].ranks);
        dsf_job_fini(&job);
    }
}

static void batches_that_do_not_fit_are_refused(void **state)
{
    assert_refused("{\"train_batch_size\": 30,\n"
                   "\"train_micro_batch_size_per_gpu\": 4}",
                   RANKS(4),
                   "ds.json:1: train_batch_size: 30: expected sequences of a "
                   "micro-batch x micro-batches x replicas, 4 x 1 x 4");
    assert_refused("{\"gradient_accumulation_steps\": 4}", RANKS(1),
                   "ds.json: train_batch_size: absent, as "
                   "train_micro_batch_size_per_gpu is: expected one of them; "
                   "--set batch.sequences=N goes on with N sequences a step");
    assert_refused("{" BATCH "\"tensor_parallel\": {\n\"autotp_size\": 3}}",
                   RANKS(4),
                   "ds.json:2: tensor_parallel.autotp_size: -n 4: expected a "
                   "multiple of 3, tensor ranks times stages");
    assert_refused("{\"train_batch_size\": 8.5}", RANKS(1),
                   "ds.json:1: train_batch_size: 8.5: expected a whole number");
    assert_refused("{" BATCH "\"train_micro_batch_size_per_gpu\": 2,\n"
                   "\"gradient_accumulation_steps\": 0}",
                   RANKS(1),
                   "ds.json:2: gradient_accumulation_steps: 0: expected a "
                   "whole number above 0");
    assert_refused("{\"train_batch_size\": -8}", RANKS(1),
                   "ds.json:1: train_batch_size: -8: expected a whole number "
                   "above 0");
}

/* Their products are more than there are numbers for. */
static void sizes_may_be_of_any_size(void **state)
{
    assert_refused("{" BATCH "\"tensor_parallel\": {\"autotp_size\": "
                   "4611686018427387904},\n\"sequence_parallel_size\": "
                   "4611686018427387904}",
                   RANKS(1),
                   "ds.json:2: sequence_parallel_size: -n 1: expected a "
                   "multiple of 9223372036854775807, tensor ranks times "
                   "sequence ranks times stages");
    assert_refused("{" BATCH "\"gradient_accumulation_steps\": "
                   "4611686018427387904}",
                   RANKS(1024),
                   "ds.json:1: train_batch_size: 8: expected sequences of a "
                   "micro-batch x micro-batches x replicas, 0 x "
                   "9007199254740992 x 1024");
}

static void ranks_share_sequences(void **state)
{
    struct dsf_ds_wish wish = { .ranks = 8 };
    struct dsf_job job;

    make_job("{" BATCH "\"sequence_parallel_size\": 4}", wish, &job);
    assert_int_equal(job.mesh.size[DSF_AXIS_SEQUENCE], 4);
    assert_line("data = 2 ");
    assert_line("sequence = 4 ");
    dsf_job_fini(&job);
    assert_refused("{" BATCH "\"sequence_parallel_size\": 3}", RANKS(4),
                   "ds.json:1: sequence_parallel_size: -n 4: expected a "
                   "multiple of 3, tensor ranks times sequence ranks times "
                   "stages");
}

static void a_batch_that_is_set_counts(void **state)
{
    static const char *const all[] = { "batch.sequences=16" };
    static const char *const both[] = { "batch.sequences=24", "batch.micro=3" };
    static const struct {
        const char *json;
        const char *const *sets;
        unsigned nsets;
        int64_t sequences, micro;
    } table[] = {
        { "{\"gradient_accumulation_steps\": 2}", all, 1, 16, 4 },
        { "{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 8, "
          "\"train_micro_batch_size_per_gpu\": 4}",
          all, 1, 16, 4 },
        { "{\"train_batch_size\": \"auto\", "
          "\"train_micro_batch_size_per_gpu\": 2}",
          all, 1, 16, 2 },
        { "{\"wall_clock_breakdown\": true}", both, 2, 24, 3 },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct dsf_ds_wish wish = { .ranks = 2,
                                    .sets = table[i].sets,
                                    .nsets = table[i].nsets };
        struct dsf_job job;

        make_job(table[i].json, wish, &job);
        assert_int_equal(job.batch.sequences, table[i].sequences);
        assert_int_equal(job.batch.micro, table[i].micro);
        dsf_job_fini(&job);
    }
}

static void ranks_are_shared_out_to_all_axes(void **state)
{
    static const char *const sets[] = { "mesh.pipeline=2" };
    struct dsf_ds_wish wish = { .ranks = 8, .sets = sets, .nsets = 1 };
    struct dsf_job job;

    make_job("{" BATCH "\"tensor_parallel\": {\"autotp_size\": 2}}", wish,
             &job);
    assert_int_equal(job.mesh.size[0] * job.mesh.size[1] * job.mesh.size[2], 8);
    assert_line("data = 2 ");
    assert_line("tensor = 2 ");
    assert_line("pipeline = 2 ");
    assert_int_equal(job.batch.micro, 4);
    dsf_job_fini(&job);
}

/* --- optimizer and rates -------------------------------------------------- */

static void the_defaults_are_those_of_deepspeed(void **state)
{
    struct dsf_job job;

    make_job("{" BATCH "\"optimizer\": {\"type\": \"Adam\"}}", RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "adamw");
    assert_true(job.optimizer.lr == 1e-3 && job.optimizer.eps == 1e-8);
    assert_true(job.optimizer.betas[0] == 0.9 &&
                job.optimizer.betas[1] == 0.999);
    assert_true(job.optimizer.weight_decay == 0 && job.optimizer.clip == 1);
    assert_line("optimizer.type, line 1\n");
    assert_line("gradient_clipping: DeepSpeed's default\n");
    dsf_job_fini(&job);
    make_job("{" BATCH "\"gradient_clipping\": 0.5, \"optimizer\": {"
             "\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false, "
             "\"bias_correction\": false,"
             "\"betas\": [0.8, 0.9], \"weight_decay\": 3e-7}}}",
             RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "adam");
    assert_true(job.optimizer.betas[0] == 0.8 && job.optimizer.clip == 0.5);
    assert_true(job.optimizer.weight_decay == 3e-7);
    assert_false(job.optimizer.bias_correction);
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Lion\"}}", RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "lion");
    assert_true(job.optimizer.lr == 1e-3 && job.optimizer.betas[1] == 0.999);
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"SGD\", \"params\": "
             "{\"momentum\": 0.9, \"nesterov\": true}}}",
             RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "sgd");
    assert_true(job.optimizer.momentum == 0.9 && job.optimizer.nesterov);
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Adagrad\"}}", RANKS(1),
             &job);
    assert_string_equal(job.optimizer.kind, "adagrad");
    assert_true(job.optimizer.lr == 1e-2 && job.optimizer.eps == 1e-10);
    dsf_job_fini(&job);
    make("{" BATCH "\"optimizer\": {\"type\": \"Adagrad\"}, \"scheduler\": "
         "{\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 1e-3}}}",
         RANKS(1));
    assert_line("warmup_ratio = 0.1 ");
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Lamb\", \"params\": "
             "{\"max_coeff\": 2.5, \"bias_correction\": false}}}",
             RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "lamb");
    assert_true(job.optimizer.betas[1] == 0.999 && job.optimizer.lr == 1e-3);
    assert_false(job.optimizer.bias_correction);
    assert_line("max_coeff = 2.5 ");
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Muon\"}}", RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "muon");
    assert_true(job.optimizer.lr == 0.02 && job.optimizer.betas[1] == 0.95);
    assert_line("adam_lr = 0.0003 ");
    assert_line("momentum = 0.95 ");
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Muon\", \"params\": "
             "{\"lr\": 1e-3, \"muon_lr\": 0.5, \"momentum\": 0.9}}}",
             RANKS(1), &job);
    assert_true(job.optimizer.lr == 0.5 && job.optimizer.momentum == 0);
    assert_line("adam_lr = 0.001 ");
    assert_line("momentum = 0.9 ");
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Muon\"}, \"scheduler\": "
             "{\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 0.1}}}",
             RANKS(1), &job);
    assert_true(job.optimizer.lr == 0.1);
    assert_null(strstr(did.text, "adam_lr"));
    dsf_job_fini(&job);
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Muon\", \"params\": "
             "{\"adam_lr\": 1e-3}}, \"scheduler\": {\"type\": \"WarmupLR\"}}",
             RANKS(1), &job);
    assert_true(job.optimizer.lr == 0.02);
    assert_line("adam_lr = 0.001 ");
    dsf_job_fini(&job);
    assert_refused("{" BATCH "\"optimizer\": {\"type\": \"Muon\"},"
                   "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
                   "\n{\"warmup_min_lr\": 1e-4}}}",
                   RANKS(1),
                   "ds.json:2: scheduler.params.warmup_min_lr: both rates of "
                   "Muon begin with it there, and with the same share of each "
                   "here: expected 0");
    assert_refused("{" BATCH "\"optimizer\": {\"type\": \"Muon\", \"params\":"
                   "\n{\"weight_decay\": 0.1, \"adam_w_mode\": false}}}",
                   RANKS(1),
                   "ds.json:2: optimizer.params.adam_w_mode: false beside Muon "
                   "and weight_decay: what Muon does not update is AdamW's "
                   "here, with a decay of its own");
    assert_refused(
        "{" BATCH "\"optimizer\": {\"type\": \"Muon\", \"params\":"
        "\n{\"per_head_muon\": true}}}",
        RANKS(1),
        "ds.json:2: optimizer.params.per_head_muon: true: Muon of the "
        "heads of a matrix one by one: dsflow's makes whole "
        "matrices orthogonal: expected false; --drop "
        "optimizer.params.per_head_muon goes on without it");
}

static void an_optimizer_of_the_program_is_left_open(void **state)
{
    struct dsf_job job;

    make_job("{" BATCH "\"steps_per_print\": 9223372036854775807}", RANKS(1),
             &job);
    assert_line("\n#kind = ");
    assert_line("\n#lr = ");
    assert_line("# the program that calls DeepSpeed makes the optimizer: to be "
                "set\n");
    assert_int_equal(job.main.log_every, 1000000000);
    dsf_job_fini(&job);
    make("{" BATCH "\"scheduler\": {\"type\": \"WarmupLR\"}}", RANKS(1));
    assert_line("\n#lr = ");
    make_job("{" BATCH "\"optimizer\": {\"type\": \"Adam\", \"params\": "
             "{\"torch_adam\": true}}}",
             RANKS(1), &job);
    assert_true(job.optimizer.weight_decay == 0.01);
    dsf_job_fini(&job);
}

static void optimizers_that_there_are_not_are_refused(void **state)
{
    assert_refused("{" BATCH "\"optimizer\": {\"type\": \"Adafactor\"}}",
                   RANKS(1),
                   "ds.json:1: optimizer.type: Adafactor: expected Adam, "
                   "AdamW, Lion, SGD, Adagrad, Lamb, Muon, OneBitAdam, "
                   "OneBitLamb or ZeroOneAdam");
    assert_refused("{" BATCH "\n\"optimizer\": {\"params\": {\"betas\": [1]}}}",
                   RANKS(1),
                   "ds.json:2: optimizer.params.betas: expected two numbers");
}

#define ONEBIT                                                                 \
    BATCH "\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"lr\": "    \
          "0.001, \"freeze_step\": 40, \"cuda_aware\": false, "                \
          "\"comm_backend_name\": \"nccl\"}}"

static void onebit_adam_becomes_what_it_is_called(void **state)
{
    struct dsf_job job;

    make_job("{" ONEBIT ", \"gradient_clipping\": 0}", RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "onebit_adam");
    assert_true(job.optimizer.lr == 0.001);
    assert_true(job.optimizer.clip == 0);
    dsf_job_fini(&job);
    assert_line("\nfreeze_step = 40");
    make_job("{" ONEBIT ",\n\"gradient_clipping\": 0.5}", RANKS(1), &job);
    assert_true(job.optimizer.clip == 0.5);
    dsf_job_fini(&job);
    make_job("{" ONEBIT "}", RANKS(1), &job);
    assert_true(job.optimizer.clip == 1);
    dsf_job_fini(&job);
}

static void onebit_lamb_becomes_what_it_is_called(void **state)
{
    struct dsf_job job;

    make_job("{" BATCH "\"gradient_clipping\": 0, \"optimizer\": {\"type\": "
             "\"OneBitLamb\", \"params\": {\"freeze_step\": 40, "
             "\"max_coeff\": 0.3, \"factor_max\": 3.5, \"factor_min\": 0.25, "
             "\"coeff_beta\": 0.75}}}",
             RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "onebit_lamb");
    assert_true(job.optimizer.betas[1] == 0.999);
    dsf_job_fini(&job);
    assert_line("\nfreeze_step = 40");
    assert_line("max_coeff = 0.3 ");
    assert_line("min_coeff = 0.01 ");
    assert_line("factor_max = 3.5 ");
    assert_line("factor_min = 0.25 ");
    assert_line("factor_threshold = 0.1 ");
    assert_line("coeff_beta = 0.75 ");
}

#define ZEROONE                                                                \
    BATCH "\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"lr\": "   \
          "0.001, \"var_freeze_step\": 40, \"var_update_scaler\": 3, "         \
          "\"local_step_scaler\": 20, \"cuda_aware\": false, "                 \
          "\"comm_backend_name\": \"nccl\"}}"

static void zero_one_adam_becomes_what_it_is_called(void **state)
{
    struct dsf_job job;

    make_job("{" ZEROONE ", \"gradient_clipping\": 0}", RANKS(1), &job);
    assert_string_equal(job.optimizer.kind, "zeroone_adam");
    assert_true(job.optimizer.lr == 0.001);
    assert_true(job.optimizer.clip == 0);
    dsf_job_fini(&job);
    assert_line("\nvar_freeze_step = 40");
    assert_line("\nvar_update_scaler = 3");
    assert_line("\nlocal_step_scaler = 20");
    assert_line("\nlocal_step_clipper = 16");
    assert_refused("{" ZEROONE "}", RANKS(1),
                   "ds.json: gradient_clipping: 1 by default: 0/1 Adam does "
                   "not clip gradients: expected 0");
}

struct point {
    int64_t i;
    double lr;
};

#define POINTS 9
static void assert_rates(const char *scheduler, const struct point p[POINTS])
{
    char *json = dsf_xasprintf(
        "{" BATCH "\"optimizer\": {\"type\": \"Adam\", \"params\": "
        "{\"lr\": 0.001}}, \"scheduler\": {%s}}",
        scheduler);
    struct dsf_job job;
    struct dsflow_lr_keys keys;

    make_job(json, RANKS(1), &job);
    keys = dsf_lr_keys(&job);
    for (size_t k = 0; k < POINTS && (k == 0 || p[k].i > 0); k++) {
        double lr =
            dsflow_lr_schedule_find(job.schedule.kind)->lr(NULL, &keys, p[k].i);

        if (fabs(lr - p[k].lr) > 1e-12 * fabs(p[k].lr))
            fail_msg("%s: step %lld: %.17g, not %.17g", scheduler,
                     (long long)p[k].i, lr, p[k].lr);
    }
    dsf_job_fini(&job);
    free(json);
}

#define RATES(scheduler, ...)                                                  \
    assert_rates(scheduler, (const struct point[POINTS]){ __VA_ARGS__ })

/* Values of the schedulers of DeepSpeed 0.19.8, in double; the optimizer's
 * rate, 1e-3, counts for WarmupCosineLR alone. */
static void rates_are_those_of_deepspeed(void **state)
{
    RATES("\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 0.001, "
          "\"warmup_num_steps\": 10}",
          { 0, 0 }, { 1, 0.00030102999566398113 },
          { 4, 0.00069897000433601867 }, { 9, 1e-3 }, { 19, 1e-3 });
    RATES("\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 10, "
          "\"warmup_type\": \"linear\"}",
          { 0, 0 }, { 1, 1e-4 }, { 4, 4e-4 }, { 9, 9e-4 }, { 10, 1e-3 });
    RATES("\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.0001, "
          "\"warmup_max_lr\": 0.0002, \"warmup_num_steps\": 1, "
          "\"warmup_type\": \"linear\"}",
          { 0, 1e-4 }, { 1, 1.5e-4 }, { 2, 2e-4 });
    RATES("\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0.0005, "
          "\"warmup_num_steps\": 10, \"warmup_type\": \"linear\"}",
          { 0, 5e-4 }, { 5, 7.5e-4 }, { 10, 1e-3 });
    RATES("\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 10, "
          "\"warmup_type\": \"linear\", \"total_num_steps\": 100}",
          { 9, 9e-4 }, { 10, 1e-3 }, { 50, 0.00055555555555555556 },
          { 99, 1.1111111111111112e-05 }, { 100, 0 });
    RATES("\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 10, "
          "\"warmup_type\": \"linear\", \"total_num_steps\": 100, "
          "\"warmup_min_lr\": 0.0001}",
          { 0, 1e-4 }, { 5, 5.5e-4 }, { 10, 1e-3 }, { 55, 5.5e-4 },
          { 100, 1e-4 }, { 101, 1e-4 });
    RATES(
        "\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_num_steps\": 10, "
        "\"warmup_type\": \"linear\", \"total_num_steps\": 100}",
        { 0, 0 }, { 9, 9e-4 }, { 10, 0.00099969544396819694 },
        { 54, 5.0005e-4 }, { 99, 1e-7 }, { 109, 1e-7 });
    RATES("\"type\": \"LRRangeTest\", \"params\": {"
          "\"lr_range_test_min_lr\": 1e-4, \"lr_range_test_step_size\": 20}",
          { 0, 1.05e-4 }, { 9, 1.5e-4 }, { 19, 2e-4 }, { 20, 2.05e-4 },
          { 39, 3e-4 }, { 59, 4e-4 });
    RATES("\"type\": \"LRRangeTest\", \"params\": {"
          "\"lr_range_test_min_lr\": 1e-4, \"lr_range_test_step_size\": 20, "
          "\"lr_range_test_staircase\": true}",
          { 18, 1e-4 }, { 19, 2e-4 }, { 38, 2e-4 }, { 39, 3e-4 });
    RATES("\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-4, "
          "\"cycle_max_lr\": 1e-3, \"cycle_first_step_size\": 10, "
          "\"cycle_momentum\": false, \"decay_step_size\": 5, "
          "\"decay_lr_rate\": 0.5}",
          { 0, 1.9e-4 }, { 4, 5.5e-4 }, { 9, 1e-3 }, { 10, 9.1e-4 },
          { 14, 5.5e-4 }, { 19, 1e-4 }, { 20, 9.0909090909090904e-05 },
          { 29, 5e-5 }, { 59, 2e-5 });
}

/* --- types and memories --------------------------------------------------- */

static void types_are_those_asked_for(void **state)
{
    make("{" BATCH "\"bf16\": {\"enabled\": true}, "
         "\"data_types\": {\"grad_accum_dtype\": \"bf16\"}}",
         RANKS(1));
    assert_line("compute = \"bf16\" ");
    assert_line("gradients = \"bf16\" ");
    make("{" BATCH "\"bfloat16\": {\"enabled\": true, "
         "\"bf16_optimizer_states\": true}}",
         RANKS(1));
    assert_line("compute = \"bf16\" ");
    assert_line("states = \"bf16\" ");
    if (strstr(did.text, "on_nonfinite") != NULL)
        fail_msg("updates are skipped without ZeRO: %s", did.text);
    make("{" BATCH "\"bf16\": {\"enabled\": true}, \"zero_optimization\": "
         "{\"stage\": 2}}",
         RANKS(2));
    assert_line("on_nonfinite = \"skip\"        # bf16.check_grad_overflow: "
                "DeepSpeed's default\n");
    make("{" BATCH "\"bf16\": {\"enabled\": true, \"check_grad_overflow\": "
         "false}, \"zero_optimization\": {\"stage\": 2}}",
         RANKS(2));
    if (strstr(did.text, "on_nonfinite") != NULL)
        fail_msg("updates are skipped: %s", did.text);
    make("{" BATCH "\"fp16\": {\"enabled\": true, "
         "\"initial_scale_power\": 12, \"loss_scale_window\": 100}}",
         RANKS(1));
    assert_line("compute = \"fp16\" ");
    assert_line("initial_scale = 4096.0 ");
    assert_line("scale_window = 100 ");
    assert_line("hysteresis = 2 ");
    make("{" BATCH "\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}",
         RANKS(1));
    assert_line("loss_scale = 128.0 ");
    assert_line("on_nonfinite = \"skip\"        # fp16.loss_scale, line 1\n");
    assert_refused("{" BATCH "\"bf16\": {\"enabled\": true},\n"
                   "\"communication_data_type\": \"bf16\", "
                   "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}",
                   RANKS(1),
                   "ds.json:2: communication_data_type: bf16: gradients are "
                   "sent in the type that they are added up in: expected fp32, "
                   "as data_types.grad_accum_dtype has it");
    assert_refused("{" BATCH "\"fp16\": {\"enabled\": true}, "
                   "\"bf16\": {\"enabled\": true}}",
                   RANKS(1),
                   "ds.json:1: bf16.enabled: true beside fp16.enabled: "
                   "expected one");
}

static void memories_are_those_asked_for(void **state)
{
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"stage3_param_persistence_threshold\": 1e4, "
         "\"offload_param\": {\"device\": \"nvme\", "
         "\"nvme_path\": \"/disk\"}, "
         "\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}}, "
         "\"aio\": {\"block_size\": 262144, \"queue_depth\": 32}}",
         RANKS(4));
    assert_line("stage = 3 ");
    assert_line("keep = \"40000B\" ");
    assert_line("optimizer = \"cpu\" ");
    assert_line("params = \"nvme\" ");
    assert_line("share = 0.7 ");
    assert_line("path = \"/disk\" ");
    assert_line("block = \"262144B\" ");
    assert_line("depth = 32 ");
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"offload_optimizer\": {\"device\": \"none\", \"ratio\": 0.3}}}",
         RANKS(4));
    assert_null(strstr(did.text, "share"));
    make("{" BATCH "\"bf16\": {\"enabled\": true}, \"zero_optimization\": "
         "{\"stage\": 3, \"param_persistence_threshold\": 1e4}}",
         RANKS(4));
    assert_line("keep = \"20000B\" ");
    make("{" BATCH "\"zero_optimization\": {\"stage\": 2, "
         "\"cpu_offload\": true}}",
         RANKS(4));
    assert_line("optimizer = \"cpu\" ");
    assert_refused("{" BATCH "\"zero_optimization\": {\"stage\": 2, "
                   "\"offload_optimizer\": {\"device\": \"gpu\"}}}",
                   RANKS(4),
                   "ds.json:1: zero_optimization.offload_optimizer.device: "
                   "gpu: expected none, cpu or nvme");
}

#define ON_DISK "\"device\": \"nvme\", \"nvme_path\": "

static void one_folder_is_on_nvme(void **state)
{
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"offload_optimizer\": {" ON_DISK "\"/a\"}, "
         "\"offload_param\": {" ON_DISK "\"/a\"}}}",
         RANKS(1));
    assert_line("path = \"/a\" ");
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"offload_optimizer\": {\"device\": \"cpu\"}, "
         "\"offload_param\": {" ON_DISK "\"/b\"}}}",
         RANKS(1));
    assert_line("path = \"/b\" ");
    assert_refused("{" BATCH "\"zero_optimization\": {\"stage\": 3,\n"
                   "\"offload_optimizer\": {" ON_DISK "\"/a\"},\n"
                   "\"offload_param\": {" ON_DISK "\"/b\"}}}",
                   RANKS(1),
                   "ds.json:3: zero_optimization.offload_param.nvme_path: /b: "
                   "all that is on NVMe is in one folder: expected that of "
                   "offload_optimizer");
}

/* --- what is open, set or dropped ----------------------------------------- */

static void what_is_auto_is_left_open_or_set(void **state)
{
    static const char json[] =
        "{\"train_batch_size\": \"auto\",\n"
        "\"train_micro_batch_size_per_gpu\": \"auto\",\n"
        "\"gradient_clipping\": \"auto\", \"bf16\": {\"enabled\": \"auto\"},\n"
        "\"optimizer\": {\"params\": {\"lr\": \"auto\",\n"
        "\"betas\": \"auto\"}}}";
    static const char *const sets[] = { "batch.sequences=16",
                                        "optimizer.lr=3e-4",
                                        "precision.compute=bf16" };
    static const char *const data[] = { "a.txt", "b \"c\".txt" };
    const struct dsf_ds_wish wish = {
        .sets = sets, .nsets = 3, .model = "gpt2", .data = data, .ndata = 2
    };
    struct dsf_job job;

    make_job(json, RANKS(1), &job);
    assert_line("\n#lr = ");
    assert_line("# there is no optimizer.type: to be set\n");
    assert_line("optimizer.params.lr, line 4, is \"auto\": to be set\n");
    assert_line("\n#betas = ");
    assert_line("\n#clip = ");
    assert_line("\n#sequences = ");
    assert_line("\n#compute = ");
    assert_line("\n#init = ");
    assert_line("\n#train = ");
    dsf_job_fini(&job);
    make_job(json, wish, &job);
    assert_int_equal(job.batch.sequences, 16);
    assert_true(job.optimizer.lr == 3e-4);
    assert_string_equal(job.model.init, "gpt2");
    assert_int_equal(job.data.train.n, 2);
    assert_string_equal(job.data.train.v[1], "b \"c\".txt");
    assert_line("\ncompute = \"bf16\" ");
    assert_line("# --set\n");
    dsf_job_fini(&job);
}

/* What another number would follow from is not one that is known. */
static void what_follows_from_auto_is_open(void **state)
{
    make("{\"train_micro_batch_size_per_gpu\": 2, "
         "\"gradient_accumulation_steps\": \"auto\"}",
         RANKS(4));
    assert_line("\n#sequences = ");
    assert_line("\nmicro = 2 ");
    make("{\"train_micro_batch_size_per_gpu\": 2, "
         "\"train_batch_size\": \"auto\"}",
         RANKS(4));
    assert_line("\n#sequences = ");
    make("{" BATCH "\"train_micro_batch_size_per_gpu\": \"auto\"}", RANKS(4));
    assert_line("\nsequences = 8 ");
    assert_line("\n#micro = ");
    make("{" BATCH "\"train_micro_batch_size_per_gpu\": \"auto\", "
         "\"gradient_accumulation_steps\": 2}",
         RANKS(4));
    assert_line("\nmicro = 1 ");
    make("{" BATCH "\"sparse_attention\": {\"mode\": \"fixed\"}}", RANKS(1));
    assert_line("\n[sparse_attention]\n#mode = ");
}

/* The keys that count only beside the type that is set are taken with it. */
static void a_type_that_is_set_takes_its_section(void **state)
{
    static const char json[] =
        "{" BATCH "\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {"
        "\"enabled\": \"auto\", \"initial_scale_power\": 12}, "
        "\"zero_optimization\": {\"stage\": 3}}";
    static const char *const fp16[] = { "precision.compute=fp16" };
    static const char *const bf16[] = { "precision.compute=\"bf16\"" };

    make(json, (struct dsf_ds_wish){ .ranks = 2, .sets = fp16, .nsets = 1 });
    assert_line("\ncompute = \"fp16\" ");
    assert_line("\ninitial_scale = 4096.0 ");
    assert_line("\nkeep = \"200000B\" ");
    make(json, (struct dsf_ds_wish){ .ranks = 2, .sets = bf16, .nsets = 1 });
    assert_line("\ncompute = \"bf16\" ");
    assert_line("\nkeep = \"200000B\" ");
    if (strstr(did.text, "initial_scale") != NULL)
        fail_msg("bf16 has a loss scale: %s", did.text);
}

static void formats_on_the_wire_are_those_of_zero_plus_plus(void **state)
{
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"zero_quantized_weights\": true, "
         "\"zero_hpz_partition_size\": 2, "
         "\"zero_quantized_gradients\": true}}",
         RANKS(4));
    assert_line("[compress]\n");
    assert_line("params = \"int8\" ");
    assert_line("gradients = \"int4\" ");
    assert_line("secondary = 2 ");
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"zero_quantized_weights\": false}}",
         RANKS(4));
    assert_null(strstr(did.text, "[compress]"));
    make("{" BATCH "\"zero_optimization\": {\"stage\": 3, "
         "\"zero_quantized_gradients\": true, "
         "\"zeropp_loco_param\": {\"err_beta\": 0.7}}}",
         RANKS(4));
    assert_line("error = \"int8\" ");
    assert_line("error_beta = 0.7 ");
    assert_line("error_reset = 1024 ");
}

static void any_number_of_files_may_be_named(void **state)
{
    static const char name[] = "a-folder-of-texts/with-a-long-name/part.txt";
    const char *data[50];
    const struct dsf_ds_wish wish = { .data = data, .ndata = 50 };
    struct dsf_job job;

    for (size_t i = 0; i < 50; i++)
        data[i] = name;
    make_job("{" BATCH "\"steps_per_print\": 10}", wish, &job);
    assert_int_equal(job.data.train.n, 50);
    assert_string_equal(job.data.train.v[49], name);
    dsf_job_fini(&job);
}

static void what_cannot_be_had_is_all_named_or_dropped(void **state)
{
    static const char json[] = "{" BATCH "\n\"curriculum_learning\": {"
                               "\"enabled\": true},\n\"trian_steps\": 3,\n"
                               "\"zero_optimization\": {\"stage\": 2,\n"
                               "\"mics_shard_size\": 8,\n"
                               "\"overlap_com\": true}}";
    static const char *const drop[] = { "curriculum_learning", "trian_steps",
                                        "zero_optimization.mics_shard_size",
                                        "zero_optimization.overlap_com" };
    static const char *const none[] = { "nothing" };
    struct dsf_job job;

    assert_int_equal(import(json, RANKS(1)), DSFLOW_EINVAL);
    assert_int_equal(did.nrefused, 4);
    assert_string_equal(did.err.msg, "ds.json: 4 keys cannot be had");
    assert_string_equal(
        did.refused[0],
        "ds.json:2: curriculum_learning: all sequences are as long as "
        "batch.sequence says, in one shuffled order: expected "
        "\"enabled\": false; --drop curriculum_learning goes on without it");
    assert_string_equal(did.refused[1],
                        "ds.json:3: trian_steps: is no key of DeepSpeed's; "
                        "--drop trian_steps goes on without it");
    assert_string_equal(
        did.refused[2],
        "ds.json:5: zero_optimization.mics_shard_size: 8: all replicas share "
        "one set of states: expected -1; --drop "
        "zero_optimization.mics_shard_size goes on without it");
    assert_string_equal(
        did.refused[3],
        "ds.json:6: zero_optimization.overlap_com: is no key of DeepSpeed's: "
        "expected zero_optimization.overlap_comm; --drop "
        "zero_optimization.overlap_com goes on without it");
    make_job(json, (struct dsf_ds_wish){ .drop = drop, .ndrop = 4 }, &job);
    dsf_job_fini(&job);
    assert_int_equal(
        import(json, (struct dsf_ds_wish){ .drop = none, .ndrop = 1 }),
        DSFLOW_EINVAL);
    assert_string_equal(did.err.msg,
                        "import: --drop: nothing: is not in ds.json");
}

static void no_key_falls_away_by_its_name(void **state)
{
    char *json = dsf_xasprintf("{" BATCH "\"%0300d\": 1}", 7);

    assert_refused("{" BATCH "\n\"zero_optimization.stage\": 3}", RANKS(1),
                   "ds.json:2: zero_optimization.stage: no key of DeepSpeed's "
                   "has a dot: expected an object in an object");
    assert_int_equal(import(json, RANKS(1)), DSFLOW_EINVAL);
    assert_int_equal(did.nrefused, 1);
    free(json);
}

static void what_python_takes_for_true_is_enabled(void **state)
{
    static const struct {
        const char *enabled;
        int status;
    } table[] = {
        { "true", DSFLOW_EINVAL },   { "1", DSFLOW_EINVAL },
        { "\"on\"", DSFLOW_EINVAL }, { "false", DSFLOW_OK },
        { "0", DSFLOW_OK },          { "null", DSFLOW_OK },
        { "\"auto\"", DSFLOW_OK },
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        assert_int_equal(
            import_key("curriculum_learning.enabled", table[i].enabled),
            table[i].status);
}

static void a_section_is_an_object(void **state)
{
    assert_refused("{" BATCH "\n\"zero_optimization\": true}", RANKS(1),
                   "ds.json:2: zero_optimization: true: expected an object, "
                   "{…}");
    make("{" BATCH "\"zero_optimization\": false, \"fp16\": null}", RANKS(1));
}

static void what_makes_no_job_is_said(void **state)
{
    static const char *const sets[] = { "batch.sequencs=16" };

    assert_refused("{" BATCH "\"optimizer\": {\"params\":\n{\"lr\": -1}}}",
                   RANKS(1),
                   "ds.json:2: optimizer.params.lr: -1.0: expected a number, 0 "
                   "to 1000, as optimizer.lr");
    assert_refused("{" BATCH "\"scheduler\": {\"type\": \"WarmupLR\", "
                   "\"params\":\n{\"warmup_num_steps\": -4}}}",
                   RANKS(1),
                   "ds.json:2: scheduler.params.warmup_num_steps: -4: expected "
                   "a whole number, 0 to 1000000000, as schedule.warmup");
    assert_refused("{" BATCH "\n\"gradient_clipping\": -1}", RANKS(1),
                   "ds.json:2: gradient_clipping: -1.0: expected a number, 0 "
                   "to 1e+12, as optimizer.clip");
    assert_refused("{" BATCH "\"fp16\": {\"enabled\": true,\n\"loss_scale\": "
                   "-3}}",
                   RANKS(1),
                   "ds.json:2: fp16.loss_scale: -3: expected a number above 0, "
                   "or 0: it is dynamic");
    assert_int_equal(import("{" BATCH "\"steps_per_print\": 10}",
                            (struct dsf_ds_wish){ .sets = sets, .nsets = 1 }),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(did.err.msg, "sequencs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments_and_last_commas_are_blank),
        cmocka_unit_test(what_is_no_json_is_named_with_its_line),
        cmocka_unit_test(every_key_of_the_table_has_its_fate),
        cmocka_unit_test(every_key_that_becomes_another_names_one_there_is),
        cmocka_unit_test(two_of_three_say_what_the_third_is),
        cmocka_unit_test(batches_that_do_not_fit_are_refused),
        cmocka_unit_test(sizes_may_be_of_any_size),
        cmocka_unit_test(ranks_share_sequences),
        cmocka_unit_test(a_batch_that_is_set_counts),
        cmocka_unit_test(ranks_are_shared_out_to_all_axes),
        cmocka_unit_test(the_defaults_are_those_of_deepspeed),
        cmocka_unit_test(an_optimizer_of_the_program_is_left_open),
        cmocka_unit_test(optimizers_that_there_are_not_are_refused),
        cmocka_unit_test(onebit_adam_becomes_what_it_is_called),
        cmocka_unit_test(onebit_lamb_becomes_what_it_is_called),
        cmocka_unit_test(zero_one_adam_becomes_what_it_is_called),
        cmocka_unit_test(rates_are_those_of_deepspeed),
        cmocka_unit_test(types_are_those_asked_for),
        cmocka_unit_test(memories_are_those_asked_for),
        cmocka_unit_test(one_folder_is_on_nvme),
        cmocka_unit_test(what_is_auto_is_left_open_or_set),
        cmocka_unit_test(what_follows_from_auto_is_open),
        cmocka_unit_test(a_type_that_is_set_takes_its_section),
        cmocka_unit_test(formats_on_the_wire_are_those_of_zero_plus_plus),
        cmocka_unit_test(any_number_of_files_may_be_named),
        cmocka_unit_test(what_cannot_be_had_is_all_named_or_dropped),
        cmocka_unit_test(no_key_falls_away_by_its_name),
        cmocka_unit_test(what_python_takes_for_true_is_enabled),
        cmocka_unit_test(a_section_is_an_object),
        cmocka_unit_test(what_makes_no_job_is_said),
    };

    return cmocka_run_group_tests(tests, into_folder, out_of_folder);
}
