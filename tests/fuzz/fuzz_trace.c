/* fuzz_trace.c - any bytes as a trace: one that every format and the explanation
 * can be made of, or one line that says what is wrong. */
#include "explain/explain.h"
#include "trace/rows.h"
#include "trace/show.h"
#include "trace/trace.h"

#include "fuzz/fuzz.h"

static const char *const words[] = {
    "{",    "}",       "[",       "]",        ",",        ":",       "\"",
    "null", "true",    "-1",      "1e9",      "65535",    "32767",   "2147483647",
    "\"name\"",        "\"rank\"",            "\"kind\"", "\"ends\"",
    "\"nranks\"",      "\"size\"",            "\"access\"",
    "\xff\xff\xff\xff",
    NULL,
};

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const struct dsflow_op make = {
    .abi = DSFLOW_OP_ABI,
    .name = "make",
    .segment = "mlp",
    .direction = DSFLOW_DIR_FORWARD,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R, .optional = 1 }),
    .check = check,
};
static const struct dsflow_op bring = {
    .abi = DSFLOW_OP_ABI,
    .name = "bring",
    .direction = DSFLOW_DIR_SWAP,
    .swaps = 1,
    DSFLOW_PORTS({ "home", DSFLOW_R }, { "slot", DSFLOW_W }),
    .check = check,
};

static dsflow_data_id add(struct dsflow_graph *g, const char *name, int home,
                          enum dsflow_tier tier)
{
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = 1000, .home = (int16_t)home,
                        .tier = (uint8_t)tier, .unit = -1,
                        .persistent = tier == DSFLOW_NVME, .ring = "ring"));
}

static struct dsflow_graph *graph(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = add(g, "a", 0, DSFLOW_DEVICE);
    dsflow_data_id b = add(g, "b", 1, DSFLOW_DEVICE);
    dsflow_data_id home = add(g, "home", 0, DSFLOW_NVME);

    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &bring, .rank = 0, .ndata = 2,
                                          .data =
                                              (dsflow_data_id[]){ home, a }));
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &make, .rank = 0, .ndata = 1,
                                          .without = 2,
                                          .data = (dsflow_data_id[]){ a }));
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &make, .rank = 1, .ndata = 2,
                                          .data = (dsflow_data_id[]){ b, a }));
    return g;
}

/* Two steps of three tasks, on two cores and a disk. */
static void append(struct dsf_trace_file *file)
{
    struct dsflow_err err;

    for (unsigned step = 0; step < 2; step++) {
        double t = step;
        const struct dsf_span spans[] = {
            { t, t + 0.5, 0, step, 2, 0, DSF_SPAN_TASK },
            { t + 0.5, t + 0.75, 1, step, 0, 0, DSF_SPAN_TASK },
            { t + 0.75, t + 1, 2, step, 1, 1, DSF_SPAN_TASK },
        };
        const struct dsf_lap lap = { .ran = true, .begin = t, .end = t + 1,
                                     .critical = 1, .bound = 0.5 };

        if (dsf_trace_append(file, spans, 3, &err) < 0 ||
            dsf_trace_append_lap(file, step, &lap, &err) < 0)
            fuzz_die(err.msg);
    }
    if (dsf_trace_close(file, true, &err) < 0)
        fuzz_die(err.msg);
}

static char *sound(size_t *n)
{
    const char *path = fuzz_file("trace", "", 0);
    struct dsf_trace t = { .facts = { .name = (char *)"a job",
                                      .job = (char *)"[job]\nsteps = 3\n",
                                      .executor = (char *)"starpu",
                                      .machine = (char *)"this",
                                      .rates = (char *)"",
                                      .nranks = 2,
                                      .axes = { { "data", 2, 1 } },
                                      .naxes = 1,
                                      .cores = 2,
                                      .first = 1,
                                      .steps = 1,
                                      .vocab = 256,
                                      .memory = -1,
                                      .tokens = 192,
                                      .predicted = 0.9,
                                      .bound = 0.5 } };
    struct dsf_trace_file *file;
    struct dsflow_err err;

    t.graph = graph();
    dsf_trace_weigh(&t, NULL);
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core 0");
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 1, "core 1");
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_DISK, -1, "disk read");
    if (dsf_trace_create(path, &t, &file, &err) < 0)
        fuzz_die(err.msg);
    append(file);
    dsflow_graph_free(t.graph);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);
    return fuzz_load(path, n);
}

/* As `dsflow trace` does, in every format. */
static void show(const struct dsf_trace *trace, FILE *out)
{
    struct dsf_trace shown = *trace;
    struct dsf_view view = { .trace = &shown,
                             .window = dsf_window_whole(trace) };
    struct dsf_rows rows;
    bool cut = dsf_rows_init(&rows, trace);

    if (cut) {
        shown.timeline = rows.timeline;
        view.worker = rows.worker;
    }
    view.steps = trace->laps;
    dsf_write_paje(&view, out);
    dsf_write_chrome(&view, out);
    dsf_write_times_dot(&view, out);
    dsf_write_svg(&view, out);
    if (cut)
        dsf_rows_fini(&rows);
}

static void no_advice(struct dsf_advices *advices, const struct dsf_account *a,
                      dsf_load_fn load)
{
    *advices = (struct dsf_advices){ 0 };
}

static bool accepts(const char *text, size_t n)
{
    static FILE *out;
    struct dsflow_err err = { .msg = "" };
    struct dsf_trace trace;

    if (out == NULL)
        out = fopen("/dev/null", "w");
    if (dsf_trace_read(fuzz_file("trace", text, n), &trace, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    show(&trace, out);
    for (int json = 0; json <= 1; json++)
        if (dsf_explain(&trace, json, no_advice, NULL, out, &err) < 0)
            fuzz_refused(&err);
    dsf_trace_fini(&trace);
    return true;
}

/* The length of the head, whose end the damage moved. */
static void mend(char *text, size_t n)
{
    enum { AT = 15 };
    uint32_t length = 0;
    int depth = 0;

    for (size_t i = AT + sizeof(length); i < n; i++) {
        depth += (text[i] == '{') - (text[i] == '}');
        if (depth == 0) {
            length = (uint32_t)(i + 1 - AT - sizeof(length));
            break;
        }
    }
    if (length > 0)
        memcpy(text + AT, &length, sizeof(length));
}

const struct fuzz_reader fuzz_reader = {
    .name = "trace",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
    .mend = mend,
};
