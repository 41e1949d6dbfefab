/* messages.c - the messages that `transmit` and `receive` are. */
#include "codelets/messages.h"

#include "tasks/tasks.h"

_Static_assert((int)DSF_MOST_MESSAGES >= (int)DSF_RECEIVE_PARTS,
               "room for all parts");

bool dsf_is_message(const struct dsflow_op *op)
{
    return op == &dsf_op_transmit || op == &dsf_op_receive;
}

static struct dsf_part_message message(const struct dsf_message_args *a)
{
    return (struct dsf_part_message){ a->elems, a->at,   a->process,
                                      a->tag,   a->rank, a->row };
}

unsigned dsf_messages(const struct dsflow_task_spec *t,
                      struct dsf_part_message *v, bool *out)
{
    const struct dsf_receive_args *parts = t->args;

    *out = t->op == &dsf_op_transmit;
    if (*out) {
        v[0] = message(t->args);
        return 1;
    }
    for (uint32_t i = 0; i < parts->n; i++)
        v[i] = message(&parts->part[i]);
    return parts->n;
}

bool dsf_is_direct(const struct dsflow_task_spec *t)
{
    struct dsf_part_message parts[DSF_MOST_MESSAGES];
    bool out;

    return dsf_is_message(t->op) && dsf_messages(t, parts, &out) > 0 &&
           parts[0].rank >= 0;
}
