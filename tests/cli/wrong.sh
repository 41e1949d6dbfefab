# wrong.sh - what is wrong gets one clear line, the right exit status, and
# nothing is lost.
. "${srcdir:-.}/tests/cli/lib.sh"
cases=0

# wrong STATUS MESSAGE ARGS...: exactly this line on standard error.
wrong() {
    status=$1 message=$2
    shift 2
    cases=$((cases + 1))
    timeout 60 "$dsflow" -q "$@" > out 2> err
    got=$?
    [ $got -eq "$status" ] || fault "dsflow $*: status $got, not $status"
    [ "$(said)" = "dsflow: $message" ] ||
        fault "dsflow $*: says '$(cat err)', not 'dsflow: $message'"
    [ -s out ] && fault "dsflow $*: prints '$(cat out)'"
}

# set_wrong KEY VALUE MESSAGE: the same of one --set.
set_wrong() {
    key=$1 value=$2 message=$3
    wrong 2 "--set: $message" run job.toml --set "$key=$value"
}

# wrong_text TEXT MESSAGE: the same of a job of this text, as printf has it.
wrong_text() {
    printf "$1" > bad.toml
    wrong 2 "bad.toml:$2" run bad.toml
}

wrong 2 "no-such.toml: No such file or directory" run no-such.toml
mkdir folder
wrong 2 "folder: is a folder: expected a job.toml, or the output folder of a run" run folder
# A job.toml that somebody wrote is not one of a run, which writes its own.
cp job.toml folder
cp job.toml before.toml
wrong 2 "folder: is a folder: expected a job.toml, or the output folder of a run" run folder
wrong 2 "--set: job: output: folder: has a job.toml that no run wrote, and would lose it: expected a folder of its own" run folder/job.toml --set job.output=folder
cmp -s folder/job.toml before.toml || fault "a run lost the job.toml of its user"
: > empty.toml
wrong 2 "empty.toml: is empty: expected a job.toml" run empty.toml
head -c 1048577 /dev/zero > large.toml
wrong 2 "large.toml: is larger than 1 MiB: no job.toml" run large.toml
rm large.toml
for isa in mmx ""; do
    DSFLOW_ISA=$isa "$dsflow" plan job.toml > out 2> err
    [ $? -eq 2 ] && [ ! -s out ] &&
        grep -qx "dsflow: DSFLOW_ISA: \"$isa\": expected what this processor has, of portable[a-z0-9_, ]*" err ||
        fault "DSFLOW_ISA=$isa: $(cat err)"
    cases=$((cases + 1))
done
wrong 2 "run: expected: dsflow run [OPTION]… job.toml (dsflow help run)" run
# What names nothing is refused before anything is done, whatever it is for.
wrong 2 'run: "": expected: dsflow run [OPTION]… job.toml (dsflow help run)' run ""
wrong 2 'init: "": expected: dsflow init [FOLDER] (dsflow help init)' init ""
for words in "checkpoint export run" "checkpoint export --deepspeed run" "checkpoint list" \
    "checkpoint import run" "import" "bench io" "watch" "trace" "list codelets"; do
    command=${words%% *}
    $dsflow $words "" > out 2> err
    [ $? -eq 2 ] && [ ! -s out ] && [ "$(wc -l < err)" -eq 1 ] &&
        grep -q "^dsflow: $command: \"\": expected: dsflow $command " err ||
        fault "dsflow $words '': $(cat out err)"
    cases=$((cases + 1))
