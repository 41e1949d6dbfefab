/* predict.h - a job planned for a machine, and what a step of it takes there.
 * Nothing is run, and no text is read. One thread at a time plans and predicts
 * (dsflow.h); several may look at a plan, and at its graph by what takes it as
 * const. */
#ifndef DSFLOW_PREDICT_H
#define DSFLOW_PREDICT_H

#include <stdint.h>
#include <dsflow/graph.h>
#include <dsflow/job.h>
#include <dsflow/machine.h>
#include <dsflow/plan.h>

DSFLOW_BEGIN_DECLS

struct dsflow_planned; /* opaque: the plan of a job and its graph */

/* The plan, and the graph as it is after policy `until` (NULL: after all). The
 * machine is borrowed; NULL: this one, where planning asks for one. Sizes that
 * the job leaves open ("auto") are chosen. Errors: DSFLOW_EINVAL, with the key;
 * DSFLOW_EFIT where it fits in no memory of the machine. */
DSFLOW_API int dsflow_plan_job(const struct dsflow_job *job,
                               const struct dsflow_machine *machine,
                               const char *until,
                               struct dsflow_planned **planned,
                               struct dsflow_err *err);
DSFLOW_API void
dsflow_planned_free(struct dsflow_planned *planned); /* NULL is fine */

/* Borrowed, as long as `planned`. */
DSFLOW_API const struct dsflow_plan *
dsflow_planned_plan(const struct dsflow_planned *planned);
DSFLOW_API struct dsflow_graph *
dsflow_planned_graph(const struct dsflow_planned *planned);

/* What was chosen for sizes that were open, as a line for people; NULL: none
 * were. */
DSFLOW_API const char *
dsflow_planned_chosen(const struct dsflow_planned *planned);

struct dsflow_prediction {
    uint32_t size;        /* of this structure: DSFLOW_PREDICTION sets it */
    double step_seconds;  /* of a step in the middle of a run */
    double bound_seconds; /* that no order of the same tasks can beat */
    double tokens_per_second;
    /* Bytes of the rank that needs most, scratch of kernels included. */
    double device_bytes, host_bytes, nvme_bytes;
};
#define DSFLOW_PREDICTION()                                                    \
    DSFLOW_OF(dsflow_prediction, .size = sizeof(struct dsflow_prediction))

/* What a step takes on the machine it was planned for. Errors: DSFLOW_EINVAL
 * where it was planned up to a policy only. */
DSFLOW_API int dsflow_predict(const struct dsflow_planned *planned,
                              struct dsflow_prediction *prediction,
                              struct dsflow_err *err);

/* Some steps of it in that time, as a trace in the file `path` (trace.h).
 * Errors: as above; DSFLOW_EIO. */
DSFLOW_API int dsflow_planned_trace(const struct dsflow_planned *planned,
                                    const char *path, struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
