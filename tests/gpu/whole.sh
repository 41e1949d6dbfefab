# whole.sh - whole jobs by the kernels of GPUs that are not there: the bits of one
# GPU on two, with any mesh and tier; nothing is left to cores. losses.sh has them
# beside cores.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
DSFLOW_EMULATED_LATE=20
DSFLOW_EMULATED_GUARD=0
export DSFLOW_CUDA DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD
job | sed 's/steps = 10/steps = 3/; s/48/24/; s/^train = .*/&\nvalidation = 0/' > job.toml
echo 'groups = 2' > groups
sed -i '/^sequence = /r groups' job.toml

# on_gpus OUTPUT ARGS...: and nothing of it on cores.
on_gpus() {
    run "$@"
    grep "on cores" log && fault "$1: cores do some of it"
}

on_gpus one --set machine.gpus=1
DSFLOW_EMULATED_SEED=2 on_gpus two --set machine.gpus=2 --set mesh.data=2 \
    --set zero.stage=3 --set offload.gradients=cpu
same one two

llama="--set model.family=llama --set model.kv_heads=1
    --set precision.compute=bf16"
# shellcheck disable=SC2086 # words
{
    on_gpus llama-one $llama --set machine.gpus=1
    DSFLOW_EMULATED_SEED=3 on_gpus llama-two $llama --set machine.gpus=2 \
        --set mesh.pipeline=2 --set recompute.what=block \
        --set offload.activations=cpu
    same llama-one llama-two
}
finish
