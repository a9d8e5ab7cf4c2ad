#!/usr/bin/env python3
"""Makes tests/reference/weights: what Hugging Face's transformers computes with a file that zerolab wrote, for
tests/unit/test_weights.c, which writes the same file again and computes the same logits.

    pip install torch transformers && make tests && python3 tests/reference/make_weights.py

model.safetensors is written by zerolab (build/release/tests/test_weights --write), config.json is as `zerolab checkpoint export` writes
it, and is not touched if it is there. logits.bin: 20 tokens (int32), then the logits [20, 61] (float32). sharded/: the same
model in four files with an index, as transformers writes it, for tests/unit/test_weights_index.c."""
import os
import subprocess
import sys

import numpy as np
import torch
from transformers import GPT2LMHeadModel

top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
folder = os.path.join(top, "tests", "reference", "weights")
T, V = 20, 61

subprocess.run([os.path.join(top, "build/release/tests/test_weights"), "--write", os.path.join(folder, "model.safetensors")], check=True)
model, info = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
missing = [name for name in info["missing_keys"] if name != "lm_head.weight"]
assert not missing and not info["unexpected_keys"] and not info["mismatched_keys"], info
model.save_pretrained(os.path.join(folder, "sharded"), max_shard_size="25KB")
os.remove(os.path.join(folder, "sharded", "generation_config.json"))
model.eval()
tokens = np.array([(7 * i * i + 3 * i + 1) % V for i in range(T)], dtype=np.int32)
with torch.no_grad():
    logits = model(torch.tensor(tokens, dtype=torch.long)[None]).logits[0].numpy().astype(np.float32)
with open(os.path.join(folder, "logits.bin"), "wb") as file:
    file.write(tokens.tobytes() + logits.tobytes())
print("logits", logits.shape, "from", logits.min(), "to", logits.max(), file=sys.stderr)
