#!/bin/bash
# devices.sh DSFLOW [RATIO...] - a job whose parameters are in main memory, on a
# virtual device: the step beside the longest of what the device
# computes and what its link carries in each direction, as its trace has them,
# and the share of the copying that is done while it computes. The link is set
# so that its copies take RATIO of the arithmetic; default: 0.5, 0.9 and 2. Also
# the memory of the device, and of the process, beside the plan's.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 0.5 0.9 2
make_job 8x128/4
sed -i -e 's/^layers = .*/layers = 8/; s/^heads = .*/heads = 4/' \
    -e 's/^width = .*/width = 256/; s/^context = .*/context = 128/' \
    -e 's/^vocab = .*/vocab = 256/' "$work/job.toml"

# measure LINK: sets $seconds, $compute, $into, $out and $bytes of a step, and
# $overlap.
measure()
{
    run_dsflow "$work/job.toml" --trace --set machine.workers=1 \
        --set machine.virtual=1 --set machine.virtual_link="$1" \
        --set offload.params=cpu --set optimizer.clip=0.0 \
        --set offload.read_ahead=3 --set offload.write_behind=3
    "$dsflow" trace "$run" --quiet --chrome "$work/chrome"
    python3 - "$work/chrome" "$run" > "$work/measured" <<'PYTHON'
import json, statistics, sys
events = json.load(open(sys.argv[1]))
events = events["traceEvents"] if isinstance(events, dict) else events
names = {e["tid"]: e["args"]["name"] for e in events
         if e["ph"] == "M" and e["name"] == "thread_name"}
lanes = {}
for e in events:
    if e["ph"] == "X" and names.get(e["tid"]) != "steps":
        lanes.setdefault(names.get(e["tid"]), []).append(
            (e["ts"], e["ts"] + e["dur"]))
steps = [e["args"]["step"] for e in events if e["ph"] == "X"
         and "step" in e.get("args", {})]
n = max(steps) - min(steps) + 1
length = lambda spans: sum(b - a for a, b in spans) * 1e-6
def common(x, y):
    total, i, j = 0, 0, 0
    x, y = sorted(x), sorted(y)
    while i < len(x) and j < len(y):
        total += max(0, min(x[i][1], y[j][1]) - max(x[i][0], y[j][0]))
        if x[i][1] < y[j][1]:
            i += 1
        else:
            j += 1
    return total * 1e-6
device, into, out = (lanes.get(k, []) for k in
                     ("device 0", "into device 0", "out of device 0"))
records = [json.loads(line) for line in open(sys.argv[2] + "/metrics.jsonl")]
records = [r for r in records if "seconds" in r]
ends = [max(b for a, b in device), min(a for a, b in device)]
print((ends[0] - ends[1]) * 1e-6 / n, length(device) / n, length(into) / n,
      length(out) / n, records[-1]["bytes"]["swap_in"],
      common(into, device) / max(length(into), 1e-9))
PYTHON
    read -r seconds compute into out bytes overlap < "$work/measured"
}

measure auto
for ratio in "$@"; do
    : > "$work/ratios"
    for ((i = 1; i <= PAIRS; i++)); do
        link=$(awk -v b="$bytes" -v c="$compute" -v r="$ratio" \
            'BEGIN { printf "%d", b / (c * r) }')
        measure "$link"
        awk -v s="$seconds" -v c="$compute" -v i="$into" -v o="$out" -v v="$overlap" \
            -v ratios="$work/ratios" 'BEGIN {
            m = c > i ? c : i
            m = m > o ? m : o
            printf "step %.3f s, computes %.3f s, copies in %.3f s and out %.3f s", s, c, i, o
            printf " (%.0f %% beside kernels): %.3f of the longest\n", 100 * v, s / m
            printf "%.3f\n", s / m >> ratios }'
    done
    echo "link $ratio: median $(median < "$work/ratios") of $PAIRS"
done
python3 - "$run" "$work/log" <<'PYTHON'
import json, re, sys
rank = json.load(open(sys.argv[1] + "/plan.json"))["ranks"][0]
planned = rank["peak_bytes"]["device"]
records = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
held = [r for r in records if "peak_bytes" in r][-1]["peak_bytes"]["device"]
print("memory of the device: %d bytes, planned %d: %.4f" %
      (held, planned, held / planned))
PYTHON
grep "^peak memory" "$work/log" || true
