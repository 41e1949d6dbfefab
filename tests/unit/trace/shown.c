/* shown.c - a trace that can be drawn by hand. */
#include "shown.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

#define OP(id, text, moves)                                                    \
    static const struct dsflow_op id = {                                       \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = text,                                                          \
        .comm = moves,                                                         \
        .repeats = !(moves),                                                   \
        DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R, .optional = 1 }),  \
    }

OP(op_forward, "mlp.forward", 0);
OP(op_backward, "mlp.backward_input", 0);
OP(op_send, "send", 1);
OP(op_update, "adam", 0);

static const struct dsflow_op op_change = {
    .abi = DSFLOW_OP_ABI,
    .name = "adam",
    DSFLOW_PORTS({ "what", DSFLOW_RW }),
};

static dsflow_data_id data(struct dsflow_graph *g, const char *name,
                           size_t bytes, int home, bool persistent)
{
    return dsflow_graph_add_data(g, &DSFLOW_DATA(.name = name, .elems = bytes,
                                                 .home = (int16_t)home,
                                                 .persistent = persistent));
}

static void task(struct dsflow_graph *g, const struct dsflow_op *op,
                 enum dsflow_pass pass, int rank, int microbatch,
                 unsigned ndata, const dsflow_data_id *ids)
{
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = op, .layer = 3, .microbatch = (int16_t)microbatch,
                    .tile = -1, .rank = (int16_t)rank, .pass = (uint8_t)pass,
                    .data = ids, .ndata = ndata);

    dsflow_graph_add_task(g, &t);
}

static void make_graph(struct dsflow_graph *g)
{
    dsflow_data_id w = data(g, "w", 100, 0, true);
    dsflow_data_id a = data(g, "a", 10, 0, false);
    dsflow_data_id b = data(g, "b", 20, 0, false);
    dsflow_data_id c = data(g, "c", 10, 1, false);
    dsflow_data_id d = data(g, "d", 40, 1, false);
    dsflow_data_id e = data(g, "e", 5, 1, false);
    dsflow_data_id f = data(g, "f", 0, 1, false);

    task(g, &op_forward, DSFLOW_FORWARD, 0, 0, 1, (dsflow_data_id[]){ a });
    task(g, &op_forward, DSFLOW_FORWARD, 0, 1, 1, (dsflow_data_id[]){ b });
    task(g, &op_send, DSFLOW_FORWARD, 1, 0, 2, (dsflow_data_id[]){ c, a });
    task(g, &op_forward, DSFLOW_FORWARD, 1, 0, 2, (dsflow_data_id[]){ d, c });
    task(g, &op_backward, DSFLOW_BACKWARD, 1, 0, 3,
         (dsflow_data_id[]){ e, b, d });
    task(g, &op_update, DSFLOW_UPDATE, 0, -1, 2, (dsflow_data_id[]){ w, e });
    task(g, &op_forward, DSFLOW_BACKWARD, 1, 0, 1, (dsflow_data_id[]){ f });
}

static void span(struct dsf_trace *trace, uint32_t what, unsigned lane,
                 double start, double end)
{
    dsf_timeline_add(
        &trace->timeline,
        &(struct dsf_span){ .start = start,
                            .end = end,
                            .what = what,
                            .lane = (uint16_t)lane,
                            .rank = lane == 0 ? 0 : 1 });
}

static void start(struct shown *shown, const char *name, unsigned nranks)
{
    struct dsf_trace *trace = &shown->trace;

    memset(shown, 0, sizeof(*shown));
    trace->facts = (struct dsf_trace_facts){
        .name = dsf_xstrdup(name),
        .job = dsf_xstrdup(""),
        .machine = dsf_xstrdup(""),
        .executor = dsf_xstrdup("serial"),
        .nranks = nranks,
        .axes = { { "data", 1, 1 }, { "pipeline", nranks, 1 } },
        .naxes = 2,
        .first = 7,
    };
    trace->graph = dsflow_graph_new();
}

static void weigh(struct dsf_trace *trace)
{
    trace->tasks = dsf_xcalloc(dsflow_graph_ntasks(trace->graph),
                               sizeof(*trace->tasks));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(trace->graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(trace->graph, (dsflow_task_id){ i });

        trace->tasks[i].predicted = -1;
        if (t->op->comm)
            trace->tasks[i].moves.bytes[DSF_WIRES_INSIDE] =
                (double)dsflow_graph_data(trace->graph, t->data[1])->bytes;
    }
}

