/* trace.c - traces of runs and simulations. */
#include <dsflow/trace.h>

#include "api/api.h"
#include "base/alloc.h"
#include "explain/explain.h"
#include "plugin/plugin.h"
#include "trace/show.h"
#include "tune/advise.h"

#include <stdlib.h>
#include <string.h>

struct dsflow_trace {
    struct dsf_trace trace;
    char *path; /* for messages */
};

int dsflow_trace_read(const char *path, struct dsflow_trace **out,
                      struct dsflow_err *err)
{
    struct dsflow_trace *t = dsf_xcalloc(1, sizeof(*t));
    locale_t own = dsf_api_enter();
    int status = dsf_trace_find(path, &t->path, err);

    if (status == DSFLOW_OK)
        status = dsf_trace_read(t->path, &t->trace, err);
    dsf_api_leave(own);
    *out = status == DSFLOW_OK ? t : NULL;
    if (status < 0) {
        free(t->path);
        free(t);
    }
    return status;
}

void dsflow_trace_free(struct dsflow_trace *t)
{
    if (t == NULL)
        return;
    dsf_trace_fini(&t->trace);
    free(t->path);
    free(t);
}

int dsflow_trace_span(const struct dsflow_trace *t, size_t i,
                      struct dsflow_span *out)
{
    const struct dsf_trace *trace = &t->trace;
    const struct dsf_span *s;

    if (out->size < sizeof(*out) || i >= trace->timeline.n)
        return DSFLOW_EINVAL;
    s = &trace->timeline.v[i];
    out->task = s->what;
    out->kind =
        s->kind == DSF_SPAN_TASK
            ? dsflow_graph_task(trace->graph, (dsflow_task_id){ s->what })
                  ->op->name
            : "transfer";
    out->lane = trace->timeline.lanes[s->lane].name;
    out->rank = s->rank;
    out->step = dsf_trace_step_of(trace, s);
    out->begin = s->start;
    out->end = s->end;
    return DSFLOW_OK;
}

static int find_form(const char *name, const struct dsf_trace_form **form,
                     struct dsflow_err *err)
{
    for (*form = dsf_trace_forms; (*form)->name != NULL; (*form)++)
        if (strcmp((*form)->name, name) == 0)
            return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%.60s: expected paje, chrome, dot or svg", name);
}

int dsflow_trace_write(const struct dsflow_trace *t, const char *form,
                       const char *steps, const char *path,
                       struct dsflow_err *err)
{
    const struct dsf_trace_form *how;
    struct dsf_shown shown;
    locale_t own;
    int status = find_form(form, &how, err);

    if (status == DSFLOW_OK)
        status = dsf_shown_init(&shown, &t->trace, steps, err);
    if (status < 0)
        return status;
    own = dsf_api_enter();
    status = dsf_shown_write(&shown, how, path, NULL, err);
    dsf_api_leave(own);
    dsf_shown_fini(&shown);
    return status;
}

int dsflow_trace_explain(const struct dsflow_trace *t, int json,
                         const char *path, struct dsflow_err *err)
{
    FILE *out = fopen(path, "w");
    locale_t own;
    int status;

    if (out == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    own = dsf_api_enter();
    status = dsf_explain(&t->trace, json != 0, dsf_advise, dsflow_plugin_load,
                         out, err);
    dsf_api_leave(own);
    if (fclose(out) != 0 && status == DSFLOW_OK)
        status =
            dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", path);
    return status;
}
