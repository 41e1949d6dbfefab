/* sim_launch.c - kernels that a thread launches while others before them run,
 * one after the other. */
#include "sim/sim_private.h"

#include "base/alloc.h"

#include <stdlib.h>

static unsigned device_of(const struct sim *s, const struct dsflow_task_spec *t)
{
    return t->rank == DSFLOW_ANYWHERE ? 0 : (unsigned)t->rank % s->nworking;
}

/* Which data has others to do with it than the kernels of one device? */
static bool *find_shared(const struct sim *s)
{
    enum { NOBODY = UINT16_MAX };
    const uint32_t n = dsflow_graph_ndata(s->g);
    bool *shared = dsf_xcalloc((size_t)n + 1, sizeof(*shared));
    uint16_t *by = dsf_xcalloc((size_t)n + 1, sizeof(*by));

    for (uint32_t i = 0; i < n; i++)
        by[i] = NOBODY;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(s->g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(s->g, (dsflow_task_id){ i });
        bool kernel = dsf_sim_place_of(s, t) == DSF_BOUND_WORK;
        uint16_t device = (uint16_t)device_of(s, t);

        for (unsigned p = 0; p < t->ndata; p++) {
            uint32_t data = t->data[p].i;

            if (!kernel || (by[data] != NOBODY && by[data] != device))
                shared[data] = true;
            by[data] = device;
        }
    }
    free(by);
    return shared;
}

void dsf_sim_find_ahead(struct sim *s)
{
    bool *shared;

    if (!(s->spec->launch > 0) || s->nworking == 0)
        return;
    shared = find_shared(s);
    s->ahead = dsf_xcalloc((size_t)s->ntasks + 1, sizeof(*s->ahead));
    s->known = dsf_xcalloc((size_t)s->n + 1, sizeof(*s->known));
    s->launcher = dsf_xcalloc(s->nlanes, sizeof(*s->launcher));
    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct dsflow_task_spec *t = dsf_sim_task(s, i);

        s->ahead[i] = dsf_sim_place_of(s, t) == DSF_BOUND_WORK;
        for (unsigned p = 0; p < t->ndata && s->ahead[i]; p++)
            s->ahead[i] = !shared[t->data[p].i];
    }
    free(shared);
}

void dsf_sim_tell(struct sim *s, uint32_t x, uint32_t next)
{
    double at;

    if (s->ahead == NULL)
        return;
    at = s->ahead[dsf_sim_of(s, x)] ? s->known[x] : s->now;
    if (at > s->known[next])
        s->known[next] = at;
}

double dsf_sim_launch(struct sim *s, unsigned lane, uint32_t x)
{
    double *at;

    if (s->ahead == NULL || s->groups[s->group_of[lane]].kind != DSF_BOUND_WORK)
        return s->now;
    at = &s->launcher[lane];
    if (s->known[x] > *at)
        *at = s->known[x];
    *at += s->spec->launch;
    s->known[x] = *at;
    return *at > s->now ? *at : s->now;
}
