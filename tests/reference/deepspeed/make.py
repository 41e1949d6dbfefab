#!/usr/bin/env python3
"""Makes checkpoint folders with DeepSpeed, for tests of `dsflow checkpoint import`.

    make.py known OUT [CASE...]   small folders whose every number is known:
                                  value(name, state, i), as tests/unit/foreign has it;
                                  known.tar.xz has all of them
    make.py trained OUT [CASE...] real training: OUT/CASE/{config.json,text.txt,
                                  the checkpoint,losses.json}: the losses are those
                                  of the steps after it

Runs on cores, with gloo: torch, deepspeed, transformers, safetensors, numpy."""
import json, os, shutil, sys
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # Muon compiles its kernels
import numpy as np
import torch, deepspeed, transformers
import torch.multiprocessing as mp
from deepspeed.utils import safe_set_local_fp32_param, safe_set_local_optimizer_state

STATES = ("fp32", "exp_avg", "exp_avg_sq")
HYPER = dict(lr=1e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1)
SEQUENCES, LENGTH, BEFORE, AFTER = 12, 16, 3, 20


def value(name, state, n):
    """Eight bits, which all types of floats have: FNV-1a of the name and state, then a
    multiplication for each element."""
    h = 2166136261
    for b in (name + "/" + state).encode():
        h = ((h ^ b) * 16777619) & 0xffffffff
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(2654435761) + np.uint64(h)) & np.uint64(0xffffffff)
    x = (x * np.uint64(2246822519)) & np.uint64(0xffffffff)
    return (x >> np.uint64(24)).astype(np.float32) / 256


