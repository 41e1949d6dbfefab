/* copies.c - the copies that swaps, sends, copies and gathers are. */
#include "codelets/copies.h"

#include "tasks/tasks.h"

static unsigned whole(const struct dsflow_call *call, struct dsf_port_copy *v)
{
    size_t a = call->bufs[0].bytes, b = call->bufs[1].bytes;

    *v = (struct dsf_port_copy){ .to = 1, .from = 0, .bytes = a < b ? a : b };
    return 1;
}

static struct dsf_port_copy range(const struct dsflow_call *call, unsigned port,
                                  struct dsf_range move)
{
    size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);

    return (struct dsf_port_copy){ .to = 0,
                                   .from = port,
                                   .to_at = (size_t)move.at * width,
                                   .from_at = (size_t)move.from * width,
                                   .bytes = (size_t)move.elems * width };
}

static unsigned one_range(const struct dsflow_call *call,
                          struct dsf_port_copy *v)
{
    v[0] = range(call, 1, *(const struct dsf_range *)call->args);
    return 1;
}

static unsigned gathered(const struct dsflow_call *call,
                         struct dsf_port_copy *v)
{
    for (unsigned i = 1; i < call->nbufs; i++)
        v[i - 1] = range(call, i, dsf_gather_move(call->args, i));
    return call->nbufs - 1;
}

static unsigned gathered_coded(const struct dsflow_call *call,
                               struct dsf_port_copy *v)
{
    for (unsigned i = 1; i < call->nbufs; i++)
        v[i - 1] = range(call, i, dsf_gather_coded_move(call->args, i));
    return call->nbufs - 1;
}

/* Rows of each run of heads: there are two at most, of keys and of values. */
static unsigned heads(const struct dsflow_call *call, struct dsf_port_copy *v)
{
    const struct dsf_heads_args *a = call->args;
    const size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);
    unsigned n = 0;

    for (unsigned i = 1; i < call->nbufs; i++)
        for (int32_t run = 0; run < a->runs; run++) {
            const struct dsf_heads_move m = dsf_heads_run(a, i, run);

            v[n++] = (struct dsf_port_copy){
                .to = 0,
                .from = i,
                .to_at = (size_t)m.to * width,
                .from_at = (size_t)m.from * width,
                .bytes = (size_t)m.n * width,
                .rows = (size_t)m.rows,
                .to_apart = (size_t)m.to_apart * width,
                .from_apart = (size_t)m.from_apart * width,
            };
        }
    return n;
}

static const struct copier {
    const struct dsflow_op *op;
    unsigned into; /* port */
    unsigned (*copies)(const struct dsflow_call *call, struct dsf_port_copy *v);
} copiers[] = {
    { &dsf_op_swap_in, 1, whole },
    { &dsf_op_swap_out, 1, whole },
    { &dsf_op_send, 1, whole },
    { &dsf_op_copy, 0, one_range },
    { &dsf_op_gather, 0, gathered },
    { &dsf_op_gather_coded, 0, gathered_coded },
    { &dsf_op_all_to_all_heads, 0, heads },
};

static const struct copier *find(const struct dsflow_op *op)
{
    for (size_t i = 0; i < sizeof(copiers) / sizeof(*copiers); i++)
        if (copiers[i].op == op)
            return &copiers[i];
    return NULL;
}

bool dsf_only_copies(const struct dsflow_op *op)
{
    return find(op) != NULL;
}

unsigned dsf_copies_into(const struct dsflow_op *op)
{
    return find(op)->into;
}

unsigned dsf_copies(const struct dsflow_op *op, const struct dsflow_call *call,
                    struct dsf_port_copy *v)
{
    return find(op)->copies(call, v);
}
