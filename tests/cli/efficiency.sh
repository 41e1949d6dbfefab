# efficiency.sh - one step has one efficiency, and workers one share of it in
# which they are idle, wherever it is printed.
machines=$(cd "${srcdir:-.}/examples/machines" && pwd)
. "${srcdir:-.}/tests/cli/lib.sh"
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }

run traced --trace=all
"$dsflow" trace traced --chrome chrome.json --paje paje --svg all.svg \
    --steps 3:7 --json > summary.json || fault "dsflow trace traced: $?"
"$dsflow" plan job.toml --trace plan.dsflow > plan.txt 2> err ||
    fault "dsflow plan: $(cat err)"
"$dsflow" trace plan.dsflow --json > plan.json || fault "dsflow trace: $?"
"$dsflow" trace plan.dsflow > plan.words || fault "dsflow trace: $?"

cat > check.py <<'END'
import json, re

def near(what, a, b, within):
    if not abs(a - b) <= within:
        print(what, a, "is not", b)

steps = {}
for line in open("traced/metrics.jsonl"):
    s = json.loads(line)
    if "efficiency" in s:
        steps[s["step"]] = s

def of(first, last, number=lambda s: s["efficiency"]):
    some = [steps[i] for i in range(first, last + 1)]
    return (sum(number(s) * s["seconds"] for s in some) /
            sum(s["seconds"] for s in some))

if steps[1]["efficiency"] is not None:
    print("the first step has an efficiency")

# Pictures: of each step that is shown, in percent.
chrome = [e["args"]["%"] for e in json.load(open("chrome.json"))["traceEvents"]
          if e["name"] == "efficiency"]
paje = [float(line.split()[-1]) for line in open("paje")
        if re.match(r"\d+ \S+ VE P0 ", line)]
if len(chrome) != 5 or len(paje) < 5:
    print(len(chrome), "and", len(paje), "steps are shown, not 5")
for i, (c, p) in enumerate(zip(chrome, paje[-5:])):
    near("chrome: step %d" % (i + 3), c, 100 * steps[i + 3]["efficiency"], 1e-4)
    near("paje: step %d" % (i + 3), p, 100 * steps[i + 3]["efficiency"], 1e-3)

# Several steps: all that they take at least, of all the time they took.
title = re.search(r"efficiency ([\d.]+) %", open("all.svg").read())
near("svg", float(title.group(1)), 100 * of(3, 7), 0.06)
idle = re.search(r"workers idle ([\d.]+) %", open("all.svg").read())
near("idle in the svg", float(idle.group(1)),
     100 * of(3, 7, lambda s: s["share"]["idle"]), 0.06)
summary = json.load(open("summary.json"))
near("trace --json", summary["efficiency"], of(*summary["steps"]), 1e-6)
said = re.search(r"^efficiency ([\d.]+) %", open("log").read(), re.M)
near("the end of the run", float(said.group(1)), 100 * of(2, 10), 0.06)

# What is simulated, and its trace.
plan = re.search(r"efficiency ([\d.]+) %", open("plan.txt").read())
words = re.search(r"^efficiency ([\d.]+) %", open("plan.words").read(), re.M)
near("plan", float(plan.group(1)),
     100 * json.load(open("plan.json"))["efficiency"], 0.06)
near("plan and trace", float(plan.group(1)), float(words.group(1)), 0.11)
END
python3 check.py > wrong 2>&1 || fault "check.py: $?"
[ -s wrong ] && fault "$(cat wrong)"

# Other memories and devices: the plan and the trace of its simulation agree,
# and the times of that trace give the step again.
cat > agree.py <<'END'
import json

plan = json.load(open("plan.json"))
several_stages = plan["mesh"]["pipeline"] > 1
plan = plan["predicted"]
keys = ["step_seconds", "bound_seconds", "critical_seconds", "efficiency",
        "comm_seconds", "comm_hidden", "io_seconds", "io_hidden"]
# A step of several processes is not simulated again from its trace.
if plan["processes"] == 1:
    keys += ["scheduled_seconds", "reproduced"]
