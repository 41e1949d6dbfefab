#!/usr/bin/env python3
"""Makes checkpoint folders as Megatron-LM writes them, for tests of `dsflow
checkpoint import`.

    make.py OUT [CASE...]

The numbers are those of tests/reference/deepspeed/make.py: value(name, state, i)
by Hugging Face's names, so that a folder here and one there are the same
checkpoint. The files are written with torch.save, out of the dicts that
Megatron-LM's state_dict_for_save_checkpoint and its optimizer's state_dict make:
with torch alone, as Megatron-LM needs GPUs. known.tar.xz is
`tar -C OUT --sort=name --mtime=@0 --owner=0 --group=0 -cJf known.tar.xz .`"""
import argparse, os, sys
import numpy as np
import torch

WIDTH, CONTEXT, VOCAB, PADDED, LAYERS, HEADS, FFN = 8, 16, 259, 264, 2, 2, 14
STATES = ("fp32", "exp_avg", "exp_avg_sq")


def value(name, state, shape):
    h = 2166136261
    for b in (name + "/" + state).encode():
        h = ((h ^ b) * 16777619) & 0xffffffff
    i = np.arange(np.prod(shape), dtype=np.uint64)
    x = (i * np.uint64(2654435761) + np.uint64(h)) & np.uint64(0xffffffff)
    x = (x * np.uint64(2246822519)) & np.uint64(0xffffffff)
    x = (x >> np.uint64(24)).astype(np.float32) / 256
    return torch.from_numpy(x).view(shape)


def padded(t):
    return torch.cat([t, torch.zeros(PADDED - VOCAB, WIDTH)])


def fuse(q, k, v, version, groups):
    """Queries, keys and values in the order of a version."""
    if version == 0:
        return torch.cat([q, k, v])
    if version == 1:
        return torch.stack([q, k, v], 1).flatten(0, 1)
    each = [x.view(groups, -1, *x.shape[1:]) for x in (q, k, v)]
    return torch.cat(each, 1).flatten(0, 1)


def gpt2(state, version):
    """Megatron's tensors of the whole model: name -> (tensor, how it is split)."""
    w = WIDTH

    def of(name, *shape):
        return value("transformer." + name, state, shape)
    out = {"word_embeddings.weight": (padded(of("wte.weight", VOCAB, w)), 0),
           "position_embeddings.weight": (of("wpe.weight", CONTEXT, w), None)}
    for i in range(LAYERS):
        h, at = f"h.{i}.", f"layers.{i}."
        qkv = of(h + "attn.c_attn.weight", w, 3 * w).t().chunk(3)
        bias = of(h + "attn.c_attn.bias", 3 * w).chunk(3)
        out.update({
            at + "input_layernorm.weight": (of(h + "ln_1.weight", w), None),
            at + "input_layernorm.bias": (of(h + "ln_1.bias", w), None),
            at + "ATT.query_key_value.weight":
                (fuse(*qkv, version, HEADS), "qkv"),
            at + "ATT.query_key_value.bias":
                (fuse(*bias, version, HEADS), "qkv"),
            at + "ATT.dense.weight":
                (of(h + "attn.c_proj.weight", w, w).t(), 1),
            at + "ATT.dense.bias": (of(h + "attn.c_proj.bias", w), None),
            at + "post_attention_layernorm.weight":
                (of(h + "ln_2.weight", w), None),
            at + "post_attention_layernorm.bias":
                (of(h + "ln_2.bias", w), None),
            at + "mlp.dense_h_to_4h.weight":
                (of(h + "mlp.c_fc.weight", w, 4 * w).t(), 0),
            at + "mlp.dense_h_to_4h.bias": (of(h + "mlp.c_fc.bias", 4 * w), 0),
            at + "mlp.dense_4h_to_h.weight":
                (of(h + "mlp.c_proj.weight", 4 * w, w).t(), 1),
            at + "mlp.dense_4h_to_h.bias":
                (of(h + "mlp.c_proj.bias", w), None)})
    out["final_layernorm.weight"] = (of("ln_f.weight", w), None)
    out["final_layernorm.bias"] = (of("ln_f.bias", w), None)
    return out


def llama(state, version):
    """The same of a LLaMA with one head of keys, by the names of the core."""
    w, hn = WIDTH, WIDTH // HEADS

    def of(name, *shape):
        return value(name, state, shape)
    out = {"embedding.word_embeddings.weight":
               (padded(of("model.embed_tokens.weight", VOCAB, w)), 0)}
    for i in range(LAYERS):
        h, at = f"model.layers.{i}.", f"decoder.layers.{i}."
        qkv = [of(f"{h}self_attn.{x}_proj.weight", n * hn, w)
               for x, n in (("q", HEADS), ("k", 1), ("v", 1))]
        out.update({
            at + "self_attention.linear_proj.weight":
                (of(h + "self_attn.o_proj.weight", w, w), 1),
            at + "self_attention.linear_qkv.layer_norm_weight":
                (of(h + "input_layernorm.weight", w), None),
            at + "self_attention.linear_qkv.weight": (fuse(*qkv, 3, 1), "qkv"),
            at + "mlp.linear_fc1.layer_norm_weight":
                (of(h + "post_attention_layernorm.weight", w), None),
            at + "mlp.linear_fc1.weight":
                (torch.cat([of(h + "mlp.gate_proj.weight", FFN, w),
                            of(h + "mlp.up_proj.weight", FFN, w)]), "gated"),
            at + "mlp.linear_fc2.weight":
                (of(h + "mlp.down_proj.weight", w, FFN), 1)})
    out["decoder.final_layernorm.weight"] = (of("model.norm.weight", w), None)
    out["output_layer.weight"] = (padded(of("lm_head.weight", VOCAB, w)), 0)
    return out


