"""Jobs that are timed."""

import functools
import itertools
import json
import os
import pathlib
import re
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
    """A folder of a run that has ended, after so many seconds; whole: by
    itself."""

    def __init__(self, folder, text, whole=True, took=None):
        self.folder, self.text = pathlib.Path(folder), text
        self.whole, self.took = whole, took

    def lines(self):
        """What is known of each step."""
        path = self.folder / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = map(json.loads, text[:text.rfind("\n") + 1].splitlines())
        return [line for line in lines if "seconds" in line]

    def column(self, name):
        """Of each step."""
        return [line[name] for line in self.lines()
                if line.get(name) is not None]

    def median(self, name, skip):
        values = self.column(name)[skip:]
        return statistics.median(values) if values else None


def toml(value):
    return value if isinstance(value, str) and value in ("true", "false") \
        else json.dumps(value)


def write_job(bench, path, keys):
    tables = {}
    for key, value in keys.items():
        table, name = key.rsplit(".", 1)
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


def train(bench, name, keys, least=None):
    """least: whose time is up is worth something after so many steps."""
    folder, words = command(bench, name, keys)
    ended = bench.run(name, words)
    ran = Trained(folder, ended.text, ended.good, ended.seconds)
    if not ended.good:
        bench.results.log(f"{name}: the last steps",
                          "\n".join(map(json.dumps, ran.lines()[-LAST:])))
    if not ended.good and (ended.status is not None or least is None or
                           len(ran.column("seconds")) < least):
        raise Failed(f"{name}: {ended.why()}")
    return ran


# --- speed ------------------------------------------------------------------

# Steps that are not timed: the first ones choose products and fill pipelines.
WARMUP = 2
CACHE = "XDG_CACHE_HOME"
LAST = 4        # steps of which all is kept that is known
BF16 = {"precision.compute": "bf16", "machine.gpus": 1}


def small_keys(keys):
    """The same job, of the size of TINY."""
    small = {**TINY, "model.ffn_width": 64, "batch.micro": 2}
    return {**keys, **{k: small[k] for k in keys
                       if k in small and k != "model.family"}}


def spans_of(events):
    """{lane: [(began, took, kind)]} of a trace, in seconds; all cores are one."""
    names = {e["tid"]: re.sub(r"^core \d+$", "cores", e["args"]["name"])
             for e in events if e["name"] == "thread_name"}
    lanes = {}
    for e in events:
        if e["ph"] == "X":
            lanes.setdefault(names.get(e.get("tid"), "others"), []).append(
                (1e-6 * e["ts"], 1e-6 * e["dur"], e["name"]))
    return {name: sorted(spans) for name, spans in lanes.items()}


def busy(bench, ran):
    """Of the step that was traced: the share of the time that GPU 0 computed
    nothing between its first kernel and its last, and how many of each kind there
    were on each lane, with what they took: on the GPU, its links and cores."""
    path = bench.work / "trace.json"
    ended = bench.run("trace", [machine.program("dsflow"), "trace", ran.folder,
                                "--chrome", path])
    if not ended.good:
        raise Failed(f"dsflow trace: {ended.why()}")
    spans = spans_of(json.loads(path.read_text())["traceEvents"])
    lanes = {}
    for lane, some in spans.items():
        kinds = lanes[lane] = {}
        for _, took, name in some:
            count, seconds = kinds.get(name, (0, 0))
            kinds[name] = count + 1, seconds + took
    gpu = spans["device 0"]
    whole = max(begin + took for begin, took, _ in gpu) - gpu[0][0]
    return {"idle": 1 - sum(took for _, took, _ in gpu) / whole,
            "lanes": lanes}


def busy_if_known(bench, ran):
    """Nothing: the run was cut short before it was traced."""
    try:
        return busy(bench, ran)
    except (Failed, KeyError, ValueError, OSError):
        if ran.whole:
            raise
        return {"idle": None, "lanes": {}}


def plan_of(bench, name, keys):
    """(plan, None) where the job fits on this machine, or (None, why it does
    not)."""
    _, words = command(bench, name, keys)
    ended = machine.run([words[0], "plan", "--json", words[2]],
                        min(60, bench.left()))
    try:
        plan = json.loads(ended.text[ended.text.index("{"):])
    except ValueError:
        plan = None
    if plan is not None and ended.good:
        return plan, None
    bench.results.log(f"plan {name}: status {ended.status}", ended.text)
    return None, ended.why()


