/* sparsity.c - the layouts of sparse attention: which there are, and those that
 * a job asks for. */
#include "tasks/sparsity.h"

#include "base/returned.h"
#include "config/job_keys.h"
#include "tasks/components.h"

#include <stdlib.h>
#include <string.h>

static const void *const builtin[] = {
    &dsf_sparsity_dense,
    &dsf_sparsity_fixed,
    &dsf_sparsity_variable,
    &dsf_sparsity_bigbird,
    &dsf_sparsity_bslongformer,
    &dsf_sparsity_local_sliding_window,
    NULL,
};

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_sparsity *s = thing;
    int status =
        dsf_registry_check(&dsf_sparsities, s->abi, s->name, s->summary, err);

    if (status == DSFLOW_OK && s->fill == NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "layout %.60s: has no function fill", s->name);
    if (status == DSFLOW_OK)
        status = dsf_registry_add(&dsf_sparsities, s->name, s, origin, err);
    if (status == DSFLOW_OK)
        status = dsf_component_options(&dsf_sparsities, s->name, s->summary,
                                       s->options, s->part_size, err);
    return status;
}

struct dsf_registry dsf_sparsities = {
    .sort = "layout",
    .abi = DSFLOW_SPARSITY_ABI,
    .add = add,
    .builtin = builtin,
};

int dsflow_sparsity_register(const struct dsflow_sparsity *s,
                             struct dsflow_err *err)
{
    return dsf_sparsities.add(s, DSF_PROGRAM, err);
}

const char *dsf_job_sparsity_name(const struct dsflow_option *option,
                                  unsigned i)
{
    const struct dsf_registered *r = dsf_registry_at(&dsf_sparsities, i);

    return r != NULL ? r->name : NULL;
}

const struct dsflow_sparsity *dsflow_sparsity_find(const char *name)
{
    return dsf_registry_thing(&dsf_sparsities, name);
}

const struct dsflow_sparsity *dsflow_sparsity_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_sparsities, i);
}

bool dsf_job_is_sparse(const struct dsf_job *job)
{
    return strcmp(job->sparse.mode, dsf_sparsity_dense.name) != 0;
}

/* --- layouts -------------------------------------------------------------- */

static int fail(const struct dsf_job *job, struct dsflow_err *err,
                const char *key, const char *text)
{
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "sparse_attention", key, "%s",
                        text);
}

/* Blocks of a sequence: all of them are whole. */
static int count_blocks(const struct dsf_job *job, int64_t tokens,
                        int32_t *blocks, struct dsflow_err *err)
{
    const int64_t block = job->sparse.block, below = tokens / block * block;
    char text[160];

    *blocks = (int32_t)(tokens / block);
    if (block != 16 && block != 32 && block != 64 && block != 128) {
        snprintf(text, sizeof(text), "%lld: expected 16, 32, 64 or 128",
                 (long long)block);
        return fail(job, err, "block", text);
    }
    if (tokens % block == 0)
        return DSFLOW_OK;
    if (below > 0)
        snprintf(text, sizeof(text),
                 "%lld: expected a divisor of the sequence, %lld tokens; "
                 "sequences of %lld and %lld are the nearest",
                 (long long)block, (long long)tokens, (long long)below,
                 (long long)(below + block));
    else
        snprintf(text, sizeof(text),
                 "%lld: expected a divisor of the sequence, %lld tokens; one "
                 "of %lld is the nearest",
                 (long long)block, (long long)tokens, (long long)block);
    return fail(job, err, "block", text);
}

/* A layer has numbers of its own: seeds that follow each other give unlike
 * ones. */
static uint64_t layer_seed(const struct dsf_job *job, int32_t layer)
{
    return ((uint64_t)job->sparse.seed << 20) + (uint64_t)layer;
}

static struct dsflow_sparsity_keys keys_of(const struct dsf_job *job,
                                           const struct dsflow_sparsity *s,
                                           int32_t layer)
{
    const struct dsf_job_sparse *in = &job->sparse;

    return (struct dsflow_sparsity_keys){
        .per_head = in->different_layout_per_head && !s->one_for_all,
        .seed = layer_seed(job, layer),
        .causal = in->attention == DSF_SPARSE_AUTO
                      ? s->causal
                      : in->attention == DSF_SPARSE_UNIDIRECTIONAL,
        .num_local_blocks = in->num_local_blocks,
        .num_global_blocks = in->num_global_blocks,
        .num_different_global_patterns = in->num_different_global_patterns,
        .horizontal_global_attention = in->horizontal_global_attention,
        .num_random_blocks = in->num_random_blocks < 0 ? s->random_blocks
                                                       : in->num_random_blocks,
        .num_sliding_window_blocks = in->num_sliding_window_blocks,
        .local_window_blocks = in->local_window_blocks,
        .global_block_indices = in->global_block_indices,
        .global_block_end_indices = in->global_block_end_indices,
    };
}

