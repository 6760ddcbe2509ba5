"""Writes a GPT-2 model with random weights, for attend and for the peers: gpt2.py FOLDER."""

import math
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

from contender import FOLDER, ROW

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "transformers"))
from architectures import gpt2_weights  # noqa: E402

torch.manual_seed(1)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=ROW["vocab"], n_positions=ROW["max_seq_len"], n_embd=ROW["width"], n_layer=ROW["layers"],
    n_head=ROW["heads"], bos_token_id=None, eos_token_id=None, pad_token_id=0))
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.dim() > 1:  # larger than in GPT-2, so that the largest logits are not nearly equal
            parameter.normal_(0.0, 1.2 / math.sqrt(parameter.size(-1)))
model.save_pretrained(FOLDER / "hf")
save_file(gpt2_weights(model, ROW["layers"]), FOLDER / "model.safetensors")
