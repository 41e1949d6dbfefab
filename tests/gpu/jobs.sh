# jobs.sh - the same bits on GPUs that are not there, through cores: streams are
# late, cores cannot touch device memory, and what is taken of it is as much as the
# plan says.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-bare.so
DSFLOW_EMULATED_GPUS=4
DSFLOW_EMULATED_LATE=50
export DSFLOW_CUDA DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_LATE
cpu="offload.optimizer=cpu offload.params=cpu offload.gradients=cpu
     offload.activations=cpu"
nvme="offload.optimizer=nvme offload.params=nvme offload.gradients=nvme
      offload.activations=nvme"
failed=0

trial() {
    # shellcheck disable=SC2086 # words are what separates keys
    set -- $*
    if ! ./tests/same/test_meshes "$*" > gpu-jobs.log 2>&1; then
        cat gpu-jobs.log
        failed=1
    fi
    rm -f gpu-jobs.log
}

DSFLOW_EMULATED_MEMORY=0x200000 trial gpt2 machine.gpus=1
DSFLOW_EMULATED_GUARD=0
export DSFLOW_EMULATED_GUARD
trial gpt2 machine.gpus=2 mesh.data=2 zero.stage=3 zero.keep=0 $nvme
trial llama machine.gpus=2 $cpu mesh.data=2 mesh.pipeline=2 zero.stage=3 \
    recompute.what=block
DSFLOW_EMULATED_SEED=2 trial gpt2 machine.gpus=4 mesh.tensor=2 mesh.data=2 \
    zero.stage=1
trial llama machine.gpus=4 mesh.pipeline=2 mesh.data=2 offload.optimizer=cpu \
    machine.scheduler=dmda
exit $failed
