#!/bin/bash
# advice.sh DSFLOW [NAME...] - jobs made slow on purpose, on this machine: what
# dsflow trace says that a change would save, and what it saves. Runs without and
# with the change are made in turn (see common.sh).
#
# Prints, of each: the change, the share of the time that was said to be left, and
# that which is.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift

# What is slow, the key that is to be named, and how it is made so.
names=(ring split link tiny worker)
declare -A keys=([ring]=batch.in_flight [split]=pipeline.split
    [link]=machine.virtual_link [tiny]=batch.tile [worker]=machine.workers)
declare -A slow=(
    [ring]="--set machine.workers=2 --set batch.in_flight=1 --set batch.tile=128"
    [split]="--set machine.workers=2 --set mesh.pipeline=2 --set pipeline.split=[1,5]"
    [link]="--set machine.workers=1 --set machine.virtual=1 --set machine.virtual_link=50MB --set offload.activations=cpu"
    [tiny]="--set machine.workers=2 --set batch.tile=16"
    [worker]="--set machine.workers=1"
)
(($# > 0)) || set -- "${names[@]}"

make_slow_job()
{
    awk 'BEGIN { srand(1)
                 for (i = 0; i < 500000; i++)
                     printf "%c", i % 64 ? 97 + int(26 * rand()) : 10 }' \
        > "$work/text"
    cat > "$work/job.toml" <<JOB
[job]
name = "slow"
steps = $((STEPS + WARMUP))
output = "$work/run"
[model]
layers = 6
heads = 4
width = 192
context = 128
[data]
train = "$work/text"
validation = 0.0
[batch]
sequences = 8
micro = 1
[checkpoint]
at_end = false
JOB
}

# advised KEY: "--set KEY=VALUE …" and the share of the time, of the trace of $run.
advised()
{
    "$dsflow" trace "$run" --json | python3 -c '
import json, sys
for c in json.load(sys.stdin)["advice"]["changes"]:
    if c["key"] == sys.argv[1]:
        sets = [c["key"] + "=" + c["to"]] + ([c["also"]] if c["also"] else [])
        print("%.3f" % c["share"], *sets)' "$1"
}

compare()
{
    local name=$1 said sets before=() after=() pairs=()
    local -a with

    run_dsflow "$work/job.toml" ${slow[$name]} --trace
    read -r said sets <<< "$(advised "${keys[$name]}")" || true
    if [[ -z ${said:-} ]]; then
        printf '%-8s %s is not advised\n' "$name" "${keys[$name]}"
        "$dsflow" trace "$run" | sed -n '4,14p'
        return
    fi
    with=()
    for set in $sets; do with+=(--set "$set"); done
    for ((i = 0; i < PAIRS; i++)); do
        run_dsflow "$work/job.toml" ${slow[$name]}
        before=$(step_seconds)
        run_dsflow "$work/job.toml" ${slow[$name]} "${with[@]}"
        after=$(step_seconds)
        pairs+=("$(ratio "$after" "$before")")
    done
    printf '%-8s %-50s said %s, is %s (%s)\n' "$name" "$sets" "$said" \
        "$(printf '%s\n' "${pairs[@]}" | median)" "${pairs[*]}"
}

make_slow_job
for name; do
    compare "$name"
done
