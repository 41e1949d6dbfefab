/* trace.h - when and where the tasks of a run ran, or those of a simulation.
 *
 * A run writes its trace where the job says which steps (trace.steps = [3, 7]):
 * trace.dsflow in its output folder. What is there can be read while the run
 * goes on, or after it was killed.
 *
 * A trace that was read does not change: several threads may use it at a time,
 * but for dsflow_trace_explain, which plans and simulates (see dsflow.h).
 */
#ifndef DSFLOW_TRACE_H
#define DSFLOW_TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

struct dsflow_trace; /* opaque */

/* The one in the folder of a run, or the file `path` itself. Errors:
 * DSFLOW_EINVAL where it is none, or of another version; DSFLOW_EIO. */
DSFLOW_API int dsflow_trace_read(const char *path, struct dsflow_trace **trace,
                                 struct dsflow_err *err);
DSFLOW_API void
dsflow_trace_free(struct dsflow_trace *trace); /* NULL is fine */

/* A task, or a copy between memories, from its begin to its end. */
struct dsflow_span {
    uint32_t size;    /* of this structure: DSFLOW_SPAN sets it */
    uint32_t task;    /* number in the graph; of a copy, of its data */
    const char *kind; /* of task, "mlp.forward"; "transfer": a copy. Borrowed */
    const char *lane; /* where it ran: "core 0", "disk read". Borrowed */
    int32_t rank;     /* -1: of none */
    int64_t step;     /* number of the step in the run, from 1; 0: of none */
    double begin, end; /* seconds since the trace began */
};
#define DSFLOW_SPAN() DSFLOW_OF(dsflow_span, .size = sizeof(struct dsflow_span))

/* The i-th span, in the order in which they began; DSFLOW_EINVAL past the last.
 */
DSFLOW_API int dsflow_trace_span(const struct dsflow_trace *trace, size_t i,
                                 struct dsflow_span *span);

/* The trace as a file for others: `form` is "paje" (ViTE), "chrome" (JSON for
 * ui.perfetto.dev), "dot" (the graph with mean times) or "svg". `steps`,
 * "10:12" or "10", are those that are shown; NULL: all, and in a picture one of
 * them. Errors: DSFLOW_EINVAL for another form, steps that it does not have, or
 * a path that cannot be; DSFLOW_EIO. */
DSFLOW_API int dsflow_trace_write(const struct dsflow_trace *trace,
                                  const char *form, const char *steps,
                                  const char *path, struct dsflow_err *err);

/* Where the time of a step went, and which keys of the job would make it
 * shorter, in the file `path`: for people, or with `json` (not 0) for programs.
 * Errors: DSFLOW_EINVAL where no step is whole; DSFLOW_EIO. */
DSFLOW_API int dsflow_trace_explain(const struct dsflow_trace *trace, int json,
                                    const char *path, struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
