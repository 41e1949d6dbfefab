/* identity.c - what a checkpoint is of: one list of keys, their values, and what
 * another value does. */
#include "train/identity.h"

#include "base/alloc.h"
#include "base/units.h"
#include "config/job_tables.h"
#include "config/layer_list.h"
#include "config/when.h"
#include "policies/keys.h"
#include "segments/segment.h"
#include "tasks/components.h"
#include "tasks/sparsity.h"
#include "train/machine_keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct dsf_identity_rope dsf_identity_rope(const struct dsf_model *m)
{
    struct dsf_identity_rope r = { 10000, 8, 1, 4, 8192 };

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

double dsf_identity_momentum(const struct dsf_job *j)
{
    return dsf_job_optimizer(j, NULL)->uses_momentum ? j->optimizer.momentum
                                                     : 0;
}

/* A key whose value is not known. */
static void open_key(struct dsf_identity *of, enum dsf_effect effect,
                     const char *key)
{
    dsf_grow(&of->v, &of->cap, of->n + 1, sizeof(*of->v));
    of->v[of->n++] = (struct dsf_identity_key){ .key = dsf_xstrdup(key),
                                                .effect = effect };
}

/* Keys that the value of another one tells of. */
static void list_parts(struct dsf_identity *of, enum dsf_effect effect,
                       const char *whole, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        open_key(of, effect, *keys);
        of->v[of->n - 1].whole = whole;
    }
}

DSFLOW_PRINTF(4, 5)
static void add(struct dsf_identity *of, enum dsf_effect effect,
                const char *key, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    open_key(of, effect, key);
    of->v[of->n - 1].value = dsf_xstrdup(text);
}

static void add_real(struct dsf_identity *of, enum dsf_effect effect,
                     const char *key, double x)
{
    add(of, effect, key, "%s", dsf_real_text(x).s);
}

static void add_flag(struct dsf_identity *of, enum dsf_effect effect,
                     const char *key, bool is)
{
    add(of, effect, key, "%s", is ? "true" : "false");
}

static void list_sizes(const struct dsf_model *m, struct dsf_identity *of)
{
    const enum dsf_effect weights = DSF_EFFECT_WEIGHTS;
    const struct dsf_dims *d = &m->dims;

    add(of, weights, "model.family", "%s",
        m->family == DSF_GPT2 ? "gpt2" : "llama");
    add(of, weights, "model.layers", "%d", m->layers);
    add(of, weights, "model.width", "%d", d->width);
    add(of, weights, "model.heads", "%d", d->heads);
    add(of, weights, "model.kv_heads", "%d", d->kv_heads);
    add(of, weights, "model.head_dim", "%d", d->head_dim);
    add(of, weights, "model.ffn_width", "%d", d->ffn);
    /* Rotary positions are computed, learned ones are weights. */
    add(of, d->rope ? DSF_EFFECT_MODEL : weights, "model.context", "%d",
        d->context);
    add(of, weights, "model.vocab", "%d", d->vocab);
    add_flag(of, weights, "model.tied", m->tied);
    add_flag(of, weights, "model.qkv_bias", d->qkv_bias);
}

bool dsf_identity_segments(const struct dsf_model *m, char *text, size_t size)
{
    size_t at = 0;

    for (unsigned i = 0; m->block[i] != NULL && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i == 0 ? "" : ", ",
                               m->block[i]->name);
    return strcmp(text, DSF_USUAL_SEGMENTS) != 0;
}

static void list_segments(const struct dsf_model *m, struct dsf_identity *of)
{
    char text[300];

    if (dsf_identity_segments(m, text, sizeof(text)))
        add(of, DSF_EFFECT_WEIGHTS, "model.segments", "%s", text);
    else /* as checkpoints have it that do not name them */
        open_key(of, DSF_EFFECT_WEIGHTS, "model.segments");
}

/* Which layers have a window, as job.toml says it; no window is one of 0 in all
 * of them. */
