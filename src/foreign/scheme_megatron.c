/* scheme_megatron.c - tensors that have names of Megatron-LM: queries, keys and
 * values are one tensor there, in the order of its version, and so are the gate
 * and the up projection of SwiGLU. */
#include "foreign/match.h"
#include "foreign/megatron_names.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* Which rows of the tensor there are those of the job. */
enum part { WHOLE, QUERIES, KEYS, VALUES, ALL_THREE, GATE, UP };

static const struct {
    const char *name; /* of the job; behind the layer's prefix */
    bool of_layer;
    enum dsf_megatron_role role;
    enum part part;
} table[] = {
    { "transformer.wte.weight", false, DSF_MEGATRON_WORDS, WHOLE },
    { "transformer.wpe.weight", false, DSF_MEGATRON_POSITIONS, WHOLE },
    { "transformer.ln_f.weight", false, DSF_MEGATRON_FINAL_W, WHOLE },
    { "transformer.ln_f.bias", false, DSF_MEGATRON_FINAL_B, WHOLE },
    { "model.embed_tokens.weight", false, DSF_MEGATRON_WORDS, WHOLE },
    { "model.norm.weight", false, DSF_MEGATRON_FINAL_W, WHOLE },
    { "lm_head.weight", false, DSF_MEGATRON_HEAD, WHOLE },
    /* GPT-2 */
    { "ln_1.weight", true, DSF_MEGATRON_NORM1_W, WHOLE },
    { "ln_1.bias", true, DSF_MEGATRON_NORM1_B, WHOLE },
    { "attn.c_attn.weight", true, DSF_MEGATRON_QKV_W, ALL_THREE },
    { "attn.c_attn.bias", true, DSF_MEGATRON_QKV_B, ALL_THREE },
    { "attn.c_proj.weight", true, DSF_MEGATRON_OUT_W, WHOLE },
    { "attn.c_proj.bias", true, DSF_MEGATRON_OUT_B, WHOLE },
    { "ln_2.weight", true, DSF_MEGATRON_NORM2_W, WHOLE },
    { "ln_2.bias", true, DSF_MEGATRON_NORM2_B, WHOLE },
    { "mlp.c_fc.weight", true, DSF_MEGATRON_UP_W, WHOLE },
    { "mlp.c_fc.bias", true, DSF_MEGATRON_UP_B, WHOLE },
    { "mlp.c_proj.weight", true, DSF_MEGATRON_DOWN_W, WHOLE },
    { "mlp.c_proj.bias", true, DSF_MEGATRON_DOWN_B, WHOLE },
    /* LLaMA */
    { "input_layernorm.weight", true, DSF_MEGATRON_NORM1_W, WHOLE },
    { "self_attn.q_proj.weight", true, DSF_MEGATRON_QKV_W, QUERIES },
    { "self_attn.k_proj.weight", true, DSF_MEGATRON_QKV_W, KEYS },
    { "self_attn.v_proj.weight", true, DSF_MEGATRON_QKV_W, VALUES },
    { "self_attn.q_proj.bias", true, DSF_MEGATRON_QKV_B, QUERIES },
    { "self_attn.k_proj.bias", true, DSF_MEGATRON_QKV_B, KEYS },
    { "self_attn.v_proj.bias", true, DSF_MEGATRON_QKV_B, VALUES },
    { "self_attn.o_proj.weight", true, DSF_MEGATRON_OUT_W, WHOLE },
    { "post_attention_layernorm.weight", true, DSF_MEGATRON_NORM2_W, WHOLE },
    { "mlp.gate_proj.weight", true, DSF_MEGATRON_UP_W, GATE },
    { "mlp.up_proj.weight", true, DSF_MEGATRON_UP_W, UP },
    { "mlp.down_proj.weight", true, DSF_MEGATRON_DOWN_W, WHOLE },
};

/* "ln_1.weight" of "transformer.h.3.ln_1.weight": behind the layer's number. */
static const char *in_layer(const char *name)
{
    for (int dots = 0; dots < 3; dots++) {
        name = strchr(name, '.');
        if (name == NULL)
            return "";
        name++;
    }
    return name;
}

/* The row of the table for a tensor of the job, or -1: one that a plug-in
 * brought. */
static int row_of(const struct dsf_unit *u, const struct dsf_tensor *t,
                  int32_t layers)
{
    bool of_layer = u->layer >= 0 && u->layer < layers;
    const char *name = of_layer ? in_layer(t->name) : t->name;

    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].of_layer == of_layer && strcmp(table[i].name, name) == 0)
            return (int)i;
    return -1;
}

static const struct dsf_source_tensor *
find_role(const struct dsf_source *s, enum dsf_megatron_role role, int layer)
{
    for (size_t i = 0; i < s->n; i++) {
        int of;

        if (dsf_megatron_role_of(s->tensors[i].name, &of) == role &&
            of == layer)
            return &s->tensors[i];
    }
    return NULL;
}

