#!/usr/bin/env python3
"""make_zeroone.py ZOADAM FILE: what DeepSpeed's 0/1 Adam makes of small tensors.

ZOADAM is deepspeed/runtime/fp16/onebit/zoadam.py of DeepSpeed 0.18.0. It runs as
make.py has 1-bit Adam run: side by side in threads, with an exchange in numpy.

The file has, for 2, 4 and 8 workers, first a line with a letter for each step:
v where gradients are summed in fp32, g where they are exchanged in 1 bit, l where
nothing is exchanged, s where what was done since the last exchange is. Then the
numbers, as in adam.txt: p, v, the momentum of each worker and what it has moved
away from the weights of all (u), the error of each worker, and those of the
chunks. The weights of a worker are p + u: p, which the original does not keep, is
its weights less u.
"""

import sys
import types
import warnings

import torch

from make import (BETAS, DECAY, EPS, LR, N, STEPS, Handle, gradient, load,
                  side_by_side, start, write)

SCHEDULE = {"var_freeze_step": 120, "var_update_scaler": 5,
            "local_step_scaler": 30, "local_step_clipper": 7}


class Counted(Handle):
    """A handle that says in which steps it was used."""

    def __init__(self, exchange, rank):
        super().__init__(exchange, rank)
        self.used = False

    def compressed_allreduce(self, *args):
        self.used = True
        return super().compressed_allreduce(*args)


def train(adam, handle, rank, out):
    p = torch.nn.Parameter(start())
    engine = types.SimpleNamespace(mpu=handle, local_rank=0,
                                   enable_backward_allreduce=True)
    optimizer = adam([p], engine, lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY,
                     comm_backend_name="compressed", **SCHEDULE)
    p.grad = torch.zeros(N)
    optimizer.step()
    state = optimizer.state[p]
    state["step"] = 0
    kinds = ""
    for step in range(1, STEPS + 1):
        dense, local = engine.enable_backward_allreduce, optimizer.freeze_key
        p.grad = gradient(rank, step)
        if dense:
            p.grad = sum(gradient(w, step) for w in range(handle.size)) / handle.size
        handle.used = False
        optimizer.step()
        kinds += "v" if dense else ("ls" if local else "?g")[handle.used]
    u = state["momentum_accumulator"]
    out[rank] = (kinds, p.detach() - u, state["exp_avg_sq"], state["exp_avg"], u,
                 state["worker_error"], state["server_error"])


def main():
    warnings.simplefilter("ignore")
    adam = load(sys.argv[1], "ZeroOneAdam")
    with open(sys.argv[2], "w") as file:
        for size in (2, 4, 8):
            out = side_by_side(size, train, adam, Counted)
            for o in out:
                assert o[0] == out[0][0] and torch.equal(o[2], out[0][2])
                assert (o[1] - out[0][1]).abs().max() < 1e-6
            rows = [("p", out[0][1]), ("v", out[0][2])]
            rows += [("m", o[3]) for o in out]
            rows += [("u", o[4]) for o in out]
            rows += [("error", o[5]) for o in out]
            rows.append(("server", torch.cat([o[6] for o in out])))
            print(size, out[0][0], file=file)
            write(file, size, rows)


main()
