"""Compares modules whose weights `load_weights` reads with the modules of PyTorch and nanoGPT that saved them: random
sizes, weights and padding; the outputs must be equal up to the effects of rounding.

Run by CTest with ATTEND_TESTS set to the path of attend_tests. If Python has no torch or safetensors, it exits with
status 77, which CTest reports as skipped. ATTEND_TEST_SEED repeats a run, ATTEND_STATE_DICTS sets the number of cases.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from torch import nn
from torch.nn import functional as F

SEED = int(os.environ.get("ATTEND_TEST_SEED") or random.SystemRandom().randrange(2**32))
CASES = int(os.environ.get("ATTEND_STATE_DICTS", "20"))  # per kind


class Block(nn.Module):
    """A block with the names and the computation of nanoGPT."""

    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width, bias),
                                   "c_proj": nn.Linear(width, width, bias)})
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width, bias),
                                  "c_proj": nn.Linear(4 * width, width, bias)})

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.attn.c_attn(self.ln_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn.c_proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class NanoGpt(nn.Module):
    def __init__(self, vocab_size, block_size, layers, width, heads, bias):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab_size, width), "wpe": nn.Embedding(block_size, width),
            "h": nn.ModuleList(Block(width, heads, bias) for _ in range(layers)),
            "ln_f": nn.LayerNorm(width, bias=bias)})
        self.lm_head = nn.Linear(width, vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe.weight[:tokens.size(1)]
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


def sizes(rng):
    heads = rng.choice([1, 2, 4])
    # A layer norm of fewer, nearly equal numbers amplifies the rounding errors of intermediate results.
    return {"heads": heads, "width": heads * rng.randint(8 // heads, 24 // heads), "bias": rng.random() < 0.7}


def sequences(rng, width):
    """Returns random vectors (B, T, E) and a mask (B, T), true = token, with padding on the right."""
    length = rng.randint(1, 9)
    mask = torch.arange(length) < torch.tensor([[rng.randint(1, length)] for _ in range(rng.randint(1, 3))])
    return torch.randn(*mask.shape, width), mask


def attention(rng):
    options = sizes(rng)
    module = nn.MultiheadAttention(options["width"], options["heads"], bias=options["bias"], batch_first=True)
    x, mask = sequences(rng, options["width"])
    return module, options, {"x": x, "mask": mask}, lambda: module(x, x, x, key_padding_mask=~mask)[0]


def layer_options(rng):
    return sizes(rng) | {"layers": rng.randint(1, 3), "hidden": rng.randint(1, 40), "norm_first": rng.random() < 0.5,
                         "activation": rng.choice(["relu", "gelu"]), "final_norm": rng.random() < 0.5}


def stack(kind, options):
    """Returns an nn.TransformerEncoder or nn.TransformerDecoder."""
    layer = getattr(nn, f"{kind}Layer")(options["width"], options["heads"], options["hidden"], dropout=0.0,
                                        activation=options["activation"], batch_first=True,
                                        norm_first=options["norm_first"], bias=options["bias"])
    norm = nn.LayerNorm(options["width"], bias=options["bias"]) if options["final_norm"] else None
    fast_path = {"enable_nested_tensor": False} if kind == "TransformerEncoder" else {}  # avoids a warning
    return getattr(nn, kind)(layer, options["layers"], norm=norm, **fast_path)


def encoder(rng):
    options = layer_options(rng)
    module = stack("TransformerEncoder", options)
    x, mask = sequences(rng, options["width"])
    return module, options, {"x": x, "mask": mask}, lambda: module(x, src_key_padding_mask=~mask)


def decoder(rng):
    options = layer_options(rng)
    module = stack("TransformerDecoder", options)
    memory, mask = sequences(rng, options["width"])
    x = torch.randn(memory.size(0), rng.randint(1, 9), options["width"])
    hidden = nn.Transformer.generate_square_subsequent_mask(x.size(1)).isinf()
    return (module, options, {"x": x, "memory": memory, "mask": mask},
            lambda: module(x, memory, tgt_mask=hidden, memory_key_padding_mask=~mask))


def nanogpt(rng):
    options = sizes(rng) | {"layers": rng.randint(1, 3), "vocab_size": rng.randint(2, 50),
                            "block_size": rng.randint(1, 12)}
    module = NanoGpt(*(options[name] for name in ("vocab_size", "block_size", "layers", "width", "heads", "bias")))
    tokens = torch.randint(options["vocab_size"], (2, rng.randint(1, options["block_size"])))
    return module, options, {"x": tokens}, lambda: module(tokens)


def state_dict_of(module, rng):
    """Returns the state dict as programs save it: a nanoGPT may be compiled, with one or both names of its tied weight,
    and with the masks of old versions."""
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    if isinstance(module, NanoGpt):
        for name in rng.choice([[], ["lm_head.weight"], ["transformer.wte.weight"]]):
            del state[name]
        if rng.random() < 0.5:
            state |= {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 4, 4).tril()
                      for i in range(len(module.transformer.h))}
        if rng.random() < 0.5:
            state = {f"_orig_mod.{name}": tensor for name, tensor in state.items()}
    return state


def write_case(folder, kind, rng):
    module, options, inputs, forward = kind(rng)
    with torch.no_grad():
        for parameter in module.parameters():  # PyTorch initializes biases and norms to constants
            parameter.copy_(torch.randn_like(parameter) / parameter.size(-1)**0.5 if parameter.dim() > 1
                            else parameter + 0.3 * torch.randn_like(parameter))
        output = forward()
    folder.mkdir()
    save_file(state_dict_of(module, rng), folder / "model.safetensors")
    save_file(inputs | {"output": output.contiguous()}, folder / "expected.safetensors",
              metadata={"options": json.dumps(options | {"kind": kind.__name__})})


class StateDicts(unittest.TestCase):
    def expect_equal(self, kind):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(CASES):
                rng = random.Random(f"{SEED} {kind.__name__} {i}")
                torch.manual_seed(rng.randrange(2**32))
                write_case(pathlib.Path(folder, f"{kind.__name__}_{i}"), kind, rng)
            result = subprocess.run([os.environ["ATTEND_TESTS"], "--gtest_filter=StateDicts.MatchPyTorch"],
                                    env=os.environ | {"ATTEND_STATE_DICT_CASES": folder}, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        # Fails if a case was silently skipped.
        self.assertEqual(re.findall(r"state dicts: compared (\d+) modules", result.stdout), [str(CASES)])


for _kind in (attention, encoder, decoder, nanogpt):
    setattr(StateDicts, f"test_{_kind.__name__}", lambda self, kind=_kind: self.expect_equal(kind))

if __name__ == "__main__":
    print(f"torch {torch.__version__}, repeat with ATTEND_TEST_SEED={SEED}", flush=True)
    unittest.main()
