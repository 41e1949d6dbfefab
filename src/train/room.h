/* room.h - is there room on disk for the checkpoints of a run? Asked before the
 * first step: where the only save is after the last one, a full disk would lose
 * the run. */
#ifndef DSF_TRAIN_ROOM_H
#define DSF_TRAIN_ROOM_H

#include "config/job.h"
#include "sim/plan_report.h"

/* What may be written. */
struct dsf_room {
    double free;  /* bytes of the file system; INFINITY: not known */
    double block; /* a file takes a multiple of so many bytes */
    double file;  /* bytes that one file may have (ulimit -f) */
};

/* Of the file system that `path` is on, or will be on. */
void dsf_room_look(const char *path, struct dsf_room *room);

/* What a run will write. */
struct dsf_room_use {
    double bytes[2];    /* of the two large files of a checkpoint */
    double saves;       /* checkpoints to come; INFINITY: not known */
    unsigned there;     /* checkpoints that are there already, … */
    double there_bytes; /* … which have so many bytes together */
    double removed;     /* bytes that are removed before the first save */
    double others;      /* bytes that the run takes there for other things */
    bool early; /* more is known later, when it is asked again: only refuse */
};

/* How many checkpoints the job still saves after step `done`. */
double dsf_room_saves(const struct dsf_job *job, int64_t done);

/* What is said of them in a plan, for a disk of any machine. */
struct dsf_plan_saves dsf_room_plan(const struct dsf_job *job,
                                    const struct dsf_room_use *use);

/* Is there room? The message has what is needed and what is free, and which
 * keys to change. */
int dsf_room_check(const struct dsf_job *job, const struct dsf_room_use *use,
                   const struct dsf_room *room, struct dsflow_err *err);

#endif
