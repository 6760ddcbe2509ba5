"""The man pages that scripts/man-pages writes.

Run by CTest with ATTEND set to the built command. If help2man or man is missing, exits with status 77, which CTest
reports as skipped.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTEND = os.environ["ATTEND"]

for program in ("help2man", "man"):
    if not shutil.which(program):
        print(f"skipped: no {program}; scripts/test installs it")
        sys.exit(77)


def shown(command):
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "MANWIDTH": "200", "COLUMNS": "200", "LC_ALL": "C.UTF-8"})


class ManPages(unittest.TestCase):
    def test_each_command_has_a_page_with_its_flags_and_examples(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "scripts/man-pages", ATTEND, folder], check=True)
            commands = re.findall(r"^  ([\w-]+) ", shown([ATTEND, "--help"]).stdout.split("Subcommands:")[1], re.MULTILINE)
            commands = [command for command in commands if command != "attend"]
            self.assertIn("train", commands)
            pages = {path.stem for path in pathlib.Path(folder).iterdir()}
            self.assertEqual(pages, {"attend", *(f"attend-{command}" for command in commands)})
            for command in commands:
                with self.subTest(command):
                    help_text = shown([ATTEND, command, "--help"]).stdout
                    page = shown(["man", "--warnings", "--nh", "--nj", "-l", f"{folder}/attend-{command}.1"])
                    self.assertEqual(page.stderr, "")
                    self.assertRegex(page.stdout, rf"(?m)^ATTEND-{command.upper()}\(1\)")
                    self.assertRegex(page.stdout, rf"(?m)^ +attend-{command} - ")
                    for flag in re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)", help_text):
                        self.assertRegex(page.stdout, rf"(?m)^ +(-\w, )?{flag}\b")
                    for example in re.findall(r"(?m)^  (attend \S.*)", help_text.partition("Examples:\n")[2]):
                        self.assertIn(" ".join(example.split()), " ".join(page.stdout.split()))


if __name__ == "__main__":
    unittest.main()