done
wrong 2 '"": expected: dsflow [OPTION]… COMMAND … (dsflow --help)' ""
wrong 2 '--trace: "": expected FILE' plan job.toml --trace ""
wrong 2 '--output: "": expected FILE' bench memory --output=
wrong 2 '--model: "": expected FOLDER' import ds.json --model ""
echo "[job]" > short.toml
wrong 2 "short.toml:1: [job]: is a table of a job: expected a machine file, as dsflow bench writes one" plan job.toml --machine short.toml
printf '[machine]\nname = "x"\n[disk]\nread = 1e9\n' > machine.toml
wrong 2 "machine.toml:4: [disk]: unknown table; machine files, for dsflow plan --machine, have it" plan machine.toml
wrong 2 "plan: expected: dsflow plan [OPTION]… job.toml (dsflow help plan)" plan --machine job.toml
wrong 2 "run: --s: expected one of --set or --steps" run job.toml --s x
wrong 2 "rum: unknown command; did you mean run" rum job.toml
wrong 2 "run: --sett: unknown option; did you mean --set" run job.toml --sett x
wrong 2 "run: --set: expected TABLE.KEY=VALUE" run job.toml --set
wrong 2 "--set nonsense: expected table.key=value" run job.toml --set nonsense
wrong 2 "--executor: fast: expected starpu or serial" run job.toml --executor fast
wrong 2 "--resume: yes: expected latest-good or changed, or nothing" run job.toml --resume=yes
for range in some 0:3 3:2 11:12; do
    wrong 2 "--trace=$range: expected FIRST:LAST, steps from 1 to 10, or all" run job.toml --trace=$range
done
wrong 2 "--until: zeroo: expected one of reference, recompute, tensor_parallel, sequence_parallel, pipeline, replace, precision, weights, compress, zero, collectives, strict, send, offload, priorities" plan job.toml --until zeroo
wrong 2 "list: things: expected tasks, codelets, policies, optimizers, schedules, layouts, segments, axes, formats, plugins, deepspeed or keys" list things
wrong 2 "checkpoint: burn: expected list, verify, show, export or import" checkpoint burn x
wrong 2 "none/checkpoints: No such file or directory" checkpoint list none
wrong 2 "folder: has no checkpoints: expected the output folder of a run" checkpoint list folder
wrong 2 "folder: has no checkpoints: expected the output folder of a run, or the folder of a checkpoint" checkpoint verify folder

# Keys and values.
set_wrong job.steps ten 'job: steps: "ten": expected a whole number, 1 to 1000000000'
set_wrong job.steps 0 "job: steps: 0: expected a whole number, 1 to 1000000000"
set_wrong job.steps 1.5 "job: steps: 1.5: expected a whole number, 1 to 1000000000"
set_wrong model.dropout 0.1 "model: dropout: 0.1: expected 0"
set_wrong model.family bert 'model: family: "bert": expected gpt2 or llama'
set_wrong optimizer.kind adan 'optimizer: kind: "adan": expected adamw, adam, sgd, lion, adagrad, lamb, muon, onebit_adam, onebit_lamb or zeroone_adam'
set_wrong schedule.kind cosine 'schedule: kind: "cosine": expected constant, warmup_cosine, warmup_linear, warmup, one_cycle or range_test'
set_wrong model.mlp mine 'model: mlp: "mine": expected builtin'
set_wrong optimizer.lr -1 "optimizer: lr: -1: expected a number, 0 to 1000"
set_wrong optimizer.lr nan "optimizer: lr: nan: expected a number, 0 to 1000"
set_wrong optimizer.lr -nan "optimizer: lr: nan: expected a number, 0 to 1000"
set_wrong optimizer.betas "[0.9]" "optimizer: betas: [0.9]: expected two numbers, 0 to 0.999999"
set_wrong data.shuffle 1 "data: shuffle: 1: expected true or false"
set_wrong machine.virtual_memory many 'machine: virtual_memory: "many": expected a size such as "512MiB", or "auto"'
set_wrong optimizer.larning_rate 1 "optimizer: larning_rate: unknown key"
set_wrong optimizer.epss 1 "optimizer: epss: unknown key; did you mean eps?"
set_wrong optimiser.lr 1 "[optimiser]: unknown table; did you mean optimizer?"
set_wrong nosuch.stage 1 "[nosuch]: unknown table"
# Names of Hugging Face, of DeepSpeed, and of another table.
while read -r key ours; do
    set_wrong "model.$key" 1 "model: $key: unknown key; dsflow's is $ours"
