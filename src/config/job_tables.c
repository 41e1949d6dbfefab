/* job_tables.c - the tables of job.toml: dsflow's, and those of plug-ins. */
#include "config/job_tables.h"

#include "base/alloc.h"
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

#define MANY     1e9
#define NO_LIMIT 9e15

/* Conditions that several keys have. */
#define OFFLOADED(where)                                                       \
    "offload.optimizer " where " or offload.params " where                     \
    " or offload.gradients " where " or offload.activations " where
#define LLAMA      "model.family = llama"
#define LLAMA3     LLAMA " and model.rope_scaling = llama3"
#define WARMS_UP   "schedule.kind = warmup|warmup_cosine|warmup_linear"
#define ONE_CYCLE  "schedule.kind = one_cycle"
#define RANGE_TEST "schedule.kind = range_test"
#define VALIDATES  "data.validation > 0 or data.validation_files != []"
#define SAMPLES    "sample.tokens >= 1"
#define CHOOSES    SAMPLES " and sample.temperature > 0"
#define VIRTUAL    "machine.virtual >= 1"

#define MAIN struct dsf_job_main
static const struct dsflow_option main_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, MAIN, name, "\"job\"",
                     "name of the run, for people"),
    DSFLOW_OPTION_INT(MAIN, steps, NULL, 1, MANY,
                      "steps of training (updates of the weights)"),
    DSFLOW_OPTION_INT(MAIN, seed, "1", 0, NO_LIMIT,
                      "of the initial weights and of the order of the text",
                      "model.init = random or data.shuffle = true or "
                      "precision.states != fp32 or "
                      "precision.master = false"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, MAIN, output, "\"runs/job\"",
                     "folder for metrics, checkpoints and the token cache"),
    DSFLOW_OPTION_INT(MAIN, log_every, "10", 1, MANY,
                      "steps between lines where there is no terminal"),
    { 0 },
};

#define MODEL struct dsf_job_model
static const char *const families[] = { DSF_FAMILIES(DSF_CHOICE_NAME) NULL };
static const char *const scalings[] = { DSF_ROPE_SCALINGS(DSF_CHOICE_NAME)
                                            NULL };
#define SEGMENT(name)                                                          \
    DSFLOW_OPTION_NAME(MODEL, name, "\"builtin\"", dsf_job_segment_name,       \
                       "what computes the segment " #name                      \
                       "; plug-ins bring more")
static const struct dsflow_option model_options[] = {
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
static const struct dsflow_option sparse_options[] = {
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

#define DATA struct dsf_job_data
static const struct dsflow_option data_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, train, "[]",
                     "text files to train on, each once, in the order of their "
                     "paths; * ? [ ] match many"),
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, validation_files, "[]",
                     "text files to validate on, instead of a share of train"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, DATA, tokenizer, "\"bytes\"",
                     "\"bytes\", a tokenizer.json, or a folder that has one or "
                     "GPT-2's two files; where it is not given and the folder "
                     "of model.init has a tokenizer, that one"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, DATA, begin, "false",
                     "the token that the tokenizer puts before a text (LLaMA's "
                     "<s>) is put before each file, and before what text is "
                     "generated from"),
    DSFLOW_OPTION_FLOAT(DATA, validation, "0.05", 0, 0.9,
                        "share of each file kept for validation",
                        "data.validation_files = []"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, DATA, shuffle, "true",
                     "sequences in a new order in every epoch"),
    { 0 },
};

