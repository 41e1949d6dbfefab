/* unknown.c - names that job.toml does not have, and what is meant by them. */
#include "config/unknown.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "config/job_tables.h"
#include "config/option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define OVERLAPS                                                               \
    "there is nothing to set: what the graph lets overlap does overlap"
#define A_STEP "a step has batch.sequences / batch.micro micro-batches"
#define OF_MACHINES "machine files, for dsflow plan --machine, have it"
#define TRACES "dsflow run --trace and dsflow trace show where the time goes"

/* Names of Hugging Face's config.json and TrainingArguments, of DeepSpeed's
 * JSON, and of scripts that people have; `ours` is a key, a table, or a
 * sentence. */
static const struct {
    const char *theirs, *ours;
} names[] = {
    /* the model */
    { "hidden_size", "model.width" },
    { "n_embd", "model.width" },
    { "d_model", "model.width" },
    { "embed_dim", "model.width" },
    { "num_layers", "model.layers" },
    { "num_hidden_layers", "model.layers" },
    { "n_layer", "model.layers" },
    { "n_layers", "model.layers" },
    { "num_attention_heads", "model.heads" },
    { "num_heads", "model.heads" },
    { "n_head", "model.heads" },
    { "n_heads", "model.heads" },
    { "num_key_value_heads", "model.kv_heads" },
    { "num_kv_heads", "model.kv_heads" },
    { "n_kv_heads", "model.kv_heads" },
    { "intermediate_size", "model.ffn_width" },
    { "ffn_hidden_size", "model.ffn_width" },
    { "ffn_dim", "model.ffn_width" },
    { "d_ff", "model.ffn_width" },
    { "n_inner", "model.ffn_width" },
    { "max_position_embeddings", "model.context" },
    { "n_positions", "model.context" },
    { "n_ctx", "model.context" },
    { "context_length", "model.context" },
    { "block_size", "model.context (of disks: memory.nvme.block)" },
    { "sliding_window", "model.window" },
    { "max_seq_len", "batch.sequence" },
    { "max_seq_length", "batch.sequence" },
    { "seq_len", "batch.sequence" },
    { "seq_length", "batch.sequence" },
    { "sequence_length", "batch.sequence" },
    { "vocab_size", "model.vocab" },
    { "rms_norm_eps", "model.norm_eps" },
    { "layer_norm_eps", "model.norm_eps" },
    { "layer_norm_epsilon", "model.norm_eps" },
    { "tie_word_embeddings", "model.tied" },
    { "attention_bias", "model.qkv_bias" },
    { "model_type", "model.family" },
    { "architectures", "model.family" },
    { "model_name_or_path", "model.init" },
    { "pretrained_model_name_or_path", "model.init" },
    { "attention_dropout", "model.dropout" },
    { "hidden_dropout", "model.dropout" },
    { "attn_pdrop", "model.dropout" },
    { "embd_pdrop", "model.dropout" },
    { "resid_pdrop", "model.dropout" },
    { "attn_implementation", "model.attention" },
    { "transformer", "[model]" },
    /* the text */
    { "dataset", "[data]" },
    { "datasets", "[data]" },
    { "train_file", "data.train" },
    { "train_data", "data.train" },
    { "train_files", "data.train" },
    { "training_data", "data.train" },
    { "data_path", "data.train" },
    { "dataset_path", "data.train" },
    { "validation_file", "data.validation_files" },
    { "validation_data", "data.validation_files" },
    { "eval_file", "data.validation_files" },
    { "validation_split", "data.validation" },
    { "validation_split_percentage", "data.validation" },
    { "tokenizer_name", "data.tokenizer" },
    { "tokenizer_path", "data.tokenizer" },
    { "tokenizer_name_or_path", "data.tokenizer" },
    /* the batch */
    { "batch_size", "batch.sequences" },
    { "global_batch_size", "batch.sequences" },
    { "train_batch_size", "batch.sequences" },
    { "micro_batch_size", "batch.micro" },
    { "train_micro_batch_size_per_gpu", "batch.micro" },
    { "per_device_train_batch_size", "batch.micro" },
    { "gradient_accumulation_steps", A_STEP },
    { "gradient_accumulation", A_STEP },
    { "grad_accum", A_STEP },
    /* the run */
    { "training", "[job], [batch] and [optimizer]" },
    { "trainer", "[job], [batch] and [optimizer]" },
    { "training_args", "[job], [batch] and [optimizer]" },
    { "max_steps", "job.steps" },
    { "num_steps", "job.steps" },
    { "total_steps", "job.steps" },
    { "train_steps", "job.steps" },
    { "train_iters", "job.steps" },
    { "max_iters", "job.steps" },
    { "iterations", "job.steps" },
    { "epochs", "job.steps, in updates of the weights" },
    { "num_epochs", "job.steps, in updates of the weights" },
    { "max_epochs", "job.steps, in updates of the weights" },
    { "num_train_epochs", "job.steps, in updates of the weights" },
    { "output_dir", "job.output" },
    { "out_dir", "job.output" },
    { "save_dir", "job.output" },
    { "run_name", "job.name" },
    { "job_name", "job.name" },
    { "random_seed", "job.seed" },
    { "data_seed", "job.seed" },
    { "logging_steps", "job.log_every" },
    { "log_interval", "job.log_every" },
    { "steps_per_print", "job.log_every" },
    { "save_steps", "checkpoint.every" },
    { "save_interval", "checkpoint.every" },
    { "checkpoint_interval", "checkpoint.every" },
    { "save_total_limit", "checkpoint.keep" },
    { "checkpointing", "[checkpoint]" },
    { "resume_from_checkpoint", "a run goes on with dsflow run --resume" },
    { "eval_steps", "validation.every" },
    { "eval_interval", "validation.every" },
    { "eval_iters", "validation.sequences" },
    { "evaluation", "[validation]" },
    { "eval", "[validation]" },
    { "max_new_tokens", "sample.tokens" },
    { "report_to", "trace.tensorboard" },
    { "wandb", "trace.tensorboard" },
    { "wall_clock_breakdown", TRACES },
    { "flops_profiler", TRACES },
    { "comms_logger", TRACES },
    { "profile", TRACES },
    /* the optimizer and its rate */
    { "learning_rate", "optimizer.lr" },
    { "base_lr", "optimizer.lr" },
    { "max_lr", "optimizer.lr" },
    { "warmup_max_lr", "optimizer.lr" },
    { "cycle_max_lr", "optimizer.lr" },
    { "lr_range_test_min_lr", "optimizer.lr" },
    { "optim", "optimizer.kind" },
    { "optimizer_type", "optimizer.kind" },
    { "adam", "optimizer.kind = \"adam\"" },
    { "adamw", "optimizer.kind = \"adamw\"" },
    { "sgd", "optimizer.kind = \"sgd\"" },
    { "lion", "optimizer.kind = \"lion\"" },
    { "adagrad", "optimizer.kind = \"adagrad\"" },
    { "beta1", "optimizer.betas" },
    { "beta2", "optimizer.betas" },
    { "adam_beta1", "optimizer.betas" },
    { "adam_beta2", "optimizer.betas" },
    { "adam_epsilon", "optimizer.eps" },
    { "epsilon", "optimizer.eps" },
    { "wd", "optimizer.weight_decay" },
    { "gradient_clipping", "optimizer.clip" },
    { "max_grad_norm", "optimizer.clip" },
    { "grad_clip", "optimizer.clip" },
    { "clip_grad", "optimizer.clip" },
    { "clip_grad_norm", "optimizer.clip" },
    { "scheduler", "[schedule] (of tasks: machine.scheduler)" },
    { "lr_scheduler", "schedule.kind" },
    { "lr_scheduler_type", "schedule.kind" },
    { "warmup_steps", "schedule.warmup" },
    { "num_warmup_steps", "schedule.warmup" },
    { "lr_warmup_steps", "schedule.warmup" },
    { "warmup_num_steps", "schedule.warmup" },
    { "warmup_iters", "schedule.warmup" },
    { "warmup_ratio", "schedule.warmup, in steps" },
    { "warmup_type", "schedule.warmup_shape" },
    { "warmup_min_lr", "schedule.warmup_ratio, as a share of optimizer.lr" },
    { "min_lr", "schedule.min_ratio, as a share of optimizer.lr" },
    { "cos_min_ratio", "schedule.min_ratio" },
    { "total_num_steps", "schedule.total" },
    { "lr_decay_iters", "schedule.total" },
    { "cycle_min_lr", "schedule.cycle_min_ratio, as a share of optimizer.lr" },
    { "cycle_first_step_size", "schedule.half_cycle" },
    { "cycle_second_step_size", "schedule.second_half_cycle" },
    { "decay_step_size", "schedule.decay_steps" },
    { "decay_lr_rate", "schedule.decay_rate" },
    { "lr_range_test_step_size", "schedule.range_steps" },
    { "lr_range_test_step_rate", "schedule.range_rate" },
    { "lr_range_test_staircase", "schedule.staircase" },
    /* precision */
    { "fp16", "precision.compute" },
    { "bf16", "precision.compute" },
    { "tf32", "precision.tf32" },
    { "allow_tf32", "precision.tf32" },
    { "amp", "precision.compute" },
    { "dtype", "precision.compute" },
    { "torch_dtype", "precision.compute" },
    { "precision", "precision.compute" },
    { "mixed_precision", "precision.compute" },
    { "data_types", "[precision]" },
    { "loss_scale", "precision.loss_scale" },
    { "initial_scale_power", "precision.initial_scale, 2 to that power" },
    { "loss_scale_window", "precision.scale_window" },
    { "hysteresis", "precision.hysteresis" },
    { "consecutive_hysteresis", "precision.consecutive_hysteresis" },
    { "min_loss_scale", "precision.min_scale" },
    { "torch_autocast", "precision.compute" },
    /* ranks and memory */
    { "parallel", "[mesh]" },
    { "parallelism", "[mesh]" },
    { "world_size", "mesh.data" },
    { "num_gpus", "mesh.data" },
    { "dp", "mesh.data" },
    { "dp_size", "mesh.data" },
    { "data_parallel_size", "mesh.data" },
    { "pp", "mesh.pipeline" },
    { "pp_size", "mesh.pipeline" },
    { "num_stages", "mesh.pipeline" },
    { "pipeline_parallel_size", "mesh.pipeline" },
    { "pipeline_model_parallel_size", "mesh.pipeline" },
    { "tp", "mesh.tensor" },
    { "tp_size", "mesh.tensor" },
    { "autotp_size", "mesh.tensor" },
    { "tensor_parallel", "mesh.tensor" },
    { "tensor_parallel_size", "mesh.tensor" },
    { "tensor_model_parallel_size", "mesh.tensor" },
    { "sp", "mesh.sequence" },
    { "sp_size", "mesh.sequence" },
    { "cp", "mesh.sequence" },
    { "sequence_parallel_size", "mesh.sequence" },
    { "context_parallel_size", "mesh.sequence" },
    { "zero_optimization", "[zero]" },
    { "zero_stage", "zero.stage" },
    { "stage3_prefetch_bucket_size", "zero.prefetch, in layers" },
    { "stage3_max_live_parameters", "zero.prefetch, in layers" },
    { "stage3_param_persistence_threshold", "zero.keep, in bytes" },
    { "overlap_comm", OVERLAPS },
    { "contiguous_gradients", OVERLAPS },
    { "reduce_bucket_size", OVERLAPS },
    { "allgather_bucket_size", OVERLAPS },
    { "allgather_partitions", OVERLAPS },
    { "reduce_scatter", OVERLAPS },
    { "round_robin_gradients", OVERLAPS },
    { "pin_memory", OVERLAPS },
    { "offload_optimizer", "offload.optimizer" },
    { "cpu_offload", "offload.optimizer" },
    { "offload_param", "offload.params" },
    { "offload_params", "offload.params" },
    { "cpu_checkpointing", "offload.activations" },
    { "sub_group_size", "offload.piece" },
    { "buffer_count", "offload.read_ahead" },
    { "buffer_size", "offload.piece" },
    { "aio", "[memory.nvme]" },
    { "nvme_path", "memory.nvme.path" },
    { "queue_depth", "memory.nvme.depth" },
    { "activation_checkpointing", "recompute.what" },
    { "gradient_checkpointing", "recompute.what" },
    { "partition_activations", "mesh.tensor, with which each rank has a part" },
    { "num_workers", "machine.workers" },
    { "num_threads", "machine.workers" },
    { "dataloader_num_workers", "machine.workers" },
    { "disk", OF_MACHINES },
    { "link", OF_MACHINES },
    { "network", OF_MACHINES },
    { "kinds", OF_MACHINES },
    { "scatter", OF_MACHINES },
};

