"""Runs scripts/install-torch and scripts/setup with a fake pip; checks which torch they install.

Needs only bash and Python 3: python3 tests/scripts/install_torch_test.py
"""

import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# A script that replaces pip and logs its arguments. `pip index versions torch` prints the versions in
# FAKE_INDEX if there is an --index-url, and the versions in FAKE_CONFIGURED otherwise.
FAKE_PIP = """#!/usr/bin/env bash
echo "$*" >> "$FAKE_LOG"
if [ "$1" = index ]; then
  case "$*" in *--index-url*) found=$FAKE_INDEX ;; *) found=$FAKE_CONFIGURED ;; esac
  [ -n "$found" ] || { echo "ERROR: No matching distribution found for torch" >&2; exit 1; }
  printf 'torch (%s)\\nAvailable versions: %s\\n' "${found%%,*}" "$found"
else
  echo "pip installs"
  exit "${FAKE_STATUS:-0}"
fi
"""


class FakePip(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.log = self.folder / "log"
        (self.folder / "venv/bin").mkdir(parents=True)
        pip = self.folder / "venv/bin/pip"
        pip.write_text(FAKE_PIP)
        pip.chmod(0o755)

    def run_script(self, *arguments, configured="", index="", **environment):
        """Returns the result, and the arguments of each call of pip."""
        clean = {k: v for k, v in os.environ.items() if k not in ("TORCH_CPU_INDEX", "TORCH_VERSION", "LIBTORCH", "Torch_DIR")}
        result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=60,
                                env={**clean, "FAKE_LOG": str(self.log), "FAKE_CONFIGURED": configured,
                                     "FAKE_INDEX": index, **environment})
        calls = [shlex.split(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return result, calls

    def install(self, *options, **environment):
        result, calls = self.run_script(ROOT / "scripts/install-torch", *options, self.folder / "venv",
                                        **environment)
        return result, [c for c in calls if c[0] == "install"], [c for c in calls if c[0] == "index"]


class InstallTorch(FakePip):
    def test_takes_the_cpu_build_of_the_configured_sources_first(self):
        result, installs, queries = self.install(configured="2.15.0, 2.13.0+cpu, 2.13.0", index="2.13.0+cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([call[-1] for call in installs], ["torch==2.13.0+cpu"])
        self.assertNotIn("--extra-index-url", installs[0])
        self.assertEqual(len(queries), 1)

    def test_takes_the_cpu_build_of_pytorchs_index_next(self):
        result, installs, queries = self.install(configured="2.15.0, 2.13.0", index="2.14.0+cpu, 2.13.0+cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(installs), 1)
        self.assertEqual(installs[0][-3:], ["--extra-index-url", CPU_INDEX, "torch==2.13.0+cpu"])
        self.assertIn(CPU_INDEX, queries[1])

    def test_uses_the_mirror_that_is_named(self):
        _, installs, queries = self.install(index="2.13.0+cpu", TORCH_CPU_INDEX="https://example.org/cpu")
        self.assertIn("https://example.org/cpu", queries[1])
        self.assertIn("https://example.org/cpu", installs[0])

    def test_installs_the_version_that_is_named(self):
        _, installs, _ = self.install(configured="2.13.0+cpu, 2.11.0+cpu", TORCH_VERSION="2.11.0")
        self.assertEqual([call[-1] for call in installs], ["torch==2.11.0+cpu"])

    def test_prints_the_size_before_the_download(self):
        output = self.install(configured="2.13.0+cpu")[0].stdout
        self.assertLess(output.index("200 MB"), output.index("pip installs"))
        output = self.install("--cuda")[0].stdout
        self.assertLess(output.index("several GB"), output.index("pip installs"))

    def test_never_installs_the_cuda_build_unasked(self):
        result, installs, _ = self.install(configured="2.15.0, 2.13.0, 2.12.0")
        self.assertEqual((result.returncode, installs), (2, []))
        for text in ("No CPU build of torch 2.13.0", CPU_INDEX, "scripts/setup --cuda", "LIBTORCH=", "several GB"):
            self.assertIn(text, result.stderr)

    def test_takes_no_other_version_for_the_cpu_build(self):
        for versions in ("2.13.0+cpu.cxx11, 12.13.0+cpu", "2.13.0+cu130", "2.12.0+cpu"):
            result, installs, _ = self.install(configured=versions, index=versions)
            self.assertEqual((result.returncode, installs), (2, []), versions)

    def test_does_not_advise_a_cuda_build_that_is_not_there(self):
        result, installs, _ = self.install()
        self.assertEqual((result.returncode, installs), (2, []))
        self.assertNotIn("--cuda", result.stderr)
        self.assertIn("LIBTORCH=", result.stderr)

    def test_asks_an_unreachable_index_only_once_and_not_for_long(self):
        for query in self.install()[2]:
            self.assertEqual(query[query.index("--retries") + 1], "0")
            self.assertLessEqual(int(query[query.index("--timeout") + 1]), 10)

    def test_cuda_excludes_the_cpu_build(self):
        result, installs, queries = self.install("--cuda", configured="2.13.0+cpu, 2.13.0")
        self.assertEqual((result.returncode, queries), (0, []))
        self.assertEqual([call[-1] for call in installs], ["torch==2.13.0,!=2.13.0+cpu"])

    def test_fails_if_pip_fails(self):
        for options in ((), ("--cuda",)):
            self.assertEqual(self.install(*options, configured="2.13.0+cpu", FAKE_STATUS="3")[0].returncode, 3)

    def test_unknown_options_are_errors(self):
        result, installs, _ = self.install("--gpu", configured="2.13.0+cpu")
        self.assertEqual((result.returncode, installs), (2, []))


class Setup(FakePip):
    def test_cuda_with_a_libtorch_without_cuda_is_an_error(self):
        config = self.folder / "libtorch/share/cmake/Torch/TorchConfig.cmake"
        config.parent.mkdir(parents=True)
        config.write_text("")
        result, calls = self.run_script(ROOT / "scripts/setup", "--cuda", LIBTORCH=str(self.folder / "libtorch"))
        self.assertEqual((result.returncode, calls), (2, []))
        self.assertIn("has no CUDA (no lib/libtorch_cuda.so)", result.stderr)

    def test_a_libtorch_that_is_not_there_is_an_error(self):
        result, _ = self.run_script(ROOT / "scripts/setup", LIBTORCH=str(self.folder / "missing"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("missing", result.stderr)


if __name__ == "__main__":
    unittest.main()
