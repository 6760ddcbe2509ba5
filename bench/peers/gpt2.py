"""Writes a GPT-2 model with random weights, for attend and for the peers: gpt2.py FOLDER.

FOLDER/hf is the folder of transformers, and FOLDER/model.safetensors contains the weights with attend's names.
"""

import math

import torch
import transformers
from safetensors.torch import save_file

from contender import FOLDER, ROW

# Modules of a layer, with attend's names and those of transformers.
LAYERS = {"norm1": "ln_1", "norm2": "ln_2", "attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj",
          "feed_forward.up": "mlp.c_fc", "feed_forward.down": "mlp.c_proj"}


def weights(model, names):
    """Returns the weights and biases of the modules `names`, with attend's names."""
    modules = dict(model.base_model.named_modules())
    ours = {}
    for name, theirs in names.items():
        module = modules[theirs]
        is_conv = isinstance(module, transformers.pytorch_utils.Conv1D)  # stores (in, out)
        for kind, tensor in module.named_parameters():
            ours[f"{name}.{kind}"] = tensor.detach().t().contiguous() if is_conv else tensor.detach()
    return ours


torch.manual_seed(1)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
    vocab_size=ROW["vocab"], n_positions=ROW["max_seq_len"], n_embd=ROW["width"], n_layer=ROW["layers"],
    n_head=ROW["heads"], bos_token_id=None, eos_token_id=None, pad_token_id=0))
names = {"embedding.token": "wte", "embedding.position": "wpe", "decoder.norm": "ln_f"}
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.dim() > 1:  # larger than in GPT-2, so that the largest logits are not nearly equal
            parameter.normal_(0.0, 1.2 / math.sqrt(parameter.size(-1)))
for i in range(ROW["layers"]):
    for ours, theirs in LAYERS.items():
        names[f"decoder.blocks.{i}.{ours}"] = f"h.{i}.{theirs}"
model.save_pretrained(FOLDER / "hf")
save_file(weights(model, names), FOLDER / "model.safetensors")