/* Letters as in the list above. */
static char plain(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static const char *find_ours(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *a = names[i].theirs, *b = name;

        while (*b != '\0' && *a == plain(*b)) {
            a++;
            b++;
        }
        if (*a == '\0' && *b == '\0')
            return names[i].ours;
    }
    return NULL;
}

/* A key or a table, and not a sentence. */
static bool is_name(const char *ours)
{
    return ours[0] == '[' || ours[strcspn(ours, " ")] == '\0' ||
           strcspn(ours, ".") < strcspn(ours, " ");
}

/* The tables that have the key: "optimizer.lr", "job.seed or sample.seed". */
static void add_tables(struct dsf_meant *m, const char *key)
{
    const struct dsf_table *t;
    size_t n = 0;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (dsf_option_find(t->options, key) != NULL && n < sizeof(m->s))
            n += (size_t)snprintf(m->s + n, sizeof(m->s) - n, "%s%s.%s",
                                  n == 0 ? "it is " : " or ", t->name, key);
}

struct dsf_meant dsf_meant(const char *name)
{
    const char *ours = find_ours(name);
    struct dsf_meant m = { "" };

    if (ours != NULL)
        snprintf(m.s, sizeof(m.s), "%s%s", is_name(ours) ? "dsflow's is " : "",
                 ours);
    else if (name[0] != '\0')
        add_tables(&m, name);
    return m;
}

