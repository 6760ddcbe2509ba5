"""Helpers that run the command under test."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ATTEND = os.environ["ATTEND"]


def command(*arguments):
    return [ATTEND, *map(str, arguments)]


def attend(*arguments, given=None, environment=None, **options):
    """Runs the command. `given`: standard input; `environment`: additional variables."""
    return subprocess.run(command(*arguments), input=given, capture_output=True, encoding="utf-8",
                          timeout=300, env={**os.environ, **(environment or {})}, **options)


def expect_names(test, message, *parts):
    """Expects that the message contains each part, not only inside of a longer word or number. Pass the names,
    values, files and flags that the message must contain, not words of its sentences, so that an edit of a
    sentence breaks no test."""
    for part in map(str, parts):
        before = r"(?<![\w.-])" if part[0].isdigit() else r"(?<!\w)"
        after = r"(?!\w|\.\d)" if part[-1].isdigit() else r"(?!\w)"
        test.assertRegex(message, before + re.escape(part) + after)


class CommandTest(unittest.TestCase):
    """Tests that share a temporary directory."""

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
        """Expects exit status 2 and a one-line message that contains all texts in `expected`."""
        result = attend(*arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr
