/* clock_apart.c - the distance of two clocks, of which an answer that came in
 * the least time tells most (Cristian 1989). */
#include "exec/clock_apart.h"

/* Seconds in a second that two clocks may drift apart: quartz is as good as 50
 * in a million, and both are corrected meanwhile. */
static const double DRIFT = 200e-6;

double dsf_clock_within(const struct dsf_clock_apart *c, double now)
{
    return c->within + DRIFT * (now - c->asked);
}

void dsf_clock_heard(struct dsf_clock_apart *c, double before, double there,
                     double after)
{
    const double within = (after - before) / 2;

    if (c->known && within > dsf_clock_within(c, after))
        return;
    c->known = true;
    c->ahead = there - (before + after) / 2;
    c->within = within;
    c->asked = after;
}
