"""The command under test, how it is run, and what it says of wrong input."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ATTEND = os.environ["ATTEND"]


def command(*arguments):
    return [ATTEND, *map(str, arguments)]


def attend(*arguments, given=None, environment=None, **options):
    """Runs the command to its end. `given`: what it finds on standard input; `environment`:
    variables besides, or in place of, those of the test."""
    return subprocess.run(command(*arguments), input=given, capture_output=True, encoding="utf-8",
                          timeout=300, env={**os.environ, **(environment or {})}, **options)


class CommandTest(unittest.TestCase):
    """Tests that share a folder."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    @classmethod
    def write(cls, name, text):
        path = cls.folder / name
        path.write_bytes(text.encode())
        return path

    def succeeds(self, *arguments, **options):
        result = attend(*arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def refuses(self, arguments, *expected, **options):
        """Says what is wrong in one line, without a backtrace, and prints nothing else."""
        result = attend(*arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