/* The message of a mode begins with its key. */
static int fail_key(const struct dsf_job *job, const char *said,
                    struct dsflow_err *err)
{
    const char *colon = strstr(said, ": ");
    char key[64] = "mode";

    if (colon != NULL && (size_t)(colon - said) < sizeof(key)) {
        snprintf(key, sizeof(key), "%.*s", (int)(colon - said), said);
        said = colon + 2;
    }
    return fail(job, err, key, said);
}

static int check_rows(const struct dsf_job *job,
                      const struct dsf_sparsity_layout *l,
                      struct dsflow_err *err)
{
    for (int32_t h = 0; h < l->heads; h++)
        for (int32_t row = 0; row < l->blocks; row++) {
            const uint8_t *on =
                dsf_sparsity_head(l, h) + (int64_t)row * l->blocks;

            if (memchr(on, 1, (size_t)l->blocks) == NULL)
                return dsf_job_fail(job, err, DSFLOW_EINVAL, "sparse_attention",
                                    "mode",
                                    "\"%s\": row %d of head %d has no block: "
                                    "its queries would see nothing",
                                    job->sparse.mode, (int)row, (int)h);
        }
    return DSFLOW_OK;
}

static int fill(const struct dsf_job *job, const struct dsflow_sparsity *s,
                struct dsflow_sparsity_keys *keys,
                struct dsf_sparsity_layout *l, struct dsflow_err *err)
{
    const void *part = dsf_job_part(job, s->options);
    const size_t cells = (size_t)l->blocks * (size_t)l->blocks;
    struct dsflow_err said = { .msg = "" };

    if (s->check != NULL && dsf_returned(s->check(part, keys, &said), DSFLOW_OK,
                                         "layout", s->name, "check", &said) < 0)
        return fail_key(job, said.msg, err);
    l->on = calloc((size_t)l->heads * cells, 1);
    if (l->on == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %zu bytes for the layout of attention",
                           (size_t)l->heads * cells);
    for (keys->head = 0; keys->head < l->heads; keys->head++)
        s->fill(part, keys, l->on + (size_t)keys->head * cells);
    return check_rows(job, l, err);
}

int dsf_sparsity_make(const struct dsf_job *job, int32_t heads, int32_t layer,
                      int64_t tokens, struct dsf_sparsity_layout *layout,
                      struct dsflow_err *err)
{
    const struct dsflow_sparsity *s = dsflow_sparsity_find(job->sparse.mode);
    struct dsflow_sparsity_keys keys = keys_of(job, s, layer);
    int status = dsf_job_check_part(job, s->options, err);

    *layout =
        (struct dsf_sparsity_layout){ .heads = keys.per_head ? heads : 1 };
    if (status == DSFLOW_OK)
        status = count_blocks(job, tokens, &layout->blocks, err);
    keys.blocks = layout->blocks;
    if (status == DSFLOW_OK)
        status = fill(job, s, &keys, layout, err);
    if (status < 0)
        dsf_sparsity_free(layout);
    return status;
}

void dsf_sparsity_free(struct dsf_sparsity_layout *layout)
{
    free(layout->on);
    layout->on = NULL;
}

const uint8_t *dsf_sparsity_head(const struct dsf_sparsity_layout *l,
                                 int32_t head)
{
    const size_t cells = (size_t)l->blocks * (size_t)l->blocks;

    return l->on + (l->heads > 1 ? (size_t)head : 0) * cells;
}

int64_t dsf_sparsity_count(const struct dsf_sparsity_layout *l, int32_t head)
{
    const uint8_t *on = dsf_sparsity_head(l, head);
    const size_t cells = (size_t)l->blocks * (size_t)l->blocks;
    int64_t n = 0;

    for (size_t i = 0; i < cells; i++)
        n += on[i];
    return n;
}
