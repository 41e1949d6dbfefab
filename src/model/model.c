/* model.c - the units of a model, from [model] of the job. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "base/units.h"
#include "model/model_inputs.h"
#include "model/model_sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unit `i` of a segment, unless the model has none. */
static void add_unit(struct dsf_model *m, const struct dsflow_layout *layout,
                     const struct dsflow_segment *segment, unsigned i)
{
    const char *name = dsf_segment_unit(segment, i);
    struct dsf_unit *u = &m->units[m->nunits];
    bool in_block = layout->layer >= 0 && layout->layer < m->layers;

    *u = (struct dsf_unit){ .segment = segment,
                            .index = i,
                            .layer = layout->layer,
                            .kind = -1,
                            .padding = m->dims.vocab_rows - m->dims.vocab };
    for (unsigned k = 0; k < DSFLOW_SEGMENT_TENSORS; k++)
        u->at[k] = -1;
    if (in_block)
        snprintf(u->name, sizeof(u->name), "layer%d.%s", (int)layout->layer,
                 name);
    else
        snprintf(u->name, sizeof(u->name), "%s", name);
    if (segment->tensors != NULL)
        dsf_unit_list(u, layout);
    else if (!segment->hooks->lay_out(layout, i, u))
        return;
    for (unsigned t = 0; t < u->ntensors; t++)
        m->params += u->tensors[t].rows * u->tensors[t].cols;
    u->block = dsf_unit_block(u->elems);
    u->elems = dsf_round_up(u->elems, u->block);
    u->file_elems = dsf_round_up(u->file_elems, dsf_unit_block(u->file_elems));
    m->nunits++;
    if (in_block)
        u->kind = m->nkinds;
    for (unsigned k = 0; k + 1 < m->nunits && in_block; k++)
        if (m->units[k].segment == segment && m->units[k].index == i &&
            m->units[k].kind >= 0 && m->units[k].elems == u->elems)
            u->kind = m->units[k].kind;
    m->nkinds += in_block && u->kind == m->nkinds;
}

static void add_layer(struct dsf_model *m, int32_t l)
{
    struct dsf_layer *layer = &m->layer[l + 1];
    const struct dsflow_layout layout = {
        .sizes = dsf_model_tile(m, l),
        .layer = l,
        .layers = m->layers,
        .llama = m->family == DSF_LLAMA,
        .tied = m->tied,
        .qkv_bias = layer->dims.qkv_bias,
        .out_bias = layer->dims.out_bias,
        .mlp_bias = layer->dims.mlp_bias,
    };

    layer->units = m->nunits;
    for (unsigned s = 0; layer->segments[s] != NULL; s++)
        for (unsigned i = 0; dsf_segment_unit(layer->segments[s], i) != NULL;
             i++)
            add_unit(m, &layout, layer->segments[s], i);
}

static void add_layers(struct dsf_model *m, dsf_layer_fn change, void *user)
{
    static const struct dsflow_segment *const first[] = { &dsf_segment_embed,
                                                          NULL };
    static const struct dsflow_segment *const last[] = { &dsf_segment_head,
                                                         NULL };
    size_t most = 0;

    m->layer = dsf_xcalloc((size_t)m->layers + 2, sizeof(*m->layer));
    for (int32_t l = -1; l <= m->layers; l++) {
        const struct dsflow_segment *const *s = l < 0           ? first
                                                : l < m->layers ? m->block
                                                                : last;

        m->layer[l + 1].segments = s;
        m->layer[l + 1].dims = m->dims;
        if (l >= 0 && l < m->layers)
            m->layer[l + 1].dims.window = m->windows[l];
        else
            m->layer[l + 1].dims.input_quantizer = DSF_INPUTS_EXACT;
        if (change != NULL && l >= 0 && l < m->layers)
            change(user, l, &m->layer[l + 1].dims);
        for (; *s != NULL; s++)
            most += DSFLOW_SEGMENT_UNITS;
    }
    m->units = dsf_xcalloc(most, sizeof(*m->units));
    for (int32_t l = -1; l <= m->layers; l++)
        add_layer(m, l);
}

/* Does each segment of a plug-in accept the sizes of its layers? */
static int check_segments(const struct dsf_model *m, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned u = 0; u < m->nunits && status == DSFLOW_OK; u++) {
        const struct dsf_unit *unit = &m->units[u];
        struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
        struct dsflow_site site = { .tile = dsf_model_tile(m, unit->layer),
                                    .at = { unit->at },
                                    .parts = 1,
                                    .padding = m->dims.vocab_rows -
                                               m->dims.vocab };

        site.tile.rows = site.tile.nseq = 1;
        if (unit->segment->hooks == NULL)
            status = dsf_segment_needs(unit->segment, &site, need, err);
    }
    return status;
}

/* The unit of the first layer, before unit `most`, that has a tensor of this
 * name; NULL: none. */
static const struct dsf_unit *having(const struct dsf_model *m,
                                     const char *name, unsigned most)
{
    for (unsigned u = dsf_model_layer(m, 0)->units; u < most; u++)
        for (unsigned t = 0; t < m->units[u].ntensors; t++)
            if (strcmp(m->units[u].tensors[t].name, name) == 0)
                return &m->units[u];
    return NULL;
}

/* What takes the place of attention does not know of windows. */
static int check_windows(const struct dsf_model *m, const struct dsf_job *job,
                         struct dsflow_err *err)
{
    int32_t window = 0;

    for (int32_t l = 0; l < m->layers; l++)
        window = m->windows[l] > window ? m->windows[l] : window;
    if (window == 0 || strcmp(job->model.attention, "builtin") == 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "attention",
                        "\"%s\": expected \"builtin\" with a window of %d: "
                        "what replaces it sees all tokens",
                        job->model.attention, (int)window);
}

