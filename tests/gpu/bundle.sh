# bundle.sh - gpu-bundle/run on GPUs that are not there: what it finds, keeps and
# says, and that a part that fails is not the end.
command -v python3 > /dev/null || exit 77
build=$PWD
scripts=$(cd "${srcdir:-.}/scripts/gpu-bundle" && pwd) || exit 99
. "${srcdir:-.}/tests/cli/lib.sh"
known=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/dsflow/machine.toml

# A bundle without its libraries: programs are where they were built.
mkdir bin lib text
cp "$scripts"/*.py "$scripts/run" .
ln -s "$(command -v dsflow)" "$build/tests/gpu/test_module" bin/
mv text.txt text/
echo "what is packed" > lib/packed.so && gzip lib/packed.so

# Without a GPU: one line.
wrong() {
    said=$(env "$@" python3 ./run 2>&1)
    [ $? -eq 77 ] || fault "$*: the status is not 77: $said"
    [ "$(echo "$said" | wc -l)" -eq 1 ] || fault "$*: $said"
}
module=$build/tests/gpu/.libs/dsflow-cuda-emulated.so
wrong DSFLOW_CUDA=no
wrong DSFLOW_CUDA="$module" DSFLOW_EMULATED_GPUS=0
[ "$(cat lib/packed.so)" = "what is packed" ] || fault "it is not unpacked"

# Which cuBLASLt it looks for is what the module wants, once that is unpacked.
echo "libcublasLt.so.77" > lib/dsflow-cuda.so && gzip lib/dsflow-cuda.so
wrong -u DSFLOW_CUDA
case $said in
*"libcublasLt.so.77 is neither where"*) ;;
*) fault "cuBLASLt: $said" ;;
esac
rm lib/dsflow-cuda.so*
DSFLOW_CUDA=$module
DSFLOW_EMULATED_LATE=0
export DSFLOW_CUDA DSFLOW_EMULATED_LATE

python3 ./run --only nothing > log 2>&1 && fault "nothing is a part"
grep -q 'nothing: expected first, machine, kinds' log || fault "$(cat log)"
python3 ./run --exec dsflow --version | grep -q '^dsflow ' || fault "--exec"

# Parts leave their rows; of one that is run again, the new ones.
OUT=$here/out
export OUT
python3 ./run --only first,machine,gpt2-124m > log 2>&1 || fault "$(cat log)"
grep -Eq '^ *first +copies of rows +ok' log || fault "$(cat log)"
grep -Eq '^ *first +kinds, a case of each +[0-9]+ good +no fault +ok' log ||
    fault "$(cat log)"
grep -Eq '^ *first +tiny job, bf16 +ran' log || fault "$(cat log)"
grep -Eq '^gpt2-124m +tokens/s +[0-9,]+ +>= 460,000$' out/table.txt ||
    fault "$(cat log)"
grep -Eq '^ *machine +GPU +emulated GPU: 4.0 GiB' log || fault "$(cat log)"

# One micro-batch is in flight where two do not fit, and they are as large as fit.
DSFLOW_EMULATED_MEMORY=0x120000 python3 ./run --only gpt2-1.5b > log 2>&1 ||
    fault "$(cat log)"
grep -Eq '^gpt2-1.5b +in flight +1 micro-batch; more do not fit: memory: ' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^gpt2-1.5b +micro-batch' out/table.txt && fault "$(cat log)"
DSFLOW_EMULATED_MEMORY=0x100000 python3 ./run --only gpt2-1.5b > log 2>&1 ||
    fault "$(cat log)"
grep -Eq '^gpt2-1.5b +micro-batch +1 sequences; 2 do not fit: memory: device: ' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^gpt2-1.5b +tokens/s +[0-9,]+' out/table.txt || fault "$(cat log)"

# What the GPU was measured to do is kept beside the results, and known to those who
# plan by it, and to no other.
mkdir -p out/cache/dsflow
[ -r "$known" ] && cp "$known" out/cache/dsflow # cores need not be measured again
python3 ./run --only bench-gpu,predictions > log 2>&1 || fault "$(cat log)"
grep -Eq '^bench-gpu +dsflow bench gpu --quick +[0-9]+ s' out/table.txt ||
    fault "it is not measured: $(cat log)"
grep -Eq '^predictions +dsflow bench gpu' out/table.txt && fault "it is, twice"
grep -Eq '^predictions +gpt2-124m, predicted / measured +[0-9.]+ +0.90' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^predictions +gpt2-124m, memory, .* measured +1.0000 +0.98.* ok' \
    out/table.txt || fault "$(cat log)"
python3 -B -c '
import types, jobs, machine
jobs.is_gpu_known = lambda bench: False
jobs.measure_gpu = lambda bench: machine.Ended(0, "", 7)
assert jobs.measure_unless_known(None)[0]["measured"] == "7 s"' > log 2>&1 ||
    fault "who runs alone: $(cat log)"
python3 -c '
import glob, json, sys
kept = json.load(open("out/results.json"))["bench-gpu"]["machine"]
sys.exit([kept] != [open(f).read() for f in glob.glob("out/cache/dsflow/gpu-*")])
' || fault "what was measured is not kept"

# With less memory than that, something is computed again, to the same losses.
DSFLOW_EMULATED_MEMORY=0x100000 python3 ./run --only offload > log 2>&1 ||
    fault "$(cat log)"
grep -q 'times are those of cores' out/log.txt && fault "$(cat out/log.txt)"
grep -Eq '^offload +computed again +(block|attention) of layers .* s a step' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^offload +[0-9]+ losses +same +same +ok' out/table.txt ||
    fault "$(cat log)"

# Beside a disk: what it can do by itself is what the step is compared with.
python3 ./run --only states-nvme > log 2>&1 || fault "$(cat log)"
grep -Eq '^states-nvme +traffic +[0-9.e-]+ s a step' out/table.txt ||
    fault "$(cat log)"
grep -Eq '^states-nvme +of the longer of compute and traffic +[0-9.]+ +<= 1.15' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^states-nvme +[0-9]+ losses +same +same +ok' out/table.txt ||
    fault "$(cat log)"
grep -Eq '^states-nvme +seconds at work .*disk write [0-9.]+' out/table.txt ||
    fault "$(cat log)"
python3 -B -c '
from memories import traffic
moved = {"swap_in": 6e9, "swap_out": 2e9}
assert traffic((2e9, 1e9, True), moved) == 3
assert traffic((2e9, 1e9, False), moved) == 5' > log 2>&1 || fault "$(cat log)"

# Where the time of a step goes, on the GPU, its links and cores.
python3 ./run --only llama-7b > log 2>&1 || fault "$(cat log)"
grep -Eq '^llama-7b +seconds at work +device 0 [0-9.e-]+, into device 0 ' \
    out/table.txt || fault "$(cat log)"
python3 -c '
import json
part = json.load(open("out/results.json"))["llama-7b"]
assert part["lanes"]["cores"]["adam"][0] > 0, part["lanes"]
assert part["lanes"]["device 0"]["mlp.forward"][0] > 0, part["lanes"]
assert len(part["seconds"]) == 4 and part["step_seconds"] == part["seconds"][3]
assert [line["step"] for line in part["metrics"]] == [1, 2, 3, 4]
assert "io_seconds" in part["metrics"][3], part["metrics"]' > log 2>&1 ||
    fault "where time goes: $(cat log)"

# Steps of a job whose time is up count, if there are some.
python3 -B -c '
import pathlib, types, jobs, machine
folder = pathlib.Path("cut")
folder.mkdir()
def run(title, words, *more):
    return machine.Ended(status, "cut", 1)
kept = []
bench = types.SimpleNamespace(work=folder, run=run, left=lambda: 9,
    results=types.SimpleNamespace(log=lambda *words: kept.append(words)))
lines = "".join("{\"seconds\": %d}\n" % i for i in range(3)) + "{\"secon"
(folder / "job").mkdir()
(folder / "job/metrics.jsonl").write_text(lines)
status = None
ran = jobs.train(bench, "job", {}, 3)
assert not ran.whole and ran.column("seconds") == [0, 1, 2]
assert kept[0][1].splitlines()[-1] == "{\"seconds\": 2}", kept
assert jobs.busy_if_known(bench, ran)["idle"] is None
ran.whole = True
try:
    jobs.busy_if_known(bench, ran)
    raise AssertionError("no trace")
except (jobs.Failed, OSError):
    pass
for status, least in (None, 4), (1, 3), (None, None):
    try:
        jobs.train(bench, "job", {}, least)
    except jobs.Failed:
        continue
    raise AssertionError(status, least)' > log 2>&1 || fault "$(cat log)"

# The share of the GPU's memory is a number with a point, as PyTorch wants it.
mkdir -p packages/torch/nn
: > packages/torch/nn/functional.py
: > packages/torch/nn/__init__.py
cat > packages/torch/__init__.py <<'TOOL'
import sys
class cuda:
    def set_per_process_memory_fraction(share):
        sys.exit(7 if type(share) is float and 0 < share <= 1 else share)
def set_num_threads(n):
    pass
set_float32_matmul_precision = set_num_threads
TOOL
for share in '' '--memory=1' '--memory=0.9'; do
    PYTHONPATH=$here/packages python3 -B "$scripts/../../tests/bench/torch_train.py" \
        --device cuda $share > log 2>&1
    [ $? -eq 7 ] || fault "torch_train.py $share: $(cat log)"
done

# Batches of PyTorch too; and a form that fails is followed by another.
: > packages/torch/__init__.py
cat > torch_train.py <<'TOOL'
import sys
batch = int(sys.argv[sys.argv.index("--batch") + 1])
more = int(sys.argv[sys.argv.index("--accumulate") + 1])
if batch > 1:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate")
print('{"tokens_per_second": 7, "batch": %d, "more": %d}' % (batch, more))
TOOL
PYTHONPATH=$here/packages python3 ./run --only torch-gpt2-1.5b > log 2>&1 ||
    fault "$(cat log)"
grep -Eq '^torch-gpt2-1.5b +PyTorch, plain +7 tokens/s, batches of 1$' out/table.txt ||
    fault "$(cat log)"
grep -q '"more": 2' out/results.json || fault "PyTorch's step is another one"
echo 'import sys; sys.exit("--compile" in sys.argv and
    "no compiler" + " in 0.9" * (sys.argv[-2:] == ["--memory", "0.9"]) or
    print("{\"tokens_per_second\": 7, \"batch\": 64}"))' > torch_train.py
PYTHONPATH=$here/packages python3 -B -c '
import time, types, pytorch, machine, results
bench = types.SimpleNamespace(small=False, results=results.Results("forms"),
    work=machine.HERE, left=lambda: 60, wanted=["torch-gpt2-124m"],
    end=time.monotonic() + 500,
    run=lambda t, w, limit, **k: machine.run(w, limit, k["env"]))
machine.python_with_torch = lambda on_gpus: "python3"
bench.background = {}
pytorch.begin_compiling(bench)
pytorch.settle(bench, "torch-gpt2-124m")
assert not bench.background
class Late:
    pid, returncode, waited = -1, -9, []
    def wait(self, timeout):
        self.waited.append(round(timeout, -1))
for name in "torch-gpt2-1.5b", "speeds":
    bench.background["compiling"] = Late(), None
    pytorch.settle(bench, name)
assert Late.waited == [120, 40], Late.waited
rows = pytorch.gpt2_124m(bench)["rows"]
assert [row["measured"] for row in rows] == ["exit status 1: no compiler",
    "7 tokens/s, batches of 64"], rows
' > log 2>&1 || fault "forms of PyTorch: $(cat log)"
grep -q '^=== compiling: ' forms/log.txt && grep -q '^no compiler in 0.9' forms/log.txt ||
    fault "compiling: $(cat forms/log.txt)"

# The files of GPUs are open as long as it runs, and programs do not get them.
mkdir files files/gpu1 && : > files/gpu0
python3 -B -c '
import os, subprocess, machine
machine.hold_gpus("files/gpu*")
assert len(machine.held) == 1, machine.held
os.fstat(machine.held[0])
assert subprocess.run(["test", "-e", f"/dev/fd/{machine.held[0]}"],
                      close_fds=False).returncode == 1' > log 2>&1 ||
    fault "files of GPUs: $(cat log)"

# What compute-sanitizer says decides, of each program.
mkdir tools
cat > tools/compute-sanitizer <<'TOOL'
#!/bin/sh
while [ $# -gt 1 ] && [ "${1##*/bin/}" = "$1" ]; do shift; done
[ -x "$1" ] || exit 1
case $2,$3,$4 in
planted,, | race,, | init,,) [ -e sees ] && echo "========= Invalid __global__ write of size 4 bytes"
   echo "========= ERROR SUMMARY: $([ -e sees ] && echo 2 || echo 0) errors" ;;
