/* identity.c - what a checkpoint is of: as a hash, and key by key. */
#include "cli/identity.h"

#include "base/alloc.h"
#include "base/log.h"
#include "policies/keys.h"
#include "tasks/components.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The built-in optimizers have numbers in the hash, as in checkpoints from
 * before plug-ins could bring others: these, wherever they stand in a list. */
static const char *const numbered[] = { "adamw", "adam", "sgd", "lion" };

static void name_optimizer(const struct dsf_job *j, char *text, size_t size)
{
    for (unsigned i = 0; i < sizeof(numbered) / sizeof(*numbered); i++)
        if (strcmp(numbered[i], j->optimizer.kind) == 0) {
            snprintf(text, size, "%u", i);
            return;
        }
    snprintf(text, size, "%s", j->optimizer.kind);
}

/* What plug-ins compute, and what states are kept as. */
static void name_others(const struct dsf_job *j, char *others, size_t size)
{
    const char *name;
    size_t at = 0;

    others[0] = '\0';
    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL && at < size;
         i++) {
        const struct dsflow_segment *s = dsf_job_segment(j, name, NULL);

        if (strcmp(s->name, "builtin") != 0)
            at += (size_t)snprintf(others + at, size - at, "%s %s\n", name,
                                   s->name);
    }
    if (dsf_job_states(j) != DSF_STATES_FP32 && at < size)
        snprintf(others + at, size - at, "states %d\n", dsf_job_states(j));
}

/* How positions turn; the defaults of keys that nothing reads, so that they
 * count for nothing. */
struct rope {
    double theta, factor, low, high;
    int64_t context;
};

static struct rope rope_of(const struct dsf_model *m)
{
    struct rope r = { 10000, 8, 1, 4, 8192 };

    if (m->dims.rope)
        r.theta = m->rope_theta;
    if (m->rope_llama3) {
        r.factor = m->rope_factor;
        r.low = m->rope_low_freq_factor;
        r.high = m->rope_high_freq_factor;
        r.context = m->rope_original_context;
    }
    return r;
}

/* The momentum, where the optimizer has one. */
static double momentum_of(const struct dsf_job *j)
{
    return dsf_job_optimizer(j, NULL)->uses_momentum ? j->optimizer.momentum
                                                     : 0;
}

uint64_t dsf_identity_hash(const struct dsf_session *s)
{
    const struct dsf_dims *d = &s->model.dims;
    const struct dsf_job *j = &s->job;
    struct rope rope = rope_of(&s->model);
    char optimizer[256], others[256], *text;
    uint64_t hash;

    name_optimizer(j, optimizer, sizeof(optimizer));
    name_others(j, others, sizeof(others));
    text = dsf_xasprintf(
        "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %.9g %.17g\n"
        "%.17g %.17g %.17g %lld\n%s %.17g\n"
        "%lld %d %d %d %d %d %d %lld %d\n%016" PRIx64 " %016" PRIx64 "\n%s",
        (int)s->model.family, s->model.layers, d->width, d->heads, d->kv_heads,
        d->head_dim, d->ffn, d->context, d->vocab, d->qkv_bias,
        (int)s->model.tied, d->rms, d->swiglu, d->rope,
        (int)s->model.rope_llama3, (double)d->eps, rope.theta, rope.factor,
        rope.low, rope.high, (long long)rope.context, optimizer,
        momentum_of(j), (long long)j->batch.sequences, s->plan->sequence,
        s->plan->micro, s->plan->groups, s->plan->reduce_micro,
        s->plan->nparts, s->plan->ntiles, (long long)j->main.seed,
        (int)j->data.shuffle, s->text.content, dsf_tokenizer_hash(s->tok),
        others);
    hash = XXH3_64bits(text, strlen(text));
    free(text);
    return hash;
}

DSFLOW_PRINTF(3, 4)
static void add(struct dsf_ckpt_fields *of, const char *key, const char *fmt,
                ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dsf_ckpt_fields_add(of, key, text);
}

/* A text that reads back to the number. */
static void add_real(struct dsf_ckpt_fields *of, const char *key, double x)
{
    char text[64];

    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    add(of, key, "%s", text);
}

static void add_flag(struct dsf_ckpt_fields *of, const char *key, bool is)
{
    add(of, key, "%s", is ? "true" : "false");
}

static void list_model(const struct dsf_session *s, struct dsf_ckpt_fields *of)
{
    const struct dsf_model *m = &s->model;
    const struct dsf_dims *d = &m->dims;
    struct rope rope = rope_of(m);
    const char *name;
    char eps[32];

    add(of, "model.family", "%s", m->family == DSF_GPT2 ? "gpt2" : "llama");
    add(of, "model.layers", "%d", m->layers);
    add(of, "model.width", "%d", d->width);
    add(of, "model.heads", "%d", d->heads);
    add(of, "model.kv_heads", "%d", d->kv_heads);
    add(of, "model.head_dim", "%d", d->head_dim);
    add(of, "model.ffn_width", "%d", d->ffn);
    add(of, "model.context", "%d", d->context);
    add(of, "model.vocab", "%d", d->vocab);
    add_flag(of, "model.tied", m->tied);
    add_flag(of, "model.qkv_bias", d->qkv_bias);
    snprintf(eps, sizeof(eps), "%.7g", (double)d->eps); /* a float */
    add_real(of, "model.norm_eps", strtod(eps, NULL));
    add_real(of, "model.rope_theta", rope.theta);
    add(of, "model.rope_scaling", "%s", m->rope_llama3 ? "llama3" : "none");
    add_real(of, "model.rope_factor", rope.factor);
    add_real(of, "model.rope_low_freq_factor", rope.low);
    add_real(of, "model.rope_high_freq_factor", rope.high);
    add(of, "model.rope_original_context", "%" PRId64, rope.context);
    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL; i++) {
        char key[64];

        snprintf(key, sizeof(key), "model.%s", name);
        add(of, key, "%s", dsf_job_segment(&s->job, name, NULL)->name);
    }
}

