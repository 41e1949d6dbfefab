# warnings.sh - a key that does nothing, and a length that is never reached, are
# warned of, once, and the run goes on.
. "${srcdir:-.}/tests/cli/lib.sh"

# warns MESSAGE ARGS...: exactly this warning from a plan with these settings.
warns() {
    message=$1
    shift
    timeout 60 "$dsflow" plan "$@" > out 2> err || fault "plan $*: $(cat err)"
    [ "$(said)" = "${message:+dsflow: warning: $message}" ] ||
        fault "plan $*: says '$(cat err)', not '$message'"
}

# idle KEY VALUE WHY [SETS...]: this key has no effect.
idle() {
    key=$1 value=$2 why=$3
    shift 3
    warns "--set: ${key%.*}: ${key##*.}: has no effect: $why" job.toml \
        --set "$key=$value" "$@"
}

none='offload.optimizer is "none"'
nowhere="$none and offload.params is \"none\" and offload.gradients is \"none\" and offload.activations is \"none\""
undisked=$(echo "$nowhere" | sed 's/"none"/& (needs nvme)/g')

warns "" job.toml
idle schedule.min_ratio 0.1 'schedule.kind is "warmup" (needs warmup_cosine or warmup_linear)' \
    --set schedule.kind=warmup
idle schedule.half_cycle 10 'schedule.kind is "warmup_cosine" (needs one_cycle)'
idle schedule.range_rate 2 'schedule.kind is "warmup_cosine" (needs range_test)'
idle schedule.warmup_ratio 0.1 'schedule.warmup is 0 (needs 1 or more)' --set schedule.warmup=0
idle model.rope_theta 1000 'model.family is "gpt2" (needs llama)'
idle model.qkv_bias true 'model.family is "gpt2" (needs llama)'
idle model.rope_scaling llama3 'model.family is "gpt2" (needs llama)'
idle model.rope_factor 4 'model.rope_scaling is "none" (needs llama3)' --set model.family=llama
idle pipeline.chunks 2 'pipeline.schedule is "1f1b" (needs interleaved)' --set mesh.pipeline=2
idle pipeline.schedule gpipe 'mesh.pipeline is 1 (needs 2 or more)'
idle zero.stage 3 'mesh.data is 1 (needs 2 or more) and mesh.sequence is 1 (needs 2 or more)'
idle zero.prefetch 2 'zero.stage is 2 (needs 3) and mesh.sequence is 1 (needs 2 or more)' \
    --set mesh.data=2 --set zero.stage=2
idle zero.keep 0 'zero.stage is 0 (needs 3) and mesh.sequence is 1 (needs 2 or more)' --set mesh.data=2
idle memory.nvme.path "$here" "$undisked"
idle memory.nvme.depth 8 "$undisked"
idle offload.share 0.5 "$none"
idle offload.piece 8KiB "$none and precision.states is \"fp32\" and precision.master is true (needs false)"
idle precision.gradients bf16 'precision.compute is "fp32"'
idle precision.master false 'precision.compute is "fp32" (needs bf16)'
idle offload.read_ahead 2 "$nowhere"
idle offload.write_behind 2 "$nowhere"
idle recompute.layers '"1"' 'recompute.what is "none"'
idle machine.virtual_memory 1GiB "machine.virtual is 0 (needs 1 or more)"
idle machine.virtual_link 1MiB "machine.virtual is 0 (needs 1 or more)"
idle optimizer.momentum 0.9 'optimizer.kind is "adamw" (needs sgd)'
idle optimizer.nesterov true 'optimizer.momentum is 0 (needs more than 0)' --set optimizer.kind=sgd
idle optimizer.betas '[0.9, 0.99]' 'optimizer.kind is "sgd" (needs adamw or adam or lion or lamb or muon or onebit_adam or onebit_lamb or zeroone_adam)' --set optimizer.kind=sgd
idle lamb.max_coeff 5.0 'optimizer.kind is "adamw" (needs lamb)'
idle optimizer.eps 1e-6 'optimizer.kind is "lion" (needs adamw or adam or adagrad or lamb or muon or onebit_adam or onebit_lamb or zeroone_adam)' --set optimizer.kind=lion
idle sample.top_k 5 'sample.tokens is 0 (needs 1 or more)'
idle sample.seed 5 'sample.temperature is 0 (needs more than 0)' --set sample.tokens=5 --set sample.temperature=0
idle checkpoint.keep 3 'checkpoint.every is 0 and checkpoint.at_end is false (needs true)' --set checkpoint.at_end=false
idle data.validation 0.1 'data.validation_files is […] (needs [])' --set data.validation_files=text.txt
idle validation.every 5 'data.validation is 0 (needs more than 0) and data.validation_files is []' --set data.validation=0

