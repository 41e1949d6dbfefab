"""Compares what dsflow makes of shards of Megatron-LM with what DeepSpeed does.

    python compare.py DSFLOW FOLDER [--large]

Shards of random numbers are written with torch.save, in both of its containers:
versions 0, 1.0 and 2.0, for 1, 2 and 4 tensor ranks, split by DeepSpeed's
MegatronSDLoader out of a whole model. `dsflow checkpoint import` reads them,
`dsflow checkpoint export` writes a Hugging Face folder, and each tensor there is
compared, bit by bit, with the one that MegatronSDLoader merges, its queries, keys
and values put in order as Megatron-LM's fix_query_key_value_ordering does. Made
with torch 2.15 and deepspeed 0.19.8. --large: the shapes of the model of 345
million parameters, version 0 and 2.0, 4 ranks.
"""

import os
import shutil
import subprocess
import sys
import time

import torch
from deepspeed.runtime.state_dict_factory import SDLoaderFactory
from safetensors.torch import load_file

SMALL = dict(layers=2, heads=8, width=48, context=24, vocab=301, padded=304)
LARGE = dict(layers=24, heads=16, width=1024, context=1024, vocab=50257,
             padded=50304)


def whole(size):
    """Names and numbers of a model, as one tensor rank has it."""
    h, g = size["width"], torch.Generator().manual_seed(7)
    shapes = {"word_embeddings.weight": (size["padded"], h),
              "position_embeddings.weight": (size["context"], h)}
    for i in range(size["layers"]):
        at = f"transformer.layers.{i}."
        shapes.update({
            at + "input_layernorm.weight": (h,),
            at + "input_layernorm.bias": (h,),
            at + "attention.query_key_value.weight": (3 * h, h),
            at + "attention.query_key_value.bias": (3 * h,),
            at + "attention.dense.weight": (h, h),
            at + "attention.dense.bias": (h,),
            at + "post_attention_layernorm.weight": (h,),
            at + "post_attention_layernorm.bias": (h,),
            at + "mlp.dense_h_to_4h.weight": (4 * h, h),
            at + "mlp.dense_h_to_4h.bias": (4 * h,),
            at + "mlp.dense_4h_to_h.weight": (h, 4 * h),
            at + "mlp.dense_4h_to_h.bias": (h,)})
    shapes["transformer.final_layernorm.weight"] = (h,)
    shapes["transformer.final_layernorm.bias"] = (h,)
    return {k: torch.randn(s, generator=g) for k, s in shapes.items()}


def save(path, sd, stream):
    os.makedirs(os.path.dirname(path))
    torch.save(sd, path, _use_new_zipfile_serialization=not stream)


def loader(files):
    return SDLoaderFactory.get_sd_loader(files, None, "Megatron", None)


def write(folder, model, version, ranks, stream):
    """Split by MegatronSDLoader; returns the names of the files."""
    one = f"{folder}/whole/one.pt"
    head = {"iteration": 5, "checkpoint_version": version}
    if version == 0:
        del head["checkpoint_version"]
    save(one, {**head, "mp_world_size": 1, "model": model}, stream)
    files = []
    for rank in range(ranks):
        _, sd, _ = loader([one]).load(ranks, rank)
        sd["model"] = {k: v.clone() for k, v in sd["model"].items()}
        sd["mp_world_size"] = ranks
        files.append(f"{folder}/iter_0000005/mp_rank_{rank:02d}/"
                     "model_optim_rng.pt")
        save(files[-1], sd, stream)
    shutil.rmtree(f"{folder}/whole")
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as f:
        f.write("5")
    return files


def in_order(t, version, size):
    """[3][heads][head] of a version's order."""
    n = size["heads"]
    if version == 0:
        return t
    dims = (n, -1, 3) if version == 1 else (n, 3, t.shape[0] // n // 3)
    t = t.view(*dims, *t.shape[1:])
    t = t.permute(2, 0, 1, *range(3, t.dim())) if version == 1 else \
        t.transpose(0, 1)
    return t.reshape(-1, *t.shape[3:])


def hugging_face(model, version, size):
    """Names and layouts of GPT-2."""
    words = {"attention.dense": "attn.c_proj", "mlp.dense_h_to_4h": "mlp.c_fc",
             "mlp.dense_4h_to_h": "mlp.c_proj", "input_layernorm": "ln_1",
             "post_attention_layernorm": "ln_2",
             "attention.query_key_value": "attn.c_attn",
             "final_layernorm": "ln_f"}
    out = {"transformer.wte.weight":
               model["word_embeddings.weight"][:size["vocab"]],
           "transformer.wpe.weight": model["position_embeddings.weight"]}
    for name, t in model.items():
        if not name.startswith("transformer."):
            continue
        if "query_key_value" in name:
            t = in_order(t, version, size)
        if t.dim() == 2:
            t = t.t()
        for a, b in words.items():
            name = name.replace(a, b)
        out[name.replace(".layers.", ".h.")] = t.contiguous()
    return out


def run(*args):
    """Seconds, and MiB of memory, where GNU time is there."""
    timed = ["/usr/bin/time", "-f", "%M", "-o", "time.txt"]
    start = time.time()
    done = subprocess.run((timed if os.path.exists(timed[0]) else []) +
                          list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    seconds = time.time() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(args)}: {done.returncode}: {done.stdout}")
    memory = "?"
    if os.path.exists("time.txt"):
        with open("time.txt") as f:
            memory = str(int(f.read()) // 1024)
        os.unlink("time.txt")
    return seconds, memory


def case(dsflow, folder, model, size, version, ranks, stream):
    shutil.rmtree(folder, ignore_errors=True)
    files = write(f"{folder}/from", model, version, ranks, stream)
    with open(f"{folder}/job.toml", "w") as f:
        f.write("[job]\nname = \"m\"\nsteps = 10\n"
                f"output = \"{folder}/run\"\n[model]\nfamily = \"gpt2\"\n"
                f"layers = {size['layers']}\nheads = {size['heads']}\n"
                f"width = {size['width']}\ncontext = {size['context']}\n"
                f"vocab = {size['vocab']}\n"
                f"[data]\ntrain = [\"{__file__}\"]\n"
                "[batch]\nsequences = 4\nsequence = 16\n")
    seconds, mib = run(dsflow, "checkpoint", "import", f"{folder}/from",
                       f"{folder}/job.toml", "--weights-only")
    run(dsflow, "checkpoint", "export", f"{folder}/run", f"{folder}/hf",
        "--dtype", "fp32")
    _, merged, _ = loader(files).load(1, 0)
    for k, v in merged["model"].items():
        assert torch.equal(v, model[k]), f"MegatronSDLoader: {k}"
    want = hugging_face(merged["model"], version, size)
    has = load_file(f"{folder}/hf/model.safetensors")
    assert set(has) - {"lm_head.weight"} == set(want), set(has) ^ set(want)
    for k, v in want.items():
        assert torch.equal(has[k], v), k
    print(f"version {version}, {ranks} ranks, "
          f"{'stream' if stream else 'zip'}: {len(want)} tensors are equal; "
          f"import {seconds:.1f} s, at most {mib} MiB", flush=True)
    shutil.rmtree(folder)


def main():
    dsflow, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    large = "--large" in sys.argv
    size = LARGE if large else SMALL
    model = whole(size)
    versions, ranks = ([0, 2.0], [4]) if large else ([0, 1.0, 2.0], [1, 2, 4])
    for version in versions:
        for p in ranks:
            for stream in (False, True):
                case(dsflow, folder, model, size, version, p, stream)


if __name__ == "__main__":
    main()
