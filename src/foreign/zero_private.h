/* zero_private.h - what the readers of DeepSpeed's layouts share. */
#ifndef DSF_FOREIGN_ZERO_PRIVATE_H
#define DSF_FOREIGN_ZERO_PRIVATE_H

#include "foreign/folder.h"
#include "foreign/pieces.h"
#include "foreign/state_dict.h"

/* A parameter of a module, by its name there. */
struct dsf_zero_param {
    char *name;
    const struct dsf_torch_file *file;
    const struct dsf_torch_node *node; /* a tensor of it */
    int group;                         /* of the optimizer */
    uint32_t place;                    /* in the group */
    bool known;                        /* of a stage before, too: tied */
};

struct dsf_zero_source {
    struct dsf_folder folder;
    struct dsf_source *source;
    bool weights_only;
    /* The model's file of a model rank, the first of several. */
    const struct dsf_torch_file *model;
    const struct dsf_torch_node *root; /* of it */
    int rank;                          /* the model rank */
    /* What it says of how tensor ranks share tensors, or NULL. */
    const struct dsf_torch_file *info_of;
    const struct dsf_torch_node *info; /* universal_checkpoint_info */
    int tensor, tensors;               /* the tensor rank, of so many */
    int stage;
    size_t before; /* tensors of the source that model ranks before had */
    /* Of a pipeline without ZeRO: what its layers have, and how much of it
     * model ranks before had. */
    struct dsf_zero_param *layers;
    size_t nlayers, used, first; /* first: so many are of the first layer */
};

/* The optimizer's files of one model rank, in order. */
struct dsf_zero_shards {
    size_t n; /* ranks of data */
    const struct dsf_torch_file **files;
    const struct dsf_torch_node **states; /* optimizer_state_dict of each */
};

/* A shape, torch.Size or a list, of a tensor that is there for the first time,
 * or has this shape. */
int dsf_zero_shape(struct dsf_zero_source *z, const struct dsf_torch_file *file,
                   const struct dsf_torch_node *shape,
                   struct dsf_source_tensor *t, struct dsflow_err *err);

/* The whole of a tensor in the model's file, as `state`; with its shape. */
int dsf_zero_whole(struct dsf_zero_source *z, const struct dsf_torch_file *file,
                   const char *name, const struct dsf_torch_node *node,
                   enum dsf_source_state state, struct dsflow_err *err);

/* What the model's file says: steps, samples, the kind of optimizer. */
int dsf_zero_numbers(struct dsf_zero_source *z, struct dsflow_err *err);

/* The dynamic loss scale in `in`: the scaler of ZeRO's optimizers, or the dict
 * of FP16_Optimizer, which has the same numbers. */
void dsf_zero_scale(struct dsf_zero_source *z,
                    const struct dsf_torch_file *file,
                    const struct dsf_torch_node *in);

/* Names that have the numbers of others. */
int dsf_zero_shared(struct dsf_zero_source *z, struct dsflow_err *err);

/* Tensors of the module that the optimizer does not have: frozen ones. */
int dsf_zero_frozen(struct dsf_zero_source *z,
                    const struct dsf_zero_shards *shards,
                    struct dsflow_err *err);

/* Has a model rank before had this tensor? It is tied. */
bool dsf_zero_is_known(const struct dsf_zero_source *z,
                       const struct dsf_source_tensor *t);

/* zero_layers.c: every tensor of the files of layers of the tensor rank,
 * "3.attn.c_attn.weight". */
int dsf_zero_layers(struct dsf_zero_source *z, struct dsflow_err *err);

/* zero_joined.c: `out` is made of what the tensor ranks have, which belong to
 * it from then on; `first` has read the first of them. Names are those of
 * layers by number, still; `rename` gives them others. Errors: DSFLOW_EINVAL,
 * DSFLOW_ENOSYS where nothing says how they share a tensor. */
int dsf_zero_join(const struct dsf_zero_source *first, struct dsf_source *ranks,
                  int n, void (*rename)(struct dsf_source *s),
                  struct dsf_source *out, struct dsflow_err *err);

/* zero_flat.c: ZeRO 1 and 2, and BF16_Optimizer. zero_3.c. zero_plain.c. */
int dsf_zero_flat(struct dsf_zero_source *z,
                  const struct dsf_zero_shards *shards, struct dsflow_err *err);
int dsf_zero_3(struct dsf_zero_source *z, const struct dsf_zero_shards *shards,
               struct dsflow_err *err);
int dsf_zero_plain(struct dsf_zero_source *z, struct dsflow_err *err);

/* zero_universal.c: a folder for each parameter. */
int dsf_zero_universal(struct dsf_zero_source *z, struct dsflow_err *err);

/* Is it a parameter of the module, and not a buffer? */
bool dsf_zero_is_param(const struct dsf_zero_source *z, const char *name,
                       const struct dsf_torch_node *node);

#endif
