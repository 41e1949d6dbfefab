/* module_order.c - named_parameters() of transformers/models/{gpt2,llama,
 * mistral,qwen2}/modeling_*.py: modules in the order in which __init__ makes
 * them, and of each its weight before its bias. */
#include "foreign/module_order.h"

#include <stdlib.h>
#include <string.h>

/* Before the layers. */
static const char *const first[] = { "wte", "wpe", "embed_tokens" };

/* Of a layer: GPT-2's have no name in common with the others'. */
static const char *const inside[] = {
    "ln_1",
    "attn.c_attn",
    "attn.c_proj",
    "ln_2",
    "mlp.c_fc",
    "mlp.c_proj",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "post_attention_layernorm",
};

static const char *const last[] = { "ln_f", "norm", "lm_head" };

enum { MOST_LAYERS = 1000000, MOST_MODULES = 32 };

/* Which of `modules` it is; -1: none. `name` ends before ".weight". */
static int find(const char *const *modules, size_t n, const char *name,
                size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(modules[i]) == length &&
            strncmp(modules[i], name, length) == 0)
            return (int)i;
    return -1;
}

/* Behind "h.3." or "layers.3.", and the number; NULL: it is in no layer. */
static const char *in_layer(const char *name, int64_t *layer)
{
    static const char *const lists[] = { "h.", "layers." };

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        const char *at = strstr(name, lists[i]);
        char *end;

        if (at == NULL || (at != name && at[-1] != '.'))
            continue;
        at += strlen(lists[i]);
        if (*at < '0' || *at > '9')
            continue;
        *layer = strtoll(at, &end, 10);
        return *end == '.' && *layer < MOST_LAYERS ? end + 1 : NULL;
    }
    return NULL;
}

bool dsf_module_place(const char *name, int64_t *place)
{
    const char *end = strrchr(name, '.'), *module;
    int64_t layer = -1, group;
    bool bias;
    int i;

    if (end == NULL)
        return false;
    bias = strcmp(end, ".bias") == 0;
    if (!bias && strcmp(end, ".weight") != 0)
        return false;
    module = in_layer(name, &layer);
    if (module != NULL) {
        i = module > end ? -1
                         : find(inside, sizeof(inside) / sizeof(*inside),
                                module, (size_t)(end - module));
        group = 1 + layer;
    } else {
        for (module = end; module > name && module[-1] != '.';)
            module--;
        group = 0;
        i = find(first, sizeof(first) / sizeof(*first), module,
                 (size_t)(end - module));
        if (i < 0) {
            group = 1 + MOST_LAYERS;
            i = find(last, sizeof(last) / sizeof(*last), module,
                     (size_t)(end - module));
        }
    }
    *place = (group * MOST_MODULES + i) * 2 + bias;
    return i >= 0;
}
