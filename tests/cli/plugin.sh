# plugin.sh - shared libraries that bring components: one of every sort trains,
# shares out and resumes; what is wrong with one is one line.
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
source=$(cd "${srcdir:-.}" && pwd)
cd "$here" || exit 99

# build OUTPUT FLAGS...: the plug-in of tests/plugin. CC may hold options.
build() {
    out=$1
    shift
    ${CC:-cc} -I "$source/include" "$@" -shared -fPIC -o "$out" \
        "$source/tests/plugin/good.c" -lm || fault "$out cannot be built"
}
build libgood.so -Wall -Wextra -Wno-unused-parameter \
    -Wno-missing-field-initializers -Werror

# Every command that shows what there is says where it comes from.
for list in "tasks pull" "codelets same.attention" "optimizers pull" \
    "schedules halves" "segments attention" "policies patient" "formats cut" \
    "plugins good" "keys pull.share"; do
    "$dsflow" list ${list% *} ./libgood.so > log 2>&1 &&
        grep -q "^${list#* }.*" log || fault "list $list: $(cat log)"
    case $list in
    keys*) ;;
    *) grep -q "from ./libgood.so" log || fault "list $list: no origin" ;;
    esac
    "$dsflow" list ${list% *} | grep -q "libgood" && fault "$list: without it?"
done

# By name, with the place where the job names it.
line() {
    message=$1
    shift
    timeout 60 "$dsflow" -q "$@" > out 2> err
    got=$?
    [ $got -eq 2 ] || fault "dsflow $*: status $got"
    [ "$(said)" = "dsflow: $message" ] ||
        fault "dsflow $*: says '$(cat err)', not 'dsflow: $message'"
}
sed '/^\[model\]/i [codelets]\nload = ["./libgood.so"]' job.toml > with.toml
sed 's/libgood/nothing/' with.toml > bad.toml
line "bad.toml:7: codelets: load: ./nothing.so: No such file or directory" \
    run bad.toml
line "--set: codelets: load: text.txt: expected a shared library" \
    plan job.toml --set codelets.load=text.txt
head -c 2000 libgood.so > cut.so
line "--set: codelets: load: cut.so: is cut off: it has 2000 bytes" \
    plan job.toml --set codelets.load=cut.so
# The machine that an ELF file is for is said in its bytes 18 and 19.
cp libgood.so other.so
printf '\377\376' | dd of=other.so bs=1 seek=18 conv=notrunc 2> /dev/null
line "--set: codelets: load: other.so: is for another processor than this dsflow" \
    plan job.toml --set codelets.load=other.so
line "--set: codelets: load: .: expected a shared library" \
    plan job.toml --set codelets.load=.
line "--set: [pull]: unknown table" plan job.toml --set pull.share=0.1
line "--set: pull: share: 7: expected a number, 0 to 1" \
    plan with.toml --set pull.share=7
line "--set: pull: shore: unknown key; did you mean share?" \
    plan with.toml --set pull.shore=7
line '--set: optimizer: kind: "pul": expected adamw, adam, sgd, lion, adagrad, lamb, muon, onebit_adam, onebit_lamb, zeroone_adam or pull' \
    plan with.toml --set optimizer.kind=pul
line '--set: schedule: kind: "half": expected constant, warmup_cosine, warmup_linear, warmup, one_cycle, range_test or halves' \
    plan with.toml --set schedule.kind=half
line '--set: model: attention: "sam": expected builtin or same' \
    plan with.toml --set model.attention=sam
line '--set: model: mlp: "same": expected builtin' \
    plan with.toml --set model.mlp=same
line '--set: model: attention: "same": works on whole layers: expected mesh.tensor = 1, not 2' \
    plan with.toml --set model.attention=same --set mesh.tensor=2
line '--set: optimizer: kind: "pull": needs whole tensors: expected mesh.tensor = 1, not 2' \
    plan with.toml --set optimizer.kind=pull --set mesh.tensor=2
line '--set: optimizer: kind: pull: note: refused' plan with.toml --set optimizer.kind=pull \
    --set pull.note=refuse