#define BATCH struct dsf_job_batch
static const char *const orders[] = { DSF_ORDERS(DSF_CHOICE_NAME) NULL };
static const struct dsflow_option batch_options[] = {
    DSFLOW_OPTION_INT(BATCH, sequences, "32", 1, 16777216,
                      "sequences of a step"),
    DSFLOW_OPTION_AUTO(BATCH, micro, "4", 1, 65536,
                       "sequences of a micro-batch: they go through the model "
                       "together; auto: the fastest that fits"),
    DSFLOW_OPTION_AUTO(BATCH, sequence, "\"auto\"", 1, 1048576,
                       "tokens of a sequence; auto: the model's context"),
    DSFLOW_OPTION_AUTO(BATCH, groups, "\"auto\"", 1, 1024,
                       "groups of micro-batches whose gradients are summed "
                       "apart, then together in a tree; auto: mesh.data when "
                       "a run begins, and what it began with when it goes on. "
                       "Jobs of equal groups give the same bits"),
    DSFLOW_OPTION_AUTO(BATCH, sequence_groups, "\"auto\"", 1, 1024,
                       "groups of tokens of each sequence, a stretch of each "
                       "half, whose gradients are summed apart, then together "
                       "in a tree; auto: mesh.sequence when a run begins, and "
                       "what it began with when it goes on. Jobs of equal "
                       "sequence_groups give the same bits"),
    DSFLOW_OPTION_CHOICE(BATCH, order, "\"auto\"", orders,
                         "micro_major: a micro-batch through all layers, then "
                         "the next; layer_major: all through a layer, so that "
                         "its weights are needed once and its gradient is "
                         "complete early, for more activations; auto: "
                         "layer_major where parameters are on NVMe and it "
                         "fits, else micro_major"),
    DSFLOW_OPTION_AUTO(BATCH, tile, "\"auto\"", 16, 65536,
                       "tokens of a task; auto: up to 256, on a GPU those of "
                       "the micro-batch. It decides the order of sums, and so "
                       "the last bits"),
    DSFLOW_OPTION_AUTO(BATCH, key_tiles, "\"auto\"", 1, 65536,
                       "tiles of keys and values that stand in one buffer, "
                       "which a task of attention takes; auto: a sixteenth of "
                       "those that a tile sees, more where layouts leave "
                       "little of them; 1 on a GPU, with what takes the place "
                       "of attention, and where both windows or layouts and "
                       "sequence_groups are used. No bits depend on it"),
    DSFLOW_OPTION_INT(
        BATCH, head_columns, "0", 0, 1048576,
        "columns of the vocabulary, a multiple of 16, of which a "
        "task of the head has logits at a time: they are computed "
        "once more for the gradients; 0: all of them. It decides "
        "the order of sums, and so the last bits"),
    DSFLOW_OPTION_AUTO(
        BATCH, in_flight, "\"auto\"", 1, 65536,
        "micro-batches whose activations are in memory; auto: "
        "workers + 1, or 1 where recompute.what = auto is faster "
        "with it; where cores update the states of GPUs, as many "
        "as make a step shorter and fit. No bits depend on it",
        "batch.order != layer_major"),
    { 0 },
};

#define OPTIMIZER struct dsf_job_optimizer
static const struct dsflow_option optimizer_options[] = {
    DSFLOW_OPTION_NAME(OPTIMIZER, kind, "\"adamw\"", dsf_job_optimizer_name,
                       "rule of the update; plug-ins bring more"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, lr, "3e-4", 0, 1e3,
                        "learning rate; the schedule multiplies it"),
    DSFLOW_OPTION_NUMBER(DSFLOW_PAIR, OPTIMIZER, betas, "[0.9, 0.95]", 0,
                         0.999999, "decay of the running means",
                         "optimizer.kind = adamw|adam|lion|lamb|muon|"
                         "onebit_adam|onebit_lamb|zeroone_adam"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, eps, "1e-8", 0, 1,
                        "added to the denominator",
                        "optimizer.kind = adamw|adam|adagrad|lamb|muon|"
                        "onebit_adam|onebit_lamb|zeroone_adam"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, weight_decay, "0.1", 0, 100,
                        "of matrices; norms and biases have none"),
    DSFLOW_OPTION_FLOAT(
        OPTIMIZER, clip, "1.0", 0, 1e12,
        "largest norm of the whole gradient; in steps that send "
        "momenta in 1 bit, of that of each group; 0: no "
        "limit"),
    DSFLOW_OPTION_FLOAT(OPTIMIZER, momentum, "0.0", 0, 0.999999,
                        "share of the running mean that stays at each step",
                        "optimizer.kind = sgd"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, OPTIMIZER, nesterov, "false",
                     "Nesterov's momentum",
                     "optimizer.kind = sgd and optimizer.momentum > 0"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, OPTIMIZER, bias_correction, "true",
                     "divide the running means, which begin as zeroes, by what "
                     "they lack in the first steps",
                     "optimizer.kind = adamw|adam|lamb|muon"),
    { 0 },
};

#define SCHEDULE struct dsf_job_schedule
static const char *const warmup_shapes[] = { DSF_WARMUP_SHAPES(DSF_CHOICE_NAME)
                                                 NULL };
