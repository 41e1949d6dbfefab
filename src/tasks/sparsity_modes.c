/* sparsity_modes.c - the layouts of DeepSpeed's sparse attention, block for
 * block (deepspeed/ops/sparse_attention/sparsity_config.py), but for which
 * blocks are the random ones. */
#include "tasks/sparsity.h"

#include "base/random.h"

#include <inttypes.h>
#include <string.h>

typedef const struct dsflow_sparsity_keys keys_t;

/* Blocks first .. end of a row. */
static void set_row(keys_t *k, uint8_t *on, int64_t row, int64_t first,
                    int64_t end)
{
    for (int64_t col = first; col < end; col++)
        on[row * k->blocks + col] = 1;
}

/* The same of all rows from `row` on. */
static void set_columns(keys_t *k, uint8_t *on, int64_t row, int64_t first,
                        int64_t end)
{
    for (; row < k->blocks; row++)
        set_row(k, on, row, first, end);
}

/* Nothing behind the queries. */
static void clear_behind(keys_t *k, uint8_t *on)
{
    for (int64_t row = 0; row < k->blocks; row++)
        memset(on + row * k->blocks + row + 1, 0,
               (size_t)(k->blocks - row - 1));
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A square of the diagonal, first .. end; its lower half where it is causal. */
static void set_square(keys_t *k, uint8_t *on, int64_t first, int64_t end)
{
    for (int64_t row = first; row < end; row++)
        set_row(k, on, row, first, k->causal ? row + 1 : end);
}

/* --- random blocks -------------------------------------------------------- */

/* num_random_blocks different ones of the first `from` blocks of a row (Floyd's
 * sampling). They follow from the seed, the head and the row, so every mesh has
 * the same. */
static void set_random(keys_t *k, uint8_t *on, int64_t row, int64_t from)
{
    uint64_t state = k->seed;
    uint8_t *cells = on + row * k->blocks;

    state = dsf_random(&state) + (uint64_t)k->head;
    state = dsf_random(&state) + (uint64_t)row;
    for (int64_t i = from - k->num_random_blocks; i < from; i++) {
        const int64_t at = (int64_t)(dsf_random(&state) % (uint64_t)(i + 1));

        cells[cells[at] ? i : at] = 1;
    }
}

/* --- checks --------------------------------------------------------------- */

static int check_most(keys_t *k, const char *key, int64_t n,
                      struct dsflow_err *err)
{
    if (n <= k->blocks)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %" PRId64 ": expected at most the %d blocks of a "
                       "row",
                       key, n, (int)k->blocks);
}

static int check_horizontal(keys_t *k, struct dsflow_err *err)
{
    if (!k->causal || !k->horizontal_global_attention)
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL,
        "horizontal_global_attention: true: expected false with "
        "attention = \"unidirectional\": rows see what is before "
        "them");
}

/* Global blocks that are ranges have as many ends as beginnings. */
static int check_ranges(keys_t *k, struct dsflow_err *err)
{
    const struct dsflow_ints *first = &k->global_block_indices;
    const struct dsflow_ints *end = &k->global_block_end_indices;

    if (end->n == 0)
        return DSFLOW_OK;
    if (end->n != first->n)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "global_block_end_indices: %u numbers: expected as "
                           "many as global_block_indices, %u",
                           end->n, first->n);
    for (unsigned i = 0; i < end->n; i++)
        if (first->v[i] >= end->v[i])
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "global_block_end_indices: %" PRId64
                               ": expected more than where the range begins, "
                               "%" PRId64,
                               end->v[i], first->v[i]);
    return DSFLOW_OK;
}

/* The i-th range of global blocks, as far as the layout goes. */
static int64_t range_end(keys_t *k, unsigned i)
{
    if (k->global_block_end_indices.n == 0)
        return k->global_block_indices.v[i] + 1;
    return least(k->global_block_end_indices.v[i], k->blocks);
}

/* --- dense ---------------------------------------------------------------- */