/* Files know tensors by their names: each is there once. */
static int check_names(const struct dsf_model *m, const struct dsf_job *job,
                       struct dsflow_err *err)
{
    for (unsigned u = 0; u < m->nunits; u++) {
        const struct dsf_unit *unit = &m->units[u], *other;

        for (unsigned t = 0; t < unit->ntensors && unit->layer == 0; t++) {
            other = having(m, unit->tensors[t].name, u);
            if (other != NULL)
                return dsf_job_fail(job, err, DSFLOW_EINVAL, "model",
                                    "segments",
                                    "\"%s\": its tensor %s is one of \"%s\", "
                                    "too",
                                    unit->segment->name, unit->tensors[t].name,
                                    other->segment->name);
        }
    }
    return DSFLOW_OK;
}

unsigned dsf_model_unit(const struct dsf_model *m, int32_t l,
                        const struct dsflow_segment *segment, unsigned i)
{
    for (unsigned u = dsf_model_layer(m, l)->units;
         u < m->nunits && m->units[u].layer == l; u++)
        if (m->units[u].segment == segment && m->units[u].index == i)
            return u;
    return 0;
}

struct dsflow_tile dsf_model_tile(const struct dsf_model *m, int32_t l)
{
    const struct dsf_dims *d = &dsf_model_layer(m, l)->dims;

    return (struct dsflow_tile){ .width = d->width,
                                 .heads = d->heads,
                                 .kv_heads = d->kv_heads,
                                 .head_dim = d->head_dim,
                                 .ffn = d->ffn,
                                 .vocab = d->vocab_rows,
                                 .context = d->context,
                                 .rms = d->rms,
                                 .swiglu = d->swiglu,
                                 .rope = d->rope,
                                 .eps = d->eps,
                                 .input_quantizer = d->input_quantizer,
                                 .input_bits = d->input_bits,
                                 .input_group = d->input_group };
}

double dsf_model_keys(const struct dsf_model *m, int32_t l, int64_t sequence)
{
    const double n = (double)sequence;
    const double window = (double)dsf_model_layer(m, l)->dims.window;

    return window == 0 || window >= n ? n : window * (2 - window / n);
}

int dsf_model_init(struct dsf_model *m, const struct dsf_job *job,
                   struct dsflow_err *err)
{
    return dsf_model_init_layers(m, job, NULL, NULL, err);
}

int dsf_model_init_layers(struct dsf_model *m, const struct dsf_job *job,
                          dsf_layer_fn change, void *user,
                          struct dsflow_err *err)
{
    int status;

    memset(m, 0, sizeof(*m));
    status = dsf_model_find_sizes(m, job, err);
    if (status == DSFLOW_OK && (m->block = dsf_job_segments(job, err)) == NULL)
        status = DSFLOW_EINVAL;
    if (status == DSFLOW_OK)
        status = check_windows(m, job, err);
    if (status == DSFLOW_OK) {
        add_layers(m, change, user);
        status = check_segments(m, err);
    }
    if (status == DSFLOW_OK)
        status = check_names(m, job, err);
    if (status == DSFLOW_OK)
        status = dsf_model_check_inputs(m, job, err);
    if (status < 0)
        dsf_model_fini(m);
    return status;
}

void dsf_model_pad(struct dsf_model *m)
{
    dsf_dims_pad(&m->dims);
    free(m->units);
    free(m->layer);
    m->nunits = 0;
    m->nkinds = 0;
    m->params = 0;
    add_layers(m, NULL, NULL);
}

void dsf_model_fini(struct dsf_model *m)
{
    free(m->units);
    free(m->layer);
    free(m->block);
    free(m->windows);
    m->windows = NULL;
    m->units = NULL;
    m->layer = NULL;
    m->block = NULL;
}

bool dsf_unit_is_as_in_files(const struct dsf_unit *u)
{
    const struct dsf_tensor *last = &u->tensors[u->ntensors - 1];

    return u->elems == u->file_elems && last->offset == last->file_offset;
}

void dsf_unit_from_file(const struct dsf_unit *u, float *v)
{
    int64_t end = u->elems; /* from here on, all is done */

    if (dsf_unit_is_as_in_files(u))
        return;
    for (unsigned i = u->ntensors; i-- > 0;) {
        const struct dsf_tensor *t = &u->tensors[i];
        const int64_t n = t->rows * t->cols, behind = t->offset + n;

        memmove(v + t->offset, v + t->file_offset, (size_t)n * sizeof(*v));
        memset(v + behind, 0, (size_t)(end - behind) * sizeof(*v));
        end = t->offset;
    }
}

void dsf_unit_to_file(const struct dsf_unit *u, float *v)
{
    int64_t done = 0;

    if (dsf_unit_is_as_in_files(u))
        return;
    for (unsigned i = 0; i < u->ntensors; i++) {
        const struct dsf_tensor *t = &u->tensors[i];
        const int64_t n = t->rows * t->cols;

        memset(v + done, 0, (size_t)(t->file_offset - done) * sizeof(*v));
        memmove(v + t->file_offset, v + t->offset, (size_t)n * sizeof(*v));
        done = t->file_offset + n;
    }
    memset(v + done, 0, (size_t)(u->file_elems - done) * sizeof(*v));
}

int dsf_unit_alloc(const struct dsf_model *m, unsigned u, float **to,
                   struct dsflow_err *err)
{
    size_t bytes = (size_t)m->units[u].elems * sizeof(float);

    *to = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*to == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for unit %s of the model",
                           dsf_size_text((double)bytes).s, m->units[u].name);
    return DSFLOW_OK;
}