static struct dsf_meant nearest(const char *name, const char *const *known,
                                unsigned n)
{
    const char *near = dsf_nearest(name, known, n);
    struct dsf_meant m = { "" };

    if (near != NULL)
        snprintf(m.s, sizeof(m.s), "did you mean %s?", near);
    return m;
}

/* The key that the name of a table begins with, "schedule.warmup.x", and the
 * table that has it; NULL: none. */
static const struct dsflow_option *find_key(const char *name,
                                            const struct dsf_table **table)
{
    const struct dsflow_option *found = NULL;

    for (const char *dot = strchr(name, '.'); dot != NULL && found == NULL;
         dot = strchr(dot + 1, '.')) {
        char *outer = dsf_xstrndup(name, (size_t)(dot - name));
        char *key = dsf_xstrndup(dot + 1, strcspn(dot + 1, "."));

        *table = dsf_job_find_table(outer);
        if (*table != NULL)
            found = dsf_option_find((*table)->options, key);
        free(outer);
        free(key);
    }
    return found;
}

int dsf_unknown_table(const char *place, const char *name,
                      struct dsflow_err *err)
{
    enum { MOST = 64 };
    char *own = dsf_xstrndup(name, strcspn(name, "[")); /* without its place */
    const char *known[MOST], *dot = strrchr(own, '.');
    struct dsf_meant m = dsf_meant(dot != NULL ? dot + 1 : own);
    const struct dsf_table *t;
    const struct dsflow_option *o = find_key(own, &t);
    unsigned n = 0;
    int status;

