"""Jobs that are timed, in dsflow and in PyTorch."""

import json
import os
import pathlib
import statistics

import machine
from results import row

BASE = {
    "job.name": "bench", "job.log_every": 1000,
    "data.tokenizer": "bytes", "data.validation": 0.0,
    "optimizer.kind": "adamw", "optimizer.lr": 3e-4,
    "optimizer.betas": [0.9, 0.95], "optimizer.weight_decay": 0.1,
    "optimizer.clip": 1.0, "checkpoint.at_end": "false",
}
GPT2 = {"model.family": "gpt2", "model.context": 1024, "model.vocab": 50257,
        "batch.sequence": 1024}
GPT2_124M = {**GPT2, "model.layers": 12, "model.heads": 12,
             "model.width": 768}
GPT2_1_5B = {**GPT2, "model.layers": 48, "model.heads": 25,
             "model.width": 1600}
LLAMA_7B = {"model.family": "llama", "model.layers": 32, "model.heads": 32,
            "model.width": 4096, "model.ffn_width": 11008,
            "model.vocab": 32000, "model.context": 4096,
            "model.tied": "false", "batch.sequence": 4096}
TINY = {"model.family": "gpt2", "model.layers": 2, "model.heads": 2,
        "model.width": 32, "model.context": 32, "model.vocab": 256,
        "batch.sequence": 32, "batch.sequences": 4, "batch.micro": 1,
        "job.steps": 2}
MIDDLE = {"model.family": "gpt2", "model.layers": 4, "model.heads": 8,
          "model.width": 512, "model.context": 256, "model.vocab": 5000,
          "batch.sequence": 256, "batch.sequences": 16, "batch.micro": 2,
          "job.steps": 4}


class Failed(Exception):
    """A run that did not end well."""


class Trained:
    """A folder of a run that has ended."""

    def __init__(self, folder, text):
        self.folder, self.text = pathlib.Path(folder), text

    def column(self, name):
        """Of each step."""
        path = self.folder / "metrics.jsonl"
        lines = map(json.loads, path.read_text().splitlines())
        return [line[name] for line in lines
                if "seconds" in line and line.get(name) is not None]

    def median(self, name, skip):
        values = self.column(name)[skip:]
        return statistics.median(values) if values else None


def toml(value):
    return value if isinstance(value, str) and value in ("true", "false") \
        else json.dumps(value)


def write_job(bench, path, keys):
    tables = {}
    for key, value in keys.items():
        table, name = key.split(".")
        tables.setdefault(table, []).append(f"{name} = {toml(value)}\n")
    path.write_text("".join(f"[{t}]\n{''.join(lines)}"
                            for t, lines in tables.items()))


def command(bench, name, keys):
    """(folder, words) of a job."""
    name = name.replace(" ", "-").replace(",", "")
    folder = bench.work / name
    job = bench.work / f"{name}.toml"
    write_job(bench, job, {
        **BASE, "job.output": str(folder),
        "data.train": str(machine.HERE / "text/*"), **keys})
    return folder, [machine.program("dsflow"), "run", job, "--overwrite"]


def train(bench, name, keys):
    folder, words = command(bench, name, keys)
    ended = bench.run(name, words)
    if not ended.good:
        raise Failed(f"{name}: {ended.why()}")
    return Trained(folder, ended.text)


# --- speed ------------------------------------------------------------------

# Steps that are not timed: the first ones choose products and fill pipelines.
WARMUP = 2
BF16 = {"precision.compute": "bf16", "machine.gpus": 1}


def small_keys(keys):
    """The same job, of the size of TINY."""
    small = {**TINY, "model.ffn_width": 64, "job.steps": WARMUP + 1}
    return {**keys, **{k: small[k] for k in keys
                       if k in small and k != "model.family"}}


