/* job.h - a job: every table of job.toml as a structure. */
#ifndef DSF_CONFIG_JOB_H
#define DSF_CONFIG_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <dsflow/error.h>
#include <dsflow/option.h>

#include "config/axes.h"
#include "config/choice.h"

struct dsf_job_main { /* [job] */
    char *name;
    int64_t steps, seed;
    char *output; /* folder of the run; relative to where dsflow is started */
    int64_t log_every;
};

#define DSF_FAMILIES(X) X(DSF_GPT2, "gpt2") X(DSF_LLAMA, "llama")
enum dsf_family { DSF_FAMILIES(DSF_CHOICE_VALUE) };

#define DSF_ROPE_SCALINGS(X)                                                   \
    X(DSF_ROPE_AS_IS, "none") X(DSF_ROPE_LLAMA3, "llama3")
enum dsf_rope_scaling { DSF_ROPE_SCALINGS(DSF_CHOICE_VALUE) };

enum { DSF_MOST_HEAD_DIM = 4096 }; /* width of an attention head */

/* [model]. Numbers that are -1 ("auto") follow from the others, or from the
 * config.json of `init`. */
struct dsf_job_model {
    char *init; /* "random", or a Hugging Face folder */
    int family; /* enum dsf_family */
    int64_t layers, heads, kv_heads, head_dim, width, ffn_width, context, vocab;
    double norm_eps, rope_theta, dropout; /* dropout: only 0 is accepted */
    bool tied, qkv_bias;
    int64_t window; /* tokens that a token sees; 0: all before it; -1: auto */
    char *window_layers; /* of which layers: config/layer_list.h */
    int rope_scaling; /* enum dsf_rope_scaling */
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_context;
    /* What computes each segment: "builtin", or a name that a plug-in brings.
     */
    struct dsflow_strings segments; /* of a block, in order */
    char *embed, *qkv, *attention, *out, *mlp, *head;
    bool from_run; /* init is a run, whose numbers are filled in: no key */
};

#define DSF_SPARSE_ATTENTIONS(X)                                               \
    X(DSF_SPARSE_AUTO, "auto")                                                 \
    X(DSF_SPARSE_BIDIRECTIONAL, "bidirectional")                               \
    X(DSF_SPARSE_UNIDIRECTIONAL, "unidirectional")
enum dsf_sparse_attention { DSF_SPARSE_ATTENTIONS(DSF_CHOICE_VALUE) };

struct dsf_job_sparse { /* [sparse_attention] */
    char *mode;         /* the name of a layout */
    int64_t block;      /* tokens */
    bool different_layout_per_head;
    int64_t num_local_blocks, num_global_blocks, num_different_global_patterns;
    bool horizontal_global_attention;
    int64_t num_random_blocks; /* of a row; -1: auto */
    struct dsflow_ints local_window_blocks;
    struct dsflow_ints global_block_indices;
    struct dsflow_ints global_block_end_indices; /* none: they are no ranges */
    int64_t num_sliding_window_blocks;
    int attention; /* enum dsf_sparse_attention */
    char *layers;  /* config/layer_list.h */
    int64_t seed;
};

/* As the quantizers of kernels/fake_quantize.h. */
#define DSF_INPUT_QUANTIZERS(X)                                                \
    X(DSF_INPUTS_EXACT, "none")                                                \
    X(DSF_INPUTS_SYMMETRIC, "symmetric")                                       \
    X(DSF_INPUTS_ASYMMETRIC, "asymmetric")
enum dsf_input_quantizer { DSF_INPUT_QUANTIZERS(DSF_CHOICE_VALUE) };

struct dsf_job_activations { /* [activations] */
    int quantize;            /* enum dsf_input_quantizer */
    int64_t bits;
    int64_t group; /* numbers of a token that share a scale; 0: all */
    int64_t quantize_from; /* updates before they are */
};

