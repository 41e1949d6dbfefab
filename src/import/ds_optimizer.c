/* ds_optimizer.c - the optimizer and the learning rate, with DeepSpeed's
 * defaults, which are not those of a job. */
#include "import/ds_private.h"

#include <string.h>
#include <strings.h>

#define O "optimizer.params."
#define S "scheduler.params."

/* With the defaults of each. */
struct rule {
    const char *type, *kind;
    double lr, beta2, eps; /* beta2 0: it has no betas; eps 0: no eps */
    bool momentum;
};

static const struct rule rules[] = {
    { "adam", "adamw", 1e-3, 0.999, 1e-8, false },
    { "adamw", "adamw", 1e-3, 0.999, 1e-8, false },
    { "lion", "lion", 1e-3, 0.999, 0, false },
    { "sgd", "sgd", 1e-3, 0, 0, true },
    { "adagrad", "adagrad", 1e-2, 0, 1e-10, false },
    { "lamb", "lamb", 1e-3, 0.999, 1e-8, false },
    { "muon", "muon", 0.02, 0.95, 1e-10, false },
    { "onebitadam", "onebit_adam", 1e-3, 0.999, 1e-8, false },
    { "onebitlamb", "onebit_lamb", 1e-3, 0.999, 1e-8, false },
    { "zerooneadam", "zeroone_adam", 1e-3, 0.999, 1e-8, false },
};

static const struct rule *find_rule(struct dsf_ds *x)
{
    const char *type = dsf_ds_text(x, "optimizer.type", "AdamW");

    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (strcasecmp(rules[i].type, type) == 0)
            return &rules[i];
    dsf_ds_refuse(x, "optimizer.type",
                  "%.60s: expected Adam, AdamW, Lion, SGD, Adagrad, "
                  "Lamb, Muon, OneBitAdam, OneBitLamb or ZeroOneAdam",
                  type);
    return NULL;
}

static void take_betas(struct dsf_ds *x, double beta2)
{
    const json_t *betas = dsf_ds_get(x, O "betas");
    double b[2] = { 0.9, beta2 };

    if (dsf_ds_is_auto(x, O "betas")) {
        dsf_ds_leave(x, "optimizer", "betas", O "betas is \"auto\": to be set");
        return;
    }
    for (size_t i = 0; i < 2 && betas != NULL; i++) {
        const json_t *one = json_array_get(betas, i);

        if (json_array_size(betas) != 2 || !json_is_number(one)) {
            dsf_ds_refuse(x, O "betas", "expected two numbers");
            return;
        }
        b[i] = json_number_value(one);
    }
    dsf_ds_set(x, "optimizer", "betas", O "betas", "[%.15g, %.15g]", b[0],
               b[1]);
}

/* "Adam" is AdamW, unless it is told otherwise. */
static void take_kind(struct dsf_ds *x, const struct rule *r)
{
    const bool classic =
        strcmp(r->type, "adam") == 0 && !dsf_ds_true(x, O "adam_w_mode", true);
    const bool said = dsf_ds_get(x, "optimizer.type") != NULL &&
                      !dsf_ds_is_auto(x, "optimizer.type");

    dsf_ds_set_text(x, "optimizer", "kind",
                    classic ? O "adam_w_mode"
                    : said  ? "optimizer.type"
                            : "there is no optimizer.type: to be set",
                    classic ? "adam" : r->kind);
    if ((strcmp(r->kind, "adamw") == 0 || strcmp(r->kind, "lamb") == 0) &&
        !dsf_ds_true(x, O "bias_correction", true))
        dsf_ds_set(x, "optimizer", "bias_correction", O "bias_correction",
                   "false");
}

/* Of torch.optim.AdamW by default, which DeepSpeed takes where it is told to.
 */
static double torch_decay(struct dsf_ds *x, const struct rule *r)
{
    return strcmp(r->kind, "adamw") == 0 &&
                   dsf_ds_true(x, O "torch_adam", false) &&
                   dsf_ds_true(x, O "adam_w_mode", true)
               ? 0.01
               : 0;
}

