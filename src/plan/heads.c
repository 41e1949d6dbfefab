/* heads.c - which heads of attention the ranks that share sequences have. */
#include "plan/heads.h"

struct dsf_heads dsf_heads_of(const struct dsflow_plan *plan, int32_t heads)
{
    const int32_t ranks = plan->nsequence;

    return (struct dsf_heads){ .heads = heads,
                               .ranks = ranks,
                               .groups = plan->sequence_groups,
                               .teams = heads < ranks ? heads : ranks };
}

int32_t dsf_heads_at(const struct dsf_heads *h, int32_t team, int32_t group)
{
    const int32_t n = dsf_heads_size(h, team);

    return team + h->teams * (int32_t)((int64_t)group * n / h->groups);
}

double dsf_heads_imbalance(const struct dsf_heads *h)
{
    double most = 0;

    for (int32_t team = 0; team < h->teams; team++) {
        const int32_t n = dsf_heads_size(h, team);
        const double heads = dsf_heads_first(h->heads, h->teams, team + 1) -
                             dsf_heads_first(h->heads, h->teams, team);
        /* Groups go to ranks as evenly as they can. */
        const double groups = (h->groups + n - 1) / n;

        most = heads * groups > most ? heads * groups : most;
    }
    return most * h->ranks / ((double)h->heads * h->groups);
}

int32_t dsf_heads_of_layer(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_dims *d = &dsf_model_layer(plan->model, l)->dims;

    return d->kv_heads < plan->nparts ? 1 : d->kv_heads / plan->nparts;
}
