# other_precision.sh - a run goes on in another type of computation, as checkpoints
# hold fp32 weights: it says so, and so do its checkpoints.
. "${srcdir:-.}/tests/cli/lib.sh"

# computes STEP TYPE: what the checkpoint of a step says.
computes() {
    grep -q "\"precision.compute\": *\"$2\"" "run/checkpoints/step-$1/manifest.json" ||
        fault "step $1: $(grep precision "run/checkpoints/step-$1/manifest.json")"
}

# changed FROM TO STEPS ARGS...: goes on, and names the change, once.
changed() {
    was=$1 now=$2 steps=$3
    shift 3
    "$dsflow" run job.toml --resume --set job.steps=$steps --set schedule.total=20 \
        --set checkpoint.keep=10 "$@" > log 2>&1 || fault "to $now: $(cat log)"
    grep -q "warning: precision.compute: $was in the run, now $now: it goes on from the fp32 weights" log ||
        fault "to $now: $(cat log)"
    [ "$(grep -c 'precision\.' log)" = 1 ] || fault "to $now: $(cat log)"
    computes "$steps" "$now"
}

run run --set job.steps=3 --set schedule.total=20 --set checkpoint.keep=10
computes 3 fp32
changed fp32 bf16 6 --set precision.compute=bf16

# In the same type nothing is said, and it goes on bit for bit.
"$dsflow" run job.toml --resume --set job.steps=8 --set schedule.total=20 \
    --set checkpoint.keep=10 --set precision.compute=bf16 > log 2>&1 || fault "bf16: $(cat log)"
! grep -q precision log || fault "nothing has changed: $(cat log)"
changed bf16 fp32 10

# Of a checkpoint that does not say, it was fp32.
sed -i '/"precision\.\(compute\|head\)"/d' run/checkpoints/step-10/manifest.json
changed fp32 bf16 12 --set precision.compute=bf16

# The head alone; and what needs --resume=changed still does.
"$dsflow" run job.toml --resume --set job.steps=13 --set schedule.total=20 \
    --set precision.compute=bf16 --set precision.head=fp32 > log 2>&1 || fault "head: $(cat log)"
grep -q "warning: precision.head: bf16 in the run, now fp32: " log || fault "head: $(cat log)"
"$dsflow" run job.toml --resume --set job.steps=14 --set schedule.total=20 \
    --set precision.compute=bf16 --set precision.head=fp32 \
    --set precision.gradients=bf16 > log 2>&1 || fault "gradients: $(cat log)"
grep -q "warning: precision.gradients: fp32 in the run, now bf16: it goes on from" log ||
    fault "gradients: $(cat log)"
"$dsflow" run job.toml --resume --set job.steps=15 --set schedule.total=20 \
    --set precision.states=bf16 > log 2>&1
[ $? -eq 2 ] && grep -q "the job has changed (precision.states)" log || fault "states: $(cat log)"

# An export has the type of the run, or the one that is asked for.
exports() {
    folder=$1 name=$2
    shift 2
    "$dsflow" checkpoint export run "$folder" "$@" > log 2>&1 || fault "export: $(cat log)"
    grep -q "\"torch_dtype\": *\"$name\"" "$folder/config.json" ||
        fault "$folder: $(grep dtype "$folder/config.json")"
}
exports hf bfloat16
exports wide float32 --dtype fp32
exports other float32 --set precision.compute=fp32
finish