sides,--here,) echo "========= ERROR SUMMARY: 0 errors" ;;
*) echo "========= Invalid __global__ read of size 4 bytes"
   echo "========= ERROR SUMMARY: 3 errors" ;;
esac
TOOL
chmod +x tools/compute-sanitizer
PATH=$here/tools:$PATH
python3 ./run --only memcheck > log 2>&1 && fault "a blind tool is good"
grep -Eq '^memcheck +memcheck sees a planted fault +0 errors +>= 1 errors +SHORT$' \
    out/table.txt || fault "$(cat log)"
grep -q '^memcheck: failed, .*memcheck does not see a planted fault' log ||
    fault "$(cat log)"
: > sees
python3 ./run --only memcheck > log 2>&1 && fault "3 errors are none"
grep -Eq '^memcheck +memcheck sees a planted fault +2 errors .* ok$' \
    out/table.txt || fault "$(cat log)"
grep -Eq '^memcheck +memcheck sides +0 errors.* ok$' out/table.txt ||
    fault "$(cat log)"
grep -Eq '^memcheck +memcheck same_bits +3 errors.* SHORT$' out/table.txt ||
    fault "$(cat log)"

python3 -B -c '
from checks import errors_of
assert errors_of("=== RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)") == 2
assert errors_of("=== ERROR SUMMARY: 0 errors") == 0
assert errors_of("=== Error: the program did not begin") is None
from checks import differing
import json, pathlib
def write(run, last):
    folder = pathlib.Path(run, "checkpoints/step-1")
    folder.mkdir(parents=True)
    (folder.parent / "latest").write_text("step-1\n")
    head = json.dumps({"a": {"data_offsets": [0, 2]},
                       "b": {"data_offsets": [2, 4]}}).encode()
    for file in "params", "states":
        (folder / (file + ".safetensors")).write_bytes(
            len(head).to_bytes(8, "little") + head + b"123" + last)
    return pathlib.Path(run)
