#!/bin/bash
# processes.sh DSFLOW [SHAPE...] - a run in two processes of one worker each:
#
#   one process of two workers / two processes, for two replicas (data) and for two
#   stages (pipeline), in micro-batches of one sequence: 1 is as fast;
#   PyTorch's DistributedDataParallel over gloo, two processes of one thread, /
#   two processes of dsflow with two replicas, for each of TYPES (fp32 bf16): above
#   1, dsflow is faster. The best of PyTorch's variants runs in the pairs.
#
# SHAPE: as of compare.sh (4x64 4x256). AXES and TYPES leave out parts. PYTHON has torch (python3; none: that part
# is left out). See common.sh for the rest.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 4x64 4x256
TYPES=${TYPES-fp32 bf16}
AXES=${AXES-data pipeline}
PYTHON=${PYTHON:-python3}

# in_two SETTING...: $job in two processes, to $seconds.
in_two()
{
    run_dsflow "$work/job.toml" -n 2 --set machine.workers=2 "$@"
    seconds=$(step_seconds)
}

# torch_seconds ARGUMENT...: of two processes, or nothing where it cannot.
torch_seconds()
{
    "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 \
        "$here/torch_train.py" --batch $((sequences / 2)) --sequence "$tokens" \
        --threads 1 --steps "$STEPS" --warmup $WARMUP "$@" 2> "$work/torch.log" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["seconds"])' \
            2> /dev/null || true
}

for shape in "$@"; do
    sequences=${shape%%x*} tokens=${shape#*x}
    make_job "$shape"
    for axis in $AXES; do
        : > "$work/ratios"
        for ((i = 1; i <= PAIRS; i++)); do
            set_to=(--set mesh.$axis=2 --set batch.micro=1)
            run_dsflow "$work/job.toml" --set machine.workers=2 "${set_to[@]}"
            one=$(step_seconds)
            in_two "${set_to[@]}"
            ratio "$one" "$seconds" >> "$work/ratios"
            echo "$shape, $axis = 2: one process $one s, two $seconds s," \
                "ratio $(ratio "$one" "$seconds")"
        done
        echo "$shape, $axis = 2: median $(median < "$work/ratios") of $PAIRS"
    done
    "$PYTHON" -c 'import torch' 2> /dev/null || continue
    for type in $TYPES; do
        best='' least=''
        for variant in $([[ $type = fp32 ]] && echo fp32 || echo autocast bf16); do
            for compile in '' --compile; do
                s=$(torch_seconds --type "$variant" --adam fused $compile)
                [[ -n $s ]] || continue
                if [[ -z $least || $(ratio "$s" "$least") < 1 ]]; then
                    least=$s best="--type $variant --adam fused $compile"
                fi
            done
        done
        : > "$work/ratios"
        for ((i = 1; i <= PAIRS; i++)); do
            in_two --set mesh.data=2 --set batch.micro=$((sequences / 2)) \
                --set precision.compute="$type"
            # shellcheck disable=SC2086
            s=$(torch_seconds $best)
            ratio "$s" "$seconds" >> "$work/ratios"
            echo "$shape $type: gloo $s s, dsflow $seconds s, ratio $(ratio "$s" "$seconds")"
        done
        echo "$shape $type: median $(median < "$work/ratios") of $PAIRS, against $best"
    done
done
