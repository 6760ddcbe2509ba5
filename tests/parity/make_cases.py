"""Creates random cases for tests/parity/parity_test.cpp: PyTorch's outputs and gradients.

    python tests/parity/make_cases.py --out FILE [--cases N] [--seed N]

Without --seed, each run creates different cases. The seed is printed. All cases are written to one
safetensors file. The options of case 17 are JSON under the metadata key "17"; its tensors are

    17/input.NAME                           inputs of the reference, including masks
    17/param.NAME                           the module's parameters, with PyTorch's names
    17/output.NAME, 17/upstream.NAME        an output and its incoming gradient
    17/grad.input.NAME, 17/grad.param.NAME  the resulting gradients

Masks have PyTorch's polarity: for modules, true = may not attend. No query is fully masked, because
PyTorch's modules return NaN for it.
"""

import argparse
import ctypes
import functools
import json
import random
import struct
import warnings

import torch
import torch.nn.functional as F

MASKED = 0.3  # probability that a mask hides a key
# Ill-conditioned cases are drawn again. Near 0, rounding errors decide whether the gradient of relu is 0
# or 1. A layer norm of few, nearly equal numbers amplifies rounding errors.
NEAR_CORNER = 1e-4  # minimum magnitude of the inputs of relu
ROUNDING = 2e-6  # maximum rounding error of PyTorch in float32: a fifth of the test's tolerance


class Case:
    """Options and tensors of a case, by name."""

    def __init__(self, kind):
        self.options = {"kind": kind}
        self.tensors = {}
        self.leaves = {}
        self.dtype = getattr(torch, self.choose("dtype", "float32", "float64"))

    def choose(self, name, *values):
        return self.set(name, random.choice(values))

    def set(self, name, value):
        self.options[name] = value
        return value

    def input(self, name, tensor, leaf=True):
        """Adds an input of the reference; if it is a leaf, also its gradient."""
        self.tensors[f"input.{name}"] = tensor
        if leaf:
            self.leaves[f"input.{name}"] = tensor.requires_grad_()
        return tensor

    def normal(self, *shape):
        """Draws float32 values, which both dtypes represent exactly."""
        return torch.randn(shape).to(self.dtype)

    def normal_input(self, name, *shape):
        return self.input(name, self.normal(*shape))

    def module(self, module):
        """Randomizes all parameters: initial biases of 0 and norm weights of 1 would hide errors."""
        for parameter in module.parameters():
            with torch.no_grad():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
                else:
                    parameter.normal_(std=parameter.shape[-1] ** -0.5)
        module.to(self.dtype).train()
        for name, parameter in module.named_parameters():
            self.tensors[f"param.{name}"] = self.leaves[f"param.{name}"] = parameter
        return module

    def rounding(self, exact):
        """Returns the largest rounding error, relative to max(1, |exact value|). `exact` is the same
        case in float64."""
        computed = [name for name in self.tensors if name.startswith(("output.", "grad."))]
        return max(((self.tensors[name] - exact.tensors[name]).abs()
                    / exact.tensors[name].abs().clamp(min=1)).max().item() for name in computed)

    def finish(self, **outputs):
        upstream = {name: self.normal(*output.shape) for name, output in outputs.items()}
        gradients = torch.autograd.grad(list(outputs.values()), list(self.leaves.values()),
                                        list(upstream.values()), materialize_grads=True)
        for name, output in outputs.items():
            self.tensors[f"output.{name}"] = output.detach()
            self.tensors[f"upstream.{name}"] = upstream[name]
        for name, gradient in zip(self.leaves, gradients):
            self.tensors[f"grad.{name}"] = gradient
        for name, tensor in self.tensors.items():
            if not tensor.isfinite().all() and not name.endswith("mask"):
                raise ValueError(f"{name} is not finite in {self.options}")


def allowed(shape, open_key=None):
    """Draws a bool mask, true = may attend. Each query may attend to at least one key: to `open_key`
    if it is given, otherwise to a random key."""
    mask = torch.rand(shape) > MASKED
    if open_key is None:
        return mask.scatter_(-1, torch.randint(shape[-1], (*shape[:-1], 1)), True)
    mask[..., open_key] = True
    return mask


def float_mask(case, name, may_attend):
    """Draws a float mask. In half of the cases, it is -infinity where `may_attend` is false. In half
    of the cases, it requires a gradient, which selects other kernels."""
    mask = case.normal(*may_attend.shape)
    if case.choose(f"{name}_forbids", True, False):
        mask = mask.masked_fill(~may_attend, -torch.inf)
    return case.input(name, mask, leaf=case.choose(f"{name}_has_gradient", True, False))


# scaled_dot_product_attention


