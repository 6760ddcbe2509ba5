"""The launcher of the installed command finds LibTorch, or names what it found and expected.

Run by CTest with PREFIX set to the folder of an installation.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["PREFIX"])
EXPECTED = re.search(r"(?m)^expected=(.*)$", (PREFIX / "bin/attend").read_text())[1]
VERSION_FILE = "share/cmake/Torch/TorchConfigVersion.cmake"


class Launcher(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def attend(self, prefix=PREFIX, **environment):
        clean = {name: value for name, value in os.environ.items() if name not in ("LIBTORCH", "LD_LIBRARY_PATH")}
        return subprocess.run([prefix / "bin/attend", "--version"], env={**clean, **environment}, capture_output=True,
                              text=True, timeout=60)

    def moved(self):
        """Returns the folder of a copy of the installation, like that of a package: without the link to LibTorch."""
        moved = self.folder / "with space"
        for name in ("bin", "libexec"):
            shutil.copytree(PREFIX / name, moved / name)
        return moved

    def refuses(self, result, *expected):
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for text in ("LIBTORCH", EXPECTED, *expected):
            self.assertIn(str(text), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_uses_the_libtorch_of_the_installation(self):
        self.assertEqual(self.attend().returncode, 0)

    def test_uses_libtorch_of_the_environment(self):
        libtorch = self.folder / "link to libtorch"
        libtorch.symlink_to(next(PREFIX.glob("lib*/**/attend/libtorch")))
        result = self.attend(self.moved(), LIBTORCH=str(libtorch))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_works_through_a_link(self):
        (self.folder / "bin").mkdir()
        (self.folder / "bin/attend").symlink_to(PREFIX / "bin/attend")
        self.assertEqual(self.attend(self.folder).returncode, 0)

    def test_another_version_is_refused(self):
        file = self.folder / VERSION_FILE
        file.parent.mkdir(parents=True)
        file.write_text('set(PACKAGE_VERSION "1.13.1")\n')
        self.refuses(self.attend(LIBTORCH=str(self.folder)), self.folder, "1.13")

    def test_a_folder_without_libtorch_is_refused(self):
        self.refuses(self.attend(LIBTORCH=str(self.folder / "missing")), self.folder / "missing")

    def test_no_libtorch_is_refused(self):
        if pathlib.Path("/opt/libtorch").exists():
            self.skipTest("/opt/libtorch exists")
        self.refuses(self.attend(self.moved()), "/opt/libtorch")


if __name__ == "__main__":
    unittest.main()
