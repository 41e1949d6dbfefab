/* generation.c - the tasks of generation, and which tokens they are for. */
#include "train/generation.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "graph/task.h"
#include "train/generation_build.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a prompt that go through the model together. */
enum { MOST_ROWS = 128 };

/* --- how many share a token ---------------------------------------------- */

/* The one order of segments whose work can be shared out. */
static bool is_usual(const struct dsflow_segment *const *s)
{
    return s[0] == &dsf_segment_qkv && s[1] == &dsf_segment_attention &&
           s[2] == &dsf_segment_out && s[3] == &dsf_segment_mlp && s[4] == NULL;
}

static bool fits(const struct dsf_model *m, int32_t parts)
{
    for (int32_t l = 0; l < m->layers; l++) {
        const struct dsf_layer *layer = dsf_model_layer(m, l);

        if (!is_usual(layer->segments) || !dsf_slices_fit(&layer->dims, parts))
            return false;
    }
    return true;
}

static bool is_replaced(const struct dsf_job *job)
{
    const struct dsflow_segment *s;

    for (unsigned i = 0; (s = dsf_segment_at(i)) != NULL; i++)
        for (unsigned k = 0; k < DSF_SEGMENT_OPS; k++) {
            const struct dsflow_op *op = dsf_segment_op(s, k);

            if (op != NULL && dsf_job_op(job, op) != op)
                return true;
        }
    return false;
}

int32_t dsf_generation_parts(const struct dsf_model *m,
                             const struct dsf_job *job, unsigned workers)
{
    int32_t parts =
        workers < DSF_MOST_PARTS ? (int32_t)workers : DSF_MOST_PARTS;

    while (parts > 0 && !fits(m, parts))
        parts--;
    return is_replaced(job) ? 0 : parts;
}

/* --- what a task is for -------------------------------------------------- */

static struct dsflow_site site_of(const struct dsf_model *m, int32_t l,
                                  const struct dsflow_segment *segment,
                                  int32_t pos, int32_t rows)
{
    struct dsflow_site site = { .tile = dsf_model_tile(m, l),
                                .parts = 1,
                                .tokens = 1,
                                .keys = rows,
                                .diagonal = true,
                                .first_keys = pos == 0,
                                .key_pos = pos };

    site.tile.rows = rows;
    site.tile.nseq = 1;
    site.tile.pos = pos;
    site.window = dsf_model_layer(m, l)->dims.window;
    /* A window of one token has no earlier ones. */
    site.first_keys |= site.window == 1;
    for (unsigned u = 0; dsf_segment_unit(segment, u) != NULL; u++)
        site.at[u] = m->units[dsf_model_unit(m, l, segment, u)].at;
    return site;
}

struct dsflow_need dsf_generation_need(const struct dsf_model *m, int32_t l,
                                       const struct dsflow_segment *segment,
                                       unsigned port, int32_t rows)
{
    const struct dsflow_site site = site_of(m, l, segment, 0, rows);

    return dsf_segment_need(segment, &site, port);
}

/* Logits are of the last row. */
static bool is_last_row(const struct dsf_generation_task *t)
{
    return t->of == t->segment->logits;
}

int32_t dsf_generation_keys(const struct dsf_model *m, int32_t l)
{
    const int32_t window =
        l >= 0 && l < m->layers ? dsf_model_layer(m, l)->dims.window : 0;

    return window > 0 && window < m->dims.context ? window : m->dims.context;
}

bool dsf_generation_has_ring(const struct dsf_model *m, int32_t l)
{
    return dsf_generation_keys(m, l) < m->dims.context;
}

/* Rows of keys: the first one's position, how many, and its place in the ring,
 * or among those that stand aside. */
struct run {
    int32_t pos, n, at;
};

/* The earlier keys that tokens from `pos` on see, in this run of the ring. */
static struct run earlier_run(const struct dsf_generation *g,
                              const struct dsf_generation_task *t, int32_t pos)
{
    const int32_t ring = dsf_generation_keys(g->model, t->layer);
    const int32_t first = pos < ring ? 0 : pos - ring + 1;
    const int32_t turn = pos / ring * ring; /* of what stands in place 0 */
    const int32_t newer = turn > first ? turn : first;

    if (g->sizing)
        return (struct run){ pos - (ring - 1), ring - 1, 0 };
    if (t->ring == DSF_RING_OLDER)
        return (struct run){ first, newer - first, first % ring };
    return (struct run){ newer, pos - newer, newer % ring };
}

