# show.sh - dsflow checkpoint show: what a file or folder is, and what is in it.
# The files of torch.save are those of tests/reference/torch.
src=$(cd "${srcdir:-.}" && pwd)
. "$src/tests/cli/lib.sh"
torch=$src/tests/reference/torch

# seen TEXT WORDS...: the command ends well, and has TEXT in one of its lines.
seen() {
    text=$1
    shift
    "$dsflow" checkpoint show "$@" > out 2> err || fault "show $*: $(cat err)"
    grep -qF -- "$text" out || fault "show $*: no $text: $(head -20 out)"
}

refused() {
    text=$1
    shift
    "$dsflow" checkpoint show "$@" > out 2> err
    [ $? -eq 2 ] || fault "show $*: expected status 2"
    grep -qF -- "$text" err || fault "show $*: no $text: $(cat err)"
    [ "$(wc -l < err)" -eq 1 ] || fault "show $*: not one line: $(cat err)"
}

# One file.
seen "kinds.pt: what torch.save wrote, 3.5 KiB" "$torch/kinds.pt"
seen "  namespace  Namespace(layers=2, name=\"x\")" "$torch/kinds.pt"
seen "  object     slice(1, 2, None)" "$torch/kinds.pt"
seen "  fortran    fp64  [3, 4]" "$torch/kinds.pt"
seen "  big        [0x8000000000000000, -0x400000000000000000, " "$torch/kinds.pt"
seen "transposed  fp32  [5, 6]" "$torch/stream.pt"
seen "gradients.safetensors: safetensors" "$src/tests/reference/gpt2/gradients.safetensors"
seen "transformer.h.0.attn.c_attn.bias" "$src/tests/reference/gpt2/gradients.safetensors"

# Folders are known by the names in them.
seen "gpt2: a model of Hugging Face's" "$src/tests/reference/gpt2"
mkdir -p ds/global_step3 meg/iter_0000020/mp_rank_00_000 meg/iter_0000020/mp_rank_00_001 \
    universal/u/zero/a.weight distcp
for d in 0 1 2 3; do
    cp "$torch/kinds.pt" ds/global_step3/zero_pp_rank_${d}_mp_rank_00_optim_states.pt
    cp "$torch/kinds.pt" ds/global_step3/zero_pp_rank_${d}_mp_rank_01_optim_states.pt
done
cp "$torch/kinds.pt" ds/global_step3/mp_rank_00_model_states.pt
cp "$torch/kinds.pt" ds/global_step3/mp_rank_01_model_states.pt
printf global_step3 > ds/latest
seen "ds/global_step3: a checkpoint of DeepSpeed, ZeRO 1, DP 4 x TP 2 x PP 1" ds
seen "zero_pp_rank_0_mp_rank_00_optim_states.pt  3.5 KiB, the first of 8" ds
seen "mp_rank_00_model_states.pt  3.5 KiB, the first of 2" ds --tag global_step3
refused "ds: has no folder global_step9" ds --tag global_step9
for l in 00 01 02; do
    cp "$torch/kinds.pt" ds/global_step3/layer_$l-model_00-model_states.pt
done
seen "DP 4 x TP 1 x PP 2" ds
seen "layer_02-model_00-model_states.pt" ds
for p in 0 1; do
    cp "$torch/stream.pt" meg/iter_0000020/mp_rank_00_00$p/model_optim_rng.pt
done
printf 20 > meg/latest_checkpointed_iteration.txt
seen "meg/iter_0000020: a checkpoint of Megatron, version 0, TP 1 x PP 2" meg
touch distcp/__0_0.distcp distcp/.metadata
seen "torch_dist" distcp
refused "expected a run or checkpoint of dsflow" universal
refused "text.txt: expected a file that torch.save wrote" text.txt
refused "none: No such file" none
head -c 2000 "$torch/kinds.pt" > cut.pt
refused "cut.pt: a damaged zip archive" cut.pt

# dsflow's own.
job > job.toml
"$dsflow" run job.toml -q --steps 2 > log 2>&1 || fault "run: $(cat log)"
seen "run: a run of dsflow" run
seen "run/checkpoints/step-2" run
seen "layer0.qkv" run/checkpoints/step-2

# A name may be anything: a terminal gets one line of it, JSON what it can have.
odd=$(printf 'a\nb\033[2J\377')
"$dsflow" checkpoint export run u --deepspeed > log 2>&1 || fault "export: $(cat log)"
cp -r u/global_step2_universal/zero/transformer.wte.weight "u/global_step2_universal/zero/$odd"
mv u "$odd"
seen "a?b?[2J?/global_step2_universal: a universal checkpoint of DeepSpeed" "$odd"
seen "  a?b?[2J?  " "$odd"
"$dsflow" checkpoint import "$odd" job.toml --set job.output=i > log 2>&1
[ $? -eq 2 ] && [ "$(wc -l < log)" -eq 2 ] && grep -q '^dsflow: a?b?\[2J?: \[256, 32\]: the model of the job has no place for it$' log ||
    fault "import of another name: $(cat -v log)"
cp run/checkpoints/step-2/params.safetensors "$odd.safetensors"
for path in "$odd" "$odd.safetensors"; do
    "$dsflow" checkpoint show "$path" --json > odd.json || fault "show --json of another name"
    [ "$(head -c 2 odd.json)" = "{" ] && grep -q '"path": "a?b?\[2J?' odd.json || fault "JSON of another name: $(head -3 odd.json | cat -v)"
done

# JSON has all of it.
if command -v python3 > python; then
    "$dsflow" checkpoint show ds --json > ds.json || fault "show --json"
    python3 - << 'END' || fault "not the JSON that is expected: $(head -30 ds.json)"
import json
d = json.load(open("ds.json"))
assert d["kind"] == "deepspeed" and (d["data"], d["tensor"], d["pipeline"]) == (4, 1, 2), d
tree = d["files"][-1]["tree"]
assert tree["array"] == {"dtype": "fp32", "shape": [3, 4]}, tree["array"]
assert tree["object"]["class"] == "builtins.slice"
assert len(tree["ints"]) == 9
END
fi
finish
