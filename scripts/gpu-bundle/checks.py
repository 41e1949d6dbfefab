"""Parts that say whether the GPU computes what it should."""

import json
import os
import re
import subprocess

import jobs
import machine
from results import row


class Missing(Exception):
    """What the part needs is not on this machine."""


class Wrong(Exception):
    """It failed; `rows` has what was seen before."""

    def __init__(self, why, rows=()):
        super().__init__(why)
        self.rows = list(rows)


# What is asked of a machine, for whoever reads of faults on another one.
ABOUT = """
uname -a; cat /etc/os-release | head -2; ldd --version | head -1
nvidia-smi; nvidia-smi -q -d CLOCK,POWER,PERFORMANCE,ECC | head -80
nvcc --version | tail -2; gcc --version | head -1; echo "$PATH"
lscpu | head -30; free -g; ulimit -a; df -h / /tmp /dev/shm
head -5 /proc/meminfo; cat /proc/self/cgroup
cat /sys/kernel/mm/transparent_hugepage/enabled
ls -l /dev/nvidia* /usr/local/nvidia; ldconfig -p | grep -E "libcuda|cublasLt"
env | grep -E "CUDA|NVIDIA|LD_|TORCH"
"""


def ldd():
    """The words: only when the libraries are unpacked is known what they want."""
    return ["ldd", machine.program("dsflow"),
            machine.environment()["DSFLOW_CUDA"]]


def about(bench):
    """the GPU, its driver, CUDA's libraries, cores and memory"""
    report = bench.run("report", [machine.program("dsflow"), "report"])
    where = machine.find_cublaslt()
    rows = [row("GPU", re.sub(r"^GPU +\d+ +", "", line))
            for line in bench.gpus]
    rows += [row("GPUs", line.split(None, 1)[1])
             for line in report.text.splitlines() if line.startswith("GPUs ")]
    rows.append(row("cuBLASLt from", "nowhere" if where is None else
                    where or "where ldconfig looks"))
    rows.append(row("compute-sanitizer", machine.sanitizer() or "none"))
    total, free = machine.main_memory()
    rows.append(row("main memory", f"{free / 2**30:.0f} of "
                    f"{total / 2**30:.0f} GiB are free"))
    asked = bench.run("about", ["sh", "-c", ABOUT], 20, env=dict(os.environ))
    bench.run("ldd", ldd())
    python = machine.python_with_torch(not bench.small) \
        if bench.wants_torch() else None
    if python is not None:
        said = bench.run("PyTorch", [python, "-c", TORCH], 60,
                         env=dict(os.environ))
        rows.append(row("PyTorch", said.last()))
    return {"rows": rows, "report": report.text, "about": asked.text}


TORCH = """
import sys, torch
print(sys.version)
print(torch.__version__, torch.version.cuda, torch.cuda.is_available())
print(torch.cuda.get_device_properties(0) if torch.cuda.is_available() else "")
try:
    import triton
    triton = triton.__version__
except ImportError as e:
    triton = e
print(f"PyTorch {torch.__version__}, Triton {triton}")
"""


# --- first contact ------------------------------------------------------------

def first(bench):
    """what all else stands on, each kind of task once, and two tiny jobs"""
    if "losses" in bench.wanted:
        begin_losses(bench)
    test = machine.program("test_module")
    rows, wrong = [], []

    layers = bench.run("first", [test, "first"], 40)
    for line in re.findall(r"^first: (.*)", layers.text, re.M):
        what, _, said = line.partition(": ")
        rows.append(row(what, (said or "…")[:160], "",
                        said.startswith("ok")))
    if not layers.good:
        wrong += re.findall(r"^first: (.*: FAILS.*)", layers.text, re.M) \
            or [f"first: {layers.why()}"]
    once = dict(machine.environment(), DSFLOW_GPU_CASES="1",
                DSFLOW_GPU_SECONDS="20")
    sides = bench.run("sides, once", [test, "sides"], 60, once)
    good = re.findall(r"^(\S+) +\d+ cases, ", sides.text, re.M)
    rows.append(row("kinds, a case of each", f"{len(good)} good", "no fault",
                    sides.good))
    if not sides.good:
        wrong.append(f"kinds: {faults(sides)}")
        rows += examine(bench, sides)
    for kind in "fp32", "bf16":
        try:
            jobs.train(bench, f"first {kind}", {
                **jobs.TINY, "machine.gpus": 1, "precision.compute": kind})
            said = "ran"
        except jobs.Failed as e:
            said = str(e)[:160]
            wrong.append(said)
        rows.append(row(f"tiny job, {kind}", said, "ran", said == "ran"))
    if wrong:
        raise Wrong("; ".join(wrong)[:900], rows)
    return {"rows": rows}


