/* trace_read.c - a trace on disk: reading it, whatever it is. */
#include "trace/trace.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "graph/program.h"
#include "graph/task.h"
#include "trace/trace_private.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every get says whether all of it was there. */

static bool get(FILE *in, void *at, size_t bytes)
{
    return fread(at, 1, bytes, in) == bytes;
}

static char *copy_of(json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return dsf_xstrdup(s != NULL ? s : "");
}

/* The same of what people are shown on a line. */
static char *name_of(json_t *object, const char *key)
{
    char *name = copy_of(object, key);

    dsf_utf8_clean(name);
    return name;
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

    f->name = name_of(in, "name");
    f->job = copy_of(in, "job");
    f->machine = name_of(in, "machine");
    f->rates = copy_of(in, "rates");
    f->executor = name_of(in, "executor");
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
        dsf_utf8_clean(timeline->lanes[i].name);
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
        char *ring = dsf_xstrdup(text != NULL ? text : "");

        dsf_utf8_clean(ring);
        ops->rings[ops->nrings++] = ring;
    }
}

static bool read_op(json_t *in, struct dsflow_op *op)
{
    json_t *port, *ports = json_object_get(in, "ports");
    struct dsflow_port *v = dsf_xcalloc(json_array_size(ports) + 1, sizeof(*v));
    size_t i;

    op->abi = DSFLOW_OP_ABI;
    op->name = name_of(in, "name");
    op->summary = "";
    if (json_is_string(json_object_get(in, "segment")))
        op->segment = name_of(in, "segment");
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
        v[i].name = name_of(port, "name");
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
        trace->ops->v = dsf_xcalloc(trace->ops->n + 1, sizeof(*trace->ops->v));
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

        if (!get(in, &r, sizeof(r)) || !get(in, name, r.name))
            return false;
        dsf_utf8_clean(name);
        if (r.role >= DSFLOW_NROLES || r.ring > ops->nrings ||
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
                        .without = r.without, .apart = r.apart, .data = data,
                        .ndata = r.ndata);
        dsflow_graph_add_task(trace->graph, &t);
        dsf_grow(&trace->tasks, &cap, i + 2, sizeof(*trace->tasks));
        trace->tasks[i] =
            (struct dsf_trace_task){ r.flops, r.bytes, r.moves, r.predicted };
    }
    free(data);
    return good;
}

/* Writers count nanoseconds, in 64 bits: thirty years of them are enough. */
static bool is_time(double t)
{
    return fabs(t) <= 1e9;
}

/* Steps follow each other. Until all is read they are numbered as in the file,
 * from laps.first on. */
static bool add_lap(struct dsf_laps *laps, unsigned nprograms,
                    const struct step_record *r)
{
    if (r->program >= nprograms || !(r->begin <= r->end) ||
        !is_time(r->begin) || !is_time(r->end) || isinf(r->bound) ||
        !(r->loss_scale >= 0) || isinf(r->loss_scale) || r->skipped > 1 ||
        (laps->n > 0 && r->step != laps->first + laps->n))
        return false;
    if (laps->n == 0)
        laps->first = r->step;
    laps->v = dsf_xrealloc(laps->v, (size_t)laps->n + 1, sizeof(*laps->v));
    laps->v[laps->n++] =
        (struct dsf_lap){ .ran = true,
                          .program = (dsflow_program)r->program,
                          .begin = r->begin,
                          .end = r->end,
                          .critical = r->critical,
                          .bound = r->bound,
                          .idle = r->idle,
                          .loss_scale = r->loss_scale,
                          .skipped = r->skipped };
    return true;
}

static bool read_lap(FILE *in, struct dsf_trace *trace)
{
    struct step_record r;

    trace->cut = !get(in, &r, sizeof(r));
    return trace->cut ||
           add_lap(&trace->laps, dsflow_graph_nprograms(trace->graph), &r);
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
        if (n == STEP && !read_lap(in, trace))
            return false;
        if (trace->cut)
            return true;
        for (uint32_t i = 0; n != STEP && i < n; i++) {
            struct dsf_span s;

            if (!get(in, &s, sizeof(s))) {
                trace->cut = true;
                return true;
            }
            if (s.lane >= timeline->nlanes || !(s.start <= s.end) ||
                !is_time(s.start) || !is_time(s.end) ||
                s.kind > DSF_SPAN_TRANSFER ||
                (s.kind == DSF_SPAN_TRANSFER && s.lane < timeline->workers) ||
                s.what >= (s.kind == DSF_SPAN_TASK ? ntasks : ndata) ||
                (s.kind == DSF_SPAN_TRANSFER &&
                 s.unsent > dsf_nth_data(trace->graph, s.what)->bytes))
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

/* Those of the steps from `first` to `last`, which get the number 0 and on. */
static void place_laps(struct dsf_trace *trace, uint32_t first, uint32_t last)
{
    struct dsf_laps read = trace->laps;

    memset(&trace->laps, 0, sizeof(trace->laps));
    for (unsigned i = 0; i < read.n; i++)
        if (read.first + i >= first && read.first + i <= last)
            dsf_laps_add(&trace->laps, read.first + i - first, &read.v[i]);
    free(read.v);
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
    if (first <= last && last - first > 4 + 2 * (timeline->n / whole))
        return false;
    place_laps(trace, first, last);
    if (first > last)
        return true;
    for (size_t i = 0; i < timeline->n; i++)
        if (dsf_trace_is_step(trace, &timeline->v[i]))
            timeline->v[i].step -= first;
    trace->facts.first += first;
    return true;
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
    if (!get(in, line, MAGIC) || memcmp(line, DSF_TRACE_MAGIC, MAGIC) != 0)
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