struct dsf_job_data { /* [data] */
    struct dsflow_strings train; /* files and globs */
    struct dsflow_strings validation_files; /* instead of a share of train */
    char *tokenizer; /* "bytes", a tokenizer.json, or a folder with one, or
                        with encoder.json + vocab.bpe, vocab.json + merges.txt */
    char *text_field; /* of JSON Lines; "": files are texts */
    bool begin;      /* a token of the tokenizer's before each text */
    double validation; /* share of the tokens kept for validation */
    bool shuffle;
};

#define DSF_ORDERS(X)                                                          \
    X(DSF_ORDER_AUTO, "auto")                                                  \
    X(DSF_MICRO_MAJOR, "micro_major") X(DSF_LAYER_MAJOR, "layer_major")
enum dsf_order { DSF_ORDERS(DSF_CHOICE_VALUE) };

struct dsf_job_batch { /* [batch] */
    int64_t sequences;  /* of one step */
    int64_t micro;      /* sequences of one micro-batch; -1: auto */
    int64_t sequence;   /* tokens of a sequence; -1: the model's context */
    int64_t groups;     /* of micro-batches whose gradients are summed apart;
                           -1: mesh.data */
    int64_t sequence_groups; /* of the tokens of each sequence; -1:
                                mesh.sequence */
    int order;          /* enum dsf_order */
    int64_t tile;       /* tokens of a task; -1: auto */
    int64_t key_tiles;  /* tiles of keys that a task takes; -1: auto */
    int64_t head_columns; /* of the vocabulary, of which a task has logits at a
                             time; 0: all */
    int64_t in_flight;  /* micro-batches whose activations are kept; -1 auto */
};

struct dsf_job_optimizer { /* [optimizer] */
    char *kind;            /* the name of an optimizer */
    double lr, betas[2], eps, weight_decay, clip, momentum;
    bool nesterov, bias_correction;
};

#define DSF_WARMUP_SHAPES(X)                                                   \
    X(DSF_WARMUP_LINEAR, "linear") X(DSF_WARMUP_LOG, "log")
enum dsf_warmup_shape { DSF_WARMUP_SHAPES(DSF_CHOICE_VALUE) };

struct dsf_job_schedule { /* [schedule] */
    char *kind;           /* the name of a schedule of the learning rate */
    int64_t warmup;
    int warmup_shape;        /* enum dsf_warmup_shape */
    double warmup_ratio;     /* first lr as a share of lr */
    double min_ratio;        /* at the end, as a share of lr */
    int64_t total;           /* steps the schedule is stretched over; -1: all */
    int64_t half_cycle, second_half_cycle, decay_steps; /* one_cycle */
    double cycle_min_ratio, decay_rate;
    int64_t range_steps; /* range_test */
    double range_rate;
    bool staircase;
};

enum dsf_on_nonfinite { DSF_STOP_RUN, DSF_SKIP_STEP };

struct dsf_job_train { /* [train] */
    int on_nonfinite;  /* enum dsf_on_nonfinite */
};

struct dsf_job_validation { /* [validation] */
    int64_t every;     /* steps; 0: only at the end */
    int64_t sequences; /* at most; -1: all */
};

struct dsf_job_checkpoint { /* [checkpoint] */
    struct dsflow_every every; /* never: only at the end */
    int64_t keep;              /* newest ones; 0: all */
    bool at_end;
};

struct dsf_job_sample { /* [sample]: text printed at the end of a run */
    char *prompt;
    int64_t tokens; /* 0: none */
    double temperature, top_p;
    int64_t top_k, seed;
};

#define DSF_TRANSPORTS(X)                                                      \
    X(DSF_TRANSPORT_AUTO, "auto")                                              \
    X(DSF_TRANSPORT_MPI, "mpi") X(DSF_TRANSPORT_NCCL, "nccl")
enum dsf_transport { DSF_TRANSPORTS(DSF_CHOICE_VALUE) };

#define DSF_SEQUENCE_KINDS(X)                                                  \
    X(DSF_SEQUENCE_AUTO, "auto")                                               \
    X(DSF_SEQUENCE_KEYS, "keys") X(DSF_SEQUENCE_HEADS, "heads")
