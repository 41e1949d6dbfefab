# zeroone.sh - 0/1 Adam: the same numbers with a pipeline, and through stops in steps of
# each kind; the kinds of step in the plan; what does not go with it.
. "${srcdir:-.}/tests/cli/lib.sh"

# Steps 1 and 2 send gradients, step 3 signs of them; from step 4 on every other one
# is a worker's own.
one="--set optimizer.kind=zeroone_adam --set optimizer.clip=0.0 --set mesh.data=2
    --set compress.keep=0 --set zeroone_adam.var_freeze_step=2
    --set zeroone_adam.var_update_scaler=1 --set zeroone_adam.local_step_scaler=1
    --set zeroone_adam.local_step_clipper=2"
for errors in fp32 bf16; do
    set="$one --set zeroone_adam.errors=$errors"
    run $errors $set --executor serial
    run all $set --set checkpoint.every=1 --set checkpoint.keep=20
    same $errors all
    # A stop behind a step of each kind; and another mesh.
    for stop in 2 3 4 5; do
        stop_at $stop
        tier=cpu
        [ $stop -lt 4 ] || tier=nvme
        run part $set --set mesh.pipeline=2 --resume --set offload.optimizer=$tier \
            --set offload.gradients=$tier --set offload.piece=4KiB \
            --set memory.nvme.path=. --set memory.nvme.size=64MiB
        same $errors part
        rm -r part
    done
    rm -r all
done
cmp -s fp32/checkpoints/step-10/params.safetensors \
    bf16/checkpoints/step-10/params.safetensors &&
    fault "errors in bf16 change nothing"

# One worker is enough.
run alone $one --set mesh.data=1
run alone2 $one --set mesh.data=1 --executor serial
same alone alone2

# Tensor ranks, and a stop in steps of workers' own.
on_meshes "$one --set mesh.tensor=2" "" "--set mesh.pipeline=2"

# Other workers have other momenta.
run fp32 $one --set mesh.data=4 --set job.steps=11 --resume=changed
for what in errors momenta 'local steps'; do
    grep -q "has not all $what of 4 groups of micro-batches: they begin as zeroes" log ||
        fault "$what of other groups: $(cat log)"
done

# Kinds of step, and the mean of what they move: nothing but numbers of a loss in local
# steps.
"$dsflow" plan job.toml $one > plan 2> err || fault "no plan: $(cat err)"
grep -q "^step .* step 1; step 2$" plan && grep -q "^compressed .* step 3$" plan &&
    grep -q "^local .* B  *steps 5, 7, …$" plan &&
    grep -q "^sync .* step 4; steps 6, 8, …$" plan ||
    fault "kinds of step: $(cat plan)"
grep -q "^mean of a step .* 10 steps" plan || fault "no mean: $(cat plan)"
"$dsflow" plan job.toml $one --set zeroone_adam.local_step_clipper=8 --set job.steps=40 \
    > plan 2> err || fault "no plan: $(cat err)"
grep -q "^local .* steps 7, 8, … less those of sync$" plan || fault "steps: $(cat plan)"

# no KEY=VALUE MESSAGE: this does not go with it.
no() {
    "$dsflow" plan job.toml $one --set "$1" > out 2> err
    [ $? -eq 2 ] && [ "$(said)" = "dsflow: --set: $2" ] || fault "$1: $(cat err)"
}
with='with optimizer.kind = "zeroone_adam"'
no zeroone_adam.var_freeze_step=9 "zeroone_adam: var_freeze_step: 9: expected less than job.steps - 1, 9"
no zero.stage=1 "zero: stage: expected 0, as each data rank has weights of its own, $with"
no batch.groups=4 "batch: groups: expected as many as mesh.data, as each data rank has weights of its own, $with"
no compress.params=int8 "compress: params: expected none, as each data rank has weights of its own, $with"
no precision.compute=fp16 "precision: compute: expected fp32 or bf16, as no step may be skipped, $with"
no train.on_nonfinite=skip "train: on_nonfinite: expected stop, as no step may be skipped, $with"
no optimizer.clip=1.0 "optimizer: clip: expected 0, as no gradient of all groups is there to be measured, $with"
no batch.sequence_groups=2 "batch: sequence_groups: expected 1, as a sequence goes through the weights of one worker, $with"
no compress.gradients=int8 "compress: gradients: expected none, as momenta are sent, $with"
finish
