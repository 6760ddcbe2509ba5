"""The wheel that scripts/build-wheel builds: installs it into a new virtual environment and trains with it.

Run by CTest with ATTEND_PYTHON set to a Python with torch. If the tools of scripts/build-wheel are missing, exits with
status 77, which CTest reports as skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = [path for path in [pathlib.Path.home()] if len(path.parts) > 1]  # each path contains /
PYTHON = os.environ["ATTEND_PYTHON"]
# The libraries that a manylinux wheel may expect on each machine.
SYSTEM = {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
          "libz.so.1", "ld-linux-x86-64.so.2"}

if not (ROOT / "build/wheel-tools/bin/auditwheel").exists():
    print("skipped: no build/wheel-tools; scripts/test installs it")
    sys.exit(77)


def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, **options)


def succeed(*command, **options):
    result = run(*command, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}{result.stderr}")
    return result


def build(folder, **environment):
    succeed(ROOT / "scripts/build-wheel", folder, env={**os.environ, **environment})
    wheel, = folder.iterdir()
    return wheel


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.wheel = build(cls.folder / "dist")
        # The virtual environment is empty, and sees the torch of ATTEND_PYTHON.
        cls.venv = cls.folder / "venv"
        succeed(PYTHON, "-m", "venv", "--without-pip", cls.venv)
        find = "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parent)"
        cls.torch = pathlib.Path(succeed(PYTHON, "-c", find).stdout.strip())
        cls.packages, = cls.venv.glob("lib/python*/site-packages")
        (cls.packages / "torch.pth").write_text(f"{cls.torch.parent}\n")
        succeed(PYTHON, "-m", "pip", "--python", cls.venv / "bin/python", "install", "--no-index", cls.wheel)
        # The launcher needs these programs, and nothing needs a compiler.
        cls.path = cls.folder / "path"
        cls.path.mkdir()
        for name in ("dirname", "readlink", "sed"):
            (cls.path / name).symlink_to(f"/usr/bin/{name}")

    def attend(self, *arguments, **environment):
        return succeed(self.venv / "bin/attend", *arguments, env={"PATH": str(self.path), **environment})

    def test_the_same_build_gives_the_same_bytes(self):
        again = build(self.folder / "again")
        self.assertEqual(again.name, self.wheel.name)
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())

    def test_requires_the_torch_that_it_was_built_with(self):
        version = re.match(r"\d+\.\d+", succeed(PYTHON, "-c", "import torch; print(torch.__version__)").stdout)[0]
        with zipfile.ZipFile(self.wheel) as archive:
            name, = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            self.assertIn(f"Requires-Dist: torch=={version}.*", archive.read(name).decode().splitlines())

    def test_contains_no_path_of_this_machine(self):
        with zipfile.ZipFile(self.wheel) as archive:
            for name in archive.namelist():
                for path in (ROOT, self.torch, *HOME):
                    self.assertFalse(f"{path}/".encode() in archive.read(name), f"{name} contains {path}")

    def test_each_added_library_has_its_license(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            licenses = {name.split("/licenses/")[1] for name in names if "/licenses/" in name}
            text = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        self.assertEqual(set(re.findall("(?m)^License-File: (.*)$", text)), licenses)
        self.assertLessEqual({"LICENSE", "libonig5", "LGPL-2.1"}, licenses)
        self.assertTrue([name for name in licenses if re.fullmatch(r"libfmt\d+", name)])

    def test_trains_without_a_compiler(self):
        self.attend("train", "--task", "sort", "--max-steps", 20, "--out", self.folder / "run")
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual((summary["task"], summary["steps"]), ("sort", 20))

    def test_finds_the_recipes(self):
        names = {path.stem for path in (ROOT / "models").glob("*.toml")}
        printed = self.attend("models").stdout
        self.assertLessEqual(names, set(re.findall(r"[\w-]+", printed)))

    def loaded_by(self, *arguments):
        """Runs the command without its launcher. Returns the libraries that it loads."""
        log = self.folder / "loaded"
        succeed(self.packages / "attend/libexec/attend", *arguments,
                env={"LD_LIBRARY_PATH": str(self.torch / "lib"), "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(log)})
        file, = self.folder.glob("loaded.*")  # the name ends with the process
        text = file.read_text()
        file.unlink()
        return {pathlib.Path(os.path.normpath(path)) for path in re.findall(r"calling init: (/\S+)", text)}

    def test_needs_only_libraries_of_the_wheel_of_torch_and_of_libc(self):
        train = ["train", "--text", ROOT / "README.md", "--max-steps", 1, "--out"]
        loaded = self.loaded_by(*train, self.folder / "subwords", "--tokenizer", "subword", "--vocab-size", 500)
        model = self.folder / "model"
        self.attend(*train, self.folder / "bytes", "--tokenizer", "byte")
        self.attend("export", self.folder / "bytes", "--format", "hf", "-o", model)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": r"\w+|\W+"}, "behavior": "Isolated",
                                      "invert": False}
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        loaded |= self.loaded_by("generate", model, "--prompt", "the cat", "--max-new-tokens", 1)
        wheel = {path.name for path in loaded if path.is_relative_to(self.packages)}
        self.assertLessEqual({"libonig.so.5", "libattend_sentencepiece.so"}, wheel)
        torch = {path.name for path in loaded if path.is_relative_to(self.torch)}
        self.assertLessEqual({path.name for path in loaded} - wheel - torch, SYSTEM)


if __name__ == "__main__":
    unittest.main()