static void finish(struct shown *shown)
{
    dsf_timeline_sort(&shown->trace.timeline);
    shown->by_rank = shown->trace;
    if (dsf_rows_init(&shown->rows, &shown->trace)) {
        shown->by_rank.timeline = shown->rows.timeline;
        shown->view.worker = shown->rows.worker;
    }
    shown->view.trace =
        shown->rows.worker != NULL ? &shown->by_rank : &shown->trace;
    dsf_laps_init(&shown->view.steps, &shown->trace);
    shown->view.window = dsf_window_whole(&shown->trace);
}

void shown_make(struct shown *shown)
{
    struct dsf_trace *trace = &shown->trace;

    start(shown, "by \"hand\" <&>", 2);
    make_graph(trace->graph);
    weigh(trace);
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_WORKER, 0, "core 0");
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_WORKER, 1, "core 1");
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_LINK, 1, "link 1");
    span(trace, FW0, 0, 0, 1);
    span(trace, FW1, 0, 1, 2);
    span(trace, SEND, 2, 1, 2);
    span(trace, FW0B, 1, 2, 3);
    span(trace, BW0, 1, 3, 4);
    span(trace, UPD, 0, 4, 5);
    span(trace, NOW, 1, 2.5, 2.5);
    finish(shown);
}

void shown_make_tiers(struct shown *shown)
{
    struct dsf_trace *trace = &shown->trace;
    dsflow_data_id m, slot, a;

    start(shown, "tiers", 1);
    m = dsflow_graph_add_data(
        trace->graph, &DSFLOW_DATA(.name = "m", .elems = 100,
                                   .tier = DSFLOW_NVME, .persistent = true));
    slot = dsflow_graph_add_data(
        trace->graph,
        &DSFLOW_DATA(.name = "slot", .elems = 120, .tier = DSFLOW_HOST));
    a = data(trace->graph, "a", 7, 0, false);
    task(trace->graph, &op_forward, DSFLOW_FORWARD, 0, 0, 1, &a);
    task(trace->graph, &dsf_op_swap_in, DSFLOW_UPDATE, 0, -1, 2,
         (dsflow_data_id[]){ m, slot });
    task(trace->graph, &op_change, DSFLOW_UPDATE, 0, -1, 1, &slot);
    task(trace->graph, &dsf_op_swap_out, DSFLOW_UPDATE, 0, -1, 2,
         (dsflow_data_id[]){ slot, m });
    weigh(trace);
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_WORKER, 0, "core 0");
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_DISK, -1, "disk read");
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_DISK, -1, "disk write");
    span(trace, TFWD, 0, 0, 1);
    span(trace, TGET, 1, 1, 2);
    span(trace, TUPD, 0, 2, 4);
    span(trace, TPUT, 2, 4, 5);
    for (size_t i = 0; i < trace->timeline.n; i++)
        trace->timeline.v[i].rank = 0;
    finish(shown);
}

void shown_make_shared(struct shown *shown)
{
    struct dsf_trace *trace = &shown->trace;

    start(shown, "shared", 3);
    make_graph(trace->graph);
    weigh(trace);
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_WORKER, DSFLOW_ANYWHERE,
                          "core 0");
    dsf_timeline_add_lane(&trace->timeline, DSF_LANE_WORKER, DSFLOW_ANYWHERE,
                          "core 1");
    span(trace, FW0, 0, 0, 1);
    span(trace, FW1, 0, 1, 2);
    span(trace, FW0B, 0, 2, 3);
    span(trace, BW0, 0, 3, 4);
    span(trace, UPD, 0, 5, 6);
    span(trace, NOW, 1, 2.5, 2.51);
    for (size_t i = 0; i < trace->timeline.n; i++)
        trace->timeline.v[i].rank =
            dsflow_graph_task(trace->graph,
                              (dsflow_task_id){ trace->timeline.v[i].what })
                ->rank;
    finish(shown);
}

void shown_free(struct shown *shown)
{
    dsf_laps_fini(&shown->view.steps);
    if (shown->rows.worker != NULL)
        dsf_rows_fini(&shown->rows);
    dsflow_graph_free(shown->trace.graph);
    dsf_trace_fini(&shown->trace);
}

char *shown_text(const struct shown *shown,
                 void (*write)(const struct dsf_view *view, FILE *out))
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    write(&shown->view, out);
    fclose(out);
    return text;
}
