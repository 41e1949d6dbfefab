#!/bin/bash
# trace.sh DSFLOW [SHAPE|JOB...] - what tracing costs: the time of a step with
# --trace=all next to one without, in pairs of runs. Prints each ratio and the
# median; above 1, tracing is slower.
#
# OTHER, if set, is another dsflow, which is run without --trace instead of
# DSFLOW: one from before there were traces, say.
#
# SHAPE is SEQUENCESxTOKENS[/MICRO] of GPT-2 124M; JOB is a job.toml. Default:
# 4x64/2 and examples/quickstart.toml, whose tasks are short. See common.sh.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${OTHER:-${1:-}}"
other=$dsflow
find_dsflow "${1:-}"
traced=$dsflow
shift
(($# > 0)) || set -- 4x64/2 "$here/../../examples/quickstart.toml"

for what in "$@"; do
    job=$what
    if [[ ! -f $what ]]; then
        make_job "$what"
        job=$work/job.toml
    fi
    : > "$work/ratios"
    for ((i = 1; i <= PAIRS; i++)); do
        dsflow=$other
        run_dsflow "$job" --set machine.workers="$WORKERS"
        plain=$(step_seconds)
        dsflow=$traced
        run_dsflow "$job" --set machine.workers="$WORKERS" --trace=all
        ratio "$(step_seconds)" "$plain" | tee -a "$work/ratios"
    done
    echo "$what: traced / not traced, median $(median < "$work/ratios") of" \
        "$PAIRS pairs"
done