static const struct dsflow_option schedule_options[] = {
    DSFLOW_OPTION_NAME(SCHEDULE, kind, "\"constant\"", dsf_job_schedule_name,
                       "course of the learning rate; plug-ins bring more"),
    DSFLOW_OPTION_INT(SCHEDULE, warmup, "0", 0, MANY,
                      "steps up to the full rate; 1 is 2, as DeepSpeed has it",
                      WARMS_UP),
    DSFLOW_OPTION_CHOICE(SCHEDULE, warmup_shape, "\"linear\"", warmup_shapes,
                         "way up; log is DeepSpeed's default",
                         WARMS_UP " and schedule.warmup >= 1"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, warmup_ratio, "0.0", 0, 1,
                        "rate of the first step, as a share of lr",
                        WARMS_UP " and schedule.warmup >= 1"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, min_ratio, "0.0", 0, 1,
                        "rate at the end, as a share of lr",
                        "schedule.kind = warmup_cosine|warmup_linear"),
    DSFLOW_OPTION_AUTO(SCHEDULE, total, "\"auto\"", 1, MANY,
                       "steps the schedule is made for; auto: those of the "
                       "job",
                       "schedule.kind = warmup_cosine|warmup_linear"),
    DSFLOW_OPTION_INT(SCHEDULE, half_cycle, "2000", 1, MANY, "steps up",
                      ONE_CYCLE),
    DSFLOW_OPTION_AUTO(SCHEDULE, second_half_cycle, "\"auto\"", 1, MANY,
                       "steps down; auto: half_cycle", ONE_CYCLE),
    DSFLOW_OPTION_INT(SCHEDULE, decay_steps, "0", 0, MANY,
                      "unit of the decay after the cycle; 0: none",
                      ONE_CYCLE " and schedule.decay_rate > 0"),
    DSFLOW_OPTION_FLOAT(SCHEDULE, cycle_min_ratio, "0.1", 0, 1,
                        "lowest rate, as a share of lr", ONE_CYCLE),
    DSFLOW_OPTION_FLOAT(SCHEDULE, decay_rate, "0.0", 0, 1e6,
                        "decay after the cycle",
                        ONE_CYCLE " and schedule.decay_steps >= 1"),
    DSFLOW_OPTION_INT(SCHEDULE, range_steps, "2000", 1, MANY,
                      "steps of one interval", RANGE_TEST),
    DSFLOW_OPTION_FLOAT(SCHEDULE, range_rate, "1.0", 0, 1e6,
                        "growth per interval, as a share of lr", RANGE_TEST),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, SCHEDULE, staircase, "false",
                     "grow at the end of intervals only", RANGE_TEST),
    { 0 },
};

#define TRAIN struct dsf_job_train
static const char *const on_nonfinite[] = { "stop", "skip", NULL };
static const struct dsflow_option train_options[] = {
    DSFLOW_OPTION_CHOICE(TRAIN, on_nonfinite, "\"stop\"", on_nonfinite,
                         "a step whose loss or gradient is not finite: stop: "
                         "it ends the run; skip: it updates nothing and does "
                         "not count for the schedule, and its batch is not "
                         "read again. With optimizer.clip = 0 updates wait for "
                         "the whole gradient only where steps are skipped"),
    { 0 },
};

#define VALIDATION struct dsf_job_validation
static const struct dsflow_option validation_options[] = {
    DSFLOW_OPTION_INT(VALIDATION, every, "0", 0, MANY,
                      "steps between validations; 0: at the end only",
                      VALIDATES),
    DSFLOW_OPTION_AUTO(VALIDATION, sequences, "\"auto\"", 1, MANY,
                       "of the validation text used each time; auto: all",
                       VALIDATES),
    { 0 },
};

#define CHECKPOINT struct dsf_job_checkpoint
static const struct dsflow_option checkpoint_options[] = {
    DSFLOW_OPTION_NUMBER(DSFLOW_EVERY, CHECKPOINT, every, "0", 0, MANY,
                         "steps between checkpoints, or the time after which "
                         "the next is saved, \"30min\"; 0: at the end only"),
    DSFLOW_OPTION_INT(CHECKPOINT, keep, "2", 0, MANY,
                      "newest ones that are kept; 0: all",
                      "checkpoint.every != 0 or checkpoint.at_end = true"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, CHECKPOINT, at_end, "true",
                     "save when the last step is done"),
    { 0 },
};

