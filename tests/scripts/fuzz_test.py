"""Tests scripts/fuzz with programs that print as libFuzzer does."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """#!/usr/bin/env python3
import pathlib, sys
name = pathlib.Path(sys.argv[0]).name
if name == "fuzz_silent":
    sys.exit()
print("#7\\tINITED cov: 10 ft: 20 corp: 3/9b exec/s: 0 rss: 30Mb")
print("#99\\tDONE   cov: 11 ft: 22 corp: 4/12b lim: 9 exec/s: 9 rss: 31Mb")
if name == "fuzz_crashes":
    folder = next(word for word in sys.argv if word.startswith("-artifact_prefix=")).partition("=")[2]
    pathlib.Path(folder, "crash-1").write_text("bad")
    print(f"artifact_prefix='{folder}'; Test unit written to {folder}crash-1")
    sys.exit(77)
print("stat::number_of_executed_units: 99")
"""


def load_script(build):
    """Returns scripts/fuzz as a module that uses another build folder."""
    loader = importlib.machinery.SourceFileLoader("fuzz", str(ROOT / "scripts/fuzz"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", loader))
    loader.exec_module(module)
    module.BUILD = build
    return module


class Fuzz(unittest.TestCase):
    def run_target(self, target):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        build = pathlib.Path(temporary.name)
        (build / "fuzz" / target / "seeds").mkdir(parents=True)
        program = build / f"bin/fuzz_{target}"
        program.parent.mkdir()
        program.write_text(PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        return build, load_script(build).run(target, 1)

    def test_prints_executions_and_coverage(self):
        _, (row, finding) = self.run_target("passes")
        self.assertEqual(row.split(), ["passes", "99", "11", "22", "4", "0"])
        self.assertEqual(finding, "")

    def test_names_the_input_of_a_finding_and_what_repeats_it(self):
        build, (row, finding) = self.run_target("crashes")
        self.assertEqual(row.split(), ["crashes", "-", "11", "22", "4", "1"])
        file = build / "fuzz/crashes/findings/crash-1"
        self.assertEqual(file.read_text(), "bad")
        self.assertRegex(finding, rf"{build}/bin/fuzz_crashes .*-timeout=\d+ .*{file}\n")

    def test_refuses_a_program_that_does_not_fuzz(self):
        with self.assertRaisesRegex(RuntimeError, "silent/log"):
            self.run_target("silent")

    def test_refuses_an_unknown_target(self):
        for arguments, names in ((["poems"], ("poems", "safetensors")), (["--seconds", "0"], ("--seconds", "0"))):
            result = subprocess.run([ROOT / "scripts/fuzz", *arguments], text=True, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 2, result.stderr)
            for name in names:
                self.assertIn(name, result.stderr)


if __name__ == "__main__":
    unittest.main()