# --- kinds of tasks ---------------------------------------------------------

def kinds(bench):
    """each kind of task on random cases, beside its CPU side"""
    rows, wrong = [], []
    tests = [("sides", "1" if bench.small else "24"), ("attention", ""),
             ("same_bits", "2" if bench.small else "60"),
             ("sides --models", ""), ("inputs", "")]
    for name, cases in tests[::2] if bench.small else tests:
        ended = bench.run(name, [machine.program("test_module"),
                                 *name.split()], 0.6 * bench.left(),
                          env=dict(machine.environment(),
                                   **{"DSFLOW_GPU_CASES": cases} if cases
                                   else {}))
        rows.append(row(name, f"{ended.seconds:.0f} s", "no fault",
                        ended.good))
        if not ended.good:
            wrong.append(f"{name}: {faults(ended)}")
            rows += examine(bench, ended)
    if wrong:
        raise Wrong("; ".join(wrong), rows)
    return {"rows": rows}


def faults(ended):
    """What a test says is wrong, without cmocka's frame."""
    lines = [line for line in ended.text.splitlines() if line.strip() and not
             re.match(r"\[|\.\./|tests/|\S+ +\d+ cases, |\S+\.\.\.$", line)]
    return "; ".join(lines[:6])[:600] or ended.why()


def errors_of(text):
    """How many compute-sanitizer tells of; None: it says nothing of it. racecheck
    counts hazards, warnings among them."""
    said = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
    return sum(map(int, said)) if said else None


def told_of(text):
    """The first lines of what compute-sanitizer tells as it goes."""
    return re.findall(
        r"^=+ ((?:Invalid|Misaligned|Uninitialized|Program hit|Barrier error|"
        r"(?:Error|Warning): (?:Race|Potential)).*)", text, re.M)


# What CUDA returns is asked for by dsflow itself, call by call, and ends it. The
# tool would count what libraries try as well, such as functions that this driver
# does not have.
SANITIZER = ["--target-processes", "application-only", "--launch-timeout",
             "60", "--print-limit", "20"]
MEMCHECK = ["--tool", "memcheck", "--report-api-errors", "no"]


def start_under(bench, tool, title, words, limit, program="test_module",
                **more):
    """A test under compute-sanitizer."""
    # A buffer ends where its allocation does.
    env = dict(machine.environment(preload=False), DSFLOW_TESTS_EDGE="0", **more)
    # Races are looked for in kernels of ours: others take their time, too.
    options = {"memcheck": MEMCHECK,
               "racecheck": ["--tool", tool, "--kernel-name",
                             "kernel_substring=_cu_"]}
    return bench.run(title, [machine.sanitizer(),
                             *options.get(tool, ["--tool", tool]), *SANITIZER,
                             "--error-exitcode", "9",
                             machine.program(program), *words],
                     limit, env, hangs=False)


# Who has a fault that the tool is to find, by this name.
PLANTED = {"memcheck": ("test_module", "planted"),
           "racecheck": ("planted", "race"), "initcheck": ("planted", "init")}


def planted(bench, tool):
    """Does it see a fault that is there? A row, and what is wrong."""
    program, fault = PLANTED[tool]
    if not machine.program(program).exists():
        return row(f"{tool} sees a planted fault", "not shown"), None
    ended = start_under(bench, tool, f"{tool} planted", [fault],
                        0.3 * bench.left(), program)
    n = errors_of(ended.text)
    good = bool(n) and bool(told_of(ended.text))
    return (row(f"{tool} sees a planted fault",
                f"{'no summary' if n is None else n} errors", ">= 1 errors",
                good),
            None if good else f"{tool} does not see a planted fault: "
            f"{ended.why()}")