#define SAMPLE struct dsf_job_sample
static const struct dsflow_option sample_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRING, SAMPLE, prompt, "\"\\n\"",
                     "text the sample begins with", SAMPLES),
    DSFLOW_OPTION_INT(SAMPLE, tokens, "0", 0, 1048576,
                      "tokens printed when the run ends; 0: none"),
    DSFLOW_OPTION_FLOAT(SAMPLE, temperature, "0.8", 0, 100,
                        "0: always the likeliest token", SAMPLES),
    DSFLOW_OPTION_FLOAT(SAMPLE, top_p, "1.0", 0, 1,
                        "choose among the likeliest tokens of this share",
                        CHOOSES),
    DSFLOW_OPTION_INT(SAMPLE, top_k, "0", 0, 4194304,
                      "choose among so many tokens; 0: all", CHOOSES),
    DSFLOW_OPTION_INT(SAMPLE, seed, "1", 0, NO_LIMIT, "of the choices",
                      CHOOSES),
    { 0 },
};

#define MEMORY struct dsf_job_memory
static const struct dsflow_option memory_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MEMORY, device, "\"auto\"",
                     "what each rank may use of its device; auto: an equal "
                     "share of what is free, less what the program itself "
                     "needs"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MEMORY, host, "\"auto\"",
                     "what each rank may use of main memory beside its device, "
                     "for what is offloaded; auto: an equal share of what is "
                     "free; of cores, what memory.device leaves of it",
                     "memory.device = auto or " OFFLOADED("!= none")),
    { 0 },
};

#define NVME struct dsf_job_nvme
static const struct dsflow_option nvme_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, NVME, path, "[]",
                     "folders on the disks that take what is offloaded to "
                     "nvme; bytes are striped over them",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, NVME, size, "\"auto\"",
                     "of the files together; auto: what is needed, if it is "
                     "free",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, NVME, block, "\"1MiB\"",
                     "of one request: a multiple of 4KiB (dsflow bench io "
                     "finds the best)",
                     OFFLOADED("= nvme")),
    DSFLOW_OPTION_INT(NVME, depth, "4", 1, 256,
                      "requests in flight on each path, of reads and of "
                      "writes",
                      OFFLOADED("= nvme")),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, NVME, verify, "false",
                     "keep a checksum of every block, and check it when the "
                     "block is read",
                     OFFLOADED("= nvme")),
    { 0 },
};

#define MACHINE struct dsf_job_machine
static const struct dsflow_option machine_options[] = {
    DSFLOW_OPTION_AUTO(
        MACHINE, workers, "\"auto\"", 1, 128,
        "CPU workers; auto: one for each core; more than that share the "
        "cores, which is slower"),
    DSFLOW_OPTION_AUTO(
        MACHINE, gpus, "0", 0, 64,
        "GPUs of each node: rank r is on GPU r modulo their number; auto: all "
        "that the driver shows, and cores where it shows none"),
    DSFLOW_OPTION_FULL("virtual", DSFLOW_INT, offsetof(MACHINE, virtuals), "0",
                       0, 8, NULL,
                       "virtual devices: threads with memory of their own, "
                       "each on a core; rank r is on device r modulo their "
                       "number, and cores do what is in main memory"),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_memory, "\"auto\"",
                     "memory of each virtual device, in which its ranks must "
                     "fit; auto: no limit",
                     VIRTUAL),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, MACHINE, virtual_link, "\"auto\"",
                     "bytes a second of the link of each virtual device, in "
                     "each direction, to which its copies are held; auto: as "
                     "fast as they are",
                     VIRTUAL),
    DSFLOW_OPTION_NAME(MACHINE, scheduler, "\"auto\"", dsf_job_scheduler_name,
                       "StarPU's scheduler; auto: lws; no bit depends on it"),
    { 0 },
};

#define RUN struct dsf_job_run
static const struct dsflow_option run_options[] = {
    DSFLOW_OPTION_INT(RUN, patience, "60", 0, MANY,
                      "of several processes: seconds, beside those of the "
                      "predicted step, after which one that is silent, or whose "
                      "task does not end, ends the run; 0: never"),
    DSFLOW_OPTION_INT(RUN, whole, "500000", 0, MANY,
                      "of several processes: up to about so many tasks of a "
                      "step process 0 has the graph of all ranks, by which it "
                      "predicts, meters and traces all; of a larger one it has "
                      "its own ranks, as each process has"),
    { 0 },
};

