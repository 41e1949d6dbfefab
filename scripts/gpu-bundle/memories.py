"""Jobs whose data is in main memory or on disks, too, as a GPU has no room."""

import re

import machine
from jobs import (BATCH_1_5B, BF16, WARMUP, Failed, at_work, knowing_the_gpu,
                  measure_unless_known, plan_of, small_keys, that_fits, timed)
from results import row


def again(layers):
    """Whole blocks of the first layers are computed again."""
    return {"recompute.what": "block",
            "recompute.layers": f"0-{layers - 1}" if layers > 1 else "0"}


def fewest_again(bench, keys):
    """`again` of as few layers as have to be, or None: all are not enough."""
    few, many = 0, keys["model.layers"]
    if plan_of(bench, "blocks", {**keys, **again(many)})[0] is None:
        return None
    while many - few > 1:
        some = (few + many) // 2
        if plan_of(bench, "blocks", {**keys, **again(some)})[0] is None:
            few = some
        else:
            many = some
    return again(many)


def fastest_way(bench, keys):
    """(keys, seconds, rows): what to compute again and to keep elsewhere, so that
    a step that goes into the memory is predicted to be the shortest, and how
    short.

    All activations are more than the link carries meanwhile: 44 GiB each way for
    each micro-batch of 16 x 1024. Parameters are 3 GiB, and come twice for each;
    with them elsewhere attention is all that has to be computed again. Where
    micro-batches are smaller, whole blocks of some layers are less."""
    ways = [{"recompute.what": "attention", "offload.params": "cpu"},
            fewest_again(bench, keys)]
    found = []
    for way in filter(None, ways):
        plan, _ = plan_of(bench, "way", {**keys, **way})
        if plan is not None:
            found.append((plan["predicted"]["step_seconds"], len(found), way))
    if not found:
        raise Failed("dsflow plan: nothing fits")
    rows = [row("computed again", f"{way['recompute.what']} of layers "
                f"{way.get('recompute.layers', 'all')}"
                + ("" if way is min(found)[-1] else ": not taken"),
                f"{seconds:.3g} s a step") for seconds, _, way in found]
    return {**keys, **min(found)[-1]}, min(found)[0], rows


@knowing_the_gpu
def offload(bench):
    """GPT-2 1.5B with a third of the device memory that it needs"""
    measured = measure_unless_known(bench)
    keys, steps = {**BATCH_1_5B, **BF16}, 5
    if bench.small:
        keys, steps = small_keys(keys), WARMUP + 1
    # As it was run without a limit, so that losses can be the same.
    keys, rows = that_fits(bench, "whole", keys)
    rows = measured + rows
    plan, why = plan_of(bench, "whole", {**keys, "job.steps": 1})
    if plan is None:
        raise Failed(f"dsflow plan: {why}")
    needs = plan["ranks"][0]["peak_bytes"]["device"]
    # One micro-batch at a time leaves room for what is not computed again.
    keys, predicted, ways = fastest_way(bench, {
        **keys, "job.steps": 1, "batch.in_flight": 1,
        "memory.device": str(int(needs * (0.75 if bench.small else 1 / 3))),
        "offload.optimizer": "cpu", "offload.share": "auto"})
    rows += ways
    found = timed(bench, "offloaded", keys, steps)
    rate = found["tokens_per_second"]
    rows += [row("tokens/s", f"{rate:,.0f}"),
             row("predicted / measured",
                 f"{predicted / found['step_seconds']:.2f}"),
             row("seconds at work", at_work(found)),
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
    return {"rows": rows, "device_bytes": needs, "predicted": predicted,
            **found}


def disk_rates(bench, folder):
    """What dsflow measures of a disk: bytes a second, and if both at once."""
    ended = bench.run("bench io", [
        machine.program("dsflow"), "bench", "io", folder, "--quick", "--size",
        "16MiB" if bench.small else "4GiB"])
    found = dict(re.findall(r"^(read|write|duplex) = (\S+)$", ended.text, re.M))
    if not ended.good or len(found) < 3:
        raise Failed(f"dsflow bench io: {ended.why()}")
    return (float(found["read"]), float(found["write"]),
            found["duplex"] == "true")


def traffic(rates, moved):
    """Seconds that the disk takes for what a step reads and writes."""
    read, write, duplex = rates
    ways = moved["swap_in"] / read, moved["swap_out"] / write
    return max(ways) if duplex else sum(ways)


def states_on_nvme(bench):
    """GPT-2 1.5B with its states on a disk: the longer of compute and traffic"""
    keys, steps = dict(BATCH_1_5B), WARMUP + 1
    if bench.small:
        keys = small_keys(keys)
    folder = bench.work / "disk"
    folder.mkdir()
    keys, rows = that_fits(bench, "states-nvme", keys)
    rates = disk_rates(bench, folder)
    found = timed(bench, "states-nvme", {
        **keys, "offload.optimizer": "nvme",
        "memory.nvme.path": str(folder)}, steps)
    moved = traffic(rates, found["metrics"][-1]["bytes"])
    rows += [row("disk", f"{rates[0] / 1e9:.2f} GB/s read, {rates[1] / 1e9:.2f} "
                 "written" + (", at once" if rates[2] else "")),
             row("tokens/s", f"{found['tokens_per_second']:,.0f}"),
             row("traffic", f"{moved:.3g} s a step"),
             row("seconds at work", at_work(found))]
    whole = bench.results.parts.get("gpt2-1.5b", {})
    if whole.get("step_seconds"):
        share = found["step_seconds"] / max(moved, whole["step_seconds"])
        rows.append(row("of the longer of compute and traffic", f"{share:.2f}",
                        "<= 1.15", None if bench.small else share <= 1.15))
        both = min(len(found["loss"]), len(whole["loss"]))
        same = found["loss"][:both] == whole["loss"][:both]
        rows.append(row(f"{both} losses", "same" if same else "others", "same",
                        same))
    return {"rows": rows, "rates": rates, "traffic": moved, **found}
