# commands.sh - the commands as a user types them.
. "${srcdir:-.}/tests/cli/lib.sh"

# expect STATUS TEXT ARGS...: the command ends so, and says so somewhere.
expect() {
    status=$1 text=$2
    shift 2
    "$dsflow" "$@" > out 2> err
    got=$?
    [ $got -eq $status ] || { fault "dsflow $*: status $got, not $status"; cat err; }
    grep -qF -e "$text" out err || { fault "dsflow $*: does not say '$text'"; cat out err; }
}

expect 0 "usage: dsflow" --help
expect 2 "usage: dsflow"
expect 0 "dsflow 0." --version
expect 0 "usage: dsflow" help
expect 2 "rum: unknown command; did you mean run" help rum
for c in $("$dsflow" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
    expect 0 "usage: dsflow $c" $c --help
    mv out help
    expect 0 "usage: dsflow $c" help $c
    cmp out help || fault "help $c is not $c --help"
done
# Options stand anywhere, and may be cut short.
expect 0 '"role_bytes"' plan --js job.toml
expect 0 "digraph" plan --unt=zero job.toml --dot -q
expect 2 "no-such.toml: No such file" plan -- no-such.toml
# The lists that there are have a place in the help, and are completed.
"$dsflow" list nothing 2>&1 | sed 's/.*expected //; s/ or /, /; s/, /\n/g' > lists
[ "$(wc -l < lists)" -ge 12 ] || fault "list: $(cat lists)"
"$dsflow" list --help > help
while read -r list; do
    [ "$(grep -cw "$list" help)" -ge 2 ] || fault "list --help: not of $list: $(cat help)"
    "$dsflow" complete -- list "$list" | grep -qx "$list" || fault "completion: no list $list"
done < lists
# What is completed goes with the words before it: folders of `bench io` are files.
completes() {
    expected=$1
    shift
    got=$("$dsflow" complete -- "$@" | tr '\n' ' ')
    [ "$got" = "$expected" ] || fault "complete $*: '$got', not '$expected'"
}
completes "gemm memory tasks link gpu io " bench ""
completes "memory " bench gemm m
completes "" bench io ""
completes "" bench io folder ""
completes "" bench gpu ""
completes "list verify show export import " checkpoint ""
completes "" checkpoint export run ""
completes "check " codelet ""
completes "builtin " codelet check ""
completes "optimizer.lr " list keys optimizer.l
completes "" list things ""
# The help of flags fits a terminal; usage lines may wrap.
for c in run watch plan eval trace generate checkpoint list report bench codelet import; do
    "$dsflow" $c --help | grep '^  ' | awk 'length > 80 { exit 1 }' ||
        fault "$c --help has flags of more than 80 columns"
    "$dsflow" $c --help | grep -q ' $' && fault "$c --help: a line ends in a space"
done
# A plan for processes has their messages.
expect 0 "in      2 processes on 1 node" plan job.toml --set mesh.data=2 -n 2 -q
grep -Eq '^messages  *[0-9.]+ [mu]?s a process, [0-9.]+ % of it hidden' out ||
    fault "no messages: $(cat out)"
expect 0 '"processes": 2' plan job.toml --set mesh.data=2 -n 2 -q --json
expect 2 "mesh: 1 rank: expected one at least for each of 2 processes" plan job.toml -n 2 -q
expect 2 "the ranks are on devices: expected cores" plan job.toml --set mesh.data=2 \
    --set machine.virtual=2 -n 2 -q
expect 2 "--processes: 1: expected a whole number, 2 to" plan job.toml -n 1
expect 0 optimizer.weight_decay list keys
expect 0 '"key": "weight_decay"' list keys --json
expect 0 mlp.backward_weight list tasks
expect 0 priorities list policies
expect 0 "load_batch" list codelets
expect 0 StarPU report
grep -q "^MPI        [^ ]" out || fault "report: nothing of MPI: $(cat out)"

expect 0 "attention.forward" plan job.toml

# What the command line names and cannot be written is wrong, as it is where it
# cannot be read.
: > file
expect 2 "dsflow: report: expected: dsflow report (dsflow help report)" report x
expect 2 "dsflow: file/x: Not a directory" plan job.toml --trace file/x
expect 2 "dsflow: none/x: No such file or directory" plan job.toml --trace none/x
expect 2 "dsflow: .: Is a directory" plan job.toml --trace .
[ -s out ] && fault "a plan whose trace cannot be written is printed"
rm -f t.dsflow
expect 2 "none: No such file" plan none --trace t.dsflow
[ ! -e t.dsflow ] || fault "a trace of no plan is left"
expect 0 "" plan job.toml --trace t.dsflow
# Without room nothing is left of it.
(ulimit -f 1 && exec "$dsflow" plan job.toml --trace full.dsflow) > /dev/null 2> log
[ $? -eq 1 ] && grep -q "^dsflow: full.dsflow: cannot be written: File too large$" log || fault "no room: $(cat log)"
[ ! -e full.dsflow ] || fault "no room: full.dsflow is left"
for format in svg paje chrome dot; do
    expect 2 "dsflow: file/x: Not a directory" trace t.dsflow --$format file/x
done
expect 0 "digraph" plan job.toml --dot
expect 0 '"role_bytes"' plan job.toml --json
expect 0 "digraph" plan job.toml --dot --until reference
if command -v dot > /dev/null; then
    "$dsflow" plan job.toml --dot | dot -Tsvg > graph.svg || fault "dot refuses the graph"
fi

# What is free, and so a budget that is auto, is never the same twice.
budgets="--set memory.device=1GiB --set memory.host=1GiB"
run run --set validation.every=5 --set sample.tokens=20 $budgets
grep -q "validation loss" log || fault "no validation: $(cat log)"
grep -q "kernels .* % of" log || fault "no closing line: $(cat log)"
# Steps, validations, the end.
[ "$(grep -c . run/metrics.jsonl)" -eq 13 ] || fault "metrics.jsonl: $(cat run/metrics.jsonl)"
"$dsflow" plan job.toml --json $budgets | cmp - run/plan.json || fault "plan.json is not what plan prints"

expect 2 "dsflow: none/x/hf: No such file or directory" checkpoint export run none/x/hf
expect 0 "nats per byte" eval run
# A run, and the job whose output it is, mean the same model.
for command in eval "generate --temperature 0 --tokens 20"; do
    "$dsflow" $command run > a 2> err || fault "$command run: $(cat err)"
    grep -q "^dsflow: step 10 of run" err || fault "$command run: $(cat err)"
    "$dsflow" $command job.toml > b 2> err || fault "$command job.toml: $(cat err)"
    grep -q "^dsflow: step 10 of run" err || fault "$command job.toml: $(cat err)"
    cmp a b || fault "$command: the run and its job differ"
    "$dsflow" $command job.toml --step 0 > b 2> err || fault "$command --step 0: $(cat err)"
    grep -q "the model as it starts, without training" err || fault "$command --step 0: $(cat err)"
    cmp -s a b && fault "$command: nothing was learnt"
    expect 2 "none: has no checkpoint: train it first" $command job.toml --set job.output=none
    expect 2 "run: has no checkpoint of step 3 (dsflow checkpoint list)" $command run --step 3
    expect 2 "model.width is 32 in it, and 64 in the job: its weights do not fit" $command job.toml --set model.width=64
done
expect 2 "none: has no checkpoint" checkpoint export job.toml none-hf --set job.output=none
[ ! -e none-hf ] || fault "a model that was never trained is exported"
expect 0 "step 10" checkpoint list run
expect 0 "step 10" checkpoint verify run
expect 0 "whole" checkpoint verify run/checkpoints/step-10

# The same seed gives the same text, another one another.
"$dsflow" generate run --prompt "Line 7" --tokens 30 --seed 3 > a || fault "generate"
"$dsflow" generate run --prompt "Line 7" --tokens 30 --seed 3 > b
"$dsflow" generate run --prompt "Line 7" --tokens 30 --seed 4 > c
cmp a b || fault "the same seed gives another text"
cmp -s a c && fault "another seed gives the same text"
grep -q "^Line 7" a || fault "the prompt is not there: $(cat a)"

# Out as a Hugging Face folder, in again: the same loss.
expect 0 "step 10" checkpoint export run hf
[ -s hf/model.safetensors ] && [ -s hf/config.json ] || fault "export: $(ls hf)"
expect 2 "expected a new or empty folder" checkpoint export run hf
# Known before anything is read, and nothing is tried beside it.
mkdir bare
for folder in bare/. bare/./ bare/../bare/.; do
    expect 2 "dsflow: ${folder%/}: expected the name of a new or empty folder" \
        checkpoint export job.toml "$folder" --set job.output=none
done
rmdir bare || fault "an export that was refused leaves $(ls -A bare)"
expect 2 "hf: Directory not empty" checkpoint export job.toml hf --set job.output=none
[ "$(echo hf*)" = hf ] || fault "an export that was refused leaves $(echo hf*)"
a=$("$dsflow" eval run 2> /dev/null | head -n 1)
b=$("$dsflow" eval job.toml --set model.init=hf --set job.output=none 2> err | head -n 1)
grep -q "none has no checkpoint: the weights of model.init, hf" err || fault "eval of init: $(cat err)"
[ -n "$a" ] && [ "$a" = "$b" ] || fault "eval of the run: $a; of the export: $b"
run tuned --set model.init=hf --set job.steps=2 --set schedule.warmup=2

# The graph can be looked at after every policy, and each one does something,
# but for the one that puts in what plug-ins bring, and `weights`, which does not
# go with parameters that are coded.
last=
for policy in $("$dsflow" list policies | awk '{ print $1 }'); do
    "$dsflow" plan job.toml --set mesh.data=2 --set mesh.pipeline=2 \
        --set mesh.tensor=2 --set mesh.sequence=2 --set zero.stage=3 \
        --set recompute.what=block \
        --set pipeline.strict=true --set offload.optimizer=nvme \
        --set memory.nvme.path=. --set precision.compute=bf16 \
        --set compress.params=int8 --set compress.keep=0 \
        --set offload.piece=4KiB --until "$policy" --dot > "$policy.dot" || fault "--until $policy"
    [ -z "$last" ] || [ "$policy" = replace ] || [ "$policy" = weights ] ||
        ! cmp -s "$last.dot" "$policy.dot" ||
        fault "$policy leaves the graph as it is after $last"
    last=$policy
done
grep -q 'label="step, rank 15"' priorities.dot || fault "no box of rank 15"
"$dsflow" plan job.toml --set precision.compute=bf16 > plan || fault "plan in bf16"
grep -q '^prepare  *[1-9][0-9]* .*before the first step$' plan || fault "no program prepare: $(cat plan)"

# Moved elsewhere, a run is still a run.
mv run moved
expect 0 "loss" eval moved
# A name is printed without what a terminal would obey.
sed 's/^name.*/name = "a\\u001b[31m\\u009bb"/' job.toml > esc.toml
grep -q u001b esc.toml || fault "the name of esc.toml: $(cat esc.toml)"
"$dsflow" run esc.toml --set job.output=esc --steps 2 --trace > log 2>&1 || fault "run esc.toml: $(cat log)"
for command in "trace esc" "checkpoint list esc" "watch esc --once"; do
    "$dsflow" $command >> log 2>&1 || fault "$command: $(tail -1 log)"
done
grep -qF 'a?[31m?b' log || fault "no name: $(cat log)"
escape=$(printf '\033') csi=$(printf '\302\233')
grep -qF -e "$escape" -e "$csi" log && fault "a name that a terminal obeys: $(cat -v log)"
finish
