/* plan_layout.c - the layout of sparse attention, printed. */
#include "cli/plan_layout.h"

#include "base/alloc.h"
#include "config/layer_list.h"
#include "plan/plan.h"
#include "tasks/sparsity.h"

#include <stdlib.h>
#include <string.h>

/* The first layer of sparse_attention.layers. */
static int find_layer(const struct dsf_session *s, int32_t *layer,
                      struct dsflow_err *err)
{
    const char *text = s->job->sparse.layers;
    int32_t layers = s->model.layers;
    bool *on = dsf_xcalloc((size_t)layers, sizeof(*on));
    int status = DSFLOW_OK;

    if (!dsf_layer_list_read(text, layers, on))
        status = dsf_job_fail(s->job, err, DSFLOW_EINVAL, "sparse_attention",
                              "layers", "\"%.60s\": " DSF_LAYER_LIST_EXPECTED,
                              text, (int)layers - 1);
    for (*layer = 0; status == DSFLOW_OK && *layer < layers && !on[*layer];)
        ++*layer;
    free(on);
    return status;
}

static int read_head(const char *text, int32_t heads, int32_t *head,
                     struct dsflow_err *err)
{
    char *end;
    long n = strtol(text, &end, 10);

    *head = (int32_t)n;
    if (*text == '\0' ||
        (*end == '\0' && n >= 0 && n < heads && *text != '+' && *text != ' '))
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "--layout=%.40s: expected a head, 0 to %d", text,
                       (int)heads - 1);
}

/* Blocks that a causal model can see: none behind the queries. */
static int64_t count_causal(const struct dsf_sparsity_layout *l, int32_t head)
{
    const uint8_t *on = dsf_sparsity_head(l, head);
    int64_t n = 0;

    for (int64_t row = 0; row < l->blocks; row++)
        for (int64_t col = 0; col <= row; col++)
            n += on[row * l->blocks + col];
    return n;
}

static void print(const struct dsf_session *s,
                  const struct dsf_sparsity_layout *l, int32_t layer,
                  int32_t head)
{
    const uint8_t *on = dsf_sparsity_head(l, head);
    const double all = (double)l->blocks * l->blocks;
    const double half = (double)l->blocks * (l->blocks + 1) / 2;
    const int64_t n = dsf_sparsity_count(l, head);
    const int64_t causal = count_causal(l, head);

    for (int64_t row = 0; row < l->blocks; row++) {
        for (int64_t col = 0; col < l->blocks; col++)
            putchar(on[row * l->blocks + col] ? '1' : '0');
        putchar('\n');
    }
    if (l->heads > 1)
        printf("\n%s, head %d of %d, layer %d", s->job->sparse.mode, (int)head,
               (int)l->heads, (int)layer);
    else
        printf("\n%s, all heads, layer %d", s->job->sparse.mode, (int)layer);
    printf(": %d x %d blocks of %d tokens\n", (int)l->blocks, (int)l->blocks,
           (int)s->job->sparse.block);
    printf("density %.4g: %lld of %.0f blocks\n", (double)n / all, (long long)n,
           all);
    printf("not behind the queries: density %.4g, %lld of %.0f\n",
           (double)causal / half, (long long)causal, half);
}

int dsf_plan_layout(const struct dsf_session *s, const char *text,
                    struct dsflow_err *err)
{
    struct dsf_sparsity_layout layout;
    int32_t layer = 0, head = 0, heads = s->model.dims.heads;
    int status = find_layer(s, &layer, err);

    if (status == DSFLOW_OK)
        status = read_head(text, heads, &head, err);
    if (status == DSFLOW_OK)
        status = dsf_sparsity_make(s->job, heads, layer,
                                   dsf_plan_sequence(s->job, &s->model),
                                   &layout, err);
    if (status < 0)
        return status;
    print(s, &layout, layer, head);
    dsf_sparsity_free(&layout);
    return DSFLOW_OK;
}
