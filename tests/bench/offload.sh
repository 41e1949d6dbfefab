#!/bin/bash
# offload.sh DSFLOW [JOB...] - the step of a job that keeps data on NVMe, beside
# the longer of its arithmetic alone (the same job with everything in memory)
# and of its traffic alone (the same bytes by fio, read and written at once):
#
#     offloaded / max(compute, traffic)
#
# JOB is a job.toml whose [memory.nvme] path is a folder on the disk; default:
# examples/offload-350m.toml. MEMORY=no leaves out the runs in memory, where a
# job does not fit: compute is then what the workers were busy for. Needs fio.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

find_dsflow "${1:-}"
shift
(($# > 0)) || set -- "$here/../../examples/offload-350m.toml"
command -v fio > /dev/null || die "fio is needed"
STEPS=${STEPS:-4}

# of FIELD: the median of a field of the steps of $run that count.
of()
{
    python3 -c '
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
steps = [s for s in steps if "seconds" in s][int(sys.argv[2]):]
def field(s):
    for key in sys.argv[3].split("."):
        s = s[key]
    return s
print(statistics.median(field(s) for s in steps))' \
        "$run/metrics.jsonl" $WARMUP "$1"
}

# fio_seconds FOLDER READ WRITE: both at once, so many bytes of each.
fio_seconds()
{
    local common="--directory=$1 --ioengine=libaio --direct=1 --bs=1M --iodepth=4
        --size=2G --thread --group_reporting --output-format=json"
    local mib_read=$(($2 >> 20)) mib_write=$(($3 >> 20)) start

    rm -f "$1"/dsflow-fio.{read,write}
    # Written once, so that neither reads holes nor allocates.
    for f in read write; do
        fio $common --name=$f --filename=dsflow-fio.$f --rw=write > /dev/null
    done
    start=$(date +%s.%N)
    ((mib_read == 0)) || fio $common --name=read --filename=dsflow-fio.read \
        --rw=read --io_size=${mib_read}M > /dev/null &
    ((mib_write == 0)) || fio $common --name=write \
        --filename=dsflow-fio.write --rw=write --overwrite=1 \
        --io_size=${mib_write}M > /dev/null &
    wait
    awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { print b - a }'
    rm -f "$1"/dsflow-fio.{read,write}
}

in_memory=(--set offload.optimizer=none --set offload.params=none
    --set offload.gradients=none --set offload.activations=none
    --set memory.device=auto --set memory.host=auto)

for job in "$@"; do
    name=$(basename "$job" .toml)
    folder=$(sed -n '/^\[memory.nvme\]/,/^\[/s/^path *= *"\([^"]*\)".*/\1/p' \
        "$job")
    [[ -d $folder ]] || die "$job: no [memory.nvme] path"
    : > "$work/ratios"
    for ((i = 1; i <= PAIRS; i++)); do
        compute=
        if [[ ${MEMORY:-yes} != no ]]; then
            run_dsflow "$job" --set schedule.warmup=0 --set data.validation=0.0 "${in_memory[@]}"
            compute=$(step_seconds)
        fi
        run_dsflow "$job" --set schedule.warmup=0 --set data.validation=0.0
        step=$(step_seconds)
        # The workers compute for all of a step but what they are idle.
        [[ -n $compute ]] ||
            compute=$(awk -v s="$step" -v i="$(of share.idle)" \
                'BEGIN { print s * (1 - i) }')
        read=$(of bytes.swap_in) written=$(of bytes.swap_out)
        traffic=$(fio_seconds "$folder" "${read%.*}" "${written%.*}")
        awk -v s="$step" -v c="$compute" -v t="$traffic" \
            'BEGIN { printf "%.3f\n", s / (c > t ? c : t) }' \
            | tee -a "$work/ratios" > "$work/ratio"
        echo "$name: step $step s, compute $compute s, traffic $traffic s" \
            "(read $((${read%.*} >> 20)) MiB, written $((${written%.*} >> 20))" \
            "MiB), hidden $(of io_hidden): $(cat "$work/ratio") of the longer"
    done
    echo "$name: median $(median < "$work/ratios") of $PAIRS"
done
