/* mesh_trials.c - the trials of test_meshes: a list, and random ones. */
#include "mesh_trials.h"

#include "machine/schedulers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Ranks that share sequences have heads. */
#define HEADS "mesh.sequence_kind=heads mesh.sequence="
#define ALL_CPU                                                                \
    "offload.optimizer=cpu offload.params=cpu offload.gradients=cpu "          \
    "offload.activations=cpu"
/* With the segment of examples/plugins/gated_norm.c. */
#define GATED                                                                  \
    "model.segments=[\"qkv\",\"attention\",\"out\",\"gated_norm\",\"mlp\"] "
#define ALL_NVME                                                               \
    "offload.optimizer=nvme offload.params=nvme offload.gradients=nvme "       \
    "offload.activations=nvme"

/* Blocks of 16 tokens. */
#define LAYOUT "sparse_attention."
#define LAID                                                                   \
    "model.context=128 batch.tile=32 " LAYOUT "attention=unidirectional "     \
    LAYOUT

#define NO_MASTERS "precision.compute=bf16 precision.master=false "
#define HALVED     "precision.compute=bf16 precision.gradients=bf16 "

/* Eight tiles of a sequence, of which some have their keys in one buffer: the
 * last one may have fewer. */
#define KEYS(n) "model.context=128 batch.tile=16 batch.key_tiles=" #n " "

/* Few micro-batches and steps, of trials with many ranks. */
#define FEW " batch.sequences=4 job.steps=2"

/* All units, however small. */
#define GRADS(format)  "compress.keep=0 compress.gradients=" format " "
#define NODES(n)       "batch.groups=8 compress.node=" #n " "
#define ONEBIT                                                                 \
    "optimizer.kind=onebit_adam onebit_adam.freeze_step=1 optimizer.clip=0.0 " \
    "optimizer.lr=1e-4 "                                                       \
    "compress.keep=0 "
#define ONEBIT_LAMB                                                            \
    "optimizer.kind=onebit_lamb onebit_lamb.freeze_step=1 optimizer.clip=0.0 " \
    "compress.keep=0 "
/* 0/1 Adam, with all kinds of step in 7 steps: two send gradients, one signs of
 * them; then workers synchronise in every other one. */
#define ZEROONE                                                                \
    "optimizer.kind=zeroone_adam optimizer.clip=0.0 compress.keep=0 "          \
    "zeroone_adam.var_freeze_step=2 zeroone_adam.var_update_scaler=1 "         \
    "zeroone_adam.local_step_scaler=1 zeroone_adam.local_step_clipper=2 "      \
    "job.steps=7 optimizer.lr=1e-4 "
/* The loss scale doubles until step 4 is skipped. */
#define OVERFLOWS                                                              \
    "precision.compute=fp16 precision.initial_scale=2e6 "                      \
    "precision.scale_window=1 precision.hysteresis=1 "
#define ROWS           "model.tied=false model.vocab=2048 compress.embedding=rows "
/* Bits fall, and weights go, while the five steps are made. */
#define IN_BITS(by)                                                            \
    "weights.quantize=" by " weights.start_bits=4 weights.bits=2 "             \
    "weights.period=1 weights.group=16 "
#define PRUNED         "weights.prune=2:4 weights.prune_from=2 "
#define PARAMS(format) "compress.keep=0 compress.params=" format " "
#define INPUTS(by)     "activations.quantize=" by " activations.group=16 "

