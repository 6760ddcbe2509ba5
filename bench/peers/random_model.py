"""Writes a GPT-2 or Llama model with random weights, for attend and for the peers: random_model.py FOLDER.

FOLDER/hf is the folder of transformers, and FOLDER/model.safetensors contains the weights with attend's names.
"""

import math

import torch
import transformers
from safetensors.torch import save_file

from contender import FOLDER, ROW

# Modules of a layer, with attend's names and those of transformers. The rows of several modules are concatenated.
GPT2_LAYERS = {"norm1": "ln_1", "norm2": "ln_2", "attention.qkv": "attn.c_attn", "attention.out": "attn.c_proj",
               "feed_forward.up": "mlp.c_fc", "feed_forward.down": "mlp.c_proj"}
LLAMA_LAYERS = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm",
                "attention.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
                "attention.out": "self_attn.o_proj", "feed_forward.up": "mlp.gate_proj mlp.up_proj",
                "feed_forward.down": "mlp.down_proj"}


def gpt2():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=ROW["vocab"], n_positions=ROW["max_seq_len"], n_embd=ROW["width"], n_layer=ROW["layers"],
        n_head=ROW["heads"], bos_token_id=None, eos_token_id=None, pad_token_id=0))
    names = {"embedding.token": "wte", "embedding.position": "wpe", "decoder.norm": "ln_f"}
    return model, names, "h", GPT2_LAYERS


def llama():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=ROW["vocab"], max_position_embeddings=ROW["max_seq_len"], hidden_size=ROW["width"],
        intermediate_size=ROW["feed_forward"], num_hidden_layers=ROW["layers"], num_attention_heads=ROW["heads"],
        num_key_value_heads=ROW["kv_heads"], rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None, pad_token_id=0))
    return model, {"embedding.token": "embed_tokens", "decoder.norm": "norm"}, "layers", LLAMA_LAYERS


def weights(model, names):
    """Returns the weights and biases of the modules `names`, with attend's names."""
    modules = dict(model.base_model.named_modules())
    ours = {}
    for name, theirs in names.items():
        parts = [modules[part] for part in theirs.split()]
        is_conv = isinstance(parts[0], transformers.pytorch_utils.Conv1D)  # stores (in, out)
        for kind, _ in parts[0].named_parameters():
            tensor = torch.cat([getattr(part, kind).detach() for part in parts])
            ours[f"{name}.{kind}"] = tensor.t().contiguous() if is_conv else tensor
    return ours


torch.manual_seed(1)
model, names, layers, layer_names = llama() if ROW.get("architecture") == "llama" else gpt2()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:  # larger than in GPT-2, so that the largest logits are not nearly equal
            parameter.normal_(0.0, 1.2 / math.sqrt(parameter.size(-1)))
        if "weights" in ROW and name.endswith(("o_proj.weight", "down_proj.weight")):
            # Larger branches amplify the errors of int4 until the logits have little in common.
            parameter.mul_(0.01)
for i in range(ROW["layers"]):
    for ours, theirs in layer_names.items():
        names[f"decoder.blocks.{i}.{ours}"] = " ".join(f"{layers}.{i}.{part}" for part in theirs.split())
model.save_pretrained(FOLDER / "hf")
save_file(weights(model, names), FOLDER / "model.safetensors")
