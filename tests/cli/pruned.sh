# pruned.sh - a smaller model of parts of another: what stays is as it was, it
# trains on, and what cannot be left out is refused.
. "${srcdir:-.}/tests/cli/lib.sh"
llama="--set model.family=llama --set model.heads=4 --set model.kv_heads=2 --set model.layers=3"
run gpt2
run llama $llama

# export RUN FOLDER ARGS...
export_() {
    "$dsflow" checkpoint export "$@" > log 2>&1 || fault "export $*: $(cat log)"
}

weights_same() {
    cmp "$1/model.safetensors" "$2/model.safetensors" || fault "$1 and $2 have other weights"
}

# All of it is what it was; layers that are turned round twice are, too.
export_ llama all
export_ llama same --layers 0-2 --heads 4 --ffn-width 128
weights_same all same
export_ llama turned --layers 2,1,0
export_ turned back --layers 2,1,0
weights_same all back
! cmp -s all/model.safetensors turned/model.safetensors || fault "layers stayed where they were"

# What a text is worth to a folder, as a job of it says.
sed -e '/^\[model\]/,/^\[/{/^\[/!d}' -e 's/^\[model\]/&\ninit = "HERE"/' job.toml > of.toml
loss() {
    loss_of of.toml --step 0 --set model.init="$1" --set job.output=none
}

# Fewer heads and columns: said in config.json, and it trains on, with ZeRO too.
export_ llama small --layers 0,2 --heads 2 --ffn-width 50
grep -q "^small: the model of step 10, layers 2 of 3, heads 2 of 4, ffn_width 50 of 128$" log ||
    fault "export said: $(cat log)"
for key in '"num_hidden_layers": 2,' '"num_attention_heads": 2,' '"num_key_value_heads": 1,' \
    '"intermediate_size": 50,' '"head_dim": 8,' '"hidden_size": 32,'; do
    grep -q "$key" small/config.json || fault "config.json has no $key: $(cat small/config.json)"
done
[ "$(loss small)" != "$(loss all)" ] || fault "nothing went"
for n in 1 2; do
    "$dsflow" run of.toml --set model.init=small --set job.output=on$n --set batch.groups=2 \
        --set mesh.data=$n --set zero.stage=$((n * 3 - 3)) > log 2>&1 || fault "small: $(cat log)"
done
same on1 on2

# A folder has no moments; a run at rate 0 finds them, and changes no weight.
refused() {
    text=$1
    shift
    "$dsflow" checkpoint export "$@" new > log 2>&1
    [ $? -eq 2 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q "^dsflow: $text" log ||
        fault "$*: $(cat log)"
    [ ! -e new ] || fault "$*: left a folder"
}
export_ gpt2 wide
refused "the model has not been trained here: expected a run, whose optimizer knows" wide --ffn-width 100
"$dsflow" run of.toml --set model.init=wide --set optimizer.lr=0 --set job.output=rated > log 2>&1 ||
    fault "at rate 0: $(cat log)"
export_ rated rated-all
weights_same rated-all wide
export_ rated rated-narrow --ffn-width 100
grep -q '"n_inner": 100' rated-narrow/config.json || fault "n_inner: $(cat rated-narrow/config.json)"

# Of windows, those of the layers that stay; none where none of these has one.
run window $llama --set model.window=8 --set model.qkv_bias=true --set model.window_layers=2
export_ window slides --layers 2,0
grep -q '"sliding_attention"' slides/config.json && grep -q '"sliding_window": 8' slides/config.json ||
    fault "no window: $(cat slides/config.json)"
export_ window sees-all --layers 0,1
! grep -q sliding sees-all/config.json || fault "a window: $(cat sees-all/config.json)"

run muon --set optimizer.kind=muon
refused "transformer.h.0.mlp.c_proj.weight: the optimizer keeps no squares of its gradients" muon --ffn-width 100
run sgd --set optimizer.kind=sgd
refused "heads: 3: expected a multiple of 2" window --heads 3
refused "sgd/checkpoints/step-10: optimizer sgd keeps no squares of the gradients of layer0.out," sgd --ffn-width 100
refused "heads: 1: expected 2: those of a gpt2 have its width between them" gpt2 --heads 1
refused "heads: 3: expected a multiple of 2, the heads that share a head of keys" llama --heads 3
refused "--heads: 5: expected a whole number, 1 to 4" llama --heads 5
refused "--ffn-width: 0: expected a whole number, 1 to 128" llama --ffn-width 0
refused "--layers: 0-3: expected at most 1024 of layers 0 to 2, such as 0-5,8" llama --layers 0-3
refused "checkpoint export: --layers, --heads and --ffn-width: a universal folder" llama --layers 0 --deepspeed
refused "checkpoint export: --deepspeed: wide is a Hugging Face folder" wide --deepspeed
refused "--step: wide is a Hugging Face folder and has no steps" wide --step 3
finish