const char *const mesh_trials[] = {
    /* Data parallel, and what ZeRO shares out of it. */
    "gpt2 mesh.data=2",
    "gpt2 mesh.data=2 zero.stage=1",
    "gpt2 mesh.data=2 zero.stage=2",
    "gpt2 mesh.data=2 zero.stage=3",
    "gpt2 mesh.data=2 zero.stage=3 zero.keep=0",
    "llama mesh.data=4",
    "llama mesh.data=4 zero.stage=1",
    "llama mesh.data=4 zero.stage=2 batch.groups=8",
    "llama mesh.data=4 zero.stage=3 zero.keep=0 zero.prefetch=0",
    "llama mesh.data=4 zero.stage=3 zero.keep=20KiB zero.prefetch=3",
    "llama mesh.data=8 zero.stage=1",
    "llama mesh.data=8 zero.stage=3 zero.keep=0 batch.tile=16",
    "gpt2 optimizer.kind=adagrad mesh.data=2 zero.stage=2 zero.reduce=micro "
    "batch.groups=4",
    "gpt2 mesh.data=8 zero.stage=2",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=0",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=1",
    "gpt2 mesh.data=24 batch.sequences=48 zero.stage=2",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=3 zero.keep=0",
    "gpt2 mesh.data=16 zero.stage=1 batch.sequences=32",
    "gpt2 mesh.data=11 zero.stage=3 zero.keep=0 batch.sequences=22",
    "gpt2 mesh.data=3 zero.stage=2 batch.sequences=12",
    "gpt2 mesh.data=3 zero.stage=3 zero.keep=0 batch.sequences=12",
    "gpt2 batch.groups=8",
    "gpt2 mesh.data=2 batch.groups=8",
    "gpt2 mesh.data=4 batch.groups=8 zero.stage=1",
    "gpt2 mesh.data=8 batch.groups=8 zero.stage=3 zero.keep=0",

    /* Gradients summed over the ranks at each micro-batch. */
    "gpt2 zero.reduce=micro batch.groups=4",
    "gpt2 mesh.data=2 zero.stage=1 zero.reduce=micro",
    "gpt2 mesh.data=2 zero.stage=2 zero.reduce=micro batch.groups=4",
    "gpt2 mesh.data=4 zero.stage=3 zero.reduce=micro zero.keep=0",
    "llama mesh.data=4 zero.stage=2 zero.reduce=micro batch.groups=4",
    "llama mesh.data=2 zero.stage=3 zero.reduce=micro batch.groups=8 "
    "zero.keep=0",

    /* The head in slices of a tile: sequences, and pieces of one. */
    "gpt2 batch.micro=4 batch.tile=128 mesh.data=2 logits=14000",
    "gpt2 batch.tile=32 mesh.pipeline=2 mesh.data=2 zero.stage=3 logits=1",
    "llama batch.micro=2 batch.tile=64 mesh.pipeline=2 model.tied=true "
    "recompute.what=block batch.order=layer_major logits=1",
    "gpt2 batch.micro=2 batch.tile=64 logits=1 " ALL_NVME,
    "llama batch.micro=2 mesh.tensor=2 mesh.data=2 logits=4096",

    /* Some columns of the vocabulary at a time: of what tensor ranks have, too.
     */
    "gpt2 batch.head_columns=32 mesh.data=2 mesh.pipeline=2 zero.stage=3",
    "llama batch.head_columns=16 model.tied=true mesh.pipeline=2 "
    "pipeline.schedule=zero_bubble recompute.what=block" FEW,
    "gpt2 batch.head_columns=64 " HALVED
    "zero.stage=2 mesh.data=2 " ALL_CPU FEW,
    "llama batch.head_columns=48 precision.compute=fp16 mesh.sequence=2 "
    "mesh.data=2" FEW,
    "llama batch.head_columns=16 mesh.tensor=4 model.tied=true zero.stage=1 "
    "mesh.data=2" FEW,
    "gpt2 batch.head_columns=32 mesh.tensor=2 mesh.pipeline=2 "
    "precision.compute=bf16 logits=1" FEW,
    /* Gradients of its matrix in tasks of their own, and not. */
    "gpt2 batch.head_columns=32 mesh.data=4 zero.stage=2 "
    "machine.workers=32" FEW,
    "llama batch.head_columns=16 mesh.tensor=2 model.tied=true "
    "precision.compute=bf16 machine.workers=32" FEW,

    /* Pipelines. */
    "gpt2 mesh.pipeline=2",
    "gpt2 mesh.pipeline=2 pipeline.schedule=gpipe",
    "gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble",
    "gpt2 mesh.pipeline=2 pipeline.schedule=interleaved",
    "gpt2 mesh.pipeline=4",
    "gpt2 mesh.pipeline=3 batch.sequences=7",
    "gpt2 mesh.pipeline=2 pipeline.split=[1,3] batch.tile=16",
    "gpt2 mesh.pipeline=3 pipeline.split=[2,0,2]",
    "llama mesh.pipeline=3 pipeline.schedule=interleaved batch.sequences=7",
    "llama mesh.pipeline=2 pipeline.schedule=interleaved pipeline.chunks=3",
    "llama mesh.pipeline=6 pipeline.schedule=zero_bubble",
    "llama mesh.pipeline=4 pipeline.schedule=gpipe pipeline.split=[1,2,2,1]",
    "llama mesh.pipeline=2 model.tied=true",
    "gpt2 mesh.pipeline=2 pipeline.strict=true",
    "gpt2 mesh.pipeline=4 pipeline.schedule=gpipe pipeline.strict=true",
    "llama mesh.pipeline=3 pipeline.schedule=interleaved batch.sequences=7 "
    "pipeline.strict=true",
    "gpt2 mesh.pipeline=2 mesh.data=2 mesh.tensor=2 zero.stage=3 zero.keep=0 "
    "pipeline.strict=true",
    "gpt2 mesh.pipeline=2 batch.order=layer_major batch.groups=4 "
    "pipeline.strict=true",
    "llama mesh.pipeline=3 pipeline.schedule=zero_bubble model.tied=true "
    "batch.tile=16",

    /* Layers before micro-batches. */
    "gpt2 batch.order=layer_major",
    "gpt2 batch.order=layer_major batch.groups=4",
    "gpt2 batch.order=layer_major mesh.data=2 zero.stage=3 zero.keep=0",
    "llama batch.order=layer_major mesh.data=4 zero.stage=2",
    "llama batch.order=layer_major mesh.data=2 zero.stage=3 zero.keep=0 "
    "zero.reduce=micro",
    "llama batch.order=layer_major mesh.pipeline=2",
    "gpt2 batch.order=layer_major mesh.pipeline=2 mesh.data=2 zero.stage=3 "
    "zero.keep=0",

    /* Recomputing. */
    "gpt2 recompute.what=attention",
    "gpt2 recompute.what=block",
    "llama recompute.what=attention batch.tile=16",
    "llama recompute.what=block batch.tile=16",
    "llama recompute.what=block recompute.layers=0-2,5",
    "llama recompute.what=attention recompute.layers=1,3-4",
    "gpt2 recompute.what=block batch.order=layer_major",
    "gpt2 recompute.what=block mesh.pipeline=2",
    "llama recompute.what=attention mesh.data=2 zero.stage=3 zero.keep=0",
    "llama recompute.what=block mesh.data=4 zero.stage=3 zero.keep=0",

    /* All of it. */
    "gpt2 mesh.data=2 mesh.pipeline=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=1",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0",
    "gpt2 mesh.data=2 mesh.pipeline=4 zero.stage=3 recompute.what=block",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 zero.reduce=micro",
    "gpt2 mesh.data=4 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=gpipe batch.groups=8",
    "llama mesh.data=2 mesh.pipeline=3 zero.stage=2 batch.sequences=12 "
    "pipeline.schedule=interleaved recompute.what=attention",
    "llama mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=zero_bubble recompute.what=block batch.tile=16",
    "llama mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.reduce=micro "
    "pipeline.schedule=interleaved pipeline.chunks=3 zero.keep=0",
    "llama mesh.data=4 mesh.pipeline=2 zero.stage=1 model.tied=true "
    "pipeline.schedule=zero_bubble batch.groups=8",

    /* Other optimizers, and no clipping. */
    "gpt2 optimizer.kind=lion mesh.data=2 zero.stage=3 zero.keep=0",
    "gpt2 optimizer.kind=sgd mesh.data=2 zero.stage=1",
    "llama optimizer.kind=adagrad mesh.data=2 mesh.pipeline=2 zero.stage=1",
    "gpt2 optimizer.kind=adam optimizer.bias_correction=false mesh.data=2",
    "gpt2 optimizer.kind=lamb mesh.data=2 mesh.pipeline=2",
    "llama optimizer.kind=lamb mesh.data=4 zero.stage=1 lamb.max_coeff=2.0",
    "gpt2 optimizer.kind=lamb mesh.data=2 mesh.pipeline=2 zero.stage=2 "
    "zero.reduce=micro optimizer.clip=0.0",
    "llama optimizer.kind=lamb mesh.data=2 zero.stage=3 zero.keep=0 "
    "optimizer.bias_correction=false",
    "gpt2 optimizer.kind=lamb offload.optimizer=nvme offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 optimizer.kind=lamb precision.states=int8 offload.optimizer=cpu "
    "offload.piece=4KiB offload.params=cpu",
    "llama optimizer.kind=lamb mesh.tensor=2 mesh.data=2 zero.stage=3 "
    "zero.keep=0",
    "gpt2 optimizer.kind=lamb mesh.tensor=2 mesh.pipeline=2 "
    "offload.optimizer=cpu offload.piece=4KiB model.tied=true",
    "gpt2 optimizer.kind=muon mesh.data=2 mesh.pipeline=2",
    "llama optimizer.kind=muon mesh.data=4 zero.stage=1",
    "gpt2 optimizer.kind=muon mesh.data=2 mesh.pipeline=2 zero.stage=2 "
    "zero.reduce=micro optimizer.clip=0.0 model.tied=true",
    "llama optimizer.kind=muon mesh.data=2 zero.stage=3 zero.keep=0 "
    "muon.scale=rms muon.adam_lr=1e-3",
    "gpt2 optimizer.kind=muon offload.optimizer=nvme offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 " NO_MASTERS "optimizer.kind=muon mesh.data=2 zero.stage=1 "
    "precision.states=bf16",
    "gpt2 " NO_MASTERS "optimizer.kind=lamb mesh.data=2 zero.stage=1 "
    "precision.states=bf16",
    "gpt2 optimizer.kind=sgd optimizer.momentum=0.9 mesh.data=2 "
    "mesh.pipeline=2 zero.stage=2",
    "llama optimizer.clip=0.0 mesh.data=2 mesh.pipeline=2 zero.stage=2",

    /* Work on units that is not dsflow's own: an optimizer, and what a policy
     * puts behind its updates (unit_ops.h). */
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=2",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=1",
    "llama optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=2",
    "llama optimizer.kind=drift shrink.by=0.9 mesh.data=4 zero.stage=3 "
    "zero.keep=0",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.data=3 zero.stage=3 "
    "mesh.pipeline=2 batch.sequences=12",
    "gpt2 optimizer.kind=drift offload.optimizer=nvme offload.piece=4KiB "
    "mesh.data=2 zero.stage=1",
    "gpt2 optimizer.kind=drift shrink.by=0.9 mesh.tensor=2 mesh.data=2 "
    "zero.stage=3 zero.keep=0",

    /* Tensor parallel: the same bits for the same degree. */
    "gpt2 mesh.tensor=2",
    "gpt2 mesh.tensor=2 mesh.data=2",
    "gpt2 mesh.tensor=2 mesh.pipeline=2",
    "gpt2 mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0",
    "gpt2 mesh.tensor=4 mesh.data=2 zero.stage=2 zero.reduce=micro",
    "llama mesh.tensor=2 recompute.what=block",
    "llama mesh.tensor=2 batch.order=layer_major mesh.data=2 zero.stage=1",
    "llama mesh.tensor=2 mesh.pipeline=2 pipeline.schedule=interleaved "
    "recompute.what=attention",
    "llama mesh.tensor=2 mesh.pipeline=2 mesh.data=2 zero.stage=2 "
    "pipeline.schedule=zero_bubble batch.tile=16",
    "llama mesh.tensor=4 mesh.pipeline=2 model.tied=true",

    /* Windows, over four tiles of a sequence: of all layers, or of some. */
    "gpt2 model.context=64 batch.tile=16 model.window=9 mesh.data=2 "
    "zero.stage=3 zero.keep=0",
    "llama model.context=64 batch.tile=16 model.window=18 "
    "model.window_layers=1-3 mesh.pipeline=2 recompute.what=block "
    "pipeline.schedule=zero_bubble",
    "llama model.context=64 batch.tile=16 model.window=5 mesh.tensor=2 "
    "mesh.data=2 recompute.what=attention",
    "gpt2 model.context=64 batch.tile=16 model.window=33 " ALL_NVME
    " batch.order=layer_major",

    /* Sequences shared by ranks, from both ends of each. */
    "gpt2 mesh.sequence=2" FEW,
    "gpt2 mesh.sequence=2 model.context=64 batch.tile=16 mesh.key_slots=1" FEW,
    "gpt2 batch.sequence_groups=4 mesh.sequence=2 zero.stage=1" FEW,
    "gpt2 batch.sequence_groups=4 mesh.sequence=4 zero.stage=3 zero.keep=0" FEW,
    "llama mesh.sequence=3 model.context=48 zero.stage=2" FEW,
    "llama mesh.sequence=8 model.context=64 zero.stage=2 zero.reduce=micro" FEW,
    "llama mesh.sequence=2 mesh.data=2 zero.stage=3 zero.keep=0 "
    "batch.micro=2 recompute.what=attention" FEW,
    "llama mesh.sequence=2 mesh.data=3 zero.stage=1 job.steps=2 "
    "batch.sequences=3 batch.sequence_groups=4",
    "gpt2 mesh.sequence=4 mesh.pipeline=2 pipeline.schedule=zero_bubble "
    "recompute.what=block mesh.key_slots=3" FEW,
    "gpt2 mesh.sequence=2 mesh.pipeline=2 pipeline.schedule=interleaved "
    "pipeline.strict=true mesh.data=2 zero.stage=2" FEW,
    "gpt2 mesh.sequence=2 mesh.tensor=2 zero.stage=1" FEW,
    "llama mesh.sequence=2 mesh.tensor=8 model.context=64 model.layers=2" FEW,
    "llama mesh.sequence=2 mesh.tensor=2 recompute.what=block "
    "batch.order=layer_major mesh.data=2 zero.stage=3 zero.keep=0" FEW,
    "llama mesh.sequence=4 model.tied=true " ALL_CPU FEW,
    "gpt2 mesh.sequence=2 mesh.data=2 zero.stage=2 " ALL_NVME FEW,
    "llama mesh.sequence=4 model.context=64 model.window=18 "
    "model.window_layers=1-3 recompute.what=attention mesh.pipeline=2" FEW,
    "gpt2 mesh.sequence=2 " GRADS("int8") PARAMS("int8") "zero.stage=3 "
                                                         "mesh.data=2" FEW,
    "llama mesh.sequence=2 mesh.pipeline=2 compress.error=fp32 " GRADS(
        "int8") "batch.sequence_groups=4 zero.stage=1" FEW,
    "gpt2 mesh.sequence=2 " HALVED "zero.stage=2 mesh.pipeline=2" FEW,
    "gpt2 " GATED "mesh.sequence=2 zero.stage=1" FEW,
    "gpt2 mesh.sequence=2 batch.sequence_groups=8 optimizer.kind=lamb "
    "optimizer.clip=0.0 logits=1 batch.tile=64 model.context=64" FEW,
    "mixed mesh.sequence=2 mesh.data=2 zero.stage=2 recompute.what=block "
    "precision.compute=fp16" FEW,

    /* By heads: even ones, one each, uneven ones, and of several ranks that use
     * the same heads of keys, as many of each or not. */
    "gpt2 " HEADS "2" FEW,
    "gpt2 " HEADS "4 zero.stage=3 zero.keep=0" FEW,
    "gpt2 " HEADS "3 model.context=96 zero.stage=1" FEW,
    "llama " HEADS "8 model.context=64 zero.stage=2 zero.reduce=micro" FEW,
    "llama " HEADS "4 model.kv_heads=2 batch.sequence_groups=8 "
    "model.context=64 mesh.key_slots=1 recompute.what=attention" FEW,
    "llama " HEADS "3 model.kv_heads=2 batch.sequence_groups=12 "
    "model.context=96 mesh.data=2 zero.stage=3 zero.keep=0" FEW,
    "llama " HEADS "8 model.kv_heads=1 model.context=64 model.layers=2" FEW,
    "llama " HEADS "2 mesh.tensor=4 model.context=64 recompute.what=block" FEW,
    "llama " HEADS "4 mesh.tensor=2 mesh.pipeline=2 zero.stage=1 "
    "model.context=64 batch.order=layer_major" FEW,
    "gpt2 " HEADS "4 mesh.pipeline=2 pipeline.schedule=zero_bubble "
    "recompute.what=block mesh.data=2 zero.stage=2" FEW,
    "gpt2 " HEADS "2 mesh.pipeline=2 pipeline.schedule=interleaved "
    "batch.sequence_groups=4 pipeline.strict=true" FEW,
    "llama " HEADS "4 model.tied=true " ALL_CPU FEW,
    "llama " HEADS "2 mesh.key_slots=1" FEW,
    "gpt2 " HEADS "2 mesh.data=2 zero.stage=2 " ALL_NVME FEW,
    "llama " HEADS "4 model.context=64 model.window=18 "
    "model.window_layers=1-3 recompute.what=attention mesh.pipeline=2" FEW,
    "llama " HEADS "8 model.context=128 model.window=18 "
    "model.layers=2" FEW,
    "gpt2 " HEADS "2 " GRADS("int8") PARAMS("int8") "zero.stage=3 "
                                                    "mesh.data=2" FEW,
    "gpt2 " HEADS "2 " HALVED "zero.stage=2 mesh.pipeline=2" FEW,
    "gpt2 " GATED HEADS "2 zero.stage=1" FEW,
    "mixed " HEADS "4 mesh.data=2 zero.stage=2 recompute.what=block "
    "precision.compute=fp16" FEW,
    "llama " LAID "mode=bigbird " LAYOUT "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true " HEADS "4" FEW,
    "llama " LAID "mode=bigbird " LAYOUT "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true batch.tile=16 mesh.tensor=2 " HEADS "4" FEW,
    "gpt2 " LAID "mode=fixed " LAYOUT "num_local_blocks=2 batch.tile=16 " HEADS
    "2 recompute.what=attention" FEW,
    /* Tiles that blocks do not begin with, of which some heads see all keys. */
    "gpt2 model.context=96 batch.tile=32 " LAYOUT
    "attention=unidirectional " LAYOUT "mode=bigbird " LAYOUT
    "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true " HEADS "2" FEW,

    /* Of keys that packing pays for with all heads, but not with some. */
    "gpt2 model.context=1024 batch.tile=256 model.window=200 " LAYOUT
    "attention=unidirectional " LAYOUT "mode=bigbird " LAYOUT "block=64 " LAYOUT
    "different_layout_per_head=true " HEADS "2 batch.sequences=2 job.steps=1",

    /* Layouts, of four tiles or more: of some layers, unlike in each layer and
     * head, and with a window. */
    "gpt2 " LAID "mode=fixed " LAYOUT "num_local_blocks=2 mesh.data=2 "
    "zero.stage=3 zero.keep=0",
    "gpt2 " LAID "mode=variable " LAYOUT "num_random_blocks=1 " LAYOUT
    "local_window_blocks=[1,2] mesh.data=4 zero.stage=2 zero.reduce=micro",
    "llama " LAID "mode=bigbird " LAYOUT "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true mesh.pipeline=2 recompute.what=block "
    "pipeline.schedule=zero_bubble mesh.data=2 zero.stage=1",
    "llama " LAID "mode=bigbird " LAYOUT "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true mesh.tensor=4 mesh.data=2 "
    "recompute.what=attention",
    "gpt2 " LAID "mode=local_sliding_window " LAYOUT
    "num_sliding_window_blocks=2 model.window=21 " LAYOUT "layers=1-2 "
    "batch.order=layer_major " ALL_NVME,
    "llama " LAID "mode=bigbird " LAYOUT "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true mesh.sequence=2 mesh.tensor=2 "
    "batch.tile=24",
    "mixed " LAID "mode=variable " LAYOUT "num_random_blocks=2 " LAYOUT
    "different_layout_per_head=true batch.tile=80 mesh.pipeline=2 "
    "precision.compute=bf16",

    /* Keys of several tiles in a task. */
    "gpt2 " KEYS(2) FEW,
    "llama " KEYS(8) "batch.order=layer_major" FEW,
    "llama " KEYS(3) "mesh.tensor=2 precision.compute=bf16" FEW,
    "llama " KEYS(8) "precision.compute=fp16 mesh.pipeline=2" FEW,
    "gpt2 " KEYS(3) "mesh.data=2 mesh.pipeline=2 zero.stage=2 "
                    "recompute.what=block" FEW,
    "llama " KEYS(4) "mesh.pipeline=2 pipeline.schedule=zero_bubble "
                     "recompute.what=attention batch.sequences=4 batch.micro=2 "
                     "job.steps=2",
    "llama " KEYS(3) "model.window=41 recompute.what=attention " ALL_CPU FEW,
    "mixed " KEYS(3) "model.window=18 mesh.data=2 zero.stage=3 zero.keep=0 "
                     "precision.compute=bf16" FEW,
    "gpt2 " KEYS(2) ALL_NVME FEW,
    "gpt2 " KEYS(4) HEADS "2 mesh.key_slots=1 " ALL_NVME FEW,
    "llama " KEYS(2) HEADS "4 model.kv_heads=2 mesh.tensor=2 "
                           "recompute.what=attention zero.stage=3" FEW,
    "gpt2 " KEYS(4) "mesh.sequence=2 " ALL_NVME FEW,
    "llama " KEYS(2) "mesh.sequence=2 mesh.tensor=2 zero.stage=3 "
                     "mesh.key_slots=1 precision.compute=bf16" FEW,
    "llama model.context=192 batch.tile=16 batch.key_tiles=2 "
    "mesh.sequence=2 mesh.pipeline=2 recompute.what=block" FEW,
    "llama " KEYS(3) LAYOUT
    "attention=unidirectional " LAYOUT "mode=bigbird " LAYOUT
    "num_sliding_window_blocks=1 " LAYOUT
    "different_layout_per_head=true mesh.tensor=4 recompute.what=block" FEW,
    "gpt2 " KEYS(4) LAYOUT
    "attention=unidirectional " LAYOUT "mode=fixed " LAYOUT
    "num_local_blocks=2 model.window=43 precision.compute=bf16" FEW,

    /* With a segment that a plug-in brings. */
    "gpt2 " GATED "mesh.data=2 zero.stage=3 zero.keep=0",
    "gpt2 " GATED "mesh.pipeline=2 recompute.what=block batch.tile=16",
    "llama " GATED "mesh.data=4 zero.stage=3 zero.keep=0 recompute.what=block",
    "llama " GATED ALL_CPU " batch.order=layer_major",
    "gpt2 " GATED "mesh.tensor=2",
    "gpt2 " GATED "mesh.tensor=4 mesh.data=2 zero.stage=3 zero.keep=0 "
    "recompute.what=block",
    "llama " GATED "mesh.tensor=2 mesh.pipeline=2 optimizer.kind=drift",
    "llama model.segments=[\"mlp\",\"gated_norm\"] mesh.data=2 zero.stage=2",

    /* Kept in other memories. */
    "gpt2 offload.optimizer=cpu",
    "gpt2 offload.optimizer=nvme",
    "gpt2 offload.params=cpu",
    "gpt2 offload.params=nvme",
    "gpt2 offload.gradients=cpu",
    "gpt2 offload.gradients=nvme",
    "gpt2 offload.activations=cpu",
    "gpt2 offload.activations=nvme",
    "llama offload.optimizer=nvme offload.share=0.4 offload.piece=4KiB",
    "llama offload.optimizer=nvme offload.piece=4KiB optimizer.clip=0.0",
    "llama offload.params=nvme offload.read_ahead=0",
    "llama offload.params=nvme offload.read_ahead=4 batch.in_flight=1",
    "llama offload.activations=nvme offload.read_ahead=0 "
    "offload.write_behind=0",
    "llama offload.gradients=nvme offload.write_behind=3 batch.groups=4",
    "gpt2 offload.optimizer=nvme offload.params=cpu offload.gradients=cpu "
    "offload.activations=cpu",
    "gpt2 " ALL_CPU,
    "gpt2 " ALL_NVME " memory.nvme.path=.",
    "llama " ALL_NVME " offload.read_ahead=0 offload.write_behind=0",
    "llama " ALL_NVME " batch.order=micro_major offload.piece=4KiB",
    "llama " ALL_NVME " batch.order=layer_major optimizer.clip=0.0",
    "llama " ALL_NVME " recompute.what=block memory.nvme.verify=true "
    "memory.nvme.path=.",
    "gpt2 " ALL_NVME " optimizer.kind=sgd optimizer.momentum=0.9",
    "gpt2 " ALL_NVME " optimizer.kind=sgd",
    "gpt2 " ALL_NVME " mesh.data=2",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=1",
    "gpt2 " ALL_CPU " mesh.data=2 zero.stage=2",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=2 zero.reduce=micro",
    "gpt2 " ALL_NVME " mesh.data=2 zero.stage=3 zero.keep=0",
    "llama " ALL_NVME " mesh.data=4 zero.stage=3 zero.prefetch=3",
    "llama " ALL_CPU " mesh.pipeline=3",
    "llama " ALL_NVME " mesh.pipeline=2 pipeline.schedule=zero_bubble",
    "llama " ALL_NVME " mesh.tensor=2 mesh.data=2 zero.stage=3 zero.keep=0",
    "llama " ALL_NVME " mesh.data=2 mesh.pipeline=2 zero.stage=3 zero.keep=0 "
    "pipeline.schedule=interleaved recompute.what=attention",

    /* In fewer bytes: the same ones whoever packs them. */
    "gpt2 " ALL_NVME " precision.states=bf16",
    "gpt2 " ALL_NVME " precision.states=int8 offload.piece=4KiB",
    "llama " ALL_NVME " precision.states=int8 offload.piece=4KiB "
    "offload.read_ahead=0 offload.write_behind=0",
    "llama " ALL_CPU " precision.states=int8 mesh.data=2 offload.piece=4KiB",
    "llama " ALL_NVME " precision.states=bf16 mesh.data=2 zero.stage=3 "
    "zero.keep=0 mesh.pipeline=2",
    "gpt2 " ALL_NVME " precision.states=int8 mesh.data=4 zero.stage=1 "
    "offload.share=0.4 optimizer.kind=lion",
    "gpt2 precision.states=bf16 mesh.data=2 zero.stage=1",
    "llama precision.states=int8 mesh.data=2 zero.stage=3 zero.keep=0 "
    "offload.piece=4KiB machine.workers=3",
    "gpt2 precision.states=int8 mesh.pipeline=2 optimizer.clip=0.0 "
    "offload.params=nvme offload.gradients=nvme",
    "llama precision.states=bf16 mesh.data=2 optimizer.kind=lion",
    "gpt2 precision.states=int8 mesh.data=2 zero.stage=3 zero.keep=0 "
    "optimizer.kind=adagrad offload.optimizer=nvme",
    /* Updates on cores write the copy in main memory, others in a buffer. */
    "gpt2 " ALL_CPU " precision.compute=bf16 offload.piece=4KiB mesh.data=2",
    "gpt2 " ALL_CPU " precision.compute=bf16 offload.piece=4KiB "
    "offload.share=0.3 mesh.data=2 zero.stage=1",
    "llama " ALL_CPU " precision.compute=bf16 offload.share=0.5 mesh.data=4 "
    "zero.stage=2 mesh.pipeline=2 offload.read_ahead=0 offload.write_behind=0",
    "gpt2 offload.optimizer=nvme offload.params=cpu offload.share=0.4 "
    "precision.compute=fp16 offload.piece=4KiB mesh.data=2 zero.stage=3 "
    "zero.keep=0 optimizer.kind=lamb",
    "gpt2 " NO_MASTERS "mesh.data=2 zero.stage=1 offload.piece=4KiB",
    "llama " NO_MASTERS "mesh.data=2 zero.stage=3 zero.keep=0 mesh.pipeline=2 "
    "precision.states=int8",
    "gpt2 " NO_MASTERS "offload.optimizer=cpu offload.params=nvme mesh.data=2",
    "gpt2 " NO_MASTERS "mesh.data=4 zero.stage=1 offload.params=nvme",

    /* Gradients in bf16: each sum of two is rounded, wherever it is stored. */
    "gpt2 " HALVED "mesh.data=2",
    "gpt2 " HALVED "mesh.data=4 batch.groups=8 zero.stage=1",
    "llama " HALVED "mesh.data=4 zero.stage=2 batch.groups=8",
    "llama " HALVED "mesh.data=8 zero.stage=3 zero.keep=0 batch.tile=16",
    "gpt2 " HALVED "mesh.data=24 batch.sequences=48 zero.stage=2",
    "gpt2 " HALVED "mesh.data=3 zero.stage=0 batch.sequences=12",
    "gpt2 " HALVED "mesh.data=2 zero.stage=2 zero.reduce=micro batch.groups=4",
    "llama " HALVED "mesh.pipeline=2 model.tied=true "
    "pipeline.schedule=zero_bubble batch.tile=16",
    "llama " HALVED "mesh.tensor=4 mesh.data=2 zero.stage=2",
    "gpt2 " HALVED "mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3 "
    "zero.keep=0",
    "llama " HALVED "batch.order=layer_major recompute.what=block mesh.data=2",
    "gpt2 " HALVED "precision.head=fp32 mesh.data=2 zero.stage=1",
    "gpt2 " HALVED GATED "mesh.data=2 zero.stage=2",
    "llama " HALVED ALL_NVME " mesh.data=2 zero.stage=2",
    "gpt2 " HALVED ALL_CPU " mesh.data=2 zero.stage=3 zero.keep=0 "
    "precision.states=int8 offload.piece=4KiB",
    "gpt2 " HALVED "precision.master=false mesh.data=2 zero.stage=1",
    "gpt2 " HALVED "optimizer.kind=lion optimizer.clip=0.0 mesh.data=2",
    "gpt2 " HALVED "optimizer.kind=sgd mesh.data=2 zero.stage=1",
    "mixed " HALVED "mesh.data=2 zero.stage=2 recompute.what=attention",
    "gpt2 precision.gradients=bf16 precision.compute=fp16 mesh.data=2 "
    "zero.stage=2",

    /* What is sent is coded: of each group, and of the masters, whoever sends
     * it, and where nobody does. */
    "llama compress.gradients=int8 compress.params=int8",
    "llama " GRADS("int8") "batch.groups=8 mesh.data=2",
    "llama " GRADS("int8") "batch.groups=8 mesh.data=4 zero.stage=1",
    "llama " GRADS("int8") "batch.groups=8 mesh.data=8 zero.stage=2",
    "llama " GRADS(
        "int8") "batch.groups=8 mesh.data=2 zero.stage=3 "
                "zero.keep=0 mesh.pipeline=2 pipeline.schedule=zero_bubble",
    "gpt2 " GRADS("int4") "mesh.data=4 zero.stage=2 compress.block=48",
    "gpt2 " GRADS("bf16") "mesh.data=2 batch.groups=8 zero.stage=1",
    "gpt2 " GRADS("int8") "mesh.data=2 zero.reduce=micro zero.stage=2 "
                          "batch.groups=4",
    "gpt2 " GRADS("int4") "mesh.data=16 batch.sequences=32 zero.stage=0",
    "gpt2 " GRADS("int8") "mesh.data=3 zero.stage=1 batch.sequences=12",
    "gpt2 " GRADS("int4") "mesh.data=2 mesh.tensor=2 zero.stage=1",
    "llama " GRADS("int8") "mesh.pipeline=2 model.tied=true mesh.data=2",
    /* Errors that are carried over are those of groups, wherever these are. */
    "llama " GRADS("int4") "compress.error=fp32 batch.groups=8 mesh.data=2",
    "llama " GRADS("int4") "compress.error=int8 batch.groups=8 mesh.data=4 "
                           "zero.stage=1",
    "llama " GRADS("int8") "compress.error=int8 batch.groups=8 mesh.data=8 "
                           "zero.stage=2 compress.error_reset=2",
    "llama " GRADS("int4") "compress.error=fp32 mesh.data=2 mesh.pipeline=2 "
                           "zero.stage=3 zero.keep=0 model.tied=true",
    "gpt2 " GRADS("int4") "compress.error=int8 mesh.data=2 mesh.tensor=2 "
                          "zero.stage=1",
    "gpt2 " GRADS("int4") "compress.error=int8 mesh.data=2 zero.stage=2 "
                          "offload.piece=4KiB " ALL_NVME,
    "gpt2 " GRADS("int4") "compress.error=fp32 mesh.data=2 zero.stage=2 "
                          "compress.block=48 precision.compute=fp16 " ALL_CPU,
    "llama " GRADS("int8") "compress.error=fp32 mesh.data=2 zero.reduce=micro "
                           "zero.stage=2 batch.groups=4 model.tied=false",
    /* Momenta in 1 bit: each data rank averages a shard of them. */
    "gpt2 " ONEBIT "batch.groups=8 mesh.data=2",
    "llama " ONEBIT "batch.groups=8 mesh.data=8 model.tied=true",
    "llama " ONEBIT "onebit_adam.errors=bf16 batch.groups=8 mesh.data=4 "
    "mesh.pipeline=2 model.tied=true compress.block=48",
    "gpt2 " ONEBIT "mesh.data=2 precision.compute=bf16 recompute.what=block "
    "offload.params=cpu offload.gradients=nvme "
    "offload.activations=cpu",
    "gpt2 " ONEBIT "mesh.data=2 zero.stage=1 batch.groups=4",
    "llama " ONEBIT "mesh.data=4 zero.stage=2 mesh.pipeline=2 model.tied=true",
    "gpt2 " ONEBIT "mesh.data=8 zero.stage=3 zero.keep=0 "
    "precision.compute=bf16 offload.params=nvme "
    "offload.gradients=cpu",
    "gpt2 " ONEBIT "mesh.data=3 batch.sequences=12 precision.compute=fp16 "
    "compress.params=int8",

    /* States in any memory: what needs all of one has it whole, others pieces.
     */
    "gpt2 " ONEBIT "mesh.data=2 zero.stage=2 offload.piece=4KiB " ALL_NVME,
    "llama " ONEBIT "onebit_adam.errors=bf16 mesh.data=2 batch.groups=4 "
    "precision.compute=bf16 offload.share=0.5 offload.piece=4KiB " ALL_CPU,
    "gpt2 " ONEBIT_LAMB "mesh.data=2 zero.stage=0 offload.piece=4KiB "
    "precision.compute=bf16 " ALL_NVME,
    "gpt2 " ONEBIT_LAMB "mesh.data=4 zero.stage=3 zero.keep=0 "
    "offload.piece=4KiB " ALL_CPU,
    "gpt2 " ZEROONE "mesh.data=2 offload.piece=4KiB " ALL_NVME,

    /* Groups of tokens are workers, whichever rank has them. */
    "gpt2 " ONEBIT "mesh.sequence=2 batch.tile=16 zero.stage=1",
    "llama " ONEBIT "batch.sequence_groups=4 mesh.sequence=2 mesh.data=2 "
    "model.context=128 batch.tile=16 zero.stage=3 zero.keep=0 model.tied=true "
    "onebit_adam.errors=bf16",
    "gpt2 " ONEBIT_LAMB "optimizer.clip=0.05 mesh.sequence=2 mesh.data=2 "
    "batch.tile=16 zero.stage=2 precision.compute=bf16 mesh.pipeline=2",

    /* Tensor ranks have scales of their own pieces. Second moments of few steps
     * amplify what these change: rates are small. */
    "gpt2 " ONEBIT "optimizer.lr=1e-6 mesh.tensor=2 mesh.data=2 zero.stage=2 "
    "batch.groups=4",
    "llama " ONEBIT "optimizer.lr=1e-6 mesh.tensor=4 mesh.data=2 zero.stage=3 "
    "zero.keep=0 batch.groups=8 model.tied=true onebit_adam.errors=bf16",
    "gpt2 " ONEBIT "optimizer.lr=1e-6 mesh.tensor=2 compress.block=48 "
    "mesh.data=2 zero.stage=1 optimizer.clip=0.05 mesh.pipeline=2 "
    "offload.piece=4KiB " ALL_NVME,
    "gpt2 " ONEBIT "optimizer.lr=1e-6 mesh.tensor=2 mesh.sequence=2 "
    "batch.tile=16 zero.stage=2 precision.compute=bf16",
    "gpt2 " ONEBIT_LAMB "optimizer.lr=1e-6 mesh.tensor=2 mesh.data=2 "
    "zero.stage=2 batch.groups=4 offload.piece=4KiB " ALL_NVME,
    "llama " ONEBIT_LAMB "optimizer.lr=1e-6 mesh.tensor=4 mesh.data=2 "
    "zero.stage=3 zero.keep=0 batch.groups=8 model.tied=true "
    "onebit_lamb.errors=bf16 compress.block=48",
    "gpt2 " ONEBIT_LAMB "optimizer.lr=1e-6 onebit_lamb.freeze_step=2 "
    "mesh.tensor=2 mesh.pipeline=2 mesh.sequence=2 batch.tile=16 "
    "optimizer.clip=0.05 precision.compute=bf16",
    "llama " ZEROONE "optimizer.lr=1e-6 mesh.tensor=2 mesh.data=2 "
    "zeroone_adam.errors=bf16 compress.block=48",
    "gpt2 " ZEROONE "mesh.tensor=2 mesh.data=2 mesh.pipeline=2 "
    "precision.compute=bf16 offload.piece=4KiB " ALL_CPU,

    /* A step that overflows, the first one in 1 bit: momenta were not. */
    "gpt2 " ONEBIT OVERFLOWS "onebit_adam.freeze_step=3 mesh.data=2 "
    "zero.stage=1",
    "gpt2 " ONEBIT OVERFLOWS "onebit_adam.freeze_step=3 mesh.data=2 "
    "zero.stage=3 offload.piece=4KiB " ALL_CPU,
    "gpt2 " ONEBIT_LAMB OVERFLOWS "onebit_lamb.freeze_step=3 mesh.data=2 "
    "zero.stage=2 offload.piece=4KiB " ALL_NVME,

    /* Each group within the limit of its own norm. */
    "gpt2 " ONEBIT "optimizer.clip=0.05 batch.groups=4 mesh.data=2 "
    "zero.stage=2 mesh.pipeline=2",
    "llama " ONEBIT_LAMB "optimizer.clip=0.05 mesh.data=4 model.tied=true "
    "precision.compute=fp16",
    /* And of all tensors at once, with a third kind of step. */
    "gpt2 " ONEBIT_LAMB "batch.groups=8 mesh.data=2",
    "llama " ONEBIT_LAMB "batch.groups=8 mesh.data=8 model.tied=true",
    "llama " ONEBIT_LAMB "onebit_lamb.errors=bf16 mesh.data=4 zero.stage=2 "
    "mesh.pipeline=2 model.tied=true compress.block=48",
    "gpt2 " ONEBIT_LAMB "mesh.data=4 zero.stage=3 zero.keep=0 "
    "precision.compute=bf16 recompute.what=block "
    "offload.params=cpu offload.gradients=nvme",
    "gpt2 " ONEBIT_LAMB "onebit_lamb.freeze_step=2 mesh.data=3 zero.stage=1 "
    "batch.sequences=12 precision.compute=fp16 compress.params=int8",

    /* Gradients in 1 bit, and then workers with weights of their own. */
    "gpt2 " ZEROONE "mesh.data=2",
    "llama " ZEROONE "mesh.data=4 mesh.pipeline=2 model.tied=true "
    "zeroone_adam.errors=bf16 compress.block=48",
    "gpt2 " ZEROONE "mesh.data=2 precision.compute=bf16 recompute.what=block "
    "offload.params=cpu offload.gradients=nvme offload.activations=cpu",
    "llama " ZEROONE
    "mesh.data=8 mesh.pipeline=2 pipeline.schedule=zero_bubble "
    "precision.compute=bf16 recompute.what=attention",
    "gpt2 " ZEROONE "mesh.data=3 batch.sequences=12 precision.compute=bf16 "
    "precision.head=fp32",

    /* A scale for each tensor of a group. */
    "gpt2 " GRADS("sign") "mesh.data=2 batch.groups=8",
    "llama " GRADS("sign") "compress.error=int8 mesh.data=4 zero.stage=2 "
                           "batch.groups=8 mesh.pipeline=2",
    "gpt2 " GRADS("sign") "compress.error=fp32 mesh.data=8 zero.stage=3 "
                          "zero.keep=0 " ALL_NVME,
    "gpt2 " GRADS("sign") "mesh.data=2 mesh.tensor=2 zero.stage=1",
    "gpt2 " PARAMS("int8") "mesh.data=2",
    "gpt2 " PARAMS("int8") "mesh.data=4 zero.stage=1 precision.compute=bf16",
    "gpt2 " PARAMS("int8") "mesh.data=2 zero.stage=2 mesh.pipeline=2",
    "gpt2 " PARAMS("int8") "mesh.data=4 zero.stage=3 zero.keep=0 "
                           "zero.prefetch=2 recompute.what=block",
    "gpt2 " PARAMS("bf16") "mesh.data=11 zero.stage=3 batch.sequences=22",
    "llama " PARAMS(
        "int8") "mesh.data=2 zero.stage=3 zero.keep=0 "
                "precision.compute=bf16 compress.gradients=int4 mesh.tensor=2",
    "llama " PARAMS(
        "int8") "mesh.data=2 zero.stage=3 zero.keep=0 "
                "compress.gradients=int8 offload.piece=4KiB " ALL_NVME,
    "llama " PARAMS("int8") "precision.states=int8 offload.piece=4KiB "
                            "mesh.data=2 zero.stage=1 " ALL_CPU,
    "gpt2 " PARAMS("int8") GATED "mesh.data=2 zero.stage=3 zero.keep=0 "
                                 "optimizer.kind=lion optimizer.clip=0.0",

    /* Weights that are quantized or pruned are so on the rank that has them,
     * whatever part it has, and wherever they and the masters are. */
    "gpt2 " IN_BITS("symmetric") "mesh.data=2",
    "llama " IN_BITS("asymmetric") PRUNED "mesh.data=4 zero.stage=1 "
                                          "batch.groups=8",
    "gpt2 " PRUNED "mesh.data=2 zero.stage=2 mesh.pipeline=2 "
    "precision.compute=bf16 weights.embedding=true",
    "llama " IN_BITS("symmetric") "mesh.data=2 mesh.tensor=2 zero.stage=3 "
                                  "zero.keep=0 mesh.pipeline=2",
    "gpt2 " IN_BITS("symmetric") PRUNED "mesh.data=2 zero.stage=3 zero.keep=0 "
                                        "recompute.what=block "
                                        "offload.piece=4KiB " ALL_NVME,
    "llama weights.quantize=ternary weights.group=32 mesh.data=2 zero.stage=1 "
    "precision.compute=bf16 precision.states=int8 offload.piece=4KiB " ALL_CPU,
    "gpt2 weights.quantize=binary weights.quantize_from=1 weights.group=32 "
    "mesh.sequence=2 batch.tile=16 zero.stage=2 offload.optimizer=cpu",
    "gpt2 " IN_BITS("symmetric") PRUNED OVERFLOWS "mesh.data=2 zero.stage=2 "
                                                  "offload.params=cpu",
    "llama " IN_BITS("asymmetric") "optimizer.kind=muon mesh.data=2 "
                                   "zero.stage=1 model.tied=true "
                                   "weights.embedding=true",
    "gpt2 " IN_BITS("symmetric") "optimizer.kind=lamb mesh.data=2 zero.stage=3 "
                                 "zero.keep=0 precision.compute=bf16",
    "llama weights.quantize=symmetric weights.group=64 model.ffn_width=128 "
    "weights.prune=1:16 mesh.data=3 batch.sequences=12 zero.stage=1",
    "gpt2 " ONEBIT IN_BITS("symmetric") "mesh.data=2 zero.stage=1 "
                                        "batch.groups=4",
    "gpt2 " GRADS("int8") IN_BITS("symmetric") GATED "mesh.data=2",

    /* Inputs that are rounded are so on the rank that has them. */
    "gpt2 " INPUTS("symmetric") "mesh.data=2 mesh.pipeline=2 zero.stage=2",
    "llama " INPUTS("asymmetric") "activations.bits=4 mesh.data=2 zero.stage=3 "
                                  "zero.keep=0 recompute.what=block "
                                  "offload.piece=4KiB " ALL_NVME,
    "gpt2 " INPUTS("asymmetric") "precision.compute=bf16 mesh.sequence=2 "
                                 "batch.tile=16 zero.stage=1",
    "llama " INPUTS("symmetric") "mesh.tensor=2",
    "gpt2 " INPUTS("symmetric") "activations.bits=4 precision.compute=bf16 "
                                "mesh.tensor=2 recompute.what=block",
    "llama activations.quantize=symmetric activations.group=0 mesh.data=2 "
    "mesh.pipeline=2 zero.stage=2 precision.compute=bf16 recompute.what=block",
    "gpt2 " INPUTS("symmetric") IN_BITS("symmetric") PRUNED OVERFLOWS
    "mesh.data=2 zero.stage=2 recompute.what=attention",

    /* Sums of nodes are coded again: of some groups of a rank, of several
     * ranks, of groups that stand across ranks, and where the sums are fewer
     * bytes. */
    "llama " GRADS("int8") NODES(2) "mesh.data=4 zero.stage=1",
    "llama " GRADS("int8") NODES(4) "mesh.data=8 zero.stage=2",
    "llama " GRADS("int8") NODES(4) "mesh.data=8 zero.stage=0",
    "llama " GRADS("int8") NODES(4) "mesh.data=4 zero.stage=3 zero.keep=0 "
                                    "mesh.pipeline=2 machine.workers=3",
    "llama " GRADS("int8") NODES(4) "mesh.data=2 zero.stage=1",
    "gpt2 " GRADS("int4") "mesh.data=3 batch.groups=12 batch.sequences=12 "
                          "zero.stage=2 compress.node=6",
    "gpt2 " GRADS("int4") "mesh.data=3 batch.groups=12 batch.sequences=12 "
                          "zero.stage=0 compress.node=3",
    "gpt2 " GRADS("int8") "mesh.data=2 batch.groups=16 batch.sequences=16 "
                          "zero.stage=1 compress.node=2",
    "gpt2 " GRADS("int8") "mesh.data=4 batch.groups=4 zero.reduce=micro "
                          "zero.stage=2 compress.node=2",
    "gpt2 " GRADS("int4") NODES(4) "mesh.data=4 mesh.tensor=2 zero.stage=2",
    "gpt2 " GRADS("int8") "mesh.data=16 batch.sequences=32 zero.stage=2 "
                          "compress.node=8 " ALL_CPU,

    /* With the errors of these sums: of runs, where several ranks make one. */
    "llama " GRADS("int4") NODES(2) "compress.error=fp32 mesh.data=4 "
                                    "zero.stage=1",
    "llama " GRADS("int8") NODES(4) "compress.error=int8 mesh.data=8 "
                                    "zero.stage=2",
    "llama " GRADS("int4") NODES(4) "compress.error=fp32 mesh.data=8 "
                                    "zero.stage=0 compress.error_reset=2",
    "llama " GRADS("int4") NODES(4) "compress.error=int8 mesh.data=4 "
                                    "zero.stage=3 zero.keep=0 mesh.pipeline=2 "
                                    "machine.workers=3 model.tied=true",
    "gpt2 " GRADS("int4") "mesh.data=3 batch.groups=12 batch.sequences=12 "
                          "zero.stage=2 compress.node=6 compress.error=fp32",
    "gpt2 " GRADS("int4") "mesh.data=3 batch.groups=12 batch.sequences=12 "
                          "zero.stage=1 compress.node=3 compress.error=int8",
    "gpt2 " GRADS("int8") "mesh.data=2 batch.groups=16 batch.sequences=16 "
                          "zero.stage=3 compress.node=2 compress.error=fp32",
    "llama " GRADS("int8") "mesh.data=4 batch.groups=4 zero.reduce=micro "
                           "zero.stage=2 compress.node=2 model.tied=false "
                           "compress.error=fp32",
    "gpt2 " GRADS("int4") NODES(4) "mesh.data=4 mesh.tensor=2 zero.stage=2 "
                                   "compress.error=int8",
    "llama " GRADS("int4") "mesh.data=2 mesh.sequence=2 compress.error=fp32 "
                           "batch.sequence_groups=2 compress.node=2 "
                           "zero.stage=2 batch.groups=2",
    "gpt2 " GRADS("int4") NODES(4) "mesh.data=4 zero.stage=2 compress.block=48 "
                                   "compress.error=int8 precision.compute=fp16 "
                                   "offload.piece=4KiB " ALL_NVME,

    /* Second copies of parameters, as they are and coded. */
    "gpt2 mesh.data=4 zero.stage=3 zero.keep=0 compress.secondary=2",
    "llama mesh.data=6 batch.sequences=12 zero.stage=3 zero.keep=0 "
    "compress.secondary=3 zero.prefetch=2 recompute.what=block "
    "precision.compute=bf16",
    "gpt2 mesh.data=16 batch.sequences=32 zero.stage=3 zero.keep=0 "
    "compress.secondary=8",
    "gpt2 " PARAMS("int8") "mesh.data=4 zero.stage=3 zero.keep=0 "
                           "compress.secondary=2 batch.sequences=8",
    "llama " PARAMS("int8") "compress.gradients=int4 compress.node=2 "
                            "mesh.data=4 zero.stage=3 zero.keep=0 "
                            "compress.secondary=2 mesh.pipeline=2",
    "gpt2 " PARAMS("int8") "compress.gradients=int4 compress.node=2 "
                           "mesh.data=4 zero.stage=3 zero.keep=0 "
                           "compress.secondary=1 batch.order=layer_major "
                           "batch.sequences=8 " ALL_NVME,

    /* By levels, of which second copies are one, or have some among them. */
    "gpt2 " PARAMS("int8") "mesh.data=16 batch.sequences=16 zero.stage=2 "
                           "job.steps=2",
    "gpt2 " PARAMS("int8") "mesh.data=24 batch.sequences=24 zero.stage=3 "
                           "zero.keep=0 job.steps=2",
    "llama " PARAMS("int8") "mesh.data=16 batch.sequences=16 zero.stage=3 "
                            "zero.keep=0 compress.secondary=4 job.steps=2",
    "gpt2 " PARAMS("int8") "mesh.data=32 batch.sequences=32 zero.stage=3 "
                           "zero.keep=0 compress.secondary=16 job.steps=2",
    "gpt2 " ONEBIT "mesh.data=16 batch.sequences=16 zero.stage=2",

    /* The gradient of an embedding goes as rows, beside coded ones, too. */
    "llama " ROWS "mesh.data=2",
    "llama " ROWS "mesh.data=4 zero.stage=1 batch.groups=8",
    "llama " ROWS "mesh.data=4 zero.stage=2 mesh.pipeline=2 " ALL_CPU,
    "llama " ROWS "mesh.data=3 batch.sequences=12 zero.stage=3 zero.keep=0",
    "llama " ROWS GRADS("int8") "mesh.data=2 zero.stage=2 batch.groups=4",
    "llama " ROWS "mesh.data=2 zero.reduce=micro zero.stage=2 "
    "precision.compute=bf16",

    /* Whatever StarPU's scheduler does, and with four workers to a core. */
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=lws "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=ws "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=eager "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=prio "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=random "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dm "
    "machine.workers=3",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmda "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdap "
    "machine.workers=2",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdar "
    "machine.workers=8",
    "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2 machine.scheduler=dmdas "
    "machine.workers=3",

    /* Layers of several widths and numbers of heads. */
    "mixed mesh.data=2 zero.stage=3 zero.keep=0 mesh.pipeline=2 "
    "recompute.what=block",
    "mixed mesh.data=2 zero.stage=3 zero.keep=0 zero.prefetch=1",
    "mixed mesh.data=2 zero.stage=2 recompute.what=attention",
    "mixed recompute.what=block batch.tile=16",
    "mixed " ALL_NVME,
    "mixed mesh.pipeline=3 pipeline.schedule=zero_bubble batch.sequences=12",
    "mixed mesh.tensor=2 mesh.data=2 zero.stage=1 recompute.what=block",
    NULL,
};

