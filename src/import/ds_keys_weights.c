/* ds_keys_weights.c - DeepSpeed's keys of what is trained to be quantized or
 * pruned.
 *
 * A section asks for something by `enabled` of its shared parameters alone. */
#include "import/ds_keys.h"

#define CT           "compression_training."
#define SHARED(name) CT name ".shared_parameters."
#define WQ           SHARED("weight_quantization")
#define AQ           SHARED("activation_quantization")
#define SP           SHARED("sparse_pruning")
#define RP           SHARED("row_pruning")
#define HP           SHARED("head_pruning")
#define CP           SHARED("channel_pruning")

static const struct dsf_ds_key keys[] = {
    { WQ "enabled", DSF_DS_BECOMES, "weights.quantize" },
    { WQ "quantization_type", DSF_DS_BECOMES, "weights.quantize" },
    { WQ "quantize_weight_in_forward", DSF_DS_BECOMES,
      "weights.start_bits, weights.period" },
    { WQ "schedule_offset", DSF_DS_BECOMES, "weights.quantize_from" },
    { WQ "quantize_groups", DSF_DS_BECOMES, "weights.group" },
    { WQ "rounding", DSF_DS_REFUSED, "codes are rounded to the nearest",
      "\"nearest\"" },
    { WQ "fp16_mixed_quantize.enabled", DSF_DS_REFUSED,
      "weights are quantized at once, not in parts of their values" },
    { WQ "fp16_mixed_quantize.quantize_change_ratio", DSF_DS_NEEDLESS,
      "it belongs to fp16_mixed_quantize.enabled" },
    { WQ "quantizer_kernel", DSF_DS_NEEDLESS, "there is one set of kernels" },
    { WQ "quantize_verbose", DSF_DS_NEEDLESS,
      "weights.period says when bits fall" },
    { CT "weight_quantization.different_groups.*", DSF_DS_BECOMES,
      "weights.bits, weights.start_bits, weights.period, weights.quantize, "
      "weights.embedding" },
    { SP "enabled", DSF_DS_BECOMES, "weights.prune" },
    { SP "method", DSF_DS_BECOMES, "weights.prune" },
    { SP "schedule_offset", DSF_DS_BECOMES, "weights.prune_from" },
    { SP "schedule_offset_end", DSF_DS_NEEDLESS,
      "it belongs to the method snip_momentum" },
    { SP "schedule_offset_stride", DSF_DS_NEEDLESS,
      "it belongs to the method snip_momentum" },
    { SP "block_pattern", DSF_DS_NEEDLESS,
      "it belongs to the method snip_momentum" },
    { SP "dense_ratio", DSF_DS_NEEDLESS,
      "it belongs to the method snip_momentum" },
    { SP "excluded_modules", DSF_DS_NEEDLESS,
      "it belongs to the method snip_momentum" },
    { CT "sparse_pruning.different_groups.*", DSF_DS_BECOMES,
      "weights.prune, weights.embedding" },
    { RP "enabled", DSF_DS_REFUSED,
      "rows of the MLP go when a model is exported (dsflow checkpoint export "
      "--ffn-width), not while it trains" },
    { RP "method", DSF_DS_NEEDLESS, "it belongs to row_pruning" },
    { RP "schedule_offset", DSF_DS_NEEDLESS, "it belongs to row_pruning" },
    { CT "row_pruning.different_groups.*", DSF_DS_NEEDLESS,
      "it belongs to row_pruning" },
    { HP "enabled", DSF_DS_REFUSED,
      "heads go when a model is exported (dsflow checkpoint export "
      "--heads), not while it trains" },
    { HP "method", DSF_DS_NEEDLESS, "it belongs to head_pruning" },
    { HP "num_heads", DSF_DS_NEEDLESS, "it belongs to head_pruning" },
    { HP "schedule_offset", DSF_DS_NEEDLESS, "it belongs to head_pruning" },
    { CT "head_pruning.different_groups.*", DSF_DS_NEEDLESS,
      "it belongs to head_pruning" },
    { CP "enabled", DSF_DS_REFUSED, "dsflow has no convolutions to prune" },
    { CP "method", DSF_DS_NEEDLESS, "it belongs to channel_pruning" },
    { CP "schedule_offset", DSF_DS_NEEDLESS, "it belongs to channel_pruning" },
    { CT "channel_pruning.different_groups.*", DSF_DS_NEEDLESS,
      "it belongs to channel_pruning" },
    { AQ "enabled", DSF_DS_BECOMES, "activations.quantize" },
    { AQ "quantization_type", DSF_DS_BECOMES, "activations.quantize" },
    { AQ "range_calibration", DSF_DS_BECOMES, "activations.group" },
    { AQ "schedule_offset", DSF_DS_BECOMES, "activations.quantize_from" },
    { CT "activation_quantization.different_groups.*", DSF_DS_BECOMES,
      "activations.bits" },
    { CT "layer_reduction.enabled", DSF_DS_REFUSED,
      "a student of a teacher's layers is exported (dsflow checkpoint export "
      "--layers), and then is model.init" },
    { CT "layer_reduction.keep_number_layer", DSF_DS_NEEDLESS,
      "it belongs to layer_reduction" },
    { CT "layer_reduction.module_name_prefix", DSF_DS_NEEDLESS,
      "it belongs to layer_reduction" },
    { CT "layer_reduction.teacher_layer", DSF_DS_NEEDLESS,
      "it belongs to layer_reduction" },
    { CT "layer_reduction.other_module_name", DSF_DS_NEEDLESS,
      "it belongs to layer_reduction" },
};

const struct dsf_ds_key *dsf_ds_weights_key_at(size_t i)
{
    return i < sizeof(keys) / sizeof(*keys) ? &keys[i] : NULL;
}
