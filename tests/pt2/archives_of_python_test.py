"""Tests of load_pt2 with archives written by Python's torch.export: the outputs of C++ must equal
the outputs of Python, and load_pt2 must reject unsupported archives.

CTest runs this file with the environment variable RUN_ARCHIVE, the path of the program run_archive.
If the Python package torch is missing, the exit status is 77, which CTest reports as skipped.
"""

import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import torch
    from torch import nn
    from torch.export import Dim
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)

RUN_ARCHIVE = os.environ["RUN_ARCHIVE"]

BATCH = Dim("batch", min=1, max=32)
LENGTH = Dim("length", min=4, max=16)


class ConvolutionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.AdaptiveAvgPool2d(1)
        nn.init.normal_(self.norm.running_mean)

    def forward(self, images):
        return self.pool(self.norm(self.convolution(images)).relu()).flatten(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        output, (hidden, _) = self.lstm(x)
        return output, hidden


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)

    def forward(self, tokens):
        x = self.embedding(tokens)  # (B, T, 4)
        length = tokens.shape[1]
        last = x[torch.arange(x.shape[0]), -1]
        return (x[:, length - 2 :], x[:, 1:], last, x[..., [0, 2]], x[..., ::2], x.reshape(-1, 2),
                x * length, x + length // 2, x / length)


class SeveralInputs(nn.Module):
    def forward(self, x, y):
        values, indices = x.topk(2)
        return (torch.where(x > 0, x, -1.0), values, indices, x.sort(-1)[0], x @ y.t(),
                torch.stack(x.unbind(1)[:2], 1), torch.einsum("bi,ci->bc", x, y), x.amax(-1) > 0)


class Counter(nn.Module):
    """Accumulates its inputs in buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.zeros(3))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x):
        self.sum.add_(x.sum(0))
        self.calls.add_(1)
        return x + self.sum, self.calls * 2


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("not_saved", torch.randn(6), persistent=False)
        self.constant = torch.randn(6)

    def forward(self, tokens):
        return self.head(self.embedding(tokens) * self.not_saved + self.constant)


class Strided(nn.Module):
    """Has weights that are views: a transposed matrix, and every second column of a matrix."""

    def __init__(self):
        super().__init__()
        self.transposed = nn.Parameter(torch.randn(5, 3).t())
        self.register_buffer("columns", torch.randn(3, 10)[:, ::2])

    def forward(self, x):
        return x @ self.transposed * 2 + x @ self.columns


class Modes(nn.Module):
    """Has regions under torch.no_grad and with autocast disabled."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x):
        with torch.no_grad():
            y = x * self.weight
            z = y + x.shape[0] * 2
            fraction = x.shape[0] / 4  # a SymFloat
        with torch.autocast("cpu", enabled=False):
            rows = y.sum(1)
        with torch.no_grad():
            again = x * rows.unsqueeze(1)
        return y * self.weight + z * fraction, rows, again, y


class ShiftRegister(nn.Module):
    """Shifts values through two buffers and returns the previous value."""

    def __init__(self):
        super().__init__()
        self.register_buffer("previous", torch.zeros(3))
        self.register_buffer("current", torch.zeros(3))

    def forward(self, x):
        self.previous.copy_(self.current)
        self.current.copy_(x.sum(0))
        return self.previous


class Autocast(nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.mT


class SymIntInput(nn.Module):
    def forward(self, x, count):
        return x[:count] * count, count >> 1


class Branch(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def tokens(*shape):
    return (torch.randint(11, shape),)


def reals(*shape, dtype=torch.float32):
    return (torch.randn(shape, dtype=dtype),)


class WrittenByPython(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(torch.seed())

    def run_in_cpp(self, archive, calls):
        arguments = []
        for i, inputs in enumerate(calls):
            torch.save(tuple(map(torch.as_tensor, inputs)), self.folder / f"in{i}")
            arguments += [self.folder / f"in{i}", self.folder / f"out{i}"]
        result = subprocess.run([RUN_ARCHIVE, "program", archive, *arguments], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual((result.stderr, result.returncode), ("", 0))
        return [torch.load(self.folder / f"out{i}", weights_only=True) for i in range(len(calls))]

    def check(self, module, example, others=(), dynamic=None, tolerance=1e-5):
        """Compares C++ with Python for the exported program, and for the same program after its
        decomposition into core ATen operators."""
        module.eval()
        exported = torch.export.export(module, example, dynamic_shapes=dynamic)
        for program in (exported, exported.run_decompositions()):
            archive = self.folder / "program.pt2"
            torch.export.save(program, archive)
            calls = [example, *others]
            # The program loaded from the archive computes the expected outputs. Calls of `module`
            # would change the buffers of `module`. The program of the next round would then start
            # with the changed values.
            run = torch.export.load(archive).module()
            with torch.no_grad():
                # The outputs are copied, since the next call changes an output that is a buffer.
                expected = [copy.deepcopy(run(*inputs)) for inputs in calls]
            for found, wanted in zip(self.run_in_cpp(archive, calls), expected):
                wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
                self.assertEqual(len(found), len(wanted))
                for one, other in zip(found, map(torch.as_tensor, wanted)):
                    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)

    def test_convolutions(self):
        self.check(ConvolutionNet(), reals(2, 3, 9, 8), [reals(1, 3, 9, 8), reals(5, 3, 9, 8)],
                   ({0: BATCH},))

    def test_lstm(self):
        self.check(Recurrent(), reals(2, 6, 5), [reals(4, 6, 5)], ({0: BATCH},))

    def test_encoder(self):
        self.check(Encoder(), reals(2, 6, 8), [reals(1, 9, 8), reals(3, 4, 8)],
                   ({0: BATCH, 1: LENGTH},))

    def test_indexing_by_sizes(self):
        self.check(Indexing(), tokens(2, 5), [tokens(3, 16), tokens(1, 4)],
                   ({0: BATCH, 1: LENGTH},))

    def test_several_inputs_and_outputs(self):
        self.check(SeveralInputs(), (torch.randn(3, 4), torch.randn(2, 4)),
                   [(torch.randn(7, 4), torch.randn(2, 4))], ({0: BATCH}, {}))

    def test_mutated_buffers(self):
        self.check(Counter(), reals(2, 3), [reals(4, 3), reals(2, 3)], ({0: BATCH},))

    def test_buffers_assigned_to_each_other(self):
        self.check(ShiftRegister(), reals(2, 3), [reals(4, 3), reals(2, 3)], ({0: BATCH},))

    def test_tied_weights_non_persistent_buffers_and_constants(self):
        self.check(Tied(), tokens(2, 5), [tokens(3, 7)], ({0: BATCH, 1: LENGTH},))

    def test_weights_that_are_views(self):
        self.check(Strided(), reals(2, 3), [reals(6, 3)], ({0: BATCH},))

    def test_no_grad_and_autocast_regions(self):
        self.check(Modes(), reals(2, 3), [reals(6, 3)], ({0: BATCH},))

    def test_sym_ints_as_inputs(self):
        self.check(SymIntInput(), (torch.randn(9, 3), 4), [(torch.randn(9, 3), 7)],
                   ({}, Dim.DYNAMIC))

    def test_bfloat16(self):
        half = reals(2, 6, 8, dtype=torch.bfloat16)
        self.check(Encoder().to(torch.bfloat16), half,
                   [reals(3, 4, 8, dtype=torch.bfloat16)], ({0: BATCH, 1: LENGTH},),
                   tolerance=2e-2)


class Rejected(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.archive = pathlib.Path(folder.name) / "program.pt2"

    def assert_rejected(self, message):
        result = subprocess.run([RUN_ARCHIVE, "program", self.archive], capture_output=True,
                                text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("program.pt2: ", result.stderr)
        self.assertIn(message, result.stderr)

    def save(self, module, example):
        torch.export.save(torch.export.export(module, example), self.archive)

    def change(self, old, new):
        """Replaces text in the program of the archive."""
        with zipfile.ZipFile(self.archive) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
        (program,) = [name for name in entries if name.endswith("models/model.json")]
        text = entries[program].decode()
        self.assertIn(old, text)
        entries[program] = text.replace(old, new).encode()
        json.loads(entries[program])
        with zipfile.ZipFile(self.archive, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)

    def test_operators_of_other_namespaces(self):
        for name in ("prims.exp.default", "profiler._record_function_exit.default",
                     "quantized.linear.default"):
            self.save(SeveralInputs(), (torch.randn(3, 4), torch.randn(2, 4)))
            self.change("torch.ops.aten.matmul.default", "torch.ops." + name)
            self.assert_rejected(f"operators of namespace '{name.split('.')[0]}' are not allowed")

    def test_custom_operators(self):
        @torch.library.custom_op("mine::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        double.register_fake(torch.empty_like)

        class Custom(nn.Module):
            def forward(self, x):
                return double(x)

        self.save(Custom(), reals(3))
        self.assert_rejected("operators of namespace 'mine' are not allowed")

    def test_operators_that_do_not_exist(self):
        self.save(SeveralInputs(), (torch.randn(3, 4), torch.randn(2, 4)))
        self.change("torch.ops.aten.matmul.default", "torch.ops.aten.matmule.default")
        self.assert_rejected("torch.ops.aten.matmule.default: the operator does not exist")

    def test_operators_that_access_files(self):
        self.save(SeveralInputs(), (torch.randn(3, 4), torch.randn(2, 4)))
        self.change("torch.ops.aten.matmul.default", "torch.ops.aten.from_file.default")
        self.assert_rejected("operators that access files are not allowed")

    def test_control_flow(self):
        self.save(Branch(), reals(3))
        self.assert_rejected("arguments of kind 'as_graph' are not supported")

    def test_autocast(self):
        self.save(Autocast(), reals(2, 3))
        self.assert_rejected("torch.autocast is not supported: call run_decompositions()")

    def test_files_that_are_not_archives(self):
        self.archive.write_bytes(b"no archive")
        self.assert_rejected("program.pt2: not a zip archive")
        torch.save(torch.zeros(3), self.archive)
        self.assert_rejected("entry 'archive_format' not found")


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # hides deprecation warnings of torch
