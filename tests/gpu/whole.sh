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

# shapes OUTPUT: names, types and sizes in its checkpoint.
shapes() {
    for f in "$1"/checkpoints/step-*/*.safetensors; do
        head -c 8000 "$f" | grep -aEo '"[a-z0-9._]*": *\{"dtype[^}]*'
    done
}

# go_on OUTPUT ARGS...: to step 3.
go_on() {
    out=$1
    shift
    # shellcheck disable=SC2086 # words
    "$dsflow" -q run job.toml --set job.output="$out" --resume $words "$@" \
        > log 2>&1 || fault "resume in $out $*: $(cat log)"
}

# on_gpus OUTPUT ARGS...: and nothing of it on cores.
on_gpus() {
    run "$@"
    grep "on cores" log && fault "$1: cores do some of it"
}

# 301 words: rows are padded, and no product is of numbers that are not aligned.
words="--set model.vocab=301"
DSFLOW_EMULATED_ALIGNMENT=16
export DSFLOW_EMULATED_ALIGNMENT
# shellcheck disable=SC2086 # words
{
    # What the plan says of a GPU is what is taken of it: with as much memory, less
    # what is kept for CUDA, and no page less. Kernels that are loaded late have room.
    "$dsflow" plan job.toml $words --set machine.gpus=1 --json > plan.json 2> log ||
        fault "no plan: $(cat log)"
    planned=$(sed -n '/peak_bytes/,/}/s/.*"device": \([0-9]*\).*/\1/p' plan.json |
        head -n 1)
    least=$((planned * 32 / 31 + 31))
    DSFLOW_EMULATED_MEMORY=$least on_gpus one $words --set machine.gpus=1
    DSFLOW_EMULATED_MEMORY=$((least - 4096)) "$dsflow" -q run job.toml $words \
        --set job.output=less --set machine.gpus=1 > log 2>&1
    [ $? -eq 2 ] || fault "with a page less than planned: $(cat log)"
    grep -Eq '^dsflow: .*memory: device: rank 0 needs .* would fit$' log ||
        fault "a page less: $(cat log)"
    [ -s less/metrics.jsonl ] && fault "the run had begun"
    DSFLOW_EMULATED_MEMORY=$least DSFLOW_EMULATED_KERNELS=2 "$dsflow" -q run \
        job.toml $words --set job.output=late --set machine.gpus=1 > log 2>&1
    [ $? -eq 1 ] || fault "no room for kernels: $(cat log)"
    grep -q 'GPU 0: .*out of memory' log || fault "no room for kernels: $(cat log)"
    DSFLOW_EMULATED_SEED=2 on_gpus two $words --set machine.gpus=2 \
        --set mesh.data=2 --set zero.stage=3 --set offload.gradients=cpu
    same one two

    # Files have no padding, so a checkpoint goes from cores to GPUs and back, and
    # among GPUs with the same bits.
    run cores $words --set job.steps=2
    run there $words --set machine.gpus=2 --set mesh.tensor=2 --set job.steps=2
    shapes cores > expected
    grep -q embed expected || fault "no shapes: $(cat expected)"
    shapes there > got
    cmp expected got || fault "shapes: $(diff expected got)"
    go_on cores --set machine.gpus=2
    go_on there --set mesh.tensor=2
    run half $words --set machine.gpus=1 --set job.steps=2
    go_on half --set machine.gpus=2 --set mesh.data=2 --set zero.stage=2
    run rest $words --set machine.gpus=2 --set mesh.data=2 --set job.steps=2
    go_on rest --set machine.gpus=1
    same half rest
}

unset DSFLOW_EMULATED_ALIGNMENT
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

# Parameters stay as they are where a step is skipped, also those of which a core
# has a piece, in main memory or in a buffer: the first steps overflow.
scaled="--set precision.compute=fp16 --set precision.hysteresis=1
    --set precision.initial_scale=4e6 --set job.steps=5 --set machine.gpus=1"
# shellcheck disable=SC2086 # words
{
    on_gpus scaled $scaled
    run pieces $scaled --set offload.optimizer=cpu --set offload.piece=4KiB
    same scaled pieces
    run buffers $scaled --set offload.optimizer=cpu --set offload.piece=4KiB \
        --set offload.params=cpu --set offload.share=0.5 \
        --set offload.read_ahead=0 --set offload.write_behind=0
    same scaled buffers
    for skipped in true false; do
        grep -q "\"skipped\":$skipped" pieces/metrics.jsonl ||
            fault "no step has skipped=$skipped: $(cat pieces/metrics.jsonl)"
    done
}
finish