trace = json.load(open("trace.json"))
trace["reproduced"] = trace["advice"]["reproduced"]
plan["scheduled_seconds"] = plan["step_seconds"]
plan["reproduced"] = 1
for key in keys:
    if abs((trace[key] or 0) - plan[key]) > 1e-5 * plan[key]:
        print(key, plan[key], "is", trace[key], "in the trace")

# A plan counts the tasks of a step, a trace what is done while it lasts.
idle = sum(trace["all"]["idle_seconds"].values())
idle /= idle + trace["all"]["busy_seconds"] + trace["all"]["moving_seconds"]
if abs(plan["workers_idle"] - idle) > 0.05:
    print("workers are idle for", plan["workers_idle"], "and for", idle)
# The bubble is what stages wait for each other, and nothing else.
if "bubble" in plan or (trace["bubble"] > 0) != several_stages:
    print("the bubble is", plan.get("bubble"), "and", trace["bubble"])
END
agree() {
    "$dsflow" plan job.toml "$@" --json --trace plan.dsflow > plan.json 2> err ||
        fault "dsflow plan $*: $(cat err)"
    "$dsflow" trace plan.dsflow --json > trace.json || fault "dsflow trace: $?"
    python3 agree.py > wrong 2>&1 || fault "agree.py: $?"
    [ -s wrong ] && fault "$*: $(cat wrong)"
}
agree --set recompute.what=block
agree --set machine.workers=1 --set machine.virtual=1
# Disks that do one thing at a time or both, and that are fast or late: what they
# write for a step then goes on while they read for the next.
mkdir nvme
for duplex in false true; do
    for speed in 6e9 2e8 3e7; do
        sed "s/^read = .*/read = $speed/; s/^write = .*/write = $speed/
            s/^\[disk\]/&\nduplex = $duplex/" "$machines/laptop.toml" > $duplex-$speed.toml
        agree --machine $duplex-$speed.toml --set offload.optimizer=nvme \
            --set memory.nvme.path=nvme
    done
done
# Virtual devices with cores and links beside them.
agree --machine "$machines/laptop.toml" --set mesh.tensor=2 --set offload.params=cpu \
    --set machine.virtual=1
# Updates of a GPU on the cores beside it, of which there are some, or one a rank.
for workers in 1 4; do
    sed "s/^\[machine\]/&\nworkers = $workers/" "$machines/workstation-1gpu.toml" \
        > gpu-$workers.toml
    agree --machine gpu-$workers.toml --set offload.optimizer=cpu
done
# Several processes, whose messages are late and take time of cores.
cat "$machines/laptop.toml" - > wires.toml <<'END'
[link]
bandwidth = 1e9
latency = "300us"
core = 1e9
END
for keys in mesh.data=2 mesh.pipeline=2 mesh.tensor=2; do
    agree --machine wires.toml --processes 2 --set $keys --set machine.workers=2
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dsflow/machine.toml

# Of a run what was predicted is of kernels, as its times are: not so what a
# runtime adds that would be a thousand times as slow.
mkdir -p slow/dsflow
sed 's/^overhead = ".*"/overhead = "9ms"/' "$cache" > slow/dsflow/machine.toml
XDG_CACHE_HOME=$PWD/slow "$dsflow" run job.toml --set job.output=late \
    --trace > log 2>&1 || fault "dsflow run --trace: $(cat log)"
"$dsflow" trace late --json > trace.json || fault "dsflow trace: $?"
python3 - > wrong 2>&1 <<'END' || fault "predicted: $?"
import json

trace = json.load(open("trace.json"))
if trace["predicted_seconds"] < 9e-3:
    print("the step is predicted in", trace["predicted_seconds"])
for name, kind in trace["tasks"].items():
    if kind["predicted_seconds"] > 9e-3 * kind["count"]:
        print(name, "is predicted with what the runtime adds")
END
[ -s wrong ] && fault "$(cat wrong)"

[ $faults -eq 0 ]
