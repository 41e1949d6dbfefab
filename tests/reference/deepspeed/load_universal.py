#!/usr/bin/env python3
"""DeepSpeed goes on from what `dsflow checkpoint export RUN FOLDER --deepspeed` wrote.

    load_universal.py JOB WORLD STAGE [DTYPE]

JOB is a folder with job.toml's text.txt, `hf` (the same checkpoint, exported as fp32),
`universal`, and `losses`, dsflow's own of the steps after it, one a line. Says how far
parameters, moments and losses are from those. torch, deepspeed, transformers; cores, gloo."""
import json, os, sys
import numpy as np
import torch, deepspeed, transformers
import torch.multiprocessing as mp
from safetensors.torch import load_file
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state


def settings(job, world, stage, dtype):
    c = {"train_batch_size": job["sequences"], "gradient_clipping": job["clip"], "steps_per_print": 10**6,
         "zero_optimization": {"stage": stage}, "checkpoint": {"load_universal": True},
         "optimizer": {"type": "AdamW", "params": {"lr": job["lr"] / 7, "betas": [0.5, 0.5], "eps": 1e-3,
                                                   "weight_decay": job["decay"], "torch_adam": True}}}
    if dtype == "bf16":
        c["bf16"] = {"enabled": True}
    return c


def dims(p):
    return len(p.ds_shape) if hasattr(p, "ds_shape") else p.ndim


def batch(text, job, step, rank, world):
    n = job["sequences"] // world
    first = (step * job["sequences"] + rank * n) * job["sequence"]
    rows = [text[first + i * job["sequence"]:first + (i + 1) * job["sequence"] + 1] for i in range(n)]
    rows = torch.tensor(np.stack(rows).astype(np.int64))
    return rows[:, :-1], rows[:, 1:]


def work(rank, world, folder, stage, dtype):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=os.environ.get("MASTER_PORT", "29544"))
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    job = json.load(open(f"{folder}/facts.json"))
    torch.manual_seed(1 + rank)
    config = transformers.AutoConfig.from_pretrained(f"{folder}/hf")
    kind = getattr(transformers, config.architectures[0])  # it is not to be imported within Init
    with deepspeed.zero.Init(config_dict_or_path=settings(job, world, stage, dtype), enabled=stage == 3):
        net = kind(config)
    groups = [{"params": [p for p in net.parameters() if dims(p) > 1], "weight_decay": job["decay"]},
              {"params": [p for p in net.parameters() if dims(p) < 2], "weight_decay": 0.0}]
    engine, optimizer, _, scheduler = deepspeed.initialize(
        model=net, model_parameters=groups, config=settings(job, world, stage, dtype))
    path, _ = engine.load_checkpoint(f"{folder}/universal")
    assert path is not None
    tag = open(f"{folder}/universal/latest_universal").read()
    own = load_file(f"{folder}/hf/model.safetensors")
    worst, compared = 0.0, 0
    for name, p in engine.module.named_parameters():
        at = f"{folder}/universal/{tag}/zero/{name}"
        got = {"fp32": safe_get_full_fp32_param(p), "exp_avg": safe_get_full_optimizer_state(p, "exp_avg"),
               "exp_avg_sq": safe_get_full_optimizer_state(p, "exp_avg_sq")}
        for state, x in got.items():
            want = torch.load(f"{at}/{state}.pt", weights_only=True)["param"]
            if state == "fp32":
                assert torch.equal(want, own[name]), name
            assert x.numel() == want.numel(), (name, state)
            worst = max(worst, (x.flatten() - want.flatten()).abs().max().item())
            compared += 1
    text = np.frombuffer(open(f"{folder}/text.txt", "rb").read(), np.uint8)
    losses = []
    for step in range(len(job["losses"])):
        x, y = batch(text, job, engine.global_steps, rank, world)
        logits = engine(x).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), y.reshape(-1))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / world)
    if rank == 0:
        off = max(abs(a - b) / b for a, b in zip(losses, job["losses"]))
        group = engine.optimizer.param_groups[0]
        print(f"{world} ranks, stage {stage}, {dtype}: from step {engine.global_steps - len(losses)}, lr {group['lr']:g}; "
              f"{compared} tensors, off by {worst:g}; {len(losses)} losses off by {off:.2g}")


if __name__ == "__main__":
    folder, world, stage = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dtype = sys.argv[4] if len(sys.argv) > 4 else "fp32"
    if world == 1:
        work(0, 1, folder, stage, dtype)
    else:
        mp.spawn(work, (world, folder, stage, dtype), nprocs=world)
