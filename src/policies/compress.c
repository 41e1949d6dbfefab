/* compress.c - what ranks send each other in fewer bytes (ZeRO++: Wang et al.
 * 2023).
 *
 * What is compressed is the job's, not the mesh's. The gradient of each group
 * of micro-batches is coded and decoded before it is added to the others, as if
 * it were sent: the policy `reference` says so, with `add_recoded` in the place
 * of `add`. And what computes with parameters has them as they are when they
 * have been sent, on the rank that owns them, too: here they get a master,
 * which the optimizer works on, and a copy, `recode`d behind each update; the
 * program `prepare` makes all copies.
 *
 * What coding takes from the gradient of a group may be carried over to that of
 * the next step: an error for each group and unit, which `reference` makes,
 * with the tasks `feed_back`; and one for each node and unit, where the sums of
 * nodes are coded again. Here it is said that they are kept.
 *
 * Where several data ranks share these, the policy `zero` divides both kinds of
 * task: each rank codes what it has, and those that need it decode it. So jobs
 * of equal groups have the same bits on any mesh.
 */
#include "policies/compress.h"

#include "plan/stretch.h"
#include "policies/keys.h"
#include "policies/masters.h"
#include "tasks/components.h"
#include "tasks/tasks.h"

#include <stdio.h>

/* --- masters and copies --------------------------------------------------- */

static bool code_param(const struct dsf_masters *m,
                       const struct dsflow_data_spec *d,
                       struct dsf_coding *coding)
{
    const struct dsf_masters_numbers of = dsf_masters_numbers(m->plan, d);

    return dsf_compress_params(m->plan->job, &m->plan->model->units[d->unit],
                               of.cut, of.matrices, coding);
}

static bool is_coded(const struct dsf_masters *m,
                     const struct dsflow_data_spec *d)
{
    struct dsf_coding coding;

    return code_param(m, d, &coding);
}

static void recode(struct dsf_masters *m, const struct dsflow_task_spec *like,
                   const struct dsflow_data_spec *d, dsflow_data_id master,
                   dsflow_data_id copy)
{
    enum { OUT = 1 };
    struct dsf_recode_args args = { .elems = d->elems, .at = d->at };

    code_param(m, d, &args.coding);
    dsf_add_like(m->rw.out, like, &dsf_op_recode, &args, d->home, 1u << OUT, 2,
                 (dsflow_data_id[]){ master, copy });
}

static int compress_rewrite(const void *part, const struct dsflow_plan *plan,
                            struct dsflow_graph *in, struct dsflow_graph *out,
                            struct dsflow_err *err)
{
    struct dsf_masters m = {
        .plan = plan, .suffix = "sent", .wants = is_coded, .write = recode
    };

    if (!dsf_compresses_params(plan->job))
        return DSFLOW_UNCHANGED;
    dsf_masters_rewrite(&m, in, out);
    return DSFLOW_OK;
}

/* --- keys ----------------------------------------------------------------- */

static int refuse(const struct dsflow_plan *plan, const char *key,
                  const char *value, const char *expected,
                  struct dsflow_err *err)
{
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "compress", key,
                        "%s: expected %s", value, expected);
}

static const char *const error_names[] = { DSF_ERRORS(DSF_CHOICE_NAME) NULL };

static int compress_decide(void *part, struct dsflow_plan *plan,
                           struct dsflow_err *err)
{
    const struct dsf_compress_keys *keys = part;
    char value[32], expected[64];
    int status;

    if (keys->block >= 0 && keys->block % DSFLOW_WIRE_FORMAT_STEP != 0) {
        snprintf(value, sizeof(value), "%lld", (long long)keys->block);
        return refuse(plan, "block", value, "a multiple of 16", err);
    }
    if (keys->node > 0 && dsf_plan_sums(plan) % keys->node != 0) {
        snprintf(value, sizeof(value), "%lld", (long long)keys->node);
        snprintf(expected, sizeof(expected),
                 "a divisor of the %d batch.groups%s", (int)dsf_plan_sums(plan),
                 plan->sequence_groups > 1 ? " x sequence_groups" : "");
        return refuse(plan, "node", value, expected, err);
    }
    if (keys->secondary > 0 && dsf_zero_stage(plan->job) != 3) {
        snprintf(value, sizeof(value), "%lld", (long long)keys->secondary);
        return refuse(plan, "secondary", value,
                      "zero.stage = 3: else ranks have all parameters", err);
    }
    if (keys->secondary > 0 && dsf_plan_sharers(plan) % keys->secondary != 0) {
        snprintf(value, sizeof(value), "%lld", (long long)keys->secondary);
        snprintf(expected, sizeof(expected), "a divisor of the %d data ranks",
                 (int)dsf_plan_sharers(plan));
        return refuse(plan, "secondary", value, expected, err);
    }
    if (dsf_compresses_gradients(plan->job) &&
        dsf_gradient_type(plan->job) != DSFLOW_FP32)
        return refuse(plan, "gradients", keys->gradients,
                      "none where precision.gradients is not fp32, as what is "
                      "coded was rounded before",
                      err);
    if (dsf_compresses_params(plan->job) && !dsf_keeps_masters(plan->job))
        return refuse(plan, "params", keys->params,
                      "none where precision.master is false, as masters have "
                      "to stay exact",
                      err);
    if (!dsf_carries_errors(plan->job))
        return DSFLOW_OK;
    if (plan->reduce_micro && plan->model->tied)
        return refuse(
            plan, "error", error_names[keys->error],
            "none where zero.reduce is micro and the head is tied, as "
            "its gradients are then sent apart",
            err);
    status = dsf_keep_of_groups(plan, DSF_OF_ERROR, err);
    return status < 0 || dsf_compress_node(plan) == 0
               ? status
               : dsf_keep_of_groups(plan, DSF_OF_NODE_ERROR, err);
}

