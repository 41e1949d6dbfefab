/* each_number.c - ops that do the same with each number of a unit. */
#include "tasks/each_number.h"

#include "tasks/shapes.h"

static int64_t *place(void *args, size_t at)
{
    return (int64_t *)(void *)((char *)args + at);
}

static int64_t value(const struct dsflow_case *c, size_t at)
{
    return at == 0 ? 0 : *(const int64_t *)((const char *)c->args + at);
}

static int64_t count(const struct dsf_each_number *n,
                     const struct dsflow_case *c)
{
    return *(const int64_t *)((const char *)c->args + n->elems);
}

int dsf_each_number_check(const struct dsf_each_number *n,
                          const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = n->control ? dsf_control_check(c, 0, err) : DSFLOW_OK;

    for (const struct dsf_number_port *p = n->ports;
         p->times > 0 && status == DSFLOW_OK; p++)
        if (!c->op->ports[p->port].optional || dsf_has_port(c, p->port))
            status = dsf_range_check(
                c, p->port,
                p->other != 0 && c->shapes[p->port].dtype == p->other
                    ? p->other
                    : DSFLOW_FP32,
                value(c, p->at), count(n, c), err);
    return status;
}

void dsf_each_number_cost(const struct dsf_each_number *n,
                          const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = n->flops * (double)count(n, c);
    for (const struct dsf_number_port *p = n->ports; p->times > 0; p++)
        cost->bytes += p->times * dsf_port_bytes(c, p->port, count(n, c));
}

void dsf_each_number_slice(const struct dsf_each_number *n, void *args,
                           int64_t from, int64_t elems, const int64_t *gone)
{
    *place(args, n->elems) = elems;
    if (from < 0)
        return;
    if (n->first != 0)
        *place(args, n->first) += from;
    if (n->decay != 0)
        *place(args, n->decay) -= from;
    for (const struct dsf_number_port *p = n->ports; p->times > 0; p++)
        if (p->at != 0 && p->at != n->first)
            *place(args, p->at) += from - gone[p->port];
}
