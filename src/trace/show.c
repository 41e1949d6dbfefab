/* show.c - from the file of a trace to a file in another format. */
#include "trace/show.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <sys/stat.h>

const struct dsf_trace_form dsf_trace_forms[] = {
    { "paje", dsf_write_paje },
    { "chrome", dsf_write_chrome },
    { "dot", dsf_write_times_dot },
    { "svg", dsf_write_svg },
    { 0 },
};

int dsf_trace_find(const char *path, char **file, struct dsflow_err *err)
{
    struct stat st;

    *file = NULL;
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

int dsf_shown_init(struct dsf_shown *shown, const struct dsf_trace *trace,
                   const char *steps, struct dsflow_err *err)
{
    struct dsf_view *view = &shown->view;
    int status = DSFLOW_OK;

    shown->trace = *trace;
    shown->cut = dsf_rows_init(&shown->rows, trace);
    *view = (struct dsf_view){ .trace = &shown->trace,
                               .steps = trace->laps,
                               .window = dsf_window_whole(trace),
                               .chosen = steps != NULL };
    if (shown->cut) {
        shown->trace.timeline = shown->rows.timeline;
        view->worker = shown->rows.worker;
    }
    if (steps != NULL)
        status =
            dsf_window_parse(steps, trace, &view->steps, &view->window, err);
    if (status < 0)
        dsf_shown_fini(shown);
    return status;
}

void dsf_shown_fini(struct dsf_shown *shown)
{
    if (shown->cut)
        dsf_rows_fini(&shown->rows);
}

int dsf_shown_write(const struct dsf_shown *shown,
                    const struct dsf_trace_form *form, const char *path,
                    FILE *out, struct dsflow_err *err)
{
    bool own = out == NULL, good;

    if (own)
        out = fopen(path, "w");
    if (out == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    form->write(&shown->view, out);
    good = fflush(out) == 0 && !ferror(out);
    if (own && fclose(out) != 0)
        good = false;
    return good ? DSFLOW_OK
                : dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                              path);
}
