#!/usr/bin/env python3
"""Gradients and losses in bf16, against fp64 and PyTorch's bf16.

A small GPT-2 and a LLaMA with grouped queries and an untied head start from the
same weights and get the same batches in dsflow and in PyTorch:

  gradients  of the first step, from fp64: for each tensor |g - g64| / |g64|, of
             dsflow in bf16, of PyTorch with all in bf16 ("pure") and under
             autocast, which keeps in fp32 what goes from layer to layer: twice
             the bytes that dsflow and pure keep. dsflow's are the change of its
             fp32 masters under plain gradient descent.
  losses     of 20 steps of AdamW with clipping, against PyTorch's autocast

  VENV/bin/python gradients.py DSFLOW [gpt2|llama]...

with a Python that has the newest torch, and transformers. Ends with 1 where a
loss is farther than 1e-2 (relative) from autocast's, a gradient in fp32
farther than 1e-4 from fp64's, or one in bf16 farther from it than PURE_BOUND times
pure's or AUTOCAST_BOUND times autocast's.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

STEPS, SEQUENCES, MICRO, LENGTH = 20, 4, 2, 64
LR = 3e-4      # of the 20 steps
RATE = 256.0   # of the descent: fp32 masters change by far more than they round
LOSS_BOUND, EXACT_BOUND = 1e-2, 1e-4
PURE_BOUND, AUTOCAST_BOUND = 1.1, 1.6
HERE = pathlib.Path(__file__).resolve().parent

SHARED = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None}
MODELS = {
    "gpt2": transformers.GPT2Config(
        n_layer=3, n_head=4, n_embd=128, n_positions=LENGTH,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **SHARED),
    "llama": transformers.LlamaConfig(
        hidden_size=128, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, intermediate_size=344,
        max_position_embeddings=LENGTH, tie_word_embeddings=False, **SHARED),
}


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n"
                 + done.stderr.decode(errors="replace"))


def make_model(name, folder):
    """Random weights, biases and norms too."""
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(MODELS[name])
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.02 * torch.randn_like(p))
    model.save_pretrained(folder / "model")


def load_model(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.float32).to(dtype).train()


def write_job(folder, name):
    text = b"".join(f.read_bytes()
                    for f in sorted((HERE.parent.parent / "docs").glob("*.md")))
    (folder / "text").write_bytes(text)
    (folder / "job.toml").write_text(f"""\
[job]
name = "{name}"
output = "{folder}/run"
[model]
family = "{name}"
init = "{folder}/model"
[data]
train = ["{folder}/text"]
tokenizer = "bytes"
validation = 0.0
shuffle = false
[batch]
sequences = {SEQUENCES}
micro = {MICRO}
sequence = {LENGTH}
[schedule]
kind = "constant"
""")
    return text


def batch_of(text, step):
    """dsflow's, which are in the order of the text where it does not shuffle."""
    first = step * SEQUENCES * LENGTH
    rows = [list(text[at:at + LENGTH + 1])
            for at in range(first, first + SEQUENCES * LENGTH, LENGTH)]
    return torch.tensor(rows)


def loss_of(model, batch):
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits
    kind = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).to(kind), batch[:, 1:].flatten())


def backward(model, batch, autocast):
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = loss_of(model, batch)
    loss.backward()
    return loss.item()


def torch_gradients(folder, batch, dtype, autocast=False):
    model = load_model(folder, dtype)
    backward(model, batch, autocast)
    return {name: p.grad.double() for name, p in model.named_parameters()}


def torch_losses(folder, text):
    model = load_model(folder, torch.float32)
    params = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        losses.append(backward(model, batch_of(text, step), True))
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
    return losses


def sets(**keys):
    return [word for key, value in keys.items()
            for word in ("--set", f"{key.replace('__', '.')}={value}")]


