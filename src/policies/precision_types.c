/* precision_types.c - which kinds of task compute in the type of the job, and
 * which data has it. */
#include "policies/precision_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* --- kinds of task ------------------------------------------------------- */

static struct dsf_precise *kind_of(const struct dsf_precision *p,
                                   const struct dsflow_op *op)
{
    for (size_t i = 0; i < p->nkinds && op->segment != NULL; i++)
        if (p->kinds[i].op == op)
            return &p->kinds[i];
    return NULL;
}

bool dsf_precision_is_narrow(struct dsf_precision *p,
                             const struct dsflow_op *op)
{
    const struct dsf_precise *kind = kind_of(p, op);

    return kind != NULL && kind->narrow;
}

static bool same_segment(const struct dsflow_op *a, const struct dsflow_op *b)
{
    return strcmp(a->segment, b->segment) == 0;
}

/* Has the data on the port the type of the task? */
static bool is_typed(const struct dsflow_port *port)
{
    return port->floats == DSFLOW_NARROW || port->floats == DSFLOW_NARROW_SUM;
}

/* What a plug-in puts in the place of some tasks of a segment may be for fp32
 * only: do all that have a port say the same of it? */
static bool agree(const struct dsflow_op *a, const struct dsflow_op *b)
{
    for (unsigned i = 0; i < a->nports && i < b->nports; i++) {
        const struct dsflow_port *x = &a->ports[i], *y = &b->ports[i];

        if (x->name != NULL && y->name != NULL &&
            ((is_typed(x) && y->floats == DSFLOW_FP32_ONLY) ||
             (is_typed(y) && x->floats == DSFLOW_FP32_ONLY)))
            return false;
    }
    return true;
}

static bool has_narrow_port(const struct dsflow_op *op)
{
    for (unsigned i = 0; i < op->nports; i++)
        if (op->ports[i].floats == DSFLOW_NARROW)
            return true;
    return false;
}

static bool takes_type(const struct dsf_precision *p,
                       const struct dsflow_op *op)
{
    bool takes = false;

    for (size_t i = 0; i < p->nkinds; i++) {
        const struct dsflow_op *other = p->kinds[i].op;

        if (!same_segment(op, other))
            continue;
        if (!agree(op, other))
            return false;
        takes = takes || has_narrow_port(other);
    }
    return takes;
}

static void widen_segment(struct dsf_precision *p, const struct dsflow_op *op)
{
    for (size_t i = 0; i < p->nkinds; i++)
        if (same_segment(op, p->kinds[i].op))
            p->kinds[i].narrow = false;
}

static void find_kinds(struct dsf_precision *p, bool head)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++) {
        if (t->op->segment == NULL || kind_of(p, t->op) != NULL)
            continue;
        dsf_grow(&p->kinds, &p->cap_kinds, p->nkinds + 1, sizeof(*p->kinds));
        p->kinds[p->nkinds++] = (struct dsf_precise){ .op = t->op };
    }
    for (size_t i = 0; i < p->nkinds; i++) {
        const struct dsflow_op *op = p->kinds[i].op;

        p->kinds[i].narrow = takes_type(p, op) &&
                             (head || strcmp(op->segment, "head") != 0);
    }
}

/* --- data ---------------------------------------------------------------- */

static bool is_unit(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_PARAMS && d->unit >= 0 && d->persistent &&
           d->dtype == DSFLOW_FP32;
}

/* What stands between tasks of a step. */
static bool passes(const struct dsflow_data_spec *d)
{
    return (d->role == DSFLOW_ACTIVATIONS || d->role == DSFLOW_BUFFERS) &&
           d->dtype == DSFLOW_FP32 && !d->persistent && d->kept == 0;
}

bool dsf_precision_moves(const struct dsflow_op *op)
{
    return op->comm == DSFLOW_COMM_SEND || op->comm == DSFLOW_COMM_GATHER;
}

