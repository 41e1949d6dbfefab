#!/usr/bin/env python3
"""Models go between dsflow and transformers, both ways.

For a GPT-2, a LLaMA (grouped queries, untied head), a Mistral, and a Qwen2 whose
middle layer sees all, both with windows shorter than the text, of small size, with a text of random bytes as validation text:

  in    transformers saves a model; `dsflow eval` on it gives the loss that
        transformers computes
  out   `dsflow run` trains it for some steps and `dsflow checkpoint export`
        writes it; transformers loads that with no key missing or left over,
        and computes the loss that `dsflow eval` gives for the run; with
        greedy sampling both continue a prompt alike
  again what was exported, as `init` of a run that changes nothing, is
        exported again: the same bytes
  types weights exported as bf16 and fp16 are those that torch rounds to
  text  the exported tokenizer, which is of bytes, gives the ids of the bytes
        of any text, and the text back

  VENV/bin/python transformers_roundtrip.py DSFLOW

with a Python that has torch and transformers (see
tests/reference/make_reference.py for one). Logits themselves are compared in
tests/same/test_reference.c.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

BOUND = 1e-5  # of losses, relative
LENGTH = 48   # tokens of a sequence
STEPS = 5
PROMPT, CONTINUED = "the cat sat on", 24

SHARED = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None,
          "initializer_range": 0.1}
LLAMA = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 150,
         "max_position_embeddings": 64, **SHARED}
MODELS = {
    "gpt2": transformers.GPT2Config(
        n_layer=3, n_head=4, n_embd=64, n_positions=64,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **SHARED),
    "llama": transformers.LlamaConfig(tie_word_embeddings=False, **LLAMA),
    "mistral": transformers.MistralConfig(
        sliding_window=7, tie_word_embeddings=False, **LLAMA),
    "qwen2": transformers.Qwen2Config(
        tie_word_embeddings=True, use_sliding_window=True, sliding_window=11,
        layer_types=["sliding_attention", "full_attention",
                     "sliding_attention"], **LLAMA),
}


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n"
                 + done.stderr.decode(errors="replace"))
    return done.stdout


def write_job(folder, name):
    text = random.Random(1)
    words = "the a cat dog sat ran on under mat tree and then".split()
    letters = " ".join(text.choice(words) for _ in range(1500))
    (folder / "text").write_text(letters)
    job = folder / "job.toml"
    job.write_text(f"""\