def sdpa(case):
    queries, keys = random.randint(1, 6), random.randint(1, 6)
    masking = case.choose("masking", "none", "causal", "bool", "float")
    if masking == "causal":
        keys = queries  # otherwise PyTorch aligns the causal mask at the top left, attend at the bottom right
    case.set("causal", masking == "causal")
    leading = tuple(random.randint(1, 3) for _ in range(random.randint(0, 3)))
    grouped = case.set("grouped", bool(leading) and random.random() < 0.5)
    query_leading = (*leading[:-1], leading[-1] * random.randint(1, 3)) if grouped else leading
    width, value_width = random.randint(1, 8), random.randint(1, 8)
    case.choose("layout", "contiguous", "width_outside", *(["heads_inside"] if leading else []))
    case.choose("need_weights", False, True)  # true disables the fused kernels
    scale = case.choose("scale", None, random.uniform(0.1, 1.5))

    query = case.normal_input("query", *query_leading, queries, width)
    key = case.normal_input("key", *leading, keys, width)
    value = case.normal_input("value", *leading, keys, value_width)
    mask = None
    if masking in ("bool", "float"):
        shape = [size if random.random() < 0.6 else 1 for size in (*query_leading, queries, keys)]
        may_attend = allowed(shape[random.randint(0, len(query_leading)):])
        if may_attend.dim() == 3 < len(shape):
            may_attend = may_attend.unsqueeze(0)  # attend throws for (H, T, S), which could be meant as (B, T, S)
        mask = (case.input("mask", may_attend, leaf=False) if masking == "bool"
                else float_mask(case, "mask", may_attend))
    case.finish(output=F.scaled_dot_product_attention(
        query, key, value, mask, is_causal=masking == "causal", scale=scale, enable_gqa=grouped))


# Modules. In their masks, true means may NOT attend. batch_first may be False.


def sequence(case, name, batch, length, width):
    """Draws an input of shape (B, N, width), (N, B, width) or, without a batch, (N, width)."""
    if batch is None:
        return case.normal_input(name, length, width)
    leading = (batch, length) if case.options["batch_first"] else (length, batch)
    return case.normal_input(name, *leading, width)


def draw_masks(case, prefix, batch, heads, queries, keys, may_be_causal):
    """Returns (attention mask, key padding mask, is_causal) for a PyTorch module."""
    masking = random.choice(["none", "bool", "float"] + ["causal"] * (may_be_causal and queries == keys))
    causal = case.set(f"{prefix}causal", masking == "causal")
    # With padding, all queries of all sequences may attend to this key, so no query is fully masked.
    open_key = 0 if causal else random.randrange(keys)
    padded = case.choose(f"{prefix}padded", True, False)
    padding = None
    if padded:
        shape = (keys,) if batch is None else (batch, keys)
        padding = case.input(f"{prefix}key_padding_mask", ~allowed(shape, open_key), leaf=False)

    mask = None
    if causal:  # in attend, an option instead of a mask
        mask = torch.ones(queries, queries, dtype=torch.bool).triu(1)
        if random.random() < 0.5:
            mask = torch.zeros(mask.shape, dtype=case.dtype).masked_fill(mask, -torch.inf)
    elif masking != "none":
        per_head = case.choose(f"{prefix}mask_per_head", True, False)
        shape = ((batch or 1) * heads, queries, keys) if per_head else (queries, keys)
        may_attend = allowed(shape, open_key if padded else None)
        mask = (case.input(f"{prefix}mask", ~may_attend, leaf=False) if masking == "bool"
                else float_mask(case, f"{prefix}mask", may_attend))
    return mask, padding, causal and random.random() < 0.5


