#!/usr/bin/env python3
"""make_lamb.py ONEBIT FILE: what DeepSpeed's 1-bit LAMB makes of small tensors.

ONEBIT is deepspeed/runtime/fp16/onebit/lamb.py of DeepSpeed 0.18.0 (0.19.8 does
not have it). As make.py beside it, which says what is in place of its
communication; here there are three tensors, which are exchanged as one. The first
step of the original exchanges zeroes and changes nothing; it is made here, and not
counted.

The file has, for 2, 4 and 8 workers, one number a line after a line that names
them: p, m, v and the fresh v of all tensors, one behind the other, then the error
of each worker and those of the chunks, and of each tensor by what its momenta are
multiplied, the mean of its ratios and its factor. Gradients are those of the
formula below, which tests/unit/codelets/test_onebit_lamb.c has, too.
"""

import sys
import types

import numpy as np
import torch

from make import Handle, load, side_by_side, write

SIZES, STEPS, FREEZE = (128, 64, 192), 300, 100
N = sum(SIZES)
LR, BETAS, EPS, DECAY = 1e-2, (0.9, 0.99), 1e-6, 0.01
KEYS = dict(coeff_beta=0.8, factor_max=1.2, factor_min=0.05, factor_threshold=0.05,
            max_coeff=0.4, min_coeff=0.02)


def tensors(values):
    parts = torch.from_numpy(values.astype(np.float32)).split(SIZES)
    return [part.clone() for part in parts]


def gradient(worker, step):
    i = np.arange(N, dtype=np.float64)
    g = np.sin(0.37 * (i + 1) * (1 + step % 13) + 1.7 * worker + 0.11 * step)
    size = np.repeat((0.01, 0.6, 0.1), SIZES) * (1 + 0.5 * np.sin(0.05 * step))
    return tensors(g * (0.5 + (i % 7)) / 7 * size)


def start():
    i = np.arange(N, dtype=np.float64)
    return tensors(0.1 * np.cos(1.3 * i))


def train(lamb, handle, rank, out):
    p = [torch.nn.Parameter(x) for x in start()]
    engine = types.SimpleNamespace(mpu=handle, local_rank=0,
                                   enable_backward_allreduce=True)
    optimizer = lamb(p, engine, lr=LR, freeze_step=FREEZE, betas=BETAS, eps=EPS,
                     weight_decay=DECAY, comm_backend_name="compressed", **KEYS)
    for x in p:
        x.grad = torch.zeros_like(x)
    optimizer.step()
    for x in p:
        optimizer.state[x]["step"] = 0
    for step in range(1, STEPS + 1):
        if engine.enable_backward_allreduce:
            all_of = zip(*(gradient(w, step) for w in range(handle.size)))
            grads = [sum(g) / handle.size for g in all_of]
        else:
            grads = gradient(rank, step)
        for x, g in zip(p, grads):
            x.grad = g
        optimizer.step()
    state = [optimizer.state[x] for x in p]
    out[rank] = (
        torch.cat([x.detach() for x in p]),
        torch.cat([s["exp_avg"] for s in state]),
        torch.cat([s["exp_avg_sq"] for s in state]),
        torch.cat([s["exp_avg_sq_fresh"] for s in state]),
        optimizer.worker_errors[0],
        optimizer.server_errors[0],
        [[s[k] for s in state]
         for k in ("scaling_coeff", "lamb_coeff_freeze", "last_factor")],
    )


class InPlace(Handle):
    """The original goes on with the tensor that it has given."""

    def compressed_allreduce(self, m, worker_error, server_error, local_rank):
        m.copy_(super().compressed_allreduce(m, worker_error, server_error,
                                             local_rank))


def main():
    lamb = load(sys.argv[1], "OnebitLamb")
    with open(sys.argv[2], "w") as file:
        for size in (2, 4, 8):
            out = side_by_side(size, train, lamb, InPlace)
            for o in out:
                assert torch.equal(o[0], out[0][0]) and torch.equal(o[1], out[0][1])
            names = ("p", "m", "v", "fresh")
            rows = [(name, out[0][i]) for i, name in enumerate(names)]
            rows += [("error", o[4]) for o in out]
            rows.append(("server", torch.cat([o[5] for o in out])))
            rows += [(name, np.array(values))
                     for name, values in zip(("scale", "mean", "factor"), out[0][6])]
            write(file, size, rows)


main()
