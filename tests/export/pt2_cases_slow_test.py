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
import torch

RUN_ARCHIVE = os.environ["RUN_ARCHIVE"]
PYTHON_H = pathlib.Path(sysconfig.get_path("include"), "Python.h")  # needed by torch.compile
# PyTorch's decomposition of these operators specializes the length of the sequences.
RECURRENT = ("aten.lstm.", "aten.gru.", "aten.rnn_")
FEW = ("LanguageModel.plain", "SequenceClassifier.mean_padded", "UserForward.clamped_slices",
       "UserForward.data_dependent_sizes", "UserForward.decomposed", "SignalNet.strides", "Pools.plain")


class Slow(unittest.TestCase):
    def test_run_decompositions(self):
        seed = int(os.environ.get("ATTEND_TEST_SEED", random.randrange(10**6)))
        print(f"cases are chosen at random: repeat with ATTEND_TEST_SEED={seed}")
        for case in random.Random(seed).sample(cases("pt2"), 12):  # all cases would take 10 minutes
            with self.subTest(case.name):
                program = torch.export.load(case.path("pt2"))
                if not any(str(node.target).startswith(RECURRENT) for node in program.graph.nodes):
                    assert_same_at_other_shapes(self, program.run_decompositions().module(), case)

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
