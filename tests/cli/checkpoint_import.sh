# checkpoint_import.sh - a run of DeepSpeed goes on here.
data=$(cd "${srcdir:-.}" && pwd)/tests/reference/deepspeed
. "${srcdir:-.}/tests/cli/lib.sh"
mkdir ds && tar xJf "$data/known.tar.xz" -C ds || fault "no known.tar.xz"
cat > short.toml <<'EOF2'
[job]
steps = 5
[data]
train = "text.txt"
validation = 0
[batch]
sequences = 12
EOF2

# A folder with config.json says what the model is. Weights, moments and step are
# taken along, and the run goes on.
"$dsflow" checkpoint import ds/gpt2_zero2 short.toml --set job.output=a > log 2> err || fault "import: $(cat err)"
grep -q "^a/checkpoints/step-3: step 3 of ds/gpt2_zero2/global_step3 (DeepSpeed, ZeRO 2, 3 ranks): dsflow run a --resume goes on$" log ||
    fault "says: $(cat log)"
# What the moments are of is said, where the job has it otherwise.
grep -q "^dsflow: warning: optimizer.lr: 0.0003 in the job, and 0.001 in ds/gpt2_zero2/global_step3$" err &&
    [ "$(grep -c warning err)" -eq 1 ] || fault "warns: $(cat err)"
"$dsflow" checkpoint verify a > log 2>&1 || fault "verify: $(cat log)"
grep -q '"control.step": "3"' a/checkpoints/step-3/manifest.json &&
    grep -q '"cursor.first": "0"' a/checkpoints/step-3/manifest.json || fault "manifest: $(cat a/checkpoints/step-3/manifest.json)"
"$dsflow" run a --resume > log 2>&1 || fault "--resume: $(cat log)"
grep warning log | grep -qv "was disturbed while it was measured" && fault "--resume warns: $(cat log)"
[ "$(grep -c '"loss"' a/metrics.jsonl)" -eq 2 ] || fault "not 2 steps: $(cat a/metrics.jsonl)"
# So it does where the job names the folder.
"$dsflow" checkpoint import ds/gpt2_zero2 short.toml --set job.output=b --set model.init=ds/gpt2_zero2 > log 2>&1 ||
    fault "import: $(cat log)"
grep -q "dsflow run short.toml --resume goes on" log || fault "says: $(cat log)"
"$dsflow" run short.toml --set job.output=b --set model.init=ds/gpt2_zero2 --resume > log 2>&1 || fault "--resume: $(cat log)"
cmp a/checkpoints/step-5/states.safetensors b/checkpoints/step-5/states.safetensors || fault "another run"

# A run that began so has its tokenizer, and may be moved, at once.
run bytes
"$dsflow" checkpoint export bytes bytes-hf > log 2>&1 || fault "export: $(cat log)"
mv bytes-hf/tokenizer.json tok.json
"$dsflow" checkpoint import ds/gpt2_zero2 short.toml --set job.output=begun --set data.tokenizer=tok.json > log 2>&1 &&
    "$dsflow" generate begun --tokens 20 > before 2> log || fault "with a tokenizer: $(cat log)"
mv tok.json away.json
"$dsflow" generate begun --tokens 20 > after 2> log && cmp before after || fault "without its tokenizer: $(cat log)"
mv away.json tok.json

# The folder of a run that goes on is left alone.
"$dsflow" run job.toml --set job.output=busy --steps 100000 > busy.log 2>&1 &
pid=$!
until_line '"loss"' busy/metrics.jsonl
cp busy/job.toml before.toml
"$dsflow" checkpoint import ds/gpt2_zero2 short.toml --set job.output=busy > log 2>&1
[ $? -eq 2 ] && grep -q "^dsflow: busy/metrics.jsonl: another run is writing it$" log || fault "into a run: $(cat log)"
cmp before.toml busy/job.toml && [ ! -d busy/checkpoints ] || fault "into a run: something was written"
kill -KILL $pid
wait $pid 2> /dev/null

# Other ranks and stages of the same numbers are the same checkpoint.
for from in gpt2_plain gpt2_zero1_bf16 gpt2_bf16_optimizer; do
    "$dsflow" -q checkpoint import ds/$from short.toml --set job.output=$from > log 2>&1 || fault "$from: $(cat log)"
    for file in params states; do
        cmp a/checkpoints/step-3/$file.safetensors $from/checkpoints/step-3/$file.safetensors || fault "$from: other $file"
    done
done

# Of one group, norms and biases decayed, too.
"$dsflow" checkpoint import ds/gpt2_plain short.toml --set job.output=p > log 2> err || fault "gpt2_plain: $(cat err)"
grep -q "^dsflow: warning: ds/gpt2_plain/global_step3: all groups of parameters have a weight decay: the job's" err ||
    fault "gpt2_plain: $(cat err)"

