#!/bin/bash
# losses.sh DSFLOW [MODEL...] - losses in bf16 and in fp16 beside those in fp32:
# a small GPT-2 and a LLaMA with grouped queries (models: gpt2 llama) learn the
# documentation of dsflow, from the same weights and with the same batches. Prints
# the loss at every EVERY-th step (50) of STEPS (300), and how far the others are
# from it; ends with 1 where one is farther than 1 %. Times say nothing: it can
# run beside other work. See common.sh for the rest.
set -euo pipefail
here=$(dirname -- "$(realpath -- "$0")")
STEPS=${STEPS:-300}
. "$here/common.sh"
WARMUP=0

EVERY=${EVERY:-50}
find_dsflow "${1:-}"
shift
(($# > 0)) || set -- gpt2 llama
source=$(dirname -- "$(dirname -- "$here")")

# losses TYPE: of the steps that count, one a line.
losses()
{
    run_dsflow "$work/job.toml" --set model.family="$model" "${more[@]}" \
        --set precision.compute="$1"
    python3 -c '
import json, sys
for line in open(sys.argv[1]):
    step = json.loads(line)
    if "loss_scale" in step and step["step"] % int(sys.argv[2]) == 0:
        print(step["loss"])' "$run/metrics.jsonl" "$EVERY"
}

cat "$source"/*.md "$source"/docs/*.md "$source"/docs/design/*.md \
    "$source"/docs/*.[15] > "$work/text"
cat > "$work/job.toml" <<JOB
[job]
name = "losses"
steps = $STEPS
output = "$work/run"
[model]
layers = 3
heads = 8
width = 128
context = 64
vocab = 256
[data]
train = ["$work/text"]
tokenizer = "bytes"
validation = 0.0
[batch]
sequences = 8
micro = 4
sequence = 64
[optimizer]
lr = 1e-3
[schedule]
kind = "warmup_cosine"
warmup = 20
JOB
bad=0
for model in "$@"; do
    more=()
    [[ $model != llama ]] || more=(--set model.kv_heads=2)
    for type in fp32 bf16 fp16; do
        losses $type > "$work/$type"
    done
    paste "$work/fp32" "$work/bf16" "$work/fp16" | awk -v model="$model" \
        -v every="$EVERY" '
        function off(x) { return 100 * (x / $1 - 1) }
        function farther(x) { if (x < 0) x = -x; if (x > most) most = x }
        NR == 1 { printf "%-6s %5s %8s %17s %17s\n", model, "step", "fp32",
                         "bf16", "fp16" }
        { printf "%-6s %5d %8.4f %8.4f %+6.2f %% %8.4f %+6.2f %%\n", "",
                 NR * every, $1, $2, off($2), $3, off($3)
          farther(off($2)); farther(off($3)) }
        END { printf "%s: at most %.2f %% from fp32\n", model, most
              exit !(NR > 0 && most <= 1) }' || bad=1
done
exit $bad
