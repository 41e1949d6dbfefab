#!/usr/bin/env python3
"""Training steps of GPT-2 124M in PyTorch, fp32 on the CPU: what dsflow is
compared with by compare.sh.

The model is nanoGPT's, written with what PyTorch has fastest: one matrix
product for q, k and v, a fused GELU (tanh), the fused attention where this
version has it, AdamW in its multi-tensor form, gradients set to None. Random
weights and tokens. Prints one line of JSON with the median step.

  /usr/bin/python3 torch_gpt2.py --batch 4 --sequence 64 --threads 2
"""

import argparse
import json
import os
import statistics
import time

parser = argparse.ArgumentParser(description="GPT-2 124M steps in PyTorch")
parser.add_argument("--batch", type=int, default=4, help="sequences of a step")
parser.add_argument("--sequence", type=int, default=64, help="tokens of each")
parser.add_argument("--threads", type=int,
                    default=len(os.sched_getaffinity(0)))
parser.add_argument("--steps", type=int, default=8, help="that are timed")
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--vocab", type=int, default=50257)
args = parser.parse_args()

# Before torch loads its libraries: they read it once.
for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
    os.environ[name] = str(args.threads)

import torch                                            # noqa: E402
from torch import nn                                    # noqa: E402
from torch.nn import functional as F                    # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        w = args.width
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def attention(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, args.heads, -1).transpose(1, 2)
                   for y in self.qkv(x).split(w, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5
            y = scores.masked_fill(FUTURE, float("-inf")).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, w))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.down(h)


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.width)
        self.positions = nn.Embedding(max(args.sequence, 1024), args.width)
        self.blocks = nn.Sequential(*(Block() for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.width)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]]
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


FUTURE = torch.ones(args.sequence, args.sequence).triu(1).bool()
model = GPT2()
params = list(model.parameters())
optimizer = torch.optim.AdamW(
    [{"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
     {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}],
    lr=3e-4, betas=(0.9, 0.95), foreach=True)
seconds = []
for _ in range(args.warmup + args.steps):
    # Byte tokens, as the job of compare.sh has them.
    batch = torch.randint(256, (args.batch, args.sequence + 1))
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss = model(batch[:, :-1], batch[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
    seconds.append(time.perf_counter() - start)

median = statistics.median(seconds[args.warmup:])
print(json.dumps({
    "torch": torch.__version__,
    "params": sum(p.numel() for p in params),
    "threads": torch.get_num_threads(),
    "seconds": round(median, 4),
    "fastest": round(min(seconds[args.warmup:]), 4),
    "tokens_per_second": round(args.batch * args.sequence / median, 1),
    "loss": round(loss.item(), 4)}))
