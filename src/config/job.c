/* job.c - the tables of job.toml, and a job read through them. */
#include "config/job.h"

#include "base/alloc.h"
#include "config/option.h"
#include "config/toml_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANY     1e9
#define NO_LIMIT 9e15

#define MAIN struct dsf_job_main
static const struct dsflow_option main_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, MAIN, name, "\"job\"",
                     "name of the run, for people"),
    DSFLOW_OPTION_INT(MAIN, steps, NULL, 1, MANY,
                      "steps of training (updates of the weights)"),
    DSFLOW_OPTION_INT(MAIN, seed, "1", 0, NO_LIMIT,
                      "of the initial weights and of the order of the text"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, MAIN, output, "\"runs/job\"",
                     "folder for metrics, checkpoints and the token cache"),
    DSFLOW_OPTION_INT(MAIN, log_every, "10", 1, MANY,
                      "steps between lines where there is no terminal"),
    { 0 },
};

#define MODEL struct dsf_job_model
static const char *const families[] = { "gpt2", "llama", NULL };
static const char *const scalings[] = { "none", "llama3", NULL };
static const struct dsflow_option model_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, MODEL, init, "\"random\"",
                     "\"random\", or a Hugging Face folder to start from"),
    DSFLOW_OPTION_CHOICE(MODEL, family, "\"gpt2\"", families,
                         "gpt2 (learned positions, LayerNorm, GELU) or llama "
                         "(rotary positions, RMSNorm, SwiGLU)"),
    DSFLOW_OPTION_AUTO(MODEL, layers, "\"auto\"", 1, 1024, "blocks"),
    DSFLOW_OPTION_AUTO(MODEL, heads, "\"auto\"", 1, 1024, "attention heads"),
    DSFLOW_OPTION_AUTO(MODEL, kv_heads, "\"auto\"", 1, 1024,
                       "heads of keys and values; auto: heads"),
    DSFLOW_OPTION_AUTO(MODEL, head_dim, "\"auto\"", 1, 1024,
                       "width of a head; auto: width / heads"),
    DSFLOW_OPTION_AUTO(MODEL, width, "\"auto\"", 1, 65536,
                       "width of the residual stream"),
    DSFLOW_OPTION_AUTO(MODEL, ffn_width, "\"auto\"", 1, 1048576,
                       "inner width of the MLP; auto: 4 width (gpt2), "
                       "8/3 width rounded up to 64 (llama)"),
    DSFLOW_OPTION_AUTO(MODEL, context, "\"auto\"", 1, 1048576,
                       "longest sequence; auto: 1024"),
    DSFLOW_OPTION_AUTO(MODEL, vocab, "\"auto\"", 2, 4194304,
                       "size of the vocabulary; auto: the tokenizer's"),
    DSFLOW_OPTION_FLOAT(MODEL, norm_eps, "1e-5", 1e-12, 0.1,
                        "added to the variance in norms"),
    DSFLOW_OPTION_FLOAT(MODEL, rope_theta, "10000.0", 1, 1e12,
                        "base of the rotary frequencies"),
    DSFLOW_OPTION_FLOAT(MODEL, dropout, "0.0", 0, 0,
                        "dropout is not in this version: 0"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, MODEL, tied, "true",
                     "the head uses the embedding's matrix"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, MODEL, qkv_bias, "false",
                     "llama: biases on query, key and value, as Qwen2 has; "
                     "gpt2 always has them"),
    DSFLOW_OPTION_CHOICE(MODEL, rope_scaling, "\"none\"", scalings,
                         "llama3: its scaling of the rotary frequencies"),
    DSFLOW_OPTION_FLOAT(MODEL, rope_factor, "8.0", 1, 1024,
                        "llama3 scaling: factor"),
    DSFLOW_OPTION_FLOAT(MODEL, rope_low_freq_factor, "1.0", 1e-3, 1024,
                        "llama3 scaling: low_freq_factor"),
    DSFLOW_OPTION_FLOAT(MODEL, rope_high_freq_factor, "4.0", 1e-3, 1024,
                        "llama3 scaling: high_freq_factor"),
    DSFLOW_OPTION_INT(MODEL, rope_original_context, "8192", 1, 1048576,
                      "llama3 scaling: original_max_position_embeddings"),
    { 0 },
};