build liblost.so -DBAD=35 -Wall -Wextra -Wno-unused-parameter \
    -Wno-missing-field-initializers -Werror
line 'policy patient: task 0, begin: rank 99: expected 0 to 0' \
    plan with.toml --set 'codelets.load=["./liblost.so"]'
build libmute.so -DBAD=36 -w
line 'task pull: no codelet for a CPU' run with.toml \
    --set 'codelets.load=["./libmute.so"]' --set optimizer.kind=pull
"$dsflow" codelet check ./libmute.so pull > log 2>&1
[ $? -eq 1 ] && grep -q "^pull  *0  FAULT   no codelet computes it$" log ||
    fault "codelet check of a task without a codelet: $(cat log)"
rm -rf run
line '--set: patient: from: 9: expected at most the 1 chunks' \
    plan with.toml --set patient.from=9
line 'with.toml: halves: every: is missing: expected a whole number, 1 to 1000' \
    plan with.toml --set schedule.kind=halves --set schedule.warmup=0

# A table that repeats: what its elements say reaches the policy, by --set too.
cp with.toml hold.toml
printf '[[patient.hold]]\nchunk = 0\nslots = 2\n[[patient.hold]]\nchunk = 9\n' \
    >> hold.toml
lines=$(wc -l < hold.toml)
line "hold.toml:$lines: patient.hold[1]: chunk: 9: expected less than the 1 chunks" \
    plan hold.toml
line "--set: patient.hold[0]: slots: 0: expected a whole number, 1 to 64" \
    plan hold.toml --set patient.hold[1].chunk=0 --set patient.hold[0].slots=0
line "--set: patient.hold[1]: chunk: is missing: expected a whole number, 0 to 64" \
    plan hold.toml --set patient.hold=[] --set patient.hold[0].chunk=0 --set patient.hold[1].slots=1
# slots SETS...: buffers of the input of layer 0.
slots() {
    "$dsflow" plan with.toml "$@" --json | sed -n 's/.*"activations": \([0-9]*\).*/\1/p' | head -1
}
none=$(slots) two=$(slots --set patient.hold[0].chunk=0 --set patient.hold[0].slots=2)
one=$(slots --set patient.hold[0].chunk=0)
[ "$one" -lt "$two" ] && [ "$two" -lt "$none" ] ||
    fault "bytes of activations with one, two and all slots: $one, $two, $none"
"$dsflow" list keys patient ./libgood.so > log
grep -qx '\[\[patient.hold\]\] a chunk that is less patient' log &&
    grep -qF 'patient.hold[0].chunk (required)' log || fault "list keys: $(cat log)"