static void list_windows(const struct dsf_model *m, struct dsf_identity *of)
{
    bool *on = dsf_xcalloc((size_t)m->layers, sizeof(*on));
    int32_t window = 0;
    char *text;

    for (int32_t l = 0; l < m->layers; l++) {
        on[l] = m->windows[l] > 0;
        window = on[l] ? m->windows[l] : window;
    }
    text = dsf_layer_list_text(on, m->layers);
    add(of, DSF_EFFECT_MODEL, "model.window", "%d", (int)window);
    add(of, DSF_EFFECT_MODEL, "model.window_layers", "%s",
        window > 0 ? text : "all");
    free(text);
    free(on);
}

/* A key of the layout behind those that are in `text`. */
static char *with_key(char *text, const struct dsflow_option *o,
                      const struct dsf_job_sparse *sparse)
{
    const struct dsflow_ints *list =
        (const void *)((const char *)sparse + o->offset);
    char *longer = dsf_xasprintf("%s, %s =", text, o->key), *last;

    for (unsigned i = 0; o->type == DSFLOW_INTS && i < list->n; i++) {
        last = longer;
        longer = dsf_xasprintf("%s %" PRId64, last, list->v[i]);
        free(last);
    }
    if (o->type != DSFLOW_INTS) {
        last = longer;
        longer = dsf_xasprintf("%s %s", last, dsf_value_text(o, sparse).s);
        free(last);
    }
    free(text);
    return longer;
}

/* Which layout, with all keys that it has: another one is another model. Of a
 * long text, its hash. */
static void list_layout(const struct dsf_job *job, struct dsf_identity *of)
{
    const struct dsf_table *table = dsf_job_find_table("sparse_attention");
    const struct dsf_job_sparse *sparse = &job->sparse;
    char *text = dsf_xstrdup(sparse->mode);

    for (const struct dsflow_option *o = table->options;
         dsf_job_is_sparse(job) && o->key != NULL; o++)
        if (strcmp(o->key, "mode") != 0 && dsf_job_is(job, o->used_with))
            text = with_key(text, o, sparse);
    if (strlen(text) < 280)
        add(of, DSF_EFFECT_MODEL, "sparse_attention.mode", "%s", text);
    else
        add(of, DSF_EFFECT_MODEL, "sparse_attention.mode", "%s, %016" PRIx64,
            sparse->mode, (uint64_t)XXH64(text, strlen(text), 0));
    free(text);
}

static void list_formulas(const struct dsf_job *job, const struct dsf_model *m,
                          struct dsf_identity *of)
{
    static const char *const keys[] = { "model.embed",     "model.qkv",
                                        "model.attention", "model.out",
                                        "model.mlp",       "model.head" };
    const enum dsf_effect model = DSF_EFFECT_MODEL;
    struct dsf_identity_rope rope = dsf_identity_rope(m);
    char eps[32];

    snprintf(eps, sizeof(eps), "%.7g", (double)m->dims.eps); /* a float */
    add_real(of, model, "model.norm_eps", strtod(eps, NULL));
    add_real(of, model, "model.rope_theta", rope.theta);
    add(of, model, "model.rope_scaling", "%s",
        m->rope_llama3 ? "llama3" : "none");
    add_real(of, model, "model.rope_factor", rope.factor);
    add_real(of, model, "model.rope_low_freq_factor", rope.low);
    add_real(of, model, "model.rope_high_freq_factor", rope.high);
    add(of, model, "model.rope_original_context", "%" PRId64, rope.context);
    list_windows(m, of);
    list_layout(job, of);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        add(of, model, keys[i], "%s",
            dsf_job_replacing(job, strchr(keys[i], '.') + 1));
}

void dsf_identity_of_model(const struct dsf_job *job, const struct dsf_model *m,
                           struct dsf_identity *of)
{
    *of = (struct dsf_identity){ 0 };
    list_sizes(m, of);
    list_segments(m, of);
    list_formulas(job, m, of);
}

