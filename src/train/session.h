/* session.h - from a job.toml to a model that runs, in stages: a command goes
 * as far as it needs. */
#ifndef DSF_TRAIN_SESSION_H
#define DSF_TRAIN_SESSION_H

#include <dsflow/exec.h>

#include "checkpoint/checkpoint.h"
#include "graph/part.h"
#include "net/wire.h"
#include "policies/processes.h"
#include "sim/plan_report.h"
#include "config/job.h"
#include "machine/machine.h"
#include "model/model.h"
#include "plan/plan.h"
#include "text/text.h"
#include "tune/fit.h"
#include "train/contents.h"
#include "train/exact_inputs.h"
#include "train/hosts.h"
#include "train/same_folder.h"
#include "train/writes.h"

/* What the process that has the run of several has heard of the others, where
 * it has not the graph of all ranks (heard.h). */
struct dsf_heard {
    uint64_t *out, *in; /* [processes][processes]: hashes of their messages */
    double sent;        /* bytes of those of a step */
};

/* What model.init names: another run, or a Hugging Face folder. */
struct dsf_origin {
    char *path; /* the checkpoint of another run; NULL: it names none … */
    struct dsf_ckpt_fields of; /* … and what that is of */
    bool lost; /* it is not there any more, or another one: sizes are those that
                  the run has kept (kept.h) */
};

/* What one of several processes has of the run that they have together. */
struct dsf_together {
    struct dsf_wire *wire;         /* to the others; NULL: there are none */
    const struct dsf_hosts *hosts; /* of these; borrowed, or NULL */
    struct dsf_graph_part part;    /* of the graph, that is this one's */
    bool alone;     /* the graph has what this one's ranks need, and no others:
                       that of all would be too large … */
    uint64_t plain; /* … and the hash of the plain step that it was made of */
    struct dsf_heard heard;
    bool ordered;                  /* the others have been told what to open */
    bool direct;                   /* messages go from GPU to GPU */
    struct dsf_same_folder folder; /* until they have looked */
};

struct dsf_session {
    const struct dsf_job *job; /* its own */
    struct dsf_tokenizer *tok;
    struct dsf_model model;
    struct dsf_machine machine;
    const struct dsflow_batches *own; /* in place of the text; borrowed, or NULL */
    struct dsf_corpus *corpus;
    struct dsf_corpus_info text;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsf_weights *weights; /* of the graph: dsf_session_weights */
    struct dsflow_exec *exec;
    struct dsf_contents contents; /* after open */
    struct dsf_contents mine; /* what this process has of them; alone, all */
    struct dsf_contents had;  /* places only: what is kept, of a graph that has
                                 been forgotten */
    struct dsf_origin origin;
    char *why;         /* what was chosen for sizes that are auto; or NULL */
    int64_t first;     /* number in the text of the first sequence of step 0:
                          not 0 where a run went on with another job */
    struct dsf_exact_inputs exact_inputs; /* of this process, after open */
    bool unprepared;   /* parameters have been written since `prepare` ran */
    struct dsf_together together;
    bool edited;       /* a program has written tensors: a step may have other
                          bytes than the same step of the run without it */
};

/* The job, its tokenizer and its model. `path` is a job.toml, or the folder of
 * a run, whose job.toml is then read, with `nsets` overrides "table.key=value".
 */
int dsf_session_model(struct dsf_session *s, const char *path,
                      const char *const *sets, unsigned nsets,
                      struct dsflow_err *err);

/* The same of the text of a job, and with tokens of the caller's (NULL: none),
 * borrowed; `path` is for messages. */
int dsf_session_parse(struct dsf_session *s, const char *text, const char *path,
                      const char *const *sets, unsigned nsets,
                      const struct dsflow_batches *own, struct dsflow_err *err);

/* The same of a text that dsf_job_write wrote, of the job at `path`. */
int dsf_session_parse_written(struct dsf_session *s, const char *text,
                              const char *path, struct dsflow_err *err);

/* Go on with another job: that of the session with `nsets` settings in it, with
 * a key that is a text and follows from the rest, or `job`, which is from the
 * heap and then of the session. Before the plan, which borrows the job. */
int dsf_session_set(struct dsf_session *s, enum dsf_said said,
                    const char *const *sets, unsigned nsets,
                    struct dsflow_err *err);
int dsf_session_set_text(struct dsf_session *s, const char *key,
                         const char *value, struct dsflow_err *err);
void dsf_session_take_job(struct dsf_session *s, struct dsf_job *job);

/* What the session plans, for src/tune: a view of it, with its plan and graph.
 */
struct dsf_setup dsf_session_setup(struct dsf_session *s);

/* The plan and the graph on machine `m`, as dsf_fit has it. */
int dsf_session_fit(struct dsf_session *s, const struct dsf_machine_model *m,
                    const char *until, struct dsflow_err *err);

/* The plan and the graph. After dsf_early_check, which finds the machine. */
int dsf_session_plan(struct dsf_session *s, struct dsflow_err *err);

