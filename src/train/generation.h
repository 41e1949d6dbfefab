/* generation.h - the graph by which text is made: the forward tasks of a
 * model's segments, with the keys and values of all earlier tokens as data that
 * is kept. docs/design/0009-generation.md says why it is so.
 *
 * It has two programs, `prefill` for up to dsf_generation.rows tokens, and
 * `decode` for one. Their tasks are made for the whole context; before each
 * submission they are told which tokens they are for. */
#ifndef DSF_TRAIN_GENERATION_H
#define DSF_TRAIN_GENERATION_H

#include <dsflow/graph.h>

#include "exec/exec_use.h"
#include "model/model.h"
#include "segments/slices.h"
#include "tasks/attention_layout.h"
#include "train/generation_types.h"

/* Workers that share a token at most: a join has as many ports. */
enum { DSF_MOST_PARTS = DSFLOW_SEGMENT_PORTS - 1 };

/* Of a layer with a window, keys and values stand in a ring of that length, the
 * one of token p at p mod window. New ones stand aside until their queries have
 * seen what they take the place of. Earlier keys are then two runs of rows, one
 * of which may be empty, and so are the places of the new ones. */
enum dsf_generation_ring {
    DSF_NO_RING,
    DSF_RING_OLDER, /* attention to the run before place 0, … */
    DSF_RING_NEWER, /* … and to that behind it; */
    DSF_RING_ASIDE, /* to new keys, beside the ring; */
    DSF_RING_PUT,   /* those go into the ring up to its last place, … */
    DSF_RING_REST,  /* … and from its first one on */
};

/* A task, and what it is about. */
struct dsf_generation_task {
    const struct dsflow_segment *segment;
    const struct dsf_slice *slice; /* NULL: the whole of the segment */
    const struct dsflow_op *op;    /* that runs; the segment's or slice's, */
    const struct dsflow_op *of;    /* which it may replace */
    int32_t layer, part;
    bool earlier; /* it pairs its rows with keys before them */
    uint8_t ring; /* enum dsf_generation_ring */
    bool casts;   /* it leaves rows of a port of the segment in the type of
                     other data: */
    uint8_t cast; /* of that one */
    unsigned n;   /* data */
    uint8_t port[DSFLOW_SEGMENT_PORTS]; /* of each of it */
    bool keys[DSFLOW_SEGMENT_PORTS];    /* is it of all tokens so far? */
    dsflow_data_id data[DSFLOW_SEGMENT_PORTS];

    struct dsf_exec_use use;
    struct dsf_exec_rows rows[DSFLOW_SEGMENT_PORTS];
    _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS];
};

/* Layouts of attention: for the sequences of training, and behind them for the
 * whole context. */
struct dsf_generation_layouts {
    struct dsf_attention_layout *v; /* [n] */
    dsflow_data_id *id;             /* [n] */
    int32_t n;
    int32_t *of; /* [layers]: which; -1: none. NULL: no layer has one */
};

struct dsf_generation {
    const struct dsf_model *model; /* borrowed, as the job */
    const struct dsf_job *job;     /* NULL: nothing is replaced */
    struct dsf_generation_types types;
    bool whole;                    /* segments are done whole, … */
    int32_t parts;                 /* … or by columns, by so many workers */
    int32_t rows;
    struct dsflow_graph *graph;
    dsflow_program prefill, decode;
    struct dsf_generation_task *tasks; /* by task of the graph: those of
                                          `prefill`, then of `decode` */
    uint32_t ntasks;
    size_t cap_tasks;
    size_t scratch; /* the most that a task was made for */
    bool sizing;    /* tasks are made: as large as they can be */
    bool exact;     /* they do not round the inputs of matrices; after init */

    dsflow_data_id
        *params; /* by unit; and the same memory once more, for tasks */
    dsflow_data_id *again; /* that have two ports for it */
    dsflow_data_id rope, batch, logits[DSF_MOST_PARTS];
    struct dsf_generation_layouts layouts;
    uint32_t aside[DSF_MOST_PARTS]; /* new keys of layers with a ring, + 1; 0:
                                       it is not made yet */
};

/* Into how many parts a token's work can be cut for `workers`, where heads and
 * widths divide; 0: into none, as a segment is not built in, or is replaced. */
int32_t dsf_generation_parts(const struct dsf_model *model,
                             const struct dsf_job *job, unsigned workers);

int dsf_generation_init(struct dsf_generation *g, const struct dsf_model *model,
                        const struct dsf_job *job, unsigned workers,
                        struct dsflow_err *err);
void dsf_generation_fini(struct dsf_generation *g);

/* The tasks of a program are for tokens pos .. pos+rows. Error: a plug-in's
 * kind of task refuses them. */
int dsf_generation_stand(struct dsf_generation *g, dsflow_program program,
                         int32_t pos, int32_t rows, struct dsflow_err *err);

/* The shape of a port of a segment of layer `l`, for `rows` tokens. */
struct dsflow_need dsf_generation_need(const struct dsf_model *model, int32_t l,
                                       const struct dsflow_segment *segment,
                                       unsigned port, int32_t rows);

/* generation_graph.c: the data, and the tasks of one program, without their
 * arguments. */
void dsf_generation_build(struct dsf_generation *g);

/* generation_layouts.c: make those of the job, free them, that of layer `l`
 * (NULL: none), and the contents of their data. */
int dsf_generation_make_layouts(struct dsf_generation *g,
                                struct dsflow_err *err);
void dsf_generation_free_layouts(struct dsf_generation *g);
const struct dsf_attention_layout *
dsf_generation_layout(const struct dsf_generation *g, int32_t l);
void dsf_generation_fill_layouts(const struct dsf_generation *g,
                                 struct dsflow_exec *exec);
/* Its data; no data where the layer has none. */
dsflow_data_id dsf_generation_layout_id(const struct dsf_generation *g,
                                        int32_t l);

/* Tokens whose keys layer `l` keeps: those of its window, or all. */
int32_t dsf_generation_keys(const struct dsf_model *model, int32_t l);
/* Are they in a ring? */
bool dsf_generation_has_ring(const struct dsf_model *model, int32_t l);

/* Bytes of the keys and values that are kept. */
double dsf_generation_bytes(const struct dsf_model *model,
                            const struct dsf_job *job);

#endif
