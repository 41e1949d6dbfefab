# masters.sh - parameters in bf16 without masters: losses are near those with
# them, checkpoints hold the numbers exactly, and a run goes on bit for bit.
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
. "${srcdir:-.}/tests/cli/lib.sh"
bf16="--set precision.compute=bf16 --set batch.groups=2 --set optimizer.lr=0.003
    --set job.steps=20 --set schedule.total=20"
bare="$bf16 --set precision.master=false"

run with $bf16
run bare $bare --executor serial
run bare-w $bare --set machine.workers=2 --set mesh.data=2 --set zero.stage=2
same bare bare-w
run bare-r $bare --set job.steps=8
run bare-r $bare --resume
same bare bare-r

python3 - << 'END' || fault "python3 ended with $?"
import json, struct

def losses(run):
    lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
    return [line["loss"] for line in lines if "loss" in line and "step" in line]

def narrow(run):
    """How many of the numbers of layer0.out are those of bf16, and how many there are."""
    bytes = open(run + "/checkpoints/step-20/params.safetensors", "rb").read()
    size, = struct.unpack("<Q", bytes[:8])
    tensor = json.loads(bytes[8:8 + size])["layer0.out"]
    assert tensor["dtype"] == "F32", tensor
    a, b = (8 + size + at for at in tensor["data_offsets"])
    words = struct.unpack("<%dI" % ((b - a) // 4), bytes[a:b])
    return sum(word & 0xffff == 0 for word in words), len(words)

near = [abs(a / b - 1) for a, b in zip(losses("with"), losses("bare"))]
assert len(near) >= 20 and 0 < max(near) < 0.01, near
n, all = narrow("bare")
assert n == all, (n, all)
n, all = narrow("with")
assert n < all / 2, (n, all)
END

# They get masters again, and lose them, which is named.
for key in true false; do
    "$dsflow" run job.toml $bf16 --set job.output=bare --set precision.master=$key \
        --set job.steps=$([ $key = true ] && echo 22 || echo 24) --resume > log 2>&1 ||
        fault "master = $key: $(cat log)"
    grep -q "warning: precision.master: .* in the run, now $key: it goes on from" log ||
        fault "master = $key: $(cat log)"
done
finish