static void take_lamb(struct dsf_ds *x, const char *table)
{
    dsf_ds_take_number(x, table, "max_coeff", O "max_coeff", 10);
    dsf_ds_take_number(x, table, "min_coeff", O "min_coeff", 0.01);
}

static const char *rate_of(struct dsf_ds *x, const struct rule *r)
{
    return strcmp(r->kind, "muon") == 0 && dsf_ds_get(x, O "muon_lr") != NULL
               ? O "muon_lr"
               : O "lr";
}

/* The rate of what Muon does not update is not the same by default. A schedule
 * of DeepSpeed with a highest rate gives it to both. */
static void take_muon_rates(struct dsf_ds *x, const struct rule *r)
{
    const char *schedule = dsf_ds_text(x, "scheduler.type", "WarmupCosineLR");
    const bool warmup = strcmp(schedule, "WarmupLR") == 0 &&
                        dsf_ds_get(x, S "warmup_max_lr") == NULL;
    const char *adam =
        dsf_ds_get(x, O "adam_lr") != NULL ? O "adam_lr" : O "lr";

    if (!warmup && strcmp(schedule, "WarmupCosineLR") != 0)
        return;
    dsf_ds_take_number(x, "muon", "adam_lr", adam, 3e-4);
    if (warmup && dsf_ds_number(x, S "warmup_min_lr", 0) > 0 &&
        dsf_ds_number(x, adam, 3e-4) != dsf_ds_number(x, rate_of(x, r), r->lr))
        dsf_ds_refuse(x, S "warmup_min_lr",
                      "both rates of Muon begin with it there, and with the "
                      "same share of each here: expected 0");
}

static void take_muon(struct dsf_ds *x, const struct rule *r)
{
    dsf_ds_take_number(x, "muon", "momentum", O "momentum", 0.95);
    if (!dsf_ds_true(x, O "adam_w_mode", true) &&
        dsf_ds_number(x, O "weight_decay", 0) > 0)
        dsf_ds_refuse(x, O "adam_w_mode",
                      "false beside Muon and weight_decay: what Muon does not "
                      "update is AdamW's here, with a decay of its own");
    take_muon_rates(x, r);
}

static void take_onebit(struct dsf_ds *x, const char *table)
{
    dsf_ds_set(x, table, "freeze_step", O "freeze_step", "%lld",
               (long long)dsf_ds_whole(x, O "freeze_step", 100000));
}

static void take_onebit_lamb(struct dsf_ds *x)
{
    static const char table[] = "onebit_lamb";

    take_onebit(x, table);
    take_lamb(x, table);
    dsf_ds_take_number(x, table, "coeff_beta", O "coeff_beta", 0.9);
    dsf_ds_take_number(x, table, "factor_max", O "factor_max", 4);
    dsf_ds_take_number(x, table, "factor_min", O "factor_min", 0.5);
    dsf_ds_take_number(x, table, "factor_threshold", O "factor_threshold", 0.1);
}

