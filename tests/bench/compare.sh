#!/bin/bash
# compare.sh DSFLOW [SHAPE...] - training steps of GPT-2 124M in fp32, dsflow
# against PyTorch on the same cores, in turn. Prints the ratio of tokens/s of
# each pair and their median; above 1, dsflow is faster.
#
# SHAPE is SEQUENCESxTOKENS[/MICRO]; default: 4x64 1x1024. PYTHON is one that
# has torch (default: Debian's, with python3-torch). See common.sh for the rest.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
PYTHON=${PYTHON:-/usr/bin/python3}
"$PYTHON" -c 'import torch' 2> /dev/null ||
    die "$PYTHON has no torch: apt-get install python3-torch, or set PYTHON"

torch_seconds()
{
    "$PYTHON" "$here/torch_gpt2.py" --batch "$1" --sequence "$2" \
        --threads "$WORKERS" --steps "$STEPS" --warmup $WARMUP |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["seconds"])'
}

(($# > 0)) || set -- 4x64 1x1024
for shape in "$@"; do
    make_job "$shape"
    sequences=${shape%%x*} tokens=${shape#*x} tokens=${tokens%%/*}
    : > "$work/ratios"
    for ((i = 1; i <= PAIRS; i++)); do
        run_dsflow "$work/job.toml" --set machine.workers="$WORKERS"
        a=$(step_seconds)
        b=$(torch_seconds "$sequences" "$tokens")
        r=$(ratio "$b" "$a")
        echo "$r" >> "$work/ratios"
        awk -v n=$((sequences * tokens)) -v a="$a" -v b="$b" -v r="$r" \
            -v shape="$shape" 'BEGIN {
                printf "%s: dsflow %.1f tokens/s, PyTorch %.1f tokens/s, " \
                       "ratio %s\n", shape, n / a, n / b, r }'
    done
    echo "$shape: median ratio $(median < "$work/ratios") of $PAIRS pairs," \
        "$WORKERS workers"
done
