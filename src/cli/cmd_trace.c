/* cmd_trace.c - what was when: a trace as pictures, and in words. */
#include "base/alloc.h"
#include "base/notice.h"
#include "cli/cmd.h"
#include "explain/explain.h"
#include "trace/rows.h"
#include "trace/show.h"
#include "tune/advise.h"

#include <dsflow/plugin.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What can be made of a trace, by the flag that asks for it. */
static const struct output {
    const char *flag;
    void (*write)(const struct dsf_view *view, FILE *out);
} outputs[] = {
    { "paje", dsf_write_paje },
    { "chrome", dsf_write_chrome },
    { "dot", dsf_write_times_dot },
    { "svg", dsf_write_svg },
};
enum { NOUTPUTS = sizeof(outputs) / sizeof(*outputs) };

/* The trace in a folder of a run, or the file itself. */
static int find(const char *path, char **file, struct dsflow_err *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    if (!S_ISDIR(st.st_mode)) {
        *file = dsf_xstrdup(path);
        return DSFLOW_OK;
    }
    *file = dsf_xasprintf("%s/trace.dsflow", path);
    if (stat(*file, &st) == 0)
        return DSFLOW_OK;
    free(*file);
    *file = NULL;
    return dsflow_fail(
        err, DSFLOW_EINVAL,
        "%s: has no trace.dsflow: dsflow run … --trace writes it", path);
}

static int write_output(const struct output *output,
                        const struct dsf_view *view, const char *path,
                        struct dsflow_err *err)
{
    bool here = strcmp(path, "-") == 0;
    FILE *out = here ? stdout : fopen(path, "w");
    bool good;

    if (out == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    output->write(view, out);
    good = fflush(out) == 0 && !ferror(out);
    if (!here && fclose(out) != 0)
        good = false;
    return good ? DSFLOW_OK
                : dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                              here ? "standard output" : path);
}

static int explain(const char *path, const struct dsf_trace *trace, bool json,
                   struct dsflow_err *err)
{
    int status;

    dsf_notice("planning and simulating changes of the job");
    status = dsf_explain(trace, json, dsf_advise, dsflow_plugin_load, stdout, err);
    dsf_notice_end();
    return status < 0 ? dsflow_fail_in(err, status, path) : status;
}

/* Is there anything to write, or to choose steps for? */
static bool wants_view(const struct dsf_cli_args *args)
{
    bool wants = dsf_flag_value(args, "steps") != NULL;

    for (unsigned i = 0; i < NOUTPUTS; i++)
        wants = wants || dsf_flag_value(args, outputs[i].flag) != NULL;
    return wants;
}

static int write_outputs(const struct dsf_cli_args *args,
                         const struct dsf_trace *trace, unsigned *written,
                         struct dsflow_err *err)
{
    const char *range = dsf_flag_value(args, "steps");
    struct dsf_trace shown = *trace;
    struct dsf_view view = { .trace = &shown, .chosen = range != NULL };
    struct dsf_rows rows;
    bool cut = dsf_rows_init(&rows, trace);
    int status = DSFLOW_OK;

    if (cut) {
        shown.timeline = rows.timeline;
        view.worker = rows.worker;
    }
    view.steps = trace->laps;
    view.window = dsf_window_whole(trace);
    if (range != NULL)
        status =
            dsf_window_parse(range, trace, &view.steps, &view.window, err);
    for (unsigned i = 0; i < NOUTPUTS && status == DSFLOW_OK; i++) {
        const char *path = dsf_flag_value(args, outputs[i].flag);

        if (path == NULL)
            continue;
        status = write_output(&outputs[i], &view, path, err);
        (*written)++;
    }
    if (cut)
        dsf_rows_fini(&rows);
    return status;
}

static int show(const struct dsf_cli_args *args, const struct dsf_trace *trace,
                struct dsflow_err *err)
{
    bool summary = dsf_flag_value(args, "summary") != NULL;
    bool json = dsf_flag_value(args, "json") != NULL;
    unsigned written = 0;
    int status = DSFLOW_OK;

    if (wants_view(args))
        status = write_outputs(args, trace, &written, err);
    if (status == DSFLOW_OK && (written == 0 || summary || json))
        status = explain(args->words[0], trace, json, err);
    return status;
}

static int trace(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_trace trace;
    char *file;
    int status = find(args->words[0], &file, err);

    if (status < 0)
        return status;
    status = dsf_trace_read(file, &trace, err);
    free(file);
    if (status < 0)
        return status;
    status = show(args, &trace, err);
    dsf_trace_fini(&trace);
    return status;
}

static const struct dsf_flag trace_flags[] = {
    { "summary", NULL, "where the time of a step went, and advice" },
    { "json", NULL, "the same, for programs" },
    { "steps", "A[:B]", "these steps of the run, not all" },
    { "paje", "FILE", "for ViTE and other readers of Paje" },
    { "chrome", "FILE", "JSON for ui.perfetto.dev or chrome://tracing" },
    { "dot", "FILE", "the graph with mean times, for Graphviz" },
    { "svg", "FILE", "a picture of one step, or of those of --steps" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_trace = {
    .name = "trace",
    .args = "RUN|FILE",
    .summary = "what ran when and where, as a picture or in words",
    .help =
        "Shows the trace of a run (dsflow run job.toml --trace) or of a\n"
        "simulation (dsflow plan job.toml --trace FILE). RUN is the folder\n"
        "of a run; \"-\" as FILE is standard output. The summary, which\n"
        "is printed when nothing else is asked for, says where the time\n"
        "of a step went and which keys of the job would make it shorter.",
    .flags = trace_flags,
    .least = 1,
    .most = 1,
    .run = trace,
};
