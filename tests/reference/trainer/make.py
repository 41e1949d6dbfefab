#!/usr/bin/env python3
"""Makes checkpoint folders with Hugging Face's Trainer and with Accelerate, both without
DeepSpeed, for tests of `dsflow checkpoint import`.

    make.py known OUT             small folders whose every number is known: value(name, state, i),
                                  as tests/unit/foreign has it; known.tar.xz has all of them
    make.py trained OUT           real training: OUT/CASE/{text.txt, checkpoint-3, losses.json}: the
                                  losses are those of the steps after it

Runs on cores: torch, transformers, accelerate, safetensors, numpy."""
import json, os, shutil, sys
import numpy as np
import torch, transformers
from safetensors.torch import load_file, save_file

STATES = ("fp32", "exp_avg", "exp_avg_sq")
SEQUENCES, LENGTH, BEFORE, AFTER = 4, 16, 3, 20


def value(name, state, n):
    """As tests/reference/deepspeed/make.py has it."""
    h = 2166136261
    for b in (name + "/" + state).encode():
        h = ((h ^ b) * 16777619) & 0xffffffff
    i = np.arange(n, dtype=np.uint64)
    x = (i * np.uint64(2654435761) + np.uint64(h)) & np.uint64(0xffffffff)
    x = (x * np.uint64(2246822519)) & np.uint64(0xffffffff)
    return (x >> np.uint64(24)).astype(np.float32) / 256


def model(kind):
    vocab, width = 259, 8
    if kind == "gpt2":
        c = transformers.GPT2Config(vocab_size=vocab, n_positions=LENGTH, n_embd=width, n_layer=2, n_head=2,
                                    resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        return transformers.GPT2LMHeadModel(c)
    sizes = dict(vocab_size=vocab, hidden_size=width, intermediate_size=width + 6, num_hidden_layers=2,
                 num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=LENGTH,
                 tie_word_embeddings=kind == "qwen2")
    return {"llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)),
            "mistral": lambda: transformers.MistralForCausalLM(transformers.MistralConfig(sliding_window=None, **sizes)),
            "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**sizes))}[kind]()


class Text(torch.utils.data.Dataset):
    """Consecutive pieces of the text, as with data.shuffle = false."""

    def __init__(self):
        self.bytes = np.frombuffer(open(os.environ["TEXT"], "rb").read(), np.uint8).astype(np.int64)

    def __len__(self):
        return (len(self.bytes) - 1) // LENGTH

    def __getitem__(self, i):
        piece = torch.tensor(self.bytes[i * LENGTH:(i + 1) * LENGTH + 1])
        return {"input_ids": piece[:-1], "targets": piece[1:]}


LOSSES = []  # of every step, as they are


class Plain(transformers.Trainer):
    """The next byte of each, not those that the model shifts; sequences in order."""

    def compute_loss(self, net, inputs, return_outputs=False, **more):
        logits = net(input_ids=inputs["input_ids"], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]),
                                                 inputs["targets"].reshape(-1))
        LOSSES.append(loss.item())
        return (loss, {}) if return_outputs else loss

    def _get_train_sampler(self, *a):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train(net, out, steps, resume=None, **more):
    args = transformers.TrainingArguments(
        output_dir=out, max_steps=steps, per_device_train_batch_size=SEQUENCES, save_steps=BEFORE,
        learning_rate=1e-3, adam_beta1=0.9, adam_beta2=0.95, weight_decay=0.1,
        max_grad_norm=1.0, lr_scheduler_type="constant", report_to=[], use_cpu=True, remove_unused_columns=False,
        dataloader_num_workers=0, disable_tqdm=True, seed=7, **more)
    trainer = Plain(model=net, args=args, train_dataset=Text())
    trainer.train(resume_from_checkpoint=resume)


def set_known(folder, net, optimizer):
    """Other numbers into its files: the optimizer's by the parameters that torch counts."""
    names = {id(p): n for n, p in net.named_parameters()}
    weights = load_file(os.path.join(folder, "model.safetensors"))
    weights = {n: torch.tensor(value(n, "fp32", w.numel())).reshape(w.shape) for n, w in weights.items()}
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    for file in ("optimizer.pt", "optimizer.bin"):
        path = os.path.join(folder, file)
        if not os.path.exists(path):
            continue
        state = torch.load(path)
        order = [names[id(p)] for g in optimizer.param_groups for p in g["params"]]
        for i, name in enumerate(order):
            for key in STATES[1:]:
                old = state["state"][i][key]
                state["state"][i][key] = torch.tensor(value(name, key, old.numel())).reshape(old.shape)
        torch.save(state, path)


def known_trainer(kind, out):
    net = model(kind)
    trainer = {}

    class Kept(transformers.TrainerCallback):
        def on_train_end(self, args, state, control, optimizer=None, **more):
            trainer["optimizer"] = optimizer.optimizer if hasattr(optimizer, "optimizer") else optimizer

    os.makedirs(out, exist_ok=True)
    args = transformers.TrainingArguments(
        output_dir=out, max_steps=BEFORE, per_device_train_batch_size=SEQUENCES, save_steps=BEFORE,
        learning_rate=1e-3, adam_beta1=0.9, adam_beta2=0.95, weight_decay=0.1, report_to=[], use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True, seed=7)
    t = Plain(model=net, args=args, train_dataset=Text(), callbacks=[Kept()])
    t.train()
    set_known(os.path.join(out, f"checkpoint-{BEFORE}"), net, trainer["optimizer"])


def known_accelerate(kind, out):
    """One group of all parameters, in the order of the module."""
    import accelerate
    net = model(kind)
    a = accelerate.Accelerator(cpu=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    net, optimizer = a.prepare(net, optimizer)
    text = Text()
    for i in range(BEFORE):
        one = text[i]
        logits = net(input_ids=one["input_ids"][None], use_cache=False).logits
        a.backward(torch.nn.functional.cross_entropy(logits[0], one["targets"]))
        optimizer.step()
        optimizer.zero_grad()
    a.save_state(out)
    net = a.unwrap_model(net)
    net.config.architectures = [type(net).__name__]
    net.config.save_pretrained(out)
    set_known(out, net, optimizer.optimizer)


if __name__ == "__main__":
    known, out = sys.argv[1] == "known", sys.argv[2]
    os.environ.setdefault("TEXT", os.path.join(os.path.dirname(__file__), "..", "..", "..", "README.md"))
    torch.set_num_threads(1)
    for kind in ("gpt2", "llama", "mistral", "qwen2"):
        torch.manual_seed(7)
        to = os.path.join(out, kind)
        shutil.rmtree(to, ignore_errors=True)
        if known:
            known_trainer(kind, to)
        else:
            shutil.copy(os.environ["TEXT"], os.path.join(out, "text.txt")) if os.path.isdir(out) else os.makedirs(out)
            train(model(kind), to, BEFORE)
            torch.manual_seed(7)
            LOSSES.clear()
            train(model(kind), to, BEFORE + AFTER, os.path.join(to, f"checkpoint-{BEFORE}"))
            json.dump(LOSSES[-AFTER:], open(os.path.join(to, "losses.json"), "w"))
            shutil.copy(os.environ["TEXT"], os.path.join(to, "text.txt"))
    if known:
        known_accelerate("llama", os.path.join(out, "accelerate"))