def under(bench, tool, words, cases, limit):
    """A test of kinds under compute-sanitizer. A row, and what is wrong."""
    name = " ".join(w for w in words if w != "--here")
    ended = start_under(bench, tool, f"{tool} {name}", words, limit,
                        DSFLOW_GPU_CASES=cases)
    n, told = errors_of(ended.text), told_of(ended.text)
    done = len(re.findall(r"^\S+ +\d+ cases, |^\[ +OK", ended.text, re.M))
    if ended.status is None:
        said = f"{len(told)} errors in {done} kinds, until its time was up"
        good = False if told else None
    else:
        said = f"{'no summary' if n is None else n} errors in {done} kinds, " \
            f"{ended.seconds:.0f} s"
        good = ended.good and n == 0
    wrong = None if good is not False else \
        f"{name}: {told[0] if told else ended.why()}"
    return row(f"{tool} {name}", said, "0 errors", good), wrong


def examine(bench, ended):
    """Kinds that a test says are wrong, under compute-sanitizer: its log says
    where. Some of them, where there is one and time is left."""
    rows = []
    found = re.findall(r"^([a-z_]+(?:\.[a-z_]+)?): (.+)", ended.text, re.M)
    for kind, said in found[:2] if machine.sanitizer() else []:
        tool = "memcheck" if re.search("fails|crashes|writes|reads", said) \
            else "racecheck"
        if bench.left() > 15:
            rows.append(under(bench, tool, ["sides", "--here", kind], "4",
                              min(30, bench.left() - 5))[0])
    return rows


def examine_job(bench, name, keys, why):
    """A job that failed on the GPU, other than for its memory: one layer of it,
    and one micro-batch, under compute-sanitizer."""
    if ": GPU " not in why or "out of memory" in why or \
            machine.sanitizer() is None or bench.left() < 20:
        return []
    _, words = jobs.command(bench, f"{name}, examined", {
        **keys, **jobs.BF16, "job.steps": 1, "model.layers": 1,
        "batch.sequences": keys["batch.micro"]})
    ended = bench.run(f"memcheck {name}",
                      [machine.sanitizer(), *MEMCHECK, *SANITIZER, *words],
                      min(40, bench.left() - 5),
                      machine.environment(preload=False), hangs=False)
    told = told_of(ended.text)
    return [row("memcheck, one layer", told[0] if told else
                f"{errors_of(ended.text)} errors, {ended.seconds:.0f} s",
                "0 errors", not told and ended.good)]


def sanitized(bench, tool):
    if machine.sanitizer() is None:
        raise Missing("there is no compute-sanitizer")
    found, fault = planted(bench, tool)
    rows, wrong = [found], [fault] if fault else []
    # cuBLASLt's kernels do not start under racecheck.
    more = ["--without-products"] if tool == "racecheck" else []
    for words, share in ((["sides", "--here", *more], 0.7),
                         (["same_bits"], 1)):
        found, fault = under(bench, tool, words, "1", share * bench.left())
        rows.append(found)
        wrong += [fault] if fault else []
    if wrong:
        raise Wrong("; ".join(wrong), rows)
    return {"rows": rows}


def memcheck(bench):
    """compute-sanitizer: what is read or written beside buffers"""
    return sanitized(bench, "memcheck")


def racecheck(bench):
    """compute-sanitizer: shared memory that is used without a barrier"""
    return sanitized(bench, "racecheck")


def initcheck(bench):
    """compute-sanitizer: device memory that is read before it is written"""
    return sanitized(bench, "initcheck")


# --- bits and losses --------------------------------------------------------

