# onebit.sh - 1-bit Adam and 1-bit LAMB: the same numbers on any mesh, and through stops in steps of
# each kind; the kinds of step in the plan; what does not go with it.
. "${srcdir:-.}/tests/cli/lib.sh"

# tier STEP: behind it, where states are kept, and in which pieces.
tier() {
    case $1 in
    3) ;;
    4) tier=cpu ;;
    *) tier=nvme ;;
    esac
    echo "${tier:+--set offload.optimizer=$tier --set offload.gradients=$tier
        --set offload.piece=4KiB --set memory.nvme.path=. --set memory.nvme.size=64MiB}"
}

one="--set optimizer.kind=onebit_adam --set optimizer.clip=0.0 --set batch.groups=4
    --set compress.keep=0 --set onebit_adam.freeze_step=4"
for errors in fp32 bf16; do
    set="$one --set onebit_adam.errors=$errors"
    run $errors $set --executor serial
    run all $set --set mesh.data=4 --set checkpoint.every=1 --set checkpoint.keep=20
    same $errors all
    # A stop before the freeze, at it, and behind it; and another mesh.
    for stop in 3 4 5 8; do
        stop_at $stop
        run part $set --set mesh.data=2 --set mesh.pipeline=2 \
            --set zero.stage=$((stop % 4)) --resume $(tier $stop)
        same $errors part
        rm -r part
    done
    rm -r all
done
cmp -s fp32/checkpoints/step-10/params.safetensors \
    bf16/checkpoints/step-10/params.safetensors &&
    fault "errors in bf16 change nothing"

# Gradients are clipped: up to the freeze the whole one, then that of each group.
run clip $one --set optimizer.clip=0.5 --executor serial
cmp -s fp32/checkpoints/step-10/params.safetensors clip/checkpoints/step-10/params.safetensors &&
    fault "optimizer.clip changes nothing"
run all $one --set optimizer.clip=0.5 --set mesh.data=4 --set zero.stage=3
same clip all
rm -r clip all

# Groups of tokens, on ranks that share sequences, and a stop.
tokens="$one --set batch.groups=2 --set batch.sequence_groups=2 --set model.context=64
    --set batch.sequence=64 --set batch.tile=16"
on_meshes "$tokens" "--set mesh.sequence=2 --set mesh.data=2 --set zero.stage=1" \
    "--set mesh.data=2 --set mesh.pipeline=2"

# Tensor ranks, and a stop.
on_meshes "$one --set mesh.tensor=2" "--set mesh.data=2 --set zero.stage=2" \
    "--set mesh.pipeline=2"

# 1-bit LAMB has a third kind of step, the last one before the freeze.
lamb="$(echo "$one" | sed 's/onebit_adam/onebit_lamb/g')"
run lamb $lamb --executor serial
run all $lamb --set mesh.data=4 --set checkpoint.every=1 --set checkpoint.keep=20
same lamb all
for stop in 3 4 5 8; do
    stop_at $stop
    run part $lamb --set mesh.data=2 --set mesh.pipeline=2 --set zero.stage=$((stop % 4)) \
        --resume $(tier $stop)
    same lamb part
    rm -r part
done
rm -r all
"$dsflow" plan job.toml $lamb --set mesh.data=4 > plan 2> err || fault "no plan: $(cat err)"
grep -q "^step .* all other steps" plan && grep -q "^freezing .* step 4" plan &&
    grep -q "^compressed .* steps 5, 6, …" plan || fault "kinds of step: $(cat plan)"
"$dsflow" plan job.toml $lamb --set onebit_lamb.factor_min=5.0 > out 2> err
[ $? -eq 2 ] && grep -q "onebit_lamb.factor_min: 5: expected at most onebit_lamb.factor_max, 4" err ||
    fault "limits: $(cat err)"

# near STEP RUN OTHER: the norms of both in that step.
near() {
    python3 - "$@" << 'END' || fault "norms of step $1 in $2 and $3: $(tail -n 11 "$3/metrics.jsonl")"
import json, sys
norms = [[step["grad_norm"] for step in map(json.loads, open(f"{run}/metrics.jsonl"))
          if step["step"] == int(sys.argv[1]) and "loss" in step][0] for run in sys.argv[2:]]
sys.exit(not abs(norms[0] - norms[1]) < 0.1 * norms[0])
END
}

# Losses are scaled in all kinds of step, and the norms that these report are not.
run half $lamb --set precision.compute=fp16 --executor serial
for step in 1 4 5; do
    near $step lamb half
done

# Its tensors have one scale on tensor ranks, too; a stop goes on with another number of these.
on_meshes "$lamb --set mesh.tensor=2" "--set mesh.data=2 --set zero.stage=2" \
    "--set mesh.pipeline=2"
run apart $lamb --set mesh.tensor=2 --set mesh.data=2 --set job.steps=6
run apart $lamb --set mesh.data=2 --resume=changed
grep -q "lamb.*begin" log && fault "what is kept of tensors is not that of whole ones: $(cat log)"
rm -r apart

# In fp16 the first steps may all be skipped, where the loss scale begins high: second
# moments that freeze then would stay zeroes.
skips="--set precision.compute=fp16 --set precision.initial_scale=33554432"
for kind in onebit_adam onebit_lamb; do
    set -- --set optimizer.kind=$kind $skips --set data.validation=0
    "$dsflow" run job.toml "$@" --set job.output=frozen --overwrite \
        --set $kind.freeze_step=2 > log 2>&1
    [ $? -eq 1 ] || fault "$kind freezes before its first update: $(cat log)"
    grep -q "$kind: freeze_step: 2: all steps so far were skipped, .* or a smaller precision.initial_scale" log ||
        fault "$kind: $(cat log)"
    run updated --overwrite "$@" --set $kind.freeze_step=8
    grep -q "finite again, after [1-7] skipped" log || fault "$kind: $(cat log)"
done

# Other groups have other errors.
run fp32 $one --set batch.groups=2 --set job.steps=11 --resume=changed
grep -q "has not all errors of 2 groups of micro-batches: they begin as zeroes" log ||
    fault "errors of other groups: $(cat log)"

# Kinds of step, and the mean of what they move.
"$dsflow" plan job.toml $one --set mesh.data=4 > plan 2> err || fault "no plan: $(cat err)"
grep -q "^step .* all other steps" plan && grep -q "^compressed .* steps 5, 6, …" plan ||
    fault "kinds of step: $(cat plan)"
grep -q "^mean of a step .* 10 steps" plan || fault "no mean: $(cat plan)"
"$dsflow" plan job.toml $one --set mesh.data=4 --json > plan.json 2> err ||
    fault "no plan: $(cat err)"
grep -q '"mean": {' plan.json || fault "no mean: $(cat plan.json)"

# no KEY=VALUE MESSAGE: this does not go with it.
no() {
    "$dsflow" plan job.toml $one --set "$1" > out 2> err
    [ $? -eq 2 ] && [ "$(said)" = "dsflow: --set: $2" ] || fault "$1: $(cat err)"
}
with='with optimizer.kind = "onebit_adam"'
no onebit_adam.freeze_step=10 "onebit_adam: freeze_step: 10: expected less than job.steps, 10"
no compress.gradients=int8 "compress: gradients: expected none, as momenta are sent, $with"
no precision.states=bf16 "precision: states: expected fp32 $with"
no zero.reduce=micro "zero: reduce: expected step $with"
finish
