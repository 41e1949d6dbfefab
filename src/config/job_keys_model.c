/* job_keys_model.c - the keys of job.toml that say which model is trained. */
#include "config/job_keys.h"

/* Conditions that several keys have. */
#define LLAMA  "model.family = llama"
#define LLAMA3 LLAMA " and model.rope_scaling = llama3"

#define MODEL struct dsf_job_model
static const char *const families[] = { DSF_FAMILIES(DSF_CHOICE_NAME) NULL };
static const char *const scalings[] = { DSF_ROPE_SCALINGS(DSF_CHOICE_NAME)
                                            NULL };
#define SEGMENT(name)                                                          \
    DSFLOW_OPTION_NAME(MODEL, name, "\"builtin\"", dsf_job_segment_name,       \
                       "what computes the segment " #name                      \
                       "; plug-ins bring more")
const struct dsflow_option dsf_model_options[] = {
    DSFLOW_OPTION_OF(
        DSFLOW_STRING, MODEL, init, "\"random\"",
        "\"random\", or what to start from: a Hugging Face folder, "
        "or the output folder of a run, whose newest checkpoint "
        "it is"),
    DSFLOW_OPTION_CHOICE(MODEL, family, "\"gpt2\"", families,
                         "gpt2 (learned positions, LayerNorm, GELU) or llama "
                         "(rotary positions, RMSNorm, SwiGLU)"),
    DSFLOW_OPTION_AUTO(MODEL, layers, "\"auto\"", 1, 1024, "blocks"),
    DSFLOW_OPTION_AUTO(MODEL, heads, "\"auto\"", 1, 1024, "attention heads"),
    DSFLOW_OPTION_AUTO(MODEL, kv_heads, "\"auto\"", 1, 1024,
                       "heads of keys and values; auto: heads"),
    DSFLOW_OPTION_AUTO(MODEL, head_dim, "\"auto\"", 1, DSF_MOST_HEAD_DIM,
                       "width of a head; auto: width / heads"),
    DSFLOW_OPTION_AUTO(MODEL, width, "\"auto\"", 1, 65536,
                       "width of the residual stream"),
    DSFLOW_OPTION_AUTO(MODEL, ffn_width, "\"auto\"", 1, 1048576,
                       "inner width of the MLP; auto: 4 width (gpt2), "
                       "8/3 width rounded up to 64 (llama)"),
    DSFLOW_OPTION_AUTO(MODEL, context, "\"auto\"", 1, 1048576,
                       "longest sequence; auto: 1024"),
    DSFLOW_OPTION_AUTO(MODEL, window, "\"auto\"", 0, 1048576,
                       "tokens that a token sees, itself included (sliding "
                       "window attention); 0: all before it; auto: what "
                       "config.json in model.init says, or 0"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, MODEL, window_layers, "\"all\"",
                     "which layers have the window: \"all\", or numbers and "
                     "ranges such as \"0-5,8\"; where it is not given and "
                     "config.json in model.init says it, those",
                     "model.window >= 1"),
    DSFLOW_OPTION_AUTO(MODEL, vocab, "\"auto\"", 2, 4194304,
                       "size of the vocabulary; auto: the tokenizer's"),
    DSFLOW_OPTION_FLOAT(MODEL, norm_eps, "1e-5", 1e-12, 0.1,
                        "added to the variance in norms"),
    DSFLOW_OPTION_FLOAT(MODEL, rope_theta, "10000.0", 1, 1e12,
                        "base of the rotary frequencies", LLAMA),
    DSFLOW_OPTION_FLOAT(MODEL, dropout, "0.0", 0, 0,
                        "dropout is not in this version: 0, whatever "
                        "config.json in model.init says"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, MODEL, tied, "true",
                     "the head uses the embedding's matrix"),
    DSFLOW_OPTION_OF(
        DSFLOW_BOOL, MODEL, qkv_bias, "false",
        "biases on query, key and value, as Qwen2 has; gpt2 always "
        "has them",
        LLAMA),
    DSFLOW_OPTION_CHOICE(MODEL, rope_scaling, "\"none\"", scalings,
                         "llama3: its scaling of the rotary frequencies",
                         LLAMA),
    DSFLOW_OPTION_FLOAT(MODEL, rope_factor, "8.0", 1, 1024,
                        "factor of the scaling", LLAMA3),
    DSFLOW_OPTION_FLOAT(MODEL, rope_low_freq_factor, "1.0", 1e-3, 1024,
                        "low_freq_factor of the scaling", LLAMA3),
    DSFLOW_OPTION_FLOAT(MODEL, rope_high_freq_factor, "4.0", 1e-3, 1024,
                        "high_freq_factor of the scaling", LLAMA3),
    DSFLOW_OPTION_INT(MODEL, rope_original_context, "8192", 1, 1048576,
                      "original_max_position_embeddings of the scaling",
                      LLAMA3),
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, MODEL, segments,
                     "[\"qkv\", \"attention\", \"out\", \"mlp\"]",
                     "what each block is made of, in order: built-in segments, "
                     "and those that plug-ins bring"),
    SEGMENT(embed),
    SEGMENT(qkv),
    SEGMENT(attention),
    SEGMENT(out),
    SEGMENT(mlp),
    SEGMENT(head),
    { 0 },
};

