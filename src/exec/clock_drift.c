/* clock_drift.c - how far the clock of a device has moved from the host's. */
#include "exec/clock_drift.h"

/* Long enough for an end that is seen at once. */
static const double WINDOW = 30; /* seconds */

double dsf_clock_drift(struct dsf_clock_drift *d, double now, double gap)
{
    double moved;

    if (d->since == 0 || gap < d->least)
        d->least = gap;
    if (d->since == 0)
        d->since = now;
    if (now < d->since + WINDOW)
        return 0;
    if (!d->known)
        d->reference = d->least;
    d->known = true;
    moved = d->least - d->reference;
    d->since = 0;
    return moved;
}