#define DATA struct dsf_job_data
static const struct dsflow_option data_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, train, NULL,
                     "text files to train on; * ? [ ] match many"),
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, validation_files, "[]",
                     "text files to validate on, instead of a share of train"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, DATA, tokenizer, "\"bytes\"",
                     "\"bytes\", a tokenizer.json, or a folder that has one or "
                     "encoder.json and vocab.bpe"),
    DSFLOW_OPTION_FLOAT(DATA, validation, "0.05", 0, 0.9,
                        "share of each file kept for validation"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, DATA, shuffle, "true",
                     "sequences in a new order in every epoch"),
    { 0 },
};

#define BATCH struct dsf_job_batch
static const char *const orders[] = { "micro_major", "layer_major", NULL };
static const struct dsflow_option batch_options[] = {
    DSFLOW_OPTION_INT(BATCH, sequences, "32", 1, 16777216,
                      "sequences of a step"),
    DSFLOW_OPTION_AUTO(BATCH, micro, "4", 1, 65536,
                       "sequences of a micro-batch: they go through the model "
                       "together; auto: the fastest that fits"),
    DSFLOW_OPTION_AUTO(BATCH, sequence, "\"auto\"", 1, 1048576,
                       "tokens of a sequence; auto: the model's context"),
    DSFLOW_OPTION_AUTO(BATCH, groups, "\"auto\"", 1, 1024,
                       "groups of micro-batches whose gradients are summed "
                       "apart, then together in a tree; auto: mesh.data. "
                       "Jobs of equal groups give the same bits"),
    DSFLOW_OPTION_CHOICE(BATCH, order, "\"micro_major\"", orders,
                         "micro_major: a micro-batch through all layers, then "
                         "the next; layer_major: all through a layer, so that "
                         "its weights are needed once and its gradient is "
                         "complete early, for more activations"),
    DSFLOW_OPTION_AUTO(BATCH, tile, "\"auto\"", 16, 65536,
                       "tokens of a task; auto: up to 256. It decides the "
                       "order of sums, and so the last bits"),
    DSFLOW_OPTION_AUTO(BATCH, in_flight, "\"auto\"", 1, 65536,
                       "micro-batches whose activations are in memory; auto: "
                       "workers + 1"),
    { 0 },
};

#define OPTIMIZER struct dsf_job_optimizer
static const char *const optimizer_kinds[] = { "adamw", "adam", "sgd", "lion",
                                               NULL };
static const struct dsflow_option optimizer_options[] = {
    DSFLOW_OPTION_CHOICE(OPTIMIZER, kind, "\"adamw\"", optimizer_kinds,
                         "rule of the update"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, lr, "3e-4", 0, 1e3,
                        "learning rate; the schedule multiplies it"),
    { "betas", DSFLOW_PAIR, offsetof(OPTIMIZER, betas), "[0.9, 0.95]", 0,
      0.999999, NULL, "decay of the running means (adam, adamw, lion)" },
    DSFLOW_OPTION_FLOAT(OPTIMIZER, eps, "1e-8", 0, 1,
                        "added to the denominator (adam, adamw)"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, weight_decay, "0.1", 0, 100,
                        "of matrices; norms and biases have none"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, clip, "1.0", 0, 1e12,
                        "largest norm of the whole gradient; 0: no limit"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, momentum, "0.0", 0, 0.999999,
                        "of sgd"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, OPTIMIZER, nesterov, "false",
                     "sgd: Nesterov's momentum"),
    { 0 },
};

