/* megatron_private.h - what the files of the reader of Megatron-LM share. */
#ifndef DSF_FOREIGN_MEGATRON_PRIVATE_H
#define DSF_FOREIGN_MEGATRON_PRIVATE_H

#include "foreign/megatron.h"
#include "foreign/merge.h"
#include "torch/torch.h"

/* --- the files (megatron_folder.c) ---------------------------------------- */

enum dsf_megatron_layout {
    DSF_MEGATRON_MODEL_OPTIM, /* mp_rank_00/model_optim_rng.pt */
    DSF_MEGATRON_MODEL,       /* mp_rank_00/model_rng.pt: the optimizer's are
                                 elsewhere */
    DSF_MEGATRON_DEEPSPEED,   /* mp_rank_00_model_states.pt */
};

/* Those of one iteration: of tensor rank t and stage s at [s * tensor + t]. */
struct dsf_megatron_folder {
    char *path;
    enum dsf_megatron_layout layout;
    int tensor, stages;
    char **files;
    bool distributed; /* distrib_optim.pt, optim.pt are beside */
};

int dsf_megatron_folder_open(struct dsf_megatron_folder *f, const char *path,
                             const char *tag, struct dsflow_err *err);
void dsf_megatron_folder_fini(struct dsf_megatron_folder *f);

/* The file of a rank, in its layout, as of a pipeline where `staged`; freed by
 * the caller. */
char *dsf_megatron_name_file(const struct dsf_megatron_folder *f, int tensor,
                             int stage, bool staged);

/* --- what tensor ranks have of a tensor (megatron_model.c) ---------------- */

/* How a tensor is joined, and what each rank has of its states, or NULL. */
struct dsf_shared {
    struct dsf_merge merge;
    struct dsf_shard {
        const struct dsf_torch_file *file;
        const struct dsf_torch_tensor *state[DSF_SOURCE_STATES];
    } * shards;
};

/* A parameter of one file, in the order of the model. */
struct dsf_megatron_param {
    size_t tensor; /* of the source */
    bool is_vector;
    const struct dsf_torch_tensor *is; /* as the model has it */
};

struct dsf_megatron_file {
    struct dsf_torch_file *torch;
    int tensor; /* its rank */
    struct dsf_megatron_param *params;
    size_t nparams, cap;
};

struct dsf_megatron {
    struct dsf_megatron_folder folder;
    struct dsf_megatron_file *files; /* as in the folder */
    struct dsf_shared *tensors;      /* as those of the source */
    size_t n, cap;
    int version; /* of checkpoints: 0, 1, 2 or 3 */
    const struct dsf_torch_file *first;
    const struct dsf_torch_node *args; /* of it, or NULL */
};

/* Add every tensor of all files to the source, and to `m`. */
int dsf_megatron_take_model(struct dsf_source *s, struct dsf_megatron *m,
                            struct dsflow_err *err);

/* Are there queries, keys and values as Megatron has them in a tree? */
bool dsf_megatron_has_qkv(const struct dsf_torch_node *module);

/* --- the optimizer (megatron_optim.c) ------------------------------------- */

/* Find masters and moments, and how far the optimizer was. Files that have none
 * are refused. */
int dsf_megatron_optimizer(struct dsf_source *s, struct dsf_megatron *m,
                           struct dsflow_err *err);

/* --- args (megatron_args.c) ----------------------------------------------- */

/* A flag or a number of them; the fallback where they are not there. */
bool dsf_megatron_flag(const struct dsf_megatron *m, const char *key,
                       bool fallback);
double dsf_megatron_number(const struct dsf_megatron *m, const char *key,
                           double fallback);

/* As dsf_megatron_model. */
unsigned dsf_megatron_keys(const struct dsf_megatron *m,
                           char *sets[DSF_MEGATRON_SETS]);

/* What the files say of the model and the job has otherwise, a line each. */
void dsf_megatron_check(const struct dsf_source *s,
                        const struct dsf_model *model,
                        void (*say)(void *user, const char *line), void *user);

#endif
