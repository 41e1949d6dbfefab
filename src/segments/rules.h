/* rules.h - how a rule says what becomes of a kind of task among tensor ranks;
 * tensor_parallel follows it (Shoeybi et al. 2019; Korthikanti et al. 2022).
 *
 * Between the segments a rank has its rows of the tile. Before a product with
 * its columns of a matrix, the normed rows of all are gathered; after one with
 * its rows, the partial products are summed, each rank receiving its own rows.
 * The backward pass does the same with gradients, and gathers the normed rows
 * once more for those of the weights, so that they are not kept.
 */
#ifndef DSF_SEGMENTS_RULES_H
#define DSF_SEGMENTS_RULES_H

#include "segments/unit.h"
#include "tasks/tasks.h"

/* How a piece of data is cut among T tensor ranks. */
enum dsf_cut {
    DSF_CUT_UNKNOWN,
    DSF_CUT_ONE,     /* it is not: they all use the same */
    DSF_CUT_EVERY,   /* each has one of the same size */
    DSF_CUT_ROWS,    /* each has some rows of `width` numbers */
    DSF_CUT_COLUMNS, /* each has 1/T of every row: heads, feed-forward */
    DSF_CUT_KV,      /* … or the columns of the one head that it shares */
    DSF_CUT_VOCAB,   /* each has the columns of its words */
    DSF_CUT_UNIT,    /* in parts (unit.h), with a shared part */
    DSF_CUT_BLOCKS,  /* squares of a unit: as many as the part has blocks */
};

/* What a port of a new task is connected to: what the tensor rank has on port
 * DSF_OWN + p of the task it comes from; DSF_SHARED + p, the shared part of the
 * unit there (of a gradient, what this rank adds to it); or a buffer that passes
 * by. 0: the new task leaves the port out. */
enum {
    DSF_LEFT_OUT,
    DSF_OWN = 1,
    DSF_SHARED = DSF_OWN + 32,
    DSF_XN = DSF_SHARED + 32, /* own rows, normed */
    DSF_X,                    /* all rows, normed */
    DSF_Y,                    /* a partial product, all rows */
    DSF_D,                    /* all rows of a gradient */
    DSF_R,                    /* own rows of a sum of products */
    DSF_STATS,                /* what the head says of its part … */
    DSF_ALL,                  /* … and what all parts say */
    DSF_TOPS,
    DSF_END_REFS,
    DSF_NTEMPS = DSF_END_REFS - DSF_XN,
};

/* Fill the arguments of the task of tensor rank `t` of `parts` from those of
 * the whole task. `part` is what the rule's `unit` names, and `shared` the
 * shared part of the same unit. Returns the ports that this task leaves out
 * (bit i: port i of its op), or DSF_NO_TASK. */
#define DSF_NO_TASK UINT32_MAX
typedef uint32_t (*dsf_part_fill_fn)(int32_t parts, int32_t t,
                                     const struct dsf_part *part,
                                     const struct dsf_part *shared,
                                     const void *whole, void *args);

enum dsf_rule_kind {
    DSF_RULE_END,
    DSF_RULE_PART,    /* the same task on each tensor rank's part: what is not
                         said in `ports` is on the same port, its own part */
    DSF_RULE_OTHER,   /* another task on each: it has only what is said */
    DSF_RULE_GATHER,  /* to `to`, on every rank, from `from` of all */
    DSF_RULE_SCATTER, /* to `to`: own rows of the sum of `from` of all */
};

struct dsf_connection {
    uint8_t port, ref;
};

struct dsf_rule {
    enum dsf_rule_kind kind;
    const struct dsflow_op *op;
    dsf_part_fill_fn fill;
    uint8_t unit; /* DSF_OWN or DSF_SHARED + port: what `fill` is told of */
    uint8_t from, to;
    uint8_t nports;
    struct dsf_connection ports[8];
};

#define DSF_MAX_RULES 6

struct dsf_op_rules {
    const struct dsflow_op *op;
    struct dsf_rule rules[DSF_MAX_RULES + 1];
};

#define DSF_PORTS(...)                                                         \
    .nports = sizeof((struct dsf_connection[]){ __VA_ARGS__ }) /               \
              sizeof(struct dsf_connection),                                   \
    .ports = { __VA_ARGS__ }
#define DSF_PART(fill_fn, of, ...)                                             \
    { .kind = DSF_RULE_PART, .fill = fill_fn, .unit = of,                      \
      DSF_PORTS(__VA_ARGS__) }
#define DSF_OTHER(name, fill_fn, of, ...)                                      \
    { .kind = DSF_RULE_OTHER, .op = &dsf_op_##name, .fill = fill_fn,           \
      .unit = of, DSF_PORTS(__VA_ARGS__) }