static void dense_fill(const void *part, keys_t *k, uint8_t *on)
{
    memset(on, 1, (size_t)k->blocks * (size_t)k->blocks);
}

const struct dsflow_sparsity dsf_sparsity_dense = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "dense",
    .summary = "all blocks",
    .fill = dense_fill,
};

/* --- fixed ---------------------------------------------------------------- */

static int fixed_check(const void *part, keys_t *k, struct dsflow_err *err)
{
    const int64_t local = k->num_local_blocks, global = k->num_global_blocks;
    const int64_t patterns = k->num_different_global_patterns;

    if (local % global != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "num_local_blocks: %" PRId64
                           ": expected a multiple of num_global_blocks, "
                           "%" PRId64,
                           local, global);
    if (patterns > 1 && !k->per_head)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "num_different_global_patterns: %" PRId64
                           ": expected 1 without different_layout_per_head",
                           patterns);
    if (patterns > local / global)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "num_different_global_patterns: %" PRId64
                           ": expected at most num_local_blocks / "
                           "num_global_blocks, %" PRId64,
                           patterns, local / global);
    return check_horizontal(k, err);
}

/* Global blocks first .. end. A first one before the layout counts from its
 * end, as Python's do. */
static void fixed_global(keys_t *k, uint8_t *on, int64_t first, int64_t end)
{
    if (first < 0)
        first = first + k->blocks > 0 ? first + k->blocks : 0;
    end = least(end, k->blocks);
    set_columns(k, on, k->causal ? first : 0, first, end);
    for (int64_t row = first; row < end && k->horizontal_global_attention;
         row++)
        set_row(k, on, row, 0, k->blocks);
}

static void fixed_fill(const void *part, keys_t *k, uint8_t *on)
{
    const int64_t local = k->num_local_blocks, global = k->num_global_blocks;
    const int64_t whole = k->blocks - k->blocks % local;
    const int64_t pattern = k->head % k->num_different_global_patterns;
    const int64_t first = local - (1 + pattern) * global;

    for (int64_t i = 0; i < k->blocks; i += local)
        set_square(k, on, i, least(i + local, k->blocks));
    for (int64_t i = first; i < whole; i += local)
        fixed_global(k, on, i, i + global);
    if (whole < k->blocks) {
        const int64_t start = least(whole + first, k->blocks - global);

        fixed_global(k, on, start, start + global);
    }
}

const struct dsflow_sparsity dsf_sparsity_fixed = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "fixed",
    .summary = "windows, and global blocks of each (Child et al. 2019)",
    .check = fixed_check,
    .fill = fixed_fill,
};

/* --- variable ------------------------------------------------------------- */

static int variable_check(const void *part, keys_t *k, struct dsflow_err *err)
{
    int status = check_most(k, "num_random_blocks", k->num_random_blocks, err);

    if (status == DSFLOW_OK && k->local_window_blocks.n == 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "local_window_blocks: []: expected the width of a "
                             "window or more");
    if (status == DSFLOW_OK)
        status = check_ranges(k, err);
    return status == DSFLOW_OK ? check_horizontal(k, err) : status;
}

static void variable_local(keys_t *k, uint8_t *on)
{
    const struct dsflow_ints *widths = &k->local_window_blocks;
    int64_t first = 0, width = 0;

    for (unsigned i = 0; first < k->blocks; i++) {
        width = i < widths->n ? widths->v[i] : width;
        set_square(k, on, first, least(first + width, k->blocks));
        first += width;
    }
}

static void variable_fill(const void *part, keys_t *k, uint8_t *on)
{
    for (int64_t row = 0; row < k->blocks; row++)
        set_random(k, on, row, k->blocks);
    variable_local(k, on);
    for (unsigned i = 0; i < k->global_block_indices.n; i++) {
        const int64_t first = k->global_block_indices.v[i];

        if (first >= k->blocks)
            continue;
        for (int64_t row = first;
             row < range_end(k, i) && k->horizontal_global_attention; row++)
            set_row(k, on, row, 0, k->blocks);
        set_columns(k, on, k->causal ? first : 0, first, range_end(k, i));
    }
}