/* The new keys that go into this run of the ring: the last ones, where they are
 * more than it has places. */
static struct run new_run(const struct dsf_generation *g,
                          const struct dsf_generation_task *t, int32_t pos,
                          int32_t rows)
{
    const int32_t ring = dsf_generation_keys(g->model, t->layer);
    const int32_t left = rows < ring ? 0 : rows - ring, n = rows - left;
    const int32_t at = (pos + left) % ring;
    const int32_t put = n < ring - at ? n : ring - at;

    if (g->sizing)
        return (struct run){ left, n, 0 };
    if (t->ring == DSF_RING_PUT)
        return (struct run){ left, put, at };
    return (struct run){ left + put, n - put, 0 };
}

/* Is there anything for the task to do? */
static bool is_idle(const struct dsf_generation *g,
                    const struct dsf_generation_task *t, int32_t pos,
                    int32_t rows)
{
    switch (t->ring) {
    case DSF_RING_OLDER:
    case DSF_RING_NEWER:
        return earlier_run(g, t, pos).n <= 0;
    case DSF_RING_PUT:
    case DSF_RING_REST:
        return new_run(g, t, pos, rows).n <= 0;
    default:
        return t->earlier && pos == 0;
    }
}

/* All of what it writes, from all columns of the rows it reads. */
static void fill_cast(const struct dsf_generation *g,
                      struct dsf_generation_task *t, int32_t rows,
                      struct dsflow_need *need)
{
    need[1] =
        dsf_generation_need(g->model, t->layer, t->segment, t->cast, rows);
    *(struct dsf_columns_args *)(void *)t->args = (struct dsf_columns_args){
        .rows = (int32_t)need[1].rows,
        .n = (int32_t)need[1].cols,
        .cols = (int32_t)need[1].cols,
    };
}

/* Rows of keys go from where they stand aside into the ring. */
static void fill_put(const struct dsf_generation *g,
                     struct dsf_generation_task *t, int32_t pos, int32_t rows,
                     struct dsflow_need *need)
{
    const struct run run = new_run(g, t, pos, rows);
    const int64_t cols = dsflow_graph_data(g->graph, t->data[0])->dims[1];

    need[0] = need[1] = dsf_build_numbers(DSFLOW_FP32, run.n, cols);
    *(struct dsf_columns_args *)(void *)t->args = (struct dsf_columns_args){
        .rows = run.n, .n = (int32_t)cols, .cols = (int32_t)cols
    };
}

/* Keys that are not those of the rows. */
static void fill_earlier(const struct dsf_generation *g,
                         const struct dsf_generation_task *t, int32_t pos,
                         struct dsflow_site *site)
{
    struct run run = { 0, pos, 0 };

    if (t->ring != DSF_NO_RING)
        run = earlier_run(g, t, pos);
    site->keys = run.n;
    site->key_pos = run.pos;
    site->diagonal = false;
    site->first_keys =
        run.pos == 0 || site->window == 0 || run.pos == pos - site->window + 1;
}

/* What attention has of a layout: always, as the port is there. Which blocks
 * are on, the kernel finds. */
static void lay_out(const struct dsf_generation *g,
                    struct dsf_generation_task *t,
                    const struct dsflow_site *site)
{
    const struct dsf_attention_layout *layout =
        dsf_generation_layout(g, t->layer);
    struct dsflow_attention_args *a = (void *)t->args;

    if (layout == NULL || t->of != &dsf_op_attention_forward)
        return;
    a->key_pos = site->key_pos;
    a->block = layout->block;
    a->blocks = layout->blocks;
    a->layouts = layout->heads;
    a->head = layout->heads > 1 ? t->part * a->tile.heads : 0;
    /* Blocks that are cut are rounded up, at either end. */
    a->packed = (int32_t)dsf_round_up(a->keys, 16) + 16;
}

static int fill_args(const struct dsf_generation *g,
                     struct dsf_generation_task *t, int32_t pos, int32_t rows,
                     struct dsflow_need *need, struct dsflow_err *err)
{
    const bool last = is_last_row(t);
    struct dsflow_site site =
        site_of(g->model, t->layer, t->segment, last ? pos + rows - 1 : pos,
                last ? 1 : rows);

