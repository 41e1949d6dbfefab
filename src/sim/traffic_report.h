/* traffic_report.h - what ranks read of each other, for people and programs. */
#ifndef DSF_SIM_TRAFFIC_REPORT_H
#define DSF_SIM_TRAFFIC_REPORT_H

#include <stdio.h>
#include <jansson.h>

#include "sim/weights.h"

/* {"inside": {"bytes": …, "dense": …, "ratio": …}, "between": …}: the wires
 * that carry something; `dense` is what it would be if nothing were coded,
 * `ratio` how many times as much. */
json_t *dsf_traffic_json(const struct dsf_traffic *t);

/* By name of the kinds of task that move something, and "all". */
json_t *dsf_traffic_kinds_json(const struct dsf_weights *w);

/* A table of the same; nothing where all is in one node and nothing coded. */
void dsf_traffic_print(const struct dsf_weights *w, FILE *out);

#endif