def part(t, split, version, rank, ranks):
    if split is None:
        return t.clone()
    blocks = {"gated": 2, "qkv": 3 if version == 0 else 1}.get(split, 1)
    if split == 1:
        return t.chunk(ranks, 1)[rank].clone()
    return torch.cat([b.chunk(ranks)[rank] for b in t.chunk(blocks)])


def stage_of(name, stages):
    if ".layers." in "." + name:
        return int(name.split("layers.")[1].split(".")[0]) * stages // LAYERS
    return 0 if "embeddings" in name else stages - 1


def local(name, stages):
    """A stage counts its layers from 0."""
    for i in range(LAYERS):
        name = name.replace(f"layers.{i}.", f"layers.{i % (LAYERS // stages)}.")
    return name


def tree(params, case):
    """The nested dicts of the versions before the core; None: flat names."""
    if case["names"] is None:
        return dict(params)
    if case["names"] == "flat":
        return {("" if "embeddings" in k else "transformer.") + k: v
                for k, v in params.items()}
    model = {}
    for k, v in params.items():
        if k.startswith("word_embeddings_for_head"):
            model["word_embeddings_for_head"] = {"weight": v}
            continue
        lm = model.setdefault("language_model", {})
        if "embeddings" in k:
            at, key = k.split(".")
            lm.setdefault("embedding", {})[at] = {key: v}
        else:
            lm.setdefault(case["names"], {})[k] = v
    return model


def optimizer(params, case):
    """Two groups: what decays, and what does not."""
    names = [[k for k in params["fp32"] if params["fp32"][k].dim() > 1],
             [k for k in params["fp32"] if params["fp32"][k].dim() == 1]]
    state, groups, at = {}, [], 0
    for g, group in enumerate(names):
        for k in group:
            state[at] = {s: params[s][k] for s in STATES[1:]}
            at += 1
        groups.append({"lr": 1e-3, "wd_mult": 1.0 - g, "betas": (0.9, 0.95),
                       "eps": 1e-8, "step": 3,
                       "params": list(range(at - len(group), at))})
    out = {"state": state, "param_groups": groups}
    if not case.get("half"):
        return out
    return {"optimizer": out,
            "grad_scaler": {"scale": torch.tensor([256.0]),
                            "growth_tracker": 3, "hysteresis_tracker": 2},
            "fp32_from_fp16_params":
                [[params["fp32"][k] for k in group] for group in names]}


def arguments(case):
    core = case["model"] is llama
    a = dict(num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=HEADS,
             max_position_embeddings=CONTEXT, padded_vocab_size=PADDED,
             ffn_hidden_size=FFN if core else 4 * WIDTH,
             kv_channels=WIDTH // HEADS, layernorm_epsilon=1e-6 if core else 1e-5,
             consumed_train_samples=36, params_dtype=torch.float16,
             tensor_model_parallel_size=case["tensor"],
             pipeline_model_parallel_size=case["stages"])
    if core:
        a.update(group_query_attention=True, num_query_groups=1, swiglu=True,
                 normalization="RMSNorm", position_embedding_type="rope",
                 rotary_base=10000, rotary_percent=1.0, add_bias_linear=False,
                 add_qkv_bias=False, num_experts=None,
                 untie_embeddings_and_output_weights=True)
    return argparse.Namespace(**a)


CASES = {
    "version0": dict(model=gpt2, version=0, names="flat", attention="attention",
                     tensor=2, stages=1, stream=True),
    "version1": dict(model=gpt2, version=1, names="transformer",
                     attention="attention", tensor=2, stages=1, stream=True),
    "version3": dict(model=gpt2, version=3, names="encoder",
                     attention="self_attention", tensor=2, stages=2, half=True,
                     args=True, optimizer=True),
    "core": dict(model=llama, version=3, names=None, attention="", tensor=1,
                 stages=2, args=True, optimizer=True),
}


def write(out, name, case):
    folder = f"{out}/{name}"
    whole = {s: case["model"](s, case["version"]) for s in STATES}
    for rank in range(case["tensor"]):
        for stage in range(case["stages"]):
            params = {s: {local(k, case["stages"]).replace(
                              "ATT", case["attention"]):
                          part(*v, case["version"], rank, case["tensor"])
                          for k, v in whole[s].items()
                          if stage_of(k, case["stages"]) == stage}
                      for s in STATES}
            if case["stages"] > 1 and stage > 0 and case["model"] is gpt2:
                for s in STATES:
                    params[s]["word_embeddings_for_head.weight"] = part(
                        *whole[s]["word_embeddings.weight"], 3, rank,
                        case["tensor"])
            model = {k: v.half() if case.get("half") else v
                     for k, v in params["fp32"].items()}
            sd = {"iteration": 3, "model": tree(model, case)}
            if case["version"] > 0:
                sd["checkpoint_version"] = float(case["version"])
            if case.get("args"):
                sd["args"] = arguments(case)
            if case["names"] is None:
                sd["model"]["decoder.layers.0.mlp.linear_fc1._extra_state"] = None
            if case.get("optimizer"):
                sd["optimizer"] = optimizer(params, case)
            at = f"{folder}/iter_0000003/mp_rank_{rank:02d}" + (
                f"_{stage:03d}" if case["stages"] > 1 else "")
            os.makedirs(at)
            torch.save(sd, f"{at}/model_optim_rng.pt",
                       _use_new_zipfile_serialization=not case.get("stream"))
    with open(f"{folder}/latest_checkpointed_iteration.txt", "w") as f:
        f.write("3")


if __name__ == "__main__":
    for name in sys.argv[2:] or CASES:
        write(sys.argv[1], name, CASES[name])
