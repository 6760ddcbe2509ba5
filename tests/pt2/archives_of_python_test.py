"""Tests of load_pt2 with archives written by Python's torch.export: the outputs of C++ must equal
the outputs of Python for the modules in common_modules.py, and load_pt2 must reject unsupported
archives.

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
    from torch.export.graph_signature import ConstantArgument, InputKind
    from torch.utils import _pytree as pytree
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)

import common_modules

RUN_ARCHIVE = os.environ["RUN_ARCHIVE"]


def flat_inputs(program, inputs):
    """Returns the inputs as a list of tensors, without the constants of the program."""
    specs = [spec for spec in program.graph_signature.input_specs
             if spec.kind == InputKind.USER_INPUT]
    leaves = pytree.tree_leaves(inputs)
    assert len(leaves) == len(specs), f"expected {len(specs)} inputs, found {len(leaves)}"
    return tuple(torch.as_tensor(leaf).clone() for spec, leaf in zip(specs, leaves)
                 if not isinstance(spec.arg, ConstantArgument))


class WrittenByPython(unittest.TestCase):
    """Has a test for each case in common_modules.py."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(torch.seed())

    def expected(self, archive, case):
        """Returns the outputs of the loaded program. Calls of the module would change its buffers.
        The outputs are copied, since the next call changes an output that is a buffer.
        """
        run = torch.export.load(archive).module()
        with torch.no_grad():
            return [copy.deepcopy(pytree.tree_leaves(run(*copy.deepcopy(inputs), **case.kwargs)))
                    for inputs in case.calls]

    def check(self, case, decompose):
        """Compares C++ with Python for the exported program and, if `decompose` is set, for the same
        program after its decomposition into core ATen operators.
        """
        case.module.train(case.train)
        exported = torch.export.export(case.module, copy.deepcopy(case.calls[0]), case.kwargs,
                                       dynamic_shapes=case.dynamic)
        arguments = []
        outputs = []  # pairs: file with the outputs of C++, outputs of Python
        programs = {"exported": exported}
        if decompose:
            programs["core"] = exported.run_decompositions()
        for name, program in programs.items():
            archive = self.folder / f"{name}.pt2"
            torch.export.save(program, archive)
            arguments += ["--", archive]
            for i, wanted in enumerate(self.expected(archive, case)):
                files = [self.folder / f"{name}_{what}{i}" for what in ("in", "out")]
                torch.save(flat_inputs(program, (case.calls[i], case.kwargs)), files[0])
                arguments += files
                outputs.append((files[1], wanted))
        result = subprocess.run([RUN_ARCHIVE, "program", *arguments[1:]], capture_output=True,
                                text=True, timeout=60)
        errors = [line for line in result.stderr.splitlines() if not line.startswith("[W")]
        self.assertEqual((errors, result.returncode), ([], 0))
        for file, wanted in outputs:
            self.compare(torch.load(file, weights_only=True), wanted, case.tolerance)

    def compare(self, found, wanted, tolerance):
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            if other is None:
                self.assertIsNone(one)
                continue
            if isinstance(other, float):
                other = torch.tensor(other, dtype=torch.float64)
            torch.testing.assert_close(one, torch.as_tensor(other), rtol=tolerance, atol=tolerance)


    def test_names(self):
        archive = self.folder / "program.pt2"
        for name, inputs, outputs in (
                ("nested_inputs_and_outputs", "batch_x batch_ids states_0 states_1 bias",
                 "logits states.0 states.1.0 states.1.1 extra.size extra.ids"),
                ("named_tuples", "pair_first pair_second", "first second.sum"),
                ("mlp", "input", "output")):
            case = common_modules.CASES[name]()
            program = torch.export.export(case.module, case.calls[0], case.kwargs)
            torch.export.save(program, archive)
            found = subprocess.check_output([RUN_ARCHIVE, "names", archive], text=True)
            self.assertEqual([line.split() for line in found.splitlines()],
                             [inputs.split(), outputs.split()])


def add_tests():
    # Decompositions take most of the time. Therefore, only every third case is decomposed, unless
    # the environment variable DECOMPOSE_ALL is set.
    step = 1 if os.environ.get("DECOMPOSE_ALL") else 3
    for i, (name, make_case) in enumerate(common_modules.CASES.items()):
        def test(self, make_case=make_case, decompose=i % step == 0):
            self.check(make_case(), decompose)
        setattr(WrittenByPython, f"test_{name}", test)


add_tests()


class Products(nn.Module):
    def forward(self, x, y):
        return x @ y.t()


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
            self.save(Products(), (torch.randn(3, 4), torch.randn(2, 4)))
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

        self.save(Custom(), (torch.randn(3),))
        self.assert_rejected("operators of namespace 'mine' are not allowed")

    def test_operators_that_do_not_exist(self):
        self.save(Products(), (torch.randn(3, 4), torch.randn(2, 4)))
        self.change("torch.ops.aten.matmul.default", "torch.ops.aten.matmule.default")
        self.assert_rejected("torch.ops.aten.matmule.default: the operator does not exist")

    def test_operators_that_access_files(self):
        self.save(Products(), (torch.randn(3, 4), torch.randn(2, 4)))
        self.change("torch.ops.aten.matmul.default", "torch.ops.aten.from_file.default")
        self.assert_rejected("operators that access files are not allowed")

    def test_files_that_are_not_archives(self):
        self.archive.write_bytes(b"no archive")
        self.assert_rejected("program.pt2: not a zip archive")
        torch.save(torch.zeros(3), self.archive)
        self.assert_rejected("entry 'archive_format' not found")


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # hides deprecation warnings of torch
