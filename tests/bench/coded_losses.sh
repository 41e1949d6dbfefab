#!/bin/bash
# coded_losses.sh DSFLOW [SEED...] - what coding costs: the loss of a GPT-2 of 0.44
# million parameters on TEXT (the fortunes of Debian) after STEPS (500), with each
# mode of [compress] and with 1-bit Adam, how far that is from the dense one with
# the same seed (1 2 3), and the largest norm of a gradient behind step 20. KEYS
# are those of all runs: KEYS="optimizer.clip=0 optimizer.lr=2e-3". Times say
# nothing: it can run beside other work. See common.sh for the rest.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
STEPS=${STEPS:-500}
. "$here/common.sh"
WARMUP=0
find_dsflow "${1:-}"
shift
(($# > 0)) || set -- 1 2 3
read -ra keys <<< "${KEYS:-}"

cat > "$work/job.toml" <<JOB
[job]
name = "coded"
steps = $STEPS
output = "$work/run"
[model]
layers = 2
heads = 4
width = 128
context = 64
[data]
train = "${TEXT:-/usr/share/games/fortunes/*}"
tokenizer = "bytes"
[batch]
sequences = 4
micro = 1
sequence = 64
groups = 4
[optimizer]
lr = 1e-3
betas = [0.9, 0.99]
bias_correction = false
clip = 1.0
[schedule]
kind = "warmup_cosine"
warmup = 100
min_ratio = 0.1
[validation]
every = $STEPS
sequences = 100
JOB

levels="compress.gradients=int4 compress.node=2 compress.params=int8"
declare -A modes=(
    [dense]=""
    [int8]="compress.gradients=int8"
    [int4]="compress.gradients=int4"
    ["int4, error"]="compress.gradients=int4 compress.error=fp32"
    ["two levels"]="$levels"
    ["two levels, error"]="$levels compress.error=fp32"
    ["1-bit Adam"]="optimizer.kind=onebit_adam onebit_adam.freeze_step=$((STEPS * 15 / 100))"
)

# of MODE SEED: the loss of the validation text, and the largest norm.
of()
{
    local sets=() key
    for key in "${keys[@]}" ${modes[$1]} job.seed="$2"; do
        sets+=(--set "$key")
    done
    run_dsflow "$work/job.toml" "${sets[@]}"
    python3 -c '
import json, sys
loss, most = None, 0
for line in open(sys.argv[1]):
    step = json.loads(line)
    loss = step.get("validation_loss", loss)
    if step.get("step", 0) > 20:
        most = max(most, step.get("grad_norm", 0))
print(loss, most)' "$run/metrics.jsonl"
    rm -r "$run"
}

printf '%-5s %-18s %8s %9s %8s\n' seed mode loss from norm
for seed; do
    dense=
    for mode in dense int8 int4 "int4, error" "two levels" "two levels, error" \
        "1-bit Adam"; do
        read -r loss norm <<< "$(of "$mode" "$seed")"
        dense=${dense:-$loss}
        awk -v seed="$seed" -v mode="$mode" -v loss="$loss" -v dense="$dense" \
            -v norm="$norm" 'BEGIN { printf "%-5s %-18s %8.4f %+7.2f %% %8.1f\n",
                seed, mode, loss, 100 * (loss / dense - 1), norm }'
    done
done