#define SCHEDULE struct dsf_job_schedule
static const char *const schedule_kinds[] = {
    [DSF_CONSTANT] = "constant",
    [DSF_WARMUP_COSINE] = "warmup_cosine",
    [DSF_WARMUP_LINEAR] = "warmup_linear",
    [DSF_WARMUP] = "warmup",
    [DSF_ONE_CYCLE] = "one_cycle",
    [DSF_RANGE_TEST] = "range_test",
    NULL,
};
static const char *const warmup_shapes[] = { "linear", "log", NULL };
static const struct dsflow_option schedule_options[] = {
    DSFLOW_OPTION_CHOICE(SCHEDULE, kind, "\"constant\"", schedule_kinds,
                         "course of the learning rate"),
    DSFLOW_OPTION_INT(SCHEDULE, warmup, "0", 0, MANY,
                      "steps up to the full rate"),
    DSFLOW_OPTION_CHOICE(SCHEDULE, warmup_shape, "\"linear\"", warmup_shapes,
                         "way up; log is DeepSpeed's default"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, warmup_ratio, "0.0", 0, 1,
                        "rate of the first step, as a share of lr"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, min_ratio, "0.0", 0, 1,
                        "warmup_cosine: rate of the last step, as a share of "
                        "lr"),
    DSFLOW_OPTION_AUTO(SCHEDULE, total, "\"auto\"", 1, MANY,
                       "steps the schedule is made for; auto: those of the "
                       "job"),
    DSFLOW_OPTION_INT(SCHEDULE, half_cycle, "2000", 1, MANY,
                      "one_cycle: steps up"),
    DSFLOW_OPTION_AUTO(SCHEDULE, second_half_cycle, "\"auto\"", 1, MANY,
                       "one_cycle: steps down; auto: half_cycle"),
    DSFLOW_OPTION_INT(SCHEDULE, decay_steps, "0", 0, MANY,
                      "one_cycle: unit of the decay after the cycle; 0: none"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, cycle_min_ratio, "0.1", 0, 1,
                        "one_cycle: lowest rate, as a share of lr"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, decay_rate, "0.0", 0, 1e6,
                        "one_cycle: decay after the cycle"),
    DSFLOW_OPTION_INT(SCHEDULE, range_steps, "2000", 1, MANY,
                      "range_test: steps of one interval"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, range_rate, "1.0", 0, 1e6,
                        "range_test: growth per interval, as a share of lr"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, SCHEDULE, staircase, "false",
                     "range_test: grow at the end of intervals only"),
    { 0 },
};

#define VALIDATION struct dsf_job_validation
static const struct dsflow_option validation_options[] = {
    DSFLOW_OPTION_INT(VALIDATION, every, "0", 0, MANY,
                      "steps between validations; 0: at the end only"),
    DSFLOW_OPTION_AUTO(VALIDATION, sequences, "\"auto\"", 1, MANY,
                       "of the validation text used each time; auto: all"),
    { 0 },
};

#define CHECKPOINT struct dsf_job_checkpoint
static const struct dsflow_option checkpoint_options[] = {
    DSFLOW_OPTION_INT(CHECKPOINT, every, "0", 0, MANY,
                      "steps between checkpoints; 0: at the end only"),
    DSFLOW_OPTION_INT(CHECKPOINT, keep, "2", 0, MANY,
                      "newest ones that are kept; 0: all"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, CHECKPOINT, at_end, "true",
                     "save when the last step is done"),
    { 0 },
};

#define SAMPLE struct dsf_job_sample
static const struct dsflow_option sample_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, SAMPLE, prompt, "\"\\n\"",
                     "text the sample begins with"),
    DSFLOW_OPTION_INT(SAMPLE, tokens, "0", 0, 1048576,
                      "tokens printed when the run ends; 0: none"),
    DSFLOW_OPTION_FLOAT(SAMPLE, temperature, "0.8", 0, 100,
                        "0: always the likeliest token"),
    DSFLOW_OPTION_FLOAT(SAMPLE, top_p, "1.0", 0, 1,
                        "choose among the likeliest tokens of this share"),
    DSFLOW_OPTION_INT(SAMPLE, top_k, "0", 0, 4194304,
                      "choose among so many tokens; 0: all"),
    DSFLOW_OPTION_INT(SAMPLE, seed, "1", 0, NO_LIMIT,
                      "of the choices"),
    { 0 },
};