def model(case, known):
    vocab, width = (259, 8) if known else (257, 12)
    kind = case.get("model", "gpt2")
    if kind == "gpt2":
        c = transformers.GPT2Config(vocab_size=vocab, n_positions=LENGTH, n_embd=width, n_layer=2, n_head=2,
                                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        return c, transformers.GPT2LMHeadModel
    sizes = dict(vocab_size=vocab, hidden_size=width, intermediate_size=width + 6, num_hidden_layers=2,
                 num_attention_heads=2, num_key_value_heads=case.get("kv", 1), max_position_embeddings=LENGTH,
                 tie_word_embeddings=case.get("tied", False))
    if kind == "llama":
        return transformers.LlamaConfig(**sizes), transformers.LlamaForCausalLM
    return transformers.Qwen2Config(**sizes), transformers.Qwen2ForCausalLM


def settings(case, world):
    c = {"train_batch_size": SEQUENCES, "gradient_clipping": 1.0, "steps_per_print": 10**6,
         "zero_optimization": dict({"stage": case.get("stage", 0)}, **case.get("zero", {})),
         "optimizer": {"type": "AdamW", "params": dict(HYPER, torch_adam=True)}}
    if case.get("muon"):
        c["optimizer"] = {"type": "Muon", "params": {"lr": 0.02, "adam_lr": 1e-3, "momentum": 0.95, "torch_adam": True,
                                                     "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}
    if case.get("dtype") == "bf16":
        c["bf16"] = {"enabled": True}
    if case.get("dtype") == "fp16":
        c["fp16"] = {"enabled": True, "initial_scale_power": 8}
    if case.get("accumulate"):
        c["data_types"] = {"grad_accum_dtype": case["accumulate"]}
    if case.get("tensor"):
        c["tensor_parallel"] = {"autotp_size": case["tensor"]}
    if case.get("elastic"):
        c["zero_optimization"]["elastic_checkpoint"] = True
    c.update(case.get("more", {}))
    return c


def groups(net, case):
    trained = [p for p in net.parameters() if p.requires_grad]
    if case.get("groups", 1) == 1:
        return trained
    dims = lambda p: len(p.ds_shape) if hasattr(p, "ds_shape") else p.ndim
    return [{"params": [p for p in trained if dims(p) > 1], "weight_decay": HYPER["weight_decay"]},
            {"params": [p for p in trained if dims(p) < 2], "weight_decay": 0.0}]


def batch(text, step, rank, world):
    """Sequences of the step: consecutive pieces of the text, as with data.shuffle = false."""
    n = SEQUENCES // world
    first = (step * SEQUENCES + rank * n) * LENGTH
    rows = [text[first + i * LENGTH:first + (i + 1) * LENGTH + 1] for i in range(n)]
    rows = torch.tensor(np.stack(rows).astype(np.int64))
    return rows[:, :-1], rows[:, 1:]


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), targets.reshape(-1))


def local(x, name, shape, tensor):
    """What this tensor rank has of a whole tensor: along the dimension that is not as long, rows or
    columns behind those of the ranks before it."""
    rank = torch.distributed.get_rank()
    shapes = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(shapes, tuple(shape))
    mine = shapes[rank - rank % tensor:rank]
    for d in range(x.ndim):
        if x.shape[d] != shape[d]:
            x = x.narrow(d, sum(s[d] for s in mine), shape[d])
    return x.contiguous()


def set_known(engine, case, wholes={}):
    o = engine.optimizer
    tensor = case.get("tensor", 1)
    me = engine.global_rank // tensor
    for name, p in engine.module.named_parameters():
        shape = p.ds_shape if hasattr(p, "ds_shape") else p.shape
        whole = wholes.get(name, shape)
        n = int(np.prod(shape))
        get = lambda state: torch.tensor(value(name, state, int(np.prod(whole)))).reshape(whole)
        if tensor > 1:
            known = {state: local(get(state), name, shape, tensor) for state in STATES}
            get = known.get
        if not p.requires_grad:
            if hasattr(p, "ds_id"):
                with deepspeed.zero.GatheredParameters([p], modifier_rank=0):
                    if engine.global_rank == 0:
                        p.data.copy_(get("fp32"))
            else:
                p.data.copy_(get("fp32"))
        elif hasattr(p, "ds_id"):
            share = p.ds_tensor.ds_numel if hasattr(p.ds_tensor, "ds_numel") else p.ds_tensor.numel()
            for state in STATES:
                all = torch.zeros(share * engine.dp_world_size)
                all[:n] = get(state).flatten()
                mine = all[me * share:(me + 1) * share]
                if state == "fp32":
                    safe_set_local_fp32_param(p, mine)
                elif case.get("muon") and p.use_muon:
                    if state == "exp_avg":
                        safe_set_local_optimizer_state(p, mine, "momentum_buffer")
                else:
                    safe_set_local_optimizer_state(p, mine, state)
        elif hasattr(p, "_hp_mapping"):
            if p._hp_mapping is not None:
                set_fragment(o, p, get)
        elif case.get("dtype", "fp32") == "fp32":
            p.data.copy_(get("fp32"))
            for state in STATES[1:]:
                if "momentum_buffer" in o.state[p]:
                    o.state[p]["momentum_buffer"].copy_(get("exp_avg"))
                else:
                    o.state[p][state].copy_(get(state))
        else:
            set_flat(engine, p, get)


def set_fragment(o, p, get):
    """What this rank has of a parameter, in ZeRO 1 and 2 and BF16_Optimizer."""
    m = p._hp_mapping
    flat = (o.single_partition_of_fp32_groups if hasattr(o, "single_partition_of_fp32_groups")
            else o.fp32_groups_flat_partition)[m.param_group_index]
    here, there = m.hp_fragment_address, m.lp_fragment_address
    for state in STATES:
        of = o.optimizer.state[flat]
        if state == "exp_avg" and "momentum_buffer" in of:  # Muon's: perhaps of all of its matrices
            to = of["momentum_buffer"]
            if to.numel() != flat.numel():
                mine = o.params_in_partition[m.param_group_index]
                at = sum(q.numel() for q in mine[:[q is p for q in mine].index(True)])
                to.data[at:at + p.numel()].copy_(get(state).flatten())
                continue
        elif state != "fp32" and state not in of:
            continue
        else:
            to = flat if state == "fp32" else of[state]
        to.data[here.start:here.start + here.numel].copy_(
            get(state).flatten()[there.start:there.start + there.numel])


def set_flat(engine, p, get):
    """Of an optimizer for 16 bits without ZeRO, with a master of each parameter."""
    o = engine.optimizer
    for group, masters in zip(o.fp16_groups, o.fp32_groups):
        for q, master in zip(group, masters):
            if q is p:
                master.data.copy_(get("fp32"))
                for state in STATES[1:]:
                    o.optimizer.state[master][state].copy_(get(state))
                p.data.copy_(get("fp32"))


class Embedding(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte = torch.nn.Embedding(c.vocab_size, c.n_embd)
        self.wpe = torch.nn.Embedding(c.n_positions, c.n_embd)

    @property
    def weight(self):
        return self.wte.weight

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]


class Block(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.block = transformers.models.gpt2.modeling_gpt2.GPT2Block(c, layer_idx=0)

    def forward(self, x):
        y = self.block(x)
        return y[0] if isinstance(y, tuple) else y


def make_pipeline(case, name, folder, known, rank, world):
    """GPT-2 as a PipelineModule of two stages, its head tied to the embedding."""
    from deepspeed.pipe import PipelineModule, LayerSpec, TiedLayerSpec
    torch.manual_seed(7)
    c, kind = model(case, known)
    c._attn_implementation = "sdpa"
    text = np.frombuffer(open(os.environ["TEXT"], "rb").read(), np.uint8)
    specs = [TiedLayerSpec("embed", Embedding, c)] + [LayerSpec(Block, c) for _ in range(c.n_layer)] + [
        LayerSpec(torch.nn.LayerNorm, c.n_embd),
        TiedLayerSpec("embed", Embedding, c, forward_fn=lambda e, x: x @ e.wte.weight.T)]
    net = PipelineModule(layers=specs, num_stages=2, loss_fn=loss_of, partition_method="uniform")
    with torch.no_grad():  # alike on all ranks, as tied copies must be
        for n, p in net.named_parameters():
            p.copy_(torch.ones_like(p) if n.endswith("ln_1.weight") or n.endswith("ln_2.weight")
                    or (p.ndim == 1 and n[1:] == ".weight") else
                    torch.zeros_like(p) if p.ndim == 1 else 0.02 * torch.tensor(
                        value(n, "fp32", p.numel()).reshape(p.shape) * 2 - 1))
    settings_ = dict(settings(case, world), train_micro_batch_size_per_gpu=2)
    engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=groups(net, case), config=settings_)
    replicas = world // 2
    me, losses = engine.grid.get_data_parallel_id(), []

    def step(i):
        tokens, targets = batch(text, i, me, replicas)
        rows = iter([(tokens[k:k + 2], targets[k:k + 2]) for k in range(0, len(tokens), 2)])
        return engine.train_batch(data_iter=rows).item()

    for i in range(BEFORE):
        step(i)
    if known:
        set_known(engine, case)
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    torch.distributed.barrier()
    engine.save_checkpoint(folder)
    if rank == 0:
        c.architectures = [kind.__name__]
        c.save_pretrained(folder)
        for f in os.listdir(folder):
            if f.startswith("zero_to_"):
                os.remove(os.path.join(folder, f))
    if not known:
        for i in range(AFTER):
            losses.append(step(BEFORE + i))
        if rank == 0:
            json.dump(losses, open(os.path.join(folder, "losses.json"), "w"))
            shutil.copy(os.environ["TEXT"], os.path.join(folder, "text.txt"))


def make(case, name, folder, known, rank, world):
    if case.get("pipeline"):
        return make_pipeline(case, name, folder, known, rank, world)
    torch.manual_seed(7)
    config, kind = model(case, known)
    text = np.frombuffer(open(os.environ["TEXT"], "rb").read(), np.uint8)
    tensor = case.get("tensor", 1)
    with deepspeed.zero.Init(config_dict_or_path=settings(case, world),
                             enabled=case.get("stage", 0) == 3 and tensor == 1):
        net = kind(config)
    wholes = {n: tuple(p.shape) for n, p in net.named_parameters()} if tensor > 1 else {}
    if case.get("frozen"):
        for n, p in net.named_parameters():
            p.requires_grad = case["frozen"] not in n
    if case.get("muon"):  # not in 16 bits, which would be another run
        from deepspeed.runtime.zero.muon import original_muon
        original_muon.ns_compute_dtype = lambda method="gram": torch.float32
    engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=groups(net, case),
                                           config=settings(case, world))
    losses = []

    def step(i):
        tokens, targets = batch(text, i, rank // tensor, world // tensor)
        loss = loss_of(engine(input_ids=tokens, use_cache=False).logits, targets)
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        return mean.item() / world

    for i in range(BEFORE):
        step(i)
    if known:
        set_known(engine, case, wholes)
    if case.get("scaler"):  # as it is in fp16, which cores do not have
        from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
        engine.optimizer.loss_scaler = s = DynamicLossScaler(
            init_scale=1024, scale_window=1000, min_scale=1, delayed_shift=2,
            consecutive_hysteresis=False, raise_error_at_min_scale=True, dtype=torch.half)
        s.cur_iter, s.last_overflow_iter, s.cur_hysteresis = 7, 2, 1
        engine.skipped_steps = 1
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    torch.distributed.barrier()
    engine.save_checkpoint(folder)
    if rank == 0:
        config.architectures = [kind.__name__]
        config.save_pretrained(folder)
        for f in os.listdir(folder):
            if f.startswith("zero_to_"):
                os.remove(os.path.join(folder, f))
    if known:
        return
    for i in range(AFTER):
        losses.append(step(BEFORE + i))
    if rank == 0:
        json.dump(losses, open(os.path.join(folder, "losses.json"), "w"))
        shutil.copy(os.environ["TEXT"], os.path.join(folder, "text.txt"))


def cases(known):
    """By name: processes, and what is given."""
    if known:
        return {
            "gpt2_zero1_bf16": (2, dict(stage=1, dtype="bf16", groups=2)),
            "gpt2_zero2": (3, dict(stage=2, groups=2)),
            "gpt2_zero2_frozen": (2, dict(stage=2, frozen="wpe", scaler=True)),
            "qwen2_zero2_robin": (3, dict(model="qwen2", stage=2, zero={"round_robin_gradients": True})),
            "llama_elastic": (2, dict(model="llama", stage=1, elastic=True)),
            "llama_zero3": (2, dict(model="llama", stage=3, groups=2,
                                    zero={"sub_group_size": 700, "stage3_param_persistence_threshold": 0})),
            "gpt2_zero3_frozen": (3, dict(stage=3, frozen="wpe", dtype="bf16")),
            "gpt2_plain": (1, dict(stage=0)),
            "gpt2_plain_bf16": (2, dict(stage=0, dtype="bf16", groups=2)),
            "gpt2_pipe_zero1": (4, dict(stage=1, groups=2, pipeline=True)),
            "gpt2_pipe_plain": (2, dict(stage=0, groups=2, pipeline=True)),
            "llama_tensor2_zero1": (4, dict(model="llama", stage=1, groups=2, tensor=2, kv=2)),
            "llama_tensor2_zero3": (4, dict(model="llama", stage=3, tensor=2, kv=2)),
            "qwen2_tensor2_bf16": (2, dict(model="qwen2", stage=1, dtype="bf16", accumulate="fp32", tensor=2, kv=2)),
            "llama_muon_plain": (1, dict(model="llama", stage=0, groups=2, muon=True)),
            "llama_muon_zero2": (3, dict(model="llama", stage=2, groups=2, muon=True)),
            "llama_muon_zero3": (2, dict(model="llama", stage=3, muon=True, zero={"reduce_scatter": False})),
            "gpt2_bf16_optimizer": (2, dict(stage=1, dtype="bf16", accumulate="fp32", groups=2)),
        }
    all = {}
    for kind in ("gpt2", "llama", "qwen2"):
        for stage in range(4):
            for dtype in ("fp32", "bf16"):
                for world in (1, 2, 4):
                    all[f"{kind}_z{stage}_{dtype}_w{world}"] = (
                        world, dict(model=kind, stage=stage, dtype=dtype, groups=2, tied=kind == "qwen2",
                                    zero={"sub_group_size": 700} if stage == 3 else {}))
    all["gpt2_z2_frozen_w2"] = (2, dict(stage=2, groups=2, frozen="wpe"))
    all["gpt2_z3_frozen_w4"] = (4, dict(stage=3, groups=2, frozen="wpe"))
    all["gpt2_pipe_z0_w2"] = (2, dict(stage=0, groups=2, pipeline=True))
    all["gpt2_pipe_z1_w2"] = (2, dict(stage=1, groups=2, pipeline=True))
    for stage in (0, 1, 2, 3):
        all[f"llama_muon_z{stage}_w{2 if stage else 1}"] = (
            2 if stage else 1, dict(model="llama", stage=stage, groups=2, muon=True, more={"gradient_clipping": 0},
                                    zero={"reduce_scatter": False} if stage == 3 else {}))
        all[f"llama_tensor2_z{stage}_w4"] = (4, dict(model="llama", stage=stage, groups=2, tensor=2, kv=2))
    all["qwen2_tensor2_z1_bf16_w4"] = (4, dict(model="qwen2", stage=1, dtype="bf16", tensor=2, kv=2, groups=2))
    all["gpt2_pipe_z1_w4"] = (4, dict(stage=1, groups=2, pipeline=True))
    return all


def process(rank, world, todo, out, known):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29600 + world))
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    for name, case in todo:
        if rank == 0:
            print(name, flush=True)
        try:
            make(case, name, os.path.join(out, name), known, rank, world)
        except Exception as e:
            print(f"{name}: rank {rank}: {type(e).__name__}: {e}", flush=True)
            import traceback
            traceback.print_exc()
            raise


