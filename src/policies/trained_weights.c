/* trained_weights.c - the policy `weights`: training weights that are quantized
 * or pruned, which DeepSpeed calls compression training.
 *
 * Forward and backward passes have weights as the quantized or pruned model has
 * them; the optimizer works on masters in full precision, with the gradients of
 * the former as if they were its own (the straight-through estimator: Bengio,
 * Leonard and Courville 2013, arXiv 1308.3432). Behind each update, and in the
 * program `prepare`, one task makes the copies: `fake_quantize`. It is a
 * function of the masters and of how many updates there were, so that nothing
 * more is kept or saved, and no mesh or memory changes a bit.
 *
 * What is pruned is found anew behind each update, so that a weight comes back
 * when it has grown (Zhou et al. 2021, arXiv 2102.04010, without their decay).
 */
#include "policies/trained_weights.h"

#include "model/parts.h"
#include "policies/masters.h"
#include "policies/policies.h"
#include "policies/zeroone.h"
#include "tasks/tasks.h"

#include <stdio.h>

/* --- masters and copies --------------------------------------------------- */

struct weights {
    struct dsf_masters m;
    dsflow_data_id control; /* of the old graph */
};

static bool form_of(const struct dsf_masters *m,
                    const struct dsflow_data_spec *d,
                    struct dsf_weight_form *form)
{
    const struct dsf_model *model = m->plan->model;

    if (!dsf_trained_form(m->plan->job, model, &model->units[d->unit], form))
        return false;
    form->matrices = dsf_masters_numbers(m->plan, d).matrices;
    return form->matrices > 0;
}

static bool is_changed(const struct dsf_masters *m,
                       const struct dsflow_data_spec *d)
{
    struct dsf_weight_form form;

    return form_of(m, d, &form);
}

static void quantize(struct dsf_masters *m, const struct dsflow_task_spec *like,
                     const struct dsflow_data_spec *d, dsflow_data_id master,
                     dsflow_data_id copy)
{
    enum { OUT = 2 };
    const struct weights *w = (const struct weights *)m;
    struct dsf_fake_quantize_args args = {
        .elems = d->elems, .at = d->at, .behind = like->program != m->prepare
    };

    form_of(m, d, &args.form);
    dsf_add_like(m->rw.out, like, &dsf_op_fake_quantize, &args, d->home,
                 1u << OUT, 3,
                 (dsflow_data_id[]){ dsflow_rewrite_data(&m->rw, w->control),
                                     master, copy });
}

static dsflow_data_id find_control(const struct dsflow_graph *g)
{
    const struct dsflow_data_spec *d;

    for (uint32_t i = 0; (d = dsf_nth_data(g, i)) != NULL; i++)
        if (d->kept == 1 + DSF_KEPT_CONTROL)
            return (dsflow_data_id){ i };
    return dsf_no_data();
}

static int weights_rewrite(const void *part, const struct dsflow_plan *plan,
                           struct dsflow_graph *in, struct dsflow_graph *out,
                           struct dsflow_err *err)
{
    struct weights w = { .m = { .plan = plan,
                                .suffix = "weights",
                                .wants = is_changed,
                                .write = quantize } };

    (void)part;
    (void)err;
    if (!dsf_changes_weights(plan->job))
        return DSFLOW_UNCHANGED;
    w.control = find_control(in);
    dsf_masters_rewrite(&w.m, in, out);
    return DSFLOW_OK;
}

/* --- keys ----------------------------------------------------------------- */

static int refuse(const struct dsflow_plan *plan, const char *key,
                  const char *value, const char *expected,
                  struct dsflow_err *err)
{
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "weights", key,
                        "%s: expected %s", value, expected);
}

/* Groups are of the inputs of one output: on tensor ranks, too. */
static int fit_matrix(const struct dsflow_plan *plan, const char *name,
                      int64_t at, int64_t cols,
                      const struct dsf_weight_form *form,
                      struct dsflow_err *err)
{
    const bool prunes = form->quantizer == DSF_UNQUANTIZED;

    if (at % form->group == 0 && cols % form->group == 0)
        return DSFLOW_OK;
    return dsf_job_fail(
        plan->job, err, DSFLOW_EINVAL, "weights", prunes ? "prune" : "group",
        "%d: expected a divisor of the %lld inputs of each output of %s%s%s",
        (int)form->group, (long long)cols, name,
        plan->nparts > 1 ? ", of which mesh.tensor makes parts" : "",
        prunes ? ", as weights are pruned 16 at a time" : "");
}

static int fit_part(const struct dsflow_plan *plan, unsigned unit, int32_t part,
                    const struct dsf_weight_form *form, struct dsflow_err *err)
{
    struct dsf_part p;
    int status = DSFLOW_OK;

    dsf_part_init(&p, plan->model, plan->nparts, unit, part);
    for (unsigned i = 0; i < p.nblocks && status == DSFLOW_OK; i++)
        if (p.blocks[i].at_part < p.decay)
            status = fit_matrix(plan, p.name, p.blocks[i].at_part,
                                p.blocks[i].cols, form, err);
    return status;
}

static int fit_unit(const struct dsflow_plan *plan, unsigned unit,
                    struct dsflow_err *err)
{
    const struct dsf_unit *u = &plan->model->units[unit];
    struct dsf_weight_form form;
    int status = DSFLOW_OK;

