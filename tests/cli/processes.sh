# processes.sh - a run that mpirun starts in several processes is that of one.
. "${srcdir:-.}/tests/lib/mpi.sh"
. "${srcdir:-.}/tests/cli/lib.sh"
tiny=$(cd "$OLDPWD" && cd "${srcdir:-.}" && pwd)/tests/unit/text/tiny_tokenizer.json
by_mpirun

# in_processes N STATUS TEXT ARGS...: the run ends so, and says so somewhere.
in_processes() {
    n=$1 status=$2 text=$3
    shift 3
    timeout -k 5 200 mpirun -n $n "$dsflow" run job.toml "$@" > log 2>&1
    got=$?
    [ $got -eq $status ] || { fault "$*: status $got, not $status"; cat log; }
    grep -qF -e "$text" log || { fault "$*: does not say '$text'"; cat log; }
}

# same A B: their last checkpoints have the same bytes, and their steps the same
# losses.
same() {
    for f in manifest.json params.safetensors states.safetensors; do
        cmp $1/checkpoints/step-10/$f $2/checkpoints/step-10/$f ||
            fault "$1 and $2: $f"
    done
    for d in $1 $2; do
        grep -o '"step": *[0-9]*\|"[a-z_]*loss": *[-0-9.e]*' $d/metrics.jsonl > $d.losses
    done
    cmp $1.losses $2.losses || fault "losses of $1 and $2"
}

keys="--set mesh.data=2 --set mesh.pipeline=2 --set zero.stage=3 --set zero.keep=0
      --set validation.every=5 --set sample.tokens=8"
# shellcheck disable=SC2086
{
    run one $keys
    in_processes 2 0 "in 2 processes" --set job.output=two $keys
    same one two
    # UCX has fewer tags.
    if has_ucx; then
        over_ucx
        in_processes 2 0 "in 2 processes" --set job.output=ucx $keys
        not_over_ucx
        same one ucx
    fi
    # Process 0 without the graph of all knows of it what there is to know.
    in_processes 4 0 "each process has those of its own ranks" \
        --set job.output=own $keys --set run.whole=0 --trace=all
    same one own
    "$dsflow" trace own > log || fault "no trace of process 0: $?"
    "$dsflow" plan job.toml $keys --json > plan.json
    python3 - << 'PY' || fault "plan.json of a process that has its own ranks"
import json
own, all = json.load(open("own/plan.json")), json.load(open("plan.json"))
for key in ("mesh", "tasks", "data", "edges", "bytes", "traffic", "checkpoints"):
    assert own[key] == all[key], (key, own[key], all[key])
assert len(own["ranks"]) == 4 and "predicted" not in own
assert [r["tasks"] for r in own["ranks"]] == [r["tasks"] for r in all["ranks"]]
PY
    # Half of it in four, and the rest in one; and the other way round.
    in_processes 4 0 "step 5: validation loss" --set job.output=four $keys \
        --set job.steps=5
    "$dsflow" run job.toml --set job.output=four $keys --resume > log 2>&1 ||
        { fault "in one, after four: $?"; cat log; }
    run half $keys --set job.steps=5
    in_processes 2 0 "goes on from half" --set job.output=half $keys --resume
    same four half
}

# All round inputs from the same step on, also those that begin behind it.
later="--set activations.quantize=symmetric --set activations.group=16
       --set activations.quantize_from=4"
# shellcheck disable=SC2086
{
    run later $keys $later
    in_processes 2 0 "in 2 processes" --set job.output=rounded $keys $later
    same later rounded
    in_processes 2 0 "step 5: validation loss" --set job.output=again $keys $later \
        --set job.steps=5 --set schedule.total=10
    in_processes 2 0 "goes on from again" --set job.output=again $keys $later --resume
    same later again
}

# What is wrong with the text is said by one of them.
cp text.txt copy.txt
in_processes 2 0 "the same text is in train" --set job.output=warned --set mesh.data=2 \
    --set data.validation_files=copy.txt --set job.steps=2
[ "$(grep -c "the same text is in train" log)" -eq 1 ] || { fault "warns twice"; cat log; }