/* Axes whose sizes decide how sums are grouped. NULL: the sizes are not known. */
static void list_axes(const struct dsf_mesh *mesh, struct dsf_identity *of)
{
    static char keys[DSF_MAX_AXES][64];
    const struct dsflow_axis *axis;

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++) {
        snprintf(keys[i], sizeof(keys[i]), "mesh.%s", axis->name);
        if (axis->regroups && mesh == NULL)
            open_key(of, DSF_EFFECT_BITS, keys[i]);
        else if (axis->regroups)
            add(of, DSF_EFFECT_BITS, keys[i], "%d", (int)mesh->size[i]);
    }
}

static void list_plan(const struct dsf_session *s, struct dsf_identity *of)
{
    const enum dsf_effect bits = DSF_EFFECT_BITS;
    const struct dsflow_plan *plan = s->plan;

    if (plan == NULL) {
        open_key(of, DSF_EFFECT_TEXT, "batch.sequence");
        open_key(of, bits, "batch.micro");
        open_key(of, bits, "batch.groups");
        open_key(of, bits, "batch.sequence_groups");
        open_key(of, bits, "zero.reduce");
        list_axes(NULL, of);
        open_key(of, bits, "batch.tile");
        open_key(of, bits, "batch.head_columns");
        return;
    }
    add(of, DSF_EFFECT_TEXT, "batch.sequence", "%d", plan->sequence);
    add(of, bits, "batch.micro", "%d", plan->micro);
    add(of, bits, "batch.groups", "%d", plan->groups);
    add(of, bits, "batch.sequence_groups", "%d", plan->sequence_groups);
    add(of, bits, "zero.reduce", "%s", plan->reduce_micro ? "micro" : "step");
    list_axes(&plan->mesh, of);
    add(of, bits, "batch.tile", "%d to a micro-batch", plan->ntiles);
    add(of, bits, "batch.head_columns", "%d", plan->head_columns);
}

/* Files, what is in them, and what of it is for validation. */
static void list_text(const struct dsf_session *s, struct dsf_identity *of)
{
    if (s->corpus != NULL)
        add(of, DSF_EFFECT_TEXT, "data.train", "%016" PRIx64, s->text.content);
    else
        open_key(of, DSF_EFFECT_TEXT, "data.train");
    open_key(of, DSF_EFFECT_TEXT, "data.validation");
    open_key(of, DSF_EFFECT_TEXT, "data.validation_files");
}

/* Arrays that are kept. What is by rank or by worker is of as many ranks. */
static void list_kept(const struct dsf_session *s, struct dsf_identity *of)
{
    for (size_t i = DSF_KEPT_STATE; s->plan != NULL && i < s->plan->kept.n;
         i++) {
        const struct dsflow_kept *k = &s->plan->kept.v[i];
        const bool by_rank = k->kind == DSFLOW_KEPT_BY_RANK ||
                             k->kind == DSFLOW_KEPT_BY_WORKER;
        char key[64], ranks[32] = "";

        if (k->kind == DSFLOW_KEPT_TENSORS || k->transient)
            continue;
        snprintf(key, sizeof(key), "kept.%s", k->name);
        if (by_rank)
            snprintf(ranks, sizeof(ranks), " of %d", (int)s->plan->nranks);
        add(of, DSF_EFFECT_KEPT, key, "%lld %s %s%s",
            (long long)dsf_kept_elems(k), dsflow_dtype_str(k->dtype),
            dsf_kept_by(k), ranks);
    }
}

/* What states are kept as, and what is computed in which type. */
static void list_types(const struct dsf_session *s, struct dsf_identity *of)
{
    const struct dsf_job *j = s->job;
    enum dsflow_dtype states = dsf_job_states(j), type = dsf_compute_type(j);
    bool wide = dsf_precision_keys(j)->head == DSF_HEAD_FP32;

    add(of, DSF_EFFECT_ROUNDING, "precision.states", "%s",
        states == DSFLOW_INT8_BLOCK ? "int8" : dsflow_dtype_str(states));
    add(of, DSF_EFFECT_PRECISION, "precision.compute", "%s",
        dsflow_dtype_str(type));
    add_flag(of, DSF_EFFECT_PRECISION, "precision.tf32",
             dsf_machine_keys_tf32(j, &s->machine));
    add(of, DSF_EFFECT_PRECISION, "precision.head", "%s",
        dsflow_dtype_str(wide ? DSFLOW_FP32 : type));
    add(of, DSF_EFFECT_PRECISION, "precision.gradients", "%s",
        dsflow_dtype_str(dsf_gradient_type(j)));
    add_flag(of, DSF_EFFECT_PRECISION, "precision.master",
             dsf_keeps_masters(j));
}

