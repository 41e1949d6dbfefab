# import.sh - a job out of a configuration of DeepSpeed, and what is refused.
. "${srcdir:-.}/tests/cli/lib.sh"
cat > ds_config.json <<'EOF'
{
  // what a program trained with before
  "train_batch_size": 8,
  "gradient_accumulation_steps": 2,
  "steps_per_print": 2,
  "optimizer": {
    "type": "Adam",
    "params": { "lr": 2e-3, "betas": [0.9, 0.95], "weight_decay": 0.1 }
  },
  "scheduler": {
    "type": "WarmupDecayLR",
    "params": { "warmup_max_lr": 3e-3, "warmup_num_steps": 2, "total_num_steps": 6 }
  },
  "bf16": { "enabled": "auto" },
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "reduce_bucket_size": 5e8,
    "offload_optimizer": { "device": "cpu", "pin_memory": true, },
  },
}
EOF
model="--set model.layers=2 --set model.heads=2 --set model.width=32 --set model.context=48 --set job.name=7"

# It is planned and trained as it is.
# shellcheck disable=SC2086
"$dsflow" import ds_config.json -n 2 --data text.txt $model > ds.toml 2> err ||
    fault "import: $(cat err)"
[ -s err ] && fault "says: $(cat err)"
for line in 'lr = 0.003  *# scheduler.params.warmup_max_lr, line 12' 'steps = 6  *# scheduler.params.total_num_steps' \
    'kind = "adamw"  *# optimizer.type, line 7' 'clip = 1.0  *# gradient_clipping: DeepSpeed.s default' \
    'warmup_shape = "log"  *# .*: DeepSpeed.s default' 'micro = 2  *# train_batch_size, line 3' \
    'data = 2  *# -n over' 'optimizer = "cpu"  *# .*device, line 19' '#compute = .* # .*auto' \
    'width = 32  *# --set' 'name = "7"  *# --set' 'train = \["text.txt"\]  *# --data'; do
    grep -q "^$line" ds.toml || fault "no line $line: $(cat ds.toml)"
done
"$dsflow" plan ds.toml > log 2>&1 || fault "plan: $(cat log)"
grep -q "^gather " log && grep -q "^mesh  *data 2 x" log || fault "no ZeRO 2: $(head -20 log)"
"$dsflow" run ds.toml > log 2>&1 || fault "run: $(cat log)"
[ "$(wc -l < runs/ds_config/metrics.jsonl)" -ge 6 ] || fault "not 6 steps: $(cat log)"
# A file may be called anything.
odd=$(printf 'two\nlines.json')
cp ds_config.json "$odd"
"$dsflow" import "$odd" > odd.toml 2> err && [ "$(head -n 1 odd.toml)" = "# From two?lines.json, a configuration of DeepSpeed, for 1 rank." ] ||
    fault "import of a file with a line end in its name: $(cat err) $(head -n 2 odd.toml)"
# Without a model it is one to be finished.
"$dsflow" import ds_config.json > open.toml || fault "import without a model"
"$dsflow" plan open.toml > log 2>&1
[ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] || fault "a job without a model: $(cat log)"

# What cannot be had is all named, and nothing is printed.
sed 's/"stage": 2,/"stage": 2, "mics_shard_size": 2,/; s/"Adam"/"Adafactor"/' ds_config.json > bad.json
"$dsflow" import bad.json > out 2> err
[ $? -eq 2 ] || fault "status is not 2"
[ -s out ] && fault "prints: $(cat out)"
cat > expected <<'EOF'
dsflow: bad.json:7: optimizer.type: Adafactor: expected Adam, AdamW, Lion, SGD, Adagrad, Lamb, Muon, OneBitAdam, OneBitLamb or ZeroOneAdam
dsflow: bad.json:16: zero_optimization.mics_shard_size: 2: all replicas share one set of states: expected -1; --drop zero_optimization.mics_shard_size goes on without it
dsflow: bad.json: 2 keys cannot be had
EOF
cmp expected err || fault "says: $(cat err)"
"$dsflow" import bad.json --drop optimizer.type --drop zero_optimization.mics_shard_size > out 2>&1 ||
    fault "--drop: $(cat out)"