def tensors(path):
    """(name, bytes) of each."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    for name, about in header.items():
        begin, end = about["data_offsets"]
        yield name, raw[8 + length + begin:8 + length + end]


def differing(a, b):
    """The newest checkpoints of two runs: names of tensors of other bytes."""
    def newest(run):
        checkpoints = run / "checkpoints"
        return checkpoints / (checkpoints / "latest").read_text().strip()
    names = []
    for file in "params.safetensors", "states.safetensors":
        others = dict(tensors(newest(b) / file))
        names += [name for name, data in tensors(newest(a) / file)
                  if others.get(name) != data]
    return names


def same_bits(bench):
    """the same bytes twice, with 1, 2 and 4 ranks, and offloaded; Muon's, too"""
    keys = dict(jobs.TINY if bench.small else jobs.MIDDLE,
                **{"machine.gpus": 1, "precision.compute": "bf16",
                   "batch.groups": 4, "checkpoint.at_end": "true"})
    ways = [("twice", {}),
            ("2 ranks, ZeRO 3", {"mesh.data": 2, "zero.stage": 3}),
            ("4 ranks", {"mesh.data": 4}),
            ("2 ranks, pipeline", {"mesh.pipeline": 2}),
            ("recompute", {"recompute.what": "block"}),
            ("offloaded", {"offload.optimizer": "cpu",
                           "offload.activations": "cpu"}),
            ("Muon, offloaded", {"optimizer.kind": "muon", "mesh.data": 2,
                                 "zero.stage": 1,
                                 "offload.optimizer": "cpu"})]
    firsts = {"": jobs.train(bench, "once", keys).folder}
    rows, wrong = [], []
    for name, more in ways[:2] if bench.small else ways:
        kind = more.get("optimizer.kind", "")
        try:
            if kind not in firsts:
                firsts[kind] = jobs.train(bench, f"once {kind}", {
                    **keys, "optimizer.kind": kind}).folder
            folder = jobs.train(bench, name, {**keys, **more}).folder
            others = differing(firsts[kind], folder)
            rows.append(row(name, f"{len(others)} others, such as "
                            f"{', '.join(others[:3])}" if others else "same",
                            "same", not others))
            if others:
                bench.results.log(f"{name}: others than the first",
                                  "\n".join(others))
        except jobs.Failed as e:
            rows.append(row(name, str(e)[:120], "same", False))
        if rows[-1]["verdict"] != "ok":
            wrong.append(name)
    if wrong:
        raise Wrong(f"not the bytes of the first run: {', '.join(wrong)}", rows)
    return {"rows": rows}


LOSS_KEYS = {"job.steps": 20, "batch.sequences": 2, "batch.micro": 1,
             "batch.sequence": 64, "optimizer.lr": 3e-4}


def loss_keys(bench):
    if bench.small:
        return {**jobs.TINY, "job.steps": 3}
    return {**jobs.GPT2_124M, **LOSS_KEYS}


def begin_losses(bench):
    """The serial executor needs no GPU, and a minute: it begins first."""
    folder, words = jobs.command(bench, "serial", loss_keys(bench))
    with open(bench.work / "serial.log", "wb") as log:
        process = machine.start(
            [*words, "--executor", "serial"], output=log,
            env=dict(machine.environment(), DSFLOW_CUDA="no"))
    bench.background["serial"] = process, folder


def losses(bench):
    """20 steps of GPT-2 124M beside the serial executor on cores"""
    if "serial" not in bench.background:
        begin_losses(bench)
    keys = {**loss_keys(bench), "machine.gpus": 1}
    rows, runs = [], {}
    process, folder = bench.background["serial"]
    try:
        for kind, within in ("fp32", 1e-5), ("bf16", 1e-2):
            runs[kind] = jobs.train(bench, f"losses {kind}", {
                **keys, "precision.compute": kind}).column("loss"), within
        process.wait(timeout=max(bench.left(), 1))
    except subprocess.TimeoutExpired:
        raise Wrong("the serial executor has not ended", rows)
    finally:
        machine.stop(process)   # it would take the cores of parts behind it
        bench.results.log(f"serial: status {process.returncode}",
                          (bench.work / "serial.log").read_text(
                              errors="replace"))
    expected = jobs.Trained(folder, "").column("loss")
    for kind, (found, within) in runs.items():
        if len(found) != len(expected) or not found:
            raise Wrong(f"{kind}: {len(found)} losses, and {len(expected)} of "
                        "the serial executor", rows)
        far = max(abs(a / b - 1) for a, b in zip(found, expected))
        rows.append(row(f"{len(found)} losses, {kind}", f"{far:.1e}",
                        f"<= {within:.0e}", far <= within))
    return {"rows": rows, "serial": expected,
            **{kind: found for kind, (found, _) in runs.items()}}