done << END
hidden_size model.width
num_hidden_layers model.layers
n_embd model.width
Num-Attention-Heads model.heads
vocab_size model.vocab
learning_rate optimizer.lr
train_batch_size batch.sequences
gradient_clipping optimizer.clip
offload_optimizer offload.optimizer
activation_checkpointing recompute.what
warmup_steps schedule.warmup
max_steps job.steps
output_dir job.output
num_train_epochs job.steps, in updates of the weights
END
set_wrong model.lr 1 "model: lr: unknown key; it is optimizer.lr"
set_wrong optimizer.seed 1 "optimizer: seed: unknown key; it is job.seed or sparse_attention.seed or sample.seed"
set_wrong optimizer.dtype 1 "optimizer: dtype: unknown key; dsflow's is precision.compute"
set_wrong zero_optimization.stage 2 "[zero_optimization]: unknown table; dsflow's is [zero]"
set_wrong zero.offload_param.device cpu "[zero.offload_param]: unknown table; dsflow's is offload.params"
set_wrong fp16.enabled true "[fp16]: unknown table; dsflow's is precision.compute"
wrong 2 "--set lr=1: expected table.key=value; it is optimizer.lr" run job.toml --set lr=1
wrong_text 'learning_rate = 1e-3\n' "1: learning_rate: expected in a table such as [job]; dsflow's is optimizer.lr"
wrong_text 'steps = 5\n' "1: steps: expected in a table such as [job]; it is job.steps or trace.steps or muon.steps"
wrong_text '[[job]]\nsteps = 5\n' "1: job[0]: expected [job], which does not repeat"
wrong_text '[job]\nsteps = 5\n[schedule.warmup_ratio]\n' "3: schedule: warmup_ratio: a table: expected a number, 0 to 1"
wrong_text '[job]\nsteps = 5\n[precision]\ntf32 = {}\n' "4: precision: tf32: a table: expected true or false"
wrong_text '[job]\nsteps = 5\n[memory]\nnvme = 3\n' "4: memory.nvme: expected a table, which begins with [memory.nvme]"
wrong_text '"" = 5\n' '1: "": expected in a table such as [job]'
set_wrong job.steps.x 1 "job: steps: a table: expected a whole number, 1 to 1000000000"
wrong_text '[job]\nsteps = 5\n[[nothing]]\n' "3: [nothing]: unknown table"
wrong_text '[job]\nsteps = 5\nx = [1, {}]\n' "3: job: x: unknown key"
set_wrong batch.micro 3 "batch: micro: 3: expected a divisor of sequences, 4"
set_wrong batch.groups 3 "batch: groups: 3: expected a divisor of the 4 micro-batches"
set_wrong batch.sequence 64 "batch: sequence: 64: expected at most the model's context, 48"
set_wrong model.heads 5 "model: heads: 5: expected a divisor of width, 32"
set_wrong model.width 16384 "model: width: 16384: expected heads of at most 4096 numbers (width / heads)"
set_wrong model.head_dim 4097 "model: head_dim: 4097: expected \"auto\", or 1 to 4096"
set_wrong model.kv_heads 1 "model: kv_heads: 1: gpt2 has as many as heads, 2"
set_wrong model.tied false "model: tied: false: gpt2's head is tied to its embedding"
set_wrong model.vocab 100 "model: vocab: 100: expected at least the 256 tokens of bytes"
# Only schedulers that keep to a task's workers are offered, and all are named.
schedulers=$(COLUMNS=200 "$dsflow" list keys machine.scheduler | sed -n 's/.*expects //p')
for scheduler in fifo heteroprio modular-heft graph_test ""; do
    set_wrong machine.scheduler "$scheduler" \
        "machine: scheduler: \"$scheduler\": expected $schedulers"
