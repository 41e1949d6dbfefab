/* generation_layouts.c - layouts of sparse attention where text is made: a token
 * sees what it would see in training, and behind the longest sequence of that,
 * what it would see in one as long as the context. */
#include "train/generation.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "config/layer_list.h"
#include "graph/task.h"
#include "plan/plan.h"
#include "tasks/sparsity.h"

#include <stdlib.h>
#include <string.h>

/* Rows from `from` on of `longer` become rows of `to`, which has as many. */
static void copy_rows(struct dsf_attention_layout *to,
                      const struct dsf_attention_layout *from, size_t first,
                      size_t end)
{
    const size_t to_words = dsf_layout_words((size_t)to->blocks);
    const size_t words = dsf_layout_words((size_t)from->blocks);

    for (size_t h = 0; h < (size_t)to->heads; h++)
        for (size_t r = first; r < end; r++) {
            uint64_t *row =
                to->bits + (h * (size_t)to->blocks + r) * to_words;

            memset(row, 0, to_words * sizeof(*row));
            memcpy(row, from->bits + (h * (size_t)from->blocks + r) * words,
                   (words < to_words ? words : to_words) * sizeof(*row));
        }
}

static int make_layout(const struct dsf_generation *g, int32_t l,
                       struct dsf_attention_layout *layout,
                       struct dsflow_err *err)
{
    const struct dsf_dims *d = &dsf_model_layer(g->model, l)->dims;
    const int64_t block = g->job->sparse.block;
    const int64_t whole = dsf_round_up(d->context, block);
    const int64_t tokens = dsf_plan_sequence(g->job, g->model);
    struct dsf_attention_layout trained;
    int status =
        dsf_attention_layout_make(g->job, d->heads, l, tokens, &trained, err);

    if (status < 0)
        return status;
    if (tokens >= whole) {
        *layout = trained;
        return DSFLOW_OK;
    }
    status =
        dsf_attention_layout_make(g->job, d->heads, l, whole, layout, err);
    if (status == DSFLOW_OK)
        copy_rows(layout, &trained, 0, (size_t)trained.blocks);
    dsf_attention_layout_free(&trained);
    return status;
}

/* Which layout is this one? It is freed where it is there already. */
static int32_t keep(struct dsf_generation_layouts *all,
                    struct dsf_attention_layout *layout)
{
    for (int32_t i = 0; i < all->n; i++)
        if (dsf_attention_layout_equal(&all->v[i], layout)) {
            dsf_attention_layout_free(layout);
            return i;
        }
    all->v = dsf_xrealloc(all->v, (size_t)all->n + 1, sizeof(*all->v));
    all->v[all->n] = *layout;
    return all->n++;
}

int dsf_generation_make_layouts(struct dsf_generation *g,
                                struct dsflow_err *err)
{
    struct dsf_generation_layouts *all = &g->layouts;
    const size_t layers = (size_t)g->model->layers;
    int status = DSFLOW_OK;
    bool *on;

    if (g->job == NULL || !dsf_job_is_sparse(g->job))
        return DSFLOW_OK;
    on = dsf_xcalloc(layers, sizeof(*on));
    all->of = dsf_xcalloc(layers, sizeof(*all->of));
    if (!dsf_layer_list_read(g->job->sparse.layers, (int32_t)layers, on))
        status = dsf_job_fail(g->job, err, DSFLOW_EINVAL, "sparse_attention",
                              "layers", "\"%.60s\": " DSF_LAYER_LIST_EXPECTED,
                              g->job->sparse.layers, (int)layers - 1);
    for (int32_t l = 0; l < (int32_t)layers && status == DSFLOW_OK; l++) {
        struct dsf_attention_layout layout;

        all->of[l] = -1;
        if (!on[l])
            continue;
        status = make_layout(g, l, &layout, err);
        if (status == DSFLOW_OK)
            all->of[l] = keep(all, &layout);
    }
    free(on);
    return status;
}

void dsf_generation_free_layouts(struct dsf_generation *g)
{
    for (int32_t i = 0; i < g->layouts.n; i++)
        dsf_attention_layout_free(&g->layouts.v[i]);
    free(g->layouts.v);
    free(g->layouts.id);
    free(g->layouts.of);
}

static int32_t number(const struct dsf_generation *g, int32_t l)
{
    return g->layouts.of == NULL || l < 0 || l >= g->model->layers
               ? -1
               : g->layouts.of[l];
}

const struct dsf_attention_layout *
dsf_generation_layout(const struct dsf_generation *g, int32_t l)
{
    const int32_t i = number(g, l);

    return i < 0 ? NULL : &g->layouts.v[i];
}

dsflow_data_id dsf_generation_layout_id(const struct dsf_generation *g,
                                        int32_t l)
{
    const int32_t i = number(g, l);

    return i < 0 ? dsf_no_data() : g->layouts.id[i];
}

void dsf_generation_fill_layouts(const struct dsf_generation *g,
                                 struct dsflow_exec *exec)
{
    for (int32_t i = 0; i < g->layouts.n; i++)
        memcpy(dsflow_exec_map(exec, g->layouts.id[i], DSFLOW_RW),
               g->layouts.v[i].bits,
               dsf_attention_layout_bytes(&g->layouts.v[i]));
}