# What tensor ranks share is joined.
"$dsflow" -q checkpoint import ds/llama_zero3 short.toml --set job.output=l > log 2>&1 || fault "llama_zero3: $(cat log)"
for from in llama_tensor2_zero1 llama_tensor2_zero3; do
    "$dsflow" checkpoint import ds/$from short.toml --set job.output=$from > log 2>&1 || fault "$from: $(cat log)"
    grep -q ", 2 tensor ranks)" log || fault "$from: $(cat log)"
    cmp llama_tensor2_zero1/checkpoints/step-3/states.safetensors $from/checkpoints/step-3/states.safetensors || fault "$from"
done
"$dsflow" run llama_tensor2_zero3 --resume > log 2>&1 || fault "tensor ranks: $(cat log)"

# Muon's momentum, and AdamW's moments of the rest, go to a job with muon, and to no other.
for from in llama_muon_plain llama_muon_zero2 llama_muon_zero3; do
    "$dsflow" checkpoint import ds/$from short.toml --set job.output=$from --set optimizer.kind=muon --set muon.momentum=0.9 > log 2> err ||
        fault "$from: $(cat err)"
    grep -q "^dsflow: warning: muon.momentum: 0.9 in the job, and 0.95 in ds/$from/global_step3$" err || fault "$from: $(cat err)"
    clips=$(grep -c "^dsflow: warning: ds/$from/global_step3: with ZeRO, DeepSpeed clips what Muon has made" err)
    [ "$clips" -eq "$([ $from = llama_muon_plain ]; echo $?)" ] || fault "$from: $(cat err)"
    for file in params states; do
        cmp llama_muon_plain/checkpoints/step-3/$file.safetensors $from/checkpoints/step-3/$file.safetensors || fault "$from: $file"
    done
done
"$dsflow" run llama_muon_zero2 --resume > log 2>&1 || fault "muon: $(cat log)"

# Hugging Face's Trainer, and Accelerate, without DeepSpeed.
mkdir hf && tar xJf "$data/../trainer/known.tar.xz" -C hf || fault "no known.tar.xz of the Trainer"
"$dsflow" checkpoint import hf/gpt2/checkpoint-3 short.toml --set job.output=t > log 2> err || fault "Trainer: $(cat err)"
grep -q "^t/checkpoints/step-3: step 3 of hf/gpt2/checkpoint-3 (Hugging Face's Trainer without DeepSpeed): dsflow run t" log ||
    fault "Trainer: $(cat log)"
cmp a/checkpoints/step-3/params.safetensors t/checkpoints/step-3/params.safetensors &&
    cmp a/checkpoints/step-3/states.safetensors t/checkpoints/step-3/states.safetensors || fault "Trainer: other numbers than DeepSpeed's"
"$dsflow" run t --resume > log 2>&1 || fault "Trainer: $(cat log)"
"$dsflow" -q checkpoint import hf/accelerate short.toml --set job.output=acc > log 2>&1 || fault "Accelerate: $(cat log)"
"$dsflow" checkpoint show hf/gpt2/checkpoint-3 > log 2>&1 || fault "show: $(cat log)"
grep -q "optimizer.pt" log || fault "show: $(cat log)"

# Weights alone begin a run.
"$dsflow" -q checkpoint import ds/llama_zero3 short.toml --weights-only --set job.output=w > log 2>&1 || fault "weights: $(cat log)"
grep -q '"control.step": "0"' w/checkpoints/step-0/manifest.json || fault "not at the start"
"$dsflow" run w --resume > log 2>&1 || fault "weights: $(cat log)"

# refused STATUS LINES TEXT ARGS...: with this status, so many lines and this in them; nothing is written.
refused() {
    status=$1 lines=$2 text=$3
    shift 3
    "$dsflow" checkpoint import "$@" --set job.output=none > out 2> log
    [ $? -eq "$status" ] && [ "$(wc -l < log)" -eq "$lines" ] && grep -q "^dsflow: $text" log || fault "$*: $(cat log)"
    [ -s out ] && fault "$*: prints $(cat out)"
    [ -e none ] && fault "$*: writes"
}
# All that does not fit is named.
cat > other.toml <<'EOF2'
[job]
steps = 5
[model]
layers = 3
heads = 2
width = 8
context = 16
vocab = 300
[data]
train = "text.txt"
EOF2
refused 2 14 "transformer.wte.weight: shape \[259, 8\]: the model of the job makes it \[300, 8\]" ds/gpt2_zero2 other.toml
refused 2 14 "transformer.h.2.mlp.c_fc.bias: is missing" ds/gpt2_zero2 other.toml
refused 2 14 "ds/gpt2_zero2/global_step3: does not fit the job, for 13 reasons: nothing was written" ds/gpt2_zero2 other.toml
refused 2 13 "transformer.h.1.ln_1.weight: \[8\]: the model of the job has no place for it" ds/gpt2_zero2 other.toml \
    --set model.layers=1 --set model.vocab=259
