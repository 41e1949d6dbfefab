/* test_attention_tiles.c - plans count the tiles of scores that kernels of
 * attention compute: the barriers of emulated ones, of which there are some for
 * each tile, say how many there were. */
#include "attention_on_gpu.h"

#include "gpu/emulation/emulated.h"
#include "gpu/place.h"
#include "tasks/attention_tiles.h"

static struct dsf_layout layout; /* of the task that runs; without bits: none */
static double all;               /* tiles, of all tasks of a case */
static double most;              /* the same, if nothing were hidden */

static int64_t strips(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

/* Blocks of threads that launch `i` of a task has. */
static double blocks_of(const struct dsflow_attention_args *a, bool forward,
                        int i, const struct dsf_attention_launch *l)
{
    const struct dsflow_tile *t = &a->tile;

    if (!forward && i == 0)
        return (double)(t->nseq * t->kv_heads * l->parts *
                        strips(a->keys / t->nseq, l->keys));
    return (double)(t->nseq * t->heads * l->parts *
                    strips(t->rows / t->nseq, l->queries));
}

/* Of plain kernels, two for each 64 columns of a product of rows by rows, and
 * two for one that has weights. Of the others one, and one in each block that
 * may have met nothing, or that keeps narrow queries in registers. */
static double barriers_of(const struct dsflow_attention_args *a, bool forward,
                          bool narrow, bool hides)
{
    const double cols = (double)strips(a->tile.head_dim, DSF_PLAIN_TILE);
    struct dsflow_attention_args open = *a;
    struct dsf_attention_launch l[2];
    const int n = dsf_attention_launches(a, forward, narrow, hides, l);
    double barriers = 0;

    for (int i = 0; i < n; i++) {
        const double tiles = dsf_attention_tiles(a, &layout, &l[i], hides);
        const bool keeps = a->tile.head_dim <= 64 && (forward || i == 1);

        if (narrow && a->tile.head_dim % 8 == 0)
            barriers +=
                tiles + (hides || keeps ? blocks_of(a, forward, i, &l[i]) : 0);
        else if (forward)
            barriers += tiles * cols * (2 * cols + 2);
        else
            barriers += tiles * (4 * cols + (i == 0 ? 4 : 2));
        open.window = open.block = 0;
        all += tiles;
        most += dsf_attention_tiles(&open, NULL, &l[i], hides);
    }
    return barriers;
}

static void on_gpu(const struct dsflow_op *op, const struct dsflow_call *call)
{
    const struct dsflow_attention_args *a = call->args;
    const uint64_t before = emulated_work_done().barriers;
    const bool hides = a->window > 0 || a->block > 0 || a->before > 0;
    const char *why = place_run(place_side(op->name), call);
    const double expected =
        barriers_of(a, op == &dsf_op_attention_forward,
                    call->bufs[DSFLOW_ATTENTION_Q].dtype != DSFLOW_FP32, hides);
    const double got = (double)(emulated_work_done().barriers - before);

    if (why != NULL)
        fail_msg("%s: %s", op->name, why);
    if (got != expected)
        fail_msg("%s: %d queries from %d, %d keys from %d, %d numbers, window "
                 "%d, blocks of %d: %g barriers, expected %g",
                 op->name, (int)a->tile.rows, (int)a->tile.pos, (int)a->keys,
                 (int)a->key_pos, (int)a->tile.head_dim, (int)a->window,
                 (int)a->block, got, expected);
}

struct sight {
    int32_t window;
    int32_t block, of; /* about one block of `of` is on */
    bool each_head;
};

static void try_case(int32_t nseq, int32_t heads, int32_t head_dim,
                     enum dsflow_dtype type, struct sight sight, int ntiles,
                     const int32_t *rows)
{
    struct sequence s =
        sequence_new((struct dsflow_tile){ .nseq = nseq,
                                           .width = heads * head_dim,
                                           .heads = heads,
                                           .kv_heads = 1,
                                           .head_dim = head_dim,
                                           .ffn = 1,
                                           .context = 2000,
                                           .vocab = 1,
                                           .eps = 1e-5f },
                     ntiles, rows);

    s.type = type;
    s.window = sight.window;
    all = most = 0;
    layout.bits = NULL;
    if (sight.block > 0) {
        sequence_lay_out(&s, sight.block, sight.each_head ? heads : 1, sight.of,
                         7);
        layout = dsf_attention_layout_of(&s.layout);
    }
    for (int i = 0; i < ntiles; i++) {
        memset(s.att[i].f, 0, s.att[i].n * sizeof(float));
        memset(s.lse[i].f, 0, s.lse[i].n * sizeof(float));
    }
    forward_by(&s, &gpu_forward);
    fill_delta(&s);
    backward_by(&s, &gpu_backward);
    assert_true(all > 0 && (all < most) == (sight.window + sight.block > 0));
    sequence_free(&s);
}

#define TRY(nseq, heads, head_dim, type, sight, ...)                           \
    try_case(nseq, heads, head_dim, type, sight,                               \
             sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t),             \
             (int32_t[]){ __VA_ARGS__ })
#define SIGHT(...) ((struct sight){ __VA_ARGS__ })

static void dense_attention(void **state)
{
    TRY(1, 1, 8, DSFLOW_BF16, SIGHT(0), 500);
    TRY(2, 2, 72, DSFLOW_FP16, SIGHT(0), 300);
    TRY(1, 1, 136, DSFLOW_BF16, SIGHT(0), 70, 40);
    TRY(1, 1, 4, DSFLOW_FP32, SIGHT(0), 200, 70);
    TRY(1, 1, 70, DSFLOW_FP32, SIGHT(0), 130);
}

static void windows(void **state)
{
    TRY(1, 1, 8, DSFLOW_BF16, SIGHT(65), 700);
    TRY(1, 2, 8, DSFLOW_BF16, SIGHT(129), 300, 64, 99);
    TRY(2, 1, 72, DSFLOW_FP16, SIGHT(33), 600);
    TRY(1, 1, 136, DSFLOW_BF16, SIGHT(50), 200);
    TRY(1, 1, 70, DSFLOW_FP32, SIGHT(60), 200);
    TRY(1, 2, 4, DSFLOW_FP32, SIGHT(65), 250, 90);
}

static void layouts(void **state)
{
    TRY(1, 2, 8, DSFLOW_BF16, SIGHT(0, 16, 60, 1), 700);
    TRY(1, 1, 8, DSFLOW_FP16, SIGHT(0, 48, 9), 300, 64, 300);
    TRY(1, 1, 8, DSFLOW_BF16, SIGHT(300, 16, 30), 1100);
    TRY(2, 2, 72, DSFLOW_FP16, SIGHT(0, 64, 20, 1), 800);
    TRY(1, 1, 136, DSFLOW_BF16, SIGHT(0, 16, 40), 200);
    TRY(1, 1, 136, DSFLOW_FP16, SIGHT(0, 128, 40), 50, 300);
    TRY(1, 2, 4, DSFLOW_FP32, SIGHT(0, 32, 30, 1), 400);
    TRY(1, 1, 70, DSFLOW_FP32, SIGHT(70, 16, 4), 100, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_attention),
        cmocka_unit_test(windows),
        cmocka_unit_test(layouts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
