/* trace_file.c - a trace on disk.
 *
 *   "dsflow trace 4\n"
 *   head    u32 bytes, JSON: facts, lanes, programs, kinds of task with their
 *           ports
 *   data    u32 count, then struct data_record and the name of each
 *   tasks   u32 count, then struct task_record and the data of each
 *   spans   blocks: u32 count, then struct dsf_span; a count of 0 ends them
 *
 * Numbers are the machine's own; the head says which byte comes first.
 */
#include "trace/trace.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "graph/program.h"
#include "trace/trace_private.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "dsflow trace 4\n";
enum { MAGIC = sizeof(magic) - 1, ORDER = 0x01020304, MOST_HEAD = 1 << 28 };

struct data_record {
    int64_t elems, dims[DSFLOW_MAX_DIMS];
    int64_t at, block;
    int32_t unit, part;
    uint32_t ring; /* of the head's, from 1; 0: none */
    int16_t home;
    uint8_t role, persistent, constant;
    uint8_t name; /* bytes of it, which follow */
    uint8_t tier, dtype, ndims, rest[3];
};

struct task_record {
    double flops, bytes, moves, predicted;
    int32_t priority;
    int16_t layer, microbatch, tile, rank;
    uint32_t fresh, without;
    uint32_t ndata; /* numbers of data, uint32_t each, which follow */
    uint16_t op;
    uint8_t program, pass;
};

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
    put(file, magic, MAGIC);
    put_head(file, trace, &kinds, &rings);
    put_data(file, trace->graph, &rings);
    put_tasks(file, trace, &kinds);
    free(kinds.v);
    free(rings.v);
    status = check_out(file, err);
    if (status < 0) {
        dsf_trace_close(file, false, NULL);
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

/* Reading. Every get says whether all of it was there. */

static bool get(FILE *in, void *at, size_t bytes)
{
    return fread(at, 1, bytes, in) == bytes;
}

static char *copy_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return dsf_xstrdup(s != NULL ? s : "");
}