static int roll(struct dice *d, int n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)n);
}

#define PICK(d, ...)                                                           \
    ((const char *const[]){ __VA_ARGS__ })[roll(                               \
        d, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

/* One of the divisors 1, 2, 4, … of `n` that are at most `most`. */
static int roll_power(struct dice *d, int n, int most)
{
    int powers = 1;

    while (n % (1 << powers) == 0 && 1 << powers <= most)
        powers++;
    return 1 << roll(d, powers);
}

static const char *roll_scheduler(struct dice *d)
{
    unsigned n = 0;

    while (dsf_scheduler_at(n) != NULL)
        n++;
    return dsf_scheduler_at((unsigned)roll(d, (int)n));
}

char *random_trial(struct dice *d, bool on_gpus)
{
    bool is_llama = roll(d, 2);
    int layers = on_gpus ? 2 : is_llama ? 6 : 4, most = on_gpus ? 4 : 8;
    int data = 1 + roll(d, most), tensor = roll_power(d, 4, most / data);
    int sequence = roll(d, 3) > 0 ? 1 : roll_power(d, 8, most / data / tensor);
    int pipeline = 1 + roll(d, data * tensor * sequence > 3 ? 2 : layers);
    int turns = 1 + roll(d, on_gpus ? 3 : 6), micro = 1 + (roll(d, 4) == 0);
    char *text = calloc(1, 1000);
    int at = 0;

#define ADD(...) at += snprintf(text + at, 1000 - (size_t)at, __VA_ARGS__)
    ADD("%s mesh.data=%d mesh.pipeline=%d mesh.tensor=%d mesh.sequence=%d",
        is_llama ? "llama" : "gpt2", data, pipeline, tensor, sequence);
    if (sequence > 1)
        ADD(" mesh.sequence_kind=%s",
            sequence * tensor <= (is_llama ? 8 : 4) ? PICK(d, "heads", "keys")
                                                    : "keys");
    ADD(" batch.sequences=%d batch.micro=%d batch.groups=%d batch.tile=%s",
        data * turns * micro, micro,
        data * (sequence > 1 ? 1 : roll_power(d, turns, 8)),
        PICK(d, "16", "32"));
    if (roll(d, 3) == 0) /* four tokens a stretch */
        ADD(" batch.sequence_groups=%d mesh.key_slots=%s",
            sequence < 4 ? 4 : sequence, PICK(d, "1", "3"));
    if (roll(d, 4) == 0)
        ADD(" model.context=96 batch.key_tiles=%s", PICK(d, "2", "3", "6"));
    ADD(" batch.order=%s", PICK(d, "micro_major", "layer_major"));
    if (roll(d, 4) == 0)
        ADD(" batch.in_flight=1");
    if (data == 1 || roll(d, 2))
        ADD(" zero.stage=%s", PICK(d, "0", "1", "2", "3"));
    else
        ADD(" zero.stage=%s zero.reduce=micro", PICK(d, "1", "2", "3"));
    ADD(" zero.keep=%s zero.prefetch=%d", PICK(d, "0", "16KiB", "1MiB"),
        roll(d, 4));
    if (pipeline <= layers / 2 && roll(d, 3) == 0)
        ADD(" pipeline.chunks=2 pipeline.schedule=interleaved");
    else
        ADD(" pipeline.schedule=%s", PICK(d, "1f1b", "gpipe", "zero_bubble"));
    ADD(" pipeline.strict=%s", PICK(d, "false", "true"));
    ADD(" recompute.what=%s recompute.layers=%s",
        PICK(d, "none", "attention", "block"),
        PICK(d, "all", "all", on_gpus ? "1-1" : "0,2-3"));
    if (roll(d, 4) == 0)
        ADD(" optimizer.clip=0.0");
    if (is_llama)
        ADD(" model.tied=%s", PICK(d, "false", "true"));
    if (roll(d, 2)) {
        for (int i = 0; i < 4; i++)
            ADD(" offload.%s=%s",
                ((const char *const[]){ "optimizer", "params", "gradients",
                                        "activations" })[i],
                PICK(d, "none", "cpu", "nvme", "nvme"));
        ADD(" offload.read_ahead=%d offload.write_behind=%d", roll(d, 4),
            roll(d, 3));
        ADD(" offload.piece=%s offload.share=%s", PICK(d, "4KiB", "16MiB"),
            PICK(d, "0.0", "0.0", "0.5"));
    }
    /* Each scheduler that is offered, also with more workers than cores. */
    ADD(" machine.scheduler=%s machine.workers=%s", roll_scheduler(d),
        PICK(d, "1", "2", "3", "8"));
    if (on_gpus)
        ADD(" model.layers=%d machine.gpus=%s precision.states=%s", layers,
            PICK(d, "1", "2", "4"), PICK(d, "fp32", "fp32", "bf16", "int8"));
    if (on_gpus && roll(d, 2))
        ADD(" logits=%s", PICK(d, "1", "14000"));
    if (roll(d, 8) == 0)
        ADD(" batch.head_columns=%s", PICK(d, "16", "48", "64"));
    if (on_gpus && tensor == 1 && roll(d, 4) == 0)
        ADD(" optimizer.kind=muon");
#undef ADD
    return text;
}
