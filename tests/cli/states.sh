# states.sh - states of the optimizer in fewer bytes: the numbers are others, and
# the same ones whatever runs the job, shares it out, cuts it or interrupts it.
. "${srcdir:-.}/tests/cli/lib.sh"

other() {
    a=$1/checkpoints/step-10/params.safetensors
    ! cmp -s "$a" "$2/checkpoints/step-10/params.safetensors" ||
        fault "$1 and $2 have the same parameters"
}

run fp32 --set batch.groups=2
for format in bf16 int8; do
    packed="--set batch.groups=2 --set offload.optimizer=cpu
        --set offload.states=$format"

    run $format $packed --executor serial
    other $format fp32
    run $format-w $packed --set machine.workers=2
    same $format $format-w
    run $format-piece $packed --set offload.piece=4KiB --set offload.read_ahead=0
    same $format $format-piece
    run $format-share $packed --set offload.share=0.5
    same $format $format-share
    run $format-nvme $packed --set offload.optimizer=nvme \
        --set memory.nvme.path="[\"$here\"]" --set offload.piece=4KiB
    same $format $format-nvme
    for stage in 0 1 2 3; do
        run $format-z$stage $packed --set mesh.data=2 --set zero.stage=$stage \
            --set offload.piece=4KiB
        same $format $format-z$stage
    done
    run $format-pipe $packed --set mesh.pipeline=2
    same $format $format-pipe

    # Interrupted, and on another mesh from there on.
    run $format-r $packed --set job.steps=4 --set schedule.total=10
    run $format-r $packed --resume
    same $format $format-r
    run $format-m $packed --set job.steps=4 --set schedule.total=10
    run $format-m $packed --set mesh.data=2 --set zero.stage=2 --resume
    same $format $format-m
    run $format-t $packed --set mesh.tensor=2
    run $format-u $packed --set mesh.tensor=2 --set job.steps=4 \
        --set schedule.total=10
    run $format-u $packed --set mesh.tensor=2 --resume
    same $format-t $format-u

    "$dsflow" run job.toml --set job.output=$format-r --set job.steps=12 \
        --set batch.groups=2 --resume > log 2>&1
    [ $? -eq 2 ] && grep -q "the job has changed (offload.states)" log ||
        fault "a checkpoint with states of $format goes on in fp32: $(cat log)"
done
other bf16 int8

for kind in sgd lion; do
    packed="--set offload.optimizer=cpu --set offload.states=int8
        --set optimizer.kind=$kind"

    [ $kind = sgd ] && packed="$packed --set optimizer.momentum=0.9"
    rm -rf a b
    run a $packed --executor serial
    run b $packed --set job.steps=4 --set schedule.total=10
    run b $packed --resume
    same a b
done

# States that are not offloaded stay in fp32.
rm -rf a b
run a --set offload.params=cpu
run b --set offload.params=cpu --set offload.states=int8
grep -q 'warning: --set: offload: states: has no effect: offload.optimizer is "none"$' log ||
    fault "states that stay: $(cat log)"
same a b
finish
