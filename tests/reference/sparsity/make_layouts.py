#!/usr/bin/env python3
"""Make layouts.txt: what the layouts of DeepSpeed's sparse attention are for 300
random settings, which tests/unit/tasks/test_sparsity.c compares with.

  VENV/bin/python make_layouts.py sparsity_config.py > layouts.txt

sparsity_config.py is deepspeed/ops/sparse_attention/sparsity_config.py of
DeepSpeed 0.18.0 (0.19.8 does not have it); nothing else of DeepSpeed is needed.

A line is: heads, tokens, a hash of the blocks of all heads, and keys of
[sparse_attention]. The hash is FNV-1a of 64 bits over a byte 0 or 1 for each
block, head by head and row by row. Where there are random blocks the hash is
that of the same setting without any.
"""

import importlib.util
import random
import sys

spec = importlib.util.spec_from_file_location("sparsity_config", sys.argv[1])
original = importlib.util.module_from_spec(spec)
spec.loader.exec_module(original)

CLASSES = {
    "dense": original.DenseSparsityConfig,
    "fixed": original.FixedSparsityConfig,
    "variable": original.VariableSparsityConfig,
    "bigbird": original.BigBirdSparsityConfig,
    "bslongformer": original.BSLongformerSparsityConfig,
    "local_sliding_window": original.LocalSlidingWindowSparsityConfig,
}
SETTINGS = 300
draw = random.Random(18)


def fnv(values):
    h = 0xcbf29ce484222325
    for v in values:
        h = ((h ^ v) * 0x100000001b3) & 0xffffffffffffffff
    return h


def ranges(blocks):
    """Global blocks, alone or as ranges, some of them past the layout."""
    first = sorted(draw.sample(range(blocks + 2), min(blocks, draw.randint(1, 3))))
    if draw.random() < 0.5:
        return {"global_block_indices": first}
    return {"global_block_indices": first,
            "global_block_end_indices": [f + draw.randint(1, 4) for f in first]}


def keys_of(mode, blocks):
    """Keys that the mode has; what is left out is its default."""
    way = draw.choice(["bidirectional", "unidirectional"])
    keys = {} if mode == "dense" else {"attention": way}
    if mode in ("fixed", "variable", "bigbird", "bslongformer"):
        keys["different_layout_per_head"] = draw.random() < 0.5
    if mode == "fixed":
        keys["num_global_blocks"] = draw.randint(1, 3)
        keys["num_local_blocks"] = (keys["num_global_blocks"]
                                    * draw.randint(1, 5))
        if keys["different_layout_per_head"]:
            keys["num_different_global_patterns"] = draw.randint(
                1, keys["num_local_blocks"] // keys["num_global_blocks"])
    if mode == "variable":
        keys["local_window_blocks"] = [draw.randint(1, 6) for _ in
                                       range(draw.randint(1, 4))]
        keys["num_random_blocks"] = draw.randint(0, min(3, blocks))
    if mode in ("fixed", "variable") and way == "bidirectional":
        keys["horizontal_global_attention"] = draw.random() < 0.5
    if mode in ("variable", "bslongformer"):
        keys.update(ranges(blocks))
    if mode == "bigbird":
        keys["num_global_blocks"] = draw.randint(1, min(3, blocks))
        keys["num_random_blocks"] = draw.randint(
            0, 1 if way == "unidirectional" else min(3, blocks))
    if mode in ("bigbird", "bslongformer", "local_sliding_window"):
        keys["num_sliding_window_blocks"] = draw.randint(1, min(9, blocks))
    return keys


def text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).replace(" ", "")


print("# made by make_layouts.py: heads, tokens, hash, keys")
for i in range(SETTINGS):
    mode = list(CLASSES)[i % len(CLASSES)]
    block = draw.choice([16, 32, 64, 128])
    heads, blocks = draw.randint(1, 16), draw.randint(1, 64)
    keys = keys_of(mode, blocks)
    of = dict(keys)
    if "num_random_blocks" in of:
        of["num_random_blocks"] = 0
    layout = CLASSES[mode](num_heads=heads, block=block,
                           **of).make_layout(blocks * block)
    print(heads, blocks * block, f"{fnv(layout.flatten().tolist()):016x}",
          f"mode={mode}", f"block={block}",
          *(f"{k}={text(v)}" for k, v in keys.items()))