done
case $schedulers in "auto, lws,"*random*) ;; *) fault "the schedulers are '$schedulers'" ;; esac
sed 's/^heads.*/heads = "two"/' job.toml > bad.toml
wrong 2 'bad.toml:8: model: heads: "two": expected "auto", or 1 to 1024' run bad.toml
sed 's/^width.*/width = 32\nwidth = 64/' job.toml > bad.toml
"$dsflow" run bad.toml 2>&1 | grep -q "^dsflow: bad.toml:10: " || fault "a key given twice: $("$dsflow" run bad.toml 2>&1)"
sed 's/^\[data\]/[data/' job.toml > bad.toml
"$dsflow" run bad.toml 2>&1 | grep -q "^dsflow: bad.toml:1[12]: " || fault "a syntax error: $("$dsflow" run bad.toml 2>&1)"
sed '/^steps/d' job.toml > bad.toml
wrong 2 "bad.toml: job: steps: is missing: expected a whole number, 1 to 1000000000" run bad.toml
sed '/^layers/d' job.toml > bad.toml
wrong 2 'bad.toml: model: layers: is missing: a model with init = "random" needs it' run bad.toml

# Not TOML; and what a message quotes is no danger to a terminal.
quoted="expected within quotes: without, there are only letters from A to Z, digits, _ and -"
wrong_text 'ö = 1\n' "1: ö: $quoted"
wrong_text '[$x]\n' "1: \$: $quoted"
wrong_text '[job]\nname = "abc\n' '2: a string without its end: expected "'
wrong_text '\n\n\377' "3: a byte 0xff: expected text in UTF-8"
wrong_text '[job]\nsteps = 1\n"" = 2\n' '3: job: "": unknown key'
# What could not be read back from the job.toml of the run.
wrong 2 "--set job.name=a?: a byte 0xff: expected text in UTF-8" run job.toml --set "job.name=$(printf 'a\377')"
long=$(printf 'ö%.0s' $(seq 100))
wrong 2 "--set: job: a$(printf 'ö%.0s' $(seq 29))?: unknown key" run job.toml --set "job.a$long=1"
wrong 2 "--set: job: steps: \"?[31m\": expected a whole number, 1 to 1000000000" run job.toml --set "job.steps=$(printf '\302\233[31m')"
wrong 2 "?[2Jx.toml: No such file or directory" run "$(printf '\033[2Jx.toml')"

# Meshes that cannot be, and what could: two layers, two heads, four
# micro-batches.
set_wrong mesh.pipeline 3 "mesh: pipeline: 3: expected at most 2 stages, as the model has 2 blocks"
set_wrong mesh.tensor 3 "mesh: tensor: 3: heads, 2, does not split: expected one of 1, 2"
set_wrong mesh.sequence 5 "mesh: sequence: 5: expected a batch.sequence that is a multiple of 10, not 48, such as 40"
set_wrong batch.sequence_groups 32 "batch: sequence_groups: 32: expected a batch.sequence that is a multiple of 64, not 48"
wrong 2 "--set: batch: sequence_groups: 6: expected mesh.sequence, 2, times a power of two" \
    run job.toml --set mesh.sequence=2 --set batch.sequence_groups=6
wrong 2 "--set: batch: groups: 2: expected mesh.data, 1, where mesh.sequence is 2 or more" \
    run job.toml --set mesh.sequence=2 --set batch.groups=2
set_wrong mesh.sequence_kind ring 'mesh: sequence_kind: "ring": expected auto, keys or heads'
wrong 2 '--set: mesh: sequence_kind: "heads": expected a mesh.sequence of at most 2, as there are heads of queries, not 3' \
    run job.toml --set mesh.sequence=3 --set mesh.sequence_kind=heads
set_wrong mesh.data 3 "mesh: data: 3: expected a divisor of the 4 micro-batches of a step (batch: sequences / micro)"
set_wrong mesh.data 0 "mesh: data: 0: expected a whole number, 1 to 1024"
set_wrong mesh.expert 2 "mesh: expert: unknown key"
set_wrong pipeline.schedule 2f2b 'pipeline: schedule: "2f2b": expected 1f1b, gpipe, interleaved or zero_bubble'
set_wrong pipeline.split "[1,-1]" "pipeline: split: [1, -1]: expected a list of whole numbers, 0 to 1024"
set_wrong trace.steps '[1000000, 1000001]' 'trace: steps: 1000000: expected at most the 10 steps of the job'
set_wrong trace.steps '[5]' 'trace: steps: expected the first and the last step'
wrong 2 '--set: trace: steps: expected the first and the last step' plan job.toml --set trace.steps=[5]
set_wrong trace.steps 'x' 'trace: steps: "x": expected a list of whole numbers, 1 to 1000000000'
set_wrong zero.stage 4 'zero: stage: 4: expected "auto", or 0 to 3'
set_wrong recompute.layers 1-2 'recompute: layers: "1-2": expected "all", or layers 0 to 1 such as "0-5,8"'
wrong 2 "--set: mesh: data: 1000000 ranks in all: expected at most 32767" \
    run job.toml --set mesh.data=1000 --set mesh.pipeline=1000
