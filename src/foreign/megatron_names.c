/* megatron_names.c - names of tensors in Megatron-LM: those of its first
 * versions (transformer, attention), of later ones (encoder, self_attention)
 * and of its core (decoder, linear_qkv), with and without Transformer Engine.
 */
#include "foreign/megatron_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum dsf_megatron_role role;
} of_layers[] = {
    /* The first of a role is the one that messages have. */
    { "input_layernorm.weight", DSF_MEGATRON_NORM1_W },
    { "input_layernorm.bias", DSF_MEGATRON_NORM1_B },
    { "self_attention.query_key_value.weight", DSF_MEGATRON_QKV_W },
    { "self_attention.query_key_value.bias", DSF_MEGATRON_QKV_B },
    { "self_attention.dense.weight", DSF_MEGATRON_OUT_W },
    { "self_attention.dense.bias", DSF_MEGATRON_OUT_B },
    { "post_attention_layernorm.weight", DSF_MEGATRON_NORM2_W },
    { "post_attention_layernorm.bias", DSF_MEGATRON_NORM2_B },
    { "mlp.dense_h_to_4h.weight", DSF_MEGATRON_UP_W },
    { "mlp.dense_h_to_4h.bias", DSF_MEGATRON_UP_B },
    { "mlp.dense_4h_to_h.weight", DSF_MEGATRON_DOWN_W },
    { "mlp.dense_4h_to_h.bias", DSF_MEGATRON_DOWN_B },
    /* the first versions */
    { "attention.query_key_value.weight", DSF_MEGATRON_QKV_W },
    { "attention.query_key_value.bias", DSF_MEGATRON_QKV_B },
    { "attention.dense.weight", DSF_MEGATRON_OUT_W },
    { "attention.dense.bias", DSF_MEGATRON_OUT_B },
    /* the last versions before the core */
    { "input_norm.weight", DSF_MEGATRON_NORM1_W },
    { "input_norm.bias", DSF_MEGATRON_NORM1_B },
    { "post_attention_norm.weight", DSF_MEGATRON_NORM2_W },
    { "post_attention_norm.bias", DSF_MEGATRON_NORM2_B },
    /* the core */
    { "self_attention.linear_qkv.weight", DSF_MEGATRON_QKV_W },
    { "self_attention.linear_qkv.bias", DSF_MEGATRON_QKV_B },
    { "self_attention.linear_proj.weight", DSF_MEGATRON_OUT_W },
    { "self_attention.linear_proj.bias", DSF_MEGATRON_OUT_B },
    { "pre_mlp_layernorm.weight", DSF_MEGATRON_NORM2_W },
    { "pre_mlp_layernorm.bias", DSF_MEGATRON_NORM2_B },
    { "mlp.linear_fc1.weight", DSF_MEGATRON_UP_W },
    { "mlp.linear_fc1.bias", DSF_MEGATRON_UP_B },
    { "mlp.linear_fc2.weight", DSF_MEGATRON_DOWN_W },
    { "mlp.linear_fc2.bias", DSF_MEGATRON_DOWN_B },
    /* the core's, where Transformer Engine has norm and product as one */
    { "self_attention.linear_qkv.layer_norm_weight", DSF_MEGATRON_NORM1_W },
    { "self_attention.linear_qkv.layer_norm_bias", DSF_MEGATRON_NORM1_B },
    { "mlp.linear_fc1.layer_norm_weight", DSF_MEGATRON_NORM2_W },
    { "mlp.linear_fc1.layer_norm_bias", DSF_MEGATRON_NORM2_B },
};

static const struct {
    const char *name;
    enum dsf_megatron_role role;
} others[] = {
    { "word_embeddings.weight", DSF_MEGATRON_WORDS },
    { "position_embeddings.weight", DSF_MEGATRON_POSITIONS },
    { "final_layernorm.weight", DSF_MEGATRON_FINAL_W },
    { "final_layernorm.bias", DSF_MEGATRON_FINAL_B },
    { "final_norm.weight", DSF_MEGATRON_FINAL_W },
    { "final_norm.bias", DSF_MEGATRON_FINAL_B },
    { "output_layer.weight", DSF_MEGATRON_HEAD },
    { "lm_head.weight", DSF_MEGATRON_HEAD },
    { "word_embeddings_for_head.weight", DSF_MEGATRON_WORDS_AGAIN },
};

/* Behind the words that only say where a module is. */
static const char *inner(const char *name)
{
    static const char *const outer[] = { "module.",  "language_model.",
                                         "model.",   "embedding.",
                                         "encoder.", "transformer.",
                                         "decoder." };

    for (size_t i = 0; i < sizeof(outer) / sizeof(*outer); i++) {
        size_t n = strlen(outer[i]);

        while (strncmp(name, outer[i], n) == 0)
            name += n;
    }
    return name;
}

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && strcmp(name + n - k, end) == 0;
}

static bool is_buffer(const char *name)
{
    static const char *const endings[] = { "inv_freq", "masked_bias",
                                           "attention.bias", "_extra_state" };

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
        if (ends(name, endings[i]))
            return true;
    return false;
}

enum dsf_megatron_role dsf_megatron_role_of(const char *name, int *layer)
{
    const char *at = inner(name);
    char *end;

    *layer = -1;
    if (is_buffer(name))
        return DSF_MEGATRON_BUFFER;
    if (strncmp(at, "layers.", 7) == 0 && at[7] >= '0' && at[7] <= '9') {
        *layer = (int)strtol(at + 7, &end, 10);
        for (size_t i = 0; i < sizeof(of_layers) / sizeof(*of_layers); i++)
            if (*end == '.' && strcmp(end + 1, of_layers[i].name) == 0)
                return of_layers[i].role;
        return DSF_MEGATRON_OTHER;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(at, others[i].name) == 0)
            return others[i].role;
    return DSF_MEGATRON_OTHER;
}

void dsf_megatron_name(enum dsf_megatron_role role, int layer, char *name,
                       size_t size)
{
    name[0] = '\0';
    for (size_t i = sizeof(others) / sizeof(*others); i-- > 0;)
        if (others[i].role == role)
            snprintf(name, size, "%s", others[i].name);
    for (size_t i = sizeof(of_layers) / sizeof(*of_layers); i-- > 0;)
        if (of_layers[i].role == role)
            snprintf(name, size, "layers.%d.%s", layer, of_layers[i].name);
}

bool dsf_megatron_layer_at(const char *name, size_t *begin, size_t *end)
{
    const char *at = inner(name);
    size_t n;

    if (strncmp(at, "layers.", 7) != 0)
        return false;
    n = strspn(at + 7, "0123456789");
    if (n == 0 || n > 6)
        return false;
    *begin = (size_t)(at + 7 - name);
    *end = *begin + n;
    return true;
}

int dsf_megatron_shared_along(enum dsf_megatron_role role)
{
    switch (role) {
    case DSF_MEGATRON_WORDS:
    case DSF_MEGATRON_WORDS_AGAIN:
    case DSF_MEGATRON_HEAD:
    case DSF_MEGATRON_QKV_W:
    case DSF_MEGATRON_QKV_B:
    case DSF_MEGATRON_UP_W:
    case DSF_MEGATRON_UP_B:
        return 0;
    case DSF_MEGATRON_OUT_W:
    case DSF_MEGATRON_DOWN_W:
        return 1;
    default:
        return -1;
    }
}