#define SPARSE  struct dsf_job_sparse
#define MODE    "sparse_attention.mode = "
#define LAID    "sparse_attention.mode != dense"
#define LISTED  MODE "variable|bslongformer"
#define SLIDING MODE "bigbird|bslongformer|local_sliding_window"
static const char *const attentions[] = { DSF_SPARSE_ATTENTIONS(DSF_CHOICE_NAME)
                                              NULL };
const struct dsflow_option dsf_sparse_options[] = {
    DSFLOW_OPTION_NAME(SPARSE, mode, "\"dense\"", dsf_job_sparsity_name,
                       "which blocks of keys each block of queries sees; "
                       "plug-ins bring more. Names and defaults of this table "
                       "are DeepSpeed's"),
    DSFLOW_OPTION_INT(SPARSE, block, "16", 16, 128,
                      "tokens of a block: 16, 32, 64 or 128", LAID),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, SPARSE, different_layout_per_head, "false",
                     "each head has a layout of its own",
                     MODE "fixed|variable|bigbird|bslongformer"),
    DSFLOW_OPTION_INT(SPARSE, num_local_blocks, "4", 1, MANY,
                      "blocks of a window", MODE "fixed"),
    DSFLOW_OPTION_INT(SPARSE, num_global_blocks, "1", 1, MANY,
                      "fixed: blocks of each window that all later rows see; "
                      "bigbird: first blocks that all rows see",
                      MODE "fixed|bigbird"),
    DSFLOW_OPTION_INT(SPARSE, num_different_global_patterns, "1", 1, MANY,
                      "heads in turn have other global blocks of a window",
                      MODE "fixed"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, SPARSE, horizontal_global_attention, "false",
                     "global blocks see all others, too",
                     MODE "fixed|variable"),
    DSFLOW_OPTION_AUTO(SPARSE, num_random_blocks, "\"auto\"", 0, MANY,
                       "random blocks of a row; auto: 1 of bigbird, 0 of "
                       "variable",
                       MODE "variable|bigbird"),
    DSFLOW_OPTION_NUMBER(DSFLOW_INTS, SPARSE, local_window_blocks, "[4]", 1,
                         MANY, "blocks of each window; the last repeats",
                         MODE "variable"),
    DSFLOW_OPTION_NUMBER(DSFLOW_INTS, SPARSE, global_block_indices, "[0]", 0,
                         MANY, "global blocks, or where ranges of them begin",
                         LISTED),
    DSFLOW_OPTION_NUMBER(
        DSFLOW_INTS, SPARSE, global_block_end_indices, "[]", 0, MANY,
        "the blocks behind those ranges; []: each is one block", LISTED),
    DSFLOW_OPTION_INT(SPARSE, num_sliding_window_blocks, "3", 1, MANY,
                      "blocks of the sliding window, half of them before the "
                      "row's own",
                      SLIDING),
    DSFLOW_OPTION_CHOICE(SPARSE, attention, "\"auto\"", attentions,
                         "unidirectional: nothing behind the queries; auto: "
                         "that of local_sliding_window, and bidirectional of "
                         "the others",
                         LAID),
    DSFLOW_OPTION_OF(DSFLOW_STRING, SPARSE, layers, "\"all\"",
                     "which layers have the layout: \"all\", or numbers and "
                     "ranges such as \"0-5,8\"",
                     LAID),
    DSFLOW_OPTION_INT(SPARSE, seed, "1", 0, 1e9,
                      "of the random blocks, with the layer and the head",
                      MODE "variable|bigbird"),
    { 0 },
};

#define ACTIVATIONS struct dsf_job_activations
#define ROUNDED     "activations.quantize != none"
static const char *const quantizers[] = { DSF_INPUT_QUANTIZERS(DSF_CHOICE_NAME)
                                              NULL };
const struct dsflow_option dsf_activations_options[] = {
    DSFLOW_OPTION_CHOICE(
        ACTIVATIONS, quantize, "\"none\"", quantizers,
        "how the inputs of the matrices of layers are rounded before each "
        "product, in training, evaluation and text: to `bits` bits, with codes "
        "around 0 or between the least and the largest of a group; gradients "
        "are those of the rounded numbers. [weights] rounds the matrices"),
    DSFLOW_OPTION_INT(ACTIVATIONS, bits, "8", 2, 8,
                      "bits of an input that is quantized", ROUNDED),
    DSFLOW_OPTION_INT(ACTIVATIONS, group, "64", 0, 128,
                      "inputs of a token that follow each other and share a "
                      "scale: 16, 32, 64 or 128, and a divisor of all of them; "
                      "0: all of them",
                      ROUNDED),
    DSFLOW_OPTION_INT(ACTIVATIONS, quantize_from, "0", 0, INT32_MAX,
                      "steps before inputs are quantized; skipped ones do not "
                      "count",
                      ROUNDED),
    { 0 },
};