wrong 2 "job.toml: pipeline: chunks: 2 on each of 2 stages: expected at most 1, as the model has 2 blocks" \
    run job.toml --set mesh.pipeline=2 --set pipeline.schedule=interleaved
wrong 2 "--set: pipeline: split: 3 blocks in 2 parts: expected the 2 blocks of the model in 2" \
    run job.toml --set mesh.pipeline=2 --set pipeline.split=[1,2]
wrong 2 "--set: batch: groups: 1: expected mesh.data, 2, times a power of two" \
    run job.toml --set mesh.data=2 --set batch.groups=1
wrong 2 "--set: zero: reduce: micro: expected a stage of 1 to 3, which keeps shards of the sum" \
    run job.toml --set mesh.data=2 --set zero.reduce=micro
"$dsflow" -q run job.toml --set memory.device=1KiB > out 2> err
status=$?
[ $status -eq 2 ] && [ "$(said | wc -l)" -eq 1 ] && [ ! -s out ] &&
    grep -q "^dsflow: --set: memory: device: rank 0 needs .* (parameters .*) and has 1.0 KiB" err ||
    fault "a budget that is too small: status $status: $(cat err)"
cases=$((cases + 1))

# Larger memories.
set_wrong offload.optimizer disk 'offload: optimizer: "disk": expected none, cpu or nvme'
set_wrong offload.piece 0 "offload: piece: 0 B: expected a size of 4KiB or more"
set_wrong offload.piece auto "offload: piece: auto: expected a size of 4KiB or more"
set_wrong compress.gradients int3 'compress: gradients: "int3": expected none, bf16, int8, int4 or sign'
set_wrong compress.params sign 'compress: params: "sign": expected none, bf16, int8 or int4'
set_wrong compress.block 40 "compress: block: 40: expected a multiple of 16"
set_wrong compress.block 8192 'compress: block: 8192: expected "auto", or 16 to 4096'
wrong 2 "--set: compress: gradients: int8: expected none where precision.gradients is not fp32, as what is coded was rounded before" \
    plan job.toml --set compress.gradients=int8 --set precision.compute=bf16 --set precision.gradients=bf16
wrong 2 "--set: compress: params: int4: expected none where precision.master is false, as masters have to stay exact" \
    plan job.toml --set compress.params=int4 --set precision.compute=bf16 --set precision.master=false
set_wrong compress.error int4 'compress: error: "int4": expected none, fp32 or int8'
set_wrong compress.error_beta 1.5 "compress: error_beta: 1.5: expected a number, 0 to 1"
set_wrong compress.error_reset -1 "compress: error_reset: -1: expected a whole number, 0 to 2147483647"
wrong 2 "--set: compress: error: int8: expected none where zero.reduce is micro and the head is tied, as its gradients are then sent apart" \
    plan job.toml --set compress.gradients=int4 --set compress.error=int8 --set zero.reduce=micro --set model.tied=true
wrong 2 "--set: compress: node: 3: expected a divisor of the 4 batch.groups" \
    plan job.toml --set compress.gradients=int8 --set batch.groups=4 --set compress.node=3
set_wrong compress.embedding sparse 'compress: embedding: "sparse": expected dense or rows'
set_wrong compress.node 0 'compress: node: 0: expected "auto", or 1 to 65536'
wrong 2 "--set: compress: secondary: 2: expected zero.stage = 3: else ranks have all parameters" \
    plan job.toml --set mesh.data=4 --set zero.stage=2 --set compress.secondary=2