[job]
name = "{name}"
steps = {STEPS}
output = "{folder}/run"
[model]
family = "{'gpt2' if name == 'gpt2' else 'llama'}"
init = "{folder}/model"
[data]
train = ["{folder}/text"]
validation_files = ["{folder}/text"]
tokenizer = "bytes"
[batch]
sequences = 4
micro = 2
sequence = {LENGTH}
[optimizer]
kind = "adamw"
lr = 1e-3
""")
    return job, letters.encode()


def dsflow_loss(output):
    """The loss that `dsflow eval` prints."""
    found = re.search(rb"\bloss\W+([0-9.eE+-]+)", output)
    if found is None:
        sys.exit(f"dsflow eval: no loss in {output!r}")
    return float(found[1])


def torch_loss(model, text):
    """Mean over whole sequences of LENGTH tokens, in the order of the text."""
    count = (len(text) - 1) // LENGTH
    tokens = torch.tensor(list(text[:count * LENGTH + 1]))
    total = 0.0
    with torch.no_grad():
        for i in range(count):
            piece = tokens[i * LENGTH:(i + 1) * LENGTH + 1]
            logits = model(input_ids=piece[None, :-1]).logits[0]
            total += torch.nn.functional.cross_entropy(
                logits, piece[1:]).item()
    return total / count


def greedy(model, prompt):
    tokens = list(prompt)
    with torch.no_grad():
        for _ in range(CONTINUED):
            logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
            tokens.append(int(logits.argmax()))
    return bytes(tokens[len(prompt):])


def check(what, good):
    print(f"{'ok' if good else 'FAILED'}: {what}")
    return good


def near(what, got, expected):
    far = abs(got / expected - 1)
    return check(f"{what}: dsflow {got:.7f}, transformers {expected:.7f}, "
                 f"{far:.1e} apart", far <= BOUND)


def any_text(random):
    ranges = [(1, 128), (128, 0x800), (0x800, 0xd800), (0xe000, 0x110000)]
    return "".join(chr(random.randrange(*random.choice(ranges)))
                   for _ in range(random.randrange(60)))


def check_tokenizer(folder, name):
    # For a qwen2, AutoTokenizer takes any vocabulary for Qwen2's, in NFC.
    kind = (transformers.PreTrainedTokenizerFast if name == "qwen2"
            else transformers.AutoTokenizer)
    tokenizer = kind.from_pretrained(folder)
    texts = [any_text(random.Random(seed)) for seed in range(200)]
    return check(f"{name}: the tokenizer is bytes, both ways",
                 all(tokenizer(t).input_ids == list(t.encode()) and
                     tokenizer.decode(list(t.encode())) == t for t in texts))


def check_again(dsflow, folder, name, job):
    run(dsflow, "run", job, "--set", f"model.init={folder}/exported",
        "--set", "optimizer.lr=0", "--set", f"job.output={folder}/again")
    run(dsflow, "checkpoint", "export", folder / "again",
        folder / "exported-again")
    same = all((folder / "exported-again" / f.name).read_bytes() ==
               f.read_bytes() for f in (folder / "exported").iterdir())
    return check(f"{name} exported twice: the same bytes", same)


def check_types(dsflow, folder, name):
    good = True
    whole = safetensors.torch.load_file(folder / "exported/model.safetensors")
    for flag, dtype in ("bf16", torch.bfloat16), ("fp16", torch.float16):
        run(dsflow, "checkpoint", "export", folder / "run", folder / flag,
            "--dtype", flag)
        half = safetensors.torch.load_file(folder / flag / "model.safetensors")
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder / flag, dtype="auto")
        good &= check(f"{name} as {flag}: torch's rounding, and its dtype",
                      model.dtype == dtype and whole.keys() == half.keys() and
                      all(half[k].equal(whole[k].to(dtype)) for k in whole))
    return good


def round_trip(dsflow, folder, name):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(MODELS[name]).eval()
    model.save_pretrained(folder / "model")
    job, text = write_job(folder, name)
    good = near(f"{name} from transformers",
                dsflow_loss(run(dsflow, "eval", job)),
                torch_loss(model, text))

    run(dsflow, "run", job)
    loss = dsflow_loss(run(dsflow, "eval", folder / "run"))
    run(dsflow, "checkpoint", "export", folder / "run", folder / "exported")
    back, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "exported", output_loading_info=True)
    back.eval()
    good &= check(f"{name} exported: no key missing or left over",
                  not any(info.values()))
    good &= near(f"{name} exported", loss, torch_loss(back, text))
    said = run(dsflow, "generate", folder / "run", "--prompt", PROMPT,
               "--temperature", 0, "--tokens", CONTINUED)
    good &= check(f"{name} continues the prompt alike",
                  greedy(back, PROMPT.encode()) in said)
    good &= check_again(dsflow, folder, name, job)
    good &= check_types(dsflow, folder, name)
    good &= check_tokenizer(folder / "exported", name)
    return good


if len(sys.argv) != 2:
    sys.exit("usage: transformers_roundtrip.py DSFLOW")
program = pathlib.Path(sys.argv[1]).resolve()
transformers.logging.set_verbosity_error()
results = []
for name in MODELS:
    with tempfile.TemporaryDirectory() as folder:
        results.append(round_trip(program, pathlib.Path(folder), name))
sys.exit(0 if all(results) else 1)
