# losses.sh - whole jobs with all their CUDA sides, on GPUs that are not there,
# beside the serial executor on cores: losses within 1e-5 in fp32, and 1e-2 in bf16
# and fp16, whatever the mesh; norms of gradients within ten times that. Nothing of
# them is left to cores, but what a plug-in has no CUDA side for.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
source=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)
DSFLOW_EMULATED_GPUS=2
DSFLOW_EMULATED_LATE=20
export DSFLOW_CUDA DSFLOW_EMULATED_GPUS DSFLOW_EMULATED_LATE

# Of each step: loss, then norm of the gradient.
losses() {
    sed -n 's/.*"loss": *\([0-9.e+-]*\).*"grad_norm": *\([0-9.e+-]*\).*/\1\n\2/p' \
        "$1/metrics.jsonl"
}

# near WITHIN KEYS...: the losses of a job on GPUs, and on cores. `left`: kinds of
# task that cores do.
n=0
left=
near() {
    within=$1
    shift
    n=$((n + 1))
    sets='--set data.validation=0 --set job.steps=3 --set batch.sequences=2 --set batch.sequence=24'
    gpus=1
    for key in "$@"; do
        case $key in
        gpus=*) gpus=${key#gpus=} ;;
        *) sets="$sets --set $key" ;;
        esac
    done
    # shellcheck disable=SC2086 # words are what separates keys
    run cores$n $sets --executor serial
    # shellcheck disable=SC2086
    run gpus$n $sets --set machine.gpus=$gpus
    if [ -z "$left" ]; then
        ! grep 'on cores' log || fault "$*: some of it runs on cores"
    else
        grep -q "on cores, as they have no CUDA side: $left: " log ||
            fault "$*: not on cores: $left: $(cat log)"
    fi
    losses cores$n > cores
    losses gpus$n > gpus
    paste cores gpus | awk -v within="$within" '
        { d = $1 - $2; d = d < 0 ? -d : d }
        NF != 2 || !($1 > 0) || !(d <= (NR % 2 ? 1 : 10) * within * $1) { bad = 1 }
        END { exit bad || NR != 6 }' ||
        fault "$*: within $within: $(paste cores gpus)"
}
llama='model.family=llama model.heads=4 model.kv_heads=2'
near 1e-5 model.family=gpt2
# TF32 is near, but not the same; what goes on without it says so, and so do cores.
near 1e-3 model.family=gpt2 precision.tf32=true
[ "$(losses gpus1)" != "$(losses gpus$n)" ] || fault "tf32: nothing is rounded"
short='--set data.validation=0 --set batch.sequences=2 --set batch.sequence=24'
for on in machine.gpus=1 precision.tf32=true; do
    rm -rf on
    cp -r gpus$n on
    # shellcheck disable=SC2086 # words
    "$dsflow" run job.toml $short --set "$on" --set job.output=on --set job.steps=4 \
        --resume > log 2>&1 || fault "$on: $(cat log)"
    grep -q 'precision.tf32: true in the run, now false: ' log || fault "$on: $(cat log)"
done
grep -q 'precision: tf32: has no effect: the ranks are cores$' log ||
    fault "tf32 on cores: $(cat log)"
near 1e-2 precision.compute=bf16 model.vocab=301
# Nothing that follows a product is done in its pass.
DSFLOW_EMULATED_EPILOGUES=no
export DSFLOW_EMULATED_EPILOGUES
near 1e-2 precision.compute=bf16
unset DSFLOW_EMULATED_EPILOGUES
near 1e-5 gpus=2 mesh.tensor=2 model.vocab=301
# shellcheck disable=SC2086
near 1e-5 $llama recompute.what=block model.vocab=301 model.tied=false
# shellcheck disable=SC2086
near 1e-2 gpus=2 $llama precision.compute=bf16 mesh.data=2 zero.stage=3
near 1e-2 precision.compute=fp16 model.width=36
# Attention that does not see everything.
near 1e-5 gpus=2 mesh.data=2 model.window=9
sparse=sparse_attention
layout="$sparse.mode=bigbird $sparse.attention=unidirectional $sparse.block=16
        $sparse.num_random_blocks=1 $sparse.num_sliding_window_blocks=1
        $sparse.different_layout_per_head=true batch.sequence=48"
# shellcheck disable=SC2086
near 1e-2 gpus=2 $llama $layout mesh.tensor=2 precision.compute=bf16
# What the library does not leave in the type of the gradients is left in fp32.
for type in bf16 fp16; do
    near 1e-2 gpus=2 mesh.data=2 precision.compute=$type precision.gradients=bf16
done
# A core takes what kernels have made, not what was there before.
${CC:-cc} -shared -fPIC -I "$source/include" -o libattention.so \
    "$source/examples/plugins/attention.c" -lm || exit 1
left='plain.forward, plain.backward_input'
near 1e-5 'codelets.load=["./libattention.so"]' model.attention=plain
finish
