/* keys.h - what job.toml says to the built-in policies. The table of each
 * policy stands in its file, as `options`, and fills one of these structures,
 * with which the part of the policy in the plan begins. Who needs the value of
 * a key on a lower floor asks for it by its name (config/when.h). */
#ifndef DSF_POLICIES_KEYS_H
#define DSF_POLICIES_KEYS_H

#include "config/job.h"
#include "plan/schedule_slots.h"
#include "policies/policies.h"

/* The name of what is kept of the loss scale. */
#define DSF_KEPT_SCALER "scaler"

struct dsf_pipeline_keys {
    int schedule;             /* enum dsf_pipeline_schedule */
    int64_t chunks;           /* of each stage; interleaved */
    struct dsflow_ints split; /* blocks of each chunk, instead of by cost */
    bool strict;              /* no sooner than the published schedule */
};

#define DSF_REDUCES(X) X(DSF_REDUCE_STEP, "step") X(DSF_REDUCE_MICRO, "micro")
enum dsf_reduce { DSF_REDUCES(DSF_CHOICE_VALUE) };

struct dsf_zero_keys {
    int64_t stage;    /* 0 to 3; -1: auto */
    int reduce;       /* enum dsf_reduce */
    int64_t prefetch; /* layers gathered ahead; stage 3 */
    int64_t keep;     /* bytes: smaller units stay gathered; stage 3 */
};

#define DSF_RECOMPUTES(X)                                                      \
    X(DSF_RECOMPUTE_NONE, "none")                                              \
    X(DSF_RECOMPUTE_ATTENTION, "attention")                                    \
    X(DSF_RECOMPUTE_BLOCK, "block") X(DSF_RECOMPUTE_AUTO, "auto")
enum dsf_recompute { DSF_RECOMPUTES(DSF_CHOICE_VALUE) };

struct dsf_recompute_keys {
    int what;     /* enum dsf_recompute */
    char *layers; /* "all", or numbers and ranges: "0-5,8" */
};

struct dsf_offload_keys {
    int home[DSFLOW_NROLES]; /* enum dsflow_tier: of data of the role */
    double share; /* of the states, that stays on the device; -1: auto */
    int64_t read_ahead, write_behind; /* units, or layers of activations */
    int64_t piece; /* bytes of a state that are read at a time */
};

/* What a step computes in: name and type. */
#define DSF_COMPUTES(X)                                                        \
    X("fp32", DSFLOW_FP32) X("bf16", DSFLOW_BF16) X("fp16", DSFLOW_FP16)

/* What gradients are added up in. */
#define DSF_GRADIENTS(X) X("fp32", DSFLOW_FP32) X("bf16", DSFLOW_BF16)

#define DSF_HEADS(X) X(DSF_HEAD_COMPUTE, "compute") X(DSF_HEAD_FP32, "fp32")
enum dsf_head_type { DSF_HEADS(DSF_CHOICE_VALUE) };

/* What the states of the optimizer may be kept as: name and type. */
#define DSF_STATE_FORMATS(X)                                                   \
    X("fp32", DSFLOW_FP32) X("bf16", DSFLOW_BF16) X("int8", DSFLOW_INT8_BLOCK)

struct dsf_precision_keys {
    int states;    /* position in DSF_STATE_FORMATS */
    bool master;   /* parameters are kept in fp32, too; bf16 */
    int compute;   /* position in DSF_COMPUTES */
    bool tf32;     /* products in fp32 round their operands; GPUs */
    int gradients; /* position in DSF_GRADIENTS */
    int head;      /* enum dsf_head_type */
    /* What losses are multiplied by in fp16: struct dsf_loss_scale. */
    double loss_scale; /* of all steps; 0: it follows the overflows */
    double initial_scale, min_scale;
    int64_t scale_window, hysteresis;
    bool consecutive_hysteresis;
};

/* What the errors of coded gradients are kept as. */
#define DSF_ERRORS(X)                                                          \
    X(DSF_ERROR_NONE, "none")                                                  \
    X(DSF_ERROR_FP32, "fp32") X(DSF_ERROR_INT8, "int8")
enum dsf_error { DSF_ERRORS(DSF_CHOICE_VALUE) };

#define DSF_EMBEDDINGS(X) X(DSF_DENSE, "dense") X(DSF_ROWS, "rows")
enum dsf_embedding { DSF_EMBEDDINGS(DSF_CHOICE_VALUE) };

struct dsf_compress_keys {
    char *gradients, *params; /* names of formats; DSF_NO_FORMAT */
    int64_t block;            /* numbers; -1: as the format says */
    int64_t keep;             /* bytes: smaller units stay as they are */
    int error;                /* enum dsf_error */
    double error_beta;
    int64_t error_reset; /* steps; 0: never */
    bool two_level;           /* sums of nodes are coded again */
    int64_t node;             /* groups that share a node; -1: auto */
    int64_t secondary;        /* ranks that keep a second copy; 0: none */
    int embedding;            /* enum dsf_embedding */
};

/* How weights are quantized (kernels/fake_quantize.h), and what says that none
 * are pruned. */
#define DSF_QUANTIZERS(X)                                                      \
    X(DSF_UNQUANTIZED, "none")                                                 \
    X(DSF_SYMMETRIC, "symmetric")                                              \
    X(DSF_ASYMMETRIC, "asymmetric")                                            \
    X(DSF_TERNARY, "ternary") X(DSF_BINARY, "binary")
#define DSF_UNPRUNED "none"

