/* zero_private.h - what the readers of DeepSpeed's layouts share. */
#ifndef DSF_FOREIGN_ZERO_PRIVATE_H
#define DSF_FOREIGN_ZERO_PRIVATE_H

#include "foreign/folder.h"
#include "foreign/pieces.h"

struct dsf_zero {
    struct dsf_folder folder;
    struct dsf_source *source;
    bool weights_only;
    /* The model's file of a model rank, the first of several. */
    const struct dsf_torch_file *model;
    const struct dsf_torch_node *root; /* of it */
    int stage;
};

/* The optimizer's files of one model rank, in order. */
struct dsf_zero_shards {
    size_t n; /* ranks of data */
    const struct dsf_torch_file **files;
    const struct dsf_torch_node **states; /* optimizer_state_dict of each */
};

/* A shape, torch.Size or a list, of a tensor that is there for the first time,
 * or has this shape. */
int dsf_zero_shape(struct dsf_zero *z, const struct dsf_torch_file *file,
                   const struct dsf_torch_node *shape,
                   struct dsf_source_tensor *t, struct dsflow_err *err);

/* The whole of a tensor in the model's file, as `state`; with its shape. */
int dsf_zero_whole(struct dsf_zero *z, const struct dsf_torch_file *file,
                   const char *name, const struct dsf_torch_node *node,
                   enum dsf_source_state state, struct dsflow_err *err);

/* Which moment this is to torch: "exp_avg"; false: none that is kept here. */
bool dsf_zero_state_of(const char *name, enum dsf_source_state *state);

/* How many updates and which rate `state_dict` of an optimizer of torch, or its
 * groups and one of its states, says. */
void dsf_zero_updates(struct dsf_zero *z, const struct dsf_torch_file *file,
                      const struct dsf_torch_node *groups,
                      const struct dsf_torch_node *state);

/* Names that have the numbers of others. */
int dsf_zero_shared(struct dsf_zero *z, struct dsflow_err *err);

/* Tensors of the module that the optimizer does not have: frozen ones. */
int dsf_zero_frozen(struct dsf_zero *z, const struct dsf_zero_shards *shards,
                    struct dsflow_err *err);

/* zero_flat.c: ZeRO 1 and 2, and BF16_Optimizer. zero_3.c. zero_plain.c. */
int dsf_zero_flat(struct dsf_zero *z, const struct dsf_zero_shards *shards,
                  struct dsflow_err *err);
int dsf_zero_3(struct dsf_zero *z, const struct dsf_zero_shards *shards,
               struct dsflow_err *err);
int dsf_zero_plain(struct dsf_zero *z, struct dsflow_err *err);

/* Is it the name of a buffer, which is no parameter? */
bool dsf_zero_is_buffer(const struct dsf_zero *z, const char *name);

#endif