/* How the ranks of its plan are shared out to the processes of a wire. */
struct dsf_processes dsf_session_processes(const struct dsf_session *s,
                                           const struct dsf_wire *wire);

/* Is the graph of all ranks larger than the process that has the run of several
 * is to keep (run.whole)? Of a job with nothing to choose in it. */
bool dsf_session_is_large(const struct dsf_session *s);

/* The plan, and of the graph what process `wire->process` needs, one of several
 * (s->alone), for its part and for its messages with others. Of a job with
 * nothing to choose in it, on the session's machine. */
int dsf_session_plan_alone(struct dsf_session *s, const struct dsf_wire *wire,
                           struct dsflow_err *err);

/* The part of this process, of such a graph or of the whole one, which stays. */
int dsf_session_part(struct dsf_session *s, const struct dsf_wire *wire,
                     struct dsflow_err *err);

/* What its ranks weigh by the graph: dsf_weights_fini. */
void dsf_session_weigh_own(const struct dsf_session *s,
                           const struct dsf_wire *wire, struct dsf_weights *w);

/* The text of the job, as tokens. After the plan. */
int dsf_session_text(struct dsf_session *s, struct dsflow_err *err);

/* Does it fit in the memories of this machine, and are the folders there? */
int dsf_session_check_memory(struct dsf_session *s, struct dsflow_err *err);

/* The same of the ranks of this process, one of several, by its part. */
int dsf_session_check_part(struct dsf_session *s, const struct dsf_wire *wire,
                           struct dsflow_err *err);

/* The executor, with memory and constants, but no weights yet. */
int dsf_session_open(struct dsf_session *s, enum dsflow_exec_kind kind,
                     const struct dsflow_host *host, struct dsflow_err *err);

/* The executor of that part, for the process that has the run. */
int dsf_session_serve(struct dsf_session *s, struct dsf_wire *wire,
                      unsigned workers, enum dsflow_exec_kind kind,
                      const struct dsflow_host *host, struct dsflow_err *err);

/* Weights only, and no states: those of `step`, as dsf_params_open has it. */
int dsf_session_start(struct dsf_session *s, int64_t step, int64_t *from,
                      struct dsflow_err *err);

/* What of it is this process's, one of several. */
int dsf_session_start_own(struct dsf_session *s, int64_t step, int64_t *from,
                          int64_t *updates, struct dsflow_err *err);

/* Run the program `prepare`, if the graph has it and parameters were written
 * since it ran. Before a step or a validation, when nothing is under way. */
int dsf_session_prepare(struct dsf_session *s, struct dsflow_err *err);

/* Inputs of matrices are rounded, or not, as the job says of parameters with so
 * many updates behind them. When nothing is under way. */
int dsf_session_round(struct dsf_session *s, int64_t updates,
                      struct dsflow_err *err);
void dsf_session_round_own(struct dsf_session *s, int64_t updates);

/* All that a step changes, to and from a checkpoint. */
int dsf_session_save(struct dsf_session *s, int64_t step,
                     struct dsflow_err *err);
int dsf_session_load(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err);

/* What of it is this process's, one of several: kinds that are `absent` from
 * the checkpoint begin as zeroes; `sums` are those of dsf_ckpt_write_some. */
int dsf_session_save_own(struct dsf_session *s, const char *folder,
                         const struct dsf_writes *writes, uint64_t *sums,
                         struct dsflow_err *err);
int dsf_session_load_own(struct dsf_session *s, const char *folder,
                         const bool *absent, struct dsflow_err *err);

/* What is kept between steps is known from here on, without the graph. */
void dsf_session_forget_graph(struct dsf_session *s);

/* The text goes on so that step 0 would have begun with sequence `first`. */
void dsf_session_set_first(struct dsf_session *s, int64_t first);

/* The checkpoints of a run of the job, from its beginning. */
struct dsf_plan_saves dsf_session_saves(struct dsf_session *s);

/* Is there room on disk for the checkpoints that are still to come after step
 * `done`? Before the plan, what is offloaded to the same disk does not count
 * yet. `fresh`: those that are there will be removed first. */
int dsf_session_check_room(struct dsf_session *s, int64_t done, bool fresh,
                           struct dsflow_err *err);

/* How many updates the weights of an open session have behind them. */
int64_t dsf_session_updates(struct dsf_session *s);

/* The weights of an open session as whole units, all at once: where a unit is in
 * one piece in memory, that piece itself, else a copy. */
int dsf_session_units(struct dsf_session *s, float ***params,
                      struct dsflow_err *err);
void dsf_session_units_free(struct dsf_session *s, float **params);
/* Bytes of those copies. */
double dsf_session_copies(const struct dsf_session *s);

void dsf_session_close(struct dsf_session *s);

/* What the graph weighs, on any machine of its plan; it is found out when it is
 * asked for first. */
const struct dsf_weights *dsf_session_weights(struct dsf_session *s);

/* <output>/checkpoints; freed by the caller. */
char *dsf_session_checkpoints(const struct dsf_session *s);

/* Whether `path` is the output folder of a run that has begun. */
bool dsf_is_run(const char *path);

#endif