    if (g->exact)
        site.tile.input_quantizer = DSF_INPUTS_EXACT;
    if (t->earlier)
        fill_earlier(g, t, pos, &site);
    memset(t->args, 0, sizeof(t->args));
    if (t->casts) {
        fill_cast(g, t, rows, need);
        return DSFLOW_OK;
    }
    if (t->ring == DSF_RING_PUT || t->ring == DSF_RING_REST) {
        fill_put(g, t, pos, rows, need);
        return DSFLOW_OK;
    }
    if (t->slice != NULL) {
        t->slice->fill(&site, g->parts, t->part, t->args);
        lay_out(g, t, &site);
        return t->slice->needs(t->of, t->args, need, err);
    }
    t->segment->fill(&site, t->args);
    lay_out(g, t, &site);
    return t->segment->needs(t->of, t->args, need, err);
}

/* What takes the place of a built-in task may not know of single rows. */
static int check_replaced(const struct dsf_generation *g,
                          const struct dsf_generation_task *t,
                          const struct dsflow_need *need,
                          struct dsflow_err *err)
{
    struct dsflow_shape shapes[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    const struct dsflow_case c = { t->op, shapes, t->op->nports, t->args };
    size_t scratch;
    int status;

    for (unsigned i = 0; i < t->n; i++) {
        const struct dsflow_need *n = &need[t->port[i]];
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g->graph, t->data[i]);

        shapes[t->port[i]] =
            dsflow_shape_of((enum dsflow_dtype)d->dtype, n->rows * n->cols);
    }
    status = t->op->check(&c, err);
    if (status < 0)
        return dsflow_fail_in(err, status, "generation");
    scratch = t->op->scratch == NULL ? 0 : t->op->scratch(&c);
    if (scratch > g->scratch)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "generation: %.60s: scratch: %zu bytes for %d rows: "
                           "expected at most %zu, as for the whole context",
                           t->op->name, scratch,
                           (int)((struct dsflow_tile *)t->args)->rows,
                           g->scratch);
    return DSFLOW_OK;
}

/* The row of data of keys where a task begins. */
static int64_t first_key(const struct dsf_generation *g,
                         const struct dsf_generation_task *t, unsigned i,
                         int32_t pos, int32_t rows)
{
    struct run run;

    switch (t->ring) {
    case DSF_RING_OLDER:
    case DSF_RING_NEWER:
        return earlier_run(g, t, pos).at;
    case DSF_RING_PUT:
    case DSF_RING_REST:
        run = new_run(g, t, pos, rows);
        return t->port[i] == 0 ? run.at : run.pos;
    default:
        return t->earlier || t->ring == DSF_RING_ASIDE ? 0 : pos;
    }
}

/* `need`, by port, is what it uses of its data. */
static int stand(const struct dsf_generation *g, struct dsf_generation_task *t,
                 int32_t pos, int32_t rows, struct dsflow_need *need,
                 struct dsflow_err *err)
{
    int status;

    t->use.skipped = is_idle(g, t, pos, rows);
    if (t->use.skipped)
        return DSFLOW_OK;
    status = fill_args(g, t, pos, rows, need, err);
    if (status < 0)
        return status;
    t->use.fresh = t->of == t->segment->forward && t->segment->fresh != NULL
                       ? t->segment->fresh(t->of, t->args)
                       : 0;
    for (unsigned i = 0; i < t->n; i++) {
        const struct dsflow_need *n = &need[t->port[i]];
        int64_t first = t->keys[i] ? first_key(g, t, i, pos, rows) : 0;

        if (is_last_row(t) &&
            t->segment->ports[t->port[i]].from == DSFLOW_FROM_IN)
            first = rows - 1;
        t->rows[i] =
            (struct dsf_exec_rows){ first * n->cols, n->rows * n->cols };
    }
    return DSFLOW_OK;
}

int dsf_generation_stand(struct dsf_generation *g, dsflow_program program,
                         int32_t pos, int32_t rows, struct dsflow_err *err)
{
    uint32_t first, n = dsflow_graph_program_tasks(g->graph, program, &first);
    int status = DSFLOW_OK;

    for (uint32_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
        struct dsf_generation_task *t = &g->tasks[i];

        status = stand(g, t, pos, rows, need, err);
        if (status == DSFLOW_OK && t->op != t->of && !t->use.skipped)
            status = check_replaced(g, t, need, err);
    }
    return status;
}

/* --- the graph ----------------------------------------------------------- */