enum dsf_sequence_kind { DSF_SEQUENCE_KINDS(DSF_CHOICE_VALUE) };

struct dsf_job_mesh { /* [mesh]: ranks along each axis of the table */
    int64_t size[DSF_MAX_AXES];
    int transport;     /* enum dsf_transport */
    int sequence_kind; /* enum dsf_sequence_kind */
    int64_t key_slots; /* tiles; -1: auto */
};

struct dsf_job_memory { /* [memory]: bytes of one rank; -1: what there is */
    int64_t device, host;
};

struct dsf_job_nvme { /* [memory.nvme] */
    struct dsflow_strings path; /* folders; bytes are striped over them */
    int64_t size;  /* bytes of the files in all; -1: what is free */
    int64_t block; /* bytes of one request */
    int64_t depth; /* requests in flight, of reads and of writes, per path */
    bool verify;   /* checksums of what is written, checked when it is read */
};

struct dsf_job_machine { /* [machine] */
    int64_t workers;  /* CPU workers; -1: one per core */
    int64_t virtuals; /* key "virtual": virtual devices */
    int64_t virtual_memory; /* bytes of each; -1: no limit */
    int64_t virtual_link;   /* bytes a second of their links; -1: no limit */
    int64_t gpus;           /* 0: none; -1: all that the driver shows */
    char *scheduler;  /* of StarPU; "auto" */
};

struct dsf_job_run { /* [run] */
    int64_t patience; /* seconds */
    int64_t whole;    /* tasks */
};

struct dsf_job_trace { /* [trace] */
    struct dsflow_ints steps; /* first and last; none: no trace */
    bool tensorboard;         /* event files, beside metrics.jsonl */
};

struct dsf_job_codelets {       /* [codelets] */
    struct dsflow_strings load; /* libraries; relative to where dsflow starts */
};

#define DSF_MAX_POLICIES 24

/* Where a key was set, so that a later check can still name the line. */
struct dsf_job_where;

struct dsf_job {
    char *path; /* as the user wrote it */
    struct dsf_job_main main;
    struct dsf_job_model model;
    struct dsf_job_sparse sparse;
    struct dsf_job_activations activations;
    struct dsf_job_data data;
    struct dsf_job_batch batch;
    struct dsf_job_optimizer optimizer;
    struct dsf_job_schedule schedule;
    struct dsf_job_train train;
    struct dsf_job_validation validation;
    struct dsf_job_checkpoint checkpoint;
    struct dsf_job_sample sample;
    struct dsf_job_mesh mesh;
    struct dsf_job_memory memory;
    struct dsf_job_nvme nvme;
    struct dsf_job_machine machine;
    struct dsf_job_run run;
    struct dsf_job_trace trace;
    struct dsf_job_codelets codelets;
    void **parts; /* of the tables that were added, in their order */
    unsigned nparts;
    struct dsf_job_where *where;
};

/* One table of job.toml. */
struct dsf_table {
    const char *name, *summary;
    const struct dsflow_option *options;
    size_t offset; /* of its structure in struct dsf_job, or … */
    size_t size;   /* … of the part that was added; 0: it is in the job */

    /* It repeats, [[name]]: the option of another table that was added (`in`,
     * its place among them), whose field has its elements. NULL: it does not.
     */
    const struct dsflow_option *rows;
    unsigned in;
};

/* The i-th table, in the order of the manual, then those that were added, each
 * with the tables that repeat in it behind it; NULL past the last. */
const struct dsf_table *dsf_job_table_at(unsigned i);

/* A table for a component that a plug-in brings: keys that a job read from now
 * on may have. `options` is borrowed for good; `name` and `summary` are copied.
 * They fill `size` bytes, which dsf_job_part finds. */
int dsf_job_add_table(const char *name, const char *summary,
                      const struct dsflow_option *options, size_t size,
                      struct dsflow_err *err);
