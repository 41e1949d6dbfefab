#!/bin/bash
# compare.sh DSFLOW [MODEL:SHAPE...] - training steps, dsflow against the fastest
# that PyTorch can do on the same cores, in turn: each of TYPES (fp32 bf16).
# Every variant of PyTorch runs once; the fastest is then compared in pairs.
# Prints which one that is, the ratio of tokens/s of each pair and their median;
# above 1, dsflow is faster.
#
# MODEL is gpt2 (124M) or llama (112M, three heads of queries for one of keys);
# SHAPE is SEQUENCESxTOKENS. Default: gpt2:4x64 gpt2:4x256 gpt2:1x1024
# llama:4x256. PYTHONS are those that have torch: the newest of PyPI, and Debian's
# for its other BLAS (default: python3 /usr/bin/python3, those that have it).
# See common.sh for the rest.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
TYPES=${TYPES:-fp32 bf16}

pythons=()
for python in ${PYTHONS:-python3 /usr/bin/python3}; do
    "$python" -c 'import torch' 2> /dev/null && pythons+=("$python")
done
((${#pythons[@]} > 0)) ||
    die "no torch: apt-get install python3-torch, or set PYTHONS"

# torch_seconds VARIANT: "PYTHON and arguments", of $model, $sequences, $tokens.
torch_seconds()
{
    local python=${1%% *}

    # shellcheck disable=SC2086
    "$python" "$here/torch_train.py" --model "$model" --batch "$sequences" \
        --sequence "$tokens" --threads "$WORKERS" --steps "$STEPS" \
        --warmup $WARMUP ${1#* } 2> "$work/torch.log" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["seconds"])'
}

# The variants of PyTorch for a type, one a line.
variants()
{
    local python kind adam compile

    for python in "${pythons[@]}"; do
        for kind in $([[ $1 = fp32 ]] && echo fp32 || echo autocast bf16); do
            for adam in foreach fused; do
                for compile in "" " --compile"; do
                    echo "$python --type $kind --adam $adam$compile"
                done
            done
        done
    done
}

# $best: the fastest variant. What this PyTorch cannot do is left out.
find_best()
{
    local variant seconds most=

    best=
    while read -r variant; do
        seconds=$(torch_seconds "$variant" 2> /dev/null) || continue
        echo "  $variant: $seconds s"
        if [[ -z $most ]] ||
            awk -v a="$seconds" -v b="$most" 'BEGIN { exit !(a < b) }'; then
            best=$variant most=$seconds
        fi
    done < <(variants "$1")
    [[ -n $best ]] || die "$1: no variant of PyTorch ran"
}

# What a LLaMA of 112M has in the place of what make_job says.
llama=(--set model.family=llama --set model.kv_heads=4 --set model.ffn_width=2048
    --set model.vocab=24000 --set model.tied=false)

(($# > 0)) || set -- gpt2:4x64 gpt2:4x256 gpt2:1x1024 llama:4x256
for what in "$@"; do
    model=${what%%:*} shape=${what#*:}
    [[ $model = gpt2 || $model = llama ]] || die "$what: expected gpt2: or llama:"
    make_job "$shape"
    sequences=${shape%%x*} tokens=${shape#*x}
    more=()
    [[ $model = gpt2 ]] || more=("${llama[@]}")
    for type in $TYPES; do
        find_best "$type"
        : > "$work/ratios"
        for ((i = 1; i <= PAIRS; i++)); do
            run_dsflow "$work/job.toml" --set machine.workers="$WORKERS" \
                "${more[@]}" $([[ $type = fp32 ]] ||
                    echo --set precision.compute="$type")
            a=$(step_seconds)
            b=$(torch_seconds "$best")
            r=$(ratio "$b" "$a")
            echo "$r" >> "$work/ratios"
            awk -v n=$((sequences * tokens)) -v a="$a" -v b="$b" -v r="$r" \
                -v what="$what $type" 'BEGIN {
                    printf "%s: dsflow %.1f tokens/s, PyTorch %.1f tokens/s, " \
                           "ratio %s\n", what, n / a, n / b, r }'
        done
        echo "$what $type: median ratio $(median < "$work/ratios") of $PAIRS" \
            "pairs, $WORKERS workers, against ${best#* }"
    done
done
