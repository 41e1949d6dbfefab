/* trace_file.c - a trace on disk: writing it. trace_private.h has its parts. */
#include "trace/trace.h"

#include "base/alloc.h"
#include "trace/trace_private.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dsf_trace_file {
    FILE *out;
    char *path;
};

static json_t *lanes_json(const struct dsf_timeline *timeline)
{
    json_t *lanes = json_array();

    for (unsigned i = 0; i < timeline->nlanes; i++)
        json_array_append_new(
            lanes,
            json_pack("{s:s, s:i, s:i, s:[i, i]}", "name",
                      timeline->lanes[i].name, "rank",
                      (int)timeline->lanes[i].rank, "kind",
                      (int)timeline->lanes[i].kind, "ends",
                      (int)timeline->lanes[i].ends[0],
                      (int)timeline->lanes[i].ends[1]));
    return lanes;
}

/* A port that the op does not have is null. */
static json_t *port_json(const struct dsflow_port *port)
{
    if (port->name == NULL)
        return json_null();
    return json_pack("{s:s, s:i, s:b}", "name", port->name, "access",
                     (int)port->access, "optional", (int)port->optional);
}

static json_t *op_json(const struct dsflow_op *op)
{
    json_t *ports = json_array();

    for (unsigned p = 0; p < op->nports; p++)
        json_array_append_new(ports, port_json(&op->ports[p]));
    return json_pack("{s:s, s:s?, s:i, s:b, s:i, s:b, s:b, s:o}", "name",
                     op->name, "segment", op->segment, "direction",
                     (int)op->direction, "update", (int)op->update, "comm",
                     (int)op->comm, "swaps", (int)op->swaps, "repeats",
                     (int)op->repeats, "ports", ports);
}

/* Kinds of task in the order they come, and the number of each. */
struct kinds {
    const struct dsflow_op **v;
    size_t cap;
    unsigned n;
};

static uint16_t kind_of(struct kinds *kinds, const struct dsflow_op *op)
{
    for (unsigned k = 0; k < kinds->n; k++)
        if (kinds->v[k] == op)
            return (uint16_t)k;
    dsf_grow(&kinds->v, &kinds->cap, kinds->n + 1, sizeof(*kinds->v));
    kinds->v[kinds->n] = op;
    return (uint16_t)kinds->n++;
}

/* The same of rings, from 1; 0: of none. */
struct rings {
    const char **v;
    size_t cap;
    unsigned n;
};

static uint32_t ring_of(struct rings *rings, const char *ring)
{
    unsigned i = 0;

    if (ring == NULL)
        return 0;
    while (i < rings->n && strcmp(rings->v[i], ring) != 0)
        i++;
    if (i == rings->n) {
        dsf_grow(&rings->v, &rings->cap, rings->n + 1, sizeof(*rings->v));
        rings->v[rings->n++] = ring;
    }
    return i + 1;
}

static json_t *programs_json(const struct dsf_trace *trace)
{
    const struct dsflow_graph *g = trace->graph;
    json_t *programs = json_array();

    for (unsigned p = 0; p < dsflow_graph_nprograms(g); p++)
        json_array_append_new(
            programs, json_pack("{s:s, s:b}", "name",
                                dsflow_graph_program(g, (dsflow_program)p),
                                "steps", (int)(trace->facts.steps >> p & 1)));
    return programs;
}

static json_t *axes_json(const struct dsf_trace_facts *f)
{
    json_t *axes = json_array();

    for (unsigned i = 0; i < f->naxes; i++)
        json_array_append_new(
            axes, json_pack("{s:s, s:i, s:i}", "name", f->axes[i].name, "size",
                            (int)f->axes[i].size, "stride",
                            (int)f->axes[i].stride));
    return axes;
}

static json_t *facts_json(const struct dsf_trace_facts *f)
{
    return json_pack(
        "{s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:b, s:i, s:o, s:i, "
        "s:I, s:I, s:I, s:f, s:f, s:f}",
        "name", f->name, "job", f->job, "machine", f->machine, "rates",
        f->rates, "executor", f->executor, "simulated", (int)f->simulated,
        "duplex", (int)f->duplex, "ranks", (int)f->nranks, "mesh",
        axes_json(f), "cores", (int)f->cores, "first", (json_int_t)f->first,
        "tokens", (json_int_t)f->tokens, "vocab", (json_int_t)f->vocab,
        "memory", f->memory, "predicted", f->predicted, "bound", f->bound);
}

static void put(struct dsf_trace_file *file, const void *at, size_t bytes)
{
    fwrite(at, 1, bytes, file->out); /* failures stay in the stream */
}

static void put_count(struct dsf_trace_file *file, size_t n)
{
    uint32_t count = (uint32_t)n;

    put(file, &count, sizeof(count));
}

static void put_head(struct dsf_trace_file *file, const struct dsf_trace *trace,
                     struct kinds *kinds, struct rings *rings)
{
    json_t *ops = json_array(), *names = json_array(), *head;
    char *text;

