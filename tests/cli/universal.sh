# universal.sh - a checkpoint as a universal folder of DeepSpeed.
. "${srcdir:-.}/tests/cli/lib.sh"
job > job.toml
"$dsflow" run job.toml -q > log 2>&1 || fault "run: $(cat log)"
"$dsflow" checkpoint export run u --deepspeed > out 2> err || fault "export: $(cat err)"
grep -qF "u: a universal checkpoint of step 10, for DeepSpeed" out || fault "it says: $(cat out)"
[ "$(cat u/latest_universal)" = global_step10_universal ] || fault "latest_universal: $(cat u/latest_universal)"
at=u/global_step10_universal

# It is known as what it is, with the names of the model's export.
"$dsflow" checkpoint show u --json > u.json 2> err || fault "show: $(cat err)"
"$dsflow" checkpoint export run hf --dtype fp32 > log 2>&1 || fault "export: $(cat log)"
"$dsflow" checkpoint show hf --json > hf.json 2> err || fault "show: $(cat err)"
for file in fp32 exp_avg exp_avg_sq step; do
    [ -s "$at/zero/transformer.h.1.mlp.c_fc.weight/$file.pt" ] || fault "no $file.pt"
done

# Archives are sound to a program that is not dsflow's; all numbers are those of the
# Hugging Face folder; moments and step are where DeepSpeed looks.
if command -v python3 > python; then
    python3 - "$at" << 'END' || fault "not the folder that is expected"
import glob, json, struct, sys, zipfile
at = sys.argv[1]
shown, hf = json.load(open("u.json")), json.load(open("hf.json"))
assert shown["kind"] == "universal" and shown["tag"] == "global_step10_universal"
tree = hf["files"][0]["tree"]
assert {n: t["shape"] for n, t in shown["parameters"].items()} == {n: t["shape"] for n, t in tree.items()}
def numbers(path):
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None, path
        top = z.namelist()[0].split("/")[0]
        entry = z.getinfo(top + "/data/0")
        head = open(path, "rb").read()[entry.header_offset:]
        name, extra = struct.unpack("<HH", head[26:30])
        assert (entry.header_offset + 30 + name + extra) % 64 == 0, path
        return z.read(entry)
raw = open("hf/model.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8:8 + n])
for name in tree:
    a, b = header[name]["data_offsets"]
    assert numbers(f"{at}/zero/{name}/fp32.pt") == raw[8 + n + a:8 + n + b], name
    for state in ("exp_avg", "exp_avg_sq"):
        x = numbers(f"{at}/zero/{name}/{state}.pt")
        assert len(x) == b - a and any(x), (name, state)
    assert numbers(f"{at}/zero/{name}/step.pt") == struct.pack("<f", 10)
assert len(glob.glob(at + "/zero/*/")) == len(tree)
model = shown["files"][0]["tree"]
assert (model["global_steps"], model["skipped_steps"], model["global_samples"]) == (10, 0, 40), model
assert model["lr_scheduler"]["last_batch_iteration"] == 9
assert model["universal_checkpoint_info"]["universal_checkpoint_version"] == 0.4
END
fi

# And back here: every byte of the checkpoint.
sed 's/^output = .*/output = "back"/' job.toml > back.toml
"$dsflow" checkpoint import u back.toml > log 2>&1 || fault "import: $(cat log)"
for file in params states; do
    cmp "run/checkpoints/step-10/$file.safetensors" "back/checkpoints/step-10/$file.safetensors" ||
        fault "another $file"
done

# Another step, and what is refused.
"$dsflow" run job.toml -q --resume --steps 12 > log 2>&1 || fault "resume: $(cat log)"
"$dsflow" checkpoint export run u10 --deepspeed --step 10 > log 2>&1 || fault "step 10: $(cat log)"
for state in fp32 exp_avg; do
    cmp -s "$at/zero/transformer.wte.weight/$state.pt" \
        "u10/global_step10_universal/zero/transformer.wte.weight/$state.pt" || fault "another $state of step 10"
done
refused() {
    text=$1
    shift
    "$dsflow" checkpoint export "$@" > out 2> err
    [ $? -eq 2 ] || fault "export $*: expected status 2"
    grep -qF -- "$text" err || fault "export $*: no $text: $(cat err)"
}
refused "expected a new or empty folder" run u --deepspeed
refused "has no checkpoint of step 7" run v --deepspeed --step 7
refused "a universal folder (--deepspeed) has fp32" run v --deepspeed --dtype bf16
refused "model.heads is 2 in it, and 4 in the job: its weights do not fit" run v --deepspeed --set model.heads=4
refused "none: has no checkpoint: train it first" job.toml v --deepspeed --set job.output=none
refused "lion: expected adamw or adam" job.toml v --deepspeed --set optimizer.kind=lion
[ -e v ] && fault "something was written"
# Files may not become that long.
for kind in --dtype=fp32 --deepspeed; do
    (ulimit -f 8 && exec "$dsflow" checkpoint export run v $kind) > log 2>&1
    [ $? -eq 1 ] && [ "$(wc -l < log)" -eq 1 ] && grep -q "^dsflow: v.tmp-.*: cannot be written: File too large" log ||
        fault "a limit, $kind: $(cat log)"
done
(ulimit -f 8 && exec "$dsflow" checkpoint import u back.toml --set job.output=v) > log 2>&1
[ $? -eq 1 ] && [ "$(grep -vc warning log)" -eq 1 ] && grep -q "^dsflow: .*: File too large" log || fault "a limit, import: $(cat log)"
[ -z "$(ls -d ./*.tmp-* v 2> err)" ] || fault "left behind: $(ls)"
finish