bool dsf_precision_on_master(const struct dsf_precision *p,
                             const struct dsflow_task_spec *t)
{
    return dsf_task_unit_port(p->rw.in, t) >= 0;
}

static uint8_t floats_of(const struct dsflow_task_spec *t, unsigned i)
{
    return t->op->ports[dsflow_task_port(t, i)].floats;
}

static uint32_t root_of(const struct dsf_precision *p, uint32_t i)
{
    while (p->root[i] != i)
        i = p->root[i] = p->root[p->root[i]];
    return i;
}

static void join(struct dsf_precision *p, uint32_t a, uint32_t b)
{
    p->root[root_of(p, a)] = root_of(p, b);
}

/* What stands in buffers of one class has one type, on any mesh. */
static void join_classes(struct dsf_precision *p)
{
    const struct dsflow_data_spec *d;
    uint32_t *first = NULL; /* by class: data +1 */
    size_t cap = 0;

    for (uint32_t i = 0; (d = dsf_nth_data(p->rw.in, i)) != NULL; i++) {
        if (!passes(d) || d->ring_class <= 0)
            continue;
        dsf_grow(&first, &cap, (size_t)d->ring_class + 1, sizeof(*first));
        if (first[d->ring_class] == 0)
            first[d->ring_class] = i + 1;
        join(p, i, first[d->ring_class] - 1);
    }
    free(first);
}

/* So has what a task carries from one piece of data to another. Partial sums,
 * which are added up between ranks, are fp32. */
static void join_moved(struct dsf_precision *p)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 1; dsf_precision_moves(t->op) && k < t->ndata; k++)
            join(p, t->data[k].i, t->data[0].i);
    for (uint32_t i = 0; i < dsflow_graph_ndata(p->rw.in); i++)
        if (!passes(dsf_nth_data(p->rw.in, i)))
            p->fixed[root_of(p, i)] = true;
    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 0; k < t->ndata; k++)
            if (t->op->comm == DSFLOW_COMM_REDUCE &&
                dsf_precision_spec(p, t->data[k])->role == DSFLOW_BUFFERS)
                p->fixed[root_of(p, t->data[k].i)] = true;
}

/* Would the task use the copy of the unit that is on data[i]? */
static bool takes_copy(struct dsf_precision *p,
                       const struct dsflow_task_spec *t, unsigned i)
{
    uint8_t floats = floats_of(t, i);

    return dsf_precision_moves(t->op) || floats == DSFLOW_NARROW_ALONE ||
           (floats != DSFLOW_FP32_ONLY && dsf_precision_is_narrow(p, t->op));
}

/* Units of which every user takes a copy. */
static void find_masters(struct dsf_precision *p)
{
    uint32_t ndata = dsflow_graph_ndata(p->rw.in);
    bool *refused = dsf_xcalloc(ndata + 1, sizeof(*refused));
    const struct dsflow_task_spec *t;

    memset(p->becomes, DSF_AS_IT_IS, ndata);
    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 0; k < t->ndata; k++) {
            uint32_t data = t->data[k].i;

            if (!is_unit(dsf_precision_spec(p, t->data[k])) ||
                dsf_precision_on_master(p, t))
                continue;
            refused[data] = refused[data] || !takes_copy(p, t, k);
            p->becomes[data] = refused[data] ? DSF_AS_IT_IS : DSF_MASTER;
        }
    free(refused);
}

/* A port that has to have the type, and parameters that cannot have it: the
 * segment is fp32. Whether there is one. */
static bool widen_one(struct dsf_precision *p)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 0; k < t->ndata; k++) {
            const struct dsflow_data_spec *d =
                dsf_precision_spec(p, t->data[k]);

            if (!dsf_precision_is_narrow(p, t->op) ||
                floats_of(t, k) != DSFLOW_NARROW || d->dtype != DSFLOW_FP32 ||
                dsf_precision_may_twin(d) ||
                p->becomes[t->data[k].i] == DSF_MASTER)
                continue;
            widen_segment(p, t->op);
            return true;
        }
    return false;
}