wrong 2 "--set: compress: secondary: 3: expected a divisor of the 4 data ranks" \
    plan job.toml --set mesh.data=4 --set zero.stage=3 --set compress.secondary=3
set_wrong precision.gradients fp16 'precision: gradients: "fp16": expected fp32 or bf16'
set_wrong precision.loss_scale -1 "precision: loss_scale: -1: expected a number, 0 to 1e+10"
set_wrong precision.initial_scale inf "precision: initial_scale: inf: expected a number, 0.0001 to 1e+10"
set_wrong model.window -1 "model: window: -1: expected \"auto\", or 0 to 1048576"
set_wrong precision.scale_window 0 "precision: scale_window: 0: expected a whole number, 1 to 1000000000"
set_wrong precision.hysteresis 0 "precision: hysteresis: 0: expected a whole number, 1 to 1000000"
set_wrong precision.min_scale 0 "precision: min_scale: 0: expected a number, 0.0001 to 1e+10"
set_wrong precision.consecutive_hysteresis 2 "precision: consecutive_hysteresis: 2: expected true or false"
wrong 2 "--set: precision: initial_scale: 0.5: expected at least the 1 of precision.min_scale" \
    run job.toml --set precision.compute=fp16 --set precision.initial_scale=0.5
set_wrong offload.share 2 'offload: share: 2: expected "auto", or a number, 0 to 1'
set_wrong memory.nvme.block 0 "memory.nvme: block: 0 bytes: expected a multiple of 4KiB, at most 1GiB"
set_wrong memory.nvme.block 5000 "memory.nvme: block: 5000 bytes: expected a multiple of 4KiB, at most 1GiB"
set_wrong memory.nvme.block 2GiB "memory.nvme: block: 2147483648 bytes: expected a multiple of 4KiB, at most 1GiB"
for key in optimizer params gradients activations; do
    set_wrong offload.$key nvme "offload: $key: nvme: expected a folder or more in memory.nvme.path"
done
set_path() {
    wrong 2 "--set: memory.nvme: path: $2" run job.toml --set offload.optimizer=nvme --set memory.nvme.path="$1"
    wrong 2 "--set: memory.nvme: path: $2" plan job.toml --set offload.optimizer=nvme --set memory.nvme.path="$1"
}
set_path no-such "no-such: No such file or directory"
set_path text.txt "text.txt: is no folder"
set_path '["folder", "no-such"]' "no-such: No such file or directory"
if [ "$(id -u)" -ne 0 ]; then
    mkdir -m 555 shut
    set_path shut "shut: Permission denied"
fi
# A line of the file is named where the key is in it.
{ cat job.toml; printf '[offload]\noptimizer = "nvme"\n[memory.nvme]\npath = "no-such"\n'; } > nvme.toml
wrong 2 "nvme.toml:$(wc -l < nvme.toml): memory.nvme: path: no-such: No such file or directory" run nvme.toml

# lacks KEY PATTERN SETS...: a budget that is too small, in one line.
lacks() {
    key=$1 pattern=$2
    shift 2
    timeout 60 "$dsflow" -q run job.toml "$@" > out 2> err
    status=$?
    [ $status -eq 2 ] && [ "$(said | wc -l)" -eq 1 ] && [ ! -s out ] &&
        grep -q "^dsflow: --set: $key: $pattern" err ||
        fault "too small, $*: status $status: $(cat err)"
    cases=$((cases + 1))
}
nvme="--set memory.nvme.path=folder --set offload.optimizer=nvme"
lacks "memory: device" "rank 0 needs .* (parameters .*) and has 0 B" --set memory.device=0
lacks "memory: device" '.*offload.optimizer = "cpu" would fit' --set memory.device=1MiB
lacks "memory: host" "rank 0 needs .* (states .*) and has 0 B" --set memory.host=0 --set offload.optimizer=cpu
for sets in "" "--set batch.micro=auto"; do
    lacks "memory: host" "1000.0 TiB: expected at most [0-9.]* [GM]iB, as rank 0 needs [0-9.]* MiB beside it and there are [0-9.]* [GM]iB for both\$" --set memory.host=1000TiB $sets