/* Errors that are carried over; where none are, the other keys do not count. */
#define DEFAULT_BETA  0.8
#define DEFAULT_RESET 1024
static void list_errors(const struct dsf_job *j, struct dsf_identity *of)
{
    static const char *const names[] = { DSF_ERRORS(DSF_CHOICE_NAME) };
    const struct dsf_compress_keys *keys = dsf_compress_keys(j);
    const bool any = dsf_carries_errors(j);

    add(of, DSF_EFFECT_PRECISION, "compress.error", "%s",
        names[any ? keys->error : DSF_ERROR_NONE]);
    add_real(of, DSF_EFFECT_PRECISION, "compress.error_beta",
             any ? keys->error_beta : DEFAULT_BETA);
    add(of, DSF_EFFECT_PRECISION, "compress.error_reset", "%" PRId64,
        any ? keys->error_reset : DEFAULT_RESET);
}

/* What is sent in which format; where nothing is, the other keys do not count.
 */
#define DEFAULT_KEEP 16384
static void list_sent(const struct dsf_session *s, struct dsf_identity *of)
{
    const struct dsf_job *j = s->job;
    const struct dsf_compress_keys *keys = dsf_compress_keys(j);
    bool any = dsf_compresses_gradients(j) || dsf_compresses_params(j);

    add(of, DSF_EFFECT_PRECISION, "compress.gradients", "%s", keys->gradients);
    add(of, DSF_EFFECT_PRECISION, "compress.params", "%s", keys->params);
    if (any && keys->block >= 0)
        add(of, DSF_EFFECT_PRECISION, "compress.block", "%" PRId64,
            keys->block);
    else
        add(of, DSF_EFFECT_PRECISION, "compress.block", "auto");
    add(of, DSF_EFFECT_PRECISION, "compress.keep", "%" PRId64,
        any ? keys->keep : DEFAULT_KEEP);
    list_errors(j, of);
    /* Rows are not coded. */
    add(of, DSF_EFFECT_PRECISION, "compress.embedding", "%s",
        dsf_compresses_gradients(j) && keys->embedding == DSF_ROWS ? "rows"
                                                                   : "dense");
    if (s->plan != NULL)
        add(of, DSF_EFFECT_PRECISION, "compress.node", "%d",
            (int)dsf_compress_node(s->plan));
    else
        open_key(of, DSF_EFFECT_PRECISION, "compress.node");
}

/* What weights are quantized to, and pruned; keys without an effect do not
 * count. */
static void list_weights(const struct dsf_job *j, struct dsf_identity *of)
{
    static const char *const names[] = { DSF_QUANTIZERS(DSF_CHOICE_NAME) };
    static const char *const quantized_by[] = {
        "weights.bits",  "weights.start_bits",    "weights.period",
        "weights.group", "weights.quantize_from", NULL
    };
    static const char *const pruned_by[] = { "weights.prune_from", NULL };
    const struct dsf_weights_keys *keys = dsf_weights_keys(j);
    const bool quantized = keys->quantize != DSF_UNQUANTIZED;
    const bool pruned = strcmp(keys->prune, DSF_UNPRUNED) != 0;
    char bits[64] = "", groups[64] = "", from[32] = "";

    if (keys->quantize == DSF_SYMMETRIC || keys->quantize == DSF_ASYMMETRIC)
        snprintf(bits, sizeof(bits), " %d to %d bits, period %d",
                 (int)(keys->start_bits < 0 ? keys->bits : keys->start_bits),
                 (int)keys->bits, (int)keys->period);
    if (quantized)
        snprintf(groups, sizeof(groups), " in groups of %d from step %d",
                 (int)keys->group, (int)keys->quantize_from);
    if (pruned)
        snprintf(from, sizeof(from), " from step %d", (int)keys->prune_from);
    add(of, DSF_EFFECT_PRECISION, "weights.quantize", "%s%s%s",
        names[keys->quantize], bits, groups);
    add(of, DSF_EFFECT_PRECISION, "weights.prune", "%s%s", keys->prune, from);
    add_flag(of, DSF_EFFECT_PRECISION, "weights.embedding",
             (quantized || pruned) && keys->embedding);
    list_parts(of, DSF_EFFECT_PRECISION, "weights.quantize", quantized_by);
    list_parts(of, DSF_EFFECT_PRECISION, "weights.prune", pruned_by);
}

