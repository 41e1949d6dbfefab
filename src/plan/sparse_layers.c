/* sparse_layers.c - what [sparse_attention] says of each layer, and whether
 * these models can be computed so. */
#include "plan/sparse_layers.h"

#include "config/layer_list.h"
#include "tasks/sparsity.h"

#include <string.h>

static int fail(const struct dsflow_plan *plan, struct dsflow_err *err,
                const char *key, const char *text)
{
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "sparse_attention", key,
                        "%s", text);
}

/* Queries of a causal model see nothing behind them. */
static int check_direction(const struct dsflow_plan *plan,
                           struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    const struct dsflow_sparsity *s = dsflow_sparsity_find(job->sparse.mode);

    if (job->sparse.attention == DSF_SPARSE_UNIDIRECTIONAL ||
        (job->sparse.attention == DSF_SPARSE_AUTO && s->causal))
        return DSFLOW_OK;
    return fail(plan, err, "attention",
                job->sparse.attention == DSF_SPARSE_AUTO
                    ? "\"auto\", which is \"bidirectional\" in this mode: "
                      "expected \"unidirectional\": tokens of these models do "
                      "not see those behind them"
                    : "\"bidirectional\": expected \"unidirectional\": tokens "
                      "of these models do not see those behind them");
}

/* What takes the place of attention does not know of layouts. */
static int check_replaced(const struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;

    if (strcmp(job->model.attention, "builtin") == 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "attention",
                        "\"%s\": expected \"builtin\" with "
                        "sparse_attention.mode = \"%s\": what takes the place "
                        "of attention sees all tokens",
                        job->model.attention, job->sparse.mode);
}

static int read_layers(const struct dsflow_plan *plan, bool *on,
                       struct dsflow_err *err)
{
    const char *text = plan->job->sparse.layers;

    if (dsf_layer_list_read(text, plan->model->layers, on))
        return DSFLOW_OK;
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "sparse_attention",
                        "layers", "\"%.60s\": " DSF_LAYER_LIST_EXPECTED, text,
                        (int)plan->model->layers - 1);
}

int dsf_sparse_layers(const struct dsflow_plan *plan, bool *on,
                      struct dsflow_err *err)
{
    int status = check_direction(plan, err);

    if (status == DSFLOW_OK)
        status = check_replaced(plan, err);
    return status < 0 ? status : read_layers(plan, on, err);
}

/* A window may leave a query none of the blocks of its row. */
static int check_row(const struct dsflow_plan *plan, int32_t l,
                     const struct dsf_attention_layout *layout, int32_t head,
                     int32_t row, struct dsflow_err *err)
{
    const struct dsf_layout of = dsf_attention_layout_of(layout);
    const uint64_t *bits = dsf_layout_row(&of, (size_t)head, (size_t)row);
    const int32_t window = dsf_model_layer(plan->model, l)->dims.window;
    int32_t column = row;

    while (!(bits[column / 64] >> column % 64 & 1))
        column--;
    if (column == row || window == 0 || (row - column) * layout->block < window)
        return DSFLOW_OK;
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "sparse_attention",
                        "mode",
                        "\"%s\": row %d of head %d sees block %d at most: its "
                        "queries would see nothing with the window of layer "
                        "%d, %d tokens",
                        plan->job->sparse.mode, (int)row, (int)head,
                        (int)column, (int)l, (int)window);
}

static int check_rows(const struct dsflow_plan *plan, int32_t l,
                      const struct dsf_attention_layout *layout,
                      struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (int32_t h = 0; h < layout->heads; h++)
        for (int32_t r = 0; r < layout->blocks && status == DSFLOW_OK; r++)
            status = check_row(plan, l, layout, h, r, err);
    return status;
}

int dsf_sparse_layout(const struct dsflow_plan *plan, int32_t l,
                      struct dsf_attention_layout *layout,
                      struct dsflow_err *err)
{
    int status = dsf_attention_layout_make(
        plan->job, dsf_model_layer(plan->model, l)->dims.heads, l,
        plan->sequence, layout, err);

    if (status < 0)
        return status;
    status = check_rows(plan, l, layout, err);
    if (status < 0)
        dsf_attention_layout_free(layout);
    return status;
}
