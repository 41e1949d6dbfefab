/* bench_layouts.c - how long the attention tasks of a layer with a layout take,
 * forward and backward, beside those of a dense one: one head of 64 numbers on
 * one core, tiles of 256 tokens, keys of as many tiles in a task as a plan has
 * (plan/key_tiles.h; `keys`). A layout and dense attention are measured one
 * after the other, in both orders by turns, and the median of the ratios is
 * printed, with the bound that is asked for. `scores` is the ratio of those
 * of the costs of tasks, which a plan goes by.
 *
 *   bench_layouts [TOKENS...]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/by_value.h"
#include "codelets/codelets.h"
#include "tasks/attention_layout.h"
#include "tasks/tasks.h"

enum { TILE = 256, DIM = 64, MOST_PAIRS = 4 };

/* Of this thread, so that others who run here disturb less. */
static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t n, float spread)
{
    float *p = aligned_alloc(4096, (n * sizeof(float) + 8191) / 4096 * 4096);
    uint32_t s = 12345;

    if (p == NULL) {
        fprintf(stderr, "bench_layouts: not enough memory\n");
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        p[i] = ((float)(s >> 8) / 8388608.0f - 1) * spread;
    }
    return p;
}

/* A sequence of one head. */
struct sequence {
    int32_t tokens;
    float *q, *kv, *att, *lse, *datt, *delta, *dq, *dkv, *scratch;
    size_t scratch_bytes;
};

/* What a layer took, and what its tasks are. */
struct took {
    double s, scores, tasks;
};

static struct dsflow_buf buf(float *p, size_t n)
{
    return (struct dsflow_buf){ p, n * sizeof(float), (int64_t)n, DSFLOW_FP32 };
}

static void run(struct sequence *s, const struct dsflow_codelet *codelet,
                const struct dsflow_attention_args *a, int32_t first,
                const struct dsf_attention_layout *layout, struct took *took)
{
    const size_t t = (size_t)a->tile.pos, n = (size_t)a->tile.rows;
    const size_t keys = (size_t)first * TILE, nkeys = (size_t)a->keys;
    struct dsflow_buf bufs[DSFLOW_ATTENTION_NPORTS] = {
        [DSFLOW_ATTENTION_Q] = buf(s->q + t * DIM, n * DIM),
        [DSFLOW_ATTENTION_KV] = buf(s->kv + keys * 2 * DIM, nkeys * 2 * DIM),
        [DSFLOW_ATTENTION_ATT] = buf(s->att + t * DIM, n * DIM),
        [DSFLOW_ATTENTION_LSE] = buf(s->lse + 2 * t, 2 * n),
        [DSFLOW_ATTENTION_DATT] = buf(s->datt + t * DIM, n * DIM),
        [DSFLOW_ATTENTION_DELTA] = buf(s->delta + t, n),
        [DSFLOW_ATTENTION_DQ] = buf(s->dq + t * DIM, n * DIM),
        [DSFLOW_ATTENTION_DKV] = buf(s->dkv + keys * 2 * DIM, nkeys * 2 * DIM),
    };
    struct dsflow_shape shapes[DSFLOW_ATTENTION_NPORTS] = { { 0 } };
    const struct dsflow_op *op = codelet->op;
    const struct dsflow_case c = { op, shapes, op->nports, a };
    struct dsflow_cost cost = { 0 };
    double begin;

    if (a->block > 0)
        bufs[DSFLOW_ATTENTION_LAYOUT].ptr = layout->bits;
    op->cost(&c, &cost);
    took->scores += cost.scores;
    took->tasks++;
    if (op->scratch(&c) > s->scratch_bytes) {
        free(s->scratch);
        s->scratch_bytes = op->scratch(&c);
        s->scratch = numbers(s->scratch_bytes / sizeof(float) + 1, 0);
    }
    begin = now();
    codelet->cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = op->nports, .args = a, .scratch = s->scratch });
    took->s += now() - begin;
}

/* Tiles of keys in a task, of a layer whose layout has this share of blocks. */
static int32_t key_tiles(int32_t tokens, double density)
{
    const int32_t n = tokens / TILE, tasks = (n + 15) / 16;
    const int32_t sparse = (int32_t)(tasks / density);
    const int32_t most = sparse < n / 2 ? sparse : n / 2;

    return most > tasks ? most : tasks;
}

/* The tasks of a layer: of tile t, and the keys of tiles k .. k + each. NULL:
 * dense. */
