/* metrics.h - metrics.jsonl: what a run says of its steps, for programs and
 * for `dsflow watch`. */
#ifndef DSF_TRAIN_METRICS_H
#define DSF_TRAIN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

#include "graph/traffic.h"
#include "sim/weights.h"
#include "timeline/shares.h"

/* What was moved in a step. */
enum dsf_move {
    DSF_MOVE_GATHER,
    DSF_MOVE_REDUCE,
    DSF_MOVE_SEND,
    DSF_MOVE_SWAP_IN,
    DSF_MOVE_SWAP_OUT,
    DSF_NMOVES
};

/* Their names in metrics.jsonl. */
extern const char *const dsf_share_names[DSF_NSHARES];

/* One step, as it is reported. A number that is not known is NAN. */
struct dsf_step {
    int64_t step; /* from 1 */
    char program[64]; /* that ran, where it is not `step`; else "" */
    double loss;  /* mean over the tokens of the step */
    double lr, grad_norm, seconds;
    double loss_scale; /* 1 in fp32 */
    bool skipped;      /* loss or norm is not finite: nothing was updated */
    int64_t overflows; /* so far: the loss scale was too large; -1: losses are
                          not scaled */
    int64_t tokens;
    int64_t peak_bytes; /* memory of the process */
    int64_t device_bytes, nvme_bytes; /* of all ranks, that hold something */
    double io_seconds;  /* during which a disk reads or writes */
    double io_hidden;   /* share of it during which some worker computes */
    double sent_seconds; /* of all messages between processes */
    double sent_hidden;  /* share of it during which the process that one is for
                            computes */
    double unsent[DSF_NWIRES]; /* bytes of the plan's traffic between processes
                                  that did not go: rows that no token touched
                                  (add_rows) */
    double efficiency;  /* lower bound of the step / its time */
    double mfu;         /* of what its GPUs are built for: mfu.h */
    double share[DSF_NSHARES]; /* of workers x seconds; sum 1 */
    int64_t moved[DSF_NMOVES]; /* bytes */
    const struct dsf_weights *weights; /* between which ranks; NULL: as of a
                                          line that was read */
};

struct dsf_validation {
    int64_t step;
    double loss, per_byte, perplexity;
};

enum dsf_end { DSF_FINISHED, DSF_STOPPED, DSF_FAILED };

/* The file, open for lines to be added, and locked: while a run has it open
 * no other run can, and who reads it sees that the run lives. */
struct dsf_metrics {
    int fd; /* -1: closed */
    char *path;
    bool broken; /* ends with half a line: there will be no more */
    int64_t validated; /* the last step with a validation, where it begins */
};

/* DSFLOW_EINVAL when another run has it. */
int dsf_metrics_open(struct dsf_metrics *m, const char *path,
                     struct dsflow_err *err);
void dsf_metrics_close(struct dsf_metrics *m);
bool dsf_metrics_is_empty(const struct dsf_metrics *m);

/* Cut off the lines of steps past `done`, how the run ended before, and a line
 * that a crash of the machine left incomplete. A damaged line before them
 * stays, with a warning. */
int dsf_metrics_begin(struct dsf_metrics *m, int64_t done,
                      struct dsflow_err *err);

/* Add a line, in one write: a process that is killed leaves whole lines. */
int dsf_metrics_step(struct dsf_metrics *m, const struct dsf_step *step,
                     struct dsflow_err *err);
int dsf_metrics_validation(struct dsf_metrics *m,
                           const struct dsf_validation *v,
                           struct dsflow_err *err);
/* The run goes on after step `step`, having failed: the restart number `n`. */
int dsf_metrics_restart(struct dsf_metrics *m, int64_t step, int64_t n,
                        const char *why, struct dsflow_err *err);
/* The last line; `why` (of a failure) may be NULL. */
int dsf_metrics_end(struct dsf_metrics *m, int64_t step, enum dsf_end end,
                    const char *why, struct dsflow_err *err);

/* A line that was read. */
struct dsf_line {
    enum { DSF_LINE_STEP, DSF_LINE_VALIDATION, DSF_LINE_END } kind;
    union {
        struct dsf_step step;
        struct dsf_validation validation;
        struct {
            enum dsf_end end;
            char why[512];
        } end;
    };
};

/* false: not a line of these. */
bool dsf_metrics_parse(const char *text, size_t n, struct dsf_line *line);

/* Does a run have the file open? -1: the file system cannot say. */
int dsf_metrics_is_open(int fd);

#endif