one = write("one", b"4")
assert differing(one, one) == []
assert differing(one, write("two", b"5")) == ["b", "b"]
import limits, machine, types
lines = "{\"name\": \"x\", \"failed\": \"none\"}\n" \
    "{\"name\": \"y\", \"ours\": 2, \"best\": 1, \"listed\": 3, \"flops\": 1}"
machine.program = lambda name: pathlib.Path("run")
rows = limits.products(types.SimpleNamespace(small=False, run=lambda t, w:
    machine.Ended(0, lines, 1)))["rows"]
assert [row["measured"] for row in rows] == ["none", "0.50 of the best of 3, "
    "0 TFLOP/s"], rows
said = "add                          2 cases, 0.1 s\n"
def run(title, words, limit, env, hangs):
    return machine.Ended(None, said, limit)
bench = types.SimpleNamespace(run=run)
from checks import under
row, wrong = under(bench, "racecheck", ["sides", "--here"], "1", 5)
assert wrong is None and row["verdict"] == "", row
assert row["measured"].startswith("0 errors in 1 kinds"), row
said += "========= Warning: Race reported between Write access at x\n"
row, wrong = under(bench, "racecheck", ["sides", "--here"], "1", 5)
assert wrong.startswith("sides: Warning: Race") and row["verdict"] == "SHORT"' > log 2>&1 ||
    fault "what compute-sanitizer says: $(cat log)"

