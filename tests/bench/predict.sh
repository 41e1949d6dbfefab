#!/bin/bash
# predict.sh DSFLOW [NUMBER...] - how far the predicted time of a step is from
# the measured one, for jobs that are no part of the calibration (or those of them
# that are named). Prints a line for each, and the worst. PRECISION=bf16 (or fp16)
# has them computed in this type.
#
# The machine file is made anew unless MACHINE=keep. A run that other processes
# disturb says little: it waits for a quiet moment, and what others took of the
# cores is printed beside. Where it was more than QUIET per cent (5) the run is
# made again, up to TRIES times (3), and the least disturbed counts. See
# common.sh.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
. "$here/common.sh"

QUIET=${QUIET:-5}
TRIES=${TRIES:-3}
PRECISION=${PRECISION:-fp32}
find_dsflow "${1:-}"
shift

# family layers heads width context vocab | sequences micro sequence | more
jobs=(
    "gpt2  4  4  192  256   256  8 4 128"
    "gpt2  6  6  384  256   256  8 4 256"
    "gpt2  3 12  768 1024 50257  4 4  64"
    "gpt2 12 12  768 1024 50257  4 2 256"
    "llama 4  8  256  512  1000  4 1 512 --set model.kv_heads=2"
    "gpt2  3  8  128 1024   256  2 1 1024"
    "gpt2  4  3   96   64   256 16 4  64"
    "gpt2  4  8  512  512 32000  4 2 128 --set model.ffn_width=1024"
    "llama 2 16 1024  512  4096  2 1 512 --set optimizer.kind=lion"
    "gpt2  5  5  320  200   700  6 3 200 --set batch.groups=2"
    "gpt2  4  6  384  256   256  8 2 128 --set mesh.pipeline=2"
    "gpt2  4  6  384  256   256  8 2 128 --set mesh.data=2 --set zero.stage=3"
    "gpt2  4  6  384  256   256  8 2 128 --set mesh.tensor=2"
)
(($# > 0)) || set -- $(seq 1 ${#jobs[@]})

make_text()
{
    awk 'BEGIN { srand(1)
                 for (i = 0; i < 500000; i++)
                     printf "%c", i % 64 ? 97 + int(26 * rand()) : 10 }' \
        > "$work/text"
}

# make_numbered_job "FAMILY LAYERS ...": $work/job.toml, and $more.
make_numbered_job()
{
    local f
    read -ra f <<< "$1"
    more=("${f[@]:9}" --set "precision.compute=$PRECISION")
    cat > "$work/job.toml" <<JOB
[job]
name = "predict"
steps = $((STEPS + WARMUP))
output = "$work/run"
[model]
family = "${f[0]}"
layers = ${f[1]}
heads = ${f[2]}
width = ${f[3]}
context = ${f[4]}
vocab = ${f[5]}
[data]
train = ["$work/text"]
tokenizer = "bytes"
validation = 0.0
[batch]
sequences = ${f[6]}
micro = ${f[7]}
sequence = ${f[8]}
[optimizer]
lr = 1e-4
[checkpoint]
at_end = false
JOB
}

# Hundredths of a second that all cores worked, since the machine started.
busy()
{
    awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9 }' /proc/stat
}

# The same of the children of this shell.
own()
{
    python3 -c '
fields = open("/proc/" + __import__("sys").argv[1] + "/stat").read()
fields = fields.rpartition(")")[2].split()
print(int(fields[13]) + int(fields[14]))' $$
}

# Wait, a minute at most, until others leave the cores alone.
wait_quiet()
{
    local b i
    for ((i = 0; i < 60; i++)); do
        b=$(busy)
        sleep 1
        (($(busy) - b > 100 * $(nproc) * QUIET / 100)) || return 0
    done
}

# One run: $seconds, and $others, the share of the cores that others took.
measure()
{
    local b o t
    wait_quiet
    b=$(busy) o=$(own) t=$(date +%s%N)
    run_dsflow "$work/job.toml" --set machine.workers="$WORKERS" "${more[@]}"
    others=$(awk -v b="$(($(busy) - b))" -v o="$(($(own) - o))" \
        -v t="$(($(date +%s%N) - t))" -v n="$(nproc)" \
        'BEGIN { x = (b - o) / (t / 1e7 * n) * 100
                 printf "%.0f\n", (x > 0 ? x : 0) }')
    seconds=$(step_seconds)
}

make_text
if [[ ${MACHINE:-} != keep ]]; then
    # bench measures the types that jobs have asked for.
    make_numbered_job "${jobs[0]}"
    "$dsflow" plan "$work/job.toml" "${more[@]}" > /dev/null
    "$dsflow" bench tasks memory > /dev/null
fi
for i in "$@"; do
    make_numbered_job "${jobs[i - 1]}"
    predicted=$("$dsflow" plan "$work/job.toml" --json \
        --set machine.workers="$WORKERS" "${more[@]}" |
        python3 -c 'import json, sys
print(json.load(sys.stdin)["predicted"]["step_seconds"])')
    best=
    for ((try = 1; try <= TRIES; try++)); do
        measure
        if [[ -z $best ]] || ((others < best_others)); then
            best=$seconds best_others=$others
        fi
        ((best_others > QUIET)) || break
    done
    r=$(ratio "$predicted" "$best")
    echo "$r" >> "$work/ratios"
    printf 'job %2d: predicted %.4f s, measured %.4f s, ratio %s (others took %s %%)\n' \
        "$i" "$predicted" "$best" "$r" "$best_others"
done
awk '{ d = $1 > 1 ? $1 - 1 : 1 - $1; if (d > w) w = d }
     END { printf "worst of %d jobs: %.1f %% off\n", NR, 100 * w }' "$work/ratios"
