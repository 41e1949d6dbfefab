/* job_keys_training.c - the keys of job.toml that say on what a model is
 * trained, and how. */
#include "config/job_keys.h"

/* Conditions that several keys have. */
#define WARMS_UP   "schedule.kind = warmup|warmup_cosine|warmup_linear"
#define ONE_CYCLE  "schedule.kind = one_cycle"
#define RANGE_TEST "schedule.kind = range_test"

#define MAIN struct dsf_job_main
const struct dsflow_option dsf_main_options[] = {
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

#define DATA struct dsf_job_data
const struct dsflow_option dsf_data_options[] = {
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, train, "[]",
                     "text files to train on, each once, in the order of their "
                     "paths; * ? [ ] match many"),
    DSFLOW_OPTION_OF(DSFLOW_STRINGS, DATA, validation_files, "[]",
                     "text files to validate on, instead of a share of train"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, DATA, text_field, "\"\"",
                     "the files are JSON Lines, and the string of this name in "
                     "each line is a text; \"\": a file is a text"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, DATA, tokenizer, "\"bytes\"",
                     "\"bytes\", a tokenizer.json, or a folder that has one or "
                     "GPT-2's two files; where it is not given and the folder "
                     "of model.init has a tokenizer, that one"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, DATA, begin, "false",
                     "the token that the tokenizer puts before a text (LLaMA's "
                     "<s>) is put before each text, and before what text is "
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
const struct dsflow_option dsf_batch_options[] = {
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
const struct dsflow_option dsf_optimizer_options[] = {
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
const struct dsflow_option dsf_schedule_options[] = {
    DSFLOW_OPTION_NAME(SCHEDULE, kind, "\"constant\"", dsf_job_schedule_name,
                       "course of the learning rate; plug-ins bring more"),
    DSFLOW_OPTION_INT(SCHEDULE, warmup, "0", 0, MANY,
                      "steps up to the full rate; 1 counts as 2 (DeepSpeed)",
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
const struct dsflow_option dsf_train_options[] = {
    DSFLOW_OPTION_CHOICE(TRAIN, on_nonfinite, "\"stop\"", on_nonfinite,
                         "a step whose loss or gradient is not finite: stop: "
                         "it ends the run; skip: it updates nothing and does "
                         "not count for the schedule, and its batch is not "
                         "read again. With optimizer.clip = 0 updates wait for "
                         "the whole gradient only where steps are skipped"),
    { 0 },
};
