/* tiles.c - the rows of a micro-batch that one task works on, and those that the
 * head works on at a time. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "config/when.h"
#include "plan/stretch.h"
#include "tasks/tile.h"

#include <math.h>

static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Columns of a part of the vocabulary, of the largest. */
static int64_t part_columns(const struct dsflow_plan *plan)
{
    const struct dsf_dims *dims = &plan->model->dims;

    return div_up(dims->vocab_rows / dims->vocab_step, plan->nparts) *
           dims->vocab_step;
}

/* Bytes of the logits of a row; of a part of the vocabulary, the largest. */
static int64_t logit_bytes(const struct dsflow_plan *plan)
{
    const bool narrow = dsf_job_is(plan->job, "precision.compute != fp32 and "
                                              "precision.head = compute");

    return (plan->head_columns > 0 ? plan->head_columns : part_columns(plan)) *
           (narrow ? 2 : 4);
}

/* Rows of which the logits are not too many at a time, in multiples of 16 (as
 * tiles are cut). */
static int64_t most_rows(const struct dsflow_plan *plan)
{
    int64_t bytes = plan->machine->logits, rows;

    if (bytes <= 0 && !dsf_plan_has_gpus(plan))
        return INT32_MAX;
    rows = (bytes > 0 ? bytes : (int64_t)1 << 30) / logit_bytes(plan);
    return rows < 16 ? 16 : rows / 16 * 16;
}

/* Rows of a tile: of a GPU, the whole micro-batch, as it is faster the larger
 * its tasks are. On a core, a product of 256 rows is within 5 % of the speed of
 * a large one; a step of few tokens is cut so that two workers have work. It
 * depends on the job and on the kind of device alone: another machine of that
 * kind must not change the order of sums. Tensor ranks, which have some rows of
 * each tile between their products, cannot cut tiles in slices for the head. */
static int64_t auto_tile(const struct dsflow_plan *plan)
{
    int64_t micro = plan->micro * (int64_t)plan->sequence;
    int64_t rows = plan->nmicro * micro / 2, most = most_rows(plan);

    rows = rows < 64 ? 64 : rows > 256 ? 256 : rows;
    if (dsf_plan_has_gpus(plan))
        rows = micro;
    return plan->nparts > 1 && most < rows ? most : rows;
}

static void add_tile(struct dsflow_plan *plan, struct dsf_tile_rows tile)
{
    plan->tiles = dsf_xrealloc(plan->tiles, (size_t)plan->ntiles + 1,
                               sizeof(*plan->tiles));
    plan->tiles[plan->ntiles++] = tile;
}

/* How sequences are cut of which there are `length` rows each. */
struct cut {
    int32_t nseq, rows; /* of a tile: sequences, and rows of each */
};

/* Whole sequences where `rows` are enough for some, else equal pieces of each,
 * in multiples of 16 rows but for the last. */
static struct cut cut_of(int32_t nseq, int32_t length, int64_t rows)
{
    int64_t each;

    if (rows >= length) {
        each = div_up(nseq, div_up(nseq, rows / length));
        return (struct cut){ (int32_t)each, length };
    }
    each = div_up(length, div_up(length, rows));
    return (struct cut){ 1, (int32_t)div_up(each, 16) * 16 };
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* The sequences of `of`, of each of them `length` rows from where it begins on.
 */
static void cut_rows(struct dsflow_plan *plan, struct dsf_tile_rows of,
                     int32_t length, int64_t rows)
{
    const struct cut each = cut_of(of.nseq, length, rows);

    for (int32_t s = 0; s < of.nseq; s += each.nseq)
        for (int32_t pos = 0; pos < length; pos += each.rows) {
            int32_t nseq = least(of.nseq - s, each.nseq);
            int32_t n = least(length - pos, each.rows);

            add_tile(plan, (struct dsf_tile_rows){ nseq * n, nseq, of.seq + s,
                                                   of.pos + pos });
        }
}

/* Before they are cut: there may be billions. */
static int check_tiles(const struct dsflow_plan *plan, int64_t rows,
                       struct dsflow_err *err)
{
    const int32_t stretches = dsf_plan_stretches(plan);
    const int32_t length = plan->sequence / stretches;
    const int32_t nseq = stretches > 1 ? 1 : plan->micro;
    const struct cut each = cut_of(nseq, length, rows);
    const int64_t tokens = (int64_t)each.nseq * each.rows;
    const int64_t n = (int64_t)plan->micro / nseq * stretches *
                      div_up(nseq, each.nseq) * div_up(length, each.rows);

