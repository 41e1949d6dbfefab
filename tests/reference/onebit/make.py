#!/usr/bin/env python3
"""make.py ONEBIT FILE: what DeepSpeed's 1-bit Adam makes of small tensors.

ONEBIT is deepspeed/runtime/fp16/onebit/adam.py of DeepSpeed 0.18.0 (0.19.8 does
not have it), with which this runs as many optimizers side by side as
there are workers, in threads. Its communication is replaced: compressed_allreduce
is that of runtime/comm/nccl.py in numpy, in fp32, without packing; and gradients
of warm-up steps are averaged here, as the engine does. The first step of the
original exchanges zeroes and changes nothing; it is made here, and not counted.

The file has, for 2, 4 and 8 workers, one number a line after a line that names
them: p, m, v, then the error of each worker, and those of the chunks. Gradients
are those of the formula below, which tests/unit/codelets/test_onebit.c has, too.
"""

import importlib.util
import math
import sys
import threading
import types

import numpy as np
import torch

N, STEPS, FREEZE = 128, 300, 100
LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.99), 1e-6, 0.01


def gradient(worker, step):
    i = np.arange(N, dtype=np.float64)
    g = np.sin(0.37 * (i + 1) * (1 + step % 13) + 1.7 * worker + 0.11 * step)
    return torch.from_numpy((g * (0.5 + (i % 7)) / 7).astype(np.float32))


def start():
    i = np.arange(N, dtype=np.float64)
    return torch.from_numpy((0.1 * np.cos(1.3 * i)).astype(np.float32))


def load(path, name):
    """The class of this name, without the rest of DeepSpeed."""
    accelerator = types.SimpleNamespace(empty_cache=lambda: None)
    dist = types.SimpleNamespace(
        is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 1
    )
    names = {
        "deepspeed": types.ModuleType("deepspeed"),
        "deepspeed.accelerator": types.ModuleType("deepspeed.accelerator"),
        "deepspeed.utils": types.ModuleType("deepspeed.utils"),
        "deepspeed.utils.torch": types.ModuleType("deepspeed.utils.torch"),
        "deepspeed.comm": types.ModuleType("deepspeed.comm"),
        "deepspeed.runtime": types.ModuleType("deepspeed.runtime"),
        "deepspeed.runtime.comm": types.ModuleType("deepspeed.runtime.comm"),
        "deepspeed.runtime.comm.compressed": types.ModuleType("compressed"),
    }
    names["deepspeed.accelerator"].get_accelerator = lambda: accelerator
    names["deepspeed.utils"].logger = types.SimpleNamespace(info=print)
    names["deepspeed.utils.torch"].required_torch_version = lambda **_: True
    names["deepspeed"].comm = dist
    names["deepspeed.runtime.comm.compressed"].CompressedBackend = lambda mpu: mpu
    sys.modules.update(names)
    spec = importlib.util.spec_from_file_location("onebit", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Exchange:
    """runtime/comm/nccl.py: compressed_allreduce of `size` threads."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size)
        self.sent = [None] * size
        self.served = [None] * size

    def signs(self, x):
        return np.where(x >= 0, np.float32(1), np.float32(-1))

    def code(self, x):
        scale = np.float32(np.linalg.norm(x) / np.sqrt(x.size))
        return scale * self.signs(x)

    def run(self, rank, x, worker_error, server_error):
        x = (x + worker_error).astype(np.float32)
        coded = self.code(x)
        self.sent[rank] = coded
        self.barrier.wait()
        chunk = x.size // self.size
        own = slice(rank * chunk, (rank + 1) * chunk)
        mean = np.zeros(chunk, dtype=np.float32)
        for w in range(self.size):
            mean += self.sent[w][own] * np.float32(1 / self.size)
        mean = mean + server_error
        served = self.code(mean)
        self.served[rank] = served
        self.barrier.wait()
        result = np.concatenate(self.served)
        self.barrier.wait()
        return result, x - coded, mean - served


class Handle:
    def __init__(self, exchange, rank):
        self.exchange, self.rank, self.size = exchange, rank, exchange.size

    def compressed_allreduce(self, m, worker_error, server_error, local_rank):
        result, worker, server = self.exchange.run(
            self.rank, m.numpy(), worker_error.numpy(), server_error.numpy()
        )
        worker_error.copy_(torch.from_numpy(worker))
        server_error.copy_(torch.from_numpy(server))
        return torch.from_numpy(result.astype(np.float32))


def train(adam, handle, rank, out):
    p = torch.nn.Parameter(start())
    engine = types.SimpleNamespace(mpu=handle, local_rank=0,
                                   enable_backward_allreduce=True)
    optimizer = adam([p], engine, lr=LR, freeze_step=FREEZE, betas=BETAS, eps=EPS,
                     weight_decay=DECAY, comm_backend_name="compressed")
    p.grad = torch.zeros(N)
    optimizer.step()
    optimizer.state[p]["step"] = 0
    for step in range(1, STEPS + 1):
        if engine.enable_backward_allreduce:
            p.grad = sum(gradient(w, step) for w in range(handle.size)) / handle.size
        else:
            p.grad = gradient(rank, step)
        optimizer.step()
    state = optimizer.state[p]
    out[rank] = (p.detach(), state["exp_avg"], state["exp_avg_sq"],
                 state["worker_error"], state["server_error"])


def side_by_side(size, train, optimizer, handle):
    """What each of `size` workers leaves."""
    exchange, out = Exchange(size), [None] * size
    threads = [
        threading.Thread(target=train,
                         args=(optimizer, handle(exchange, r), r, out))
        for r in range(size)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def write(file, size, rows):
    for name, values in rows:
        print(size, name, file=file)
        for x in values.tolist():
            assert math.isfinite(x)
            print(f"{x:.9g}", file=file)


def main():
    adam = load(sys.argv[1], "OnebitAdam")
    with open(sys.argv[2], "w") as file:
        for size in (2, 4, 8):
            out = side_by_side(size, train, adam, Handle)
            for o in out:
                assert torch.equal(o[0], out[0][0]) and torch.equal(o[1], out[0][1])
            rows = [("p", out[0][0]), ("m", out[0][1]), ("v", out[0][2])]
            rows += [("error", o[3]) for o in out]
            rows.append(("server", torch.cat([o[4] for o in out])))
            write(file, size, rows)


if __name__ == "__main__":
    main()
