/* identity_saved.c - the list of what a checkpoint is of, as a checkpoint has
 * it, and what those of before have in its place. */
#include "train/identity.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void dsf_identity_fields(const struct dsf_identity *of,
                         struct dsf_ckpt_fields *fields)
{
    for (size_t i = 0; i < of->n; i++)
        if (of->v[i].value != NULL)
            dsf_ckpt_fields_add(fields, of->v[i].key, of->v[i].value);
}

/* Keys that had another name in checkpoints of before. */
static const struct {
    const char *now, *before;
} renamed[] = { { "precision.states", "offload.states" } };

/* Keys that came later, with what all checkpoints of before are of. */
static const struct {
    const char *key, *value;
} came_later[] = { { "precision.compute", "fp32" },
                   { "precision.tf32", "false" },
                   { "precision.head", "fp32" },
                   { "precision.gradients", "fp32" },
                   { "precision.master", "true" },
                   { "model.window", "0" },
                   { "model.window_layers", "all" },
                   { "compress.gradients", "none" },
                   { "compress.params", "none" },
                   { "compress.block", "auto" },
                   { "compress.keep", "16384" },
                   { "compress.error", "none" },
                   { "compress.error_beta", "0.8" },
                   { "compress.error_reset", "1024" },
                   { "compress.node", "0" },
                   { "batch.sequence_groups", "1" },
                   { "sparse_attention.mode", "dense" },
                   { "batch.head_columns", "0" },
                   { "compress.embedding", "dense" },
                   { "weights.quantize", "none" },
                   { "weights.prune", "none" },
                   { "weights.embedding", "false" },
                   { "activations.quantize", "none" } };

int dsf_identity_read(const char *folder, struct dsf_ckpt_fields *was,
                      struct dsflow_err *err)
{
    int status = dsf_ckpt_fields_read(folder, "of", was, err);

    for (size_t i = 0; i < was->n && status == DSFLOW_OK; i++)
        for (size_t k = 0; k < sizeof(renamed) / sizeof(*renamed); k++)
            if (strcmp(was->v[i].key, renamed[k].before) == 0) {
                free(was->v[i].key);
                was->v[i].key = dsf_xstrdup(renamed[k].now);
            }
    for (size_t k = 0; k < sizeof(came_later) / sizeof(*came_later); k++)
        if (status == DSFLOW_OK && was->n > 0 &&
            dsf_ckpt_fields_find(was, came_later[k].key) == NULL)
            dsf_ckpt_fields_add(was, came_later[k].key, came_later[k].value);
    return status;
}

/* The hash of a job stays as it was: keys count under their first names, and
 * where they have another value than they all had once. */
static bool is_as_ever(const struct dsf_identity_key *key)
{
    for (size_t k = 0; k < sizeof(came_later) / sizeof(*came_later); k++)
        if (strcmp(key->key, came_later[k].key) == 0)
            return strcmp(key->value, came_later[k].value) == 0;
    return false;
}

static const char *first_name(const char *key)
{
    for (size_t k = 0; k < sizeof(renamed) / sizeof(*renamed); k++)
        if (strcmp(key, renamed[k].now) == 0)
            return renamed[k].before;
    return key;
}

uint64_t dsf_identity_hash(const struct dsf_identity *of)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < of->n; i++) {
        const char *key = first_name(of->v[i].key), *value = of->v[i].value;

        if (value != NULL && !is_as_ever(&of->v[i]))
            hash += XXH3_64bits_withSeed(value, strlen(value),
                                         XXH3_64bits(key, strlen(key)));
    }
    return hash;
}