/* What the inputs of matrices are rounded to. */
static void list_activations(const struct dsf_job *j, struct dsf_identity *of)
{
    static const char *const names[] = { DSF_INPUT_QUANTIZERS(
        DSF_CHOICE_NAME) };
    static const char *const by[] = { "activations.bits", "activations.group",
                                      "activations.quantize_from", NULL };
    const struct dsf_job_activations *keys = &j->activations;
    const bool rounded = keys->quantize != DSF_INPUTS_EXACT;
    char how[64] = "", from[32] = "";

    if (rounded)
        snprintf(how, sizeof(how), " %d bits in groups of %d", (int)keys->bits,
                 (int)keys->group);
    if (rounded && keys->quantize_from > 0) /* older runs have no such key */
        snprintf(from, sizeof(from), " from step %d",
                 (int)keys->quantize_from);
    add(of, DSF_EFFECT_PRECISION, "activations.quantize", "%s%s%s",
        names[keys->quantize], how, from);
    list_parts(of, DSF_EFFECT_PRECISION, "activations.quantize", by);
}

void dsf_identity_list(const struct dsf_session *s, struct dsf_identity *of)
{
    const struct dsf_job *j = s->job;

    dsf_identity_of_model(j, &s->model, of);
    add(of, DSF_EFFECT_TOKENS, "data.tokenizer", "%016" PRIx64,
        dsf_tokenizer_hash(s->tok));
    add(of, DSF_EFFECT_STATES, "optimizer.kind", "%s", j->optimizer.kind);
    add_real(of, DSF_EFFECT_UPDATE, "optimizer.momentum",
             dsf_identity_momentum(j));
    list_types(s, of);
    list_weights(j, of);
    list_activations(j, of);
    list_sent(s, of);
    add(of, DSF_EFFECT_TEXT, "job.seed", "%" PRId64, j->main.seed);
    add_flag(of, DSF_EFFECT_TEXT, "data.shuffle", j->data.shuffle);
    add(of, DSF_EFFECT_BATCH, "batch.sequences", "%" PRId64,
        j->batch.sequences);
    list_plan(s, of);
    list_text(s, of);
    list_kept(s, of);
}

void dsf_identity_fini(struct dsf_identity *of)
{
    for (size_t i = 0; i < of->n; i++) {
        free(of->v[i].key);
        free(of->v[i].value);
    }
    free(of->v);
    *of = (struct dsf_identity){ 0 };
}

const struct dsf_identity_key *dsf_identity_find(const struct dsf_identity *of,
                                                 const char *key)
{
    for (size_t i = 0; i < of->n; i++)
        if (strcmp(of->v[i].key, key) == 0)
            return &of->v[i];
    return NULL;
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
        /* In parentheses for clang, which misses a comma otherwise. */
        [DSF_EFFECT_PRECISION] = ("it goes on from the fp32 weights with other "
                                  "roundings, so not bit for bit"),
        [DSF_EFFECT_DEVICE] = ("it goes on with the tiles of this kind of "
                               "device, so not bit for bit"),
        [DSF_EFFECT_KEPT] = "what is kept for it begins anew",
        [DSF_EFFECT_TEXT] = "the text would begin anew",
        [DSF_EFFECT_BATCH] = "the steps have another size",
        [DSF_EFFECT_BITS] = "sums have another order, and so other last bits",
    };

    return words[effect];
}