    if (o != NULL) {
        free(own);
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: %s: a table: expected %s", place, t->name,
                           o->key, dsf_option_expected(o).s);
    }
    for (unsigned i = 0; n < MOST && (t = dsf_job_table_at(i)) != NULL; i++)
        known[n++] = t->name;
    if (m.s[0] == '\0')
        m = nearest(own, known, n);
    status = dsflow_fail(err, DSFLOW_EINVAL, "%s: [%.60s]: unknown table%s%s",
                         place, own, m.s[0] != '\0' ? "; " : "", m.s);
    free(own);
    return status;
}

/* A table that is written as if it were a key. */
static int expects_table(const char *place, const struct dsf_table *t,
                         struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %s: expected a table, which begins with [%s]",
                       place, t->name, t->name);
}

int dsf_unknown_key(const char *place, const struct dsf_table *table,
                    const char *key, struct dsflow_err *err)
{
    enum { MOST = 64 };
    struct dsf_meant m = dsf_meant(key);
    char *inner = dsf_xasprintf("%s.%s", table->name, key);
    const struct dsf_table *t = dsf_job_find_table(inner);
    const char *known[MOST];
    unsigned n = 0;

    free(inner);
    if (t != NULL && t->rows == NULL)
        return expects_table(place, t, err);
    for (const struct dsflow_option *o = table->options;
         o->key != NULL && n < MOST; o++)
        known[n++] = o->key;
    if (m.s[0] == '\0')
        m = nearest(key, known, n);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %.60s: unknown key%s%s",
                       place, table->name, key[0] != '\0' ? key : "\"\"",
                       m.s[0] != '\0' ? "; " : "", m.s);
}

int dsf_key_alone(const char *place, const char *key, struct dsflow_err *err)
{
    const struct dsf_table *t = dsf_job_find_table(key);
    struct dsf_meant m = { "" };

    if (t != NULL)
        return expects_table(place, t, err);
    m = dsf_meant(key);
    return dsflow_fail(
        err, DSFLOW_EINVAL, "%s: %.60s: expected in a table such as [job]%s%s",
        place, key[0] != '\0' ? key : "\"\"", m.s[0] != '\0' ? "; " : "", m.s);
}