#define TRACE struct dsf_job_trace
static const struct dsflow_option trace_options[] = {
    DSFLOW_OPTION_NUMBER(DSFLOW_INTS, TRACE, steps, "[]", 1, MANY,
                         "[first, last]: of these steps every task and every "
                         "transfer is kept, for dsflow trace; empty: of none"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, TRACE, tensorboard, "true",
                     "write the curves of the run for TensorBoard too: half a "
                     "kilobyte a step"),
    { 0 },
};

#define CODELETS struct dsf_job_codelets
static const struct dsflow_option codelets_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, CODELETS, load, "[]",
                     "plug-ins: libraries that bring kinds of task, codelets, "
                     "optimizers, schedules, segments and policies"),
    { 0 },
};

#define TABLE(word, what, text)                                                \
    {                                                                          \
        .name = word, .summary = text, .options = what##_options,              \
        .offset = offsetof(struct dsf_job, what)                               \
    }
static const struct dsf_table tables[] = {
    TABLE("job", main, "the run as a whole"),
    TABLE("model", model, "the transformer"),
    TABLE("sparse_attention", sparse, "which tokens see which, block by block"),
    TABLE("data", data, "the text"),
    TABLE("batch", batch, "what a step works on"),
    TABLE("optimizer", optimizer, "the update"),
    TABLE("schedule", schedule, "the learning rate"),
    TABLE("train", train, "the course of the training"),
    TABLE("validation", validation, "loss on text that is not trained on"),
    TABLE("checkpoint", checkpoint, "the run on disk"),
    TABLE("sample", sample, "text written by the model when the run ends"),
    { .name = "mesh",
      .summary = "ranks along each axis; their product in all",
      .options = dsf_axes_keys,
      .offset = offsetof(struct dsf_job, mesh) },
    TABLE("memory", memory, "budgets"),
    TABLE("memory.nvme", nvme, "disks for what is offloaded"),
    TABLE("machine", machine, "workers and devices"),
    TABLE("run", run, "how it is run"),
    TABLE("trace", trace, "what is kept of how it ran"),
    TABLE("codelets", codelets, "plug-ins"),
};

enum { NTABLES = sizeof(tables) / sizeof(*tables) };

static struct dsf_table *added;
static unsigned nadded;
static size_t cap_added;

static void add_builtin(void)
{
    static bool done;

    if (done)
        return;
    done = true;
    dsf_job_add_builtin_tables();
}

const struct dsf_table *dsf_job_table_at(unsigned i)
{
    dsf_axes_make_keys();
    add_builtin();
    if (i < NTABLES)
        return &tables[i];
    return i - NTABLES < nadded ? &added[i - NTABLES] : NULL;
}

const struct dsf_table *dsf_job_find_table(const char *name)
{
    size_t n = strcspn(name, "[");
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (strncmp(t->name, name, n) == 0 && t->name[n] == '\0')
            return t;
    return NULL;
}

bool dsf_job_next_key(struct dsf_table_key *key)
{
    const struct dsflow_option *o = key->option;

    for (o = o != NULL ? o + 1 : NULL;; o++) {
        while (o == NULL || o->key == NULL) { /* a table has no more */
            key->at += key->table != NULL;
            key->table = dsf_job_table_at(key->at);
            if (key->table == NULL)
                return false;
            o = key->table->options;
        }
        if (o->type != DSFLOW_TABLES)
            break;
    }
    key->option = o;
    return true;
}

struct dsf_key_name dsf_key_name(const struct dsf_table_key *key)
{
    struct dsf_key_name name;

    snprintf(name.s, sizeof(name.s), "%s.%s", key->table->name,
             key->option->key);
    return name;
}

static int add_table(const struct dsf_table *t, struct dsflow_err *err)
{
    int status = dsf_options_check(t->name, t->options, t->size, err);

    if (status == DSFLOW_OK && dsf_job_find_table(t->name) != NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "the table [%.60s] of job.toml is taken", t->name);
    if (status < 0)
        return status;
    dsf_grow(&added, &cap_added, nadded + 1, sizeof(*added));
    added[nadded] = *t;
    added[nadded].name = dsf_xstrdup(t->name);
    added[nadded].summary = dsf_xstrdup(t->summary);
    nadded++;
    return DSFLOW_OK;
}

/* The table of an option whose value is tables that repeat. */
static int add_rows(const char *name, const struct dsflow_option *o,
                    unsigned in, struct dsflow_err *err)
{
    char *own = dsf_xasprintf("%s.%s", name, o->key);
    struct dsf_table t = { own, o->help, o->keys, 0, o->size, o, in };
    int status = add_table(&t, err);

    free(own);
    return status < 0 ? dsflow_fail_in(err, status, o->key) : status;
}

