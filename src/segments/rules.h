/* rules.h - what the rules of a segment (dsflow/segment.h) make of its tasks
 * among tensor ranks; tensor_parallel follows them.
 */
#ifndef DSF_SEGMENTS_RULES_H
#define DSF_SEGMENTS_RULES_H

#include <dsflow/segment.h>

#include "segments/unit.h"
#include "tasks/tasks.h"

/* What fills the arguments of the task of tensor rank `t` of `parts` from those
 * of the whole task (dsf_part_fill_fn). `part` is what the rule's `unit` names,
 * and `shared` the shared part of the same unit. It returns the ports that this
 * task leaves out (bit i: port i of its op), or DSF_NO_TASK. */
#define DSF_NO_TASK UINT32_MAX

#define DSF_PART(fill_fn, of, ...)                                             \
    {                                                                          \
        .kind = DSFLOW_RULE_PART, .fill = fill_fn, .unit = of,                 \
        DSFLOW_CONNECT(__VA_ARGS__)                                            \
    }
#define DSF_OTHER(name, fill_fn, of, ...)                                      \
    {                                                                          \
        .kind = DSFLOW_RULE_OTHER, .op = &dsf_op_##name, .fill = fill_fn,      \
        .unit = of, DSFLOW_CONNECT(__VA_ARGS__)                                \
    }

/* The kind of the new tasks of a rule for `whole`; NULL: it makes a collective.
 */
const struct dsflow_op *dsf_rule_op(const struct dsflow_rule *rule,
                                    const struct dsflow_op *whole);

/* Their arguments, of rank `t`, from those of a task of kind `whole`. */
uint32_t dsf_rule_fill(const struct dsflow_rule *rule,
                       const struct dsflow_op *whole, int32_t parts, int32_t t,
                       const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole_args,
                       void *args);

/* What dsf_rule_fill returns, without the arguments where it does not depend on
 * them; `args` is room for them. */
uint32_t dsf_rule_without(const struct dsflow_rule *rule,
                          const struct dsflow_op *whole, int32_t parts,
                          int32_t t, const struct dsf_part *part,
                          const struct dsf_part *shared, const void *whole_args,
                          void *args);

/* What port `port` of the new tasks refers to. */
unsigned dsf_rule_ref(const struct dsflow_rule *rule,
                      const struct dsflow_op *whole, unsigned port);

/* The part's shape, and all rows. */
struct dsflow_tile dsf_part_tile(int32_t parts, int32_t t,
                                 const struct dsflow_tile *whole);
/* The same, with the rows of the vocabulary that the part has. */
struct dsflow_tile dsf_part_vocabulary(int32_t parts, int32_t t,
                                       const struct dsflow_tile *whole,
                                       const struct dsf_part *part);

/* NULL: such a task has no rule. */
const struct dsflow_op_rules *dsf_rules_find(const struct dsflow_op *op);

/* How the data on a port of a task that has rules is cut. */
enum dsflow_cut dsf_rules_cut(const struct dsflow_op *op, unsigned port);

#endif
