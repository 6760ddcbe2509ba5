"""The .deb and the .tar.gz that cpack builds. Unpacks them for the tests that use them.

Run by CTest with ATTEND_BUILD set to the build folder, LIBTORCH to a LibTorch, and UNPACKED to a folder. If dpkg-deb or
dpkg-shlibdeps is missing, exits with status 77, which CTest reports as skipped.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = [path for path in [pathlib.Path.home()] if len(path.parts) > 1]  # each path contains /
BUILD = pathlib.Path(os.environ["ATTEND_BUILD"])
LIBTORCH = pathlib.Path(os.environ["LIBTORCH"])
UNPACKED = pathlib.Path(os.environ["UNPACKED"])
NAMES = {"libattend", "libattend-dev", "attend"}
# Prints a line for each component: its name and the Debian packages of the libraries that it links.
PACKAGES_OF_COMPONENTS = """
cmake_minimum_required(VERSION 3.25)
include(${COMPONENTS})
macro(_attend_find_library name header package)
  list(APPEND missing ${package})
endmacro()
set(CMAKE_DISABLE_FIND_PACKAGE_tomlplusplus ON)
foreach(component IN LISTS ATTEND_ALL_COMPONENTS)
  attend_resolve_components(needed ${component})
  set(line ${component})
  foreach(each IN LISTS needed)
    attend_find_component_libraries(packages ${each})
    list(APPEND line ${packages})
  endforeach()
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo ${line})
endforeach()
"""

for program in ("dpkg-deb", "dpkg-shlibdeps", "file"):
    if not shutil.which(program):
        print(f"skipped: no {program}; the Debian packages dpkg-dev and file contain these programs")
        sys.exit(77)


def run(*command, **options):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=True,
                          **options).stdout


def build(folder):
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"})
    return {path.name: path for path in folder.iterdir() if path.is_file()}


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.packages = build(cls.folder / "first")
        shutil.rmtree(UNPACKED, ignore_errors=True)
        UNPACKED.mkdir(parents=True)
        cls.debs = {run("dpkg-deb", "--field", path, "Package").strip(): path
                    for path in cls.packages.values() if path.suffix == ".deb"}
        for name, path in cls.debs.items():
            run("dpkg-deb", "--extract", path, UNPACKED / name)
            run("dpkg-deb", "--extract", path, UNPACKED / "deb")
        cls.archive, = [path for path in cls.packages.values() if path.suffix == ".gz"]
        (UNPACKED / "archive").mkdir()
        run("tar", "-xf", cls.archive, "--strip-components=1", "-C", UNPACKED / "archive")

    def test_two_builds_have_the_same_bytes(self):
        again = build(self.folder / "again")
        self.assertEqual(set(again), set(self.packages))
        for name, path in self.packages.items():
            self.assertEqual(path.read_bytes(), again[name].read_bytes(), name)

    def test_the_archive_has_the_files_of_all_packages(self):
        self.assertEqual(set(self.debs), NAMES)
        self.assertEqual(files(UNPACKED / "archive"), files(UNPACKED / "deb/usr"))
        self.assertIn("bin/attend", files(UNPACKED / "attend/usr"))
        self.assertIn("lib/cmake/attend/attendConfig.cmake", files(UNPACKED / "libattend-dev/usr"))
        self.assertIn("lib/libattend_sentencepiece.so", files(UNPACKED / "libattend/usr"))

    def test_packages_need_each_other_and_the_libraries_of_debian(self):
        depends = {name: run("dpkg-deb", "--field", path, "Depends") for name, path in self.debs.items()}
        version = run("dpkg-deb", "--field", self.debs["attend"], "Version").strip()
        for name in ("attend", "libattend-dev"):
            self.assertIn(f"libattend (= {version})", depends[name])
        self.assertRegex(depends["attend"], r"\blibfmt\d+\b")
        self.assertRegex(depends["libattend"], r"\blibonig5\b")

    def test_install_md_lists_the_packages_that_each_library_links(self):
        script = self.folder / "packages.cmake"
        script.write_text(PACKAGES_OF_COMPONENTS)
        linked = collections.defaultdict(set)
        for line in run("cmake", f"-DCOMPONENTS={ROOT}/cmake/Components.cmake", "-P", script).splitlines():
            component, *packages = line.split()
            for package in packages:
                linked[package].add(component)
        components = {component for users in linked.values() for component in users}
        self.assertIn("nn", components)
        section = (ROOT / "docs/install.md").read_text().split("\n## Packages\n")[1].split("\n## ")[0]
        listed = {}
        for packages, users in re.findall(r"(?m)^\| `(lib[^|]*)` \| [^|]* \| (?!none)([^|]*)", section):
            named = set(re.findall("attend::([a-z0-9]+)", users))
            for package in packages.split():
                listed[package] = components - named if "except" in users else named
        self.assertEqual(listed, linked)
        depends = run("dpkg-deb", "--field", self.debs["libattend-dev"], "Depends")
        self.assertLessEqual(set(listed), set(re.findall(r"[\w-]+", depends)))

    def test_files_contain_no_path_of_this_machine(self):
        for folder in ("deb", "archive"):
            for name in files(UNPACKED / folder):
                content = (UNPACKED / folder / name).read_bytes()
                for path in (ROOT, LIBTORCH, *HOME):  # not as a part of another path
                    self.assertIsNone(re.search(rb"(?<![\w.-])" + re.escape(f"{path}/".encode()), content),
                                      f"{name} contains {path}")

    def test_each_package_has_the_licenses_of_the_code_that_it_contains(self):
        for name in NAMES:
            licenses = (UNPACKED / "deb/usr/share/doc" / name / "copyright").read_text()
            self.assertIn((ROOT / "LICENSE").read_text(), licenses)
            for contained in ("libcli11-dev", "libprotozero-dev", "nlohmann-json3-dev"):
                self.assertIn(pathlib.Path(f"/usr/share/doc/{contained}/copyright").read_text(), licenses)

    def test_the_command_runs(self):
        for prefix in (UNPACKED / "deb/usr", UNPACKED / "archive"):
            result = run(prefix / "bin/attend", "train", "--tokenizer", "subword", "--text", ROOT / "README.md",
                         "--vocab-size", 500, "--max-steps", 1, "--num-layers", 0, "--out", self.folder / prefix.name)
            self.assertIn(str(self.folder / prefix.name), result)


if __name__ == "__main__":
    unittest.main()
