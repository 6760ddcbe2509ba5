"""A model of a small text, trained once for all tests of a class, and the command that uses it."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ATTEND = os.environ["ATTEND"]
TEXT = "Füchse fressen Früchte.\n"


def attend(*arguments, given=None, **options):
    """Runs the command; `given` is what it finds on standard input."""
    return subprocess.run([ATTEND, *map(str, arguments)], input=given, capture_output=True,
                          encoding="utf-8", timeout=300, **options)


class TextRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.run_directory = cls.folder / "run"
        text = cls.write("text.txt", TEXT * 100)
        training = attend("train", "--text", text, "--out", cls.run_directory, "--context", 16,
                          "--layers", 1, "--embed-dim", 32, "--steps", 120, "--lr", "1e-2")
        assert training.returncode == 0, training.stderr

    @classmethod
    def write(cls, name, text):
        path = cls.folder / name
        path.write_bytes(text.encode())
        return path

    def refuses(self, arguments, *expected, **options):
        result = attend(*arguments, **options)
        self.assertEqual(result.returncode, 2, result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, "one line, no backtrace: " + result.stderr)
        self.assertEqual(result.stdout, "")
