/* loss_scale.h - by what losses are multiplied in fp16, so that small gradients
 * do not become 0: the scale gets smaller when gradients overflow, and larger
 * when they have not for some time. */
#ifndef DSF_TASKS_LOSS_SCALE_H
#define DSF_TASKS_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/op.h>

/* Plain bytes without padding, as arguments of tasks are. All 0: losses are not
 * scaled. */
struct dsf_loss_scale {
    double fixed;          /* the scale of all steps; 0: it follows the rest */
    double initial, least; /* of the scale */
    int64_t window;        /* steps without an overflow after which it doubles */
    int32_t hysteresis;    /* the overflow, from 1, that halves the scale, */
    int32_t consecutive;   /* 1: counted anew after each step without one */
};

/* What it follows from, kept from step to step: the contents of the port
 * `scaler`. It begins as zeroes. */
struct dsf_scaler {
    double scale;          /* of the next step; 0: there was none yet */
    int64_t steps;         /* skipped ones too */
    int64_t last_overflow; /* the number of that step, from 0; -1: none */
    int64_t hysteresis;    /* the so many-th overflow from here halves it */
    int64_t overflows;     /* in all */
};

static inline bool dsf_is_scaled(const struct dsf_loss_scale *s)
{
    return s->fixed > 0 || s->initial > 0;
}

/* The scale of the step that begins. */
double dsf_loss_scale_begin(const struct dsf_loss_scale *s,
                            struct dsf_scaler *state);

/* Note whether the step overflows: the scale of the next one follows. False: it
 * overflows, and no smaller scale is there to try. */
bool dsf_loss_scale_note(const struct dsf_loss_scale *s,
                         struct dsf_scaler *state, bool overflows);

/* Are these numbers that a scale can follow, and has the task the state on port
 * `p` where losses are scaled, and only there? */
int dsf_loss_scale_check(const struct dsf_loss_scale *s,
                         const struct dsflow_case *c, unsigned p,
                         struct dsflow_err *err);

/* Is the state there, which a task has on port `p` where losses are scaled? */
static inline bool dsf_has_scaler(const struct dsflow_case *c, unsigned p)
{
    return c->n > p && c->shapes[p].bytes > 0;
}

#endif