/* What tasks of the type use is narrow; buffers that they only add to are
 * partial sums. */
static bool makes_narrow(struct dsf_precision *p,
                         const struct dsflow_task_spec *t, unsigned i)
{
    uint8_t role = dsf_precision_spec(p, t->data[i])->role;
    uint8_t floats = floats_of(t, i);

    return dsf_precision_is_narrow(p, t->op) &&
           (floats == DSFLOW_NARROW ||
            (floats == DSFLOW_NARROW_SUM && role == DSFLOW_ACTIVATIONS));
}

static void find_narrow(struct dsf_precision *p)
{
    uint32_t ndata = dsflow_graph_ndata(p->rw.in);
    bool *narrow = dsf_xcalloc(ndata + 1, sizeof(*narrow));
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 0; k < t->ndata; k++)
            if (makes_narrow(p, t, k))
                narrow[root_of(p, t->data[k].i)] = true;
    for (uint32_t i = 0; i < ndata; i++)
        if (narrow[root_of(p, i)] && !p->fixed[root_of(p, i)])
            p->becomes[i] = DSF_NARROW;
    free(narrow);
}

static bool is_gradient(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_GRADS && d->dtype == DSFLOW_FP32;
}

/* Gradients that are added up, or moved, are of one type. */
static void join_gradients(struct dsf_precision *p)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 1; (t->op->sums || t->op->comm) && k < t->ndata; k++)
            if (is_gradient(dsf_precision_spec(p, t->data[k])))
                join(p, t->data[k].i, t->data[0].i);
}

/* Does the task take gradients in their type? A segment that computes in fp32
 * does not. */
static bool takes_gradient(struct dsf_precision *p,
                           const struct dsflow_task_spec *t, unsigned i)
{
    uint8_t floats = floats_of(t, i);

    if (t->op->segment != NULL)
        return floats == DSFLOW_NARROW_ALONE &&
               dsf_precision_is_narrow(p, t->op);
    return t->op->comm != DSFLOW_COMM_NONE || floats != DSFLOW_FP32_ONLY;
}

/* What works on gradients beside segments, as optimizers do, has to take them:
 * who asks for bf16 gets it. */
static int find_gradients(struct dsf_precision *p, struct dsflow_err *err)
{
    uint32_t ndata = dsflow_graph_ndata(p->rw.in);
    bool *wide = dsf_xcalloc(ndata + 1, sizeof(*wide));
    const struct dsflow_task_spec *t, *refuses = NULL;

    join_gradients(p);
    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        for (unsigned k = 0; k < t->ndata; k++) {
            if (!is_gradient(dsf_precision_spec(p, t->data[k])) ||
                takes_gradient(p, t, k))
                continue;
            wide[root_of(p, t->data[k].i)] = true;
            if (t->op->segment == NULL)
                refuses = t;
        }
    for (uint32_t i = 0; i < ndata; i++)
        if (is_gradient(dsf_nth_data(p->rw.in, i)) && !wide[root_of(p, i)])
            p->becomes[i] = DSF_GRADIENT;
    free(wide);
    if (refuses == NULL)
        return DSFLOW_OK;
    return dsf_job_fail(p->plan->job, err, DSFLOW_EINVAL, "precision",
                        "gradients",
                        "%s: expected fp32: task %s takes nothing else",
                        dsflow_dtype_str(p->gradients), refuses->op->name);
}

/* --- uses ---------------------------------------------------------------- */

