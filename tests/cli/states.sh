# states.sh - states of the optimizer in fewer bytes: the numbers are others, and
# the same ones whatever runs the job, shares it out, cuts it or interrupts it.
. "${srcdir:-.}/tests/cli/lib.sh"

run fp32 --set batch.groups=2
for format in bf16 int8; do
    plain="--set batch.groups=2 --set precision.states=$format"
    packed="$plain --set offload.optimizer=cpu"

    run $format $plain --executor serial
    other $format fp32
    run $format-w $plain --set machine.workers=2 --set offload.piece=4KiB
    same $format $format-w
    run $format-z $plain --set mesh.data=2 --set zero.stage=2
    same $format $format-z
    run $format-cpu $packed --set machine.workers=2
    same $format $format-cpu
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

    # Interrupted, and on another mesh or with states elsewhere from there on.
    run $format-r $packed --set job.steps=4 --set schedule.total=10
    run $format-r $plain --resume
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
    [ $? -eq 2 ] && grep -q "the job has changed (precision.states)" log ||
        fault "a checkpoint with states of $format goes on in fp32: $(cat log)"
done
other bf16 int8

for kind in sgd lion adagrad lamb muon; do
    packed="--set precision.states=int8 --set optimizer.kind=$kind"

    [ $kind = sgd ] && packed="$packed --set optimizer.momentum=0.9"
    rm -rf a b
    run a $packed --executor serial
    run b $packed --set job.steps=4 --set schedule.total=10
    run b $packed --resume
    same a b
done

# The name of before: job.toml has to be changed, but for that of a run.
old="offload: states: unknown key; it is precision.states"
{ cat job.toml; printf '[offload]\nstates = "int8"\n'; } > old.toml
line=$(grep -n '^states' old.toml | cut -d: -f1)
for args in "run old.toml" "plan job.toml --set offload.states=int8"; do
    "$dsflow" $args > log 2>&1
    [ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q ": $old\$" log ||
        fault "$args: $(cat log)"
done
grep -q "dsflow: --set: $old" log || fault "--set: $(cat log)"
"$dsflow" run old.toml > log 2>&1
grep -q "dsflow: old.toml:$line: $old" log || fault "a line: $(cat log)"

# before FOLDER WHERE: as dsflow wrote it when the key had its first name, with
# offload.optimizer = WHERE.
before() {
    sed -i '/^\[precision\]/,$d' "$1/job.toml" # what comes last
    sed -i '$a [offload]\noptimizer = "'$2'"\nstates = "int8"' "$1/job.toml"
    sed -i 's/"precision\.states"/"offload.states"/' "$1"/checkpoints/*/manifest.json
    grep -q '"offload.states"' "$1"/checkpoints/*/manifest.json ||
        fault "no offload.states: $(cat "$1"/checkpoints/*/manifest.json)"
}
rm -rf a b
run a --set offload.optimizer=cpu --set precision.states=int8
run b --set offload.optimizer=cpu --set precision.states=int8 --set job.steps=4 \
    --set schedule.total=10
before b cpu
"$dsflow" run b --resume --set job.steps=10 > log 2>&1 || fault "before: $(cat log)"
grep -q 'b/job.toml:[0-9]*: offload: states: is precision.states now: read as precision.states = "int8"$' log ||
    fault "nothing is said: $(cat log)"
! grep -q 'has changed\|precision.states: ' log || fault "another job: $(cat log)"
same a b
grep -q '^states = "int8"' b/job.toml && ! sed -n '/^\[offload\]/,/^\[/p' b/job.toml | grep -q states ||
    fault "the names of before stay: $(cat b/job.toml)"

# Without states that were offloaded, it did nothing.
rm -rf a b
run a
run b --set job.steps=4 --set schedule.total=10
before b none
sed -i 's/"offload.states": *"int8"/"offload.states": "fp32"/' b/checkpoints/*/manifest.json
"$dsflow" run b --resume --set job.steps=10 > log 2>&1 || fault "idle: $(cat log)"
grep -q 'read as precision.states = "fp32"$' log || fault "idle: $(cat log)"
same a b
finish