#define MESH struct dsf_job_mesh
static const struct dsflow_option mesh_options[] = {
    DSFLOW_OPTION_INT(MESH, data, "1", 1, 1024,
                      "replicas of the model, each with its own share of the "
                      "micro-batches"),
    DSFLOW_OPTION_INT(MESH, pipeline, "1", 1, 1024,
                      "stages, each with its own layers"),
    DSFLOW_OPTION_INT(MESH, tensor, "1", 1, 64,
                      "ranks that share the heads and columns of each layer"),
    { 0 },
};

#define ZERO struct dsf_job_zero
static const char *const reduces[] = { "step", "micro", NULL };
static const struct dsflow_option zero_options[] = {
    DSFLOW_OPTION_AUTO(ZERO, stage, "0", 0, 3,
                       "what the replicas share out: 1 states of the "
                       "optimizer, 2 gradients too, 3 parameters too; auto: "
                       "the fastest that fits"),
    DSFLOW_OPTION_CHOICE(ZERO, reduce, "\"step\"", reduces,
                         "when gradients are summed over the groups: once a "
                         "step, or after each micro-batch, so that whole ones "
                         "never stay (which regroups the sums)"),
    DSFLOW_OPTION_INT(ZERO, prefetch, "1", 0, 64,
                      "stage 3: layers whose parameters are gathered ahead"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, ZERO, keep, "\"64KiB\"",
                     "stage 3: units up to this size stay gathered through "
                     "the step"),
    { 0 },
};

#define PIPELINE struct dsf_job_pipeline
static const char *const pipeline_schedules[] = {
    [DSF_1F1B] = "1f1b",
    [DSF_GPIPE] = "gpipe",
    [DSF_INTERLEAVED] = "interleaved",
    [DSF_ZERO_BUBBLE] = "zero_bubble",
    NULL,
};
static const struct dsflow_option pipeline_options[] = {
    DSFLOW_OPTION_CHOICE(PIPELINE, schedule, "\"1f1b\"", pipeline_schedules,
                         "order of the micro-batches in a stage"),
    DSFLOW_OPTION_INT(PIPELINE, chunks, "2", 1, 64,
                      "interleaved: pieces of the model that each stage has"),
    { "split", DSFLOW_INTS, offsetof(PIPELINE, split), "[]", 0, 1024, NULL,
      "blocks of each stage (of each chunk, in order of the layers); empty: "
      "balanced by cost" },
    { 0 },
};

#define RECOMPUTE struct dsf_job_recompute
static const char *const recomputes[] = { "none", "attention", "block", "auto",
                                          NULL };
static const struct dsflow_option recompute_options[] = {
    DSFLOW_OPTION_CHOICE(RECOMPUTE, what, "\"none\"", recomputes,
                         "what the backward pass computes again instead of "
                         "keeping it; auto: the fastest that fits"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, RECOMPUTE, layers, "\"all\"",
                     "of which layers: \"all\", or numbers and ranges such "
                     "as \"0-5,8\""),
    { 0 },
};

#define MEMORY struct dsf_job_memory
static const struct dsflow_option memory_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MEMORY, device, "\"auto\"",
                     "what each rank may use of its device; auto: an equal "
                     "share of what is free"),
    { 0 },
};

#define MACHINE struct dsf_job_machine
static const struct dsflow_option machine_options[] = {
    DSFLOW_OPTION_AUTO(MACHINE, workers, "\"auto\"", 1, 128,
                       "CPU workers; auto: one for each core"),
    { "virtual", DSFLOW_INT, offsetof(MACHINE, virtuals), "0", 0, 8, NULL,
      "virtual devices (PoCL) with memory of their own, each on a core" },
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_memory, "\"auto\"",
                     "memory of each virtual device; auto: no limit"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_link, "\"auto\"",
                     "bytes a second of the link of each virtual device, which "
                     "is slowed down to that; auto: as fast as it is"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, MACHINE, scheduler, "\"auto\"",
                     "StarPU's scheduler: lws, eager, prio, dmda, dmdas and others"),
    { 0 },
};

