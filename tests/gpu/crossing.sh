# crossing.sh - checkpoints cross over between cores and GPUs that are not there, and
# between meshes of them, in the middle of a run; and Ctrl-C on a GPU loses nothing.
DSFLOW_CUDA=$PWD/tests/gpu/.libs/dsflow-cuda-emulated.so
. "${srcdir:-.}/tests/cli/lib.sh"
DSFLOW_EMULATED_LATE=20
DSFLOW_EMULATED_GUARD=0
export DSFLOW_CUDA DSFLOW_EMULATED_LATE DSFLOW_EMULATED_GUARD
job | sed 's/steps = 10/steps = 4/; s/48/16/; s/^sequences.*/sequences = 2\ngroups = 2/
    s/^kind.*/kind = "constant"/; s/^warmup.*//; s/^train = .*/&\nvalidation = 0/' > job.toml
gpu='--set machine.gpus=1'
zero='--set machine.gpus=2 --set mesh.data=2 --set zero.stage=3 --set zero.keep=0'
pipeline='--set machine.gpus=2 --set mesh.pipeline=2'
nvme='--set offload.optimizer=nvme --set offload.params=nvme --set memory.nvme.path=.'

# on FROM TO ARGS...: a copy of run FROM goes on as TO.
on() {
    cp -r "$1" "$2"
    to=$2
    shift 2
    run "$to" "${how:---resume}" "$@"
}

# still A B: the parameters of two runs have the same bytes.
still() {
    cmp "$1/checkpoints/$(cat "$1/checkpoints/latest")/params.safetensors" \
        "$2/checkpoints/$(cat "$2/checkpoints/latest")/params.safetensors" ||
        fault "the parameters of $1 and $2 differ"
}

# shellcheck disable=SC2086 # words
{
    # From GPUs to GPUs: the bytes of a run that was not broken off.
    run whole $gpu
    run half $zero $nvme --set job.steps=2
    on half pipelined $pipeline --set offload.gradients=cpu
    same whole pipelined

    # From GPUs to cores, and from cores to GPUs: each has the same before it.
    on half serial --executor serial
    on half shared --set mesh.data=2 --set zero.stage=2
    same serial shared
    run cores --set job.steps=2 --set mesh.data=2 --set zero.stage=1
    on cores one $gpu
    on cores two $zero --set offload.gradients=cpu --set offload.optimizer=cpu
    same one two

    # Without a rate, no parameter changes on the way, whatever computes in which type.
    still_on() {
        how=--resume=changed on "$@" --set optimizer.lr=0
        still "$1" "$2"
    }
    still_on half to-cores
    still_on cores to-gpus $zero $nvme
    still_on cores to-bf16 $gpu --set precision.compute=bf16
    on cores bf16 $gpu --set precision.compute=bf16 --set job.steps=3
    still_on bf16 to-fp32 $pipeline

    # In bf16, which cores did not begin with.
    on bf16 bf16-two $zero $nvme --set precision.compute=bf16
    on bf16 bf16-one $gpu --set precision.compute=bf16
    same bf16-one bf16-two
}

# Ctrl-C: the step is finished and saved, and the run goes on from there.
"$dsflow" run job.toml --set job.output=stopped --set machine.gpus=2 \
    --set mesh.data=2 --set zero.stage=2 --set offload.optimizer=nvme \
    --set memory.nvme.path=. --set job.steps=100000 > /dev/null 2> stopped.log &
pid=$!
until_line '"loss"' stopped/metrics.jsonl
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || fault "Ctrl-C: status $status: $(cat stopped.log)"
step=$(sed -n 's/^stopped after step \([0-9]*\), which is saved.*/\1/p' stopped.log)
run unbroken --set machine.gpus=1 --set job.steps=$((step + 1))
run stopped --resume --set machine.gpus=1 --set job.steps=$((step + 1))
same unbroken stopped
finish
