/* clock_drift.h - the clock of a device beside that of the host, which are not
 * equally fast: after an hour they may be tens of milliseconds apart. */
#ifndef DSF_EXEC_CLOCK_DRIFT_H
#define DSF_EXEC_CLOCK_DRIFT_H

#include <stdbool.h>

/* Begins as zeroes. */
struct dsf_clock_drift {
    double since;     /* when this window began; 0: none did */
    double least;     /* gap of the window */
    double reference; /* that of the first window, */
    bool known;       /* once it is over */
};

/* The host has seen at `now`, in seconds, what by the device's clock was `gap`
 * seconds before. It sees things late, but the least that it is late stays the
 * same: returns what the device's clock has to be put forward for that. */
double dsf_clock_drift(struct dsf_clock_drift *d, double now, double gap);

#endif