static int64_t whole_of(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* As many ranks as there are points. */
static bool read_axes(json_t *in, struct dsf_trace_facts *f)
{
    int64_t points = 1;
    json_t *axis;
    size_t i;

    if (json_array_size(in) > DSF_TRACE_AXES)
        return false;
    json_array_foreach(in, i, axis)
    {
        int64_t size = whole_of(axis, "size");
        int64_t stride = whole_of(axis, "stride");
        const char *name = json_string_value(json_object_get(axis, "name"));

        if (name == NULL || size < 1 || size > f->nranks || stride < 1 ||
            stride > f->nranks || points > f->nranks)
            return false;
        points *= size;
        snprintf(f->axes[i].name, sizeof(f->axes[i].name), "%s", name);
        dsf_utf8_clean(f->axes[i].name);
        f->axes[i].size = (unsigned)size;
        f->axes[i].stride = (unsigned)stride;
        f->naxes++;
    }
    return points == f->nranks;
}

static bool read_facts(json_t *in, struct dsf_trace_facts *f)
{
    int64_t ranks = whole_of(in, "ranks");

    f->name = copy_of(in, "name");
    dsf_utf8_clean(f->name);
    f->job = copy_of(in, "job");
    f->machine = copy_of(in, "machine");
    dsf_utf8_clean(f->machine);
    f->rates = copy_of(in, "rates");
    f->executor = copy_of(in, "executor");
    f->simulated = json_is_true(json_object_get(in, "simulated"));
    f->duplex = json_is_true(json_object_get(in, "duplex"));
    f->nranks = (unsigned)ranks;
    f->cores = (unsigned)whole_of(in, "cores");
    f->first = whole_of(in, "first");
    f->tokens = whole_of(in, "tokens");
    f->vocab = whole_of(in, "vocab");
    f->memory = json_number_value(json_object_get(in, "memory"));
    f->predicted = json_number_value(json_object_get(in, "predicted"));
    f->bound = json_number_value(json_object_get(in, "bound"));
    /* Ranks stand in 16 bits. */
    return ranks > 0 && ranks <= INT16_MAX &&
           read_axes(json_object_get(in, "mesh"), f);
}

static bool read_lanes(json_t *head, struct dsf_timeline *timeline)
{
    json_t *lane;
    size_t i;

    json_array_foreach(json_object_get(head, "lanes"), i, lane)
    {
        const char *name = json_string_value(json_object_get(lane, "name"));
        int64_t kind = whole_of(lane, "kind"), rank = whole_of(lane, "rank");

        if (name == NULL || kind < 0 || kind >= DSF_NLANE_KINDS ||
            rank < DSFLOW_ANYWHERE || rank > INT16_MAX ||
            (kind == DSF_LANE_WORKER && timeline->workers < timeline->nlanes))
            return false;
        dsf_timeline_add_lane(timeline, (enum dsf_lane_kind)kind, (int)rank,
                              "%s", name);
        for (size_t end = 0; end < 2; end++) {
            int64_t worker = json_integer_value(
                json_array_get(json_object_get(lane, "ends"), end));

            if (worker < 0 || worker > timeline->workers)
                return false;
            timeline->lanes[i].ends[end] = (uint16_t)worker;
        }
    }
    return timeline->workers > 0;
}

/* In the order of their numbers, as the first is there already. */
static bool read_programs(json_t *head, struct dsf_trace *trace)
{
    json_t *program, *programs = json_object_get(head, "programs");
    size_t i;

    json_array_foreach(programs, i, program)
    {
        const char *name = json_string_value(json_object_get(program, "name"));

        if (name == NULL || !dsf_program_is_name(name) ||
            i == DSFLOW_MAX_PROGRAMS ||
            dsflow_graph_add_program(trace->graph, name) != i)
            return false;
        if (json_is_true(json_object_get(program, "steps")))
            trace->facts.steps |= (uint64_t)1 << i;
    }
    return json_array_size(programs) > 0;
}

static void read_rings(json_t *head, struct dsf_trace_ops *ops)
{
    json_t *name, *names = json_object_get(head, "rings");
    size_t i;

    ops->rings = dsf_xcalloc(json_array_size(names) + 1, sizeof(*ops->rings));
    json_array_foreach(names, i, name)
    {
        const char *text = json_string_value(name);

        ops->rings[ops->nrings++] = dsf_xstrdup(text != NULL ? text : "");
    }
}

static bool read_op(json_t *in, struct dsflow_op *op)
{
    json_t *port, *ports = json_object_get(in, "ports");
    struct dsflow_port *v = dsf_xcalloc(json_array_size(ports) + 1, sizeof(*v));
    size_t i;

    op->abi = DSFLOW_OP_ABI;
    op->name = copy_of(in, "name");
    op->summary = "";
    if (json_is_string(json_object_get(in, "segment")))
        op->segment = copy_of(in, "segment");
    op->direction = (uint8_t)whole_of(in, "direction");
    op->update = json_is_true(json_object_get(in, "update"));
    op->comm = (unsigned)whole_of(in, "comm");
    op->swaps = json_is_true(json_object_get(in, "swaps"));
    op->repeats = json_is_true(json_object_get(in, "repeats"));
    op->ports = v;
    json_array_foreach(ports, i, port)
    {
        op->nports++;
        if (json_is_null(port))
            continue;
        v[i].name = copy_of(port, "name");
        v[i].access = (enum dsflow_access)whole_of(port, "access");
        v[i].optional = json_is_true(json_object_get(port, "optional"));
    }
    return op->nports > 0;
}

static bool read_head(FILE *in, struct dsf_trace *trace)
{
    uint32_t bytes;
    json_t *head, *op;
    char *text;
    size_t i;
    bool good;

    if (!get(in, &bytes, sizeof(bytes)) || bytes > MOST_HEAD)
        return false;
    text = dsf_xcalloc(bytes + 1, 1);
    good = get(in, text, bytes);
    head = good ? json_loadb(text, bytes, 0, NULL) : NULL;
    free(text);
    good = head != NULL && whole_of(head, "order") == ORDER;
    if (good) {
        json_t *ops = json_object_get(head, "kinds");

        good = read_facts(json_object_get(head, "facts"), &trace->facts) &&
               read_lanes(head, &trace->timeline) && read_programs(head, trace);
        read_rings(head, trace->ops);
        trace->ops->n = (unsigned)json_array_size(ops);
        trace->ops->v =
            dsf_xcalloc(trace->ops->n + 1, sizeof(*trace->ops->v));
        json_array_foreach(ops, i, op) good =
            read_op(op, &trace->ops->v[i]) && good;
    }
    json_decref(head);
    return good;
}

static bool read_data(FILE *in, struct dsf_trace *trace)
{
    const struct dsf_trace_ops *ops = trace->ops;
    struct dsflow_graph *g = trace->graph;
    uint32_t n;

    if (!get(in, &n, sizeof(n)))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct data_record r;
        char name[UINT8_MAX + 1] = "";
        struct dsflow_data_spec spec;
        dsflow_data_id id;

        if (!get(in, &r, sizeof(r)) || !get(in, name, r.name) ||
            r.role >= DSFLOW_NROLES || r.ring > ops->nrings ||
            r.dtype >= DSFLOW_NDTYPES || r.ndims > DSFLOW_MAX_DIMS ||
            r.tier >= DSFLOW_NTIERS || dsflow_graph_find(g, name, &id))
            return false;
        spec = DSFLOW_DATA(.name = name, .elems = r.elems, .dtype = r.dtype,
                           .ndims = r.ndims, .role = (enum dsflow_role)r.role,
                           .home = r.home, .tier = r.tier,
                           .persistent = r.persistent, .constant = r.constant,
                           .unit = r.unit, .part = r.part, .at = r.at,
                           .block = r.block,
                           .ring = r.ring > 0 ? ops->rings[r.ring - 1] : NULL);
        memcpy(spec.dims, r.dims, sizeof(r.dims));
        dsflow_graph_add_data(g, &spec);
    }
    return true;
}