def busy(bench, ran):
    """Of the step that was traced: the share of the time that GPU 0 computed
    nothing between its first kernel and its last, and what each kind took."""
    path = bench.work / "trace.json"
    ended = bench.run("trace", [machine.program("dsflow"), "trace", ran.folder,
                                "--chrome", path])
    if not ended.good:
        raise Failed(f"dsflow trace: {ended.why()}")
    events = json.loads(path.read_text())["traceEvents"]
    lanes = {e["tid"] for e in events if e["name"] == "thread_name"
             and e["args"]["name"] == "device 0"}
    spans = sorted((e["ts"], e["dur"], e["name"]) for e in events
                   if e["ph"] == "X" and e.get("tid") in lanes)
    kinds = {}
    for _, dur, name in spans:
        count, seconds = kinds.get(name, (0, 0))
        kinds[name] = count + 1, seconds + 1e-6 * dur
    whole = max(ts + dur for ts, dur, _ in spans) - spans[0][0]
    return 1 - sum(dur for _, dur, _ in spans) / whole, kinds


def timed(bench, name, keys, steps):
    """Tokens a second, and what else is known of a step. The last is traced,
    and does not count."""
    keys = {**keys, **BF16, "job.steps": steps}
    if bench.small:
        keys = small_keys(keys)
    last = keys["job.steps"] = keys["job.steps"] + 1
    ran = train(bench, name, {**keys, "trace.steps": [last, last]})
    seconds = ran.column("seconds")
    tokens = keys["batch.sequences"] * keys["batch.sequence"]
    idle, kinds = busy(bench, ran)
    plan = json.loads((ran.folder / "plan.json").read_text())
    return {"tokens_per_second":
            tokens / statistics.median(seconds[WARMUP:-1]),
            "seconds": seconds, "loss": ran.column("loss"),
            "mfu": ran.median("mfu", WARMUP),
            "efficiency": ran.median("efficiency", WARMUP),
            "planned_bytes": plan["ranks"][0]["peak_bytes"],
            "idle": idle, "kinds": kinds, "said": ran.text[-4000:]}


def job(bench, name, keys, steps, least, idle):
    """Nothing is expected of GPUs that are emulated."""
    found = timed(bench, name, keys, steps)
    rate = found["tokens_per_second"]
    rows = [row("tokens/s", f"{rate:,.0f}", f">= {least:,.0f}" if least else "",
                rate >= least if least and not bench.small else None)]
    if found["mfu"] is not None:
        rows.append(row("mfu", f"{found['mfu']:.3f}"))
    rows.append(row("idle between tasks", f"{found['idle']:.1%}",
                    f"<= {idle:.0%}",
                    None if bench.small else found["idle"] <= idle))
    rows.append(row("first step", f"{found['seconds'][0]:.1f} s"))
    return {"rows": rows, **found}


def gpt2_124m(bench):
    """GPT-2 124M, 64 x 1024 a micro-batch, 8 a step"""
    return job(bench, "gpt2-124m", {**GPT2_124M, "batch.sequences": 512,
                                    "batch.micro": 64}, 10, 460e3, 0.02)


def gpt2_small(bench):
    """GPT-2 124M, one micro-batch of 4 x 1024 a step"""
    return job(bench, "gpt2-small", {**GPT2_124M, "batch.sequences": 4,
                                     "batch.micro": 4}, 60, None, 0.1)


BATCH_1_5B = {**GPT2_1_5B, "batch.sequences": 128, "batch.micro": 16}


def gpt2_1_5b(bench):
    """GPT-2 1.5B, 16 x 1024 a micro-batch, 8 a step"""
    return job(bench, "gpt2-1.5b", BATCH_1_5B, 7, 47e3, 0.02)


def llama_7b(bench):
    """LLaMA 7B, 2 x 4096 a micro-batch, 8 a step, states in main memory"""
    return job(bench, "llama-7b", {**LLAMA_7B, "batch.sequences": 16,
                                   "batch.micro": 2,
                                   "offload.optimizer": "cpu"}, 5, 11e3, 0.05)


def device_bytes(bench, keys):
    """What a plan has on the device."""
    _, words = command(bench, "whole", keys)
    ended = bench.run("plan", [words[0], "plan", "--json", words[2]])
    try:
        plan = json.loads(ended.text[ended.text.index("{"):])
    except ValueError as e:
        raise Failed(f"dsflow plan: {ended.why()}") from e
    return plan["ranks"][0]["peak_bytes"]["device"]


