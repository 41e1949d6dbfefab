/* megatron_names.h - what a tensor of Megatron-LM is, by any of the names that
 * its versions have given it. */
#ifndef DSF_FOREIGN_MEGATRON_NAMES_H
#define DSF_FOREIGN_MEGATRON_NAMES_H

#include <stdbool.h>
#include <stddef.h>

enum dsf_megatron_role {
    DSF_MEGATRON_WORDS,
    DSF_MEGATRON_POSITIONS,
    DSF_MEGATRON_NORM1_W, /* before attention */
    DSF_MEGATRON_NORM1_B,
    DSF_MEGATRON_QKV_W,
    DSF_MEGATRON_QKV_B,
    DSF_MEGATRON_OUT_W,
    DSF_MEGATRON_OUT_B,
    DSF_MEGATRON_NORM2_W, /* before the feed-forward */
    DSF_MEGATRON_NORM2_B,
    DSF_MEGATRON_UP_W, /* with SwiGLU: gate, then up */
    DSF_MEGATRON_UP_B,
    DSF_MEGATRON_DOWN_W,
    DSF_MEGATRON_DOWN_B,
    DSF_MEGATRON_FINAL_W,
    DSF_MEGATRON_FINAL_B,
    DSF_MEGATRON_HEAD,
    DSF_MEGATRON_WORDS_AGAIN, /* the last stage's, for the head */
    DSF_MEGATRON_BUFFER,      /* no weight: frequencies of positions, masks */
    DSF_MEGATRON_OTHER,       /* nothing that is known here */
};

/* The layer is -1 where it is of none. */
enum dsf_megatron_role dsf_megatron_role_of(const char *name, int *layer);

/* Along which dimension tensor ranks have shares of it; -1: all have it whole.
 */
int dsf_megatron_shared_along(enum dsf_megatron_role role);

/* "layers.3.self_attention.query_key_value.weight", as messages have it. */
void dsf_megatron_name(enum dsf_megatron_role role, int layer, char *name,
                       size_t size);

/* The number behind "layers.": where it begins and ends in `name`; false: it is
 * of no layer. */
bool dsf_megatron_layer_at(const char *name, size_t *begin, size_t *end);

#endif