/* How many were added; and forget all but the first n. */
unsigned dsf_job_added_tables(void);
void dsf_job_cut_tables(unsigned n);

/* What the table of `options` filled; NULL where it was not added, or is NULL.
 */
const void *dsf_job_part(const struct dsf_job *job,
                         const struct dsflow_option *options);

/* Has that table, if it was added, all keys that must be given? */
int dsf_job_check_part(const struct dsf_job *job,
                       const struct dsflow_option *options,
                       struct dsflow_err *err);

/* Load the library at `path`: what a job asks for with codelets.load. */
typedef int (*dsf_load_fn)(const char *path, struct dsflow_err *err);

/* Read `path` and then the `nsets` overrides "table.key=value" (the value as
 * in TOML; a bare word is taken as a string). Every message names the file and
 * line ("job.toml:12: batch: micro: 0: expected 1 to 65536") or the override
 * ("--set batch.micro=0: expected …"). Paths in the job stay as written. The
 * libraries of codelets.load are loaded first, as they may bring tables and
 * names. */
int dsf_job_read(const char *path, const char *const *sets, unsigned nsets,
                 dsf_load_fn load, struct dsf_job *job, struct dsflow_err *err);
/* The same from memory; `path` is for messages only, and where `load` is NULL a
 * job with plug-ins is refused. */
int dsf_job_parse(const char *text, size_t bytes, const char *path,
                  const char *const *sets, unsigned nsets, dsf_load_fn load,
                  struct dsf_job *job, struct dsflow_err *err);
/* The same of what dsf_job_write wrote, of the job at `path`: messages name no
 * line, as its lines are not those of the file. */
int dsf_job_parse_written(const char *text, size_t bytes, const char *path,
                          dsf_load_fn load, struct dsf_job *job,
                          struct dsflow_err *err);
/* The table [job] alone, nothing else read, checked or loaded: what a run is
 * called, and how long it is. */
int dsf_job_read_main(const char *path, struct dsf_job *job,
                      struct dsflow_err *err);
void dsf_job_fini(struct dsf_job *job);

/* Who says what a key is: somebody, as with --set; or it follows from the rest,
 * or from the run that model.init names, and then dsf_job_has and dsf_job_write
 * do not know of it. */
enum dsf_said { DSF_GIVEN, DSF_FOLLOWS, DSF_FROM_RUN };

/* A job is not changed once it was read. This makes another one, `from` with
 * the `nsets` settings "table.key=value" in the place of what it says. */
int dsf_job_with(const struct dsf_job *from, enum dsf_said said,
                 const char *const *sets, unsigned nsets, struct dsf_job *job,
                 struct dsflow_err *err);

/* The keys that were given, with the values that counted, as TOML that reads
 * back to the same job. */
int dsf_job_write(const struct dsf_job *job, FILE *out);

/* Was the key given in the file or by --set? (In this and in all that follows
 * the table may be an element of one that repeats: "name[0]".) */
bool dsf_job_has(const struct dsf_job *job, const char *table,
                 const char *key);
/* By --set, or by who read the job and passed it on (dsf_job_parse_written)? */
bool dsf_job_has_set(const struct dsf_job *job, const char *table,
                     const char *key);

/* Ranks of its mesh; whoever plans refuses too many. */
double dsf_job_ranks(const struct dsf_job *job);

/* The keys that two jobs have other values of, defaults included. Values are as
 * one writes them. */
void dsf_job_compare(const struct dsf_job *a, const struct dsf_job *b,
                     void (*each)(void *user, const char *table,
                                  const char *key, const char *in_a,
                                  const char *in_b),
                     void *user);

/* A message about a value that turned out wrong later, with the place where it
 * was set in front: "job.toml:3: model: heads: 5: expected a divisor of width
 * 128". Returns `status`. Where the key has its default, the place is the file
 * alone. */
int dsf_job_fail(const struct dsf_job *job, struct dsflow_err *err, int status,
                 const char *table, const char *key, const char *fmt, ...)
    DSFLOW_PRINTF(6, 7);

#endif
