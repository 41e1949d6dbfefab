"""The same jobs in PyTorch, by torch_train.py."""

import json
import os
import shlex
import subprocess
import time

import machine
from checks import Missing, Wrong
from results import row


def words_of(bench, python, words):
    return [python, machine.HERE / "torch_train.py", "--device",
            "cpu" if bench.small else "cuda", *words]


def environment(bench):
    """What it has compiled is kept for the next."""
    return dict(os.environ, PYTHONUNBUFFERED="1",
                TORCHINDUCTOR_CACHE_DIR=str(bench.work / "inductor"),
                TRITON_CACHE_DIR=str(bench.work / "triton"))


def steps_of(bench, python, words, limit):
    """Of the batch that is asked for, or of the largest half of it, and half of
    that, that fits."""
    words = list(words)
    at, more = words.index("--batch") + 1, words.index("--accumulate") + 1
    while True:
        ended = bench.run(f"PyTorch {' '.join(words)}",
                          words_of(bench, python, words), limit,
                          hangs=False, env=environment(bench))
        said = [line for line in ended.text.splitlines() if line[:1] == "{"]
        if ended.good and said:
            return json.loads(said[-1])
        batch = int(words[at])
        if batch == 1 or "out of memory" not in ended.text:
            return {"failed": ended.why()}
        words[at], words[more] = str(batch // 2), str(2 * int(words[more]))


def beside(bench, ours, words, ways, least):
    """The first of the ways that runs, beside what dsflow did."""
    python = machine.python_with_torch(not bench.small)
    if python is None:
        raise Missing("no Python here has PyTorch"
                      + ("" if bench.small else " that sees a GPU"))
    if bench.small:
        words = ["--batch", "2", "--accumulate", "1", "--sequence", "16",
                 "--width", "32", "--heads", "2", "--layers", "1", "--steps",
                 "1", "--warmup", "1"]
        ways = [[]]
    rows, tried = [], {}
    for way in ways:
        name = " ".join(w.lstrip("-") for w in way) or "plain"
        # Some time is left for the next.
        limit = bench.left() - (40 if way is not ways[-1] else 0)
        tried[name] = found = steps_of(bench, python, [*words, *way], limit)
        rows.append(row(f"PyTorch, {name}", found["failed"][:160]
                        if "failed" in found else
                        f"{found['tokens_per_second']:,.0f} tokens/s, batches "
                        f"of {found['batch']}"))
        if "failed" not in found:
            break
    rates = [t["tokens_per_second"] for t in tried.values()
             if "failed" not in t]
    if not rates:
        raise Wrong("no form of PyTorch ran", rows)
    rate = bench.results.parts.get(ours, {}).get("tokens_per_second")
    if rate:
        rows.append(row("dsflow / PyTorch", f"{rate / max(rates):.2f}",
                        f">= {least}", None if bench.small else
                        rate / max(rates) >= least))
    return {"rows": rows, "tried": tried}


EAGER = ["--type", "autocast", "--adam", "fused"]
COMPILED = [*EAGER, "--compile"]
BLOCKS = [*EAGER, "--compile-blocks"]
TORCH_124M = ["--batch", "64", "--accumulate", "8", "--sequence", "1024"]
TORCH_1_5B = ["--batch", "16", "--accumulate", "8", "--sequence", "1024",
              "--layers", "48", "--heads", "25", "--width", "1600"]


def of_one_micro_batch(words):
    words = list(words)
    words[words.index("--accumulate") + 1] = "1"
    return [*words, "--steps", "1", "--warmup", "0"]


def begin_compiling(bench):
    """PyTorch compiles for a minute, beside parts that are not timed: what it
    has then is on disk. It leaves them some memory of the GPU."""
    each = [(words, way) for part, words, way in (
        ("torch-gpt2-124m", TORCH_124M, COMPILED),
        ("torch-gpt2-1.5b", TORCH_1_5B, BLOCKS)) if part in bench.wanted]
    if not each or bench.small:
        return
    python = machine.python_with_torch(True)
    if python is None:
        return
    each = [shlex.join(map(str, words_of(bench, python, [
        *of_one_micro_batch(words), *way, "--memory", "0.9"])))
        for words, way in each]
    with open(bench.work / "compiling.log", "wb") as log:
        process = machine.start(["sh", "-c", "; ".join(each)], output=log,
                                env=environment(bench))
    bench.background["compiling"] = process, None


def settle(bench, name):
    """Before something is timed: the part `name`. Those of PyTorch would have to
    compile what is not done by then."""
    limit = min(120 if name.startswith("torch-") else 40,
                bench.end - time.monotonic() - 60)
    process, _ = bench.background.pop("compiling", (None, None))
    if process is None:
        return
    begin = time.monotonic()
    try:
        process.wait(timeout=max(limit, 1))
    except subprocess.TimeoutExpired:
        machine.stop(process)
    bench.results.log(f"compiling: waited {time.monotonic() - begin:.0f} s, "
                      f"status {process.returncode}",
                      (bench.work / "compiling.log").read_text(
                          errors="replace"))


def gpt2_124m(bench):
    """PyTorch on the job of gpt2-124m, compiled"""
    return beside(bench, "gpt2-124m", [*TORCH_124M, "--steps", "5"],
                 [COMPILED, EAGER], 1.0)


def gpt2_small(bench):
    """PyTorch on the job of gpt2-small, not compiled"""
    return beside(bench, "gpt2-small",
                 ["--batch", "4", "--accumulate", "1", "--sequence", "1024",
                  "--steps", "40"], [EAGER], 1.0)


def gpt2_1_5b(bench):
    """PyTorch on the job of gpt2-1.5b, compiled block by block"""
    return beside(bench, "gpt2-1.5b", [*TORCH_1_5B, "--steps", "3"],
                 [BLOCKS, EAGER], 1.0)
