/* zeroone.h - 0/1 Adam (Lu et al. 2022, arXiv 2202.06009): its keys, and which
 * step is of which kind. */
#ifndef DSF_TASKS_ZEROONE_H
#define DSF_TASKS_ZEROONE_H

#include <dsflow/option.h>

#include "tasks/onebit.h"
#include "tasks/zeroone_args.h"

/* The table [zeroone_adam] of a job. */
struct dsf_zeroone_keys {
    struct dsf_zeroone_schedule schedule; /* first: options name its keys */
    int errors;                           /* position in DSF_ONEBIT_ERRORS */
};
extern const struct dsflow_option dsf_zeroone_options[];

enum dsflow_dtype dsf_zeroone_error_type(const struct dsf_zeroone_keys *keys);

/* What a step does. */
enum dsf_zeroone_kind {
    DSF_ZEROONE_VARIANCE, /* sends gradients, and updates second moments */
    DSF_ZEROONE_GRADIENT, /* sends gradients in 1 bit */
    DSF_ZEROONE_LOCAL,    /* sends nothing: weights are each worker's */
    DSF_ZEROONE_SYNC,     /* local, and then what was done since the last one
                             is sent in 1 bit */
};

/* Steps that follow each other, first .. last (0: there is no last one), with
 * one interval: steps whose numbers are multiples of it are of VARIANCE or,
 * `local`, SYNC, the others of GRADIENT or LOCAL.
 *
 * As deepspeed/runtime/fp16/onebit/zoadam.py has it (0.18.0): the interval
 * doubles behind so many steps of VARIANCE; local spans begin with step
 * var_freeze_step + 2, with interval 1, which doubles every so many steps, up
 * to local_step_clipper. Its first step, which does nothing, is not counted. */
struct dsf_zeroone_span {
    int64_t first, last, interval;
    bool local;
};

/* The first span, and the one behind another, which has a last step. */
struct dsf_zeroone_span
dsf_zeroone_first_span(const struct dsf_zeroone_schedule *s);
struct dsf_zeroone_span
dsf_zeroone_next_span(const struct dsf_zeroone_schedule *s,
                      const struct dsf_zeroone_span *of);

/* The kind of step `step`, from 1 on. */
enum dsf_zeroone_kind dsf_zeroone_kind(const struct dsf_zeroone_schedule *s,
                                       int64_t step);

/* Do all workers have the same weights before step `step`? */
bool dsf_zeroone_is_fresh(const struct dsf_zeroone_schedule *s, int64_t step);

/* The last step that sends gradients in 1 bit; 0: there is none. */
int64_t dsf_zeroone_last_gradient(const struct dsf_zeroone_schedule *s);

/* The first of the local steps that end with step `step`, of SYNC. */
int64_t dsf_zeroone_since(const struct dsf_zeroone_schedule *s, int64_t step);

#endif
