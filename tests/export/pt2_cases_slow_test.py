"""Slow checks of .pt2 archives: run_decompositions() for some cases chosen at random, and
torch.compile and AOTInductor for a few fixed cases.

CTest sets EXPORT_CASES to the output folder of export_cases and RUN_ARCHIVE to the program
run_archive. Exits with 77 (skipped) if Python has no torch.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sysconfig
import tempfile
import unittest

from exported_cases import assert_equal_outputs, assert_same_at_other_shapes, cases, find
import sympy
import torch

RUN_ARCHIVE = os.environ["RUN_ARCHIVE"]
PYTHON_H = pathlib.Path(sysconfig.get_path("include"), "Python.h")  # needed by torch.compile
# PyTorch's decomposition of these operators specializes the length of the sequences. At length 1, the
# decomposed program then repeats the only position.
RECURRENT = ("aten.lstm.", "aten.gru.", "aten.rnn_")
FEW = ("LanguageModel.plain", "SequenceClassifier.mean_padded", "UserForward.clamped_slices",
       "UserForward.data_dependent_sizes", "UserForward.decomposed", "SignalNet.strides", "Pools.plain")


def assumptions_hold(program, inputs):
    """Whether the sizes of the inputs are as PyTorch assumed when it decomposed the program. Some of its
    decompositions branch on the example's sizes."""
    nodes = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    sizes = [pair for node, given in zip(nodes, inputs) for pair in zip(node.meta["val"].shape, given.shape)]
    expected = [(sympy.sympify(size.node.expr if isinstance(size, torch.SymInt) else size), found)
                for size, found in sizes]  # a specialized size is a number
    values = {expression: found for expression, found in expected if expression.is_Symbol}
    env = next((size.node.shape_env for size, _ in sizes if isinstance(size, torch.SymInt)), None)
    guards = [env.replace(guard.expr) for guard in env.guards] if env else []
    return (all(expression.subs(values) == found for expression, found in expected)
            and all(guard.subs(values) for guard in guards))


class Slow(unittest.TestCase):
    @torch.no_grad()
    def test_run_decompositions(self):
        seed = int(os.environ.get("ATTEND_TEST_SEED", random.randrange(10**6)))
        print(f"cases are chosen at random: repeat with ATTEND_TEST_SEED={seed}")
        for case in random.Random(seed).sample(cases("pt2"), 12):  # all cases would take 10 minutes
            with self.subTest(case.name):
                program = torch.export.load(case.path("pt2"))
                if any(str(node.target).startswith(RECURRENT) for node in program.graph.nodes):
                    continue
                program = program.run_decompositions()
                run = program.module()
                for seed, (inputs, expected) in enumerate(case.calls):
                    torch.manual_seed(seed)  # the seed that export_cases sets
                    try:
                        found = run(*inputs)
                    except Exception:
                        if assumptions_hold(program, inputs):
                            raise
                        print(f"{case.name}: PyTorch specialized it, and refuses {[x.shape for x in inputs]}")
                        continue
                    assert_equal_outputs(self, found, expected, case.tolerance, case.terms)

    @unittest.skipUnless(shutil.which("g++") and PYTHON_H.exists(), "needs g++ and python3-dev")
    def test_torch_compile(self):
        for case in find("pt2", *FEW):
            with self.subTest(case.name):
                model = torch.export.load(case.path("pt2")).module()
                assert_same_at_other_shapes(self, torch.compile(model, dynamic=True), case)

    @unittest.skipUnless(shutil.which("g++"), "needs g++")
    def test_aot_inductor_in_cpp(self):
        for case in find("pt2", *FEW):
            with self.subTest(case.name), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                package = folder / "package.pt2"
                torch._inductor.aoti_compile_and_package(torch.export.load(case.path("pt2")),
                                                         package_path=str(package))
                arguments = []
                for i, (inputs, _) in enumerate(case.calls):
                    torch.save(inputs, folder / f"in{i}")
                    arguments += [folder / f"in{i}", folder / f"out{i}"]
                subprocess.run([RUN_ARCHIVE, "package", package, *arguments], check=True, timeout=60)
                for i, (_, expected) in enumerate(case.calls):
                    found = torch.load(folder / f"out{i}", weights_only=True)
                    assert_equal_outputs(self, found, expected, case.tolerance, case.terms)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # deprecation warnings in torch
