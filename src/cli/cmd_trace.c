/* cmd_trace.c - what was when: a trace as pictures, and in words. */
#include "base/notice.h"
#include "cli/cmd.h"
#include "explain/explain.h"
#include "trace/show.h"
#include "tune/advise.h"

#include <dsflow/plugin.h>

#include <stdlib.h>
#include <string.h>

static int explain(const char *path, const struct dsf_trace *trace, bool json,
                   struct dsflow_err *err)
{
    int status;

    dsf_notice("planning and simulating changes of the job");
    status =
        dsf_explain(trace, json, dsf_advise, dsflow_plugin_load, stdout, err);
    dsf_notice_end();
    return status < 0 ? dsflow_fail_in(err, status, path) : status;
}

/* Is there anything to write? */
static bool wants_view(const struct dsf_cli_args *args)
{
    bool wants = false;

    for (unsigned i = 0; dsf_trace_forms[i].name != NULL; i++)
        wants = wants || dsf_flag_value(args, dsf_trace_forms[i].name) != NULL;
    return wants;
}

/* Of what is for standard output, one thing is; of what is said twice, the last
 * counts. */
static int check_output(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *before = dsf_flag_value(args, "json") != NULL      ? "json"
                         : dsf_flag_value(args, "summary") != NULL ? "summary"
                                                                   : NULL;

    for (unsigned i = 0; dsf_trace_forms[i].name != NULL; i++) {
        const char *name = dsf_trace_forms[i].name;
        const char *path = dsf_flag_value(args, name);

        if (path == NULL || strcmp(path, "-") != 0)
            continue;
        if (before != NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "trace: --%s - and --%s: expected one of them "
                               "on standard output",
                               name, before);
        before = name;
    }
    return DSFLOW_OK;
}

static int write_outputs(const struct dsf_cli_args *args,
                         const struct dsf_trace *trace, unsigned *written,
                         struct dsflow_err *err)
{
    struct dsf_shown shown;
    int status =
        dsf_shown_init(&shown, trace, dsf_flag_value(args, "steps"), err);

    if (status < 0)
        return dsflow_fail_in(err, status, "--steps");
    for (unsigned i = 0; dsf_trace_forms[i].name != NULL; i++) {
        const char *path = dsf_flag_value(args, dsf_trace_forms[i].name);
        bool here = path != NULL && strcmp(path, "-") == 0;

        if (path == NULL || status < 0)
            continue;
        status = dsf_shown_write(&shown, &dsf_trace_forms[i],
                                 here ? "standard output" : path,
                                 here ? stdout : NULL, err);
        (*written)++;
    }
    dsf_shown_fini(&shown);
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
    int status;

    if (dsf_flag_value(args, "steps") != NULL && !wants_view(args))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "trace: --steps: expected --paje, --chrome, --dot "
                           "or --svg beside it");
    status = check_output(args, err);
    if (status < 0)
        return status;
    status = dsf_trace_find(args->words[0], &file, err);
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
    { "steps", "A[:B]", "these steps of the run in what is written, not all" },
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