    for (uint32_t i = 0; i < dsflow_graph_ndata(trace->graph); i++)
        ring_of(rings,
                dsflow_graph_data(trace->graph, (dsflow_data_id){ i })->ring);
    for (unsigned i = 0; i < rings->n; i++)
        json_array_append_new(names, json_string(rings->v[i]));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(trace->graph); i++)
        kind_of(kinds,
                dsflow_graph_task(trace->graph, (dsflow_task_id){ i })->op);
    for (unsigned k = 0; k < kinds->n; k++)
        json_array_append_new(ops, op_json(kinds->v[k]));
    head = json_pack(
        "{s:i, s:o, s:o, s:o, s:i, s:o, s:o}", "order", ORDER, "facts",
        facts_json(&trace->facts), "programs", programs_json(trace), "lanes",
        lanes_json(&trace->timeline), "workers", (int)trace->timeline.workers,
        "kinds", ops, "rings", names);
    text = json_dumps(head, JSON_COMPACT | JSON_REAL_PRECISION(17));
    put_count(file, strlen(text));
    put(file, text, strlen(text));
    free(text);
    json_decref(head);
}

static void put_data(struct dsf_trace_file *file, const struct dsflow_graph *g,
                     struct rings *rings)
{
    put_count(file, dsflow_graph_ndata(g));
    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });
        size_t name = strnlen(d->name, UINT8_MAX);
        struct data_record r = {
            .elems = d->elems,
            .dtype = d->dtype,
            .ndims = d->ndims,
            .at = d->at,
            .block = d->block,
            .unit = d->unit,
            .part = d->part,
            .home = d->home,
            .role = (uint8_t)d->role,
            .persistent = d->persistent,
            .constant = d->constant,
            .name = (uint8_t)name,
            .ring = ring_of(rings, d->ring),
            .tier = d->tier,
        };

        memcpy(r.dims, d->dims, sizeof(r.dims));
        put(file, &r, sizeof(r));
        put(file, d->name, name);
    }
}

static void put_tasks(struct dsf_trace_file *file,
                      const struct dsf_trace *trace, struct kinds *kinds)
{
    uint32_t n = dsflow_graph_ntasks(trace->graph);

    put_count(file, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(trace->graph, (dsflow_task_id){ i });
        const struct dsf_trace_task *w = &trace->tasks[i];
        struct task_record r = {
            .flops = w->flops,
            .bytes = w->bytes,
            .moves = w->moves,
            .predicted = w->predicted,
            .priority = t->priority,
            .layer = t->layer,
            .microbatch = t->microbatch,
            .tile = t->tile,
            .rank = t->rank,
            .op = kind_of(kinds, t->op),
            .program = t->program,
            .pass = t->pass,
            .fresh = t->fresh,
            .without = t->without,
            .apart = t->apart,
            .ndata = t->ndata,
        };

        put(file, &r, sizeof(r));
        put(file, t->data, t->ndata * sizeof(*t->data));
    }
}

static int check_out(struct dsf_trace_file *file, struct dsflow_err *err)
{
    if (fflush(file->out) != 0 || ferror(file->out))
        return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                           file->path);
    return DSFLOW_OK;
}

void dsf_trace_drop(struct dsf_trace_file *file)
{
    struct stat st;

    if (file == NULL)
        return;
    /* It may be a device. */
    if (fstat(fileno(file->out), &st) == 0 && S_ISREG(st.st_mode))
        unlink(file->path);
    dsf_trace_close(file, false, NULL);
}

int dsf_trace_create(const char *path, const struct dsf_trace *trace,
                     struct dsf_trace_file **out, struct dsflow_err *err)
{
    struct dsf_trace_file *file = dsf_xcalloc(1, sizeof(*file));
    struct kinds kinds = { 0 };
    struct rings rings = { 0 };
    int status;

    file->path = dsf_xstrdup(path);
    file->out = fopen(path, "wb");
    if (file->out == NULL) {
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
        dsf_trace_close(file, false, NULL);
        return status;
    }
    put(file, DSF_TRACE_MAGIC, MAGIC);
    put_head(file, trace, &kinds, &rings);
    put_data(file, trace->graph, &rings);
    put_tasks(file, trace, &kinds);
    free(kinds.v);
    free(rings.v);
    status = check_out(file, err);
    if (status < 0) {
        dsf_trace_drop(file);
        return status;
    }
    *out = file;
    return DSFLOW_OK;
}

int dsf_trace_append(struct dsf_trace_file *file, const struct dsf_span *spans,
                     size_t n, struct dsflow_err *err)
{
    if (n == 0)
        return DSFLOW_OK;
    put_count(file, n);
    put(file, spans, n * sizeof(*spans));
    return check_out(file, err);
}

int dsf_trace_append_lap(struct dsf_trace_file *file, unsigned step,
                         const struct dsf_lap *lap, struct dsflow_err *err)
{
    struct step_record r = {
        .step = step,
        .program = lap->program,
        .begin = lap->begin,
        .end = lap->end,
        .critical = lap->critical,
        .bound = lap->bound,
        .idle = lap->idle,
        .loss_scale = lap->loss_scale,
        .skipped = lap->skipped,
    };

    put_count(file, STEP);
    put(file, &r, sizeof(r));
    return check_out(file, err);
}

int dsf_trace_close(struct dsf_trace_file *file, bool whole,
                    struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (file == NULL)
        return DSFLOW_OK;
    if (file->out != NULL) {
        if (whole)
            put_count(file, 0);
        status = check_out(file, err);
        if (fclose(file->out) != 0 && status == DSFLOW_OK)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", file->path);
    }
    free(file->path);
    free(file);
    return status;
}