# in_two STATUS TEXT COMMAND...: process 0 runs the job, process 1 the command.
in_two() {
    status=$1 text=$2
    shift 2
    timeout -k 5 200 mpirun -n 1 "$dsflow" run job.toml --set mesh.data=2 \
        --set job.output="$out" : -n 1 "$@" > log 2>&1
    got=$?
    [ $got -eq "$status" ] || { fault "$*: status $got, not $status"; cat log; }
    [ "$(grep -cF -e "$text" log)" -eq 1 ] || { fault "$*: not once: '$text'"; cat log; }
}

# All have the job of process 0, whatever they were started with; a process with
# another text is refused.
run alone --set mesh.data=2
out=whole
in_two 0 "in 2 processes" "$dsflow" run none.toml --set optimizer.lr=1
same alone whole
mkdir other
sed 's/number/figure/' text.txt > other/text.txt
out=refused
in_two 2 "process 1 (host $(uname -n)): job.toml: data: the text is another than that of process 0" \
    sh -c "cd other && exec '$dsflow' run job.toml"
# What cannot be is said once, and nobody waits.
in_processes 3 2 "2 ranks: expected one at least for each of 3 processes" \
    --set job.output=none --set mesh.data=2
in_processes 2 2 "mesh: dada: unknown key" --set job.output=none --set mesh.dada=2
# One trace of all: each task of the graph once a step, messages on lanes of both.
# shellcheck disable=SC2086
in_processes 2 0 "steps 1 to 10 are traced" --set job.output=seen $keys --trace=all
grep -q '"efficiency": *0\.[0-9]' seen/metrics.jsonl ||
    fault "no efficiency: $(head -n 3 seen/metrics.jsonl)"
"$dsflow" trace seen --json > trace.json || fault "no trace: $?"
"$dsflow" plan job.toml $keys --json > plan.json
python3 - << 'PY' || fault "the trace is not that of the plan"
import json
trace, plan = json.load(open("trace.json")), json.load(open("plan.json"))
names = [w["name"] for w in trace["workers"]]
assert any(n.startswith("0: ") for n in names), names
assert any(n.startswith("1: ") for n in names), names
for kind, count in plan["tasks"].items():
    assert trace["tasks"][kind]["count"] == count, kind
assert 0 < trace["efficiency"] <= 1, trace["efficiency"]
PY
# Rows of an embedding: as many bytes go as tokens have touched rows, which is
# known in each step and to the byte: each of them is that of one byte of the text.
rows="--set mesh.data=2 --set batch.groups=2 --set zero.stage=2 --set model.family=llama
      --set model.tied=false --set model.vocab=4096 --set compress.embedding=rows"
# shellcheck disable=SC2086
{
    run rows-1 $rows
    in_processes 2 0 "steps 1 to 10 are traced" --set job.output=rows-2 $rows --trace=all
    "$dsflow" plan job.toml $rows --json > plan.json
}
"$dsflow" trace rows-2 --json > trace.json || fault "rows: no trace: $?"
same rows-1 rows-2
python3 - << 'PY' || fault "rows: not the bytes that were touched"
import json
def read(name):
    lines = [json.loads(line) for line in open(name + "/metrics.jsonl")]
    return [line for line in lines if "traffic" in line]
def bytes_of(it, kind="add_rows"):
    return it["traffic"][kind]["inside"]["bytes"]
row, plan = 8 + 4 * 32, json.load(open("plan.json"))
most = 2 * (8 + 96 * row)
assert bytes_of(plan) == most, (bytes_of(plan), most)
one, two = read("rows-1"), read("rows-2")
assert len(one) == len(two) == 10
for a, b in zip(one, two):
    assert bytes_of(a) == most, a
    went = bytes_of(b)
    assert (went - 16) % row == 0 and 16 + 2 * 8 * row < went < 16 + 2 * 60 * row, b
    less = most - went
    assert a["bytes"]["reduce"] - b["bytes"]["reduce"] == less, (a, b)
    assert bytes_of(a, "all") - bytes_of(b, "all") == less, (a, b)
mean = sum(bytes_of(b) for b in two) / 10
assert abs(bytes_of(json.load(open("trace.json"))) - mean) < mean / 3, mean
PY
# What is copied in a process beside what comes is no message.
in_processes 2 0 "steps 1 to 10 are traced" --set job.output=copied \
    --set mesh.data=4 --set zero.stage=1 --trace=all
