#!/bin/bash
# overhead.sh DSFLOW [SHAPE|JOB...] - the share of the workers' time that is
# not spent in kernels: (wall x workers - kernels) / (wall x workers), as the
# run itself counts it. Prints each run's and the median.
#
# SHAPE is SEQUENCESxTOKENS[/MICRO] of GPT-2 124M; JOB is a job.toml. Default:
# 4x64 4x64/2 1x1024. See common.sh.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 4x64 4x64/2 1x1024

# In the closing line: "... kernels 97.1 % of 2 workers x 61.2 s".
kernel_share()
{
    sed -n 's/.*kernels \([0-9.]*\) % of .*/\1/p' "$work/log" | tail -n 1
}

for what in "$@"; do
    job=$what
    if [[ ! -f $what ]]; then
        make_job "$what"
        job=$work/job.toml
    fi
    : > "$work/shares"
    for ((i = 1; i <= PAIRS; i++)); do
        run_dsflow "$job" --set machine.workers="$WORKERS"
        share=$(kernel_share)
        [[ -n $share ]] || die "no share of kernels in the closing line"
        awk -v s="$share" 'BEGIN { printf "%.1f\n", 100 - s }' |
            tee -a "$work/shares" | sed "s|^|$what: overhead |; s|\$| %|"
    done
    echo "$what: median overhead $(median < "$work/shares") % of $PAIRS runs"
done
