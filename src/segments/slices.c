/* slices.c - the tasks of a segment of which several workers do some columns
 * each. */
#include "segments/slices.h"

bool dsf_slices_fit(const struct dsf_dims *d, int32_t parts)
{
    return d->heads % parts == 0 && d->kv_heads % parts == 0 &&
           d->width % parts == 0 && d->ffn % parts == 0 && d->vocab >= parts &&
           !(d->swiglu && d->mlp_bias);
}

/* A tile that has the heads of one part. */
static struct dsflow_tile heads_of(struct dsflow_tile t, int32_t parts)
{
    t.heads /= parts;
    t.kv_heads /= parts;
    return t;
}

static int64_t behind(int64_t at, int64_t n)
{
    return at < 0 ? -1 : at + n;
}

/* Rows of queries, then of keys, then of values; each part has some of each. */
static void fill_qkv(const struct dsflow_site *site, int32_t parts, int32_t t,
                     void *args)
{
    const struct dsflow_tile *whole = &site->tile;
    const int64_t *at = site->at[0], width = whole->width;
    const int64_t nq = (int64_t)whole->heads * whole->head_dim;
    const int64_t nk = (int64_t)whole->kv_heads * whole->head_dim;
    const int64_t q = t * nq / parts, k = nq + t * nk / parts, v = k + nk;

    *(struct dsflow_qkv_args *)args = (struct dsflow_qkv_args){
        .tile = heads_of(*whole, parts),
        .w = at[DSF_QKV_W] + q * width,
        .b = behind(at[DSF_QKV_B], q),
        .norm_w = at[DSF_QKV_NORM_W],
        .norm_b = at[DSF_QKV_NORM_B],
        .k = at[DSF_QKV_W] + k * width,
        .v = at[DSF_QKV_W] + v * width,
        .kb = behind(at[DSF_QKV_B], k),
        .vb = behind(at[DSF_QKV_B], v),
    };
}

static void fill_attention(const struct dsflow_site *site, int32_t parts,
                           int32_t t, void *args)
{
    struct dsflow_site own = *site;

    own.tile = heads_of(own.tile, parts);
    own.head = t * own.tile.heads;
    dsf_segment_attention.fill(&own, args);
}

/* Columns of x + b + in W^T, of rows of `in` numbers. */
static void fill_project(const struct dsflow_site *site, int32_t parts,
                         int32_t t, struct dsf_project_args like, void *args)
{
    const int64_t n = site->tile.width / parts;
    struct dsf_project_args *a = args;

    *a = like;
    a->tile.width = (int32_t)n;
    a->w += t * n * a->tile.ffn;
    a->b = behind(a->b, t * n);
}

static void fill_out(const struct dsflow_site *site, int32_t parts, int32_t t,
                     void *args)
{
    struct dsf_project_args like = { .tile = site->tile,
                                     .w = site->at[0][DSF_OUT_W],
                                     .b = site->at[0][DSF_OUT_B] };

    like.tile.ffn = site->tile.heads * site->tile.head_dim;
    fill_project(site, parts, t, like, args);
}

static void fill_up(const struct dsflow_site *site, int32_t parts, int32_t t,
                    void *args)
{
    const int64_t *at = site->at[0];
    const int64_t n = site->tile.ffn / parts, width = site->tile.width;
    struct dsf_mlp_up_args *a = args;

    *a = (struct dsf_mlp_up_args){
        .tile = site->tile,
        .w = at[DSF_MLP_W1] + t * n * width,
        .up = -1,
        .b = behind(at[DSF_MLP_B1], t * n),
        .norm_w = at[DSF_MLP_NORM_W],
        .norm_b = at[DSF_MLP_NORM_B],
    };
    a->tile.ffn = (int32_t)n;
    if (a->tile.swiglu)
        a->up = a->w + site->tile.ffn * width;
}

static void fill_down(const struct dsflow_site *site, int32_t parts, int32_t t,
                      void *args)
{
    fill_project(site, parts, t,
                 (struct dsf_project_args){ .tile = site->tile,
                                            .w = site->at[0][DSF_MLP_W2],
                                            .b = site->at[0][DSF_MLP_B2] },
                 args);
}

static void fill_logits(const struct dsflow_site *site, int32_t parts,
                        int32_t t, void *args)
{
    struct dsflow_head_args *a = args;

    dsf_segment_head.fill(site, a);
    a->tile.vocab = dsf_share(site->tile.vocab, parts, t, &a->first);
    a->w += (int64_t)a->first * site->tile.width;
}

static void fill_columns(const struct dsflow_site *site, int32_t cols,
                         int32_t n, int32_t from, void *args)
{
    *(struct dsf_columns_args *)args = (struct dsf_columns_args){
        .rows = site->tile.rows, .n = n, .from = from, .cols = cols
    };
}

static void fill_join_att(const struct dsflow_site *site, int32_t parts,
                          int32_t t, void *args)
{
    int32_t n = site->tile.heads * site->tile.head_dim / parts;

    fill_columns(site, n, n, 0, args);
}

static void fill_join_act(const struct dsflow_site *site, int32_t parts,
                          int32_t t, void *args)
{
    fill_columns(site, site->tile.ffn / parts, site->tile.ffn / parts, 0, args);
}

static void fill_join_stream(const struct dsflow_site *site, int32_t parts,
                             int32_t t, void *args)
{
    int32_t n = site->tile.width / parts;

    fill_columns(site, n, n, 0, args);
}

static void fill_own_stream(const struct dsflow_site *site, int32_t parts,
                            int32_t t, void *args)
{
    int32_t n = site->tile.width / parts;

    fill_columns(site, site->tile.width, n, t * n, args);
}

/* As many ports as a task of several columns may have. */
static int columns_needs(const struct dsflow_op *op, const void *args,
                         struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsf_columns_args *a = args;

    need[0] = (struct dsflow_need){ 0, 0, DSFLOW_FP32 }; /* all of it */
    for (unsigned p = 1; p < DSFLOW_SEGMENT_PORTS; p++)
        need[p] = dsf_matrix((size_t)a->rows, (size_t)a->cols);
    return DSFLOW_OK;
}

#define SLICE(name, op, needs)                                                 \
    const struct dsf_slice dsf_slice_##name = { &dsf_op_##op, needs,           \
                                                fill_##name }

SLICE(qkv, qkv_forward, dsf_qkv_needs);
SLICE(attention, attention_forward, dsf_attention_needs);
SLICE(out, project, dsf_project_needs);
SLICE(up, mlp_up, dsf_mlp_up_needs);
SLICE(down, project, dsf_project_needs);
SLICE(logits, head_logits, dsf_head_needs);
SLICE(join_att, columns, columns_needs);
SLICE(join_act, columns, columns_needs);
SLICE(join_stream, columns, columns_needs);
SLICE(own_stream, columns, columns_needs);