    if (n > INT16_MAX)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "batch", "tile",
                            "%lld tiles of a micro-batch: expected at most %d",
                            (long long)n, INT16_MAX);
    if (tokens > DSF_MOST_ROWS)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "batch", "tile",
                            "%lld tokens, as auto is all of a micro-batch on a "
                            "GPU: expected at most %d",
                            (long long)tokens, DSF_MOST_ROWS);
    return DSFLOW_OK;
}

/* A tile has tokens of one stretch. */
static void cut_sequences(struct dsflow_plan *plan, int64_t rows)
{
    const int32_t length = plan->sequence / dsf_plan_stretches(plan);

    if (length == plan->sequence) {
        cut_rows(plan, (struct dsf_tile_rows){ .nseq = plan->micro }, length,
                 rows);
        return;
    }
    for (int32_t s = 0; s < plan->micro; s++)
        for (int32_t pos = 0; pos < plan->sequence; pos += length)
            cut_rows(plan,
                     (struct dsf_tile_rows){ .nseq = 1, .seq = s, .pos = pos },
                     length, rows);
}

/* With columns of the head at a time: are gradients of its matrix tasks of
 * their own? Then logits are computed three times and not twice; but of what
 * tiles do one after the other, as all add to that gradient, there are two
 * products and not three. Both are estimated, in products of the head over all
 * tokens: by what workers have to do, and by what is done in a row, in front of
 * which is a micro-batch forward, and behind it one back where its tasks wait
 * for these. */
static bool head_apart(const struct dsflow_plan *plan)
{
    const struct dsf_model *model = plan->model;
    const double workers = plan->rank_workers;
    const double beside = workers < plan->ntiles ? workers : plan->ntiles;
    const double head = (double)model->dims.vocab * (double)model->dims.width;
    double layers = (double)model->params - (model->tied ? 1 : 2) * head;
    double forward, together, apart;

    for (int32_t l = 0; l < model->layers; l++)
        layers += dsf_model_keys(model, l, plan->sequence) *
                  (double)model->dims.heads * (double)model->dims.head_dim;
    layers /= head * plan->nstages;
    forward = layers / plan->micro_steps / beside;
    together = fmax((3 * layers + 4) / workers, 3 + 3 * forward);
    apart = fmax((3 * layers + 5) / workers, 2 + forward);
    return apart < together;
}

int dsf_plan_cut_tiles(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const int64_t tile = plan->job->batch.tile;
    const int64_t columns = plan->job->batch.head_columns;
    int64_t most, rows;
    int32_t n;
    int status;

    plan->head_columns = columns < part_columns(plan) ? (int32_t)columns : 0;
    most = most_rows(plan);
    rows = tile < 0 ? auto_tile(plan) : tile;
    status = check_tiles(plan, rows, err);
    if (status < 0)
        return status;
    cut_sequences(plan, rows);
    n = plan->ntiles;
    for (int32_t t = 0; t < n && plan->nparts == 1; t++)
        cut_rows(plan, plan->tiles[t],
                 plan->tiles[t].rows / plan->tiles[t].nseq, most);
    plan->nslices = plan->ntiles - n > n ? plan->ntiles - n : 0;
    plan->ntiles = n;
    plan->head_apart = plan->head_columns > 0 && head_apart(plan);
    return DSFLOW_OK;
}

struct dsf_head_tiles dsf_plan_head_tiles(const struct dsflow_plan *plan)
{
    return plan->nslices > 0
               ? (struct dsf_head_tiles){ plan->ntiles, plan->nslices }
               : (struct dsf_head_tiles){ 0, plan->ntiles };
}

struct dsf_head_tiles dsf_plan_head_tiles_of(const struct dsflow_plan *plan,
                                             int32_t t)
{
    struct dsf_head_tiles of = { t, 1 };
    int32_t i = plan->ntiles;

    if (plan->nslices == 0)
        return of;
    for (int32_t before = 0; before <= t; before++) {
        of.first = i;
        for (int32_t rows = 0; rows < plan->tiles[before].rows; i++)
            rows += plan->tiles[i].rows;
    }
    of.n = i - of.first;
    return of;
}

int64_t dsf_plan_head_rows(const struct dsflow_plan *plan)
{
    const struct dsf_head_tiles of = dsf_plan_head_tiles(plan);
    int64_t most = 0;

    for (int32_t i = of.first; i < of.first + of.n; i++)
        if (plan->tiles[i].rows > most)
            most = plan->tiles[i].rows;
    return most;
}

int64_t dsf_plan_logits_bytes(const struct dsflow_plan *plan)
{
    return dsf_plan_head_rows(plan) * logit_bytes(plan);
}