static struct took layer(struct sequence *s,
                         const struct dsf_attention_layout *layout,
                         int32_t each)
{
    const int32_t n = s->tokens / TILE;
    struct took took = { 0 };

    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n; i++) {
            const int32_t t = pass == 0 ? i : n - 1 - i;
            int first = 1;

            for (int32_t j = 0; j <= t / each; j++) {
                const int32_t k = (pass == 0 ? j : t / each - j) * each;
                const int32_t own = t - k < each;
                const int32_t tiles = own            ? t - k + 1
                                      : k + each < n ? each
                                                     : n - k;
                struct dsflow_attention_args a = {
                    .tile = { .rows = TILE,
                              .nseq = 1,
                              .pos = t * TILE,
                              .width = DIM,
                              .heads = 1,
                              .kv_heads = 1,
                              .head_dim = DIM,
                              .ffn = 1,
                              .vocab = 1,
                              .context = s->tokens,
                              .eps = 1e-5f },
                    .keys = tiles * TILE,
                    .key_tile = tiles > 1 ? TILE : 0,
                    .before = (tiles - 1) * TILE * own,
                    .diagonal = own,
                    .last = own,
                    .first_q = own,
                    .first_kv = t == n - 1,
                    .key_pos = layout != NULL ? k * TILE : 0,
                };

                if (layout != NULL)
                    dsf_attention_lay_out(layout, 0, &a);
                if (!own && a.block > 0 && a.seen == 0)
                    continue;
                a.first = first;
                first = 0;
                run(s,
                    pass == 0 ? &dsf_codelet_attention_forward
                              : &dsf_codelet_attention_backward_input,
                    &a, k, layout, &took);
            }
        }
    return took;
}

/* Each row sees its own block, those just before it, and some of the others;
 * their share of all that are not behind it is about `density`. */
static struct dsf_attention_layout make(int32_t tokens, int32_t block,
                                        double density)
{
    const int32_t n = tokens / block;
    struct dsf_attention_layout l = { block, n, 1, NULL };
    const size_t words = dsf_layout_words((size_t)n);
    uint32_t s = 1;

    l.bits = calloc(dsf_attention_layout_bytes(&l), 1);
    if (l.bits == NULL)
        exit(1);
    for (int32_t r = 0; r < n; r++)
        for (int32_t c = 0; c <= r; c++) {
            /* Half in a window, half anywhere. */
            const double window = density * n / 4;

            s = s * 1664525 + 1013904223;
            if (r - c <= window ||
                (double)(s >> 8) / 0x1p24 < density * (r - window) / (2.0 * r))
                l.bits[(size_t)r * words + (size_t)c / 64] |= (uint64_t)1
                                                              << c % 64;
        }
    return l;
}

static double density_of(const struct dsf_attention_layout *layout)
{
    const struct dsf_layout l = dsf_attention_layout_of(layout);
    const double n = layout->blocks;
    double on = 0;

    for (size_t r = 0; r < (size_t)layout->blocks; r++)
        for (size_t c = 0; c <= r; c++)
            on += (double)(dsf_layout_row(&l, 0, r)[c / 64] >> c % 64 & 1);
    return on / (n * (n + 1) / 2);
}

static void compare(struct sequence *s, int32_t block, double density)
{
    struct dsf_attention_layout l = make(s->tokens, block, density);
    const int32_t dense_keys = key_tiles(s->tokens, 1);
    const double d = density_of(&l), factor = block == 16 ? 1.8 : 1.15;
    struct took sparse = { 0 }, dense = { 0 };
    const int pairs = s->tokens > 8192 ? 2 : MOST_PAIRS;
    double ratio[MOST_PAIRS];

    for (int i = 0; i < pairs; i++) {
        if (i % 2 == 0)
            dense = layer(s, NULL, dense_keys);
        sparse = layer(s, &l, key_tiles(s->tokens, d));
        if (i % 2 == 1)
            dense = layer(s, NULL, dense_keys);
        ratio[i] = sparse.s / dense.s;
    }
    qsort(ratio, (size_t)pairs, sizeof(*ratio), dsf_by_value);
    ratio[0] = (ratio[pairs / 2 - 1] + ratio[pairs / 2]) / 2;
    printf("%6d  %5d  %7.3f  %5.3f  %5.3f  %s  %8.3f  %5.0f of %.0f\n",
           (int)s->tokens, (int)block, d, ratio[0], factor * d + 0.02,
           ratio[0] <= factor * d + 0.02 ? "  " : "no",
           sparse.scores / dense.scores, sparse.tasks, dense.tasks);
    fflush(stdout);
    dsf_attention_layout_free(&l);
}

static void bench(int32_t tokens)
{
    static const int32_t blocks[] = { 16, 64, 128 };
    static const double densities[] = { 0.03, 0.1, 0.3, 0.6 };
    const size_t n = (size_t)tokens;
    struct sequence s = {
        tokens,
        numbers(n * DIM, 1),
        numbers(n * 2 * DIM, 1),
        numbers(n * DIM, 1),
        numbers(2 * n, 1),
        numbers(n * DIM, 1),
        numbers(n, 1),
        numbers(n * DIM, 1),
        numbers(n * 2 * DIM, 1),
        NULL,
        0,
    };

    layer(&s, NULL, 1); /* warm */
    for (size_t b = 0; b < 3; b++)
        for (size_t d = 0; d < 4; d++)
            compare(&s, blocks[b], densities[d]);
    free(s.q);
    free(s.kv);
    free(s.att);
    free(s.lse);
    free(s.datt);
    free(s.delta);
    free(s.dq);
    free(s.dkv);
    free(s.scratch);
}

int main(int argc, char **argv)
{
    printf("tokens  block  density  ratio  bound        scores  tasks\n");
    for (int i = 1; i < argc; i++)
        bench(atoi(argv[i]) / TILE * TILE);
    for (int32_t n = 2048; n <= 16384 && argc == 1; n *= 2)
        bench(n);
    return 0;
}
