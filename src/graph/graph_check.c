/* graph_check.c - can a graph be run as it is? */
#include "graph/graph_private.h"

#include "base/alloc.h"
#include "graph/shape_text.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

struct check {
    const struct dsflow_graph *g;
    uint8_t *written;       /* by data: the last program that wrote it, + 1 */
    uint32_t *used;         /* by data: the last task that used it, + 1 */
    dsflow_program program; /* of the task before */
};

/* Is there something on each port that must have it, and nothing besides? */
static int check_count(const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    const struct dsflow_op *op = t->op;
    unsigned has = 0;

    for (unsigned p = 0; p < op->nports; p++) {
        const struct dsflow_port *port = &op->ports[p];
        bool left_out = (p < 32 && t->without >> p & 1) || has == t->ndata;

        if (port->name == NULL && !left_out)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: has data on port %u, which there is not",
                               op->name, p);
        if (port->name != NULL && !port->optional && left_out)
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: has nothing on port %s",
                               op->name, port->name);
        has += !left_out;
    }
    if (t->ndata > has && !op->repeats)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u data: expected %u at most", op->name,
                           t->ndata, has);
    return DSFLOW_OK;
}

/* Ports that come again, or have no contents yet, are so in the op. */
static int check_modes(const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    const struct dsflow_op *op = t->op;

    if (op->repeats && op->ports[op->nports - 1].access == DSFLOW_RW)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: port %s comes again: expected R or W, not RW",
                           op->name, op->ports[op->nports - 1].name);
    for (unsigned p = 0; p < 32 && t->fresh >> p != 0; p++)
        if (t->fresh >> p & 1 &&
            (t->without >> p & 1 ||
             (p >= t->ndata && p >= op->nports) ||
             op->ports[p < op->nports ? p : op->nports - 1].access == DSFLOW_R))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: port %u is only read, so not fresh",
                               op->name, p);
    for (unsigned i = 0; i < t->ndata && t->apart != 0; i++)
        if (dsflow_task_is_apart(t, i) &&
            !(dsflow_task_access(t, i) & DSFLOW_W))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: port %s is only read, so no part of it is "
                               "written",
                               op->name, dsf_task_port(t, i)->name);
    return DSFLOW_OK;
}

/* Data of the type that the port declares. */
static int check_type(const struct dsflow_task_spec *t, uint32_t p,
                      const struct dsflow_data_spec *d, struct dsflow_err *err)
{
    const struct dsflow_port *port = dsf_task_port(t, p);

    if (port->dtype == 0 || port->dtype == d->dtype)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: expected %s, is %s",
                       t->op->name, port->name, dsflow_dtype_str(port->dtype),
                       dsflow_dtype_str((enum dsflow_dtype)d->dtype));
}

static int check_order(const struct check *c, const struct dsflow_task_spec *t,
                       struct dsflow_err *err)
{
    if (t->program >= c->program)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: a task of program %s after one of %s", t->op->name,
                       c->g->programs[t->program].name,
                       c->g->programs[c->program].name);
}

static int fail_twice(const struct dsflow_task_spec *t, uint32_t p,
                      struct dsflow_err *err)
{
    uint32_t q = 0;

    while (t->data[q].i != t->data[p].i)
        q++;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: ports %u and %u are the same data", t->op->name, q,
                       p);
}

/* Data on port `p` of task `i`: there once, where a task can have it, and with
 * contents if it is read. */
static int check_port(struct check *c, const struct dsflow_task_spec *t,
                      uint32_t i, uint32_t p, struct dsflow_err *err)
{
    uint32_t id = t->data[p].i;
    const struct dsflow_data_spec *d = &c->g->data[id];

    if (c->used[id] == i + 1)
        return fail_twice(t, p, err);
    c->used[id] = i + 1;
    if (check_type(t, p, d, err) < 0)
        return DSFLOW_EINVAL;
    if (d->tier == DSFLOW_NVME && !t->op->swaps)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s uses %s, which is on NVMe",
                           t->op->name, d->name);
    if (dsflow_task_access(t, p) & DSFLOW_R && !d->persistent &&
        c->written[id] != t->program + 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s reads %s, which nothing wrote", t->op->name,
                           d->name);
    return DSFLOW_OK;
}

/* What the op's check refused: the first of its data, behind its message. */
static void add_shapes(const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    enum { MOST = 4 };
    size_t at = err != NULL ? strlen(err->msg) : 0;

    for (uint32_t p = 0; err != NULL && p < t->ndata && p < MOST; p++) {
        size_t room = sizeof(err->msg) - at;
        int n = snprintf(err->msg + at, room, "%s%s %s", p == 0 ? " (" : ", ",
                         dsf_task_port(t, p)->name,
                         dsf_shape_text(&g->data[t->data[p].i]).s);

        if (n < 0 || (size_t)n + 8 > room) { /* no room for the rest */
            err->msg[at] = '\0';
            return;
        }
        at += (size_t)n;
    }
    if (err != NULL && t->ndata > 0)
        strcpy(err->msg + at, t->ndata > MOST ? ", …)" : ")");
}

static int check_task(struct check *c, uint32_t i, struct dsflow_err *err)
{
    const struct dsflow_task_spec *t = dsf_task_at(c->g, i);
    int status = check_order(c, t, err);

    if (status == DSFLOW_OK)
        status = check_count(t, err);
    if (status == DSFLOW_OK)
        status = check_modes(t, err);
    for (uint32_t p = 0; p < t->ndata && status == DSFLOW_OK; p++)
        status = check_port(c, t, i, p, err);
    if (status == DSFLOW_OK) {
        status = dsf_task_check(c->g, t, err);
        if (status < 0)
            add_shapes(c->g, t, err);
    }
    for (uint32_t p = 0; p < t->ndata && status == DSFLOW_OK; p++)
        if (dsflow_task_access(t, p) & DSFLOW_W)
            c->written[t->data[p].i] = t->program + 1;
    c->program = t->program;
    return status;
}

int dsflow_graph_check(const struct dsflow_graph *g, struct dsflow_err *err)
{
    struct check c = { .g = g };
    int status = DSFLOW_OK;

    if (g->fault.status < 0)
        return dsflow_fail(err, g->fault.status, "%s", g->fault.msg);
    c.written = dsf_xcalloc(g->ndata + 1, sizeof(*c.written));
    c.used = dsf_xcalloc(g->ndata + 1, sizeof(*c.used));
    for (uint32_t i = 0; i < g->ntasks && status == DSFLOW_OK; i++)
        status = check_task(&c, i, err);
    free(c.written);
    free(c.used);
    return status;
}
