/* used.h - what a run has used of the machine, beside what was planned. */
#ifndef DSF_TRAIN_USED_H
#define DSF_TRAIN_USED_H

#include "train/run.h"

struct dsf_used_bytes {
    double measured, planned;
};

struct dsf_used {
    struct dsflow_exec_stats exec;

    /* Seconds of the steps that nothing interrupted. */
    size_t steps; /* 0: there are none, and no figures of them */
    double median, mean;
    double predicted; /* NAN: of other workers than it had */
    double least;     /* that a step takes with tasks like these; the mean */
    double efficiency;
    double mfu; /* of the median; NAN: not known (mfu.h) */
    double disk;        /* of a step, during which a disk works; 0: none does */
    double disk_hidden; /* share of that during which some worker computes */
    double sent;        /* of a step, of messages between processes: of one of
                           these in the mean; 0: there are none */
    double sent_hidden; /* share of it during which the process that one is for
                           computes */
    double sent_bytes;  /* that a step sends from process to process */

    double peak; /* bytes of the process so far, that of its tensors at least */
    struct dsf_used_bytes memory; /* of all ranks, scratch included */
    struct dsf_used_bytes tier[DSFLOW_NTIERS]; /* of all ranks, in each */
    unsigned gpus; /* that the ranks are on: then `memory` is without the tier
                      device, */
    struct dsf_used_bytes device; /* and this is all that they have there,
                                     scratch included */
    unsigned nranks, neediest;
    struct dsf_used_bytes of_neediest; /* of that rank on its device */
};

/* Kinds of tasks that cores did for want of a kernel on the GPU, freed by the
 * caller, and their share of the time of all; NULL: there were none. */
char *dsf_run_lacking(const struct dsf_run *r, double *share);

/* Of an open run. */
void dsf_run_used(struct dsf_run *r, struct dsf_used *used);

#endif