    if (!dsf_trained_form(plan->job, plan->model, u, &form))
        return DSFLOW_OK;
    for (unsigned i = 0; i < u->ntensors && status == DSFLOW_OK; i++)
        if (!u->tensors[i].vector)
            status = fit_matrix(plan, u->name, u->tensors[i].offset,
                                u->tensors[i].cols, &form, err);
    for (int32_t p = 0;
         p <= plan->nparts && plan->nparts > 1 && status == DSFLOW_OK; p++)
        status = fit_part(plan, unit, p, &form, err);
    return status;
}

static const char *const quantizers[] = { DSF_QUANTIZERS(DSF_CHOICE_NAME)
                                              NULL };

static int check_keys(const struct dsf_weights_keys *keys,
                      const struct dsflow_plan *plan, struct dsflow_err *err)
{
    char value[32];
    int keep, of;

    if (!dsf_read_pruning(keys->prune, &keep, &of)) {
        snprintf(value, sizeof(value), "\"%.20s\"", keys->prune);
        return refuse(plan, "prune", value,
                      "none, or N:M, where N of each M weights stay, with M 2, "
                      "4, 8 or 16",
                      err);
    }
    if (!dsf_is_quantize_group(keys->group)) {
        snprintf(value, sizeof(value), "%d", (int)keys->group);
        return refuse(plan, "group", value, "16, 32, 64 or 128", err);
    }
    if (keys->start_bits >= 0 && keys->start_bits < keys->bits) {
        snprintf(value, sizeof(value), "%d", (int)keys->start_bits);
        return refuse(plan, "start_bits", value, "weights.bits or more", err);
    }
    return DSFLOW_OK;
}

static int weights_decide(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    const struct dsf_weights_keys *keys = part;
    const bool quantizes = keys->quantize != DSF_UNQUANTIZED;
    const char *key = quantizes ? "quantize" : "prune";
    const char *value = quantizes ? quantizers[keys->quantize] : keys->prune;
    int status = check_keys(keys, plan, err);

    if (status < 0 || !dsf_changes_weights(plan->job))
        return status;
    if (!dsf_keeps_masters(plan->job))
        return refuse(plan, key, value,
                      "none where precision.master is false, as masters have "
                      "to stay exact",
                      err);
    if (dsf_compresses_params(plan->job))
        return refuse(plan, key, value,
                      "none where compress.params names a format, as what is "
                      "sent would be rounded once more",
                      err);
    if (dsf_zeroone_keys(plan->job) != NULL)
        return refuse(plan, key, value,
                      "none with optimizer.kind = \"zeroone_adam\", as each "
                      "data rank has weights of its own",
                      err);
    for (unsigned u = 0; u < plan->model->nunits && status == DSFLOW_OK; u++)
        status = fit_unit(plan, u, err);
    return status;
}

#define WEIGHTS   struct dsf_weights_keys
#define QUANTIZED "weights.quantize != none"
#define IN_BITS   "weights.quantize = symmetric|asymmetric"
static const struct dsflow_option weights_options[] = {
    DSFLOW_OPTION_CHOICE(
        WEIGHTS, quantize, "\"none\"", quantizers,
        "how the matrices of layers are rounded that forward and backward "
        "passes use, while the optimizer works on exact ones: to `bits` bits, "
        "with codes around 0 or between the least and the largest of a group; "
        "or to one size and 0, or to one size. Checkpoints keep the exact "
        "ones; text, evaluation and export have what was trained"),
    DSFLOW_OPTION_INT(WEIGHTS, bits, "4", 2, 8,
                      "bits of a weight that is quantized", IN_BITS),
    DSFLOW_OPTION_AUTO(WEIGHTS, start_bits, "\"auto\"", 2, 16,
                       "bits at first: one less after weights.period steps, "
                       "and again each time the steps have doubled, down to "
                       "weights.bits; auto: weights.bits from the beginning",
                       IN_BITS),
    DSFLOW_OPTION_INT(WEIGHTS, period, "1000", 1, INT32_MAX,
                      "steps with start_bits",
                      IN_BITS " and weights.start_bits >= 3"),
    DSFLOW_OPTION_INT(WEIGHTS, group, "64", DSF_QUANTIZE_LEAST,
                      DSF_QUANTIZE_MOST,
                      "inputs of an output that follow each other and share a "
                      "scale: 16, 32, 64 or 128, and a divisor of all of them",
                      QUANTIZED),
    DSFLOW_OPTION_INT(WEIGHTS, quantize_from, "0", 0, INT32_MAX,
                      "steps before weights are quantized; skipped ones do "
                      "not count",
                      QUANTIZED),
    DSFLOW_OPTION_OF(
        DSFLOW_STRING, WEIGHTS, prune, "\"none\"",
        "\"2:4\", or \"N:M\": of each M inputs of an output that follow each "
        "other only the N largest weights count, all others are 0; M is 2, 4, "
        "8 or 16. Which ones is found anew after each step"),
    DSFLOW_OPTION_INT(WEIGHTS, prune_from, "0", 0, INT32_MAX,
                      "steps before weights are pruned; skipped ones do not "
                      "count",
                      "weights.prune != none"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, WEIGHTS, embedding, "false",
                     "whether embeddings and the head are quantized and "
                     "pruned, too",
                     QUANTIZED " or weights.prune != none"),
    { 0 },
};

const struct dsflow_policy dsf_policy_weights = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "weights",
    .summary = "training weights that are quantized or pruned",
    .after = "precision",
    .options = weights_options,
    .part_size = sizeof(struct dsf_weights_keys),
    .decide = weights_decide,
    .rewrite = weights_rewrite,
};
