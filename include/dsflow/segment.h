/* segment.h - a segment of the model, described once: its parameters, its
 * tasks, what their ports are connected to, what recompute drops, and how it is
 * cut among tensor ranks. Training on any mesh, generation, checkpoints, the
 * simulator and `dsflow codelet check` follow from the description.
 *
 * A plug-in brings a segment of its own, and a job says where it stands:
 *
 *   [model]
 *   segments = ["qkv", "attention", "out", "gated_norm", "mlp"]
 *
 * Or it brings kinds of task that take the place of those of a built-in one
 * (`replaces`). segments.h has what is built in, which is described likewise.
 */
#ifndef DSFLOW_SEGMENT_H
#define DSFLOW_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/codelet.h>
#include <dsflow/op.h>
#include <dsflow/segments.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_SEGMENT_ABI 6

enum {
    DSFLOW_SEGMENT_TENSORS = 12, /* of a unit, at most */
    DSFLOW_SEGMENT_UNITS = 2,
    DSFLOW_SEGMENT_ARGS = 192, /* bytes of arguments */
};

/* What a port is connected to, in the graph of one rank.
 *
 * The *stream* is what goes from segment to segment: rows of `width` numbers,
 * embedded tokens at first. A segment that has an OUT port leaves a new stream
 * for those that follow it. */
enum dsflow_from {
    DSFLOW_FROM_NOTHING,    /* whole segments leave it out */
    DSFLOW_FROM_PARAMETERS, /* unit `unit` of the segment */
    DSFLOW_FROM_GRADIENTS,  /* of that unit */
    DSFLOW_FROM_IN,         /* the stream before */
    DSFLOW_FROM_OUT,        /* the stream after */
    DSFLOW_FROM_DIN,        /* the gradient of the stream before */
    DSFLOW_FROM_DOUT,       /* the gradient of the stream after */
    DSFLOW_FROM_KEPT,       /* its own, from the forward to the backward pass */
    DSFLOW_FROM_PASSING,    /* its own, in the backward pass of the layer */
    DSFLOW_FROM_BRIEF,      /* the same, gone before the next layer */
    DSFLOW_FROM_OTHER,      /* port `unit` of the segment `other` of the layer */
    DSFLOW_FROM_ROPE,       /* the table of rotations, if the model rotates */
    DSFLOW_FROM_BATCH,      /* tokens and targets of the tile */
    DSFLOW_FROM_LOGITS,     /* its own, in the ring of logits */
    DSFLOW_FROM_LOSS,       /* of the tile */
    DSFLOW_FROM_CONTROL,    /* of the step, where losses are scaled */
    DSFLOW_FROM_LAYOUT,     /* of the attention of the layer, if it has one */
    DSFLOW_NFROMS
};

/* How a piece of data is cut among T tensor ranks. */
enum dsflow_cut {
    DSFLOW_CUT_UNKNOWN,
    DSFLOW_CUT_ONE,     /* it is not: they all use the same */
    DSFLOW_CUT_EVERY,   /* each has one of the same size */
    DSFLOW_CUT_ROWS,    /* each has some rows of `width` numbers */
    DSFLOW_CUT_COLUMNS, /* each has 1/T of every row: heads, feed-forward */
    DSFLOW_CUT_KV,      /* … or the columns of the one head that it shares */
    DSFLOW_CUT_VOCAB,   /* each has the columns of its words */
    DSFLOW_CUT_UNIT,    /* in parts, with a part that they share */
    DSFLOW_CUT_BLOCKS,  /* squares of a unit: as many as the part has blocks */
    DSFLOW_NCUTS
};

/* When recompute drops what a forward task leaves, and computes it again. */
enum dsflow_dropped {
    DSFLOW_DROPPED_NEVER,
    DSFLOW_DROPPED_WITH_ATTENTION, /* what = "attention", and … */
    DSFLOW_DROPPED_WITH_BLOCK,     /* … "block" */
};

