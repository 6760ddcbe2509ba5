"""Checks that files include only headers of the folders in ALLOWED, that apps/attend/ includes no
private header of the libraries, and that only apps/ prints or parses command-line options.

Needs no build: python3 tests/sources/layering_test.py
"""

import pathlib
import re
import tempfile
import unittest

# The folders of each library. Its umbrella header includes all headers of these folders.
UMBRELLAS = {
    "nn.h": ("ops", "nn", "models"),
    "io.h": ("io",),
    "tokenizers.h": ("tokenizers",),
    "pretrained.h": ("pretrained",),
    "pt2.h": ("pt2",),
    "export.h": ("export", "model_export"),
    "train.h": ("train",),
    "distributed.h": ("distributed",),
}
# For apps and for each folder under include/attend and src: the other folders whose headers it may include.
# See the table in CONTRIBUTING.md. An umbrella header counts as the folders that it includes. All folders
# may include the other headers that are directly in include/attend.
ALLOWED = {
    "ops": (),
    "nn": ("ops",),
    "models": ("ops", "nn"),
    "io": (),
    "tokenizers": ("io",),
    "pretrained": ("ops", "nn", "models", "io", "tokenizers"),
    "program": ("ops", "io"),
    "pt2": ("ops", "io", "program"),
    "export": ("ops", "nn", "io", "program", "pt2"),  # not models: any module can be exported
    "model_export": ("ops", "nn", "models", "io", "program", "pt2", "export"),
    "train": ("ops", "nn", "models", "io", "tokenizers", "pretrained"),
    "distributed": ("ops", "nn", "models", "io", "train"),
    "apps": ("ops", "nn", "models", "io", "tokenizers", "pretrained", "pt2", "export", "model_export", "train",
             "distributed"),
}
# The folders whose headers an umbrella header includes; attend.h includes nn.h, io.h, pt2.h and export.h.
BROUGHT_IN = {**UMBRELLAS, "attend.h": ("ops", "nn", "models", "io", "pt2", "export", "model_export")}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
# LibTorch's compiler and tracer, which the .pt2 reader must not include.
JIT = "torch/csrc/jit/"
PT2 = re.compile(r"(include/attend|src)/(program|pt2)[./]")
PRINTS_OR_PARSES = re.compile(
    r"\bstd::(cout|cerr|clog)\b|\b(fmt|std)::print(ln)?\(|\bprintf\("
    r"|#\s*include\s*[<\"](iostream|CLI/)"
)


def allowed_folders(path):
    """Returns the folders whose headers the file `path`, relative to the root, may include."""
    if path.parts[0] == "apps":
        folder = "apps"
    else:
        inside = path.parts[2:] if path.parts[:2] == ("include", "attend") else path.parts[1:]
        if len(inside) == 1:  # include/attend/NAME, or src/NAME, which is shared by all
            return set(BROUGHT_IN.get(inside[0], ())) if path.parts[0] == "include" else set()
        folder = inside[0]
        if folder not in ALLOWED:
            raise ValueError(f"{path}: the folder {folder} is in no layer; add it to ALLOWED")
    return {folder, *ALLOWED[folder]}


def included_folders(included, path):
    """Returns the folders of the project whose headers the file `path` gets by including `included`."""
    parts = pathlib.PurePosixPath(included).parts
    if parts[0] == "attend":
        return BROUGHT_IN.get(parts[1], ()) if len(parts) == 2 else (parts[1],)
    if parts[0] == ".." and len(parts) > 2 and parts[1] in ALLOWED:  # header of a sibling folder
        return (parts[1],)
    if parts[0] in ALLOWED and path.parts[0] == "src":
        return (parts[0],)
    return ()


def is_private_in_apps(line, root):
    """Returns true for a line that includes neither a public header nor one of the command."""
    include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
    return bool(include) and not (
        include.group(1).startswith("attend/")
        or (root / "apps/attend" / include.group(1)).is_file()
    )


def violations(root):
    """Returns one line for each violation in the tree at `root`."""
    found = []
    files = [f for top in ("include", "src", "apps") for f in sorted((root / top).rglob("*"))]
    for file in (f for f in files if f.suffix in {".h", ".cpp"}):
        path = file.relative_to(root)
        allowed = allowed_folders(path)
        # For files directly in src/, such as precompiled.h, `allowed` is empty.
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            for folder in included_folders(include.group(1), path) if include else ():
                if folder not in allowed:
                    found.append(f"{path}:{number}: must not include {folder}/: {line.strip()}")
                    break
            if include and include.group(1).startswith(JIT) and PT2.match(path.as_posix()):
                found.append(f"{path}:{number}: the .pt2 reader must not include {JIT}: {line.strip()}")
            if path.parts[:2] == ("apps", "attend") and is_private_in_apps(line, root):
                found.append(f"{path}:{number}: not a public header: {line.strip()}")
            code = line.split("//")[0]
            if path.parts[0] != "apps" and PRINTS_OR_PARSES.search(code):
                found.append(f"{path}:{number}: only apps/ may print or parse: {line.strip()}")
    return found


