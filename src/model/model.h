/* model.h - a transformer as a list of layers, each a list of segments, each
 * with its units of parameters (segments/unit.h). No memory of tensors.
 */
#ifndef DSF_MODEL_MODEL_H
#define DSF_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <dsflow/error.h>

#include "config/job.h"
#include "segments/segment.h"

/* Layers need not be alike, but for width, vocab, context, head_dim and kinds
 * of norm and positions. */
struct dsf_layer {
    struct dsf_dims dims;
    const struct dsflow_segment *const *segments; /* in order; ends with NULL */
    unsigned units; /* the first of its units */
};

struct dsf_model {
    enum dsf_family family;
    struct dsf_dims dims; /* of layers, where they are alike */
    int32_t layers;
    bool tied;
    double rope_theta;
    bool rope_llama3;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_context;
    int32_t *windows; /* [layers]: tokens that a token sees; 0: all before it */
    const struct dsflow_segment **block; /* the segments of a block */
    /* [layers + 2]: the embedding, the blocks, the head; dsf_model_layer */
    struct dsf_layer *layer;

    /* embed, then those of each block, then norm, then head unless it is tied.
     */
    struct dsf_unit *units;
    unsigned nunits;
    int32_t nkinds; /* of units of blocks: dsf_unit.kind */
    int64_t params; /* without padding */
};

/* Fill from [model] of the job and, when init is a folder, its config.json
 * (keys given in the job must then agree with it). */
int dsf_model_init(struct dsf_model *model, const struct dsf_job *job,
                   struct dsflow_err *err);
void dsf_model_fini(struct dsf_model *model);

/* Lay the units out once more, for GPUs: the matrices of the vocabulary get
 * more rows (dsf_dims_pad), zeroes that stay zeroes. Not of unlike layers. */
void dsf_model_pad(struct dsf_model *model);

/* A checkpoint has the file_elems numbers of a unit without that. In place, in
 * memory for u->elems numbers. */
bool dsf_unit_is_as_in_files(const struct dsf_unit *u);
void dsf_unit_from_file(const struct dsf_unit *u, float *v);
void dsf_unit_to_file(const struct dsf_unit *u, float *v);

/* The same, with layers that `change` makes unlike: it gets the sizes of each
 * block, and may change heads, kv_heads and ffn. */
typedef void (*dsf_layer_fn)(void *user, int32_t layer, struct dsf_dims *dims);
int dsf_model_init_layers(struct dsf_model *model, const struct dsf_job *job,
                          dsf_layer_fn change, void *user,
                          struct dsflow_err *err);

/* Layer `l`: -1 is that of the embedding, `layers` that of the head. */
static inline const struct dsf_layer *
dsf_model_layer(const struct dsf_model *model, int32_t l)
{
    return &model->layer[l + 1];
}

/* Position in `units` of unit `i` of a segment in layer `l`; that of the
 * embedding where the head is tied to it. */
unsigned dsf_model_unit(const struct dsf_model *model, int32_t l,
                        const struct dsflow_segment *segment, unsigned i);

/* The shape of the tiles of layer `l`, but for their rows. */
struct dsflow_tile dsf_model_tile(const struct dsf_model *model, int32_t l);

/* Twice the keys that a token of so long a sequence sees on average in layer
 * `l`: the sequence, or fewer where a window hides some. */
double dsf_model_keys(const struct dsf_model *model, int32_t l,
                      int64_t sequence);

/* cos and sin of every position: out[pos][head_dim/2][2], pos < context
 * (RoFormer eq. 34; Llama 3's scaling of the frequencies). Angles are computed
 * in double. */
void dsf_model_rope_table(const struct dsf_model *model, float *out);

/* Whoever has parameters: fill `to` (units[unit].elems floats) with those of a
 * unit. */
typedef int (*dsf_unit_fn)(void *user, unsigned unit, float *to,
                           struct dsflow_err *err);

/* Memory for a unit, freed with free(). Error: DSFLOW_ENOMEM. */
int dsf_unit_alloc(const struct dsf_model *model, unsigned unit, float **to,
                   struct dsflow_err *err);

/* Random parameters of unit `u`: normal(0, init_std), the same for the same
 * seed whatever the number of workers (a counter-based generator). */
void dsf_model_randomize(const struct dsf_model *model, unsigned u,
                         uint64_t seed, float *params);

#endif