static const char *const embeddings[] = { DSF_EMBEDDINGS(DSF_CHOICE_NAME)
                                              NULL };

static const char *format_name(const struct dsflow_option *option, unsigned i)
{
    const struct dsf_registered *r =
        i == 0 ? NULL : dsf_registry_at(&dsf_wire_formats, i - 1);

    return i == 0 ? DSF_NO_FORMAT : r != NULL ? r->name : NULL;
}

/* Those without a scale for each tensor: in them zeroes stay zeroes. */
static const char *param_format_name(const struct dsflow_option *option,
                                     unsigned i)
{
    const struct dsflow_wire_format *f;

    (void)option;
    if (i == 0)
        return DSF_NO_FORMAT;
    for (unsigned k = 0; (f = dsflow_wire_format_at(k)) != NULL; k++)
        if (f->encode_by == NULL && --i == 0)
            return f->name;
    return NULL;
}

#define COMPRESS struct dsf_compress_keys
#define SENT                                                                   \
    "compress.gradients != none or compress.params != none or "                \
    "optimizer.kind = onebit_adam|onebit_lamb|zeroone_adam"
#define CODED    "compress.gradients != none"
#define CARRIED  "compress.gradients != none and compress.error != none"
static const struct dsflow_option compress_options[] = {
    DSFLOW_OPTION_NAME(COMPRESS, gradients, "\"none\"", format_name,
                       "the format in which data ranks send each other the "
                       "gradients of parameters: one of dsflow list formats. "
                       "Each group of micro-batches (batch.groups) is coded by "
                       "itself, whatever the mesh is. The losses are not those "
                       "of none: int4 changes a gradient by about a tenth of "
                       "its norm, int8 by about a hundredth. A short run "
                       "beside a dense one, both with optimizer.clip, tells "
                       "what that costs"),
    DSFLOW_OPTION_NAME(COMPRESS, params, "\"none\"", param_format_name,
                       "the same of parameters that are gathered: one in "
                       "which zeroes stay zeroes, which is not so of signs. "
                       "All ranks compute with what was decoded; the optimizer "
                       "works on the exact ones"),
    DSFLOW_OPTION_AUTO(COMPRESS, block, "\"auto\"", DSFLOW_WIRE_FORMAT_STEP,
                       DSFLOW_WIRE_FORMAT_MOST,
                       "numbers that share a scale, at most: a multiple of 16; "
                       "auto: 2048 of int8, 256 of int4 and bf16",
                       SENT),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, COMPRESS, keep, "\"16KiB\"",
                     "units up to this size are sent as they are; vectors "
                     "always are",
                     SENT),
    DSFLOW_OPTION_CHOICE(
        COMPRESS, error, "\"none\"", error_names,
        "whether what coding takes from a gradient is added to "
        "that of the next step, and what these errors are kept "
        "as: fp32 (4 bytes for each parameter and group of "
        "micro-batches), or int8 (about 1). With two_level, the sum of "
        "each node has an error, too",
        CODED),
    DSFLOW_OPTION_FLOAT(COMPRESS, error_beta, "0.8", 0, 1,
                        "how much of an error is that of the step before",
                        CARRIED),
    DSFLOW_OPTION_INT(COMPRESS, error_reset, "1024", 0, INT32_MAX,
                      "errors begin as zeroes again after so many steps; 0: "
                      "never",
                      CARRIED),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, COMPRESS, two_level, "true",
                     "the gradients of groups that share a node are added "
                     "there, and their sum is coded again for other nodes. The "
                     "losses are not those of one level",
                     "compress.gradients != none"),
    DSFLOW_OPTION_AUTO(COMPRESS, node, "\"auto\"", 1, 65536,
                       "groups that share a node, for two_level: a divisor of "
                       "batch.groups; auto: those of the data ranks of a node "
                       "of the machine",
                       "compress.gradients != none and compress.two_level = "
                       "true"),
    DSFLOW_OPTION_INT(COMPRESS, secondary, "0", 0, 65536,
                      "so many data ranks that follow each other keep a copy "
                      "of the parameters among them from the first gather of a "
                      "step on, and later ones read that; 0: all read the "
                      "shards of all",
                      "mesh.data >= 2 or mesh.sequence >= 2"),
    DSFLOW_OPTION_CHOICE(
        COMPRESS, embedding, "\"dense\"", embeddings,
        "how the gradient of an embedding is sent that is not "
        "tied to the head: rows, only those that tokens have "
        "touched, in fp32, where these are fewer bytes. No bit "
        "changes; with compress.gradients it is not coded then, on one rank, "
        "too, and the losses are others",
        "model.tied = false and mesh.data >= 2 or model.tied = false and "
        "mesh.sequence >= 2 or model.tied = false and compress.gradients != "
        "none"),
    { 0 },
};

const struct dsflow_policy dsf_policy_compress = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "compress",
    .summary = "gradients and parameters in fewer bytes where they are sent",
    .after = "weights",
    .options = compress_options,
    .part_size = sizeof(struct dsf_compress_keys),
    .decide = compress_decide,
    .rewrite = compress_rewrite,
};