struct dsflow_segment_port {
    const char *name; /* "h": of the port, and of the data made for it (OUT,
                         DOUT, KEPT, PASSING, BRIEF): no other data of the layer
                         has it, nor the stream, "x" and "dx" */
    uint8_t from;     /* enum dsflow_from */
    uint8_t unit;
    uint8_t cut;        /* enum dsflow_cut: among tensor ranks. With `rules`:
                           DSFLOW_CUT_ROWS of streams, DSFLOW_CUT_UNIT of
                           parameters and their gradients, and one of them of
                           all others (what has a row a token: _ROWS) */
    uint8_t of_keys;    /* 1: of the keys of attention: of their tile, where a
                           task pairs it with that of the queries; generation
                           keeps them for all tokens */
    uint8_t dropped;    /* enum dsflow_dropped: of what forward writes, kept
                           data and the stream after. What the next layer reads
                           stays all the same; no bit depends on it, only how
                           much memory recompute saves */
    const char *other;  /* DSFLOW_FROM_OTHER: "qkv" */
};

/* The layer whose tensors are asked for. */
struct dsflow_layout {
    struct dsflow_tile sizes; /* but for rows, nseq and pos */
    int32_t layer, layers;    /* -1: that of the embedding */
    int32_t llama;            /* 0: GPT-2 */
    int32_t tied, qkv_bias, out_bias, mlp_bias;
};

/* What the rules for rows (below) have to know of a tensor. */
enum dsflow_tensor_role {
    DSFLOW_TENSOR,
    DSFLOW_TENSOR_NORM_W, /* of the norm in front of the segment, */
    DSFLOW_TENSOR_NORM_B, /* LayerNorm; a norm without it is RMSNorm */
    DSFLOW_TENSOR_BIAS, /* added to what leaves it */
};

/* A tensor of a unit. */
struct dsflow_tensor_spec {
    const char *name;   /* "gate.weight": behind "transformer.h.3." or
                           "model.layers.3.", in files. Letters, digits, '.', '_'
                           and '-'; no other tensor of the layer has it */
    int64_t rows, cols; /* rows = 0: a vector of `cols` numbers */
    float value, std;   /* it begins as `value`, or as normal numbers of this
                           deviation around it */
    uint8_t cut; /* among tensor ranks: DSFLOW_CUT_ROWS, each has some rows (of
                    a vector, numbers); DSFLOW_CUT_COLUMNS; 0: they share it */
    uint8_t role; /* enum dsflow_tensor_role */
};

/* A task that is to be made: its arguments follow from this. */
struct dsf_attention_layout; /* dsflow's own */
struct dsflow_site {
    struct dsflow_tile tile;
    /* Where the tensors of each unit begin, in elements; -1: there is none, or
     * it is not in this part. */
    const int64_t *at[DSFLOW_SEGMENT_UNITS];
    int32_t parts;  /* it is for one of so many; 1: it is whole */
    double tokens;  /* of a step; 0: of a part */
    /* Of attention: the rows of keys; are they of the tile itself (and of those
     * in front of it), the first that the queries see? Are the queries of the
     * last tile that sees them? */
    int32_t keys;
    bool diagonal, first_keys, last_queries;
    int32_t key_pos; /* of the first of them in its sequence */
    /* Where the keys of several tiles stand together: the rows of each but the
     * last, those of all, and where those of `tile` begin. 0: they do not. */
    int32_t key_tile, kv_rows, kv_at;
    int32_t window;  /* tokens that a token sees, itself included; 0: all
                        before it */
    const struct dsf_attention_layout *layout; /* blocks that its heads see;
                                                  NULL: all of them */
    int32_t head; /* of the layout: the first one of the tile */
    int32_t padding; /* rows of tile.vocab, at its end, that are no words */
    int32_t columns; /* of the vocabulary, that the head takes at a time; 0: all
                      */
};

