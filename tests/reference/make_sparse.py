#!/usr/bin/env python3
"""Make the references of layouts that tests/same/test_reference.c compares with.

gpt2_sparse and llama_sparse are two small models as those of make_reference.py,
and for each mode of sparse attention, in blocks of 16 and of 64, how PyTorch
trains them with dense attention (scaled_dot_product_attention) whose mask is the
layout of each layer and head, every block expanded to its tokens, without what is
behind the queries:

  NAME.json           the keys of the job, losses and gradient norms of the
                      steps, and of the first sequence the loss of each token
  NAME.safetensors    gradient of every parameter at step 1, before clipping

Layouts are those that `dsflow plan --layout` prints, of which
tests/reference/sparsity compares those without random blocks with DeepSpeed's.
Made by torch 2.15.0 (CPU) and transformers 5.24.0 with

  python make_sparse.py DSFLOW
"""

import json
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

import make_reference as reference

TOKENS, SEQUENCES, STEPS = 256, 2, 20
MODELS = {
    "gpt2_sparse": (8, reference.gpt2(2, 2, 8, None, TOKENS, 61)),
    "llama_sparse": (9, reference.llama(2, 4, 2, 16, 24, TOKENS, 61, False)),
}
PER_HEAD = "different_layout_per_head=true"
CASES = {
    "fixed16": ["mode=fixed", "block=16", PER_HEAD,
                "num_different_global_patterns=2"],
    "fixed64": ["mode=fixed", "block=64", "num_local_blocks=2"],
    "variable16": ["mode=variable", "block=16", PER_HEAD,
                   "num_random_blocks=1", "local_window_blocks=[2,3]",
                   "global_block_indices=[1,6]"],
    "variable64": ["mode=variable", "block=64", PER_HEAD,
                   "num_random_blocks=1", "local_window_blocks=[1]"],
    "bigbird16": ["mode=bigbird", "block=16", PER_HEAD],
    "bigbird64": ["mode=bigbird", "block=64", PER_HEAD,
                  "num_sliding_window_blocks=1"],
    "bslongformer16": ["mode=bslongformer", "block=16",
                       "global_block_indices=[0,9]",
                       "global_block_end_indices=[1,11]"],
    "bslongformer64": ["mode=bslongformer", "block=64",
                       "num_sliding_window_blocks=1"],
    "sliding16": ["mode=local_sliding_window", "block=16", 'layers="1"'],
    "sliding64": ["mode=local_sliding_window", "block=64"],
}


def keys_of(case):
    return ["sparse_attention.attention=unidirectional"] + [
        "sparse_attention." + key for key in CASES[case]]


def layout(dsflow, sets, config, layer, head):
    """Which blocks a head of a layer sees."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as job:
        job.write(f"""\
[job]
name = "layout"
steps = 1
[model]
family = "gpt2"
layers = {config.num_hidden_layers}
heads = {config.num_attention_heads}
width = 64
context = {TOKENS}
vocab = 256
[data]
train = ["none"]
""")
        job.flush()
        command = [dsflow, "plan", job.name, f"--layout={head}"]
        for key in sets + [f'sparse_attention.layers="{layer}"']:
            command += ["--set", key]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                              text=True).stdout
    rows = text.split("\n\n")[0].splitlines()
    return torch.tensor([[c == "1" for c in row] for row in rows])


def masks(dsflow, sets, config):
    """[layers][heads][tokens][tokens]: true where a token sees another."""
    block = 64 if "sparse_attention.block=64" in sets else 16
    only = [s.split('"')[1] for s in sets if ".layers=" in s]
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    out = []
    for layer in range(config.num_hidden_layers):
        if only and str(layer) != only[0]:
            out.append(causal.expand(config.num_attention_heads, -1, -1))
            continue
        out.append(torch.stack([
            layout(dsflow, sets, config, layer, head)
            .repeat_interleave(block, 0).repeat_interleave(block, 1) & causal
            for head in range(config.num_attention_heads)]))
    return out


def use_masks(of):
    def attend(module, q, k, v, mask, scaling=None, **ignored):
        group = q.shape[1] // k.shape[1]
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1),
            attn_mask=of[module.layer_idx], scale=scaling)
        return out.transpose(1, 2).contiguous(), None

    transformers.AttentionInterface.register("laid_out", attend)


def load(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="laid_out")
    return model.to(dtype).eval()


def make(dsflow, name):
    seed, config = MODELS[name]
    folder = reference.HERE / name
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    reference.save_model(config, seed, torch.float32, folder, "1GB")
    tokens = reference.make_tokens(config.vocab_size, SEQUENCES, TOKENS, seed)
    safetensors.torch.save_file({"tokens": tokens.to(torch.uint8)},
                                folder / "batches.safetensors")
    (folder / "job.toml").write_text(
        reference.job(name, config, SEQUENCES, 1, TOKENS)
        .replace("make_reference", "make_sparse"))
    for case in CASES:
        sets = keys_of(case)
        use_masks(masks(dsflow, sets, config))
        model = load(folder, torch.float32)
        with torch.no_grad():
            logits = model(input_ids=tokens[0, :1, :-1], use_cache=False).logits
        each = torch.nn.functional.cross_entropy(
            logits[0], tokens[0, 0, 1:], reduction="none")
        losses, norms, gradients = reference.train(model, tokens)
        exact = reference.train(load(folder, torch.float64), tokens)
        far = max((gradients[n].double() - g).norm().item() / g.norm().item()
                  for n, g in exact[2].items())
        safetensors.torch.save_file(gradients, folder / f"{case}.safetensors")
        (folder / f"{case}.json").write_text(json.dumps({
            "made_with": {"torch": torch.__version__,
                          "transformers": transformers.__version__,
                          "seed": seed},
            "keys": sets,
            "fp32_from_fp64": {
                "losses": reference.distance(losses, exact[0]),
                "gradients": far},
            "losses": losses, "norms": norms,
            "tokens": [float(f"{x:.7g}") for x in each]}) + "\n")
        print(f"{name}, {case}: loss {losses[0]:.4f} to {losses[-1]:.4f}, "
              f"fp32 from fp64: losses "
              f"{reference.distance(losses, exact[0]):.1e}, "
              f"gradients {far:.1e}")


for name in MODELS:
    make(sys.argv[1], name)
