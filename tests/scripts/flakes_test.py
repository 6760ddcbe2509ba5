"""Tests scripts/flakes with a program that prints as GoogleTest does."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The second run of the first test fails; the second test ends the process of the second run.
PROGRAM = """#!/usr/bin/env python3
import fnmatch, os, pathlib, sys
if "--gtest_list_tests" in sys.argv:
    for test in ("DecodingStep.BlockEqualsBlockWithoutCacheForRandomOptions", "DecodingStep.UsesPreparedWeights",
                 "Muon.NewtonSchulzCommutesWithTransposition"):
        if any(fnmatch.fnmatchcase(test, each) for each in os.environ["GTEST_FILTER"].split(":")):
            print(test.replace(".", ".\\n  "))
    sys.exit()
if "silent" in __file__:
    sys.exit(3)
counter = pathlib.Path(__file__).with_suffix(".runs")
tests = os.environ["GTEST_FILTER"].split(":")
for _ in range(int(sys.argv[-1].partition("=")[2])):
    run = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(run + 1))
    for test in tests:
        print(f"[ RUN      ] {test}\\nrepeat with ATTEND_TEST_SEED={run}")
        if run == 1 and test.startswith("Muon") and "crash" in __file__:
            sys.stdout.flush()
            os.abort()
        failed = run == 1 and test.startswith("Decoding") and "fails" in __file__
        print(f"[  {'FAILED  ' if failed else '     OK '}] {test} (1 ms)", flush=True)
"""
BLOCK, MUON = "DecodingStep.BlockEqualsBlockWithoutCacheForRandomOptions", "Muon.NewtonSchulzCommutesWithTransposition"


class Flakes(unittest.TestCase):
    def flakes(self, *arguments, name="passes"):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, name)
            program.write_text(PROGRAM, encoding="utf-8")
            program.chmod(0o755)
            return subprocess.run([ROOT / "scripts/flakes", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=os.environ | {"ATTEND_TESTS": str(program)})

    def test_runs_only_random_tests(self):
        result = self.flakes(5)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout, rf"5 +0 +{BLOCK}\n")
        self.assertRegex(result.stdout, rf"5 +0 +{MUON}\n")
        self.assertNotIn("UsesPreparedWeights", result.stdout)

    def test_names_a_failure_and_what_repeats_it(self):
        result = self.flakes(4, name="fails")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, rf"4 +1 +{BLOCK}\n")
        self.assertIn(f"repeat with ATTEND_TEST_SEED=1 {BLOCK}", result.stdout)

    def test_continues_after_a_crash(self):
        result = self.flakes(4, name="crash")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertRegex(result.stdout, rf"4 +0 +{BLOCK}\n")
        self.assertRegex(result.stdout, rf"4 +1 +{MUON}\n")

    def test_ends_if_the_program_runs_no_test(self):
        result = self.flakes(4, BLOCK, name="silent")
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn(BLOCK, result.stdout)

    def test_refuses_wrong_arguments(self):
        for arguments in ((), ("many",), (0,)):
            self.assertEqual(self.flakes(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