int dsf_job_add_table(const char *name, const char *summary,
                      const struct dsflow_option *options, size_t size,
                      struct dsflow_err *err)
{
    struct dsf_table t = { name, summary, options, 0, size > 0 ? size : 1,
                           NULL, 0 };
    unsigned first = dsf_job_added_tables();
    int status = add_table(&t, err);

    for (const struct dsflow_option *o = options;
         status == DSFLOW_OK && o->key != NULL; o++)
        if (o->type == DSFLOW_TABLES)
            status = add_rows(name, o, first, err);
    if (status < 0)
        dsf_job_cut_tables(first);
    return status;
}

unsigned dsf_job_added_tables(void)
{
    add_builtin();
    return nadded;
}

void dsf_job_cut_tables(unsigned n)
{
    while (nadded > n) {
        nadded--;
        free((char *)added[nadded].name);
        free((char *)added[nadded].summary);
    }
}

void dsf_job_add_empty_parts(struct dsf_job *job, unsigned n)
{
    job->parts = dsf_xrealloc(job->parts, n + 1, sizeof(*job->parts));
    for (; job->nparts < n; job->nparts++) {
        const struct dsf_table *t = &added[job->nparts];

        /* Elements of one that repeats are in the part of its owner. */
        job->parts[job->nparts] =
            t->rows == NULL ? dsf_xcalloc(1, t->size + 1) : NULL;
    }
}

void dsf_job_add_parts(struct dsf_job *job)
{
    unsigned first = job->nparts;

    dsf_job_add_empty_parts(job, nadded);
    for (unsigned i = first; i < nadded; i++)
        if (job->parts[i] != NULL)
            dsf_options_default(added[i].options, job->parts[i]);
}

const void *dsf_job_fields(const struct dsf_job *job,
                           const struct dsf_table *table)
{
    return dsf_job_own_fields((struct dsf_job *)job, table);
}

void *dsf_job_own_fields(struct dsf_job *job, const struct dsf_table *table)
{
    size_t i = (size_t)(table - added);

    if (table->size == 0)
        return (char *)job + table->offset;
    return i < job->nparts ? job->parts[i] : NULL;
}

const struct dsf_table *dsf_table_owner(const struct dsf_table *table)
{
    return table->rows != NULL ? &added[table->in] : table;
}

/* The elements of a table that repeats; NULL: it came after the job. */
static const struct dsflow_tables *rows_of(const struct dsf_job *job,
                                           const struct dsf_table *t)
{
    const char *part = dsf_job_fields(job, dsf_table_owner(t));

    return part != NULL ? (const struct dsflow_tables *)(part + t->rows->offset)
                        : NULL;
}

unsigned dsf_job_rows(const struct dsf_job *job, const struct dsf_table *table)
{
    const struct dsflow_tables *rows;

    if (table->rows == NULL)
        return dsf_job_fields(job, table) != NULL;
    rows = rows_of(job, table);
    return rows != NULL ? rows->n : 0;
}

const void *dsf_job_row(const struct dsf_job *job,
                        const struct dsf_table *table, unsigned i)
{
    if (table->rows == NULL)
        return dsf_job_fields(job, table);
    return (const char *)rows_of(job, table)->v + i * table->size;
}

struct dsf_row_name dsf_row_name(const struct dsf_table *table, unsigned i)
{
    struct dsf_row_name name;

    if (table->rows != NULL)
        snprintf(name.s, sizeof(name.s), "%.100s[%u]", table->name, i);
    else
        snprintf(name.s, sizeof(name.s), "%.100s", table->name);
    return name;
}

void dsf_job_add_row(struct dsf_job *job, const struct dsf_table *table)
{
    struct dsflow_tables *rows = (struct dsflow_tables *)rows_of(job, table);
    char *row;

    rows->v = dsf_xrealloc(rows->v, rows->n + 1, table->size);
    row = (char *)rows->v + rows->n++ * table->size;
    memset(row, 0, table->size);
    dsf_options_default(table->options, row);
}

const void *dsf_job_part(const struct dsf_job *job,
                         const struct dsflow_option *options)
{
    for (unsigned i = 0; i < job->nparts && options != NULL; i++)
        if (added[i].options == options)
            return job->parts[i];
    return NULL;
}