def draw_shape(case):
    """Draws the batch size (None = unbatched), the number of heads and the width. The width is at
    least 4, because narrower layer norms amplify rounding errors."""
    batch = random.choice([None, 1, 2, 3])
    case.set("batched", batch is not None)
    case.choose("batch_first", True, False)
    heads = case.set("heads", random.randint(1, 4))
    width = case.set("width", heads * random.randint(-(-4 // heads), 12 // heads))
    case.choose("bias", True, False)
    return batch, heads, width


def mha(case):
    batch, heads, width = draw_shape(case)
    queries, keys = random.randint(1, 5), random.randint(1, 5)
    inputs = case.choose("inputs", "self", "memory", "three")  # 1, 2 or 3 different input sequences
    key_width = value_width = width
    if inputs == "self":
        keys = queries
    elif random.random() < 0.5:
        key_width = random.randint(1, 8)
        value_width = key_width if inputs == "memory" else random.randint(1, 8)
    case.set("key_width", key_width)
    case.set("value_width", value_width)
    need_weights = case.choose("need_weights", True, False)
    average = case.choose("average_attn_weights", True, False)

    query = sequence(case, "query", batch, queries, width)
    key = query if inputs == "self" else sequence(case, "key", batch, keys, key_width)
    value = key if inputs != "three" else sequence(case, "value", batch, keys, value_width)
    mask, padding, is_causal = draw_masks(case, "", batch, heads, queries, keys, may_be_causal=True)
    module = case.module(torch.nn.MultiheadAttention(
        width, heads, bias=case.options["bias"], kdim=key_width, vdim=value_width,
        batch_first=case.options["batch_first"]))
    output, weights = module(query, key, value, key_padding_mask=padding, need_weights=need_weights,
                             attn_mask=mask, average_attn_weights=average, is_causal=is_causal)
    case.finish(output=output, **({"weights": weights} if need_weights else {}))


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


def draw_layer(case, layer, heads, width):
    hidden = case.set("hidden", random.randint(1, 16))
    activation = case.choose("activation", *ACTIVATIONS)
    module = case.module(layer(
        width, heads, hidden, dropout=0.0, activation=ACTIVATIONS[activation],
        layer_norm_eps=case.choose("eps", 1e-5, 1e-3, 0.1),
        batch_first=case.options["batch_first"], norm_first=case.choose("norm_first", True, False),
        bias=case.options["bias"]))
    if activation == "relu":
        module.linear1.register_forward_hook(lambda _, __, hidden: reject_near_corner(hidden))
    return module


class TooNearToCorner(Exception):
    pass


def reject_near_corner(hidden):
    if hidden.abs().min() < NEAR_CORNER:
        raise TooNearToCorner


def encoder(case):
    batch, heads, width = draw_shape(case)
    length = random.randint(1, 5)
    module = draw_layer(case, torch.nn.TransformerEncoderLayer, heads, width)
    source = sequence(case, "src", batch, length, width)
    mask, padding, is_causal = draw_masks(case, "src_", batch, heads, length, length, may_be_causal=True)
    case.finish(output=module(source, mask, padding, is_causal=is_causal))


def decoder(case):
    batch, heads, width = draw_shape(case)
    queries, keys = random.randint(1, 5), random.randint(1, 5)
    module = draw_layer(case, torch.nn.TransformerDecoderLayer, heads, width)
    target = sequence(case, "tgt", batch, queries, width)
    memory = sequence(case, "memory", batch, keys, width)
    mask, padding, is_causal = draw_masks(case, "tgt_", batch, heads, queries, queries, may_be_causal=True)
    memory_mask, memory_padding, _ = draw_masks(case, "memory_", batch, heads, queries, keys,
                                                may_be_causal=False)
    case.finish(output=module(target, memory, mask, memory_mask, padding, memory_padding,
                              tgt_is_causal=is_causal))


def rms_norm(case):
    width = case.set("width", random.randint(4, 32))
    leading = [random.randint(1, 4) for _ in range(random.randint(0, 3))]
    module = case.module(torch.nn.RMSNorm(width, eps=case.choose("eps", None, 1e-6, 1e-2)))
    case.finish(output=module(case.normal_input("x", *leading, width)))


KINDS = [sdpa, mha, encoder, decoder, rms_norm]


def draw_case(kind):
    while True:
        states = random.getstate(), torch.get_rng_state()
        try:
            case = Case(kind.__name__)
            kind(case)
            random.setstate(states[0])
            torch.set_rng_state(states[1])
            exact = Case(kind.__name__)
            exact.dtype = torch.float64
            kind(exact)
        except TooNearToCorner:
            continue
        if case.rounding(exact) < ROUNDING:
            return case


def write_safetensors(path, tensors, metadata):
    names = {torch.bool: "BOOL", torch.float32: "F32", torch.float64: "F64"}
    header, data = {"__metadata__": metadata}, bytearray()
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        begin = len(data)
        data += ctypes.string_at(tensor.data_ptr(), tensor.nbytes)
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--cases", type=int, default=400, metavar="N")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), metavar="N")
    args = parser.parse_args()
    print(f"{args.cases} cases of PyTorch {torch.__version__}; repeat with --seed {args.seed}", flush=True)
    # PyTorch deprecates combining bool and float masks.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    tensors, metadata = {}, {"pytorch": torch.__version__, "seed": str(args.seed)}
    for index in range(args.cases):
        case = draw_case(KINDS[index % len(KINDS)])
        metadata[str(index)] = json.dumps(case.options)
        tensors |= {f"{index}/{name}": tensor for name, tensor in case.tensors.items()}
    write_safetensors(args.out, tensors, metadata)


if __name__ == "__main__":
    main()
