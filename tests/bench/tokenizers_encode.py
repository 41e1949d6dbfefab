#!/usr/bin/env python3
"""How fast Hugging Face's tokenizers encode the text of bench_encode.

  VENV/bin/python tokenizers_encode.py FOLDER FILE [TURNS]

FOLDER has GPT-2's encoder.json and vocab.bpe. The text is cut at its
<|endoftext|>, and 1000 pieces are given to encode_batch_fast at a time, which
has them encoded on all cores; only lengths are asked for.
"""

import statistics
import sys
import time

import tokenizers

folder, file = sys.argv[1:3]
turns = int(sys.argv[3]) if len(sys.argv) > 3 else 3

tok = tokenizers.ByteLevelBPETokenizer(f"{folder}/encoder.json",
                                       f"{folder}/vocab.bpe")
with open(file, "rb") as f:
    pieces = f.read().decode("utf8", "replace").split("<|endoftext|>")
size = sum(len(p.encode()) for p in pieces)
seconds = []
for _ in range(turns):
    begin = time.monotonic()
    tokens = 0
    for i in range(0, len(pieces), 1000):
        tokens += sum(len(e) for e in
                      tok._tokenizer.encode_batch_fast(pieces[i:i + 1000]))
    seconds.append(time.monotonic() - begin)
print(f"{size} bytes, {tokens} tokens: "
      f"{1e-6 * size / statistics.median(seconds):.1f} MB/s")