/* A swap takes from the first and brings to the second, and nothing else has
 * data on NVMe. */
static bool data_is_sound(const struct dsf_trace *trace,
                          const struct task_record *r,
                          const dsflow_data_id *data)
{
    bool swaps = trace->ops->v[r->op].swaps;

    if (swaps && r->ndata != 2)
        return false;
    for (unsigned p = 0; p < r->ndata; p++)
        if (data[p].i >= dsflow_graph_ndata(trace->graph) ||
            (!swaps &&
             dsflow_graph_data(trace->graph, data[p])->tier == DSFLOW_NVME))
            return false;
    return true;
}

static bool task_is_sound(const struct dsf_trace *trace,
                          const struct task_record *r)
{
    return r->op < trace->ops->n &&
           r->program < dsflow_graph_nprograms(trace->graph) &&
           r->pass <= DSFLOW_UPDATE && r->rank >= DSFLOW_ANYWHERE &&
           r->ndata <= dsflow_graph_ndata(trace->graph);
}

static bool read_tasks(FILE *in, struct dsf_trace *trace)
{
    size_t cap = 0;
    dsflow_data_id *data;
    bool good = true;
    uint32_t n;

    if (!get(in, &n, sizeof(n)))
        return false;
    data = dsf_xcalloc(dsflow_graph_ndata(trace->graph) + 1, sizeof(*data));
    dsf_grow(&trace->tasks, &cap, 1, sizeof(*trace->tasks));
    for (uint32_t i = 0; i < n && good; i++) {
        struct task_record r;
        struct dsflow_task_spec t;

        good = get(in, &r, sizeof(r)) && task_is_sound(trace, &r) &&
               get(in, data, r.ndata * sizeof(*data)) &&
               data_is_sound(trace, &r, data);
        if (!good)
            break;
        t = DSFLOW_TASK(.op = &trace->ops->v[r.op], .layer = r.layer,
                        .microbatch = r.microbatch, .tile = r.tile,
                        .rank = r.rank, .priority = r.priority,
                        .program = r.program, .pass = r.pass, .fresh = r.fresh,
                        .without = r.without,
                        .data = data, .ndata = r.ndata);
        dsflow_graph_add_task(trace->graph, &t);
        dsf_grow(&trace->tasks, &cap, i + 2, sizeof(*trace->tasks));
        trace->tasks[i] =
            (struct dsf_trace_task){ r.flops, r.bytes, r.moves,
                                     r.predicted };
    }
    free(data);
    return good;
}

