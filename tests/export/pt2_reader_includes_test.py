"""The .pt2 reader must not include headers of the exporters: attend::pt2 is linked without them.

Needs no build: python3 tests/export/pt2_reader_includes_test.py
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


def reader_sources():
    """The variable pt2_sources of src/CMakeLists.txt."""
    text = (ROOT / "src/CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"set\(pt2_sources\s+([^)]*)\)", text).group(1).split()


def included_headers(path, found):
    """Adds the project's headers that a file includes, directly or not, with the including file."""
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        header = next((ROOT / top / name for top in ("include", "src") if (ROOT / top / name).is_file()),
                      None)
        if header is None:
            found.setdefault(name, path.relative_to(ROOT))
        elif name not in found:
            found[name] = path.relative_to(ROOT)
            included_headers(header, found)
    return found


class Pt2Reader(unittest.TestCase):
    def test_includes_no_header_of_the_exporters(self):
        sources = reader_sources()
        self.assertIn("export/pt2_program.cpp", sources)
        for source in sources:
            for name, by in included_headers(ROOT / "src" / source, {}).items():
                source_of_header = name.removeprefix("attend/").replace(".h", ".cpp")
                if source_of_header.startswith("export/") and (ROOT / "src" / source_of_header).is_file():
                    self.assertIn(source_of_header, sources, f"{by} includes {name}")
                self.assertNotRegex(name, r"^torch/csrc/jit/", f"{by} includes {name}")
                self.assertNotRegex(name, r"^attend/(nn|models|train)/", f"{by} includes {name}")


if __name__ == "__main__":
    unittest.main()