done
lacks "memory: host" '.* has 200.0 KiB; offload.optimizer = "nvme".* would fit' --set memory.host=200KiB --set offload.optimizer=cpu
lacks "memory: host" ".* has 150.0 KiB; offload.read_ahead = 0.* would fit" --set memory.host=150KiB $nvme --set offload.piece=64KiB
lacks "memory.nvme: size" "[0-9.]* KiB are needed (states .*) and there are 0 B" --set memory.nvme.size=0 $nvme --set offload.piece=8KiB
lacks "memory.nvme: size" ".* and there are 40.0 KiB" --set memory.nvme.size=40KiB $nvme --set offload.piece=8KiB
lacks "memory: host" "rank 0 needs .* (states .*) and has 0 B" --set memory.host=0 --set offload.optimizer=cpu --set offload.share=auto --set memory.device=1500KiB
lacks "memory: device" "rank 0 needs .* and has 1.2 MiB" --set offload.optimizer=cpu --set offload.share=auto --set memory.device=1200KiB

# Models and tokenizers.
mkdir hf
wrong 2 '--set: data: tokenizer: none: No such file or directory; expected "bytes", a tokenizer.json or a folder' \
    run job.toml --set data.tokenizer=none
wrong 2 "--set: data: tokenizer: hf: no tokenizer here; expected tokenizer.json, or encoder.json and vocab.bpe, or vocab.json and merges.txt" \
    run job.toml --set data.tokenizer=hf
echo '{"model_type": "bert"}' > hf/config.json
wrong 2 'hf/config.json: model_type: "bert": expected gpt2, llama, mistral or qwen2' run job.toml --set model.init=hf
echo '{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 48, "vocab_size": 256}' > hf/config.json
wrong 2 "hf: has no model.safetensors, nor model.safetensors.index.json and the files it names" run job.toml --set model.init=hf
printf '\377\377\0\0\0\0\0\0{}' > hf/model.safetensors
wrong 2 "hf/model.safetensors: a header of 65535 bytes in a file of 10 (is the file truncated?)" run job.toml --set model.init=hf
printf '\106\0\0\0\0\0\0\0{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}         ' > hf/model.safetensors
wrong 2 "hf/model.safetensors: a: bytes 0 to 8: expected within the 0 bytes of data (is the file truncated?)" run job.toml --set model.init=hf
sed 's/"n_layer": 2/"n_layer": 3/' hf/config.json > c && mv c hf/config.json
wrong 2 "--set: model: layers: 2: config.json in hf says 3" run job.toml --set model.init=hf --set model.layers=2

# Text.
: > empty.txt
set_text() {
    "$dsflow" -q run job.toml --set data.train="$1" > out 2> err
    [ $? -eq 2 ] && [ "$(said | wc -l)" -eq 1 ] && grep -qF -e "$2" err ||
        fault "text $1: $(cat err)"
    cases=$((cases + 1))
}
set_text empty.txt "--set: data: train: empty.txt: is empty; expected text"
set_text nothing.txt "nothing.txt"
set_text "" '--set: data: train: "": expected a file'
set_text "*.nothing" "*.nothing"
{ cat text.txt && printf '\0' && cat text.txt; } > binary.txt
set_text binary.txt "--set: data: train: binary.txt: is no text: a NUL byte at offset $(($(wc -c < text.txt)))"
echo "short" > short.txt
set_text short.txt "expected at least 49"

# What can be known early takes no time: a graph of a hundred million tasks, a
# model of many terabytes, whose plans would be tried for minutes.
wrong 2 "job.toml:12: data: train: 26407 tokens in 1 file: expected at least 1048577, for one sequence" \
    run job.toml --set model.context=1048576 --set batch.sequence=auto
# early PATTERN COMMAND SETS...: one line like this.
early() {
    pattern=$1
    shift
    timeout 60 "$dsflow" -q "$@" > out 2> err
    status=$?
    [ $status -eq 2 ] && [ "$(said | wc -l)" -eq 1 ] && [ ! -s out ] && grep -q "$pattern" err ||
        fault "early, $*: status $status: $(cat err)"
    cases=$((cases + 1))
}
early "^dsflow: job.toml: batch: tile: a step has about .* million tasks: expected at most .* million here; fewer layers or micro-batches would fit$" \
    run job.toml --set batch.sequences=30000 --set model.layers=1000