# bad N MESSAGE: one thing wrong with it, and nothing of it stays.
bad() {
    build libbad.so -DBAD="$1" -w
    line "--set: codelets: load: ./libbad.so: $2" \
        plan job.toml --set 'codelets.load=["./libbad.so"]'
}
bad 1 "optimizer pull: options: share: default: 2.0: expected a number, 0 to 1"
bad 2 "task pull: made for interface 77: this dsflow has 5"
bad 3 "task adam: the name is taken (built-in)"
bad 4 "optimizer pull: task pull: args_size: 8: expected at least the 432 bytes of struct dsflow_update_args"
bad 5 "optimizer pull: task pull: port grad: expected control R, grad R, param RW, states RW"
bad 6 "task pull: has no check"
bad 7 "codelet pull: made for interface 77: this dsflow has 4"
bad 8 "codelet pull: has neither a CPU nor a GPU function"
bad 9 "optimizer pull: made for interface 77: this dsflow has 4"
bad 10 "optimizer lion: the name is taken (built-in)"
bad 11 "optimizer pull: has no summary"
bad 12 "optimizer pull: has no kind of task"
bad 13 'optimizer pull: state "mean_of_gradients": expected 1 to 16 letters'
bad 14 "optimizer pull: options: share: its field is not within the 4 bytes of the part"
bad 15 "schedule halves: made for interface 77: this dsflow has 3"
bad 16 "schedule constant: the name is taken (built-in)"
bad 17 "schedule halves: part_size: 129: expected at most 128"
bad 18 "schedule halves: has no function lr"
bad 19 "segment same for attention: task same.attention: args_size: 8: expected the 136 of attention.forward"
bad 20 "segment same for attention: task same.attention: port 3 is missing: expected lse with the same access as in attention.forward"
bad 21 "segment same for attention: task same.attention: port 1 is vk: expected kv with the same access as in attention.forward"
bad 22 "segment same: made for interface 77: this dsflow has 6"
bad 23 "segment same: replaces: norm: expected embed, qkv, attention, out, mlp or head"
bad 24 "segment same for attention: has no forward"
bad 25 "policy patient: made for interface 77: this dsflow has 4"
bad 26 "policy patient: after: nobody: expected the name of a policy that it comes after"
bad 27 "policy patient: after: NULL: expected the name of a policy that it comes after"
bad 28 "policy patient: has no function rewrite"
bad 29 "codelet same.attention: its kind of task is not registered"
bad 30 "undefined symbol: nobody_defines_this"
bad 31 "defines no dsflow_plugin: expected a plug-in of dsflow"
bad 32 "plug-in good: made for interface 77: this dsflow has 3"
bad 33 "plug-in: has no name"
bad 34 "plug-in has no component"
bad 41 "segment same for attention: task same.attention: segment attention, direction 0: expected attention, 1, as attention.forward has"
bad 42 "optimizer pull: task pull: does not say that it is an update (op.h)"
bad 43 "task pull: expected a function slice together with ports of which each slice has its elements"
bad 44 "optimizer pull: task pull: port mean: expected to be sliced with its unit (op.h)"
bad 45 "format cut: made for interface 77: this dsflow has 1"
bad 46 "format int8: the name is taken (built-in)"
bad 47 "format cut: block: 10: expected a multiple of 16, up to 4096"
bad 48 "format cut: expected the functions bytes, encode and decode"
bad 52 "task pull: port param: dtype: 77: expected one of dtype.h"
bad 53 "task pull: port param: slice: 9: expected 0 to 2"

# Data of a layer is called after its port: two names are not the same data.
named() {
    sed "s/\"gate\"/\"$1\"/" "$source/examples/plugins/gated_norm.c" > named.c
    ${CC:-cc} -I "$source/include" -w -shared -fPIC -o libnamed.so named.c -lm ||
        fault "named.c cannot be built"
    line "--set: model: segments: \"gated_norm\": port $1: data of \"$2\" is called so, too: expected another name" \
        plan job.toml --set 'codelets.load=["./libnamed.so"]' \
        --set 'model.segments=["qkv","attention","out","gated_norm","mlp"]'
}
named h mlp
named x embed
named gated gated_norm

# One that crashes, or ends the program, is named, when it is loaded and in a run,
# whose metrics say it.
dies() {
    build libbad.so -DBAD=$1 -w
    for command in "list schedules ./libbad.so" "codelet check ./libbad.so" \
        "plan job.toml --set codelets.load=./libbad.so"; do
        # Words, with one path among them.
        "$dsflow" $command > out 2> err
        got=$?
        [ $got -eq 1 ] && [ "$(said)" = \
            "dsflow: ./libbad.so: $3 (dsflow codelet check ./libbad.so)" ] ||
            fault "dsflow $command: status $got: $(cat err)"
    done
    build libbad.so -DBAD=$2 -w
    for executor in serial starpu; do
        "$dsflow" -q run job.toml --executor $executor --set optimizer.kind=pull \
            --set 'codelets.load=["./libbad.so"]' --set job.output=$2-$executor > out 2> err
        got=$?
        [ $got -eq 1 ] && [ "$(said)" = \
            "dsflow: ./libbad.so: $3 (dsflow codelet check ./libbad.so)" ] ||
            fault "a task that dies: status $got: $(cat err)"
        grep -q "\"ended\":\"failed\",\"why\":\"./libbad.so: $3" $2-$executor/metrics.jsonl ||
            fault "a task that dies: $(tail -n 1 $2-$executor/metrics.jsonl)"
    done
}
dies 50 51 "crashes: SIGABRT"
dies 54 55 "ends the program: exit"

