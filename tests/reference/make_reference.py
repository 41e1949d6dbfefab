#!/usr/bin/env python3
"""Make the references that tests/same/test_reference.c compares with.

Each folder beside this script is one small model, as `transformers` computes
it on the CPU in fp32 (attention "eager", no dropout, one thread):

  config.json, *.safetensors    the initial model, as transformers saves it
  job.toml                      the same training as a dsflow job
  batches.safetensors           tokens: u8 [steps][sequences][sequence + 1];
                                logits: f32 [prompt][vocab] of the initial
                                model for the first `prompt` tokens of it;
                                where attention slides, text: u8 [context],
                                what it writes behind those, the likeliest
                                token each time
  reference.json                losses and gradient norms of the steps
  gradients.safetensors         gradient of every parameter at step 1, before
                                clipping, under transformers' names

The loss of a step is the mean over all its tokens, in one batch. Norms are
those before clipping. AdamW decays what has two dimensions, nothing else.
The training is run a second time in fp64; reference.json says how far fp32
is from it, which bounds how closely anything in fp32 can follow.

The committed files were made on Debian 12 (torch 1.13.0, x86-64 with AVX2) by

  apt-get install python3-torch python3-venv
  /usr/bin/python3 -m venv --system-site-packages VENV
  VENV/bin/pip install transformers==4.44.2 safetensors==0.8.0
  VENV/bin/python make_reference.py [NAME]...

and are the same bytes every time there; other versions differ by rounding.
mistral_window and qwen2_window need a transformers that slides in "eager":
they were made by torch 2.15.0 (CPU) and transformers 5.24.0.
"""

import json
import pathlib
import sys

import safetensors
import safetensors.torch
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 20
PROMPT = 13
LR, BETAS, EPS, DECAY, CLIP = 2e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def gpt2(layers, heads, width, ffn, context, vocab):
    return transformers.GPT2Config(
        n_layer=layers, n_head=heads, n_embd=width, n_inner=ffn,
        n_positions=context, vocab_size=vocab, initializer_range=0.15,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=0, eos_token_id=0)


def llama(layers, heads, kv_heads, width, ffn, context, vocab, tied,
          kind=transformers.LlamaConfig, **more):
    return kind(
        num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv_heads, hidden_size=width,
        intermediate_size=ffn, max_position_embeddings=context,
        vocab_size=vocab, tie_word_embeddings=tied, initializer_range=0.15,
        bos_token_id=0, eos_token_id=0, **more)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

# name: seed, configuration, type in the file, bytes of a shard, and
# sequences of a step, of a micro-batch, tokens of a sequence
CASES = {
    "gpt2": (1, gpt2(2, 2, 20, None, 40, 97),
             torch.float32, "1GB", 6, 2, 37),
    "gpt2_odd": (2, gpt2(2, 3, 21, 45, 53, 211),
                 torch.bfloat16, "1GB", 3, 1, 53),
    "llama_gqa": (3, llama(2, 4, 2, 24, 40, 64, 101, False),
                  torch.float32, "24KB", 4, 2, 41),
    "llama_rope": (4, llama(2, 2, 1, 20, 31, 128, 97, True,
                            rope_theta=500000.0, rope_scaling=LLAMA3,
                            rms_norm_eps=1e-5),
                   torch.float16, "1GB", 2, 1, 67),
    "qwen2": (5, llama(2, 4, 2, 24, 34, 32, 113, True,
                       kind=transformers.Qwen2Config,
                       rope_theta=1000000.0, use_sliding_window=False),
              torch.float32, "1GB", 5, 1, 29),
    "mistral_window": (6, llama(2, 4, 2, 24, 36, 96, 101, False,
                                kind=transformers.MistralConfig,
                                sliding_window=11),
                       torch.float32, "1GB", 2, 1, 67),
    "qwen2_window": (7, llama(3, 2, 1, 20, 28, 96, 97, False,
                              kind=transformers.Qwen2Config,
                              use_sliding_window=True, sliding_window=19,
                              max_window_layers=1),
                     torch.float32, "1GB", 2, 2, 83),
}