early "^dsflow: job.toml: batch: tile: a step has about .* million tasks: expected at most .* million here; batch.tile = .* would fit$" \
    plan job.toml --set data.train=none.txt --set model.layers=1024 --set model.width=65536 --set model.heads=1024 \
    --set model.context=1048576 --set batch.sequence=auto
huge="--set model.width=65536 --set model.layers=1024 --set model.heads=512"
early "^dsflow: --set: model: width: 65536: 52.8 trillion parameters take .* TiB with the states of adamw: this machine has .* of memory and .* of free disk$" \
    run job.toml $huge
timeout 60 "$dsflow" plan job.toml $huge > out 2> err
[ $? -eq 2 ] && grep -q "nor does it fit" err || fault "the plan of a model of terabytes: $(cat err)"
# The text need not be here to plan, but if it is, it is said that it is short.
"$dsflow" plan job.toml --set model.context=20000 --set batch.sequence=auto > out 2> err ||
    fault "a plan for a text that is too short: $(cat err)"
grep -q "warning: job.toml: data: validation: .*expected at least 20001" err ||
    fault "a text that is too short to plan for: $(cat err)"
# Before the machine is measured, too.
XDG_CACHE_HOME=$here/cold wrong 2 "--set: mesh: data: 3: expected a divisor of the 4 micro-batches of a step (batch: sequences / micro)" \
    run job.toml --set mesh.data=3 --set batch.micro=auto
[ -e cold ] && fault "the machine was measured for a batch that does not split"

# Folders and disks.
: > file
wrong 2 "--set: job: output: file/run: Not a directory" run job.toml --set job.output=file/run
if [ "$(id -u)" -ne 0 ]; then
    mkdir -m 555 readonly
    wrong 2 "--set: job: output: readonly/run: Permission denied" run job.toml --set job.output=readonly/run
fi
# A run that diverges: the sign of a NaN says nothing.
"$dsflow" run job.toml --set job.output=diverged --set optimizer.kind=sgd --set optimizer.lr=1000 \
    --set optimizer.clip=0 --set schedule.kind=constant --set schedule.warmup=0 --set job.steps=30 --set job.log_every=1 > out 2> err
[ $? -eq 1 ] && grep -q "^dsflow: step [0-9]*: the loss is nan and the gradient's norm nan: " err || fault "a run that diverges: $(cat err)"
grep -q -e "-nan" out err diverged/metrics.jsonl && fault "a NaN with a sign: $(grep -e "-nan" out err diverged/metrics.jsonl)"
cases=$((cases + 1))

run full
rm -rf full.before && cp -r full full.before
(
    ulimit -f 60
    "$dsflow" run job.toml --set job.output=full --set job.steps=12 --resume > out 2> err
    echo $? > status
)
[ "$(cat status)" -eq 2 ] && grep -q "raise the limit" err ||
    fault "a full disk: status $(cat status): $(cat err)"
cmp full/checkpoints/latest full.before/checkpoints/latest || fault "a full disk lost a checkpoint"
# The same in the middle of a run.
if command -v prlimit > /dev/null; then
    "$dsflow" run job.toml --set job.output=full --set job.steps=100000 \
        --set schedule.total=20 --resume > out 2> err &
    pid=$!
    until_line '"step":11,' full/metrics.jsonl || fault "no step 11: $(cat err)"
    prlimit --pid $pid --fsize=40000
    kill -INT $pid
    wait $pid
    status=$?
    [ $status -eq 1 ] && grep -q "cannot be written\|File too large" err ||
        fault "a disk that fills: status $status: $(cat err)"
fi
"$dsflow" checkpoint verify full > out 2>&1 || fault "a full disk damaged: $(cat out)"
cases=$((cases + 1))

[ $cases -ge 40 ] || fault "only $cases cases"
echo "$cases cases"
finish
