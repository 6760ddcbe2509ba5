"""Checks the layers of the project: no file includes a layer above its own, and only the command prints.

Needs no build: python3 tests/sources/layering_test.py
"""

import pathlib
import re
import tempfile
import unittest

# The folders of each library, whose headers its umbrella header includes.
UMBRELLAS = {
    "nn.h": ("ops", "nn", "models"),
    "io.h": ("io",),
    "export.h": ("export", "model_export"),
    "train.h": ("train",),
}
# The folder under include/attend and src, and its floor; the table in CONTRIBUTING.md.
FLOORS = {"ops": 1, "nn": 2, "models": 3, "io": 4, "export": 4, "model_export": 5, "train": 6, "apps": 7}
# The headers directly in include/attend: those that include a whole library; others are below all.
UMBRELLA_FLOORS = {"nn.h": 3, "io.h": 4, "export.h": 5, "attend.h": 5, "train.h": 6}
GROUND_FLOOR = 0

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
PRINTS_OR_PARSES = re.compile(
    r"\bstd::(cout|cerr|clog)\b|\b(fmt|std)::print(ln)?\(|\bprintf\("
    r"|#\s*include\s*[<\"](iostream|CLI/)"
)


def floor_of_header(name):
    """The floor of include/attend/NAME."""
    return UMBRELLA_FLOORS.get(name, GROUND_FLOOR)


def floor_of_file(path):
    """The floor of a path relative to the root, or None for a file directly in src/."""
    if path.parts[0] == "apps":
        return FLOORS["apps"]
    inside = path.parts[2:] if path.parts[:2] == ("include", "attend") else path.parts[1:]
    if len(inside) == 1:
        return floor_of_header(inside[0]) if path.parts[0] == "include" else None
    if inside[0] not in FLOORS:
        raise ValueError(f"{path}: the folder {inside[0]} has no floor; give it one here")
    return FLOORS[inside[0]]


def floor_of_include(included, path):
    """The floor that an include line of the file `path` reaches, or None if it leaves the project."""
    parts = pathlib.PurePosixPath(included).parts
    if parts[0] == "attend":
        return floor_of_header(parts[1]) if len(parts) == 2 else FLOORS[parts[1]]
    if parts[0] == ".." and len(parts) > 2:  # from a private header's sibling folder
        return FLOORS.get(parts[1])
    if parts[0] in FLOORS and path.parts[0] == "src":
        return FLOORS[parts[0]]
    return None


def violations(root):
    """One line for each broken rule in the tree at `root`."""
    found = []
    files = [f for top in ("include", "src", "apps") for f in sorted((root / top).rglob("*"))]
    for file in (f for f in files if f.suffix in {".h", ".cpp"}):
        path = file.relative_to(root)
        floor = floor_of_file(path)
        if floor is None:
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            reached = floor_of_include(include.group(1), path) if include else None
            if reached is not None and reached > floor:
                found.append(f"{path}:{number}: floor {floor} includes floor {reached}: {line.strip()}")
            code = line.split("//")[0]
            if floor < FLOORS["apps"] and PRINTS_OR_PARSES.search(code):
                found.append(f"{path}:{number}: only apps/ may print or parse: {line.strip()}")
    return found


class ThisProject(unittest.TestCase):
    def test_keeps_the_floors(self):
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


class TheCheckItself(unittest.TestCase):
    """So that a mistake in the patterns above cannot make the check pass for nothing."""

    def violations_with(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True)
            file.write_text(text)
            return violations(pathlib.Path(folder))

    def test_finds_an_upward_include_in_a_header(self):
        found = self.violations_with("include/attend/ops/a.h", '#pragma once\n#include "attend/nn/b.h"\n')
        self.assertEqual(len(found), 1)
        self.assertIn("include/attend/ops/a.h:2: floor 1 includes floor 2", found[0])

    def test_finds_it_in_every_spelling(self):
        for line in ("#include <attend/train/b.h>", '#  include "attend/train/b.h"',
                     '#include "../train/b.h"', '#include "train/b.h"'):
            self.assertEqual(len(self.violations_with("src/io/a.cpp", line)), 1, line)

    def test_finds_the_umbrella_header_used_from_below(self):
        self.assertEqual(len(self.violations_with("src/nn/a.cpp", "#include <attend/attend.h>")), 1)

    def test_finds_a_floor_used_from_the_ground(self):
        found = self.violations_with("include/attend/a.h", '#include "attend/ops/b.h"')
        self.assertEqual(len(found), 1)

    def test_finds_the_trainer_in_the_umbrella_header(self):
        found = self.violations_with("include/attend/attend.h", '#include "attend/train/a.h"')
        self.assertEqual(len(found), 1)

    def test_finds_printing_and_parsing_below_the_command(self):
        for line in ("std::cerr << x;", 'fmt::print("x");', 'printf("x");', "#include <CLI/CLI.hpp>"):
            self.assertEqual(len(self.violations_with("src/train/a.cpp", line)), 1, line)
            self.assertEqual(self.violations_with("apps/attend/a.cpp", line), [], line)

    def test_finds_a_folder_without_a_floor(self):
        with self.assertRaisesRegex(ValueError, "the folder extras has no floor"):
            self.violations_with("src/extras/a.cpp", "")

    def test_lets_a_floor_include_itself_and_those_below(self):
        text = '#include "attend/a.h"\n#include "attend/export/b.h"\n#include "attend/ops/c.h"\n#include <torch/types.h>\n'
        self.assertEqual(self.violations_with("src/io/a.cpp", text), [])

    def test_lets_pretty_print_and_comments_be(self):
        text = "void pretty_print(std::ostream& stream);  // unlike printf()\nsnprintf(b, n, f);\n"
        self.assertEqual(self.violations_with("src/nn/a.cpp", text), [])


if __name__ == "__main__":
    unittest.main()
