# from_run.sh - a model starts from the weights of a run.
. "${srcdir:-.}/tests/cli/lib.sh"
run base
sed '/^layers/d; /^heads/d; /^width/d; /^context/d; s/\[model\]/[model]\ninit = "base"/' job.toml > next.toml

# Its weights, bit for bit, in a new run that begins at step 0.
"$dsflow" plan next.toml > log 2>&1 && grep -q "2 layers, width 32" log || fault "plan: $(cat log)"
"$dsflow" generate base --temperature 0 --tokens 20 > a 2> /dev/null
"$dsflow" generate next.toml --temperature 0 --tokens 20 --set job.output=next > b 2> err
cmp a b || fault "another model: $(cat err)"
grep -q "next has no checkpoint: the weights of model.init, base" err || fault "generate: $(cat err)"
for from in base base/checkpoints/step-10 ./base/; do
    rm -rf next
    "$dsflow" run next.toml --set job.output=next --set model.init=$from --set optimizer.lr=0 \
        --set optimizer.weight_decay=0 --set job.steps=1 --set schedule.warmup=0 > log 2>&1 ||
        fault "$from: $(cat log)"
    cmp base/checkpoints/step-10/params.safetensors next/checkpoints/step-1/params.safetensors ||
        fault "$from: other weights"
done
"$dsflow" eval next > log 2>&1 || fault "eval: $(cat log)"
"$dsflow" run next.toml --set job.output=next --set job.steps=3 --resume \
    --set optimizer.lr=1e-3 > log 2>&1 || fault "--resume: $(cat log)"

# refused TEXT ARGS...: with status 2 and this in one line.
refused() {
    text=$1
    shift
    "$dsflow" run next.toml --set job.output=new "$@" > log 2>&1
    [ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q "^dsflow: $text" log ||
        fault "$*: $(cat log)"
}
refused "--set: model: width: 64: base says 32" --set model.width=64
refused "--set: model: family: \"llama\": base says gpt2" --set model.family=llama
refused "--set: model: init: gpt2: no such folder; a name on the Hugging Face hub: download it first" --set model.init=gpt2
refused "--set: model: init: meta-llama/Llama-3-8B: no such folder; a name on the Hugging Face hub" --set model.init=meta-llama/Llama-3-8B
refused "--set: model: init: ./none/at/all: no such folder: expected" --set model.init=./none/at/all
refused "--set: model: init: text.txt: not a folder" --set model.init=text.txt
mkdir empty
refused "--set: model: init: empty: has no config.json" --set model.init=empty
mkdir begun && cp base/job.toml begun && : > begun/metrics.jsonl
refused "--set: model: init: begun: a run that has no checkpoint yet" --set model.init=begun
refused "next.toml:.*: model: init: base: is the output folder of this job" --set job.output=base --overwrite
[ -e base/checkpoints/step-10 ] || fault "the weights are lost"
finish
