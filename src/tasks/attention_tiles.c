/* attention_tiles.c - how many tiles of scores attention on a GPU computes. */
#include "tasks/attention_tiles.h"

#include "base/alloc.h"

#include <stdlib.h>

/* The numbers of a head that kernels are compiled for. */
static int32_t width_of(int32_t d, bool hides)
{
    static const int32_t widths[] = { 32, 64, 96, 128, 192, 256 };
    int i = 0;

    while (widths[i] < d ||
           (hides && widths[i] != 64 && widths[i] != 128 && widths[i] != 256))
        i++;
    return widths[i];
}

/* Tensor cores take rows of whole chunks of 16 bytes (gpu/attention_side.c). */
static bool is_for_mma(const struct dsflow_attention_args *a, bool narrow)
{
    return narrow && a->tile.head_dim % 8 == 0 && a->tile.head_dim <= 256;
}

/* Scores are computed once more for each 64 columns of the results. */
static int plain_launches(int32_t head_dim, bool forward,
                          struct dsf_attention_launch *launches)
{
    const int32_t n = DSF_PLAIN_TILE, parts = (head_dim + n - 1) / n;
    const double d = head_dim;

    if (forward) {
        launches[0] = (struct dsf_attention_launch){ n, n, 1, (parts + 1) * d };
        return 1;
    }
    launches[0] =
        (struct dsf_attention_launch){ n, n, parts, (2 * parts + 2) * d };
    launches[1] =
        (struct dsf_attention_launch){ n, n, parts, (2 * parts + 1) * d };
    return 2;
}

int dsf_attention_launches(const struct dsflow_attention_args *a, bool forward,
                           bool narrow, bool hides,
                           struct dsf_attention_launch *launches)
{
    int32_t d = a->tile.head_dim, parts;

    if (!is_for_mma(a, narrow))
        return plain_launches(d, forward, launches);
    d = width_of(d, hides);
    if (forward) {
        launches[0] =
            (struct dsf_attention_launch){ DSF_FORWARD_QUERIES(d),
                                           DSF_FORWARD_KEYS(d), 1, 2.0 * d };
        return 1;
    }
    parts = DSF_BACKWARD_KEYS_PARTS(d);
    launches[0] = (struct dsf_attention_launch){ DSF_BACKWARD_KEYS_QUERIES(d),
                                                 DSF_BACKWARD_KEYS(d), parts,
                                                 (2.0 * parts + 2) * d };
    launches[1] = (struct dsf_attention_launch){ DSF_BACKWARD_QUERIES(d),
                                                 DSF_BACKWARD_QUERIES_KEYS(d),
                                                 1, 3.0 * d };
    return 2;
}

/* What a task is about, of one sequence. */
struct view {
    int64_t queries, keys;
    int64_t before; /* tokens of the first key before the first query */
    int64_t window; /* 0: none */
    int64_t pos, key_pos;
    const struct dsf_layout *layout;
    uint64_t *row; /* room for one of the layout */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks that any of the queries q .. end see, of columns first .. last. */
static void join_rows(const struct view *v, size_t head, int64_t q, int64_t end,
                      size_t first, size_t last)
{
    const struct dsf_layout *l = v->layout;
    const size_t from = (size_t)(v->pos + q) / l->block;
    const size_t to = (size_t)(v->pos + end - 1) / l->block;

    for (size_t w = first / 64; w <= last / 64; w++) {
        v->row[w] = 0;
        for (size_t r = from; r <= to; r++)
            v->row[w] |= dsf_layout_row(l, head, r)[w];
    }
}

/* Tiles first .. end of `n` keys that have one of these blocks, of keys before
 * `seen`. */
static int64_t count_blocks(const struct view *v, int64_t n, int64_t first,
                            int64_t seen, size_t column, size_t last)
{
    const int64_t block = (int64_t)v->layout->block;
    int64_t next = first, count = 0;

    for (size_t c = dsf_layout_next(v->row, column, last + 1); c <= last;
         c = dsf_layout_next(v->row, c + 1, last + 1)) {
        const int64_t key = (int64_t)c * block - v->key_pos;
        const int64_t end = least(key + block, seen);
        const int64_t from = key / n > next ? key / n : next;

        if (end > from * n) {
            count += (end - 1) / n + 1 - from;
            next = (end - 1) / n + 1;
        }
    }
    return count;
}

static int64_t count_head(const struct view *v, size_t head,
                          const struct dsf_attention_launch *launch)
{
    const int64_t n = launch->keys;
    int64_t count = 0;

    for (int64_t q = 0; q < v->queries; q += launch->queries) {
        const int64_t end = least(q + launch->queries, v->queries);
        const int64_t seen = least(end + v->before, v->keys);
        const int64_t past = q + 1 + v->before - v->window;
        const int64_t hidden = v->window > 0 && past > 0 ? past : 0;
        const int64_t first = hidden / n;
        size_t column, last;

        if (hidden >= seen)
            continue;
        if (v->layout == NULL) {
            count += (seen + n - 1) / n - first;
            continue;
        }
        column = (size_t)(v->key_pos + first * n) / v->layout->block;
        last = (size_t)(v->key_pos + seen - 1) / v->layout->block;
        join_rows(v, head, q, end, column, last);
        count += count_blocks(v, n, first, seen, column, last);
    }
    return count;
}

double dsf_attention_tiles(const struct dsflow_attention_args *a,
                           const struct dsf_layout *layout,
                           const struct dsf_attention_launch *launch,
                           bool hides)
{
    const struct dsflow_tile *t = &a->tile;
    struct view v = {
        .queries = t->rows / t->nseq,
        .keys = a->keys / t->nseq,
        .before = a->diagonal ? a->before : t->pos - a->key_pos,
        .window = hides ? a->window : 0,
        .pos = t->pos,
        .key_pos = a->key_pos,
        .layout = hides && a->block > 0 ? layout : NULL,
    };
    const bool apart = v.layout != NULL && a->layouts > 1;
    double count = 0;

    if (v.layout != NULL)
        v.row = dsf_xcalloc(v.layout->words, sizeof(*v.row));
    for (int32_t h = 0; h < (apart ? t->heads : 1); h++)
        count += (double)count_head(&v, (size_t)(a->head + h), launch);
    free(v.row);
    return count * t->nseq * (apart ? 1 : t->heads) * launch->parts;
}

/* Multiplications of a number. */
static double count_work(const struct dsflow_attention_args *a,
                         const struct dsf_layout *layout, bool forward,
                         bool narrow, bool hides)
{
    struct dsf_attention_launch launches[2];
    const int n = dsf_attention_launches(a, forward, narrow, hides, launches);
    double work = 0;

    for (int i = 0; i < n; i++)
        work += dsf_attention_tiles(a, layout, &launches[i], hides) /
                launches[i].parts * launches[i].queries * launches[i].keys *
                launches[i].products;
    return work;
}

double dsf_attention_gpu_scores(const struct dsflow_attention_args *a,
                                const struct dsf_layout *layout, bool forward,
                                bool narrow)
{
    return dsf_attention_dense_scores(a) *
           count_work(a, layout, forward, narrow, true) /
           count_work(a, NULL, forward, narrow, false);
}