#define TRACE struct dsf_job_trace
static const struct dsflow_option trace_options[] = {
    { "steps", DSFLOW_INTS, offsetof(TRACE, steps), "[]", 1, MANY, NULL,
      "[first, last]: of these steps every task and every transfer is kept, "
      "for dsflow trace; empty: of none" },
    DSFLOW_OPTION_OF(DSFLOW_BOOL, TRACE, tensorboard, "true",
                     "write the curves of the run for TensorBoard too: half a "
                     "kilobyte a step"),
    { 0 },
};

#define TABLE(name, what, text)                                                \
    {                                                                          \
        name, text, what##_options, offsetof(struct dsf_job, what)             \
    }
const struct dsf_table dsf_job_tables[] = {
    TABLE("job", main, "the run as a whole"),
    TABLE("model", model, "the transformer"),
    TABLE("data", data, "the text"),
    TABLE("batch", batch, "what a step works on"),
    TABLE("optimizer", optimizer, "the update"),
    TABLE("schedule", schedule, "the learning rate"),
    TABLE("validation", validation, "loss on text that is not trained on"),
    TABLE("checkpoint", checkpoint, "the run on disk"),
    TABLE("sample", sample, "text written by the model when the run ends"),
    TABLE("mesh", mesh, "ranks: data x pipeline x tensor of them"),
    TABLE("zero", zero, "what data-parallel ranks share out"),
    TABLE("pipeline", pipeline, "stages"),
    TABLE("recompute", recompute, "activations that are computed again"),
    TABLE("memory", memory, "budgets"),
    TABLE("machine", machine, "workers and devices"),
    TABLE("trace", trace, "what is kept of how it ran"),
    { 0 },
};

struct place {
    char *table, *key;
    char *text;  /* "job.toml:12: batch: micro" */
    char *value; /* as TOML */
};

struct dsf_job_where {
    struct place *v;
    size_t n, cap;
};

static const struct place *find_place(const struct dsf_job *job,
                                      const char *table, const char *key)
{
    for (size_t i = job->where->n; i-- > 0;)
        if (strcmp(job->where->v[i].table, table) == 0 &&
            strcmp(job->where->v[i].key, key) == 0)
            return &job->where->v[i];
    return NULL;
}

bool dsf_job_has(const struct dsf_job *job, const char *table, const char *key)
{
    return find_place(job, table, key) != NULL;
}

int dsf_job_fail(const struct dsf_job *job, struct dsflow_err *err, int status,
                 const char *table, const char *key, const char *fmt, ...)
{
    const struct place *place = find_place(job, table, key);
    char msg[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    if (place != NULL)
        return dsflow_fail(err, status, "%s: %s", place->text, msg);
    return dsflow_fail(err, status, "%s: %s: %s: %s", job->path, table, key,
                       msg);
}

/* Remember where a key was set, and to what; `text` is kept. */
static void add_place(struct dsf_job *job, const struct dsf_toml_entry *e,
                      char *text)
{
    struct dsf_job_where *w = job->where;

    dsf_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = (struct place){ dsf_xstrdup(e->table), dsf_xstrdup(e->key),
                                   text, dsf_xstrdup(e->value.text) };
}

static const struct dsf_table *find_table(const char *name)
{
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

/* "; did you mean X?", or nothing. */
static const char *hint(char *buf, size_t size, const char *nearest)
{
    if (nearest == NULL)
        return "";
    snprintf(buf, size, "; did you mean %s?", nearest);
    return buf;
}

static int unknown_table(const char *place, const char *name,
                         struct dsflow_err *err)
{
    const char *names[32];
    unsigned n = 0;
    char buf[128];

    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        names[n++] = t->name;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: [%.60s]: unknown table%s",
                       place, name,
                       hint(buf, sizeof(buf), dsf_nearest(name, names, n)));
}

static int unknown_key(const char *place, const struct dsf_table *table,
                       const char *key, struct dsflow_err *err)
{
    const char *names[64];
    unsigned n = 0;
    char buf[128];

    for (const struct dsflow_option *o = table->options; o->key != NULL; o++)
        names[n++] = o->key;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %.60s: unknown key%s",
                       place, table->name, key,
                       hint(buf, sizeof(buf), dsf_nearest(key, names, n)));
}

/* Set one key. `place` is "job.toml:12" or "--set"; on a wrong value the
 * message has the table and the key after it. */
