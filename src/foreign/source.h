/* source.h - a checkpoint of another program, whoever wrote it: named tensors,
 * of each the weights and the moments of the optimizer, and how far the run
 * was. A reader (zero.h, …) makes one; match.h says which tensors of a job they
 * are. Nothing but names and shapes is in memory. */
#ifndef DSF_FOREIGN_SOURCE_H
#define DSF_FOREIGN_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

/* What there may be of a tensor. */
enum dsf_source_state {
    DSF_SOURCE_WEIGHT, /* the fp32 master, where one is kept */
    DSF_SOURCE_FIRST,  /* "exp_avg", "momentum_buffer" */
    DSF_SOURCE_SECOND, /* "exp_avg_sq", "sum" */
    DSF_SOURCE_STATES,
};

struct dsf_model;

/* Which names tensors have. */
enum dsf_source_names {
    DSF_NAMES_HF,       /* Hugging Face's */
    DSF_NAMES_MEGATRON, /* "language_model.encoder.layers.3.…" */
};

struct dsf_source_tensor {
    char *name; /* as it is there */
    unsigned ndims;
    int64_t dims[8];
    unsigned has; /* bits 1 << enum dsf_source_state */
    bool frozen;  /* it was not trained: its moments are zeroes */
    bool again;   /* another one has the same numbers: nobody must want it */
    size_t at;    /* the reader's own */
};

/* The dynamic loss scale of fp16. */
struct dsf_source_scale {
    bool is_there;
    double scale;
    int64_t steps, last_overflow, hysteresis;
};

struct dsf_source {
    char *path;    /* as it is named in messages */
    char *prefix;  /* what stands before all names; NULL: it is to be found */
    char what[96]; /* "DeepSpeed, ZeRO 2, 4 ranks" */
    enum dsf_source_names names;
    struct dsf_source_tensor *tensors;
    size_t n, cap;

    /* How far the run was; -1: it does not say. */
    int64_t steps;      /* batches that were trained on */
    int64_t skipped;    /* of them without an update */
    int64_t updates;    /* that the optimizer counts */
    int64_t samples;    /* sequences seen */
    char optimizer[64]; /* the class, as there; "": it does not say */
    double lr;          /* of the last update; NaN: it does not say */
    double betas[2], eps, weight_decay; /* NaN; the decay: of what decays */
    double least_decay;                 /* of all groups of parameters; NaN */
    double momentum;                    /* of Muon; NaN */
    bool clips_updates; /* of Muon: not gradients, but what is made of them */
    struct dsf_source_scale scale;

    /* How Megatron has query_key_value: rows [3][heads][head] (0),
     * [heads][head] [3] (1) or [heads][3][head], grouped: [groups][queries +
     * 2][head] (2). */
    int qkv;
    /* Rows of the vocabulary that are padding may follow those of the job. */
    bool padded_vocabulary;

    void *of; /* the reader's own */
    /* Elements [first, first + n) of `state` of the tensor as fp32, in the
     * order of its rows. It has this state, and that many. */
    int (*read)(struct dsf_source *s, const struct dsf_source_tensor *t,
                enum dsf_source_state state, int64_t first, size_t n, float *to,
                struct dsflow_err *err);
    void (*close)(struct dsf_source *s); /* what `of` holds */
    /* Or NULL: a line for each thing that is said there of the model, which no
     * name or shape shows, and that the job has otherwise. */
    void (*check)(const struct dsf_source *s, const struct dsf_model *model,
                  void (*say)(void *user, const char *line), void *user);
};

/* Empty: nothing is known. */
void dsf_source_init(struct dsf_source *s, const char *path);
void dsf_source_fini(struct dsf_source *s); /* closes it */

/* One tensor more, of no shape yet; its name is copied. It moves when the next
 * one is added. */
struct dsf_source_tensor *dsf_source_add(struct dsf_source *s,
                                         const char *name);
struct dsf_source_tensor *dsf_source_find(const struct dsf_source *s,
                                          const char *name); /* or NULL */
int64_t dsf_source_elems(const struct dsf_source_tensor *t);
const char *dsf_source_state_str(enum dsf_source_state state);

#endif