static void take_zeroone(struct dsf_ds *x)
{
    static const struct {
        const char *key, *path;
        int64_t otherwise;
    } steps[] = {
        { "var_freeze_step", O "var_freeze_step", 100000 },
        { "var_update_scaler", O "var_update_scaler", 16 },
        { "local_step_scaler", O "local_step_scaler", 32678 },
        { "local_step_clipper", O "local_step_clipper", 16 },
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
        dsf_ds_set(x, "zeroone_adam", steps[i].key, steps[i].path, "%lld",
                   (long long)dsf_ds_whole(x, steps[i].path,
                                           steps[i].otherwise));
}

static void take_rule(struct dsf_ds *x, const struct rule *r)
{
    take_kind(x, r);
    dsf_ds_take_number(x, "optimizer", "lr", rate_of(x, r), r->lr);
    if (r->beta2 > 0)
        take_betas(x, r->beta2);
    if (r->eps > 0)
        dsf_ds_take_number(x, "optimizer", "eps", O "eps", r->eps);
    dsf_ds_take_number(x, "optimizer", "weight_decay", O "weight_decay",
                       torch_decay(x, r));
    if (strcmp(r->kind, "lamb") == 0)
        take_lamb(x, "lamb");
    if (strcmp(r->kind, "muon") == 0)
        take_muon(x, r);
    if (strcmp(r->kind, "onebit_adam") == 0)
        take_onebit(x, "onebit_adam");
    if (strcmp(r->kind, "onebit_lamb") == 0)
        take_onebit_lamb(x);
    if (strcmp(r->kind, "zeroone_adam") == 0)
        take_zeroone(x);
    if (!r->momentum)
        return;
    dsf_ds_take_number(x, "optimizer", "momentum", O "momentum", 0);
    if (dsf_ds_true(x, O "nesterov", false))
        dsf_ds_set(x, "optimizer", "nesterov", O "nesterov", "true");
}

/* --- the learning rate ---------------------------------------------------- */

/* A whole number, which is left open where it is "auto". */
static void take_steps(struct dsf_ds *x, const char *key, const char *path,
                       int64_t fallback)
{
    if (dsf_ds_is_auto(x, path))
        dsf_ds_take_number(x, "schedule", key, path, 0);
    else
        dsf_ds_set(x, "schedule", key, path, "%lld",
                   (long long)dsf_ds_whole(x, path, fallback));
}

/* `low` as a share of `high`. */
static void take_share(struct dsf_ds *x, const char *key, const char *low,
                       const char *high, double high_default)
{
    double a = dsf_ds_number(x, low, 0);
    double b = dsf_ds_number(x, high, high_default);

    if (dsf_ds_is_auto(x, low) || dsf_ds_is_auto(x, high))
        dsf_ds_leave(x, "schedule", key,
                     "rates of the schedule are \"auto\": to be set");
    else if (b > 0)
        dsf_ds_set_number(x, "schedule", key, low, a / b);
}

/* The rate of the schedule counts, not that of the optimizer. */
static void take_rate(struct dsf_ds *x, const char *path)
{
    dsf_ds_take_number(x, "optimizer", "lr", path, 1e-3);
}

static void take_warmup(struct dsf_ds *x)
{
    const char *shape = dsf_ds_text(x, S "warmup_type", "log");
    int64_t steps = dsf_ds_whole(x, S "warmup_num_steps", 1000);

    if (strcmp(shape, "log") != 0 && strcmp(shape, "linear") != 0)
        dsf_ds_refuse(x, S "warmup_type", "%.40s: expected log or linear",
                      shape);
    take_steps(x, "warmup", S "warmup_num_steps", 1000);
    /* DeepSpeed's least. */
    if (steps >= 0 && steps < 2 && !dsf_ds_is_auto(x, S "warmup_num_steps"))
        dsf_ds_set(x, "schedule", "warmup", S "warmup_num_steps", "2");
    dsf_ds_set_text(x, "schedule", "warmup_shape", S "warmup_type", shape);
}

static void take_warmup_to(struct dsf_ds *x, const char *high, double fallback)
{
    take_warmup(x);
    take_share(x, "warmup_ratio", S "warmup_min_lr", high, fallback);
}

/* Where this schedule has no highest rate, it is that of the optimizer; older
 * versions of DeepSpeed took 0.001. */
static void warmup(struct dsf_ds *x)
{
    const struct rule *r =
        dsf_ds_get(x, "optimizer") != NULL ? find_rule(x) : NULL;

    if (dsf_ds_get(x, S "warmup_max_lr") == NULL) {
        take_warmup_to(x, r != NULL ? rate_of(x, r) : O "lr",
                       r != NULL ? r->lr : 1e-3);
        return;
    }
    take_rate(x, S "warmup_max_lr");
    take_warmup_to(x, S "warmup_max_lr", 1e-3);
}

static void warmup_decay(struct dsf_ds *x)
{
    take_rate(x, S "warmup_max_lr");
    take_warmup_to(x, S "warmup_max_lr", 1e-3);
    /* It goes back to where it began. */
    if (dsf_ds_get(x, S "warmup_min_lr") != NULL)
        take_share(x, "min_ratio", S "warmup_min_lr", S "warmup_max_lr", 1e-3);
    take_steps(x, "total", S "total_num_steps", 0);
}

static void warmup_cosine(struct dsf_ds *x)
{
    take_warmup(x);
    dsf_ds_take_number(x, "schedule", "warmup_ratio", S "warmup_min_ratio", 0);
    dsf_ds_take_number(x, "schedule", "min_ratio", S "cos_min_ratio", 1e-4);
    take_steps(x, "total", S "total_num_steps", 0);
}

static void range_test(struct dsf_ds *x)
{
    take_rate(x, S "lr_range_test_min_lr");
    take_steps(x, "range_steps", S "lr_range_test_step_size", 2000);
    dsf_ds_take_number(x, "schedule", "range_rate", S "lr_range_test_step_rate",
                       1);
    if (dsf_ds_true(x, S "lr_range_test_staircase", false))
        dsf_ds_set(x, "schedule", "staircase", S "lr_range_test_staircase",
                   "true");
}

static void one_cycle(struct dsf_ds *x)
{
    if (dsf_ds_get(x, S "cycle_momentum") == NULL)
        dsf_ds_refuse(x, S "cycle_momentum",
                      "true by default: momentum stays what it is: expected "
                      "false");
    take_rate(x, S "cycle_max_lr");
    take_share(x, "cycle_min_ratio", S "cycle_min_lr", S "cycle_max_lr", 1e-3);
    take_steps(x, "half_cycle", S "cycle_first_step_size", 2000);
    if (dsf_ds_get(x, S "cycle_second_step_size") != NULL)
        take_steps(x, "second_half_cycle", S "cycle_second_step_size", 2000);
    take_steps(x, "decay_steps", S "decay_step_size", 0);
    dsf_ds_take_number(x, "schedule", "decay_rate", S "decay_lr_rate", 0);
}

static const struct {
    const char *type, *kind;
    void (*take)(struct dsf_ds *x);
} schedules[] = {
    { "WarmupLR", "warmup", warmup },
    { "WarmupDecayLR", "warmup_linear", warmup_decay },
    { "WarmupCosineLR", "warmup_cosine", warmup_cosine },
    { "LRRangeTest", "range_test", range_test },
    { "OneCycle", "one_cycle", one_cycle },
};

static void take_schedule(struct dsf_ds *x)
{
    const char *type = dsf_ds_text(x, "scheduler.type", NULL);

    if (type == NULL)
        return;
    for (size_t i = 0; i < sizeof(schedules) / sizeof(*schedules); i++)
        if (strcmp(schedules[i].type, type) == 0) {
            dsf_ds_set_text(x, "schedule", "kind", "scheduler.type",
                            schedules[i].kind);
            schedules[i].take(x);
            return;
        }
    dsf_ds_refuse(x, "scheduler.type",
                  "%.60s: expected WarmupLR, WarmupDecayLR, WarmupCosineLR, "
                  "LRRangeTest or OneCycle",
                  type);
}

/* DeepSpeed makes no optimizer of its own. */
static void leave_optimizer(struct dsf_ds *x)
{
    static const char why[] =
        "the program that calls DeepSpeed makes the optimizer: to be set";
    static const char *const keys[] = { "kind", "lr", "betas", "eps",
                                        "weight_decay" };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        dsf_ds_leave(x, "optimizer", keys[i], why);
}

/* Gradients are clipped, unless it is said that they are not; of 0/1 Adam's
 * nobody has the norm. */
static void take_clip(struct dsf_ds *x, const struct rule *r)
{
    const bool never = r != NULL && strcmp(r->kind, "zeroone_adam") == 0;
    const double clip = dsf_ds_number(x, "gradient_clipping", 1);

    if (never && clip > 0)
        dsf_ds_refuse(
            x, "gradient_clipping",
            "%g%s: 0/1 Adam does not clip gradients: expected 0", clip,
            dsf_ds_get(x, "gradient_clipping") == NULL ? " by default" : "");
    dsf_ds_take_number(x, "optimizer", "clip", "gradient_clipping",
                       never ? 0 : 1);
}

void dsf_ds_optimizer(struct dsf_ds *x)
{
    const struct rule *rule =
        dsf_ds_get(x, "optimizer") != NULL ? find_rule(x) : NULL;

    if (rule != NULL)
        take_rule(x, rule);
    else if (dsf_ds_get(x, "optimizer") == NULL)
        leave_optimizer(x);
    take_clip(x, rule);
    take_schedule(x);
}
