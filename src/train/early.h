/* early.h - what is wrong with a job and can be known at once: before anything
 * is measured, read, tokenized or built, all of which may take long. */
#ifndef DSF_TRAIN_EARLY_H
#define DSF_TRAIN_EARLY_H

#include "train/session.h"

/* Of a session that has its model: does the batch split, is the graph of a size
 * that can be built in `available` bytes (-1: unknown)? The machine of the
 * session is that of the plan. */
int dsf_early_check_size(const struct dsf_session *s, int64_t available,
                         struct dsflow_err *err);

/* Are the files of the text there, and is it long enough? DSFLOW_EFIT: it is
 * too short. */
int dsf_early_check_text(const struct dsf_session *s, struct dsflow_err *err);

/* All of that, of a job that is to run here by this executor, with
 * the folders of [memory.nvme]. It finds the machine of the session. */
int dsf_early_check(struct dsf_session *s, enum dsflow_exec_kind kind,
                    struct dsflow_err *err);

#endif