# refused TEXT ARGS...: with status 2 and this line.
refused() {
    text=$1
    shift
    "$dsflow" import "$@" > log 2>&1
    [ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q "^dsflow: $text" log || fault "$*: $(cat log)"
}
printf '{ "train_batch_size": 8,\n  "train_batch_size": 9 }' > twice.json
refused "none.json: No such file" none.json
refused "twice.json:2: .*duplicate" twice.json
refused "text.txt:1: " text.txt
refused "import: --drop: nothing: is not in ds_config.json" ds_config.json --drop nothing
refused "--ranks: 0: expected a whole number, 1 to" ds_config.json -n 0
refused "ds_config.json: does not make a job: --set: mesh: dta" ds_config.json --set mesh.dta=2

# Weights that are trained to be quantized and pruned, and activations: it is planned and trained.
cat > weights.json <<'EOF'
{
  "train_batch_size": 4,
  "optimizer": { "type": "Adam", "params": { "lr": 1e-3 } },
  "fp16": { "enabled": true },
  "quantize_training": { "eigenvalue": { "enabled": false } },
  "compression_training": {
    "weight_quantization": {
      "shared_parameters": { "enabled": true, "schedule_offset": 1, "quantize_groups": 8 },
      "different_groups": {
        "wq1": {
          "params": { "start_bits": 8, "target_bits": 4, "quantization_period": 2 },
          "modules": ["attn", "mlp"]
        }
      }
    },
    "sparse_pruning": {
      "shared_parameters": { "enabled": true, "schedule_offset": 2, "method": "l1" },
      "different_groups": { "sp1": { "params": { "dense_ratio": 0.5 }, "modules": ["attn", "mlp"] } }
    },
    "row_pruning": {
      "shared_parameters": { "enabled": false },
      "different_groups": { "rp1": { "params": { "dense_ratio": 0.5 }, "modules": ["c_fc"] } }
    },
    "activation_quantization": {
      "shared_parameters": { "enabled": true, "quantization_type": "asymmetric", "schedule_offset": 1 },
      "different_groups": { "aq1": { "params": { "bits": 7 }, "modules": ["attn", "mlp", "lm_head"] } }
    }
  }
}
EOF
# shellcheck disable=SC2086
"$dsflow" import weights.json --data text.txt $model --set weights.group=16 --set activations.group=32 --set job.steps=3 > ds.toml 2> err ||
    fault "import of weights: $(cat err)"
[ -s err ] && fault "says: $(cat err)"
for line in 'quantize = "symmetric"  *# compression_training.*quantization_type: DeepSpeed.s default' 'bits = 4  *# .*target_bits, line 11' \
    'start_bits = 8  *# .*start_bits, line 11' 'period = 2  *# .*period, line 11' 'group = 16  *# --set' \
    'quantize_from = 1  *# .*schedule_offset, line 8' 'prune_from = 2  *# .*schedule_offset, line 17' \
    'prune = "2:4"  *# .*dense_ratio, line 18: here of each 4 inputs, found anew after each step$' \
    'quantize = "asymmetric"  *# .*activation_quantization.*quantization_type, line 25$' 'group = 32  *# --set' \
    'quantize_from = 1  *# .*activation_quantization.*schedule_offset, line 25$' \
    'bits = 7  *# .*aq1.params.bits, line 26; modules outside of blocks, as the head, have exact inputs here$'; do
    grep -q "^$line" ds.toml || fault "no line $line: $(cat ds.toml)"
done
"$dsflow" plan ds.toml > log 2>&1 || fault "plan of weights: $(cat log)"
"$dsflow" run ds.toml > log 2>&1 || fault "run of weights: $(cat log)"
"$dsflow" import weights.json --data text.txt > log || fault "import of weights: no group"
grep -q '^#group = 64  *# .*quantize_groups, line 8, says 8 scales of a matrix: here they are of so many inputs$' log ||
    fault "group: $(cat log)"
grep -q "^group = 0  *# .*range_calibration: DeepSpeed's default" log ||
    fault "group of activations: $(cat log)"
"$dsflow" import weights.json --drop compression_training.activation_quantization.shared_parameters.schedule_offset > log ||
    fault "import of activations from no step"
grep -q "^quantize_from = 1000  *# .*schedule_offset: DeepSpeed's default$" log || fault "no step: $(cat log)"

# two_lines EDIT TEXT: the weights so edited are refused, by this line and a count.
two_lines() {
    sed "$1" weights.json > bad.json
    "$dsflow" import bad.json > out 2> err
    [ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l < err)" -eq 2 ] || fault "$1: $(cat out err)"
    head -n 1 err | grep -q "^dsflow: bad.json:$2" || fault "$1: $(cat err)"
}
two_lines 's/"l1"/"topk"/' '17: .*sparse_pruning.shared_parameters.method: topk: dsflow learns no scores of weights: expected l1$'
two_lines 's/"l1"/"snip_momentum"/' '17: .*method: snip_momentum: dsflow prunes by size, not by gradients: expected l1$'
two_lines '18s/0.5/0.1/' '18: .*dense_ratio: 0.1: of each 16 weights a whole number stays: '
two_lines '12s/"attn", //' '9: .*weight_quantization.different_groups: \[weights\] is of all matrices of blocks'
two_lines '21s/false/true/' '21: .*row_pruning.shared_parameters.enabled: true: rows of the MLP go when a model is exported (dsflow checkpoint export --ffn-width), not while it trains: expected false; '
two_lines '8s/true/true, "rounding": "stochastic"/' '8: .*rounding: "stochastic": codes are rounded to the nearest: expected "nearest"; '
two_lines '8s/true/true, "fp16_mixed_quantize": {"enabled": true}/' '8: .*weights are quantized at once, not in parts'
two_lines '25s/1 }/1, "range_calibration": "static" }/' '25: .*range_calibration: static: dsflow finds the scales of each token anew, '
two_lines '26s/7/16/' '26: .*aq1.params.bits: 16: expected a whole number, 2 to 8, as activations.bits$'
two_lines '26s/"attn", //' '26: .*activation_quantization.different_groups: \[activations\] is of all matrices of blocks: expected '
two_lines '5s/false/true/' '5: quantize_training: bits fall by weights.period, not by eigenvalues: '

# Strings of a configuration may hold anything; a message is one line of text.
printf '{ "scheduler": { "type": "a\\nb\\u001b[2J" },\n  "c\\nd": 1, "zero_optimization": { "cpu_offload": "%s" } }' \
    "$(printf 'é%.0s' $(seq 60))" > strange.json
"$dsflow" import strange.json --set batch.sequences=8 > log 2>&1
[ $? -eq 2 ] && [ "$(wc -l < log)" -eq 4 ] && [ "$(grep -c '^dsflow: strange.json:' log)" -eq 4 ] &&
    iconv -f UTF-8 -t UTF-8 log > log8 && ! grep -q '[[:cntrl:]]' log8 &&
    grep -qF 'scheduler.type: a?b?[2J: expected' log || fault "strange.json: $(cat -v log)"

# The table says of each key what becomes of it.
"$dsflow" list deepspeed > out || fault "list deepspeed"
grep -q "^train_batch_size  *becomes batch.sequences$" out || fault "the batch is not there"
grep -q "^zero_optimization.mics_shard_size  *refused but for -1: " out || fault "mics_shard_size is not there"
awk 'NF < 2 { exit 1 }' out || fault "keys without a fate"
finish
