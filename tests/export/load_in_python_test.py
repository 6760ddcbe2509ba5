"""Loads exported models with torch.jit.load and compares them with a plain PyTorch implementation
that uses the weights of the training run.

CTest sets ATTEND to the path of the command `attend`. Exits with 77 (skipped) if Python has no
torch.
"""

import importlib.util
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)

ATTEND = os.environ["ATTEND"]


def load_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def reference(weights, tokens, heads, layers, norm_order):
    """Reference implementation of the decoder-only transformer."""

    def linear(x, name):
        return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"],
                            weights.get(name + ".bias"))

    def attention(x, name):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2)
                   for part in linear(x, name + ".qkv").split(width, dim=-1))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weighted = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        return linear(weighted.transpose(1, 2).reshape(batch, length, width), name + ".out")

    def feed_forward(x, name):
        return linear(F.gelu(linear(x, name + ".up")), name + ".down")

    x = weights["embedding.token.weight"][tokens]
    if "embedding.position.weight" in weights:
        x = x + weights["embedding.position.weight"][: tokens.shape[1]]
    else:
        width = x.shape[-1]
        angle = torch.arange(tokens.shape[1])[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        x = x + torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
    for i in range(layers):
        block = f"decoder.blocks.{i}"
        if norm_order == "pre":
            x = x + attention(norm(x, block + ".norm1"), block + ".attention")
            x = x + feed_forward(norm(x, block + ".norm2"), block + ".feed_forward")
        else:
            x = norm(x + attention(x, block + ".attention"), block + ".norm1")
            x = norm(x + feed_forward(x, block + ".feed_forward"), block + ".norm2")
    x = norm(x, "decoder.norm")
    head = weights.get("head.weight", weights["embedding.token.weight"])
    return x @ head.T


class LoadInPython(unittest.TestCase):
    def export(self, *flags, layers=2):
        """Trains and exports a model, and checks the file. Returns the bytes of the file, the
        weights and the vocabulary."""
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            subprocess.run([ATTEND, "train", "--out", run, "--max-steps", "3", "--num-heads", "4", "--num-layers",
                            str(layers), "--embed-dim", "32", "--dropout", "0.1", *flags],
                           check=True, capture_output=True)
            path = run / "model.pt"
            subprocess.run([ATTEND, "export", run, "-o", path], check=True, capture_output=True)
            extra = {"tokenizer.json": "", "recipe.toml": ""}
            model = torch.jit.load(path, _extra_files=extra)
            archive = path.read_bytes()
            weights = load_safetensors(run / "model.safetensors")

        vocabulary = json.loads(extra["tokenizer.json"])["tokens"]
        self.assertIn("bank=shore", vocabulary)
        self.assertIn(b"[model]", extra["recipe.toml"])
        self.assertFalse(model.training)
        self.assertEqual(set(model.state_dict()), set(weights))
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, weights[name]), name)
        return archive, weights, vocabulary

    def test_the_example_prints_the_classes_of_attend_predict(self):
        example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "serve" / "predict.py"
        texts = ["([])", "([)]", "[]"]
        with tempfile.TemporaryDirectory() as folder:
            run, model = pathlib.Path(folder, "run"), pathlib.Path(folder, "model.pt")

            def output(*command):
                return subprocess.run(command, check=True, capture_output=True, text=True).stdout

            output(ATTEND, "train", "--task", "balanced-brackets", "--out", run, "--max-steps", "2", "--embed-dim",
                   "16", "--num-layers", "1", "--batch-size", "4")
            output(ATTEND, "export", run, "-o", model)
            found = output(sys.executable, example, model, *texts)
            expected = output(ATTEND, "predict", run, *texts)
        for line, other in zip(found.splitlines(), expected.splitlines(), strict=True):
            (name, probability), (other_name, other_probability) = line.split("\t"), other.split("\t")
            self.assertEqual(name, other_name)
            self.assertAlmostEqual(float(probability), float(other_probability), delta=2e-4)

    def test_the_example_with_a_cache_prints_the_text_of_attend_generate(self):
        if importlib.util.find_spec("onnxruntime") is None:
            self.skipTest("this Python has no onnxruntime")
        example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "serve" / "generate.py"
        with tempfile.TemporaryDirectory() as folder:
            run, text = pathlib.Path(folder, "run"), pathlib.Path(folder, "text.txt")
            text.write_text("the quick brown fox jumps over the lazy dog. " * 40)

            def output(*command):
                return subprocess.run(command, check=True, capture_output=True, text=True).stdout

            output(ATTEND, "train", "--text", text, "--out", run, "--max-steps", "40", "--embed-dim", "32",
                   "--num-layers", "2", "--num-heads", "4", "--num-kv-heads", "2", "--positions", "rotary")
            expected = output(ATTEND, "generate", run, "--prompt", "the quick", "--temperature", "0",
                              "--max-new-tokens", "30", "--no-echo")
            for name, flags in (("plain", ()), ("newest", ("--opset", "23")),
                                ("half", ("--dtype", "fp16", "--external-data"))):
                with self.subTest(name):
                    model = pathlib.Path(folder, f"{name}.onnx")
                    output(ATTEND, "export", run, "-o", model, "--with-cache", *flags)
                    found = output(sys.executable, example, model, "the quick", "30")
                    self.assertEqual(found.rstrip("\n"), expected.rstrip("\n"))

    def check(self, *flags, layers=2, norm_order="pre"):
        archive, weights, vocabulary = self.export(*flags, layers=layers)
        model = torch.jit.load(io.BytesIO(archive))
        for shape in ((1, 1), (2, 8), (5, 16), (3, 7)):
            tokens = torch.randint(len(vocabulary), shape)
            expected = reference(weights, tokens, 4, layers, norm_order)
            torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-5)
        # No device or dtype is specialized: the file runs on other devices and in other dtypes.
        on_meta = torch.jit.load(io.BytesIO(archive), map_location="meta")
        self.assertEqual(on_meta(tokens.to("meta")).device.type, "meta")
        coarse = model.to(torch.bfloat16)(tokens)
        torch.testing.assert_close(coarse.float(), expected, rtol=0.1, atol=0.1)

    def test_default_model(self):
        self.check()

    def test_post_norm_and_untied_head(self):
        self.check("--norm-order", "post", "--no-tie-embeddings", norm_order="post")

    def test_sinusoidal_positions_without_biases(self):
        self.check("--positions", "sinusoidal", "--no-bias")

    def test_no_layers(self):
        self.check(layers=0)

    def test_all_options_at_other_sizes(self):
        for flags in (
                "--positions rotary --rotary-scaling yarn --rotary-factor 2 --rotary-original-max-seq-len 8 "
                "--num-kv-heads 2 --norm rms --norm-order sandwich --activation swiglu --qk-norm rms "
                "--sliding-window 6 --attention-sinks --soft-cap 10 --output-gate --value-residual",
                "--positions alibi --num-experts 4 --norm-order parallel --branch-scale layer_scale "
                "--activation geglu --qk-norm l2",
                "--positions relative --branch-scale rezero --head-dim 12 --activation relu2 "
                "--stochastic-depth 0.1 --gradient-checkpointing"):
            with self.subTest(flags):
                archive, _, vocabulary = self.export(*flags.split())
                model = torch.jit.load(io.BytesIO(archive))
                tokens = torch.randint(len(vocabulary), (3, 16))
                whole = model(tokens)
                # The model is causal: the outputs for a prefix of the input are the first outputs
                # for the whole input.
                for batch, length in ((3, 1), (1, 9), (2, 16)):
                    part = model(tokens[:batch, :length])
                    torch.testing.assert_close(part, whole[:batch, :length], rtol=1e-4, atol=1e-5)
                self.assertFalse(torch.isnan(whole).any())
                for dtype in (torch.float16, torch.bfloat16, torch.float64):
                    cast = torch.jit.load(io.BytesIO(archive)).to(dtype)
                    exact = torch.jit.load(io.BytesIO(archive)).to(dtype).double()
                    self.assertEqual(cast(tokens).dtype, dtype)
                    torch.testing.assert_close(cast(tokens).double(), exact(tokens), rtol=0.1, atol=0.1)
                    self.assertEqual(cast.attention(tokens).dtype, dtype)
                    self.assertEqual(cast.generate(tokens[:, :4], 5, 0.0).shape, (3, 5))
                # Only the model with relative positions runs on the meta device. The model with
                # rotary positions has constant tables, and the one with ALiBi routes tokens to
                # experts.
                if "--positions relative" in flags:
                    on_meta = torch.jit.load(io.BytesIO(archive), map_location="meta")
                    self.assertEqual(on_meta(tokens.to("meta")).device.type, "meta")


if __name__ == "__main__":
    unittest.main()
