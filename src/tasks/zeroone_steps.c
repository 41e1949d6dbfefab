/* zeroone_steps.c - the keys of 0/1 Adam, and which step is of which kind. */
#include "tasks/zeroone.h"

#include "base/multiple.h"

/* --- keys ----------------------------------------------------------------- */

#define KEYS         struct dsf_zeroone_keys
#define STEPS        struct dsf_zeroone_schedule
#define WITH_ZEROONE "optimizer.kind = zeroone_adam"

const struct dsflow_option dsf_zeroone_options[] = {
    DSFLOW_OPTION_INT(STEPS, var_freeze_step, "100000", 1, INT32_MAX,
                      "from this step + 2 on workers take steps of their own, "
                      "and second moments do not change",
                      WITH_ZEROONE),
    DSFLOW_OPTION_INT(STEPS, var_update_scaler, "16", 1, INT32_MAX,
                      "updates of the second moments, which need whole "
                      "gradients, after which the steps between them are twice "
                      "as many: from 1 on",
                      WITH_ZEROONE),
    DSFLOW_OPTION_INT(STEPS, local_step_scaler, "32678", 1, INT32_MAX,
                      "steps after which workers synchronise half as often: "
                      "first in each step",
                      WITH_ZEROONE),
    DSFLOW_OPTION_INT(STEPS, local_step_clipper, "16", 1, INT32_MAX,
                      "most steps from one synchronisation to the next",
                      WITH_ZEROONE),
    DSFLOW_OPTION_CHOICE(KEYS, errors, "\"fp32\"", dsf_onebit_errors,
                         "what is kept of what coding takes, for each worker: "
                         "4 or 2 bytes a parameter",
                         WITH_ZEROONE),
    { 0 },
};

enum dsflow_dtype dsf_zeroone_error_type(const struct dsf_zeroone_keys *keys)
{
    return dsf_onebit_error_type(
        &(struct dsf_onebit_keys){ .errors = keys->errors });
}

/* --- kinds of step -------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The last step in which second moments may change. */
static int64_t last_with_variance(const struct dsf_zeroone_schedule *s)
{
    return s->var_freeze_step + 1;
}

/* From step `first` on: it ends with the step that doubles the interval. */
static struct dsf_zeroone_span span_of(const struct dsf_zeroone_schedule *s,
                                       int64_t first, int64_t interval,
                                       bool local)
{
    struct dsf_zeroone_span span = { .first = first,
                                     .interval = interval,
                                     .local = local };
    const int64_t next = dsf_round_up(first, interval);

    if (!local)
        span.last = least(next + (s->var_update_scaler - 1) * interval,
                          last_with_variance(s));
    else if (interval < s->local_step_clipper)
        span.last = first + s->local_step_scaler - 1;
    return span;
}

struct dsf_zeroone_span
dsf_zeroone_first_span(const struct dsf_zeroone_schedule *s)
{
    return span_of(s, 1, 1, false);
}

struct dsf_zeroone_span
dsf_zeroone_next_span(const struct dsf_zeroone_schedule *s,
                      const struct dsf_zeroone_span *of)
{
    if (of->local)
        return span_of(s, of->last + 1,
                       least(2 * of->interval, s->local_step_clipper), true);
    if (of->last == last_with_variance(s))
        return span_of(s, of->last + 1, 1, true);
    return span_of(s, of->last + 1, 2 * of->interval, false);
}

enum dsf_zeroone_kind dsf_zeroone_kind(const struct dsf_zeroone_schedule *s,
                                       int64_t step)
{
    struct dsf_zeroone_span span = dsf_zeroone_first_span(s);

    while (span.last != 0 && span.last < step)
        span = dsf_zeroone_next_span(s, &span);
    if (step % span.interval == 0)
        return span.local ? DSF_ZEROONE_SYNC : DSF_ZEROONE_VARIANCE;
    return span.local ? DSF_ZEROONE_LOCAL : DSF_ZEROONE_GRADIENT;
}

bool dsf_zeroone_is_fresh(const struct dsf_zeroone_schedule *s, int64_t step)
{
    return step <= 1 || dsf_zeroone_kind(s, step - 1) != DSF_ZEROONE_LOCAL;
}

int64_t dsf_zeroone_last_gradient(const struct dsf_zeroone_schedule *s)
{
    int64_t last = 0;

    for (struct dsf_zeroone_span span = dsf_zeroone_first_span(s); !span.local;
         span = dsf_zeroone_next_span(s, &span))
        for (int64_t step = span.last;
             step >= span.first && step > span.last - 2 && span.interval > 1;
             step--)
            if (step % span.interval != 0) {
                last = step;
                break;
            }
    return last;
}

int64_t dsf_zeroone_since(const struct dsf_zeroone_schedule *s, int64_t step)
{
    while (!dsf_zeroone_is_fresh(s, step))
        step--;
    return step;
}