def that_fits(bench, name, keys):
    """(keys, rows): the job as it is, or with two or one micro-batch in flight, or
    with the largest micro-batches that fit into this GPU, and as many more of
    them; rows say so. A step has the same tokens."""
    whole, why = keys["batch.micro"], None
    flights = keys.get("batch.in_flight", 2)
    sizes = [whole >> i for i in range(whole.bit_length())]
    for micro, flight in itertools.product(sizes, range(flights, 0, -1)):
        fewer = {**keys, "batch.micro": micro, "batch.in_flight": flight}
        plan, said = plan_of(bench, name, {"job.steps": 1, **fewer, **BF16})
        if plan is None:
            why = why or said.split(".toml: ")[-1]
            continue
        rows = []
        if flight < flights:
            rows.append(row("in flight", f"{flight} micro-batch"
                            f"{'es' if flight > 1 else ''}; more do not fit: "
                            f"{why[:100]}"))
        if micro < whole:
            rows.append(row("micro-batch", f"{micro} sequences; {whole} do not "
                            f"fit: {why[:100]}"))
        return fewer, rows
    return keys, [row("micro-batch", f"does not fit: {why[:100]}")]


def timed(bench, name, keys, steps, traced=None):
    """Tokens a second, and what else is known of a step. One more is traced, the
    last if no other is asked for, and does not count."""
    keys = {**keys, **BF16, "job.steps": steps + 1}
    traced = traced or steps + 1
    ran = train(bench, name, {**keys, "trace.steps": [traced, traced]},
                WARMUP + 2)
    seconds = ran.column("seconds")
    counted = [s for i, s in enumerate(seconds, 1)
               if i > WARMUP and i != traced]
    tokens = keys["batch.sequences"] * keys["batch.sequence"]
    plan = json.loads((ran.folder / "plan.json").read_text())
    return {"tokens_per_second": tokens / statistics.median(counted),
            "step_seconds": statistics.median(counted),
            "seconds": seconds, "loss": ran.column("loss"),
            "to_first": ran.took - sum(seconds[1:]),
            "mfu": ran.median("mfu", WARMUP),
            "efficiency": ran.median("efficiency", WARMUP),
            "planned_bytes": plan["ranks"][0]["peak_bytes"],
            "keys": keys, **busy_if_known(bench, ran), "whole": ran.whole,
            "metrics": ran.lines()[-LAST:], "said": ran.text[-4000:]}


LANES = ("device 0", "into device 0", "out of device 0", "cores", "disk read",
         "disk write")


def at_work(found):
    """What GPU 0, its links, cores and disks did in the step that was traced."""
    said = []
    for lane in LANES:
        kinds = found["lanes"].get(lane)
        if kinds:
            said.append(f"{lane} {sum(s for _, s in kinds.values()):.3g}")
    return ", ".join(said)


def job(bench, name, keys, steps, least, idle, traced=None):
    """Nothing is expected of GPUs that are emulated."""
    if bench.small:
        keys, steps = small_keys(keys), WARMUP + 1
    keys, rows = that_fits(bench, name, keys)
    try:
        found = timed(bench, name, keys, steps, traced)
    except Exception as e:
        from checks import examine_job
        e.rows = rows + examine_job(bench, name, keys, str(e))
        raise
    rate = found["tokens_per_second"]
    rows += [row("tokens/s", f"{rate:,.0f}", f">= {least:,.0f}" if least else "",
                rate >= least if least and not bench.small else None)]
    if found["mfu"] is not None:
        rows.append(row("mfu", f"{found['mfu']:.3f}"))
    if found["idle"] is not None:
        rows.append(row("idle between tasks", f"{found['idle']:.1%}",
                        f"<= {idle:.0%}" if idle else "",
                        None if bench.small or not idle else
                        found["idle"] <= idle))
    if at_work(found):
        rows.append(row("seconds at work", at_work(found)))
    rows.append(row("first step", f"{found['seconds'][0]:.1f} s, done "
                    f"{found['to_first']:.0f} s after the command at most"))
    if not found["whole"]:
        rows.append(row("cut short", f"after {len(found['seconds'])} of "
                        f"{found['keys']['job.steps']} steps"))
    return {"rows": rows, **found}