static uint32_t without(const struct dsf_generation_task *t)
{
    uint32_t ports = (1u << t->op->nports) - 1;

    for (unsigned i = 0; i < t->n; i++)
        ports &= ~(1u << t->port[i]);
    return ports;
}

/* As it is for the last tokens of the context. */
static int add_task(struct dsf_generation *g, struct dsf_generation_task *t,
                    dsflow_program program, int32_t rows,
                    struct dsflow_err *err)
{
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    int32_t pos = g->model->dims.context - rows;
    struct dsflow_task_spec spec;
    dsflow_task_id id;
    size_t scratch;
    int status;

    if (t->earlier && pos == 0)
        rows -= pos = 1;
    if (t->earlier && t->ring != DSF_NO_RING)
        pos = g->model->dims.context - 1, rows = 1;
    g->sizing = true;
    status = stand(g, t, pos, rows, need, err);
    g->sizing = false;
    if (status < 0)
        return status;
    spec = DSFLOW_TASK(.op = t->op, .args = t->args, .data = t->data,
                       .ndata = t->n, .fresh = t->use.fresh,
                       .without = without(t), .layer = (int16_t)t->layer,
                       .microbatch = -1, .tile = -1, .rank = (int16_t)t->part,
                       .program = program, .pass = DSFLOW_FORWARD);
    id = dsflow_graph_add_task(g->graph, &spec);
    if (id.i >= dsflow_graph_ntasks(g->graph))
        return DSFLOW_OK; /* the check says why */
    scratch = dsf_task_scratch(g->graph, dsflow_graph_task(g->graph, id));
    g->scratch = scratch > g->scratch ? scratch : g->scratch;
    t->use.args = t->args;
    t->use.rows = t->rows;
    return DSFLOW_OK;
}

int dsf_generation_init(struct dsf_generation *g, const struct dsf_model *model,
                        const struct dsf_job *job, unsigned workers,
                        struct dsflow_err *err)
{
    int32_t context = model->dims.context;
    int32_t parts = dsf_generation_parts(model, job, workers);
    int status = DSFLOW_OK;
    uint32_t n;

    *g = (struct dsf_generation){ .model = model,
                                  .job = job,
                                  .whole = parts == 0,
                                  .parts = parts > 0 ? parts : 1,
                                  .rows = context < MOST_ROWS ? context
                                                              : MOST_ROWS };
    g->types = dsf_generation_types(model, job);
    status = dsf_generation_make_layouts(g, err);
    if (status < 0)
        return status;
    g->graph = dsflow_graph_new();
    g->prefill = dsflow_graph_add_program(g->graph, "prefill");
    g->decode = dsflow_graph_add_program(g->graph, "decode");
    dsf_generation_build(g);
    n = g->ntasks;
    dsf_grow(&g->tasks, &g->cap_tasks, 2 * (size_t)n, sizeof(*g->tasks));
    memcpy(g->tasks + n, g->tasks, n * sizeof(*g->tasks));
    g->ntasks = 2 * n;
    for (uint32_t i = 0; i < g->ntasks && status == DSFLOW_OK; i++)
        status = add_task(g, &g->tasks[i], i < n ? g->prefill : g->decode,
                          i < n ? g->rows : 1, err);
    return status == DSFLOW_OK ? dsflow_graph_check(g->graph, err) : status;
}

void dsf_generation_fini(struct dsf_generation *g)
{
    dsflow_graph_free(g->graph);
    dsf_generation_free_layouts(g);
    free(g->tasks);
    free(g->params);
    free(g->again);
}

double dsf_generation_bytes(const struct dsf_model *m,
                            const struct dsf_job *job)
{
    const struct dsf_generation_types types = dsf_generation_types(m, job);
    double bytes = 0;

    for (int32_t l = 0; l < m->layers; l++) {
        const struct dsflow_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            for (unsigned p = 0; p < (*s)->nports; p++) {
                struct dsflow_need n;

                if ((*s)->ports[p].from != DSFLOW_FROM_KEPT ||
                    !(*s)->ports[p].of_keys)
                    continue;
                n = dsf_generation_need(m, l, *s, p,
                                        *s == &dsf_segment_qkv
                                            ? dsf_generation_keys(m, l)
                                            : m->dims.context);
                bytes += (double)dsflow_dtype_bytes(
                    dsf_generation_port_type(types, job, *s, p),
                    n.rows * n.cols);
            }
    }
    return bytes;
}
