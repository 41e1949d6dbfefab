# activations.sh - inputs of matrices that are rounded: the same numbers on any
# mesh, after a stop and with several workers for a token; what is evaluated and
# what text is written with is what was trained.
. "${srcdir:-.}/tests/cli/lib.sh"

refused() { # one line: what it says, and the arguments
    expected=$1
    shift
    "$dsflow" plan job.toml "$@" >log 2>err && fault "plan $* is not refused"
    [ "$(wc -l <err)" = 1 ] && grep -q -e "$expected" err ||
        fault "plan $*: $(cat err)"
}

four="--set batch.groups=4"
stop="--set job.steps=4 --set schedule.total=10"
eight="--set activations.quantize=symmetric --set activations.group=16"
few="--set activations.quantize=asymmetric --set activations.bits=3"
few="$few --set activations.group=32 --set precision.compute=bf16"
run exact $four
token="--set activations.quantize=symmetric --set activations.group=0"
for what in "$eight" "$few" "$token"; do
    rm -rf one mesh stopped
    run one $four $what --executor serial
    other one exact
    run mesh $four $what --set mesh.data=4 --set zero.stage=3 \
        --set offload.optimizer=cpu --set recompute.what=block
    same one mesh
    run stopped $four $what $stop
    run stopped $four $what --set mesh.data=2 --set zero.stage=1 --resume
    same one stopped

    # Text, of whole segments and of columns of them.
    "$dsflow" generate one --temperature 0 --tokens 20 \
        --set machine.workers=1 >text 2>log &&
        "$dsflow" generate one --temperature 0 --tokens 20 --set machine.workers=2 \
            >text-of-two 2>log || fault "generate: $(cat log)"
    cmp -s text text-of-two || fault "$what: two workers write something else"
done

# The other way round a run that was exact goes on rounded, and says so.
run begun $four $stop
"$dsflow" run job.toml --set job.output=begun $four $eight --resume >log 2>err ||
    fault "a run that goes on rounded: $(cat err)"
[ "$(grep -c 'activations\.' err)" = 1 ] &&
    grep -q 'activations.quantize: none in the run, now symmetric 8 bits in groups of 16: ' err ||
    fault "it does not say so in a line: $(cat err)"
other begun exact

# From the third update on: until then a run is the exact one, and afterwards the
# one that went on from it rounded, on meshes, in processes and behind a stop.
later="$eight --set activations.quantize_from=3"
for type in fp32 fp16; do
    how="$four --set precision.compute=$type"
    done="--set job.steps=3 --set schedule.total=10"
    if [ $type = fp16 ]; then # the first steps are skipped, and do not count
        how="$how --set precision.initial_scale=1e7"
        done="--set job.steps=6 --set schedule.total=10"
    fi
    rm -rf exact begun one mesh stopped
    run exact $how $done
    skipped=$(grep -c '"skipped":true' exact/metrics.jsonl)
    [ "$type $skipped" = "fp32 0" ] || [ "$type $skipped" = "fp16 3" ] ||
        fault "$type: $skipped steps are skipped"
    run begun $how $done
    run begun $how $eight --resume
    run one $how $later --executor serial
    same begun one
    run mesh $how $later --set mesh.data=4 --set zero.stage=3 \
        --set offload.optimizer=cpu --set recompute.what=block
    same begun mesh
    run stopped $how $later $done
    same exact stopped
    is=$(loss_of stopped)
    [ "$is" != "$(loss_of stopped --set activations.quantize_from=4)" ] ||
        fault "$type: $is is the loss of exact inputs"
    for what in none wait round; do
        [ $what = none ] && keys="--set activations.quantize=none"
        [ $what = wait ] && keys="$later --set activations.quantize_from=4"
        [ $what = round ] && keys="$later --set activations.bits=2"
        "$dsflow" generate stopped $keys --temperature 3 --tokens 30 >$what 2>log ||
            fault "generate $what: $(cat log)"
        "$dsflow" checkpoint export stopped exported-$type-$what $keys >log 2>&1
        warned=$(grep -c 'cannot say \[activations\]' log)
        [ "$what $warned" = "round 1" ] || [ $what != round -a $warned = 0 ] ||
            fault "$type: export $what: $(cat log)"
    done
    cmp none wait || fault "$type: text has rounded inputs too early"
    ! cmp -s none round || fault "$type: text has exact inputs"
    run stopped $how $later --set mesh.data=2 --set zero.stage=1 --resume
    same begun stopped
done

# A folder that others load has no words for it.
rm -rf one
run one $four $eight
was=$(loss_of one)
"$dsflow" checkpoint export one exported >log 2>&1 || fault "export: $(cat log)"
grep -q 'a Hugging Face folder cannot say \[activations\]' log ||
    fault "export says nothing: $(cat log)"
sed -e '/^\[model\]/,/^\[/{/^\[/!d}' -e 's/^\[model\]/&\ninit = "exported"/' \
    one/job.toml >loaded.toml
is=$(loss_of loaded.toml --step 0 --set job.output=none)
[ "$was" = "$is" ] || fault "the loss is $was, and $is of what was exported"
exact=$(loss_of loaded.toml --step 0 --set job.output=none \
    --set activations.quantize=none)
[ "$was" != "$exact" ] || fault "the exact loss is $was, too"

refused 'activations: group: 48: expected 0, 16, 32, 64 or 128$' \
    --set activations.quantize=symmetric --set activations.group=48
refused 'activations: group: 128: expected a divisor of model.width, ' \
    --set activations.quantize=symmetric --set activations.group=128
refused 'activations: bits: 9: expected a whole number, 2 to 8$' \
    --set activations.quantize=symmetric --set activations.bits=9
refused 'mesh: tensor: 2: the inputs of a token, which share a scale where activations.group is 0, 32, does not split: expected one of 1$' \
    $token --set mesh.tensor=2
refused 'mesh: tensor: 2: .* in whole groups of activations.group, [0-9]*, does not split: expected one of 1$' \
    --set activations.quantize=symmetric --set activations.group=32 \
    --set mesh.tensor=2
finish
