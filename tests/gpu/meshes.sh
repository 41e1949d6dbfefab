# meshes.sh - jobs of two layers on 1, 2 and 4 GPUs that are not there, by their
# kernels: the bits of one GPU whatever the mesh, the tiers and the order in which
# streams are late, and the losses of cores. TRIALS=40 STEPS=20 SEED=7: random ones
# in the place of these.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
DSFLOW_EMULATED_GPUS=4
DSFLOW_EMULATED_LATE=${DSFLOW_EMULATED_LATE:-50}
DSFLOW_EMULATED_GUARD=${DSFLOW_EMULATED_GUARD:-0}
ON_GPUS=1
export DSFLOW_CUDA DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_LATE \
    DSFLOW_EMULATED_GUARD ON_GPUS
[ -z "${TRIALS-}" ] || exec ./tests/same/test_meshes "$@"
small="model.layers=2 job.steps=${STEPS:-2} batch.sequence=16"
nvme="offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
      offload.activations=nvme offload.share=0.5 offload.piece=4KiB"

sparse=sparse_attention
layout="$sparse.mode=bigbird $sparse.attention=unidirectional $sparse.block=16
        $sparse.num_random_blocks=1 $sparse.num_sliding_window_blocks=1
        $sparse.different_layout_per_head=true model.context=64 batch.sequence=64"

# All kinds of step of 0/1 Adam: 1 and 2 send gradients, 3 signs of them; from 4 on
# every other one is a worker's own.
zeroone="optimizer.kind=zeroone_adam compress.keep=0 zeroone_adam.errors=bf16
         zeroone_adam.var_freeze_step=2 zeroone_adam.var_update_scaler=1
         zeroone_adam.local_step_scaler=1 zeroone_adam.local_step_clipper=2
         job.steps=6 optimizer.lr=1e-4"

# trial FAMILY KEYS...: in a line.
trial() {
    family=$1
    shift
    # shellcheck disable=SC2086 # words are what separates keys
    echo $family $small "$@"
}
# shellcheck disable=SC2086
exec ./tests/same/test_meshes \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=3 \
        zero.keep=0 $nvme)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=4 mesh.data=2 mesh.tensor=2 \
        zero.stage=2 offload.optimizer=cpu precision.compute=bf16 \
        precision.gradients=bf16 precision.states=int8)" \
    "$(trial gpt2 batch.sequences=4 batch.micro=2 batch.tile=32 machine.gpus=4 \
        mesh.data=2 mesh.pipeline=2 precision.compute=bf16 logits=1)" \
    "$(trial llama batch.sequences=4 batch.micro=4 batch.tile=64 machine.gpus=2 \
        mesh.pipeline=2 offload.activations=cpu logits=1)" \
    "$(trial llama batch.sequences=3 machine.gpus=2 mesh.pipeline=2 \
        pipeline.schedule=zero_bubble recompute.what=block \
        offload.activations=cpu offload.params=cpu precision.compute=fp16 \
        precision.initial_scale=1024)" \
    "$(trial gpt2 batch.sequences=4 batch.groups=4 machine.gpus=2 mesh.data=2 \
        zero.stage=2 compress.keep=0 compress.gradients=int4 \
        compress.params=int8 compress.error=int8)" \
    "$(trial llama batch.sequences=4 batch.groups=4 machine.gpus=4 mesh.data=4 \
        zero.stage=3 zero.keep=0 compress.keep=0 compress.gradients=sign \
        compress.error=fp32 compress.params=bf16 precision.compute=bf16)" \
    "$(trial gpt2 batch.sequences=4 batch.groups=4 machine.gpus=4 mesh.data=4 \
        zero.stage=1 compress.keep=0 compress.gradients=int8 compress.node=2 \
        compress.error=fp32 $nvme)" \
    "$(trial gpt2 batch.sequences=4 batch.groups=4 machine.gpus=4 mesh.data=4 \
        zero.stage=2 compress.keep=0 optimizer.kind=onebit_adam \
        onebit_adam.freeze_step=1 onebit_adam.errors=bf16 optimizer.clip=0.0 \
        optimizer.lr=1e-4)" \
    "$(trial llama batch.sequences=2 batch.sequence=64 model.context=64 \
        batch.tile=16 machine.gpus=2 mesh.sequence=2 model.window=21 \
        precision.compute=bf16)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=1 \
        offload.optimizer=cpu offload.params=cpu offload.share=0.3 \
        offload.piece=4KiB offload.read_ahead=0 offload.write_behind=0 \
        precision.compute=bf16)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.sequence=2 \
        mesh.sequence_kind=heads)" \
    "$(trial llama batch.sequences=2 machine.gpus=2 mesh.tensor=2 $layout)" \
    "$(trial gpt2 batch.sequences=4 batch.groups=4 machine.gpus=2 mesh.data=2 \
        zero.stage=2 compress.keep=0 optimizer.kind=onebit_lamb \
        onebit_lamb.freeze_step=1 optimizer.clip=0.7)" \
    "$(trial llama batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=1 \
        optimizer.kind=lamb offload.optimizer=cpu offload.piece=4KiB \
        precision.compute=bf16)" \
    "$(trial gpt2 batch.sequences=4 machine.gpus=4 mesh.data=2 \
        mesh.pipeline=2 optimizer.clip=0.0 $zeroone)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=3 \
        zero.keep=0 optimizer.kind=muon precision.states=int8 $nvme \
        offload.read_ahead=0)" \
    "$(trial llama batch.sequences=2 machine.gpus=4 mesh.data=2 \
        mesh.pipeline=2 zero.stage=1 optimizer.kind=muon offload.optimizer=cpu \
        offload.read_ahead=0 offload.write_behind=0 precision.compute=bf16)" \
    "$(trial llama batch.head_columns=16 model.tied=true machine.gpus=4 \
        mesh.sequence=2 mesh.tensor=2 zero.stage=1)" \
    "$(trial gpt2 batch.head_columns=48 batch.micro=2 batch.tile=32 \
        batch.sequences=4 machine.gpus=2 mesh.data=2 zero.stage=2 \
        compress.embedding=rows precision.compute=bf16 logits=1)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=1 \
        weights.quantize=symmetric weights.start_bits=4 weights.bits=2 \
        weights.period=1 weights.group=16 weights.prune=2:4 \
        weights.prune_from=1 offload.optimizer=cpu offload.params=cpu \
        offload.share=0.3 offload.piece=4KiB precision.compute=bf16)" \
    "$(trial llama batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=3 \
        zero.keep=0 weights.quantize=ternary weights.group=32 \
        weights.embedding=true)" \
    "$(trial llama batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=3 \
        zero.keep=0 activations.quantize=symmetric activations.group=16 \
        recompute.what=block $nvme)" \
    "$(trial gpt2 batch.sequences=2 machine.gpus=2 mesh.tensor=2 \
        activations.quantize=asymmetric activations.group=16 \
        precision.compute=bf16)" \
    "$(trial llama batch.sequences=2 machine.gpus=2 mesh.data=2 zero.stage=1 \
        activations.quantize=asymmetric activations.group=0 \
        precision.compute=bf16)"
