/* resume.h - where a run begins: anew, or with a checkpoint of an earlier one,
 * whose job may have been another. */
#ifndef DSF_TRAIN_RESUME_H
#define DSF_TRAIN_RESUME_H

#include "train/session.h"

struct dsf_resume {
    bool asked;     /* to go on, in any way: the caller fills in these four */
    bool good;      /* an older checkpoint will do, if the latest is damaged */
    bool changes;   /* --resume=changed: not bit for bit, if it must be */
    bool overwrite; /* the checkpoints of an earlier run go */

    char *folder; /* of the checkpoint; NULL: the run begins anew */
    struct dsf_ckpt_meta meta;
    struct dsf_ckpt_fields was; /* what it is of; none in old checkpoints */
    struct dsf_job *job;        /* of the run so far; NULL: it cannot be read */

    bool differs;  /* the job does, and it goes on all the same, … */
    bool new_text; /* … with the text from its beginning */
};

/* Find the checkpoint that is asked for. After the model: sizes that the job
 * leaves open, and that decide bits, are then those of the run where they can
 * be. */
int dsf_resume_find(struct dsf_resume *r, struct dsf_session *s,
                    struct dsflow_err *err);

/* Can the session go on from it? Each key that differs is said, with both
 * values. Called after the model, which finds what cannot be, and after the
 * text, which finds all. */
int dsf_resume_check(struct dsf_resume *r, const struct dsf_session *s,
                     struct dsflow_err *err);

/* Load it into the open session. */
int dsf_resume_load(const struct dsf_resume *r, struct dsf_session *s,
                    struct dsflow_err *err);

/* The checkpoints that --overwrite removes go; `latest` names the one that it
 * goes on from: it may have nothing more to save. */
int dsf_resume_begin(const struct dsf_resume *r, const struct dsf_session *s,
                     struct dsflow_err *err);

void dsf_resume_fini(struct dsf_resume *r);

#endif