# A size that is auto is known before this is said.
idle zero.prefetch 2 'zero.stage is 0 (needs 3) and mesh.data is 1 (needs 2 or more) and mesh.sequence is 1 (needs 2 or more)' \
    --set zero.stage=auto

# The line of the file; nothing of what says that nothing is there.
{ job; printf 'min_ratio = 0.1\n[zero]\nstage = 3\n'; } > file.toml
warns "file.toml:24: zero: stage: has no effect: mesh.data is 1 (needs 2 or more) and mesh.sequence is 1 (needs 2 or more)" file.toml
{ job; printf '[zero]\nstage = 0\n[offload]\nshare = 0.0\n'; } > file.toml
warns "" file.toml

# A run says it once and trains; another length of the schedule changes no rate.
run all --set schedule.warmup=8
grep -q warning log && fault "warns of nothing: $(cat log)"
run cut --set schedule.warmup=8 --set schedule.total=10 --set job.steps=5 --set zero.stage=1
[ "$(grep -c '^dsflow: warning: ' log)" -eq 2 ] &&
    grep -q '^dsflow: warning: --set: schedule: warmup: 8: longer than the 5 steps of the run: the full rate is never reached$' log &&
    grep -q '^dsflow: warning: --set: zero: stage: has no effect: ' log ||
    fault "a short run: $(cat log)"
sed -n '1,/"step": *5\b/p' all/metrics.jsonl | grep -o '"lr": *[^,]*' | head -5 > whole.lr
grep -o '"lr": *[^,]*' cut/metrics.jsonl | head -5 > cut.lr
[ -s cut.lr ] && cmp whole.lr cut.lr || fault "the rates differ: $(diff whole.lr cut.lr)"

run alone --set mesh.data=2 --set mesh.transport=mpi --set job.steps=5
[ "$(grep '^dsflow: warning: ' log)" = "dsflow: warning: --set: mesh: transport: has no effect: one process has all ranks" ] ||
    fault "a transport for one process: $(cat log)"

# Of a machine that is described.
printf '[machine]\nname = "cores"\nfp32 = 7e10\nbandwidth = 8e9\n' > cores.toml
"$dsflow" plan job.toml --machine cores.toml --set machine.gpus=2 --set precision.tf32=true > out 2> err ||
    fault "a plan for cores: $(cat err)"
for text in "precision: tf32: has no effect: the ranks are cores" \
    "machine: gpus: has no effect: cores has no GPUs"; do
    grep -q "^dsflow: warning: --set: $text$" err || fault "a plan for cores: not '$text' but $(cat err)"
done
"$dsflow" plan job.toml --machine cores.toml --set machine.gpus=auto > out 2> err
grep "gpus" err && fault "as many GPUs as there are"

# Text that is validated on and trained on, under another name.
cp text.txt copy.txt
run same --set data.validation_files=copy.txt --set job.steps=5
[ "$(grep '^dsflow: warning: data' log)" = "dsflow: warning: data: validation_files: copy.txt: the same text is in train, as text.txt" ] ||
    fault "text to train and to validate on: $(cat log)"
head -c 2000 text.txt > part.txt
run part --set data.validation_files=part.txt --set job.steps=5
grep -q warning log && fault "another text to validate on: $(cat log)"

# A model from a folder has the family of its config.json.
mkdir hf
cat > hf/config.json << 'E2'
{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 2,
 "hidden_size": 32, "intermediate_size": 64, "vocab_size": 256,
 "max_position_embeddings": 48, "rms_norm_eps": 1e-5, "rope_theta": 500.0}
E2
sed '/^layers\|^heads\|^width\|^context/d; s/^\[model\]/[model]\ninit = "hf"/' job.toml > hf.toml
warns "" hf.toml --set model.rope_theta=500
"$dsflow" plan hf.toml --set model.rope_theta=10000 > out 2> err
[ $? -eq 2 ] && [ "$(said)" = "dsflow: --set: model: rope_theta: 10000: config.json in hf says 500" ] ||
    fault "another rope_theta than the folder's: $(cat err)"
idle model.rope_scaling llama3 'model.family is "gpt2" (needs llama)'
finish
