/* loss_scale.c - by what losses are multiplied in fp16. The rule is DeepSpeed's
 * (runtime/fp16/loss_scaler.py), but that a step is unscaled by the scale that
 * its losses were multiplied by, also where the scale changes with it. */
#include "tasks/loss_scale.h"

#include "tasks/shapes.h"

#include <math.h>

double dsf_loss_scale_begin(const struct dsf_loss_scale *s,
                            struct dsf_scaler *state)
{
    if (s->fixed > 0)
        return s->fixed;
    if (state->scale == 0)
        *state = (struct dsf_scaler){ .scale = s->initial,
                                      .last_overflow = -1,
                                      .hysteresis = s->hysteresis };
    /* The run may go on with another least scale. */
    return state->scale = fmax(state->scale, s->least);
}

/* The last one that hysteresis tolerates, and all after it, halve the scale.
 * False: it is the least one. */
static bool overflow(const struct dsf_loss_scale *s, struct dsf_scaler *state)
{
    bool halves = s->hysteresis == 1 || state->hysteresis == 1;
    bool can = !halves || state->scale > s->least;

    if (halves)
        state->scale = fmax(state->scale / 2, s->least);
    else
        state->hysteresis--;
    state->last_overflow = state->steps;
    return can;
}

static void no_overflow(const struct dsf_loss_scale *s,
                        struct dsf_scaler *state)
{
    int64_t n = state->steps - state->last_overflow - 1;
    bool grows = n > 0 && n % s->window == 0;

    if (grows || s->consecutive)
        state->hysteresis = s->hysteresis;
    if (grows)
        state->scale *= 2;
}

bool dsf_loss_scale_note(const struct dsf_loss_scale *s,
                         struct dsf_scaler *state, bool overflows)
{
    bool helps = false;

    state->overflows += overflows;
    if (s->fixed > 0)
        return !overflows;
    if (overflows)
        helps = overflow(s, state);
    else
        no_overflow(s, state);
    state->steps++;
    return helps || !overflows;
}

static bool is_sound(const struct dsf_loss_scale *s)
{
    if (!(isfinite(s->fixed) && s->fixed >= 0 && isfinite(s->initial) &&
          s->initial >= 0))
        return false;
    return s->initial == 0 || (s->least > 0 && s->least <= s->initial &&
                               s->window >= 1 && s->hysteresis >= 1);
}

int dsf_loss_scale_check(const struct dsf_loss_scale *s,
                         const struct dsflow_case *c, unsigned p,
                         struct dsflow_err *err)
{
    if (!is_sound(s))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: loss scale: fixed %g, initial %g, least %g, "
                           "window %lld, hysteresis %d: expected positive "
                           "numbers, and none below the least",
                           c->op->name, s->fixed, s->initial, s->least,
                           (long long)s->window, (int)s->hysteresis);
    if (dsf_has_scaler(c, p) != dsf_is_scaled(s))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: expected it where losses are scaled, and "
                           "only there",
                           c->op->name, c->op->ports[p].name);
    return dsf_is_scaled(s) ? dsf_port_check(c, p, DSFLOW_BYTES,
                                             sizeof(struct dsf_scaler), err)
                            : DSFLOW_OK;
}
