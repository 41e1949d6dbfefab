/* spread_private.h - the functions of an executor, where it is spread. */
#ifndef DSF_EXEC_SPREAD_PRIVATE_H
#define DSF_EXEC_SPREAD_PRIVATE_H

#include "exec/clock_apart.h"
#include "exec/exec_private.h"
#include "exec/spread.h"
#include "graph/part.h"

/* Commands go beside the messages of the graph, with tags of their own: those
 * to one process arrive in order. */
enum dsf_spread_tag {
    DSF_SPREAD_COMMAND = DSF_OWN_TAGS,
    DSF_SPREAD_ANSWER,
    DSF_SPREAD_CONTENTS
};

enum dsf_spread_what {
    DSF_SPREAD_JOIN,
    DSF_SPREAD_SUBMIT,
    DSF_SPREAD_WAIT,
    DSF_SPREAD_READ,
    DSF_SPREAD_WRITE,
    DSF_SPREAD_RESIDENT,
    DSF_SPREAD_ON_DEVICES,
    DSF_SPREAD_LANES,
    DSF_SPREAD_CLOCK,
    DSF_SPREAD_SPANS,
    DSF_SPREAD_TELL,
    DSF_SPREAD_CALL,
    DSF_SPREAD_END
};

struct dsf_spread_command {
    uint32_t what; /* enum dsf_spread_what */
    uint32_t of;   /* a program; the rank */
    uint32_t tier;
    uint32_t zero;
    int64_t numbers[DSF_SPREAD_NUMBERS];
    char name[128]; /* of data: each process numbers its own */
};

/* What is known of a process: its lanes, its clock, and what it moves. */
struct dsf_spread_others {
    bool known;
    bool one_clock;
    uint16_t *lanes;        /* by its lanes: that of the common timeline */
    unsigned nlanes, sends; /* the lane of what goes out */
    struct dsf_clock_apart clock; /* beside ours; zeroes where it is one */
    double *ended;  /* by its lanes: what was taken of them ends then */
    uint32_t *data; /* by data of its part: that of the graph; or … */
    uint32_t ndata; /* … DSF_NOT_IN_PART: nothing that it moves */
};

struct dsf_spread {
    struct dsflow_exec *own; /* of the part of this process */
    const struct dsf_graph_part *part;
    struct dsf_wire *wire;

    /* What dsflow_exec_map shows of another process: one at a time. */
    void *shown;
    size_t bytes;
    uint32_t data;
    bool dirty;

    struct dsf_spread_others *others; /* [nprocesses]; NULL: not yet asked */
};

/* Ask a process, and take its answer: a number; DSFLOW_EIO and the like: it is
 * not there, or what it says went wrong. */
int dsf_spread_ask(const struct dsf_spread *s, int32_t process,
                   struct dsf_spread_command c, struct dsflow_err *err);
int dsf_spread_answered(const struct dsf_spread *s, int32_t process,
                        int64_t *number, struct dsflow_err *err);
/* The other end of that; `why` where status is not DSFLOW_OK. */
int dsf_spread_answer(struct dsf_wire *wire, int32_t to, int status,
                      int64_t number, const struct dsflow_err *why,
                      struct dsflow_err *err);

/* spread_lanes.c: lanes of all processes, as those of one; and what the others
 * answer. */
void dsf_spread_lanes(const struct dsflow_exec *exec,
                      struct dsf_timeline *timeline);
bool dsf_spread_carries(const struct dsf_spread *s, unsigned lane, bool out);
void dsf_spread_forget(struct dsf_spread *s);
int dsf_spread_tell_lanes(struct dsflow_exec *exec,
                          const struct dsf_graph_part *part,
                          struct dsf_wire *wire, int32_t to,
                          struct dsflow_err *err);

/* How far ahead its clock is, asked so many times. Where it does not answer,
 * what is known stays. */
void dsf_spread_find_clock(const struct dsf_spread *s, int32_t process,
                           unsigned times);
double dsf_spread_clocks_within(const struct dsf_spread *s);
int64_t dsf_spread_clock(void); /* dsf_now, in nanoseconds */

/* spread_trace.c: the same of spans. */
uint64_t dsf_spread_drain(const struct dsflow_exec *exec,
                          struct dsf_timeline *timeline);
int dsf_spread_tell_spans(struct dsflow_exec *exec,
                          const struct dsf_graph_part *part,
                          struct dsf_wire *wire, int32_t to,
                          struct dsflow_err *err);

int dsf_spread_open(struct dsflow_exec *exec,
                    const struct dsflow_exec_options *options,
                    const struct dsflow_host *host, struct dsflow_err *err);
void dsf_spread_close(struct dsflow_exec *exec);
int dsf_spread_submit(struct dsflow_exec *exec, dsflow_program program,
                      struct dsflow_err *err);
int dsf_spread_wait(struct dsflow_exec *exec, struct dsflow_err *err);
void *dsf_spread_map(struct dsflow_exec *exec, dsflow_data_id id,
                     enum dsflow_access access);
size_t dsf_spread_on_devices(const struct dsflow_exec *exec);
size_t dsf_spread_resident(const struct dsflow_exec *exec, unsigned rank,
                           enum dsflow_tier tier);

#endif
