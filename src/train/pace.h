/* pace.h - how fast a run is, smoothed: a step alone says little. */
#ifndef DSF_TRAIN_PACE_H
#define DSF_TRAIN_PACE_H

#include "train/metrics.h"

struct dsf_pace {
    int64_t nsteps; /* that were added */
    double rate;    /* tokens a second; 0: not known */
    double step_seconds;
    double efficiency, share[DSF_NSHARES]; /* NAN: not known */
};

void dsf_pace_add(struct dsf_pace *p, const struct dsf_step *s);
bool dsf_pace_has_shares(const struct dsf_pace *p);

#endif