def save_model(config, seed, dtype, folder, shard):
    """Random weights, also where transformers starts from 0 or 1, so that
    no bias and no norm goes untested."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink()


def load_model(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32, attn_implementation="eager")
    return model.to(dtype).eval()


def make_tokens(vocab, sequences, sequence, seed):
    """Text that can be learnt: mostly, the next token follows from this one."""
    gen = torch.Generator().manual_seed(seed)
    shape = (STEPS, sequences, sequence + 1)
    noise = torch.randint(vocab, shape, generator=gen)
    keep = torch.rand(shape, generator=gen) < 0.75
    tokens = noise.clone()
    for i in range(1, sequence + 1):
        follows = (5 * tokens[..., i - 1] + 3) % vocab
        tokens[..., i] = torch.where(keep[..., i], follows, noise[..., i])
    return tokens


def write_text(model, prompt, length):
    """Greedily, without a cache: every token sees what it sees in training."""
    text = prompt
    with torch.no_grad():
        while len(text) < length:
            logits = model(input_ids=text[None], use_cache=False).logits[0, -1]
            first, second = logits.topk(2).values
            assert first - second > 1e-4, "too near to call"
            text = torch.cat([text, logits.argmax()[None]])
    return text


def loss_of(model, batch):
    logits = model(input_ids=batch[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))


def train(model, tokens):
    """Losses, norms, gradients of the first step."""
    params = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in params if p.dim() >= 2],
          "weight_decay": DECAY},
         {"params": [p for p in params if p.dim() < 2],
          "weight_decay": 0.0}], lr=LR, betas=BETAS, eps=EPS)
    losses, norms, gradients = [], [], None

    for batch in tokens:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if gradients is None:
            gradients = {name: p.grad.clone()
                         for name, p in model.named_parameters()}
        norms.append(torch.nn.utils.clip_grad_norm_(params, CLIP).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, gradients


def distance(values, exact):
    return max(abs(v - e) / abs(e) for v, e in zip(values, exact))


def job(name, config, sequences, micro, sequence):
    family = "gpt2" if config.model_type == "gpt2" else "llama"
    return f"""\
# The training of tests/reference/{name}, made by make_reference.py. Start
# from the top of the source tree; the tests feed batches.safetensors instead
# of [data].
[job]
name = "{name}"
steps = {STEPS}
output = "runs/{name}"

[model]
family = "{family}"
init = "tests/reference/{name}"

[data]
train = ["tests/reference/{name}/job.toml"]

[batch]
sequences = {sequences}
micro = {micro}
sequence = {sequence}

[optimizer]
kind = "adamw"
lr = {LR}
betas = [{BETAS[0]}, {BETAS[1]}]
eps = {EPS}
weight_decay = {DECAY}
clip = {CLIP}

[schedule]
kind = "constant"
"""


def make(name):
    seed, config, dtype, shard, sequences, micro, sequence = CASES[name]
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()

    save_model(config, seed, dtype, folder, shard)
    model = load_model(folder, torch.float32)
    tokens = make_tokens(config.vocab_size, sequences, sequence, seed)
    with torch.no_grad():
        logits = model(input_ids=tokens[0, :1, :PROMPT]).logits[0]

    batches = {"tokens": tokens.to(torch.uint8), "logits": logits.contiguous()}
    if getattr(config, "sliding_window", None):
        batches["text"] = write_text(model, tokens[0, 0, :PROMPT],
                                     config.max_position_embeddings
                                     ).to(torch.uint8)

    exact = train(load_model(folder, torch.float64), tokens)
    losses, norms, gradients = train(model, tokens)
    far = max((gradients[n].double() - g).norm().item() / g.norm().item()
              for n, g in exact[2].items())

    safetensors.torch.save_file(gradients, folder / "gradients.safetensors")
    safetensors.torch.save_file(batches, folder / "batches.safetensors")
    (folder / "job.toml").write_text(
        job(name, config, sequences, micro, sequence))
    (folder / "reference.json").write_text(json.dumps({
        "made_with": {"torch": torch.__version__,
                      "transformers": transformers.__version__,
                      "safetensors": safetensors.__version__,
                      "seed": seed},
        "fp32_from_fp64": {"losses": distance(losses, exact[0]),
                           "norms": distance(norms, exact[1]),
                           "gradients": far},
        "losses": losses, "norms": norms}, indent=1) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"loss {losses[0]:.4f} to {losses[-1]:.4f}, "
          f"norms {min(norms):.2f} to {max(norms):.2f}, fp32 from fp64: "
          f"losses {distance(losses, exact[0]):.1e}, gradients {far:.1e}")


transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        if name not in CASES:
            sys.exit(f"{name}: expected one of {', '.join(CASES)}")
        make(name)