/* What becomes of a kind of task among tensor ranks (Shoeybi et al. 2019;
 * Korthikanti et al. 2022): a list of rules.
 *
 * Between the segments a rank has its rows of the tile. Before a product with
 * its columns of a matrix, the normed rows of all are gathered; after one with
 * its rows, the partial products are summed, each rank receiving its own rows.
 * The backward pass does the same with gradients, and gathers the normed rows
 * once more for those of the weights, so that they are not kept.
 *
 * A port of a new task refers to what the tensor rank has on port
 * DSFLOW_REF_OWN + p of the task it comes from; to DSFLOW_REF_SHARED + p, the
 * shared part of the unit there (of a gradient, what this rank adds to it); or
 * to a buffer that passes by. 0: the new task leaves the port out. */
enum {
    DSFLOW_LEFT_OUT,
    DSFLOW_REF_OWN = 1,
    DSFLOW_REF_SHARED = DSFLOW_REF_OWN + 32,
    DSFLOW_REF_XN = DSFLOW_REF_SHARED + 32, /* own rows, normed */
    DSFLOW_REF_X,     /* all rows, normed */
    DSFLOW_REF_Y,     /* a partial product, all rows */
    DSFLOW_REF_D,     /* all rows of a gradient */
    DSFLOW_REF_R,     /* own rows of a sum of products */
    DSFLOW_REF_STATS, /* what the head says of its part … */
    DSFLOW_REF_ALL,   /* … and what all parts say */
    DSFLOW_REF_TOPS,
    DSFLOW_REF_END,
    DSFLOW_NTEMPS = DSFLOW_REF_END - DSFLOW_REF_XN,
};

enum dsflow_rule_kind {
    DSFLOW_RULE_END,
    DSFLOW_RULE_ROWS,    /* the same task on each rank's rows, with the shared
                            part of units: what is not said in `ports` is on the
                            same port */
    DSFLOW_RULE_PART,    /* the same task on each rank's part: what is not said
                            is on the same port, its own part */
    DSFLOW_RULE_OTHER,   /* `op` on each: it has only what is said */
    DSFLOW_RULE_NORM,    /* norm.forward (segments.h) on each rank's rows, */
    DSFLOW_RULE_NORM_BACK,
    DSFLOW_RULE_NORM_BACK_ADD, /* with what is added to it */
    DSFLOW_RULE_NORM_WEIGHT,
    DSFLOW_RULE_RESIDUAL, /* and residual.forward */
    DSFLOW_RULE_RESIDUAL_WEIGHT,
    DSFLOW_RULE_GATHER,  /* to `to`, on every rank, from `from` of all */
    DSFLOW_RULE_SCATTER, /* to `to`: own rows of the sum of `from` of all */
};

struct dsf_part; /* dsflow's own, as what follows */
typedef uint32_t (*dsf_part_fill_fn)(int32_t parts, int32_t t,
                                     const struct dsf_part *part,
                                     const struct dsf_part *shared,
                                     const void *whole, void *args);

struct dsflow_connection {
    uint8_t port, ref;
};

struct dsflow_rule {
    enum dsflow_rule_kind kind;
    const struct dsflow_op *op; /* DSFLOW_RULE_OTHER */
    dsf_part_fill_fn fill; /* of built-in ones; NULL: the segment's `fill`, with
                              the tile and the places of tensors of the part */
    uint8_t unit; /* DSFLOW_REF_OWN or DSFLOW_REF_SHARED + port: the part that
                     this is about; 0: of none */
    uint8_t from, to;
    uint8_t nports;
    struct dsflow_connection ports[8];
};

struct dsflow_op_rules {
    const struct dsflow_op *op;
    struct dsflow_rule rules[7]; /* ends with DSFLOW_RULE_END */
};

#define DSFLOW_CONNECT(...)                                                    \
    .nports = sizeof((struct dsflow_connection[]){ __VA_ARGS__ }) /            \
              sizeof(struct dsflow_connection),                                \
    .ports = { __VA_ARGS__ }