const struct dsflow_sparsity dsf_sparsity_variable = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "variable",
    .summary =
        "windows of given widths, global blocks by number, random blocks",
    .check = variable_check,
    .fill = variable_fill,
};

/* --- sliding windows ------------------------------------------------------ */

/* Half a window on each side, or before. */
static void set_sliding(keys_t *k, uint8_t *on, bool behind)
{
    const int64_t half = k->num_sliding_window_blocks / 2;

    for (int64_t row = 0; row < k->blocks; row++)
        set_row(k, on, row, row > half ? row - half : 0,
                behind ? least(row + half + 1, k->blocks) : row + 1);
}

static int sliding_check(const void *part, keys_t *k, struct dsflow_err *err)
{
    return check_most(k, "num_sliding_window_blocks",
                      k->num_sliding_window_blocks, err);
}

static int bigbird_check(const void *part, keys_t *k, struct dsflow_err *err)
{
    int status = check_most(k, "num_random_blocks", k->num_random_blocks, err);

    if (status == DSFLOW_OK && k->causal && k->num_random_blocks > 1)
        status =
            dsflow_fail(err, DSFLOW_EINVAL,
                        "num_random_blocks: %" PRId64
                        ": expected at most 1 with attention = "
                        "\"unidirectional\": row 0 has one block to choose "
                        "from",
                        k->num_random_blocks);
    if (status == DSFLOW_OK)
        status = sliding_check(part, k, err);
    if (status == DSFLOW_OK)
        status = check_most(k, "num_global_blocks", k->num_global_blocks, err);
    return status;
}

static void bigbird_fill(const void *part, keys_t *k, uint8_t *on)
{
    for (int64_t row = 0; row < k->blocks; row++)
        set_random(k, on, row, k->causal ? row + 1 : k->blocks);
    set_sliding(k, on, true);
    for (int64_t row = 0; row < k->num_global_blocks; row++)
        set_row(k, on, row, 0, k->blocks);
    set_columns(k, on, 0, 0, k->num_global_blocks);
    if (k->causal)
        clear_behind(k, on);
}

const struct dsflow_sparsity dsf_sparsity_bigbird = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "bigbird",
    .summary = "a sliding window, first blocks that are global, random blocks "
               "(Zaheer et al. 2020)",
    .random_blocks = 1,
    .check = bigbird_check,
    .fill = bigbird_fill,
};

static int bslongformer_check(const void *part, keys_t *k,
                              struct dsflow_err *err)
{
    int status = sliding_check(part, k, err);

    return status == DSFLOW_OK ? check_ranges(k, err) : status;
}

static void bslongformer_fill(const void *part, keys_t *k, uint8_t *on)
{
    set_sliding(k, on, true);
    for (unsigned i = 0; i < k->global_block_indices.n; i++) {
        const int64_t first = k->global_block_indices.v[i];

        if (first >= k->blocks)
            continue;
        for (int64_t row = first; row < range_end(k, i); row++)
            set_row(k, on, row, 0, k->blocks);
        set_columns(k, on, 0, first, range_end(k, i));
    }
    if (k->causal)
        clear_behind(k, on);
}

const struct dsflow_sparsity dsf_sparsity_bslongformer = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "bslongformer",
    .summary = "a sliding window, and global blocks by number (Beltagy et al. "
               "2020)",
    .check = bslongformer_check,
    .fill = bslongformer_fill,
};

static void local_fill(const void *part, keys_t *k, uint8_t *on)
{
    set_sliding(k, on, !k->causal);
}

const struct dsflow_sparsity dsf_sparsity_local_sliding_window = {
    .abi = DSFLOW_SPARSITY_ABI,
    .name = "local_sliding_window",
    .summary = "a sliding window of blocks",
    .causal = 1,
    .one_for_all = 1,
    .check = sliding_check,
    .fill = local_fill,
};