class ThisProject(unittest.TestCase):
    def test_includes_follow_the_layers(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        self.assertTrue((root / "include/attend/ops").is_dir(), root)
        self.assertEqual(violations(root), [])

    def test_umbrella_headers_include_all_headers_of_their_folders(self):
        include = pathlib.Path(__file__).resolve().parents[2] / "include"
        for umbrella, folders in UMBRELLAS.items():
            included = set(re.findall(r'#include "(.+)"', (include / "attend" / umbrella).read_text()))
            headers = {
                header.relative_to(include).as_posix()
                for folder in folders
                for header in (include / "attend" / folder).rglob("*.h")
            }
            self.assertEqual(included, headers, umbrella)


    def test_install_md_lists_the_internal_headers_of_libtorch(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        library_of = {"ops": "nn", "models": "nn", "program": "pt2", "model_export": "export"}
        used = set()
        for file in (f for top in ("include/attend", "src") for f in (root / top).rglob("*") if f.is_file()):
            folder = file.relative_to(root).parts[2 if "include" in file.relative_to(root).parts else 1]
            for header in re.findall(r"#include <((?:torch/csrc|caffe2|ATen/core/dispatch|c10/core/impl)/[^>]*)>", file.read_text()):
                used.add((library_of.get(folder, folder), header))
        rows = re.findall(r"(?m)^\| `attend::(\w+)` \| `((?:torch|caffe2|ATen|c10)/[^`]*)` \| (.*) \|$",
                          (root / "docs/install.md").read_text())
        listed = {(library, f"{folder}/{header}") for library, folder, headers in rows
                  for header in re.findall(r"`([^`]*)`", headers)}
        self.assertEqual(listed, used)


class SelfTest(unittest.TestCase):
    """Shows that the check can fail."""

    def violations_with(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True)
            file.write_text(text)
            return violations(pathlib.Path(folder))

    def test_reports_an_upward_include_in_a_header(self):
        found = self.violations_with("include/attend/ops/a.h", '#pragma once\n#include "attend/nn/b.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("include/attend/ops/a.h:2: must not include nn/", found[0])

    def test_reports_every_form_of_include(self):
        for line in ("#include <attend/train/b.h>", '#  include "attend/train/b.h"',
                     '#include "../train/b.h"', '#include "train/b.h"'):
            self.assertEqual(len(self.violations_with("src/io/a.cpp", line)), 1, line)

    def test_reports_models_in_the_exporters_and_exporters_below_them(self):
        for path, line in (("src/export/a.cpp", '#include "attend/models/b.h"'),
                           ("src/export/onnx/a.h", '#include "models/b.h"'),
                           ("src/io/a.cpp", '#include "attend/export/b.h"'),
                           ("src/pt2/a.cpp", '#include "export/program/b.h"'),
                           ("src/program/a.cpp", '#include "pt2/b.h"'),
                           ("src/program/a.cpp", "#include <torch/csrc/jit/ir/ir.h>"),
                           ("src/pt2/a.cpp", '#include "attend/nn/b.h"'),
                           ("src/pt2/a.cpp", "#include <torch/csrc/jit/ir/ir.h>"),
                           ("src/io/a.cpp", '#include "attend/nn/b.h"'),
                           ("src/train/a.cpp", '#include "attend/export/b.h"')):
            self.assertEqual(len(self.violations_with(path, line)), 1, line)

    def test_reports_an_umbrella_header_in_a_lower_layer(self):
        self.assertEqual(len(self.violations_with("src/nn/a.cpp", "#include <attend/attend.h>")), 1)

    def test_reports_a_layer_in_a_header_of_the_top_folder(self):
        found = self.violations_with("include/attend/a.h", '#include "attend/ops/b.h"')
        self.assertEqual(len(found), 1)

    def test_reports_the_trainer_in_the_umbrella_header(self):
        found = self.violations_with("include/attend/attend.h", '#include "attend/train/a.h"')
        self.assertEqual(len(found), 1)

    def test_reports_printing_and_parsing_outside_the_command(self):
        for line in ("std::cerr << x;", 'fmt::print("x");', 'printf("x");', "#include <CLI/CLI.hpp>"):
            self.assertEqual(len(self.violations_with("src/train/a.cpp", line)), 1, line)
            self.assertEqual(self.violations_with("apps/attend/a.cpp", line), [], line)

    def test_reports_private_headers_in_the_command(self):
        for line in ('#include "io/b.h"', '#include "b.h"', '#include "../../src/io/b.h"'):
            self.assertEqual(len(self.violations_with("apps/attend/runs/a.cpp", line)), 1, line)
        for line in ('#include "attend/io/b.h"', '#include "runs/a.h"', "#include <nlohmann/json.hpp>"):
            self.assertEqual(self.violations_with("apps/attend/runs/a.h", line), [], line)

    def test_reports_a_folder_without_a_layer(self):
        with self.assertRaisesRegex(ValueError, "the folder extras is in no layer"):
            self.violations_with("src/extras/a.cpp", "")

    def test_accepts_the_same_layer_and_those_below(self):
        text = '#include "attend/a.h"\n#include "attend/export/b.h"\n#include "attend/ops/c.h"\n#include <torch/types.h>\n'
        self.assertEqual(self.violations_with("src/export/a.cpp", text), [])

    def test_accepts_pretty_print_and_comments(self):
        text = "void pretty_print(std::ostream& stream);  // unlike printf()\nsnprintf(b, n, f);\n"
        self.assertEqual(self.violations_with("src/nn/a.cpp", text), [])


if __name__ == "__main__":
    unittest.main()