BATCH_124M = {**GPT2_124M, "batch.sequences": 512, "batch.micro": 64}


def gpt2_124m(bench):
    """GPT-2 124M, 64 x 1024 a micro-batch, 8 a step"""
    return job(bench, "gpt2-124m", BATCH_124M, 10, 460e3, 0.02)


def in_flight(bench):
    """GPT-2 124M as before, with one micro-batch in flight, and not two"""
    found = job(bench, "in-flight", {**BATCH_124M, "batch.in_flight": 1}, 6,
                None, None)
    two = bench.results.parts.get("gpt2-124m", {})
    if two.get("tokens_per_second"):
        share = found["tokens_per_second"] / two["tokens_per_second"]
        found["rows"].append(row("of the speed with two", f"{share:.3f}"))
    return found


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
    # While cores update the last layers, three micro-batches go through the
    # first ones. Its time may be up before the last step.
    return job(bench, "llama-7b", {**LLAMA_7B, "batch.sequences": 16,
                                   "batch.micro": 2, "batch.in_flight": 3,
                                   "offload.optimizer": "cpu"}, 4, 11e3, 0.05,
               WARMUP + 1)


# --- the GPU as it was measured -----------------------------------------------

def knowing_the_gpu(part):
    """dsflow finds what bench_gpu measured, and plans and runs by it. It is in the
    folder of results: whoever runs this part alone has it, too."""
    @functools.wraps(part)
    def knowing(bench):
        before = os.environ.get(CACHE)
        os.environ[CACHE] = str(bench.results.folder.resolve() / "cache")
        try:
            return part(bench)
        finally:
            del os.environ[CACHE]
            if before is not None:
                os.environ[CACHE] = before
    return knowing


def is_gpu_known(bench):
    """dsflow itself says whether it is this GPU that was measured."""
    _, words = command(bench, "known", {**TINY, **BF16})
    said = machine.run([words[0], "plan", words[2]], min(60, bench.left()))
    return said.good and "times are those of cores" not in said.text


def measure_gpu(bench):
    ended = bench.run("bench gpu", [machine.program("dsflow"), "bench", "gpu",
                                    "--quick"])
    if not ended.good:
        raise Failed(f"dsflow bench gpu: {ended.why()}")
    if not is_gpu_known(bench):
        raise Failed("dsflow bench gpu: dsflow plan does not find it")
    return ended


def measure_row(ended):
    return row("dsflow bench gpu --quick", f"{ended.seconds:.0f} s")


def measure_unless_known(bench):
    """Rows: what is planned by times is planned by those of this GPU."""
    return [] if is_gpu_known(bench) else [measure_row(measure_gpu(bench))]


@knowing_the_gpu
def bench_gpu(bench):
    """dsflow bench gpu --quick: what offload and predictions plan by"""
    ended = measure_gpu(bench)
    file = re.search(r"^written to (.*)", ended.text, re.M).group(1)
    return {"rows": [measure_row(ended)], "said": ended.text,
            "machine": pathlib.Path(file).read_text()}


# --- predictions --------------------------------------------------------------

@knowing_the_gpu
def predictions(bench):
    """the steps that dsflow plan predicts of the jobs, from bench-gpu"""
    rows = measure_unless_known(bench)
    for name in "gpt2-124m", "gpt2-small", "gpt2-1.5b", "llama-7b":
        ran = bench.results.parts.get(name, {})
        if "step_seconds" not in ran:
            continue
        plan, why = plan_of(bench, name, ran["keys"])
        if plan is None:
            rows.append(row(name, why[:160]))
            continue
        share = plan["predicted"]["step_seconds"] / ran["step_seconds"]
        rows.append(row(f"{name}, predicted / measured", f"{share:.2f}",
                        "0.90 to 1.10", None if bench.small else
                        abs(share - 1) <= 0.1))
        share = plan["ranks"][0]["peak_bytes"]["device"] / \
            ran["metrics"][-1]["peak_bytes"]["device"]
        rows.append(row(f"{name}, memory, predicted / measured",
                        f"{share:.4f}", "0.98 to 1.02", abs(share - 1) <= 0.02))
    return {"rows": rows}
