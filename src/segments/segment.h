/* segment.h - the segments there are (dsflow/segment.h describes one), and
 * which ones a layer has. The policies and generation read the descriptions and
 * know no segment by name.
 */
#ifndef DSF_SEGMENTS_SEGMENT_H
#define DSF_SEGMENTS_SEGMENT_H

#include <dsflow/segment.h>

#include "base/registry.h"
#include "segments/rules.h"
#include "segments/unit.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

enum { DSF_MAX_SEGMENTS = 64 };

/* What built-in segments have instead of a list of tensors. */
struct dsf_segment_hooks {
    const char *units[DSFLOW_SEGMENT_UNITS + 1]; /* names of its units, of which
                                                    the first is its own */
    /* Lay out unit `i` of a layer; false: the model has no such unit, and uses
     * that of the embedding. */
    bool (*lay_out)(const struct dsflow_layout *layout, unsigned i,
                    struct dsf_unit *unit);
    /* What tensor rank p->part has of a unit, and what all share of it. NULL:
     * nothing. */
    void (*own)(struct dsf_part *p, const struct dsf_dims *dims,
                const struct dsf_unit *unit);
    void (*share)(struct dsf_part *p, const struct dsf_dims *dims,
                  const struct dsf_unit *unit);
    const char *next; /* it stands in front of this one, without which it would
                         get no gradients */
    bool of_model;    /* it is in front of the layers, or behind them */
    /* In the place of forward, and of both backward tasks, where the site says
     * how many columns of the vocabulary there are at a time: in one, or in
     * one each. NULL: none are. */
    const struct dsflow_op *forward_columns, *backward_columns;
    const struct dsflow_op *input_columns, *weight_columns;
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

/* dsf_segment_<name>, whose ports, fill, rules and hooks are those of its file:
 * what is not said here. */
#define DSF_SEGMENT(name_, NAME, ...)                                          \
    const struct dsflow_segment dsf_segment_##name_ = {                        \
        .abi = DSFLOW_SEGMENT_ABI, .name = #name_,                             \
        .nports = DSFLOW_##NAME##_NPORTS, .ports = ports,                      \
        .needs = dsf_##name_##_needs, .forward = &dsf_op_##name_##_forward,    \
        .fill = fill, .rules = rules, .hooks = &hooks, __VA_ARGS__             \
    }

extern const struct dsflow_segment dsf_segment_embed, dsf_segment_qkv,
    dsf_segment_attention, dsf_segment_out, dsf_segment_mlp, dsf_segment_head;

/* All of them, and what takes the place of one (`replaces`). */
extern struct dsf_registry dsf_segments;

/* The i-th that takes the place of none; NULL past the last. */
const struct dsflow_segment *dsf_segment_at(unsigned i);
/* Which of those it is. */
unsigned dsf_segment_number(const struct dsflow_segment *segment);

/* The segments of the layers of a job, in order; ends with NULL, and is freed
 * by the caller. NULL: the error is of the job's file. */
const struct dsflow_segment **dsf_job_segments(const struct dsf_job *job,
                                               struct dsflow_err *err);

/* What they are unless the job says so, as text. */
#define DSF_USUAL_SEGMENTS "qkv, attention, out, mlp"

/* The kinds of task of a segment, by position; NULL: it has no such one. */
enum { DSF_SEGMENT_OPS = 5 };
const struct dsflow_op *dsf_segment_op(const struct dsflow_segment *segment,
                                       unsigned i);

/* The segment that a kind of task is of; NULL: of none, or of one that takes
 * the place of another. */
const struct dsflow_segment *dsf_segment_of_op(const struct dsflow_op *op);

/* The name of its i-th unit, without "layer3."; NULL past the last. */
const char *dsf_segment_unit(const struct dsflow_segment *segment, unsigned i);

/* The shapes of the data on the ports of a forward task at `site`, which are
 * all 0 before. An error: the segment refuses such a tile. */
int dsf_segment_needs(const struct dsflow_segment *segment,
                      const struct dsflow_site *site, struct dsflow_need *need,
                      struct dsflow_err *err);

/* The same of port `port`, in a model that was accepted. */
struct dsflow_need dsf_segment_need(const struct dsflow_segment *segment,
                                    const struct dsflow_site *site,
                                    unsigned port);

/* replaced.c: the segments that can be replaced: "embed", …; NULL past the
 * last.
 */
const char *dsf_segment_name(unsigned i);

/* What the job names for `replaces`: "builtin", "mine". */
const char *dsf_job_replacing(const struct dsf_job *job, const char *replaces);
/* The segment of that name; NULL, with the place in `err`, where there
 * is no such component or other keys do not go with it. */
const struct dsflow_segment *dsf_job_segment(const struct dsf_job *job,
                                             const char *replaces,
                                             struct dsflow_err *err);
int dsf_job_check_segments(const struct dsf_job *job, struct dsflow_err *err);

/* What takes the place of `op` in this job: `op` itself where nothing does, or
 * there is no job. */
const struct dsflow_op *dsf_job_op(const struct dsf_job *job,
                                   const struct dsflow_op *op);

/* Can `segment` take the place of the one it names? */
int dsf_segment_check_replaces(const struct dsflow_segment *segment,
                               struct dsflow_err *err);

/* segment_check.c: is the description of a segment whole? */
int dsf_segment_check(const struct dsflow_segment *segment,
                      struct dsflow_err *err);

#endif
