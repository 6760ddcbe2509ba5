"""Compares attend with PyTorch in Python on new random cases: creates the cases, then runs attend_tests
on them.

Run by CTest with ATTEND_TESTS set to the path of attend_tests. If Python has no torch, it exits with
status 77, which CTest reports as skipped. ATTEND_TEST_SEED repeats a run.
"""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)


class Parity(unittest.TestCase):
    def test_new_cases(self):
        self.expect_parity("make_cases.py", 400, "Parity.MatchesNewCases")

    def test_new_optimizer_cases(self):
        self.expect_parity("make_optimizer_cases.py", 100, "OptimizerParity.MatchesNewCases")

    def test_new_grad_scaler_cases(self):
        self.expect_parity("make_grad_scaler_cases.py", 4, "GradScalerParity.MatchesNewCases")

    def expect_parity(self, script, cases, test):
        make_cases = pathlib.Path(__file__).with_name(script)
        seed = os.environ.get("ATTEND_TEST_SEED") or str(random.SystemRandom().randrange(2**32))
        print(f"repeat with ATTEND_TEST_SEED={seed}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "cases.safetensors")
            subprocess.run([sys.executable, make_cases, "--out", path, "--cases", str(cases),
                            "--seed", seed], check=True)
            result = subprocess.run(
                [os.environ["ATTEND_TESTS"], f"--gtest_filter={test}"],
                env=os.environ | {"ATTEND_PARITY_CASES": str(path)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, result.stdout)
        # Fails if a case was silently skipped.
        self.assertEqual(re.findall(r"parity: compared (\d+) cases", result.stdout), [str(cases)])


if __name__ == "__main__":
    unittest.main()