struct dsf_weights_keys {
    int quantize;                      /* position in DSF_QUANTIZERS */
    int64_t bits, start_bits;          /* start_bits = -1: bits */
    int64_t period;                    /* steps with start_bits */
    int64_t group;                     /* numbers that share a scale */
    char *prune;                       /* "2:4"; DSF_UNPRUNED */
    int64_t quantize_from, prune_from; /* steps */
    bool embedding;
};

/* dsf_zero_keys(job), and its like. */
#define DSF_POLICY_KEYS(policy)                                                \
    static inline const struct dsf_##policy##_keys *dsf_##policy##_keys(       \
        const struct dsf_job *job)                                             \
    {                                                                          \
        return dsf_job_part(job, dsf_policy_##policy.options);                 \
    }
DSF_POLICY_KEYS(pipeline)
DSF_POLICY_KEYS(zero)
DSF_POLICY_KEYS(recompute)
DSF_POLICY_KEYS(offload)
DSF_POLICY_KEYS(precision)
DSF_POLICY_KEYS(weights)
DSF_POLICY_KEYS(compress)
#undef DSF_POLICY_KEYS

#define DSF_DTYPE_OF(name, dtype) dtype,

/* The type in which a step of the job computes. */
static inline enum dsflow_dtype dsf_compute_type(const struct dsf_job *job)
{
    static const enum dsflow_dtype dtypes[] = { DSF_COMPUTES(
        DSF_DTYPE_OF) };

    return dtypes[dsf_precision_keys(job)->compute];
}

/* What the gradients of parameters are added up in. */
static inline enum dsflow_dtype dsf_gradient_type(const struct dsf_job *job)
{
    static const enum dsflow_dtype dtypes[] = { DSF_GRADIENTS(DSF_DTYPE_OF) };

    return dsf_compute_type(job) == DSFLOW_FP32
               ? DSFLOW_FP32
               : dtypes[dsf_precision_keys(job)->gradients];
}

/* What the states of the optimizer are kept as. */
static inline enum dsflow_dtype dsf_job_states(const struct dsf_job *job)
{
    static const enum dsflow_dtype dtypes[] = { DSF_STATE_FORMATS(
        DSF_DTYPE_OF) };

    return dtypes[dsf_precision_keys(job)->states];
}

/* Are parameters kept in fp32, whatever is computed in? */
static inline bool dsf_keeps_masters(const struct dsf_job *job)
{
    return dsf_precision_keys(job)->master ||
           dsf_compute_type(job) != DSFLOW_BF16;
}

/* Groups that share a node, whose sum is coded again; 0: there is one level. */
int32_t dsf_compress_node(const struct dsflow_plan *plan);

/* Are gradients, or parameters, sent in another format than they have? */
bool dsf_compresses_gradients(const struct dsf_job *job);
bool dsf_compresses_params(const struct dsf_job *job);

/* Does a step compute with weights that are quantized or pruned? And what a
 * job says of the latter: of each `of` so many stay; false if it says nothing
 * of the kind. */
bool dsf_changes_weights(const struct dsf_job *job);
bool dsf_read_pruning(const char *text, int *keep, int *of);

/* Are errors of coded gradients carried over to the next step? */
bool dsf_carries_errors(const struct dsf_job *job);

/* What each group of micro-batches may keep for itself: an error of what it
 * sends; as a worker of 0/1 Adam, a momentum and how far it has moved. And what
 * those of a node keep together: the error of what their sum is sent as. */
#define DSF_OF_GROUPS(X)                                                       \
    X(DSF_OF_ERROR, "error")                                                   \
    X(DSF_OF_NODE_ERROR, "node_error")                                         \
    X(DSF_OF_MOMENTUM, "momentum")                                             \
    X(DSF_OF_LOCAL, "local")
enum dsf_of_group { DSF_OF_GROUPS(DSF_CHOICE_VALUE) DSF_NOF_GROUPS };

/* Of which group, or of a node which is the first of, is what is kept (plan.h:
 * kept), and what of it? -1: of none. */
int32_t dsf_kept_group(const struct dsflow_plan *plan, uint16_t kept,
                       enum dsf_of_group *what);

/* How many keep this: groups, or nodes. */
int32_t dsf_kept_count(const struct dsflow_plan *plan, enum dsf_of_group what);

/* Is this kept of the unit? Errors are, where its gradient is coded; all else
 * is of all units. */
bool dsf_unit_keeps(const struct dsf_job *job, const struct dsf_model *model,
                    const struct dsf_unit *unit,
                    const struct dsflow_kept *kept);

/* The stage of ZeRO; 0 where it is auto as yet. */
static inline int32_t dsf_zero_stage(const struct dsf_job *job)
{
    int64_t stage = dsf_zero_keys(job)->stage;

    return stage < 0 ? 0 : (int32_t)stage;
}

/* Are gradients of weights put off, to fill the bubbles of the pipeline? */
bool dsf_pipeline_defers_weights(const struct dsflow_plan *plan);

/* Is anything kept elsewhere than on the device? */
static inline bool dsf_is_offloaded(const struct dsf_job *job)
{
    for (int role = 0; role < DSFLOW_NROLES; role++)
        if (dsf_offload_keys(job)->home[role] != DSFLOW_DEVICE)
            return true;
    return false;
}

/* What is tried, one after the other, where a plan does not fit: less memory
 * than `keys` say. The first is what they say; false past the last. */
bool dsf_offload_fallback(unsigned i, struct dsf_offload_keys *keys);

#endif