static int set_key(struct dsf_job *job, const char *place,
                   const struct dsf_toml_entry *e, struct dsflow_err *err)
{
    const struct dsf_table *table;
    const struct dsflow_option *option;
    char *text;
    int status;

    if (e->table[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.60s: expected in a table such as [job]",
                           place, e->key);
    table = find_table(e->table);
    if (table == NULL)
        return unknown_table(place, e->table, err);
    if (e->key[0] == '\0') /* an empty table */
        return DSFLOW_OK;
    option = dsf_option_find(table->options, e->key);
    if (option == NULL)
        return unknown_key(place, table, e->key, err);
    text = dsf_xasprintf("%s: %s: %s", place, e->table, e->key);
    status = dsf_option_set(option, (char *)job + table->offset, &e->value, err);
    if (status < 0) {
        dsflow_fail_in(err, status, text);
        free(text);
        return status;
    }
    add_place(job, e, text);
    return DSFLOW_OK;
}

/* Parse "name = value", with a bare word taken as a string. */
static int parse_value(const char *value, struct dsf_toml *toml)
{
    char *text = dsf_xasprintf("x = %s", value);
    int status = strchr(value, '\n') != NULL
                     ? DSFLOW_EINVAL
                     : dsf_toml_parse(text, strlen(text), "", toml, NULL);

    free(text);
    if (status == DSFLOW_OK && toml->n == 1)
        return DSFLOW_OK;
    dsf_toml_fini(toml);
    dsf_grow(&toml->v, &toml->cap, 1, sizeof(*toml->v));
    toml->n = 1;
    toml->v[0].table = dsf_xstrdup("");
    toml->v[0].key = dsf_xstrdup("x");
    toml->v[0].value = (struct dsf_toml_value){
        .type = DSF_TOML_STRING,
        .string = dsf_xstrdup(value),
        .text = dsf_toml_quote(value),
    };
    return DSFLOW_OK;
}

/* "table.key=value". */
int dsf_job_set(struct dsf_job *job, const char *set, struct dsflow_err *err)
{
    const char *equals = strchr(set, '=');
    const char *dot = strchr(set, '.');
    struct dsf_toml toml = { 0 };
    struct dsf_toml_entry *e;
    int status;

    if (equals == NULL || dot == NULL || dot > equals || dot == set ||
        dot + 1 == equals)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "--set %.100s: expected table.key=value", set);
    status = parse_value(equals + 1, &toml);
    if (status < 0)
        return status;
    e = &toml.v[0];
    free(e->table);
    free(e->key);
    e->table = dsf_xstrndup(set, (size_t)(dot - set));
    e->key = dsf_xstrndup(dot + 1, (size_t)(equals - dot - 1));
    status = set_key(job, "--set", e, err);
    dsf_toml_fini(&toml);
    return status;
}

static int check_required(const struct dsf_job *job, struct dsflow_err *err)
{
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            if (o->fallback == NULL && !dsf_job_has(job, t->name, o->key))
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: %s: %s: is missing: expected %s",
                                   job->path, t->name, o->key,
                                   dsf_option_expected(o).s);
    return DSFLOW_OK;
}

/* What concerns several keys, and needs nothing but the job. */
static int check_together(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsf_job_schedule *s = &job->schedule;
    int64_t total = s->total < 0 ? job->main.steps : s->total;

    if (job->main.output[0] == '\0')
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                            "\"\": expected a folder");
    if (job->data.train.n == 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", "train",
                            "[]: expected a file or more");
    if (s->warmup > total && s->kind != DSF_CONSTANT && s->kind != DSF_WARMUP)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "schedule", "warmup",
                            "%lld: expected at most the %lld steps of the "
                            "schedule",
                            (long long)s->warmup, (long long)total);
    if (s->warmup > 0 && s->kind != DSF_WARMUP &&
        s->kind != DSF_WARMUP_COSINE && s->kind != DSF_WARMUP_LINEAR)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "schedule", "warmup",
                            "%lld: expected 0: a schedule of kind %s has none",
                            (long long)s->warmup, schedule_kinds[s->kind]);
    if (job->optimizer.momentum > 0 && job->optimizer.kind != DSF_SGD)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "optimizer", "momentum",
                            "%g: expected 0: only sgd has one",
                            job->optimizer.momentum);
    if (job->optimizer.nesterov &&
        (job->optimizer.kind != DSF_SGD || job->optimizer.momentum == 0))
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "optimizer", "nesterov",
                            "true: expected sgd with a momentum");
    return DSFLOW_OK;
}

