# shellcheck shell=bash
# Sourced by the scripts beside it: jobs made on the spot, runs, medians.
#
# Figures are ratios of runs made in turn (A B A B), never times alone: what
# else the machine does then touches both sides. Settings, by environment:
#   PAIRS    turns of each comparison (3)
#   STEPS    steps that are timed in a run (6), after 2 that are not
#   WORKERS  CPU workers, and threads of PyTorch (one per core)

PAIRS=${PAIRS:-3}
STEPS=${STEPS:-6}
WORKERS=${WORKERS:-$(nproc)}
WARMUP=2

work=$(mktemp -d "${TMPDIR:-/tmp}/dsflow-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
nruns=0

die()
{
    echo "${0##*/}: $*" >&2
    exit 1
}

# The program that is measured, as a path that works from anywhere.
find_dsflow()
{
    dsflow=$(command -v -- "${1:-}") || die "${1:-no program}: not a program"
    dsflow=$(realpath -- "$dsflow")
}

# make_job SHAPE: write $work/job.toml, GPT-2 124M with random weights on
# random letters. SHAPE is SEQUENCESxTOKENS, or SEQUENCESxTOKENS/MICRO where a
# micro-batch has fewer sequences than the step.
make_job()
{
    local sequences tokens micro

    [[ $1 =~ ^([0-9]+)x([0-9]+)(/([0-9]+))?$ ]] ||
        die "$1: expected SEQUENCESxTOKENS or SEQUENCESxTOKENS/MICRO"
    sequences=${BASH_REMATCH[1]} tokens=${BASH_REMATCH[2]}
    micro=${BASH_REMATCH[4]:-$sequences}
    awk 'BEGIN { srand(1)
                 for (i = 0; i < 500000; i++)
                     printf "%c", i % 64 ? 97 + int(26 * rand()) : 10 }' \
        > "$work/text"
    cat > "$work/job.toml" <<JOB
[job]
name = "bench"
steps = $((STEPS + WARMUP))
output = "$work/run"
[model]
family = "gpt2"
layers = 12
heads = 12
width = 768
context = 1024
vocab = 50257
[data]
train = ["$work/text"]
tokenizer = "bytes"
validation = 0.0
[batch]
sequences = $sequences
micro = $micro
sequence = $tokens
[optimizer]
kind = "adamw"
lr = 3e-4
betas = [0.9, 0.95]
weight_decay = 0.1
clip = 1.0
[checkpoint]
at_end = false
JOB
}

# run_dsflow JOB [ARGUMENT...]: one run in a folder of its own, left in $run;
# its lines are in $work/log.
run_dsflow()
{
    nruns=$((nruns + 1))
    run=$work/run$nruns
    "$dsflow" run "$1" --set job.output="$run" --set checkpoint.at_end=false \
        --set job.steps=$((STEPS + WARMUP)) "${@:2}" > /dev/null 2> "$work/log" ||
        { cat "$work/log" >&2; die "dsflow run $*: exit status $?"; }
}

# The median of "seconds" of the steps of $run that count.
step_seconds()
{
    python3 -c '
import json, statistics, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
steps = [s["seconds"] for s in steps if "seconds" in s][int(sys.argv[2]):]
print(statistics.median(steps))' "$run/metrics.jsonl" $WARMUP
}

# Numbers, one a line, to their median.
median()
{
    sort -g | awk '{ v[NR] = $1 }
        END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# ratio A B: A / B with three decimals.
ratio()
{
    awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f\n", a / b }'
}
