# skip.sh - a step whose gradient is not finite: the run ends, or skips it.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
source=$(cd "${srcdir:-.}" && pwd)
cd "$here" || exit 99
${CC:-cc} -I "$source/include" -Wall -shared -fPIC -o libpoison.so \
    "$source/tests/plugin/poison.c" -lm || fault "the plug-in cannot be built"
sed -i '/^\[model\]/i [codelets]\nload = ["./libpoison.so"]' job.toml

# It ends with one line, and what was saved is whole.
"$dsflow" run job.toml --set job.output=ends --set poison.from=6 \
    --set checkpoint.every=4 > log 2>&1
[ $? -eq 1 ] || fault "a run with an infinite gradient ended with $?: $(cat log)"
grep -q "^dsflow: step 6: the loss is [0-9.]* and the gradient's norm inf: the largest norms of parameters: transformer\.[a-z0-9_.]* [0-9.e+]*, transformer\.[^,]*, [^,]*; a lower optimizer.lr or a longer schedule.warmup may help; the last checkpoint is of step 4, in ends$" log ||
    fault "what ended the run: $(cat log)"
[ "$(ls ends/checkpoints)" = "$(printf 'latest\nstep-4')" ] ||
    fault "checkpoints of a run that ended: $(ls ends/checkpoints)"
"$dsflow" checkpoint verify ends > log 2>&1 || fault "the last checkpoint: $(cat log)"
run plain --set job.steps=4 --set schedule.total=10 --set poison.steps=0
same plain ends
# Without a limit, updates do not wait for the norm: the run ends all the same.
"$dsflow" run job.toml --set job.output=late --set optimizer.clip=0 > log 2>&1
[ $? -eq 1 ] && grep -q "^dsflow: step 1: .*are not finite); .*; there is no checkpoint yet$" log ||
    fault "clip = 0: $(cat log)"

# It skips: metrics, lines and watch say so.
skip="--set train.on_nonfinite=skip --set poison.from=3 --set poison.steps=2"
run skips $skip --set job.log_every=1
grep -q "^step 3: the loss is [0-9.]* and the gradient's norm inf: skipped, nothing was updated$" log ||
    fault "no line of the first that is skipped: $(cat log)"
grep -q "^step 5: finite again, after 2 skipped steps$" log || fault "no line of the end: $(cat log)"
[ "$(grep -c "^step [34]/10 .*norm inf  skipped " log)" -eq 2 ] || fault "lines of steps: $(cat log)"
grep -q "^2 of 10 steps were skipped" log || fault "no line at the end: $(cat log)"
[ "$(grep -c '"skipped":true' skips/metrics.jsonl)" -eq 2 ] &&
    [ "$(grep -c '"skipped":false' skips/metrics.jsonl)" -eq 8 ] ||
    fault "metrics: $(grep -o '"skipped":[a-z]*' skips/metrics.jsonl)"
grep '"step":3,' skips/metrics.jsonl | grep -q '"grad_norm":null,.*"skipped":true' ||
    fault "metrics of step 3: $(grep '"step":3,' skips/metrics.jsonl)"
"$dsflow" watch skips --once > log 2>&1 && grep -q "^skipped  *2 steps, step 4 the last" log ||
    fault "watch: $(cat log)"
grep -q -a skipped skips/tensorboard/* || fault "event files do not say it"
grep -q -a skipped plain/tensorboard/* && fault "event files of other runs have it"

# The schedule and the bias corrections go on where they were: the rate of the
# first step after two that were skipped is that of step 3 of a plain run.
run plain --set poison.steps=0 --overwrite
rate() {
    grep "\"step\":$2," "$1/metrics.jsonl" | grep -o '"lr":[^,]*'
}
[ "$(rate skips 5)" = "$(rate plain 3)" ] && [ "$(rate skips 10)" = "$(rate plain 8)" ] ||
    fault "rates: $(rate skips 5), $(rate skips 10): of a plain run $(rate plain 3), $(rate plain 8)"
grep -q '"control.step": "8"' skips/checkpoints/step-10/manifest.json &&
    grep -q '"control.skipped": "2"' skips/checkpoints/step-10/manifest.json ||
    fault "the checkpoint: $(grep control skips/checkpoints/step-10/manifest.json)"

# Interrupted before, between and after skipped steps: the same bits.
for n in 2 3 4 5; do
    run parts$n $skip --set job.steps=$n --set schedule.total=10
    run parts$n $skip --resume
    same skips parts$n
done
# On meshes too, and with a limit that is none.
for mesh in "mesh.data=2 --set zero.stage=3 --set optimizer.clip=0" \
    "mesh.pipeline=2" "offload.optimizer=cpu --set precision.states=int8"; do
    run whole $skip --set $mesh --overwrite
    run parts $skip --set $mesh --set job.steps=4 --set schedule.total=10 --overwrite
    run parts $skip --set $mesh --resume
    same whole parts
done
run groups $skip --set batch.groups=2
run groups2 $skip --set mesh.data=2 --set zero.stage=2
same groups groups2
# And on virtual devices.
run virtual $skip --set mesh.data=2 --set zero.stage=3 \
    --set machine.virtual=2 --set machine.workers=3
same groups virtual
[ $faults -eq 0 ]