#define DSFLOW_RULE(what, of, ...)                                             \
    { .kind = DSFLOW_RULE_##what, .unit = of, DSFLOW_CONNECT(__VA_ARGS__) }

/* The task as it is, on rows; `port` is that of the unit, or of its gradient.
 * Each rank adds the gradients of its rows, and the sums of all are added then:
 * with mesh.tensor > 1 their last bits are others. A task without parameters
 * has the rule { .kind = DSFLOW_RULE_ROWS }. */
#define DSFLOW_ON_ROWS(port)                                                   \
    { .kind = DSFLOW_RULE_ROWS, .unit = DSFLOW_REF_SHARED + (port) }
#define DSFLOW_GATHER(to_ref, from_ref)                                        \
    { .kind = DSFLOW_RULE_GATHER, .to = to_ref, .from = from_ref }
#define DSFLOW_SCATTER(to_ref, from_ref)                                       \
    { .kind = DSFLOW_RULE_SCATTER, .to = to_ref, .from = from_ref }

/* What is done once for all parts, on the rows of each rank: the norm of `x` by
 * the one in `unit`, to DSFLOW_REF_XN; its gradients, from DSFLOW_REF_R (`dres`:
 * what is added); those of its parameters; y = x + DSFLOW_REF_R and the bias in
 * `unit`; the gradient of that bias. All arguments are ports of the task; `unit`
 * and `grad`, of a unit with a shared part. */
#define DSFLOW_NORM_ROWS(x, unit)                                              \
    DSFLOW_RULE(NORM, DSFLOW_REF_SHARED + (unit),                              \
                { DSFLOW_NORM_X, DSFLOW_REF_OWN + (x) },                       \
                { DSFLOW_NORM_UNIT, DSFLOW_REF_SHARED + (unit) },              \
                { DSFLOW_NORM_Y, DSFLOW_REF_XN })
#define DSFLOW_NORM_BACK(x, unit, dx, dnorm)                                   \
    DSFLOW_RULE(NORM_BACK, DSFLOW_REF_SHARED + (unit),                         \
                { DSFLOW_NORM_X, DSFLOW_REF_OWN + (x) },                       \
                { DSFLOW_NORM_UNIT, DSFLOW_REF_SHARED + (unit) },              \
                { DSFLOW_NORM_DY, DSFLOW_REF_R },                              \
                { DSFLOW_NORM_DX, DSFLOW_REF_OWN + (dx) },                     \
                { DSFLOW_NORM_DNORM, DSFLOW_REF_OWN + (dnorm) })
#define DSFLOW_NORM_BACK_ADD(x, unit, dx, dnorm, dres)                         \
    DSFLOW_RULE(NORM_BACK_ADD, DSFLOW_REF_SHARED + (unit),                     \
                { DSFLOW_NORM_X, DSFLOW_REF_OWN + (x) },                       \
                { DSFLOW_NORM_UNIT, DSFLOW_REF_SHARED + (unit) },              \
                { DSFLOW_NORM_DY, DSFLOW_REF_R },                              \
                { DSFLOW_NORM_DX, DSFLOW_REF_OWN + (dx) },                     \
                { DSFLOW_NORM_DNORM, DSFLOW_REF_OWN + (dnorm) },               \
                { DSFLOW_NORM_DRES, DSFLOW_REF_OWN + (dres) })
#define DSFLOW_NORM_WEIGHT(dnorm, grad)                                        \
    DSFLOW_RULE(NORM_WEIGHT, DSFLOW_REF_SHARED + (grad),                       \
                { DSFLOW_NORM_DNORM, DSFLOW_REF_OWN + (dnorm) },               \
                { DSFLOW_NORM_GRAD, DSFLOW_REF_SHARED + (grad) })
#define DSFLOW_RESIDUAL_ROWS(x, y, unit)                                       \
    DSFLOW_RULE(RESIDUAL, DSFLOW_REF_SHARED + (unit),                          \
                { DSFLOW_RESIDUAL_X, DSFLOW_REF_OWN + (x) },                   \
                { DSFLOW_RESIDUAL_IN, DSFLOW_REF_R },                          \
                { DSFLOW_RESIDUAL_Y, DSFLOW_REF_OWN + (y) },                   \
                { DSFLOW_RESIDUAL_UNIT, DSFLOW_REF_SHARED + (unit) })
#define DSFLOW_RESIDUAL_WEIGHT(dy, grad)                                       \
    DSFLOW_RULE(RESIDUAL_WEIGHT, DSFLOW_REF_SHARED + (grad),                   \
                { DSFLOW_RESIDUAL_DY, DSFLOW_REF_OWN + (dy) },                 \
                { DSFLOW_RESIDUAL_GRAD, DSFLOW_REF_SHARED + (grad) })

struct dsf_segment_hooks; /* dsflow's own */

struct dsflow_segment {
    unsigned abi;        /* DSFLOW_SEGMENT_ABI */
    const char *name;    /* "gated_norm"; also of its unit. With `replaces`,
                            "mine": a value of model.<replaces> */
    const char *summary; /* one line, for `dsflow list segments` */

    /* "attention", …: its kinds of task take the place of those of this
     * built-in segment where the job says so, as in [model] attention = "mine".
     * Each has the ports (numbers, names, access) and the args_size of the one
     * it replaces, and leaves in them what segments.h says; what is NULL stays
     * as it is. It works on whole layers only, mesh.tensor is 1, and need not
     * have the ports that are for parts. A forward that computes something else
     * has a backward of its own. NULL: it is a segment of its own. */
    const char *replaces;

    /* NULL: there is no such task. */
    const struct dsflow_op *forward;
    const struct dsflow_op *hidden; /* what forward keeps, and nothing for those
                                       that follow: when it is computed again */
    const struct dsflow_op *backward_input;
    const struct dsflow_op *backward_weight;
    const struct dsflow_op *logits; /* of generation, in the place of forward */

    /* What follows describes a segment of its own. */
    unsigned nports;
    const struct dsflow_segment_port *ports; /* by the numbers of its ops */
    dsflow_needs_fn *needs;                  /* the shapes on them */

    /* Fill `list`, which is zeroed, with its tensors, matrices first; their
     * places in it are those in site->at[0]. NULL: it has no parameters. */
    void (*tensors)(const struct dsflow_layout *layout,
                    struct dsflow_tensor_spec list[DSFLOW_SEGMENT_TENSORS]);
    /* The arguments that all its tasks have, which begin with the tile; `args`
     * is zeroed. */
    void (*fill)(const struct dsflow_site *site, void *args);

    /* Of its ops; ends with a NULL op. NULL: it works on whole layers only. */
    const struct dsflow_op_rules *rules;

    bool pairs; /* a task for each tile of keys before the tile of queries, and
                   for its own; of built-in ones, for those that it sees */
    /* Ports that a task only writes although it is RW (bit i: port i), besides
     * gradients that have no contents yet; NULL: none. */
    uint32_t (*fresh)(const struct dsflow_op *op, const void *args);

    /* How its kinds of task are computed; ends with NULL. They are made known
     * with it, and so are those kinds. NULL: they are known already. */
    const struct dsflow_codelet *const *codelets;

    const struct dsf_segment_hooks *hooks; /* NULL: of built-in ones */
};

/* <pass>_op, a kind of task of a segment, and <pass>_codelet, which computes it
 * by the function <pass>. What follows is of the op: .args_size, .check, maybe
 * .cost, and DSFLOW_PORTS(…). */
#define DSFLOW_SEGMENT_TASK(of, pass, in, ...)                                 \
    static const struct dsflow_op pass##_op = {                                \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #of "." #pass,                                                 \
        .segment = #of,                                                        \
        .direction = DSFLOW_DIR_##in,                                          \
        .summary = #pass " of " #of,                                           \
        __VA_ARGS__                                                            \
    };                                                                         \
    static const struct dsflow_codelet pass##_codelet = {                      \
        .abi = DSFLOW_CODELET_ABI, .op = &pass##_op, .cpu = pass               \
    }

/* Make it known by its name, or by `replaces` and its name. It is borrowed for
 * good: make it static. */
DSFLOW_API int dsflow_segment_register(const struct dsflow_segment *segment,
                                       struct dsflow_err *err);
/* `replaces` is NULL: a segment of its own. */
DSFLOW_API const struct dsflow_segment *
dsflow_segment_find(const char *replaces, const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_segment *dsflow_segment_at(unsigned i);

DSFLOW_END_DECLS

#endif