/* Those of a block that is not whole are dropped with it. */
static bool read_spans(FILE *in, struct dsf_trace *trace)
{
    struct dsf_timeline *timeline = &trace->timeline;
    uint32_t ntasks = dsflow_graph_ntasks(trace->graph);
    uint32_t ndata = dsflow_graph_ndata(trace->graph), n;

    while (get(in, &n, sizeof(n))) {
        if (n == 0)
            return true;
        for (uint32_t i = 0; i < n; i++) {
            struct dsf_span s;

            if (!get(in, &s, sizeof(s))) {
                trace->cut = true;
                return true;
            }
            if (s.lane >= timeline->nlanes || !(s.start <= s.end) ||
                !isfinite(s.start) || !isfinite(s.end) ||
                s.kind > DSF_SPAN_TRANSFER ||
                (s.kind == DSF_SPAN_TRANSFER && s.lane < timeline->workers) ||
                s.what >= (s.kind == DSF_SPAN_TASK ? ntasks : ndata))
                return false;
            dsf_timeline_add(timeline, &s);
        }
    }
    trace->cut = true;
    return true;
}

/* Tasks of the shortest program that runs in steps; at least 1. */
static uint32_t least_tasks(const struct dsf_trace *trace)
{
    uint32_t least = UINT32_MAX, first, n;

    for (unsigned p = 0; p < dsflow_graph_nprograms(trace->graph); p++) {
        n = dsflow_graph_program_tasks(trace->graph, (dsflow_program)p, &first);
        if (n > 0 && n < least && (p == 0 || trace->facts.steps >> p & 1))
            least = n;
    }
    return least;
}

/* A run was traced from some step on: that is the first one of the timeline.
 * Readers keep lists by step and task, so there must not be more steps than a
 * timeline as long as this one can be of; a step may be there in part. */
static bool count_steps(struct dsf_trace *trace)
{
    struct dsf_timeline *timeline = &trace->timeline;
    uint32_t whole = least_tasks(trace), first = UINT32_MAX, last = 0;

    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *s = &timeline->v[i];

        if (!dsf_trace_is_step(trace, s))
            continue;
        first = s->step < first ? s->step : first;
        last = s->step > last ? s->step : last;
    }
    if (first > last)
        return true;
    for (size_t i = 0; i < timeline->n; i++)
        if (dsf_trace_is_step(trace, &timeline->v[i]))
            timeline->v[i].step -= first;
    trace->facts.first += first;
    return last - first <= 4 + 2 * (timeline->n / whole);
}

int dsf_trace_read(const char *path, struct dsf_trace *trace,
                   struct dsflow_err *err)
{
    FILE *in = fopen(path, "rb");
    char line[MAGIC];
    int status = DSFLOW_OK;

    memset(trace, 0, sizeof(*trace));
    if (in == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    trace->graph = dsflow_graph_new();
    trace->ops = dsf_xcalloc(1, sizeof(*trace->ops));
    if (!get(in, line, MAGIC) || memcmp(line, magic, MAGIC) != 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: is no trace of this version of dsflow", path);
    else if (!read_head(in, trace) || !read_data(in, trace) ||
             !read_tasks(in, trace) || !read_spans(in, trace) ||
             !count_steps(trace))
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: is damaged", path);
    else if (ferror(in))
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    fclose(in);
    if (status < 0)
        dsf_trace_fini(trace);
    else
        dsf_timeline_sort(&trace->timeline);
    return status;
}
