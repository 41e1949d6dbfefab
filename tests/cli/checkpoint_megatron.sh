# checkpoint_megatron.sh - a run of Megatron-LM goes on here.
reference=$(cd "${srcdir:-.}" && pwd)/tests/reference
. "${srcdir:-.}/tests/cli/lib.sh"
mkdir ds mega && tar xJf "$reference/deepspeed/known.tar.xz" -C ds && tar xJf "$reference/megatron/known.tar.xz" -C mega ||
    fault "no known.tar.xz"
cat > short.toml <<'EOF2'
[job]
steps = 5
[data]
train = "text.txt"
validation = 0
[batch]
sequences = 12
[optimizer]
lr = 0.001
EOF2

# The args in the files say what the model is. Weights, moments and step are taken
# along, and the run goes on.
for from in version3 core; do
    "$dsflow" checkpoint import mega/$from short.toml --set job.output=$from > log 2> err || fault "$from: $(cat err)"
    [ -s err ] && fault "$from: says $(cat err)"
    grep -q "^$from/checkpoints/step-3: step 3 of mega/$from (Megatron-LM, version 3, .*): dsflow run $from --resume goes on$" log ||
        fault "$from: says: $(cat log)"
    "$dsflow" checkpoint verify $from > log 2>&1 || fault "$from: verify: $(cat log)"
    grep -q '"cursor.first": "0"' $from/checkpoints/step-3/manifest.json || fault "$from: another place in the text"
    "$dsflow" run $from --resume > log 2>&1 || fault "$from: --resume: $(cat log)"
    grep warning log | grep -qv "was disturbed while it was measured" && fault "$from: --resume warns: $(cat log)"
    [ "$(grep -c '"loss"' $from/metrics.jsonl)" -eq 2 ] || fault "$from: not 2 steps: $(cat $from/metrics.jsonl)"
    "$dsflow" generate $from --prompt Line --tokens 4 > log 2>&1 || fault "$from: generate: $(cat log)"
done
grep -q "^family = \"llama\"" core/job.toml && grep -q "^kv_heads = 1" core/job.toml && grep -q "^vocab = 264" core/job.toml ||
    fault "another model: $(cat core/job.toml)"

# same FROM OTHER MODEL FILES ARGS...: the checkpoint is that of DeepSpeed's folder OTHER, whose numbers are these.
same() {
    from=$1 other=$2 files=$3
    shift 3
    "$dsflow" -q checkpoint import "mega/$from" short.toml --set job.output="m.$from" --set model.init="ds/$other" "$@" > log 2>&1 ||
        fault "$from: $(cat log)"
    "$dsflow" -q checkpoint import "ds/$other" short.toml --set job.output="d.$from" "$@" > log 2>&1 || fault "$other: $(cat log)"
    for file in $files; do
        cmp m."$from"/checkpoints/step-*/"$file".safetensors d."$from"/checkpoints/step-*/"$file".safetensors || fault "$from: other $file"
    done
}
same version3 gpt2_zero2 "params states"
same core llama_zero3 params --weights-only
same version0 gpt2_zero2 params --weights-only
same version1 gpt2_zero2 params --weights-only

# refused LINES TEXT ARGS...: with status 2, so many lines and this in them; nothing is written.
refused() {
    lines=$1 text=$2
    shift 2
    "$dsflow" checkpoint import "$@" --set job.output=none > out 2> log
    [ $? -eq 2 ] && [ "$(wc -l < log)" -eq "$lines" ] && grep -q "^dsflow: $text" log || fault "$*: $(cat log)"
    [ -s out ] && fault "$*: prints $(cat out)"
    [ -e none ] && fault "$*: writes"
}
# Without moments there is nothing that the run could go on with.
refused 1 "mega/version0/iter_0000003/mp_rank_00/model_optim_rng.pt: has no state of the optimizer: --weights-only" mega/version0 short.toml --set model.init=ds/gpt2_zero2
touch mega/version0/iter_0000003/mp_rank_00/distrib_optim.pt
refused 1 "mega/version0/.*: has no state of the optimizer that is read: distrib_optim.pt beside it (--use-distributed-optimizer)" \
    mega/version0 short.toml --set model.init=ds/gpt2_zero2
refused 1 "mega/version3/iter_0000004: there is no such folder" mega/version3 short.toml --tag iter_0000004
refused 3 "mega/version3.*args.num_attention_heads: 2: the job has model.heads = 4" mega/version3 short.toml \
    --set model.layers=2 --set model.width=8 --set model.heads=4 --set model.context=16 --set model.vocab=259
mkdir -p dist/iter_0000003 && touch dist/iter_0000003/__0_0.distcp && echo 3 > dist/latest_checkpointed_iteration.txt
refused 1 "dist/iter_0000003: is a torch_dist checkpoint (.distcp), which is not read: have Megatron-LM write it as torch" \
    dist short.toml
# The first file that is not there is named.
rm -r mega/version3/iter_0000003/mp_rank_01_001 mega/core/iter_0000003/mp_rank_00_001
refused 1 "mega/version3/iter_0000003/mp_rank_01_001/model_optim_rng.pt: is not there" mega/version3 short.toml
rm -r mega/version3/iter_0000003/mp_rank_01_000
refused 1 "mega/version3/iter_0000003/mp_rank_01_000/model_optim_rng.pt: is not there: expected a file of each of 2 tensor ranks" \
    mega/version3 short.toml
refused 1 "mega/core/iter_0000003/mp_rank_00_001/model_optim_rng.pt: is not there: expected a file of each of 1 tensor ranks and 2 stages" \
    mega/core short.toml
mkdir mega/core/iter_0000003/mp_rank_00_001
rm mega/core/iter_0000003/mp_rank_00_000/model_optim_rng.pt
refused 1 "mega/core/iter_0000003/mp_rank_00_000/model_optim_rng.pt: is not there" mega/core short.toml --set model.layers=2
finish