/* A vector is so many rows of one number. */
static int64_t rows_of(const struct dsf_tensor *t)
{
    return t->vector ? t->cols : t->rows;
}

static int check_shape(const struct dsf_source_tensor *from,
                       const struct dsf_tensor *t, int64_t rows,
                       struct dsflow_err *err)
{
    const int64_t want[2] = { rows, t->cols };
    unsigned ndims = t->vector ? 1 : 2;
    char has[200], wanted[64];

    if (from->ndims == ndims && from->dims[0] == rows &&
        (t->vector || from->dims[1] == t->cols))
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: shape %s: the model of the job makes it %s",
        from->name, dsf_shape_str(from->ndims, from->dims, has, sizeof(has)),
        dsf_shape_str(ndims, want, wanted, sizeof(wanted)));
}

/* Heads of queries, keys and values of one group of heads, one after the other:
 * [groups][queries + 2][head]; ungrouped, a group has one head of queries. */
static void add_grouped(struct dsf_match *m, const struct dsf_dims *d,
                        enum part part, int64_t to)
{
    int64_t head = d->head_dim, queries = d->heads / d->kv_heads;

    for (int64_t g = 0; g < d->kv_heads; g++) {
        int64_t from = g * (queries + 2) * head;

        if (part == QUERIES)
            dsf_match_add(m, to + g * queries * head, from, queries * head);
        else
            dsf_match_add(m, to + g * head,
                          from + (queries + (part == VALUES)) * head, head);
    }
}

/* [heads][head][3]. */
static void add_interleaved(struct dsf_match *m, const struct dsf_dims *d,
                            enum part part, int64_t to)
{
    int64_t n = (int64_t)d->heads * d->head_dim;

    for (int64_t i = 0; i < n; i++)
        dsf_match_add(m, to + i, 3 * i + (part - QUERIES), 1);
}

static void add_part(const struct dsf_source *s, struct dsf_match *m,
                     const struct dsf_dims *d, enum part part, int64_t to)
{
    int64_t n = (int64_t)d->heads * d->head_dim;

    if (s->qkv == 0)
        dsf_match_add(m, to, (part - QUERIES) * n, n);
    else if (s->qkv == 1)
        add_interleaved(m, d, part, to);
    else
        add_grouped(m, d, part, to);
}

static int match_qkv(const struct dsf_source *s, struct dsf_match *m,
                     const struct dsf_dims *d, const struct dsf_tensor *t,
                     enum part part, struct dsflow_err *err)
{
    int64_t queries = (int64_t)d->heads * d->head_dim;
    int64_t keys = (int64_t)d->kv_heads * d->head_dim;
    int status = check_shape(m->from, t, queries + 2 * keys, err);

    if (status < 0)
        return status;
    if (s->qkv < 2 && queries != keys)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: files of version %d have as many heads of keys "
                           "as of queries: the job has %d and %d",
                           m->from->name, s->qkv, (int)d->kv_heads,
                           (int)d->heads);
    if (part != ALL_THREE) {
        add_part(s, m, d, part, 0);
        return DSFLOW_OK;
    }
    add_part(s, m, d, QUERIES, 0);
    add_part(s, m, d, KEYS, queries);
    add_part(s, m, d, VALUES, queries + keys);
    return DSFLOW_OK;
}

static int match_gated(struct dsf_match *m, const struct dsf_tensor *t,
                       enum part part, struct dsflow_err *err)
{
    int64_t n = rows_of(t);
    int status = check_shape(m->from, t, 2 * n, err);

    if (status == DSFLOW_OK)
        dsf_match_add(m, 0, part == UP ? n : 0, n);
    return status;
}

static int find(const struct dsf_source *s, const struct dsf_model *m,
                const struct dsf_unit *u, const struct dsf_tensor *t,
                struct dsf_match *match, char *wanted, size_t size,
                struct dsflow_err *err)
{
    int row = row_of(u, t, m->layers);
    int layer;

    if (row < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: Megatron-LM does not have this tensor",
                           t->name);
    layer = table[row].of_layer ? u->layer : -1;
    dsf_megatron_name(table[row].role, layer, wanted, size);
    match->from = find_role(s, table[row].role, layer);
    if (match->from == NULL)
        return DSFLOW_OK;
    switch (table[row].part) {
    case WHOLE:
        return dsf_match_whole(s, match, m, t, false, err);
    case GATE:
    case UP:
        return match_gated(match, t, table[row].part, err);
    default:
        return match_qkv(s, match, &dsf_model_layer(m, u->layer)->dims, t,
                         table[row].part, err);
    }
}

static bool ignores(const struct dsf_source *s, const struct dsf_model *m,
                    const struct dsf_source_tensor *t)
{
    int layer;

    (void)s;
    (void)m;
    return dsf_megatron_role_of(t->name, &layer) == DSF_MEGATRON_BUFFER;
}

const struct dsf_scheme dsf_scheme_megatron = {
    .find = find,
    .ignores = ignores,
};
