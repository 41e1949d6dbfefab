/* candidates.h - what could be changed in a job to make its steps shorter. */
#ifndef DSF_TUNE_CANDIDATES_H
#define DSF_TUNE_CANDIDATES_H

#include "tune/whatif.h"

/* What in the trace speaks for a change: it becomes the sentence before it. */
enum dsf_reason {
    DSF_REASON_SLOT,     /* tasks wait for a slot of a ring */
    DSF_REASON_STAGES,   /* stages have unequal work, or wait for each other */
    DSF_REASON_SMALL,    /* tasks are small */
    DSF_REASON_LARGE,    /* tasks are few: workers wait for them */
    DSF_REASON_BUSY,     /* all workers are busy */
    DSF_REASON_MOVING,   /* moving data is not hidden */
    DSF_REASON_TRANSFER, /* virtual devices wait for transfers */
    DSF_REASON_DISK,     /* a disk is busy */
    DSF_REASON_AGAIN,    /* what was computed is computed again */
    DSF_REASON_ORDER     /* workers wait for data */
};

struct dsf_candidate {
    enum dsf_reason reason;
    char *key;
    char *from, *to;
    char *sets[3]; /* for struct dsf_change; owned */
    double link, network, disk, transfers;
    bool parallel, rounds, machine;
};

struct dsf_candidates {
    struct dsf_candidate
        *v; /* those of a key together, smallest change first */
    size_t n, cap;
};

void dsf_candidates_init(struct dsf_candidates *c, const struct dsf_whatif *w);
void dsf_candidates_fini(struct dsf_candidates *c);

#endif
