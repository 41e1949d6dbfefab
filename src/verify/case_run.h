/* case_run.h - one run of a case: the memory that it is given, and what it
 * leaves there. */
#ifndef DSF_VERIFY_CASE_RUN_H
#define DSF_VERIFY_CASE_RUN_H

#include "verify/guarded.h"
#include "verify/try_case.h"

/* What computes a kind of task. */
struct dsf_computes {
    const struct dsflow_op *op;
    dsflow_cpu_fn cpu;
    bool on_gpu; /* cpu carries the call to a GPU (try_cuda.h); it is not timed
                  */
    /* Of a reference: */
    const char *who; /* in messages; NULL: "its reference " */
    bool same_bits;  /* it is held against those, of the same narrow numbers */
};

/* What stands in memory that has no contents: not a number; or anything. */
enum dsf_garbage { DSF_NAN_BYTES, DSF_RANDOM_BYTES };
void dsf_garbage_fill(void *to, size_t bytes, enum dsf_garbage what);

/* One way to run a case. */
struct dsf_case_way {
    bool at_end, on_thread;
    unsigned random_ports; /* bit i: port i has random bytes, if it has none */
    enum dsf_garbage scratch;
};

/* Memory of a call: its ports, its arguments, its scratch. It stays where it
 * is, and the child (child.h) knows the last one. */
struct dsf_case_memory {
    struct dsf_guarded v[DSFLOW_TRIAL_PORTS + 2];
    char names[DSFLOW_TRIAL_PORTS][48];
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_call call;
    unsigned n;
};

/* What is wrong in these ends the child. */

void dsf_case_memory_init(struct dsf_case_memory *m, const struct dsf_case *c,
                          const struct dsflow_op *op,
                          const struct dsf_case_way *way);
void dsf_case_memory_fini(struct dsf_case_memory *m);

/* What a run of it leaves in port `i`, on plain memory; freed by
 * dsf_port_left_free. */
struct dsf_port_left {
    void *v[DSFLOW_TRIAL_PORTS]; /* NULL: it only reads the port */
};
void dsf_case_run(const struct dsf_case *c, const struct dsf_computes *what,
                  struct dsf_port_left *left);
void dsf_case_run_as(const struct dsf_case *c, const struct dsf_computes *what,
                     const struct dsf_case_way *way,
                     struct dsf_port_left *left);
void dsf_port_left_free(struct dsf_port_left *left);

#endif
