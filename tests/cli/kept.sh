# kept.sh - what a plug-in keeps by rank, by unit and by worker, in two bytes, goes
# into checkpoints, and a run that goes on has it back bit for bit; numbers that
# have names stand in the manifest.
command -v python3 > /dev/null || { echo "there is no python3"; exit 77; }
. "${srcdir:-.}/tests/cli/lib.sh"
cd - > /dev/null || exit 99
source=$(cd "${srcdir:-.}" && pwd)
cd "$here" || exit 99

# CC may hold options.
${CC:-cc} -I "$source/include" -Wall -Wextra -Wno-unused-parameter -Werror \
    -Wno-missing-field-initializers -shared -fPIC -o libdrift.so "$source/tests/plugin/drift.c" || exit 99
cp job.toml plain.toml
sed -i '/^\[model\]/i [codelets]\nload = ["./libdrift.so"]' job.toml
sed 's/^micro = .*/&\ngroups = 2/' job.toml > new && mv new job.toml

# drift OUTPUT: the numbers of it in the newest checkpoint, and their type.
drift() {
    python3 - "$1/checkpoints/$(cat "$1/checkpoints/latest")/states.safetensors" << 'END'
import json, struct, sys
bytes = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", bytes[:8])
head = json.loads(bytes[8:8 + size])
for name in sorted(head):
    if name.startswith("drift"):
        a, b = head[name]["data_offsets"]
        print(name, head[name]["dtype"], head[name]["shape"], bytes[8 + size + a:8 + size + b].hex())
END
}

# What six steps of it give, computed here.
expected() {
    python3 - << 'END'
import struct
def cut(f):
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", f)[2:])[0]
k = {f"drift.r{r}": r for r in range(2)}
k |= {f"drift_worker.r{r}.w{w}": 10 * r + w for r in range(2) for w in range(2)}
k |= {"drift_unit.embed": 100, "drift_unit.layer0.qkv": 101}
for name in sorted(k):
    x = [0.0] * 12
    for step in range(6):
        x = [cut(0.75 * v + i + 1 + k[name]) for i, v in enumerate(x)]
    print(name, "BF16 [3, 4]", b"".join(struct.pack("<f", v)[2:] for v in x).hex())
END
}

run whole --set mesh.data=2 --set job.steps=6 --set schedule.total=10
expected > want
drift whole > got
cmp -s want got || fault "after 6 steps: $(cat got), not $(cat want)"
for executor in serial starpu; do
    rm -rf parts
    run parts --set mesh.data=2 --set job.steps=3 --set schedule.total=10
    drift parts > three
    cmp -s three got && fault "3 steps give what 6 do"
    run parts --set mesh.data=2 --set job.steps=6 --set schedule.total=10 --resume --executor $executor
    same whole parts
done
for thing in '"kept.drift": "12 bf16 by rank of 2"' '"kept.drift_unit": "12 bf16 by unit"' \
    '"kept.drift_worker": "12 bf16 by worker of 2"'; do
    grep -qF "$thing" whole/checkpoints/step-6/manifest.json ||
        fault "the checkpoint does not say what it keeps: $(cat whole/checkpoints/step-6/manifest.json)"
done

# Another number of ranks: said, and begun anew where that is asked for.
"$dsflow" run job.toml --set job.output=whole --set job.steps=8 --resume > log 2>&1 &&
    fault "what is by rank goes on with another number of ranks"
grep -q "^dsflow: warning: kept.drift: 12 bf16 by rank of 2 in the run, now 12 bf16 by rank of 1: what is kept for it begins anew" log ||
    fault "another number of ranks: $(cat log)"
cp -r whole fewer
run fewer --set job.steps=8 --resume=changed
drift fewer | cut -d' ' -f1 > names
printf '%s\n' drift.r0 drift_unit.embed drift_unit.layer0.qkv drift_worker.r0.w0 drift_worker.r0.w1 |
    cmp -s - names || fault "one rank has: $(drift fewer)"

# Without the plug-in the rest goes on; with it again, it begins as zeroes.
sed 's/^micro = .*/&\ngroups = 2/' plain.toml > new && mv new plain.toml
# (The run's own job would bring it.)
cp -r whole without
rm without/job.toml
"$dsflow" run plain.toml --set job.output=without --set mesh.data=2 --set job.steps=7 --set schedule.total=10 --resume > log 2>&1 ||
    fault "without the plug-in: $(cat log)"
[ -z "$(drift without)" ] || fault "without the plug-in: $(drift without)"
run without --set mesh.data=2 --set job.steps=8 --set schedule.total=10 --resume
grep -q "has not all of drift: it begins as zeroes" log || fault "with it again: $(cat log)"

# Numbers with names: whoever reads them need not know the structure.
for number in control.step:6 cursor.step:6 cursor.first:0 control.scale: control.lr:; do
    grep -q "\"${number%:*}\": \"${number#*:}" whole/checkpoints/step-6/manifest.json ||
        fault "the manifest has no $number: $(cat whole/checkpoints/step-6/manifest.json)"
done
cp -r whole wrong
sed -i 's/"control.lr": "[^"]*"/"control.lr": "fast"/' wrong/checkpoints/step-6/manifest.json
"$dsflow" run job.toml --set job.output=wrong --set mesh.data=2 --set job.steps=8 --set schedule.total=10 --resume > log 2>&1 &&
    fault "a number that is none is accepted"
grep -q "^dsflow: wrong/checkpoints/step-6/manifest.json: numbers: control.lr: fast: expected a number" log ||
    fault "a number that is none: $(cat log)"
finish
