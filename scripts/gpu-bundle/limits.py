"""What the GPU can do, and how near kinds of tasks and products come to it."""

import json

import machine
from checks import Missing, Wrong
from results import row


def lines_of(ended):
    return [json.loads(line) for line in ended.text.splitlines()
            if line.startswith("{")]


# What attention has to reach, in TFLOP/s.
ATTENTION = {"attention 128 forward": 270, "attention 128 backward": 220,
             "attention 64 forward": 230, "attention 64 backward": 190}


def speed_row(one, copy, small):
    """Of a kind of task, beside a copy's bandwidth."""
    name, seconds = one["name"], one["seconds"]
    if one["flops"]:
        rate = one["flops"] / seconds / 1e12
        if name not in ATTENTION:
            return row(name, f"{rate:.0f} TFLOP/s")
        return row(name, f"{rate:.0f} TFLOP/s", f">= {ATTENTION[name]}",
                   None if small else rate >= ATTENTION[name])
    if not one["bytes"]:
        return row(name, f"{1e6 * seconds:.1f} us")
    rate = one["bytes"] / seconds
    if name == "copy" or name.startswith("link"):
        return row(name, f"{rate / 1e9:,.0f} GB/s")
    return row(name, f"{rate / copy:.2f} of a copy", ">= 0.85",
               None if small else rate >= 0.85 * copy)


def speeds(bench):
    """copies, links, launches, norms, loss, Adam, coding, weights, attention"""
    ended = bench.run("speeds", [machine.program("gpu_speeds")]
                      + ["small"] * bench.small)
    found = lines_of(ended)
    if not found:
        raise Wrong(ended.why())
    copy = found[0]["bytes"] / found[0]["seconds"]
    rows = [speed_row(one, copy, bench.small) for one in found]
    if not ended.good:
        raise Wrong(ended.why(), rows)
    return {"rows": rows, "measured": found}


def products(bench):
    """products of the jobs, beside each algorithm that cuBLASLt lists"""
    program = machine.program("gpu_products")
    if bench.small or not program.exists():
        raise Missing("products need a GPU that is there")
    ended = bench.run("products", [program])
    found = lines_of(ended)
    if not found:
        raise Wrong(ended.why())
    rows = []
    for one in found:
        if "failed" in one:
            rows.append(row(one["name"], one["failed"], "a product", False))
            continue
        share = min(one["best"] / one["ours"], 1)    # of the best
        rate = one["flops"] / one["ours"] / 1e12
        rows.append(row(one["name"], f"{share:.2f} of the best of "
                        f"{one['listed']}, {rate:.0f} TFLOP/s", ">= 0.95",
                        share >= 0.95))
    if not ended.good:
        raise Wrong(ended.why(), rows)
    return {"rows": rows, "measured": found}