#define DSF_GATHER(to_ref, from_ref)                                           \
    { .kind = DSF_RULE_GATHER, .to = to_ref, .from = from_ref }
#define DSF_SCATTER(to_ref, from_ref)                                          \
    { .kind = DSF_RULE_SCATTER, .to = to_ref, .from = from_ref }

/* What is done once for all parts, on the rows of each rank: the norm of `x` by
 * the one in `unit`, to DSF_XN; its gradients, from DSF_R (`dres`: 0 or what is
 * added); those of its parameters; y = x + DSF_R and the bias in `unit`; the
 * gradient of that bias. Arguments but for `unit` are DSF_OWN or DSF_SHARED +
 * port; `unit` is the port of a unit with a shared part. */
#define DSF_NORM_ROWS(x, unit)                                                 \
    DSF_OTHER(norm_forward, dsf_fill_norm, DSF_SHARED + (unit),                \
              { DSF_NORM_X, DSF_OWN + (x) },                                   \
              { DSF_NORM_UNIT, DSF_SHARED + (unit) }, { DSF_NORM_Y, DSF_XN })
#define DSF_NORM_BACK(x, unit, dx, dnorm)                                      \
    DSF_OTHER(norm_backward_input, dsf_fill_norm, DSF_SHARED + (unit),         \
              { DSF_NORM_X, DSF_OWN + (x) },                                   \
              { DSF_NORM_UNIT, DSF_SHARED + (unit) }, { DSF_NORM_DY, DSF_R },  \
              { DSF_NORM_DX, DSF_OWN + (dx) },                                 \
              { DSF_NORM_DNORM, DSF_OWN + (dnorm) })
#define DSF_NORM_BACK_ADD(x, unit, dx, dnorm, dres)                            \
    DSF_OTHER(norm_backward_input, dsf_fill_norm_add, DSF_SHARED + (unit),     \
              { DSF_NORM_X, DSF_OWN + (x) },                                   \
              { DSF_NORM_UNIT, DSF_SHARED + (unit) }, { DSF_NORM_DY, DSF_R },  \
              { DSF_NORM_DX, DSF_OWN + (dx) },                                 \
              { DSF_NORM_DNORM, DSF_OWN + (dnorm) },                           \
              { DSF_NORM_DRES, DSF_OWN + (dres) })
#define DSF_NORM_WEIGHT(dnorm, grad)                                           \
    DSF_OTHER(norm_backward_weight, dsf_fill_norm, DSF_SHARED + (grad),        \
              { DSF_NORM_DNORM, DSF_OWN + (dnorm) },                           \
              { DSF_NORM_GRAD, DSF_SHARED + (grad) })
#define DSF_RESIDUAL_ROWS(x, y, unit)                                          \
    DSF_OTHER(residual_forward, dsf_fill_residual, DSF_SHARED + (unit),        \
              { DSF_RESIDUAL_X, DSF_OWN + (x) }, { DSF_RESIDUAL_IN, DSF_R },   \
              { DSF_RESIDUAL_Y, DSF_OWN + (y) },                               \
              { DSF_RESIDUAL_UNIT, DSF_SHARED + (unit) })
#define DSF_RESIDUAL_WEIGHT(dy, grad)                                          \
    DSF_OTHER(residual_backward_weight, dsf_fill_bias, DSF_SHARED + (grad),    \
              { DSF_RESIDUAL_DY, DSF_OWN + (dy) },                             \
              { DSF_RESIDUAL_GRAD, DSF_SHARED + (grad) })

uint32_t dsf_fill_norm(int32_t parts, int32_t t, const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole,
                       void *args);
uint32_t dsf_fill_norm_add(int32_t parts, int32_t t,
                           const struct dsf_part *part,
                           const struct dsf_part *shared, const void *whole,
                           void *args);
uint32_t dsf_fill_residual(int32_t parts, int32_t t,
                           const struct dsf_part *part,
                           const struct dsf_part *shared, const void *whole,
                           void *args);
uint32_t dsf_fill_bias(int32_t parts, int32_t t, const struct dsf_part *part,
                       const struct dsf_part *shared, const void *whole,
                       void *args);

/* The part's shape, and all rows. */
struct dsflow_tile dsf_part_tile(int32_t parts, int32_t t,
                                 const struct dsflow_tile *whole);

/* NULL: such a task has no rule. */
const struct dsf_op_rules *dsf_rules_find(const struct dsflow_op *op);

/* How the data on a port of a task that has rules is cut. */
enum dsf_cut dsf_rules_cut(const struct dsflow_op *op, unsigned port);

#endif
