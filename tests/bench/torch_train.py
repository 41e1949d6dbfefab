#!/usr/bin/env python3
"""Training steps of GPT-2 124M, or of a LLaMA of 112M, in PyTorch: what dsflow is
compared with, on the CPU by compare.sh, on a GPU by gpu-bundle.

The GPT-2 is nanoGPT's, written with what PyTorch has fastest: one matrix
product for q, k and v, a fused GELU (tanh), the fused attention where this
version has it, gradients set to None. Random weights and tokens. Prints one
line of JSON with the median step.

  python3 torch_train.py --batch 4 --sequence 64 --threads 2 --type autocast

Started by torchrun, each process trains on --batch sequences of its own, with
DistributedDataParallel over gloo; the first one prints.
"""

import argparse
import contextlib
import json
import os
import statistics
import time

parser = argparse.ArgumentParser(description="training steps in PyTorch")
parser.add_argument("--model", choices=["gpt2", "llama"], default="gpt2")
parser.add_argument("--batch", type=int, default=4, help="sequences of a step")
parser.add_argument("--sequence", type=int, default=64, help="tokens of each")
parser.add_argument("--threads", type=int,
                    default=len(os.sched_getaffinity(0)))
parser.add_argument("--steps", type=int, default=8, help="that are timed")
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--type", choices=["fp32", "autocast", "bf16"],
                    default="fp32", help="bf16: parameters and all else")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--compile-blocks", action="store_true",
                    help="each block, and what follows them, alone: compiled "
                         "in less time")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--memory", type=float, default=1.0,
                    help="the share of the GPU's memory that it may take")
parser.add_argument("--accumulate", type=int, default=1,
                    help="micro-batches of --batch sequences in a step")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--adam", choices=["foreach", "fused"], default="foreach")
args = parser.parse_args()

# Before torch loads its libraries: they read it once.
for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
    os.environ[name] = str(args.threads)

import torch                                            # noqa: E402
from torch import nn                                    # noqa: E402
from torch.nn import functional as F                    # noqa: E402

torch.set_num_threads(args.threads)
if args.device == "cuda":
    torch.set_float32_matmul_precision("high")
    torch.cuda.set_per_process_memory_fraction(args.memory)
torch.manual_seed(1)

LAYERS, HEADS, WIDTH = args.layers, args.heads, args.width
GPT2 = args.model == "gpt2"
KV_HEADS = HEADS if GPT2 else 4
# On a GPU rows are padded to what tensor cores like.
VOCAB = (50257 if args.device == "cpu" else 50304) if GPT2 else 24000
FFN = 4 * WIDTH if GPT2 else 2048
HEAD = WIDTH // HEADS
FUTURE = torch.ones(args.sequence, args.sequence).triu(1).bool()


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)
        return y.type_as(x) * self.weight


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = q @ k.transpose(2, 3) * HEAD ** -0.5
    return scores.masked_fill(FUTURE, float("-inf")).softmax(3) @ v


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.LayerNorm if GPT2 else RMSNorm
        self.norm1, self.norm2 = norm(WIDTH), norm(WIDTH)
        self.qkv = nn.Linear(WIDTH, WIDTH + 2 * KV_HEADS * HEAD, bias=GPT2)
        self.out = nn.Linear(WIDTH, WIDTH, bias=GPT2)
        self.up = nn.Linear(WIDTH, FFN if GPT2 else 2 * FFN, bias=GPT2)
        self.down = nn.Linear(FFN, WIDTH, bias=GPT2)

    def attention(self, x, cos, sin):
        b, t, w = x.shape
        kv = KV_HEADS * HEAD
        q, k, v = (y.view(b, t, -1, HEAD).transpose(1, 2)
                   for y in self.qkv(x).split((w, kv, kv), 2))
        if not GPT2:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            k, v = (y.repeat_interleave(HEADS // KV_HEADS, 1) for y in (k, v))
        y = attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, w))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        h = self.up(self.norm2(x))
        if GPT2:
            return x + self.down(F.gelu(h, approximate="tanh"))
        gate, up = h.chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.positions = nn.Embedding(1024, WIDTH) if GPT2 else None
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH) if GPT2 else RMSNorm(WIDTH)
        self.head = self.tokens if GPT2 else nn.Linear(WIDTH, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        angle = torch.outer(torch.arange(args.sequence),
                            10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def loss(self, x, targets):
        logits = F.linear(self.norm(x), self.head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if GPT2:
            x = x + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.loss(x, targets)


with torch.device("cuda") if args.device == "cuda" else contextlib.nullcontext():
    model = Model()
if args.type == "bf16":
    model = model.bfloat16()
params = list(model.parameters())
optimizer = torch.optim.AdamW(
    [{"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
     {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}],
    lr=3e-4, betas=(0.9, 0.95), **{args.adam: True})
NPROCESSES = int(os.environ.get("WORLD_SIZE", 1))
step = model
if NPROCESSES > 1:
    torch.distributed.init_process_group("gloo")
    step = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
if args.compile:
    step = torch.compile(step)
if args.compile_blocks:
    for block in model.blocks:
        block.compile()
    model.loss = torch.compile(model.loss)
context = (torch.autocast(args.device, torch.bfloat16)
           if args.type == "autocast"
           else contextlib.nullcontext())


def mark():
    """A moment: on a GPU when it gets there, and nobody waits."""
    if args.device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(a, b):
    return b - a if args.device == "cpu" else 1e-3 * a.elapsed_time(b)


def micro_batch():
    # Byte tokens, as the job of compare.sh has them.
    batch = torch.randint(256, (args.batch, args.sequence + 1),
                          device=args.device)
    with context:
        loss = step(batch[:, :-1], batch[:, 1:]) / args.accumulate
    loss.backward()
    return loss.detach()


marks = [mark()]
for _ in range(args.warmup + args.steps):
    optimizer.zero_grad(set_to_none=True)
    loss = sum(micro_batch() for _ in range(args.accumulate))
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    marks.append(mark())
if args.device == "cuda":
    torch.cuda.synchronize()
seconds = [between(a, b) for a, b in zip(marks, marks[1:])]

median = statistics.median(seconds[args.warmup:])
if NPROCESSES > 1:
    torch.distributed.destroy_process_group()
if int(os.environ.get("RANK", 0)) > 0:
    raise SystemExit(0)
print(json.dumps({
    "torch": torch.__version__,
    "params": sum(p.numel() for p in params),
    "threads": torch.get_num_threads(),
    "batch": args.batch,
    "seconds": round(median, 5),
    "fastest": round(min(seconds[args.warmup:]), 5),
    "tokens_per_second": round(
        NPROCESSES * args.batch * args.accumulate * args.sequence / median, 1),
    "loss": round(loss.item(), 4)}))