# Who is cut short leaves nothing running.
mv tools/compute-sanitizer tools/told
cat > tools/compute-sanitizer <<'TOOL'
#!/bin/sh
echo $$ > began.new && mv began.new began
exec sleep 1000
TOOL
chmod +x tools/compute-sanitizer
rm -f began
python3 ./run --only initcheck > log 2>&1 &
while [ ! -e began ] && kill -0 $! 2> /dev/null; do sleep 0.1; done
kill $!
wait $!
[ $? -eq 143 ] || fault "cut short: $(cat log)"
kill -0 "$(cat began)" 2> /dev/null && fault "what it ran goes on"
rm -f began
python3 ./run --only initcheck > log 2>&1 &
while [ ! -e began ] && kill -0 $! 2> /dev/null; do sleep 0.1; done
kill -9 $!
wait $! 2> /dev/null
sleep 0.2 # it may be there still, without a parent that takes its status
grep -q '^State:.[RSD]' "/proc/$(cat began)/status" 2> /dev/null &&
    fault "what it ran outlives it"
[ -e out/running.txt ] || fault "what it printed is lost"
rm -f out/running.txt

mv tools/told tools/compute-sanitizer

# What fails at first contact has a name, and what comes behind is tried.
DSFLOW_EMULATED_FAIL=2 python3 ./run --only first > log 2>&1 &&
    fault "what fails is not told"
