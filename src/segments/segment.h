/* segment.h - a segment of the model, described once: its parameters, its
 * tasks, what their ports are connected to, what recompute drops, and how it is
 * cut among tensor ranks. The policies and generation read these descriptions
 * and know no segment by name; segment_table.c has the list.
 */
#ifndef DSF_SEGMENTS_SEGMENT_H
#define DSF_SEGMENTS_SEGMENT_H

#include "segments/rules.h"
#include "segments/unit.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* What a port of a segment is connected to, in the graph of one rank.
 *
 * The *stream* is what goes from segment to segment: rows of `width` numbers,
 * embedded tokens at first. A segment that has an OUT port leaves a new stream
 * for those that follow it. */
enum dsf_from {
    DSF_FROM_NOTHING,    /* whole segments leave it out */
    DSF_FROM_PARAMETERS, /* unit `unit` of the segment */
    DSF_FROM_GRADIENTS,  /* of that unit */
    DSF_FROM_IN,         /* the stream before */
    DSF_FROM_OUT,        /* the stream after */
    DSF_FROM_DIN,        /* the gradient of the stream before */
    DSF_FROM_DOUT,       /* the gradient of the stream after */
    DSF_FROM_KEPT,       /* its own, from the forward to the backward pass */
    DSF_FROM_PASSING,    /* its own, in the backward pass of the layer */
    DSF_FROM_BRIEF,      /* the same, gone before the next layer */
    DSF_FROM_OTHER,      /* port `unit` of the segment `other` of the layer */
    DSF_FROM_ROPE,       /* the table of rotations, if the model rotates */
    DSF_FROM_BATCH,      /* tokens and targets of the tile */
    DSF_FROM_LOGITS,     /* its own, in the ring of logits */
    DSF_FROM_LOSS,       /* of the tile */
};

/* When recompute drops what a forward task leaves, and computes it again. */
enum dsf_dropped {
    DSF_DROPPED_NEVER,
    DSF_DROPPED_WITH_ATTENTION, /* what = "attention", and … */
    DSF_DROPPED_WITH_BLOCK,     /* … "block" */
};

struct dsf_port {
    const char *name; /* "h": of the port, and of the data that is made for it */
    uint8_t from;     /* enum dsf_from */
    uint8_t unit;
    uint8_t cut;        /* enum dsf_cut: among tensor ranks */
    uint8_t of_keys;    /* 1: of the keys of attention: of their tile, where a
                           task pairs it with that of the queries; generation
                           keeps them for all tokens */
    uint8_t dropped; /* enum dsf_dropped */
    const struct dsf_segment *other;
};

/* A task that is to be made: its arguments follow from this. */
struct dsf_site {
    struct dsflow_tile tile;
    const struct dsf_unit *const *units; /* of the segment */
    double tokens;                       /* of a step */
    /* Of attention: the rows of keys; are they of the tile itself, of the first
     * tile of the sequence? Is the tile of queries its last? */
    int32_t keys;
    bool diagonal, first_keys, last_queries;
};

enum { DSF_MAX_UNITS = 2, DSF_MAX_ARGS = 192 };

struct dsf_segment {
    const char *name; /* "mlp" */
    const char *units[DSF_MAX_UNITS + 1]; /* names of its units; the first,
                                             without "layer3.", is the
                                             segment's own */
    unsigned nports;
    const struct dsf_port *ports; /* [nports], by the numbers of its ops */
    dsf_needs_fn *needs;          /* the shapes on them */

    /* NULL: there is no such task. `hidden` leaves what the forward pass keeps
     * and nothing for the segments that follow. */
    const struct dsflow_op *forward, *hidden, *backward_input, *backward_weight;
    const struct dsflow_op *logits; /* of generation, in the place of forward */
    bool pairs; /* a task for each tile of keys that the tile of queries sees */

    /* Lay out unit `i` of a layer; false: the model has no such unit, and uses
     * that of the embedding. */
    bool (*lay_out)(const struct dsf_layout *layout, unsigned i,
                    struct dsf_unit *unit);
    /* The arguments that all its tasks have; `args` is zeroed. */
    void (*fill)(const struct dsf_site *site, void *args);
    /* Ports that a task only writes although it is RW (bit i: port i), besides
     * gradients that have no contents yet; NULL: none. */
    uint32_t (*fresh)(const struct dsflow_op *op, const void *args);

    /* What tensor rank p->part has of unit `i`, and what all share of it. NULL:
     * nothing. */
    void (*own)(struct dsf_part *p, const struct dsf_dims *dims,
                const struct dsf_unit *unit);
    void (*share)(struct dsf_part *p, const struct dsf_dims *dims,
                  const struct dsf_unit *unit);
    const struct dsf_op_rules *rules; /* of its ops; ends with a NULL op */
};

/* Where tensors stand in a unit: places in dsf_unit.at. */
enum { DSF_EMBED_WTE, DSF_EMBED_WPE };
enum { DSF_QKV_W, DSF_QKV_B, DSF_QKV_NORM_W, DSF_QKV_NORM_B };
enum { DSF_OUT_W, DSF_OUT_B };
enum {
    DSF_MLP_W1,
    DSF_MLP_B1,
    DSF_MLP_W2,
    DSF_MLP_B2,
    DSF_MLP_NORM_W,
    DSF_MLP_NORM_B
};
/* The units of the head: its norm, and its matrix, which is the first tensor of
 * the embedding where that is tied. */
enum { DSF_HEAD_UNIT_NORM, DSF_HEAD_UNIT_W };
enum { DSF_HEAD_W = 0, DSF_HEAD_NORM_W = 0, DSF_HEAD_NORM_B = 1 };

extern const struct dsf_segment dsf_segment_embed, dsf_segment_qkv,
    dsf_segment_attention, dsf_segment_out, dsf_segment_mlp, dsf_segment_head;

/* All of them, in the order they are listed; ends with NULL. */
extern const struct dsf_segment *const dsf_segment_list[];

/* The segments of a layer, in order; ends with NULL. Layer -1 has the
 * embedding, the last the head. */
const struct dsf_segment *const *dsf_layer_segments(int32_t layer,
                                                    int32_t layers);

/* The segment that a built-in kind of task is of; NULL: of none. */
const struct dsf_segment *dsf_segment_of_op(const struct dsflow_op *op);

/* The shape of the data on port `port` of the tile of `site`. */
struct dsf_need dsf_segment_need(const struct dsf_segment *segment,
                                 const struct dsf_site *site, unsigned port);

#endif
