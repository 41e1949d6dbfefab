# loss_scale.sh - fp16: a step whose gradients overflow is skipped, on all ranks,
# and the loss scale gets smaller; where a run is interrupted changes no bit.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
source=$(cd "${srcdir:-.}" && pwd)
cd "$here" || exit 99
${CC:-cc} -I "$source/include" -Wall -shared -fPIC -o libpoison.so \
    "$source/tests/plugin/poison.c" -lm || fault "the plug-in cannot be built"
sed -i '/^\[model\]/i [codelets]\nload = ["./libpoison.so"]' job.toml
scaled="--set precision.compute=fp16 --set precision.initial_scale=1024
    --set precision.scale_window=3"
two="--set poison.from=3 --set poison.steps=2"

# of RUN STEP KEY: what metrics say.
of() {
    grep "\"step\":$2," "$1/metrics.jsonl" | grep -o "\"$3\":[^,} ]*" | cut -d: -f2
}

# The first overflow is tolerated, the second halves; then come three steps and one.
run whole $scaled $two --set job.log_every=1 --trace=all
scales=$(for i in 1 2 3 4 5 6 7 8 9 10; do of whole $i loss_scale; done | tr '\n' ' ')
[ "$scales" = "1024.0 1024.0 1024.0 1024.0 512.0 512.0 512.0 512.0 1024.0 1024.0 " ] ||
    fault "the scales: $scales"
[ "$(of whole 2 overflows) $(of whole 3 overflows) $(of whole 10 overflows)" = "0 1 2" ] ||
    fault "overflows: $(grep -o '"overflows":[0-9]*' whole/metrics.jsonl)"
[ "$(grep -c '"skipped":true' whole/metrics.jsonl)" -eq 2 ] || fault "steps that were skipped"
grep -q "^step 3: the loss is [0-9.]*, and the gradients overflow with a loss scale of 1024: skipped, nothing was updated$" log ||
    fault "no line of the overflow: $(cat log)"
grep -q "^step 4/10 .* scale 1024  skipped " log && grep -q "^step 5/10 .* scale 512  " log ||
    fault "lines of steps: $(cat log)"
"$dsflow" watch whole --once > log 2>&1 && grep -q "^loss scale  1024, too large in 2 steps" log ||
    fault "watch: $(cat log)"
grep -q -a loss_scale whole/tensorboard/* || fault "event files do not say it"
"$dsflow" trace whole > log && grep -q "^loss scale 512 to 1024; 2 of 10 steps were skipped: gradients overflowed$" log ||
    fault "trace: $(head -n 6 log)"
"$dsflow" trace whole --json > log
[ "$(grep -c '"loss_scale": 512.0' log) $(grep -c '"loss_scale": 1024.0' log)" = "4 6" ] &&
    [ "$(grep -c '"skipped": true' log)" -eq 2 ] || fault "trace --json: $(grep loss_scale log)"
"$dsflow" trace whole --paje log
[ "$(grep -c ' VL P0 512.0000$' log) $(grep -c ' VS P0 1.0000$' log)" = "4 2" ] ||
    fault "trace --paje: $(grep -e ' VL ' -e ' VS ' log)"

# The schedule goes on where it was.
run plain --set poison.steps=0
[ "$(of whole 5 lr)" = "$(of plain 3 lr)" ] && [ "$(of whole 10 lr)" = "$(of plain 8 lr)" ] ||
    fault "rates: $(of whole 5 lr), $(of whole 10 lr)"
! grep -q overflows plain/metrics.jsonl && ! grep -q scaler plain/checkpoints/step-10/manifest.json ||
    fault "a run in fp32 has a loss scale"

# Between the two overflows too: the state of the scale is saved.
for n in 2 3 4 7; do
    run parts$n $scaled $two --set job.steps=$n --set schedule.total=10
    run parts$n $scaled $two --resume
    same whole parts$n
    [ "$(grep scaler parts$n/checkpoints/step-10/manifest.json)" = \
        "$(grep scaler whole/checkpoints/step-10/manifest.json)" ] ||
        fault "interrupted after step $n: $(grep scaler parts$n/checkpoints/step-10/manifest.json)"
    [ "$(of parts$n 8 loss_scale)" = 512.0 ] || fault "interrupted after step $n: another scale"
done
grep -q '"scaler.overflows": "2"' whole/checkpoints/step-10/manifest.json ||
    fault "the checkpoint: $(grep scaler whole/checkpoints/step-10/manifest.json)"

# All ranks skip alike, whether the plug-in or the scale makes them overflow.
for start in 1024 16777216; do
    keys="$scaled --set precision.initial_scale=$start --set precision.hysteresis=1 --set batch.groups=4"
    run one $keys $two --overwrite
    run four $keys $two --set mesh.data=4 --set zero.stage=3 --overwrite
    same one four
    run staged $keys $two --set mesh.pipeline=2 --set offload.optimizer=cpu --overwrite
    same one staged
done

# A smaller scale is not always left.
for last in precision.min_scale=1024 precision.loss_scale=1024; do
    "$dsflow" run job.toml $scaled $two --set precision.hysteresis=1 --set $last \
        --set job.output=ends --set checkpoint.every=2 --overwrite > log 2>&1
    [ $? -eq 1 ] || fault "$last: ended with $?: $(cat log)"
    grep -q "^dsflow: step 3: the loss is [0-9.]*, and the gradients overflow with a loss scale of 1024, which may not get smaller: .*; the last checkpoint is of step 2, in ends$" log ||
        fault "$last: $(cat log)"
    run goes $scaled $two --set precision.hysteresis=1 --set $last \
        --set train.on_nonfinite=skip --overwrite
    [ "$(of goes 10 loss_scale) $(of goes 10 overflows)" = "1024.0 2" ] ||
        [ "$last $(of goes 10 overflows)" = "precision.min_scale=1024 2" ] ||
        fault "$last: $(tail -n 2 goes/metrics.jsonl)"
done

# A run goes on in another type, and with a scale of its own.
run other $two --set job.steps=4 --set schedule.total=10 --set poison.steps=0
run other $scaled --set poison.steps=0 --resume=changed
[ "$(of other 4 loss_scale) $(of other 5 loss_scale) $(of other 9 loss_scale)" = "1.0 1024.0 2048.0" ] ||
    fault "another type: $(of other 5 loss_scale), $(of other 9 loss_scale)"
[ $faults -eq 0 ]