grep -Eq '^ *first +device memory +FAILS: .*illegal memory access' log ||
    fault "$(cat log)"
grep -Eq '^ *first +memcheck sides embed.forward +3 errors' log ||
    fault "a kind that fails is not looked at: $(cat log)"
grep -Eq '^ *first +tiny job, fp32 +first fp32: exit status 1' log ||
    fault "$(cat log)"
[ -e out/running.txt ] && fault "running.txt is left"

# Who crashes says where, and who hangs is asked.
if "${CC:-cc}" -shared -fPIC -o lib/crash.so "$scripts/crash.c" 2> log; then
    printf '#!/bin/sh\nexec python3 -c "$1"\n' > bin/python && chmod +x bin/python
    python3 ./run --exec python 'import os; print("said", flush=True); os.abort()' > log 2>&1 &&
        fault "it did not crash"
    grep -q '^crash: signal 6 (Aborted)' log || fault "a crash: $(cat log)"
    grep -q 'abort' log || fault "no frames: $(cat log)"
    python3 -B -c '
import machine
ended = machine.run(["bin/python", "import os; print(1, flush=True); os.abort()"], 60)
assert ended.why().startswith("signal 6 (Aborted)"), ended.why()
assert ended.why().endswith(": 1"), ended.why()' > log 2>&1 ||
        fault "why it ended: $(cat log)"
    rm lib/crash.so
fi
python3 -B -c '
import machine
ended = machine.run(["sleep", "1000"], 1, hangs=20)
assert ended.status is None
assert "hangs: process" in ended.told and "sleep" in ended.told, ended.told
' > log 2>&1 || fault "a hang: $(cat log)"

# What is stopped has ended with all of its processes: memory is free again.
python3 -B -c '
import machine, time
left = machine.group_of
process = machine.start(["sh", "-c", "sleep 1000; true"])
end = time.monotonic() + 0.5
machine.group_of = lambda leader: [1] if time.monotonic() < end else left(leader)
machine.stop(process)
assert time.monotonic() >= end, "a process is left"
assert process.returncode == -9 and not list(left(process.pid))
' > log 2>&1 || fault "a group that is stopped: $(cat log)"

# Nor does the serial executor go on beside what is timed, if it takes too long or
# what it is compared with fails.
python3 -B -c '
import pathlib, types, checks, jobs, machine, results
def fails(*more):
    raise jobs.Failed("no run")
def runs(*more):
    return types.SimpleNamespace(column=lambda name: [])
pathlib.Path("serial.log").write_text("step 1")
for train, why in (runs, "has not ended"), (fails, "no run"):
    process = machine.start(["sleep", "1000"])
    bench = types.SimpleNamespace(small=True, left=lambda: 0,
        work=pathlib.Path("."), background={"serial": (process, None)},
        results=results.Results("serial"))
    jobs.train = train
    try:
        checks.losses(bench)
    except (checks.Wrong, jobs.Failed) as e:
        assert why in str(e), e
    assert process.poll() == -9' > log 2>&1 || fault "a serial executor: $(cat log)"

# A GPU that fails: the part says so, what was kept stays.
DSFLOW_EMULATED_FAIL=40 python3 ./run --only gpt2-small > log 2>&1 &&
    fault "a GPU that fails is not told"
grep -q '^gpt2-small: failed, .*illegal memory access' log || fault "$(cat log)"
grep -Eq '^gpt2-small +memcheck, one layer +Invalid __global__ read' log ||
    fault "it is not looked at: $(cat log)"
grep -Eq '^gpt2-124m +tokens/s' out/table.txt || fault "$(cat out/table.txt)"
python3 ./run --seconds 5 --only machine > log 2>&1 || fault "$(cat log)"
grep -q '^machine: not run.*no time is left' log || fault "$(cat log)"
[ "$(find out -type f ! -path 'out/cache/*' | wc -l)" -le 8 ] || fault "$(ls out)"
finish