"$dsflow" trace copied > log || fault "copies: no trace: $?"
"$dsflow" trace seen --chrome seen.json
python3 - << 'PY' || fault "what processes send has no lane, or no name"
import json
events = json.load(open("seen.json"))
events = events["traceEvents"] if isinstance(events, dict) else events
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
         if e.get("name") == "thread_name"}
for process in "01":
    sent = {e["args"]["data"] for e in events if e["ph"] == "X" and
            names.get((e["pid"], e["tid"])) == process + ": to processes"}
    assert len(sent) > 10, (process, sent)
PY
# With a clock of its own, 1000 s ahead, a process is another machine.
if unshare --time --monotonic 1000 --fork true 2> /dev/null; then
    # shellcheck disable=SC2086
    timeout -k 5 200 mpirun -n 1 "$dsflow" run job.toml --set job.output=apart $keys \
        --trace=all : -n 1 unshare --time --monotonic 1000 --fork \
        "$dsflow" run job.toml > log 2>&1 || { fault "two clocks: $?"; cat log; }
    grep -q "times of one beside another's are known to" log ||
        { fault "two clocks: nothing of them"; cat log; }
    # What process 1 ran is among what process 0 did.
    "$dsflow" trace apart --chrome apart.json || fault "no trace of two clocks: $?"
    python3 - << 'PY' || fault "the trace of two clocks"
import json
events = json.load(open("apart.json"))
events = events["traceEvents"] if isinstance(events, dict) else events
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
         if e.get("name") == "thread_name"}
for process in "01":
    at = [e["ts"] for e in events if e["ph"] == "X" and
          names.get((e["pid"], e["tid"]), "").startswith(process + ": core")]
    assert at and 0 <= min(at) and max(at) < 500e6, (process, names, at[:5])
PY
fi
# What other processes keep beside the states of the optimizer is in checkpoints:
# errors of groups, and what is by unit.
keys='--set optimizer.kind=onebit_lamb --set onebit_lamb.freeze_step=4 --set batch.groups=2
    --set compress.keep=0 --set mesh.data=2 --set mesh.pipeline=2'
run kept1 $keys
in_processes 2 0 'step 10' --set job.output=kept2 $keys
cmp -s kept1/checkpoints/step-10/states.safetensors kept2/checkpoints/step-10/states.safetensors ||
    fault "states of two processes are others than those of one"

# Of matrices Muon has no second moments, of which files have zeroes.
keys='--set optimizer.kind=muon --set mesh.data=2 --set zero.stage=1'
run muon1 $keys
in_processes 2 0 'step 10' --set job.output=muon2 $keys
same muon1 muon2

# All read the tokenizer that the first one reads: that of the run where another
# file has its name by now, and another one where that is asked for.
cp "$tiny" tok.json
{ cat "$tiny"; echo; } > other.json
run read --set data.tokenizer=tok.json --set mesh.data=2
cp other.json tok.json
for args in "--resume=changed --set job.steps=12" "--overwrite --set data.tokenizer=other.json"; do
    # shellcheck disable=SC2086
    timeout -k 5 200 mpirun -n 2 "$dsflow" run read $args > log 2>&1 ||
        fault "$args: status $?: $(cat log)"
done

# So they do of a model, where another one has its name by now.
run base --set model.family=llama
"$dsflow" checkpoint export base hf > log 2>&1 || fault "export: $(cat log)"
sed '/^layers/d; /^heads/d; /^width/d; s/^\[model\]/&\ninit = "hf"/' job.toml > init.toml
"$dsflow" run init.toml --set job.output=by-two --set mesh.data=2 > log 2>&1 || fault "$(cat log)"
cp -r by-two by-one
sed -i 's/"rope_theta": [0-9.]*/"rope_theta": 500.0/' hf/config.json
for how in "mpirun -n 2 $dsflow run by-two" "$dsflow run by-one"; do
    # shellcheck disable=SC2086
    timeout -k 5 200 $how --resume --set job.steps=12 > log 2>&1 || fault "$how: $(cat log)"
    grep -q "rope_theta is 500 there, and was 10000" log || fault "$how: $(cat log)"
done
same by-two by-one

finish
