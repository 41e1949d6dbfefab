#!/bin/bash
# scaling.sh DSFLOW [SHAPE|JOB...] - how much faster all workers are than one,
# in turn. Prints the ratio of each pair and their median.
#
# SHAPE is SEQUENCESxTOKENS[/MICRO] of GPT-2 124M; JOB is a job.toml. Default:
# 4x64/2 (two micro-batches) and 1x1024 (one sequence alone). See common.sh.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
((WORKERS > 1)) || die "one core: nothing to compare"
(($# > 0)) || set -- 4x64/2 1x1024

for what in "$@"; do
    job=$what
    if [[ ! -f $what ]]; then
        make_job "$what"
        job=$work/job.toml
    fi
    : > "$work/ratios"
    for ((i = 1; i <= PAIRS; i++)); do
        run_dsflow "$job" --set machine.workers=1
        one=$(step_seconds)
        run_dsflow "$job" --set machine.workers="$WORKERS"
        all=$(step_seconds)
        r=$(ratio "$one" "$all")
        echo "$r" >> "$work/ratios"
        echo "$what: 1 worker $one s, $WORKERS workers $all s, ratio $r"
    done
    echo "$what: median ratio $(median < "$work/ratios") of $PAIRS pairs"
done