refused 2 1 "--set: optimizer: kind: lion: ds/gpt2_zero2/global_step3 has the moments of AdamW" ds/gpt2_zero2 short.toml --set optimizer.kind=lion
refused 2 1 "short.toml: optimizer: kind: adamw: ds/llama_muon_zero2/global_step3 has the moments of Muon" ds/llama_muon_zero2 short.toml
refused 2 1 "ds/gpt2_zero2: --tag: other: there is no such folder in it" ds/gpt2_zero2 short.toml --tag other
cp -r hf/gpt2/checkpoint-3 far && sed 's/"global_step": 3/"global_step": 5000000000/' far/trainer_state.json > far.json && mv far.json far/trainer_state.json
refused 2 1 "far: step 5000000000, of which 4999999997 without an update: expected a step up to 1000000000" far short.toml
refused 2 1 "ds: has no files of a checkpoint of DeepSpeed" ds other.toml
cp -r hf/gpt2/checkpoint-3 only && rm only/optimizer.pt
refused 2 1 "only: has weights, and no state of an optimizer (optimizer.pt): expected a checkpoint, or model.init = \"only\" in a job" only other.toml
mkdir -p trainer/checkpoint-5 trainer/checkpoint-10
refused 2 1 "trainer: .*: did you mean trainer/checkpoint-10$" trainer other.toml
: > trainer/checkpoint-5/trainer_state.json; : > trainer/checkpoint-5/optimizer.pt
refused 2 1 "trainer/checkpoint-5: has no model.safetensors" trainer/checkpoint-5 other.toml
"$dsflow" checkpoint import ds/gpt2_zero2 short.toml --set job.output=a > log 2>&1
[ $? -eq 2 ] && grep -q "a: has checkpoints already, the newest of step 5: expected another folder" log || fault "over a run: $(cat log)"
# So where something is found late: tensors that are damaged, a job.toml that cannot be written.
damage() { # FILE BYTE: of a tensor
    printf XXXX | dd of="$1" bs=1 seek="$2" conv=notrunc 2> dd.log || fault "dd: $(cat dd.log)"
}
cp -r ds/gpt2_zero2 late
damage late/global_step3/zero_pp_rank_1_mp_rank_00_optim_states.pt 9000
"$dsflow" checkpoint import late short.toml --set job.output=none/of/these > out 2> log
[ $? -eq 2 ] && grep -q "optim_states.pt: .*: is damaged: its CRC-32" log && [ ! -s out ] || fault "late: $(cat log)"
[ -e none ] && fault "late: leaves $(find none)"
cp -r ds/gpt2_universal u
damage "u/$(cat u/latest_universal)/zero/transformer.h.1.mlp.c_fc.weight/exp_avg.pt" 1024
"$dsflow" checkpoint import u short.toml --set job.output=none > out 2> log
[ $? -eq 2 ] && grep -q "exp_avg.pt: .*: is damaged: its CRC-32" log && [ ! -s out ] || fault "universal, late: $(cat log)"
[ -e none ] && fault "universal, late: leaves $(find none)"
mkdir -p old/job.toml && echo old > old/metrics.jsonl
for from in late ds/gpt2_zero2; do
    "$dsflow" checkpoint import $from short.toml --set job.output=old > out 2> log && fault "$from: into old"
    [ "$(ls old)" = "job.toml
metrics.jsonl" ] && [ "$(cat old/metrics.jsonl)" = old ] || fault "$from: leaves $(find old)"
done
grep -q "^dsflow: old/job.toml: Is a directory$" log || fault "job.toml: $(cat log)"
# So where a signal ends it.
cat > wide.toml <<'EOF2'
[model]
family = "llama"
layers = 4
heads = 8
width = 1024
context = 64
[data]
train = "text.txt"
[job]
steps = 5
EOF2
"$dsflow" -q checkpoint export wide.toml wide --step 0 > log 2>&1 || fault "wide: $(cat log)"
: > wide/optimizer.pt
"$dsflow" -q checkpoint import wide short.toml --weights-only --set job.output=cut/off > log 2>&1 &
pid=$!
until [ -e cut/off/checkpoints/step-0.tmp ] || ! kill -0 $pid 2> /dev/null; do :; done
kill -TERM $pid
wait $pid 2> /dev/null
[ $? -eq 143 ] && [ ! -s log ] && [ ! -e cut ] || fault "a signal: $(cat log; find cut)"
"$dsflow" -q checkpoint export wide.toml half --step 0 > log 2>&1 &
pid=$!
until ls -d half.tmp-* > out 2> /dev/null || ! kill -0 $pid 2> /dev/null; do :; done
kill -TERM $pid
wait $pid 2> /dev/null
[ $? -eq 143 ] && ! ls -d half* > out 2>&1 || fault "a signal in an export: $(cat log out)"
# Names may all have something in front.
refused 2 57 "x.transformer.wte.weight: is missing" ds/gpt2_zero2 short.toml --prefix x.
finish
