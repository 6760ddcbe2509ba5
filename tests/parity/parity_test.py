"""This library against PyTorch in Python, on cases that no run before has seen: makes them, and has
attend_tests compare.

Run by CTest with ATTEND_TESTS set to that program, by a Python that has torch; otherwise it exits with
77, which CTest reports as skipped. ATTEND_TEST_SEED repeats a run.
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
    def test_fresh_cases_hold(self):
        self.expect_parity("make_cases.py", 400, "Parity.FreshCasesHold")

    def test_fresh_cases_of_optimizers_hold(self):
        self.expect_parity("make_optimizer_cases.py", 100, "OptimizerParity.FreshCasesHold")

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
        # So that no case is lost on the way, nor all of them.
        self.assertEqual(re.findall(r"parity: compared (\d+) cases", result.stdout), [str(cases)])


if __name__ == "__main__":
    unittest.main()