def our_gradients(dsflow, folder, kind):
    out, model = folder / f"sgd-{kind}", folder / f"sgd-{kind}-model"
    run(dsflow, "run", folder / "job.toml", *sets(
        job__output=out, job__steps=1, precision__compute=kind,
        optimizer__kind="sgd", optimizer__lr=RATE, optimizer__momentum=0,
        optimizer__weight_decay=0, optimizer__clip=0))
    run(dsflow, "checkpoint", "export", out, model, "--dtype", "fp32")
    before = safetensors.torch.load_file(folder / "model/model.safetensors")
    after = safetensors.torch.load_file(model / "model.safetensors")
    return {name: (w.double() - after[name].double()) / RATE
            for name, w in before.items()}


def our_losses(dsflow, folder, kind):
    out = folder / f"adamw-{kind}"
    run(dsflow, "run", folder / "job.toml", *sets(
        job__output=out, job__steps=STEPS, precision__compute=kind,
        optimizer__kind="adamw", optimizer__lr=LR,
        optimizer__betas="[0.9, 0.95]", optimizer__eps=1e-8,
        optimizer__weight_decay=0.1, optimizer__clip=1,
        # No overflow: a step that is skipped is one less of 20.
        **({"precision__initial_scale": 1024} if kind == "fp16" else {}),
        checkpoint__at_end="false"))
    lines = map(json.loads, open(out / "metrics.jsonl"))
    return [line["loss"] for line in lines if "loss_scale" in line]


def check(what, good):
    print(f"{'ok' if good else 'FAILED'}: {what}")
    return good


def far(got, exact):
    return {name: ((got[name] - g).norm() / g.norm()).item()
            for name, g in exact.items()}


def check_gradients(dsflow, folder, name, batch):
    exact = torch_gradients(folder, batch, torch.float64)
    fp32 = far(our_gradients(dsflow, folder, "fp32"), exact)
    ours = far(our_gradients(dsflow, folder, "bf16"), exact)
    auto = far(torch_gradients(folder, batch, torch.float32, True), exact)
    pure = far(torch_gradients(folder, batch, torch.bfloat16), exact)

    print(f"{name + ': gradient, from fp64':44} {'fp32':>8} {'bf16':>8} "
          f"{'pure':>8} {'ratio':>6} {'autocast':>8} {'ratio':>6}")
    for t in exact:
        print(f"  {t:42} {fp32[t]:8.1e} {ours[t]:8.1e} "
              f"{pure[t]:8.1e} {ours[t] / pure[t]:6.2f} "
              f"{auto[t]:8.1e} {ours[t] / auto[t]:6.2f}")
    good = check(f"{name}: in fp32 at most {max(fp32.values()):.1e} from fp64",
                 max(fp32.values()) <= EXACT_BOUND)
    for what, theirs, bound in (("pure", pure, PURE_BOUND),
                                ("autocast", auto, AUTOCAST_BOUND)):
        ratios = sorted(ours[t] / theirs[t] for t in exact)
        good &= check(f"{name}: in bf16 at most {ratios[-1]:.2f} x as far as "
                      f"{what}, the median {ratios[len(ratios) // 2]:.2f} x",
                      ratios[-1] <= bound)
    return good


def check_losses(dsflow, folder, name, text):
    theirs = torch_losses(folder, text)
    good = True
    for kind in "fp32", "bf16", "fp16":
        ours = our_losses(dsflow, folder, kind)
        most = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
        good &= check(f"{name}: {STEPS} losses in {kind}, {ours[0]:.4f} to "
                      f"{ours[-1]:.4f}, at most {most:.1e} from autocast's",
                      most <= LOSS_BOUND)
    return good


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
if len(sys.argv) < 2 or any(n not in MODELS for n in sys.argv[2:]):
    sys.exit(__doc__)
good = True
print(f"torch {torch.__version__}, transformers {transformers.__version__}")
for name in sys.argv[2:] or MODELS:
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        make_model(name, folder)
        text = write_job(folder, name)
        good &= check_gradients(sys.argv[1], folder, name, batch_of(text, 0))
        good &= check_losses(sys.argv[1], folder, name, text)
sys.exit(0 if good else 1)
