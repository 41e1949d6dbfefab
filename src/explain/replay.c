/* replay.c - what the tasks of a trace run on when they are simulated again. */
#include "explain/replay.h"

#include <string.h>

unsigned dsf_replay_cores(const struct dsf_trace *trace)
{
    unsigned n = 0;

    for (unsigned l = 0; l < trace->timeline.nlanes; l++)
        n += trace->timeline.lanes[l].kind == DSF_LANE_HOST;
    return n;
}

/* A simulation has in no span that kernels are launched one after the other,
 * and that workers wait for a core. The spans of a run have the latter in them.
 */
static void add_limits(const struct dsf_trace *trace, struct dsf_sim_spec *spec)
{
    const char *rates = trace->facts.rates;
    struct dsf_machine_model m;
    struct dsflow_err err;

    if (!trace->facts.simulated || rates == NULL || rates[0] == '\0' ||
        dsf_machine_model_parse(rates, strlen(rates), "machine", &m, &err) < 0)
        return;
    if (m.main.kind == DSF_MACHINE_GPU) {
        spec->links = spec->two_way = true;
        spec->launch = m.main.overhead;
    } else
        spec->cores = trace->facts.cores;
    dsf_machine_model_fini(&m);
}

void dsf_replay_on(const struct dsf_trace *trace, bool links,
                   struct dsf_sim_spec *spec)
{
    spec->links = spec->two_way = links;
    spec->host_cores = dsf_replay_cores(trace);
    add_limits(trace, spec);
}
