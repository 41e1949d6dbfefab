/* together.h - a session that several processes have together. The first one
 * has the run, and tells the others what it is; they plan the same, make their
 * parts of the graph, and serve it. */
#ifndef DSF_TRAIN_TOGETHER_H
#define DSF_TRAIN_TOGETHER_H

#include "graph/part.h"
#include "net/wire.h"
#include "train/session.h"

/* DSFLOW_EINVAL: there are more processes than ranks of the job, which `path`
 * names. */
int dsf_together_check(const char *path, int64_t ranks, int64_t processes,
                       struct dsflow_err *err);

/* In the first: the part of the graph that is its own, and the options of an
 * executor that has the rest of it in the other processes, which are told what
 * to open. DSFLOW_EINVAL: there are more processes than ranks. */
int dsf_together_begin(struct dsf_session *s,
                       struct dsflow_exec_options *options,
                       struct dsflow_err *err);

/* Once its executor is open: until theirs are. DSFLOW_EINVAL, DSFLOW_EIO: what
 * one of them lacks, or has otherwise. */
int dsf_together_opened(struct dsf_session *s, struct dsflow_err *err);

/* What batches are read by, where it has changed. */
void dsf_together_tell(const struct dsf_session *s, int64_t nvalidation);

/* Where nothing was opened: the others need not wait for it. */
void dsf_together_end(struct dsf_session *s, struct dsf_wire *wire);

/* In each of the others, from its beginning to its end. What goes wrong is said
 * in the first one, where it can be. */
int dsf_together_serve(struct dsf_wire *wire, struct dsflow_err *err);

#endif
