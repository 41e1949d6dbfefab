/* clock_apart.h - how far the clock of another machine is from this one's, as
 * answers to the question for its time tell. */
#ifndef DSF_EXEC_CLOCK_APART_H
#define DSF_EXEC_CLOCK_APART_H

#include <stdbool.h>

/* Begins as zeroes. */
struct dsf_clock_apart {
    bool known;
    double ahead;  /* seconds that the other clock is ahead of this one, */
    double within; /* and what that may be wrong by, as it was asked, */
    double asked;  /* at this time of this clock */
};

/* The other clock was at `there` when this one was between `before` and
 * `after`. What is known stays where it is better than that. */
void dsf_clock_heard(struct dsf_clock_apart *c, double before, double there,
                     double after);

/* Seconds that `ahead` may be wrong by at `now`: more, the longer nobody
 * asked. */
double dsf_clock_within(const struct dsf_clock_apart *c, double now);

#endif
