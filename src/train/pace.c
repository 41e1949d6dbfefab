/* pace.c - how fast a run is. */
#include "train/pace.h"

#include <math.h>

static void smooth(double *mean, double x, double weight)
{
    if (!isfinite(x)) /* a step that was not measured says nothing */
        return;
    *mean = isnan(*mean) ? x : *mean + weight * (x - *mean);
}

void dsf_pace_add(struct dsf_pace *p, const struct dsf_step *s)
{
    double weight;

    if (p->nsteps == 0) {
        p->step_seconds = p->efficiency = NAN;
        for (unsigned i = 0; i < DSF_NSHARES; i++)
            p->share[i] = NAN;
    }
    /* Over ten steps, or a second when that is more of them; over all at the
     * start, but for the first one, which touches memory for the first time. */
    weight =
        p->nsteps < 2 ? 1 : fmax(fmin(0.1, s->seconds), 1 / (double)p->nsteps);
    p->nsteps++;
    smooth(&p->step_seconds, s->seconds, weight);
    smooth(&p->efficiency, s->efficiency, weight);
    for (unsigned i = 0; i < DSF_NSHARES; i++)
        smooth(&p->share[i], s->share[i], weight);
    p->rate = p->step_seconds > 0 ? (double)s->tokens / p->step_seconds : 0;
}

bool dsf_pace_has_shares(const struct dsf_pace *p)
{
    bool has = p->nsteps > 0;

    for (unsigned i = 0; i < DSF_NSHARES; i++)
        has = has && !isnan(p->share[i]);
    return has;
}