def make_universal(name, out):
    """NAME's folder, as DeepSpeed's own ds_to_universal makes it."""
    import types
    from deepspeed.checkpoint import ds_to_universal
    folder = os.path.join(out, name)
    tag = open(os.path.join(folder, "latest")).read().strip()
    to = os.path.join(out, name.split("_")[0] + "_universal")
    shutil.rmtree(to, ignore_errors=True)
    ds_to_universal.main(types.SimpleNamespace(
        input_folder=os.path.join(folder, tag), output_folder=os.path.join(to, tag), num_extract_workers=1,
        num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True))
    shutil.copy(os.path.join(folder, "config.json"), to)


def make_fp16(out):
    """gpt2_plain's folder as it is in fp16, which cores do not train in: with the flat groups of
    DeepSpeed's own FP16_Optimizer."""
    from deepspeed.runtime.fp16.fused_optimizer import FP16_Optimizer
    to = os.path.join(out, "gpt2_plain_fp16")
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(os.path.join(out, "gpt2_plain"), to)
    path = os.path.join(to, "global_step3", "mp_rank_00_model_states.pt")
    saved = torch.load(path, weights_only=False)
    net = model({}, True)[1](model({}, True)[0]).half()
    wrapped = FP16_Optimizer(torch.optim.AdamW(groups(net, {"groups": 2}), **HYPER), dynamic_loss_scale=True,
                             initial_dynamic_scale=1024)
    names = {id(p): n for n, p in net.named_parameters()}
    for group, flat in zip(wrapped.fp16_groups, wrapped.fp32_groups_flat):
        state, at = wrapped.optimizer.state[flat], 0
        state["step"].fill_(4)  # FP16_Optimizer begins with a step of zeroes
        for p in group:
            for key, whole in zip(STATES, (flat.data, state["exp_avg"], state["exp_avg_sq"])):
                whole[at:at + p.numel()] = torch.tensor(value(names[id(p)], key, p.numel()))
            p.data.copy_(torch.tensor(value(names[id(p)], "fp32", p.numel())).reshape(p.shape))
            at += p.numel()
    saved["module"], saved["optimizer"] = net.state_dict(), wrapped.state_dict()
    torch.save(saved, path)


if __name__ == "__main__":
    known, out, wanted = sys.argv[1] == "known", sys.argv[2], sys.argv[3:]
    os.environ.setdefault("TEXT", os.path.join(os.path.dirname(__file__), "..", "..", "..", "README.md"))
    every = cases(known)
    # AutoTP and pipelines leave processes that are of no more use to others.
    of = lambda w, c: (w, c.get("tensor", 1), c.get("pipeline", False))
    for kind in sorted({of(*v) for v in every.values()}):
        todo = [(n, c) for n, (w, c) in every.items() if of(w, c) == kind and (not wanted or n in wanted)]
        if todo:
            mp.start_processes(process, (kind[0], todo, out, known), kind[0], start_method="fork")
    for name in ("gpt2_zero2", "llama_zero3"):
        if known and (not wanted or name in wanted):
            make_universal(name, out)
    if known and (not wanted or "gpt2_plain" in wanted):
        make_fp16(out)
