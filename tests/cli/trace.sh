# trace.sh - traces of runs and simulations, in the formats of others.
machines=$(cd "${srcdir:-.}/examples/machines" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"
job | sed 's/layers = 2/layers = 4/; s/heads = 2/heads = 4/' > job.toml

# says TEXT ARGS...: the command is refused with status 2, and one line that has
# the text.
says() {
    text=$1
    shift
    "$dsflow" "$@" > out 2> err
    got=$?
    [ $got -eq 2 ] || fault "dsflow $*: status $got, not 2"
    [ "$(grep -c . err)" -eq 1 ] || fault "dsflow $*: $(cat err)"
    grep -qF -e "$text" err || fault "dsflow $*: does not say '$text': $(cat err)"
}

# Every line is of the form that Python's json.tool reads, where there is one.
is_json() {
    command -v python3 > /dev/null || return 0
    python3 -m json.tool "$1" > /dev/null || fault "$1 is no JSON"
}

# What lanes are at, as pj_dump has it: covers the time of each, and is for each
# kind what the JSON has. The last is in microseconds.
compare() {
    pj_dump -l 12 "$1.paje" > "$1.dump" 2> err ||
        { fault "pj_dump refuses $1.paje: $(cat err)"; return; }
    awk -F', ' -v name="$1" '
        FNR == NR && $1 == "Container" { length_of[$NF] = $6 }
        FNR == NR && $1 == "State" { covered[$2] += $6; kind[$8] += $6 }
        FNR == NR { next }
        /"ph":"X"/ {
            split($0, part, "\"dur\":"); split(part[2], time, ",")
            split($0, part, "\"name\":\""); split(part[2], what, "\"")
            json[what[1]] += time[1] / 1e6; spans++
        }
        END {
            for (lane in covered) {
                share = covered[lane] / length_of[lane]
                if (!(share > 0.9999 && share < 1.0001))
                    print name ": states cover " share " of " lane
            }
            for (k in kind) {
                if (k == "idle")
                    continue
                if (!(kind[k] > 0.99 * json[k] && kind[k] < 1.01 * json[k]))
                    print name ": " k " takes " kind[k] " s, not " json[k]
                kinds++
            }
            if (kinds < 10 || spans < 100)
                print name ": " kinds " kinds, " spans " spans"
        }' "$1.dump" "$1.json" > wrong
    [ -s wrong ] && fault "$(cat wrong)"
}

# Times by kind in the summary are those that pj_dump sums up.
compare_summary() {
    command -v python3 > /dev/null || return 0
    "$dsflow" trace "$2" --json > summary.json || fault "$1: --json"
    python3 - "$1.dump" << 'END' > wrong || fault "$1: $(cat wrong)"
import collections, json, sys
paje = collections.Counter()
for line in open(sys.argv[1]):
    field = line.rstrip("\n").split(", ")
    if field[0] == "State":
        paje[field[7]] += float(field[5])
tasks = json.load(open("summary.json"))["tasks"]
wrong = [f"{name}: {paje[name]} s in Paje, {task['trace_seconds']} s in the summary"
         for name, task in tasks.items()
         if abs(paje[name] - task["trace_seconds"])
         > 0.01 * task["trace_seconds"]]
print("\n".join(wrong))
sys.exit(1 if wrong or len(tasks) < 10 else 0)
END
}

pajeng=yes
command -v pj_dump > /dev/null || pajeng=no

# shown NAME TRACE: in all formats.
shown() {
    "$dsflow" trace "$2" --paje "$1.paje" --chrome "$1.json" --svg "$1.svg" \
        --dot "$1.dot" || fault "dsflow trace $2"
    if [ $pajeng = yes ]; then
        compare "$1"
        compare_summary "$1" "$2"
    fi
    is_json "$1.json"
    if command -v xmllint > /dev/null; then
        xmllint --noout "$1.svg" || fault "$1.svg is no XML"
    fi
    grep -q "<svg" "$1.svg" && grep -q "digraph" "$1.dot" || fault "$1"
    grep -q "penwidth=5" "$1.dot" || fault "$1.dot: nothing is critical"
}

n=0
while read -r sets; do
    n=$((n + 1))
    flags=
    for set in $sets; do
        flags="$flags --set $set"
    done
    # shellcheck disable=SC2086
    "$dsflow" plan job.toml --machine "$machines/h200-8.toml" $flags \
        --trace "sim-$n.dsflow" > out 2>&1 || fault "plan $sets: $(tail -n 1 out)"
    shown "sim-$n" "sim-$n.dsflow"
done << END
mesh.pipeline=4 pipeline.schedule=1f1b
mesh.pipeline=2 pipeline.schedule=interleaved
mesh.pipeline=4 pipeline.schedule=zero_bubble
mesh.data=4 zero.stage=3 zero.keep=0
recompute.what=block
mesh.tensor=2 mesh.data=2
mesh.data=2 mesh.pipeline=2 mesh.tensor=2 zero.stage=1
offload.optimizer=nvme memory.nvme.path=none
offload.optimizer=nvme offload.params=nvme offload.activations=cpu memory.nvme.path=none mesh.data=2 zero.stage=3
END
for n in 8 9; do
    grep -q '"name":"disk read"' sim-$n.json || fault "sim-$n: no disk"
    [ $pajeng = no ] || grep -q 'State, disk write, .*, swap_out' sim-$n.dump ||
        fault "sim-$n: no swap_out in the row of the disk"
done

# Runs: ranks that share two cores, and one after the other.
run mesh --trace=all --set mesh.data=2 --set mesh.pipeline=2 --set job.steps=4 \
    --set machine.workers=2
shown mesh mesh
# Every rank has a row, on the core that it shares.
for rank in 0 1 2 3; do
    grep -q ">rank $rank<" mesh.svg || fault "mesh.svg: no rank $rank"
    grep -q "^rank $rank, .*core $((rank % 2))$" mesh.svg ||
        fault "mesh.svg: no title of a task of rank $rank"
    [ $pajeng = no ] ||
        grep -q "^State, rank $rank on core $((rank % 2)), .*, mlp.forward" mesh.dump ||
        fault "mesh.paje: no task in the row of rank $rank"
    grep -q "\"ph\":\"X\",\"pid\":$((rank + 1)),.*mlp.forward" mesh.json ||
        fault "mesh.json: no task in the process of rank $rank"
done
[ "$(grep -c '>core [01]<' mesh.svg)" -ge 4 ] || fault "mesh.svg: no core is named"
run disk --trace=all --set offload.optimizer=nvme --set memory.nvme.path=. \
    --set offload.params=nvme --set job.steps=4
shown disk disk
grep -q '"name":"disk read"' disk.json || fault "a run has no disk"
[ $pajeng = no ] || grep -q 'State, disk read, .*, swap_in' disk.dump ||
    fault "no swap_in in the row of the disk"

# Of a run that goes on, steps that are done already.
run behind --steps 4
"$dsflow" run job.toml --set job.output=behind --resume --trace=2:4 > log 2>&1 ||
    fault "goes on behind what it is to trace: $(cat log)"
grep -q "warning: --trace=2:4: has no effect: the run goes on from step 4$" log ||
    fault "steps that are done are to be traced: $(cat log)"
"$dsflow" run job.toml --steps 11 --set job.output=behind --resume --trace=4:11 > log 2>&1
grep "no effect" log && fault "a part of the steps is to be traced"

run serial --trace=all --executor serial --set job.steps=3
shown serial serial

# A validation between two steps is traced, as of none; one behind the last is not.
for steps in 2:3 4:4; do
    run "validated-$steps" --trace=$steps --set data.validation=0.3 \
        --set validation.every=2 --set job.steps=4
    "$dsflow" trace "validated-$steps" --chrome "$steps.json" || fault "$steps"
done
grep '"ph":"X"' 2:3.json | grep -qv '"step":' || fault "2:3: no validation"
grep '"ph":"X"' 4:4.json | grep -qv '"step":' && fault "4:4: validation"

# A step takes its part of the time.
"$dsflow" trace sim-1.dsflow --steps 2 --chrome step.json || fault "--steps 2"
[ "$(grep -c '"ph":"X"' step.json)" -lt "$(grep -c '"ph":"X"' sim-1.json)" ] ||
    fault "a step has all spans"
is_json step.json
"$dsflow" trace sim-1.dsflow --svg - | grep -q "step 2, simulated" ||
    fault "the picture is not of step 2"
"$dsflow" trace sim-1.dsflow | grep -q "efficiency" || fault "no words"

# A trace that cannot grow does not end the run, and what there is of it is read.
(
    ulimit -f 400
    "$dsflow" run job.toml --trace=all --set job.output=short \
        --set job.steps=60 --set checkpoint.at_end=false > out 2> err
) || fault "a trace that cannot grow: $(cat err)"
grep -q "the trace ends here: short/trace.dsflow: cannot be" err ||
    fault "a trace that cannot grow: $(cat err)"
"$dsflow" trace short | grep -q "efficiency" || fault "a trace that was cut"

run plain
says "plain: has no trace.dsflow: dsflow run" trace plain
says "No such" trace no-such --paje -
says "is no trace" trace job.toml
head -c 20000 sim-1.dsflow > damaged.dsflow
says "damaged" trace damaged.dsflow
says "expected steps from 1 to 3" trace sim-1.dsflow --steps 9 --svg -
says "expected A or A:B" trace sim-1.dsflow --steps one --svg -
for both in "--paje - --svg -" "--svg - --json" "--chrome - --summary"; do
    # shellcheck disable=SC2086
    says "expected one of them on standard output" trace sim-1.dsflow $both
done
says "trace: --steps: expected --paje, --chrome, --dot or --svg beside it" trace sim-1.dsflow --steps 2 --summary
"$dsflow" trace sim-1.dsflow --paje /dev/full 2> err && fault "a full disk"
grep -q "cannot be written" err || fault "a full disk: $(cat err)"

if [ $pajeng = no ] && [ $faults -eq 0 ]; then
    echo "no pj_dump (Debian: pajeng): what it would read was not compared"
    exit 77
fi
finish
