/* account_private.h - the parts of an account; for src/explain. */
#ifndef DSF_EXPLAIN_ACCOUNT_PRIVATE_H
#define DSF_EXPLAIN_ACCOUNT_PRIVATE_H

#include "explain/account.h"

/* What a span waited for last. */
struct dsf_blocker {
    const struct dsf_span *span; /* NULL: nothing in the trace */
    const struct dsf_edge *edge;
};
struct dsf_blocker dsf_blocker_of(const struct dsf_account *a,
                                  const struct dsf_span *span);

/* The rank of a span, from 0, also where there is only one. */
int dsf_rank_of(const struct dsf_account *a, const struct dsf_span *span);

static inline const struct dsflow_task_spec *
dsf_task_of(const struct dsf_account *a, const struct dsf_span *span)
{
    return dsflow_graph_task(a->trace->graph, (dsflow_task_id){ span->what });
}

/* Does it carry data, and compute nothing? */
static inline bool dsf_moves(const struct dsf_account *a,
                             const struct dsf_span *span)
{
    return span->kind == DSF_SPAN_TRANSFER ||
           dsf_task_carries(dsf_task_of(a, span));
}

struct dsf_transfers; /* spans of transfers, by data */
struct dsf_transfers *dsf_transfers_new(const struct dsf_trace *trace);
void dsf_transfers_free(struct dsf_transfers *t);

/* Seconds of [from, to] for which a task, ready, waited for transfers. */
double dsf_transfers_seconds(const struct dsf_transfers *t,
                             const struct dsf_trace *trace,
                             const struct dsf_span *task, double from,
                             double to);

/* Each fills its part of the account. */
void dsf_account_waits(struct dsf_account *a);
void dsf_account_path(struct dsf_account *a);

#endif