int dsf_job_parse(const char *text, size_t bytes, const char *path,
                  const char *const *sets, unsigned nsets, struct dsf_job *job,
                  struct dsflow_err *err)
{
    struct dsf_toml toml = { 0 };
    int status;

    memset(job, 0, sizeof(*job));
    job->path = dsf_xstrdup(path);
    job->where = dsf_xcalloc(1, sizeof(*job->where));
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        dsf_options_default(t->options, (char *)job + t->offset);

    status = dsf_toml_parse(text, bytes, path, &toml, err);
    for (size_t i = 0; i < toml.n && status == DSFLOW_OK; i++) {
        char *place = dsf_xasprintf("%s:%d", path, toml.v[i].line);

        status = set_key(job, place, &toml.v[i], err);
        free(place);
    }
    for (unsigned i = 0; i < nsets && status == DSFLOW_OK; i++)
        status = dsf_job_set(job, sets[i], err);
    if (status == DSFLOW_OK)
        status = check_required(job, err);
    if (status == DSFLOW_OK)
        status = check_together(job, err);
    dsf_toml_fini(&toml);
    if (status < 0)
        dsf_job_fini(job);
    return status;
}

/* The whole file, with a NUL after it; NULL on error. */
static char *read_file(const char *path, size_t *bytes, struct dsflow_err *err)
{
    enum { MOST = 16 << 20 }; /* nobody writes a longer job */
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *text = NULL;
    size_t n;

    if (f == NULL || fstat(fileno(f), &st) < 0) {
        dsflow_fail(err, DSFLOW_EINVAL, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        dsflow_fail(err, DSFLOW_EINVAL, "%s: is a folder: expected a job.toml",
                    path);
    } else {
        text = dsf_xcalloc(MOST + 1, 1);
        n = fread(text, 1, MOST + 1, f);
        if (ferror(f) || n > MOST || n == 0) {
            dsflow_fail(err, DSFLOW_EINVAL, "%s: %s", path,
                        ferror(f) ? strerror(errno)
                        : n == 0  ? "is empty: expected a job.toml"
                                  : "is larger than 16 MiB: no job.toml");
            free(text);
            text = NULL;
        } else {
            *bytes = n;
            text[n] = '\0';
        }
    }
    if (f != NULL)
        fclose(f);
    return text;
}

int dsf_job_read(const char *path, const char *const *sets, unsigned nsets,
                 struct dsf_job *job, struct dsflow_err *err)
{
    size_t bytes;
    char *text = read_file(path, &bytes, err);
    int status;

    if (text == NULL)
        return DSFLOW_EINVAL;
    status = dsf_job_parse(text, bytes, path, sets, nsets, job, err);
    free(text);
    return status;
}

int dsf_job_write(const struct dsf_job *job, FILE *out)
{
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++) {
        bool open = false;

        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            const struct place *place = find_place(job, t->name, o->key);

            if (place == NULL)
                continue;
            if (!open)
                fprintf(out, "[%s]\n", t->name);
            open = true;
            fprintf(out, "%s = %s\n", o->key, place->value);
        }
    }
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}

void dsf_job_fini(struct dsf_job *job)
{
    if (job->where == NULL)
        return;
    for (const struct dsf_table *t = dsf_job_tables; t->name != NULL; t++)
        dsf_options_fini(t->options, (char *)job + t->offset);
    for (size_t i = 0; i < job->where->n; i++) {
        free(job->where->v[i].table);
        free(job->where->v[i].key);
        free(job->where->v[i].text);
        free(job->where->v[i].value);
    }
    free(job->where->v);
    free(job->where);
    free(job->path);
    memset(job, 0, sizeof(*job));
}