static void find_uses(struct dsf_precision *p)
{
    const struct dsflow_task_spec *t;
    size_t n = 0;

    for (uint32_t i = 0; (t = dsf_nth_task(p->rw.in, i)) != NULL; i++)
        n += t->ndata;
    p->uses = dsf_xcalloc(n + 1, sizeof(*p->uses));
    for (uint32_t i = dsflow_graph_ntasks(p->rw.in); i-- > 0;) {
        t = dsf_nth_task(p->rw.in, i);
        for (unsigned k = t->ndata; k-- > 0;) {
            uint32_t *first = &p->use[t->data[k].i];

            p->uses[--n] = (struct dsf_data_use){ i, k, *first };
            *first = (uint32_t)n + 1;
        }
    }
}

const struct dsf_data_use *dsf_precision_next(struct dsf_precision *p,
                                              dsflow_data_id id)
{
    const struct dsflow_task_spec *now = dsf_nth_task(p->rw.in, p->task);
    uint32_t at = p->use[id.i];

    while (at != 0 && p->uses[at - 1].task <= p->task)
        at = p->uses[at - 1].next;
    p->use[id.i] = at;
    return at != 0 &&
                   dsf_nth_task(p->rw.in, p->uses[at - 1].task)->program ==
                       now->program
               ? &p->uses[at - 1]
               : NULL;
}

/* --- all of it ----------------------------------------------------------- */

dsflow_data_id dsf_precision_data(struct dsf_precision *p, dsflow_data_id id)
{
    struct dsflow_data_spec spec = *dsf_precision_spec(p, id);

    if (p->rw.copied[id.i])
        return p->rw.copy[id.i];
    if (p->becomes[id.i] == DSF_NARROW)
        spec.dtype = (uint8_t)p->type;
    else if (p->becomes[id.i] == DSF_GRADIENT)
        spec.dtype = (uint8_t)p->gradients;
    else if (p->becomes[id.i] == DSF_MASTER)
        spec.role = DSFLOW_STATES;
    p->rw.copied[id.i] = 1;
    return p->rw.copy[id.i] = dsflow_graph_add_data(p->rw.out, &spec);
}

void dsf_precision_cast(struct dsf_precision *p,
                        const struct dsflow_task_spec *like, int32_t rank,
                        const struct dsflow_data_spec *of, dsflow_data_id in,
                        dsflow_data_id out)
{
    enum { OUT = 1 };
    const struct dsf_cast_args args = { .elems = of->elems, .at = of->at };

    dsf_add_like(p->rw.out, like, &dsf_op_cast, &args, rank, 1u << OUT, 2,
                 (dsflow_data_id[]){ in, out });
}

int dsf_precision_begin(struct dsf_precision *p, bool head,
                        struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ndata(p->rw.in);

    p->root = dsf_xcalloc(n + 1, sizeof(*p->root));
    p->fixed = dsf_xcalloc(n + 1, sizeof(*p->fixed));
    p->becomes = dsf_xcalloc(n + 1, sizeof(*p->becomes));
    p->copy = dsf_xcalloc(n + 1, sizeof(*p->copy));
    p->use = dsf_xcalloc(n + 1, sizeof(*p->use));
    p->version = dsf_xcalloc(n + 1, sizeof(*p->version));
    p->held = dsf_xcalloc(n + 1, sizeof(*p->held));
    p->rings = dsf_xcalloc((size_t)p->plan->nranks, sizeof(*p->rings));
    for (uint32_t i = 0; i < n; i++)
        p->copy[i] = dsf_no_data();
    for (uint32_t i = 0; i < n; i++)
        p->root[i] = i;
    join_classes(p);
    join_moved(p);
    find_kinds(p, head);
    do
        find_masters(p);
    while (widen_one(p));
    find_narrow(p);
    find_uses(p);
    return p->gradients == DSFLOW_FP32 ? DSFLOW_OK : find_gradients(p, err);
}

void dsf_precision_end(struct dsf_precision *p)
{
    free(p->kinds);
    free(p->root);
    free(p->fixed);
    free(p->becomes);
    free(p->copy);
    free(p->use);
    free(p->version);
    free(p->held);
    free(p->uses);
    free(p->slots);
    free(p->rings);
    free(p->ring);
}
