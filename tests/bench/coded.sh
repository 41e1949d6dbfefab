#!/bin/bash
# coded.sh DSFLOW [RATE...] - two virtual devices with a link of so many bytes a
# second (16MB 32MB), over which copies really take as long: a step of a small GPT
# that is dense, beside the same with coded gradients and parameters, in turn. How
# many times faster it is, and how many the plan had said: within 0.8 and 1.25 is
# as it said. See common.sh for the rest.
set -euo pipefail
bench=$(dirname -- "$(realpath -- "$0")")
. "$bench/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 16MB 32MB

make_job 8x128/4
sed -i 's/^layers.*/layers = 4/; s/^heads.*/heads = 4/; s/^width.*/width = 256/; s/^vocab.*/vocab = 256/' \
    "$work/job.toml"

# both RATE KEYS...: "measured predicted" seconds of a step.
both()
{
    local rate=$1 key sets=()

    shift
    for key in mesh.data=2 zero.stage=2 batch.groups=2 machine.virtual=2 \
        "machine.virtual_link=\"$rate\"" "$@"; do
        sets+=(--set "$key")
    done
    run_dsflow "$work/job.toml" "${sets[@]}"
    echo "$(step_seconds)" "$(python3 -c '
import json, sys
print(json.load(open(sys.argv[1]))["predicted"]["step_seconds"])' "$run/plan.json")"
}

for rate; do
    for keys in compress.gradients=int4 "compress.gradients=int4 compress.params=int8"; do
        : > "$work/ratios"
        for ((i = 1; i <= PAIRS; i++)); do
            read -r dense said_dense < <(both "$rate")
            # shellcheck disable=SC2086 # words are what separates keys
            read -r coded said_coded < <(both "$rate" $keys)
            echo "dense $dense (said $said_dense), coded $coded ($said_coded)" >&2
            echo "$(ratio "$dense" "$coded") $(ratio "$said_dense" "$said_coded")" >> "$work/ratios"
        done
        is=$(cut -d' ' -f1 "$work/ratios" | median) said=$(cut -d' ' -f2 "$work/ratios" | median)
        echo "$rate, $keys: $is times as fast, said $said, ratio $(ratio "$is" "$said")"
    done
done
