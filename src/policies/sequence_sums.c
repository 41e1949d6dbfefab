/* sequence_sums.c - sums over groups of gradients of keys, where attention is
 * by heads: they are done where the heads are, in the same tree
 * (reference_sequence.c). Where a team has several ranks, each of them sums
 * what its groups leave, if that is a part of the tree, and the rank of the
 * keys the rest.
 */
#include "policies/sequence_heads.h"

#include "base/alloc.h"
#include "plan/stretch.h"
#include "tasks/tasks.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

bool dsf_headed_is_sum(const struct dsf_headed_graph *s,
                       const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_reduce && s->data[t->data[1].i].is;
}

/* What a task sums up, for one team: terms[i] is of data[i + 1] of the task. */
struct sum {
    const struct dsflow_task_spec *task;
    int32_t team;
    uint32_t n;
    dsflow_data_id *terms;
    int32_t *at; /* [n]: the coordinates of their ranks, which rise */
};

/* Terms from the `i`-th on that are of one rank. */
static uint32_t run_of(const struct sum *sum, uint32_t i)
{
    uint32_t n = 1;

    while (i + n < sum->n && sum->at[i + n] == sum->at[i])
        n++;
    return n;
}

/* Are the sums of what each rank has parts of the tree of pairs? All ranks have
 * as many terms, a power of two, but for the last one, which may have fewer. */
static bool are_subtrees(const struct sum *sum)
{
    const uint32_t each = run_of(sum, 0);

    for (uint32_t i = 0, n; i < sum->n; i += n) {
        n = run_of(sum, i);
        if (n > each || (n < each && i + n < sum->n))
            return false;
    }
    return each == sum->n || (each & (each - 1)) == 0;
}

static void add_sum(struct dsf_headed_graph *s,
                    const struct dsflow_task_spec *t, int16_t rank,
                    dsflow_data_id into, uint32_t n,
                    const dsflow_data_id *terms)
{
    const struct dsf_sum_args args = {
        .elems = dsflow_graph_data(s->out, into)->elems
    };

    dsf_grow(&s->ports, &s->cap_ports, (size_t)n + 1, sizeof(*s->ports));
    s->ports[0] = into;
    for (uint32_t i = 0; i < n; i++)
        s->ports[i + 1] = terms[i];
    dsf_add_like(s->out, t, &dsf_op_reduce, &args, rank, 1, n + 1, s->ports);
}

/* Beside the term, which is a buffer of a ring: a buffer for the sum of some.
 */
static dsflow_data_id beside(struct dsf_headed_graph *s, dsflow_data_id term)
{
    struct dsflow_data_spec spec = *dsflow_graph_data(s->out, term);

    return dsflow_rewrite_named(s->out, &spec, "%s.share", spec.name);
}

/* Each rank sums what it has, where that is a part of the tree. */
static void sum_shares(struct dsf_headed_graph *s, struct sum *sum)
{
    uint32_t n = 0;

    for (uint32_t i = 0, run; i < sum->n; i += run, n++) {
        run = run_of(sum, i);
        sum->at[n] = sum->at[i];
        if (run == 1) {
            sum->terms[n] = sum->terms[i];
            continue;
        }
        const dsflow_data_id into = beside(s, sum->terms[i]);

        add_sum(s, sum->task, dsf_headed_rank(s, sum->task, sum->at[i]), into,
                run, sum->terms + i);
        sum->terms[n] = into;
    }
    sum->n = n;
}

/* The sum of a team: by the rank that has all terms, or by that of the keys. */
static dsflow_data_id sum_team(struct dsf_headed_graph *s, struct sum *sum)
{
    const struct dsflow_task_spec *t = sum->task;
    struct dsflow_data_spec spec = *dsflow_graph_data(s->in, t->data[0]);
    const struct dsflow_data_spec *term =
        dsflow_graph_data(s->out, sum->terms[0]);
    const int64_t rows = term->dims[0], cols = term->dims[1];
    dsflow_data_id into;

    if (run_of(sum, 0) == sum->n) {
        into = dsf_headed_part_of(s, t, t->data[0], sum->at[0], rows, cols);
        add_sum(s, t, dsf_headed_rank(s, t, sum->at[0]), into, sum->n,
                sum->terms);
        return into;
    }
    if (are_subtrees(sum))
        sum_shares(s, sum);
    spec.elems = rows * cols;
    spec.ndims = 2;
    spec.dims[0] = rows;
    spec.dims[1] = cols;
    into = dsflow_rewrite_named(s->out, &spec, "%s.team%d.z%lld", spec.name,
                                (int)sum->team, (long long)spec.elems);
    add_sum(s, t, dsf_headed_rank(s, t, dsf_plan_sequence_at(s->plan, t->tile)),
            into, sum->n, sum->terms);
    return into;
}

void dsf_headed_sum(struct dsf_headed_graph *s,
                    const struct dsflow_task_spec *t)
{
    const struct dsf_heads h =
        dsf_heads_of(s->plan, dsf_heads_of_layer(s->plan, t->layer));
    struct sum sum = { .task = t };

    sum.terms = dsf_xcalloc(t->ndata, sizeof(*sum.terms));
    sum.at = dsf_xcalloc(t->ndata, sizeof(*sum.at));
    for (sum.team = 0; sum.team < h.teams; sum.team++) {
        sum.n = t->ndata - 1;
        for (uint32_t i = 0; i < sum.n; i++) {
            const struct dsf_headed *of = &s->data[t->data[i + 1].i];

            sum.terms[i] = of->latest[sum.team];
            sum.at[i] = dsf_heads_at(&h, sum.team, of->group);
        }
        dsf_headed_note(&s->data[t->data[0].i], &h, sum.team,
                        sum_team(s, &sum));
    }
    free(sum.terms);
    free(sum.at);
}