def offload(bench):
    """GPT-2 1.5B with a third of the device memory that it needs"""
    keys = {**BATCH_1_5B, **BF16, "job.steps": 5}
    if bench.small:
        keys = small_keys(keys)
    needs = device_bytes(bench, keys)
    found = timed(bench, "offloaded", {
        **keys, "memory.device": str(int(needs * (0.7 if bench.small
                                                  else 1 / 3))),
        "offload.optimizer": "cpu", "offload.share": "auto",
        "offload.activations": "cpu"}, 5)
    rate = found["tokens_per_second"]
    rows = [row("tokens/s", f"{rate:,.0f}"),
            row("memory", f"{found['planned_bytes']['device'] / needs:.2f} of "
                f"{needs / 1e9:.1f} GB")]
    whole = bench.results.parts.get("gpt2-1.5b", {})
    if whole.get("tokens_per_second"):
        share = rate / whole["tokens_per_second"]
        both = min(len(found["loss"]), len(whole["loss"]))
        rows.append(row("of the speed without a limit", f"{share:.2f}",
                        ">= 0.85", None if bench.small else share >= 0.85))
        rows.append(row(f"{both} losses", "same" if found["loss"][:both] ==
                        whole["loss"][:both] else "others", "same",
                        found["loss"][:both] == whole["loss"][:both]))
    return {"rows": rows, "device_bytes": needs, **found}


# --- PyTorch ----------------------------------------------------------------

def torch_steps(bench, python, words):
    ended = bench.run(f"PyTorch {' '.join(words)}",
                      [python, machine.HERE / "torch_train.py", *words],
                      env=dict(os.environ))
    if not ended.good:
        return {"failed": ended.why()}
    return json.loads(ended.text.splitlines()[-1])


def torch(bench, ours, words, ways, least):
    """Of the ways that PyTorch has, the best beside what dsflow did."""
    from checks import Missing, Wrong

    python = machine.python_with_torch(not bench.small)
    if python is None:
        raise Missing("no Python here has PyTorch"
                      + ("" if bench.small else " that sees a GPU"))
    device = "cpu" if bench.small else "cuda"
    if bench.small:
        words = ["--batch", "2", "--sequence", "16", "--width", "32",
                 "--heads", "2", "--layers", "1", "--steps", "1",
                 "--warmup", "1"]
        ways = [[]]
    rows, tried = [], {}
    for way in ways:
        name = " ".join(w.lstrip("-") for w in way) or "plain"
        tried[name] = found = torch_steps(
            bench, python, ["--device", device, *words, *way])
        rows.append(row(f"PyTorch, {name}", found.get("failed") or
                        f"{found['tokens_per_second']:,.0f} tokens/s"))
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


COMPILED = ["--type", "autocast", "--adam", "fused", "--compile"]
EAGER = ["--type", "autocast", "--adam", "fused"]


def torch_gpt2_124m(bench):
    """PyTorch on the job of gpt2-124m, compiled"""
    return torch(bench, "gpt2-124m",
                 ["--batch", "64", "--accumulate", "8", "--sequence", "1024",
                  "--steps", "5"], [COMPILED], 1.0)


def torch_gpt2_small(bench):
    """PyTorch on the job of gpt2-small, not compiled"""
    return torch(bench, "gpt2-small",
                 ["--batch", "4", "--sequence", "1024", "--steps", "40"],
                 [EAGER], 1.0)


def torch_gpt2_1_5b(bench):
    """PyTorch on the job of gpt2-1.5b, compiled block by block"""
    return torch(bench, "gpt2-1.5b",
                 ["--batch", "16", "--accumulate", "8", "--sequence", "1024",
                  "--layers", "48", "--heads", "25", "--width", "1600",
                  "--steps", "3"],
                 [["--type", "autocast", "--adam", "fused",
                   "--compile-blocks"]], 1.0)
