/* into.h - a source as a checkpoint of a job, from which the run goes on. */
#ifndef DSF_FOREIGN_INTO_H
#define DSF_FOREIGN_INTO_H

#include "foreign/source.h"
#include "train/session.h"

struct dsf_into_spec {
    bool weights_only; /* a run that begins with them: step 0 */
    /* A line for each thing that does not fit, all of them. */
    void (*refused)(void *user, const char *line);
    /* Or NULL: asked before the checkpoint and each tensor of it is written: is
     * it to stop? */
    bool (*stopped)(void *user);
    void *user;
};

struct dsf_into_done {
    int64_t step;
    unsigned nrefused; /* not 0: nothing was written */
    char *folder;      /* freed by the caller */
};

/* Write <output>/checkpoints/step-N, as a run of the session's job would have
 * saved it, and <output>/job.toml. The session is open up to its model, and is
 * planned here. A buffer of some MiB is all that is in memory of the tensors.
 * Errors: DSFLOW_EINVAL, also where the output has checkpoints already, or a
 * run that goes on, or it was stopped; those of the source and of the disk. On
 * any of them nothing is written. */
int dsf_into_write(struct dsf_session *s, struct dsf_source *from,
                   const struct dsf_into_spec *spec, struct dsf_into_done *done,
                   struct dsflow_err *err);

#endif