static void list_plan(const struct dsf_session *s, struct dsf_ckpt_fields *of)
{
    const struct dsflow_plan *plan = s->plan;

    add(of, "batch.sequence", "%d", plan->sequence);
    add(of, "batch.micro", "%d", plan->micro);
    add(of, "batch.groups", "%d", plan->groups);
    add(of, "zero.reduce", "%s", plan->reduce_micro ? "micro" : "step");
    add(of, "mesh.tensor", "%d", plan->nparts);
    add(of, "batch.tile", "%d to a micro-batch", plan->ntiles);
}

void dsf_identity_list(const struct dsf_session *s, struct dsf_ckpt_fields *of)
{
    static const char *const formats[] = { "fp32", "bf16", "int8" };
    const struct dsf_job *j = &s->job;

    list_model(s, of);
    add(of, "data.tokenizer", "%016" PRIx64, dsf_tokenizer_hash(s->tok));
    add(of, "optimizer.kind", "%s", j->optimizer.kind);
    add_real(of, "optimizer.momentum", momentum_of(j));
    add(of, "offload.states", "%s", formats[dsf_job_states(j)]);
    add(of, "job.seed", "%" PRId64, j->main.seed);
    add_flag(of, "data.shuffle", j->data.shuffle);
    add(of, "batch.sequences", "%" PRId64, j->batch.sequences);
    if (s->plan != NULL)
        list_plan(s, of);
    if (s->corpus != NULL)
        add(of, "data.train", "%016" PRIx64, s->text.content);
}

bool dsf_identity_has(const char *key)
{
    static const char *const keys[] = { "data.tokenizer",
                                        "data.train",
                                        "data.validation",
                                        "data.shuffle",
                                        "data.validation_files",
                                        "optimizer.kind",
                                        "optimizer.momentum",
                                        "offload.states",
                                        "job.seed",
                                        "batch.sequences",
                                        "batch.sequence",
                                        "batch.micro",
                                        "batch.groups",
                                        "batch.tile",
                                        "zero.reduce",
                                        "mesh.tensor" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return strncmp(key, "model.", 6) == 0 && strcmp(key, "model.init") != 0 &&
           strcmp(key, "model.dropout") != 0;
}

/* By the beginning of a key; the first that fits counts. */
static const struct {
    const char *key;
    enum dsf_effect effect;
} effects[] = {
    { "model.norm_eps", DSF_EFFECT_MODEL },
    { "model.rope_", DSF_EFFECT_MODEL },
    { "model.embed", DSF_EFFECT_MODEL },
    { "model.qkv_bias", DSF_EFFECT_WEIGHTS },
    { "model.qkv", DSF_EFFECT_MODEL },
    { "model.attention", DSF_EFFECT_MODEL },
    { "model.out", DSF_EFFECT_MODEL },
    { "model.mlp", DSF_EFFECT_MODEL },
    { "model.head_dim", DSF_EFFECT_WEIGHTS },
    { "model.heads", DSF_EFFECT_WEIGHTS },
    { "model.head", DSF_EFFECT_MODEL },
    { "model.", DSF_EFFECT_WEIGHTS },
    { "data.tokenizer", DSF_EFFECT_TOKENS },
    { "optimizer.kind", DSF_EFFECT_STATES },
    { "optimizer.momentum", DSF_EFFECT_UPDATE },
    { "offload.states", DSF_EFFECT_ROUNDING },
    { "batch.sequences", DSF_EFFECT_BATCH },
    { "batch.sequence", DSF_EFFECT_TEXT },
    { "job.seed", DSF_EFFECT_TEXT },
    { "data.", DSF_EFFECT_TEXT },
    { "", DSF_EFFECT_BITS },
};

enum dsf_effect dsf_identity_effect(const struct dsf_session *s,
                                    const char *key, const char *was,
                                    const char *now)
{
    size_t i = 0;

    while (strncmp(effects[i].key, key, strlen(effects[i].key)) != 0)
        i++;
    /* Rotary positions are computed, learned ones are weights. */
    if (strcmp(key, "model.context") == 0 && s->model.dims.rope)
        return DSF_EFFECT_MODEL;
    /* Without a momentum there is no state of it. */
    if (effects[i].effect == DSF_EFFECT_UPDATE &&
        (strcmp(was, "0") == 0 || strcmp(now, "0") == 0))
        return DSF_EFFECT_STATES;
    return effects[i].effect;
}

const char *dsf_effect_str(enum dsf_effect effect)
{
    static const char *const words[] = {
        [DSF_EFFECT_WEIGHTS] = "its weights do not fit",
        [DSF_EFFECT_STATES] = "its states of the optimizer do not fit",
        [DSF_EFFECT_TOKENS] = "its weights mean other tokens",
        [DSF_EFFECT_MODEL] = "the model computes something else",
        [DSF_EFFECT_UPDATE] = "the update is another one",
        [DSF_EFFECT_ROUNDING] = "the states are rounded in another way",
        [DSF_EFFECT_TEXT] = "the text would begin anew",
        [DSF_EFFECT_BATCH] = "the steps have another size",
        [DSF_EFFECT_BITS] = "sums have another order, and so other last bits",
    };

    return words[effect];
}