# A segment without parameters, whose rows tensor ranks share out: the same loss.
${CC:-cc} -I "$source/include" -w -shared -fPIC -o libtanh.so \
    "$source/tests/plugin/tanh.c" -lm || fault "tanh.c cannot be built"
"$dsflow" codelet check ./libtanh.so > log 2>&1 || fault "codelet check: $(cat log)"
tanh="--set codelets.load=./libtanh.so
    --set model.segments=[\"qkv\",\"attention\",\"out\",\"tanh\",\"mlp\"]"
run whole-tanh $tanh
run rows-tanh $tanh --set mesh.tensor=2
for of in whole rows; do
    sed -n 's/.*"validation_loss":\([0-9.]*\)[0-9][0-9],.*/\1/p' $of-tanh/metrics.jsonl > loss-$of
done
[ -s loss-whole ] && cmp loss-whole loss-rows || fault "a segment without parameters on rows"

# All of it trains; with ZeRO, in a pipeline, interrupted: the same bits.
cp with.toml job.toml
cat >> job.toml << 'END'
[halves]
every = 3
END
all="--set optimizer.kind=pull --set schedule.kind=halves
    --set schedule.warmup=0 --set model.attention=same
    --set compress.gradients=cut --set compress.keep=0"
run whole $all --executor serial
grep -q '"lr": *0.000125' whole/metrics.jsonl ||
    fault "the rate does not go down by halves: $(tail -1 whole/metrics.jsonl)"
run starpu $all
same whole starpu
run parts $all --set job.steps=4
run parts $all --resume
same whole parts
run other --set optimizer.kind=pull --set job.steps=4
"$dsflow" run job.toml --set job.output=other --resume > log 2>&1 &&
    fault "another optimizer goes on from a checkpoint of pull"
grep -q "cannot go on with another optimizer.kind" log || fault "another optimizer: $(cat log)"
run base $all --set mesh.data=2 --executor serial
for mesh in mesh.data=2,zero.stage=1 mesh.data=2,zero.stage=2 \
    mesh.data=2,zero.stage=3 mesh.data=2,mesh.pipeline=2,zero.stage=3; do
    # Words, one --set each.
    run "$mesh" $all $(echo "$mesh" | sed 's/^\|,/ --set /g')
    same base "$mesh"
done
strings=$(tr -d '\0' < whole/checkpoints/step-10/states.safetensors |
    head -c 2000)
case $strings in
*me.an.layer0.qkv*) ;;
*) fault "a checkpoint has no state me.an.layer0.qkv" ;;
esac

# A run's folder brings its plug-ins along.
"$dsflow" eval whole > log 2>&1 || fault "eval: $(cat log)"
"$dsflow" generate whole --tokens 5 > wide 2> log || fault "generate: $(cat log)"
# same.attention takes fp32 alone, so all of the text is made in that.
"$dsflow" generate whole --tokens 5 --set precision.compute=bf16 > narrow 2> log &&
    cmp wide narrow || fault "generate in bf16: $(cat log narrow)"
"$dsflow" plan whole/job.toml > log 2>&1 || fault "plan: $(cat log)"
grep -q "same.attention" log || fault "plan: no task same.attention"

# What takes the place of attention does the same: so do its results.
run builtin
run replaced --set model.attention=same
same builtin replaced

# How numbers are rounded does not depend on what is loaded.
build libround.so -DBAD=49 -w
run rounded --set 'codelets.load=["./libround.so"]'
same builtin rounded

# The policy has the last word about priorities.
"$dsflow" plan job.toml --dot > with.dot
"$dsflow" plan job.toml --until priorities --dot > without.dot
cmp -s with.dot without.dot && fault "patient changes nothing"
"$dsflow" list policies ./libgood.so | tail -1 | grep -q ^patient ||
    fault "patient does not come after priorities"
finish
