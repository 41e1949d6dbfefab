/* generate.c - a model that is fed tokens: the programs of generation on an
 * executor, one after the other. */
#include "train/generate.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/task.h"
#include "machine/machine.h"
#include "train/generation.h"

#include <stdlib.h>
#include <string.h>

struct dsf_generator {
    struct dsf_generation of;
    struct dsflow_exec *exec;
    struct dsflow_host host; /* no task calls it */
    void **lent;             /* by data: the weights */
    float *logits;
    int32_t pos; /* tokens fed */
};

void dsf_generator_free(struct dsf_generator *g)
{
    if (g == NULL)
        return;
    dsflow_exec_close(g->exec);
    dsf_generation_fini(&g->of);
    free(g->lent);
    free(g->logits);
    free(g);
}

double dsf_generator_bytes(const struct dsf_model *m, const struct dsf_job *job)
{
    return dsf_generation_bytes(m, job);
}

/* One for each core, unless it is said. */
static unsigned workers_of(const struct dsf_generator_spec *spec)
{
    struct dsf_machine machine;
    int64_t workers = spec->job == NULL ? -1 : spec->job->machine.workers;

    if (spec->workers > 0)
        return spec->workers;
    if (workers > 0)
        return (unsigned)workers;
    return dsf_machine_probe(&machine, NULL) == DSFLOW_OK ? machine.cores : 1;
}

static void lend(struct dsf_generator *g, const struct dsf_text_weights *w)
{
    const struct dsf_generation *of = &g->of;

    g->lent = dsf_xcalloc((size_t)dsflow_graph_ndata(of->graph) + 1,
                          sizeof(*g->lent));
    for (unsigned u = 0; u < of->model->nunits; u++) {
        g->lent[of->params[u].i] = w->v[u];
        if (dsf_is_data(of->again[u]))
            g->lent[of->again[u].i] = w->v[u];
    }
}

static int open_exec(struct dsf_generator *g,
                     const struct dsf_generator_spec *spec,
                     struct dsflow_err *err)
{
    const struct dsf_generation *of = &g->of;
    const unsigned parts = (unsigned)of->parts;
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = parts > 1 ? DSFLOW_IN_ORDER : DSFLOW_SERIAL,
                            .workers = parts, .ranks = parts, .lent = g->lent);
    int status;

    if (spec->other)
        options.kind = spec->kind;
    status = dsflow_exec_open(of->graph, &options, &g->host, &g->exec, err);
    if (status == DSFLOW_ENOMEM)
        return dsflow_fail(
            err, status, "memory: %s for the keys and values of %d tokens",
            dsf_size_text(dsf_generator_bytes(of->model, of->job)).s,
            of->model->dims.context);
    if (status < 0)
        return status;
    if (dsf_is_data(of->rope))
        dsf_model_rope_table(of->model,
                             dsflow_exec_map(g->exec, of->rope, DSFLOW_RW));
    dsf_generation_fill_layouts(of, g->exec);
    for (uint32_t i = 0; i < of->ntasks; i++)
        dsf_exec_set_use(g->exec, (dsflow_task_id){ i }, &of->tasks[i].use);
    return DSFLOW_OK;
}

int dsf_generator_new(const struct dsf_generator_spec *spec,
                      struct dsf_generator **gen, struct dsflow_err *err)
{
    struct dsf_generator *g = dsf_xcalloc(1, sizeof(*g));
    int status = dsf_generation_init(&g->of, spec->model, spec->job,
                                     workers_of(spec), err);

    if (status == DSFLOW_OK) {
        g->logits =
            dsf_xcalloc((size_t)spec->model->dims.vocab_rows, sizeof(*g->logits));
        lend(g, spec->weights);
        g->of.exact = spec->weights->exact;
        status = open_exec(g, spec, err);
    }
    if (status < 0) {
        dsf_generator_free(g);
        return status;
    }
    *gen = g;
    return DSFLOW_OK;
}

/* The columns of all workers, side by side. */
static void take_logits(struct dsf_generator *g)
{
    const struct dsf_generation *of = &g->of;
    float *to = g->logits;

    for (int32_t t = 0; t < of->parts; t++) {
        size_t n = (size_t)dsflow_graph_data(of->graph, of->logits[t])->elems;

        memcpy(to, dsflow_exec_map(g->exec, of->logits[t], DSFLOW_R),
               n * sizeof(*to));
        to += n;
    }
}

static int feed_rows(struct dsf_generator *g, const int32_t *tokens,
                     int32_t rows, struct dsflow_err *err)
{
    struct dsf_generation *of = &g->of;
    const dsflow_program program = rows == 1 ? of->decode : of->prefill;
    int status = dsf_generation_stand(of, program, g->pos, rows, err);

    if (status < 0)
        return status;
    memcpy(dsflow_exec_map(g->exec, of->batch, DSFLOW_RW), tokens,
           (size_t)rows * sizeof(*tokens));
    status = dsflow_exec_submit(g->exec, program, err);
    if (status == DSFLOW_OK)
        status = dsflow_exec_wait(g->exec, err);
    if (status == DSFLOW_OK)
        status = dsflow_exec_failed(g->exec, err);
    if (status == DSFLOW_OK)
        g->pos += rows;
    return status;
}

int dsf_generator_feed(struct dsf_generator *g, const int32_t *tokens, size_t n,
                       struct dsflow_err *err)
{
    const size_t room = (size_t)(g->of.model->dims.context - g->pos);
    const size_t most = (size_t)g->of.rows;
    int status = DSFLOW_OK;

    if (n > room)
        return dsflow_fail(err, DSFLOW_EFIT,
                           "prompt: %zu tokens: the model's context has room "
                           "for %zu",
                           n, room);
    for (size_t i = 0; i < n && status == DSFLOW_OK; i += most)
        status = feed_rows(g, tokens + i,
                           (int32_t)(n - i < most ? n - i : most), err);
    if (status == DSFLOW_OK && n > 0)
        take_logits(g);
    return status;
}

const float *dsf_generator_logits(const struct dsf_generator *g)
{
    return g->logits;
}
