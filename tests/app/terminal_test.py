"""Progress as a person sees it: on terminals of several kinds, and where there is none.

Run by CTest with ATTEND set to the built command and SHOW_PROGRESS to the program that shows given
reports; needs nothing but Python 3.
"""

import fcntl
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from attend_command import ATTEND
from pseudo_terminal import open_pseudo_terminal

SHOW = os.environ["SHOW_PROGRESS"]
REPORTS = ["progress 40 30 2.5", "evaluation 40 2.25", "progress 80 60 2.0", "evaluation 80 2.75",
           "progress 120 90 1.75", "evaluation 120 2.0"]


def environment(changes):
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**clean, "TERM": "xterm", **changes}


def on_terminal(*command, columns=120, before_reading=lambda: None, **changes):
    """Runs a command whose standard error is a terminal; returns what it showed, and its status."""
    ours, theirs = open_pseudo_terminal()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([*map(str, command)], stderr=theirs, stdout=subprocess.DEVNULL,
                               env=environment(changes))
    os.close(theirs)
    before_reading()
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how Linux tells that the other side is closed
        pass
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), process.wait(timeout=300)


def without_terminal(*command, **changes):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300,
                          env=environment(changes))


def screen(shown):
    """What stands on the screen in the end, line by line."""
    lines = re.sub(r"\x1b\[\d*m", "", shown).split("\n")
    return [re.split(r"\r\x1b\[K", line)[-1] for line in lines]


def drawn(shown):
    """Each state of the line that is rewritten."""
    return [line.rstrip("\n") for line in re.findall(r"\r\x1b\[K([^\r\n]*)", re.sub(r"\x1b\[\d*m", "", shown))
            if "%" in line[:4]]


class OnATerminal(unittest.TestCase):
    def test_one_line_with_a_bar_is_rewritten_below_the_evaluations(self):
        shown, status = on_terminal(SHOW, 400, *REPORTS)
        self.assertEqual(status, 0)
        lines = screen(shown)
        self.assertEqual(len(lines), 5, lines)
        for line, step in zip(lines[:3], (40, 80, 120)):
            self.assertRegex(line, rf"^step {step}/400  loss .*  val loss .*  accuracy 50.0 %")
        self.assertRegex(lines[3], r"^ 30% \[=+> +\] 120/400  loss 1\.750  51200 tokens/s"
                                   r"  lr 3\.00e-04  0:03:30 left$")
        self.assertEqual(lines[4], "")

    def test_the_lowest_loss_so_far_is_marked(self):
        best = [line.endswith("  best") for line in screen(on_terminal(SHOW, 400, *REPORTS)[0])[:3]]
        self.assertEqual(best, [True, False, True])
        nan = on_terminal(SHOW, 400, "evaluation 40 nan")[0]
        self.assertNotIn("best", nan)

    def test_no_width_makes_it_wrap(self):
        for columns in range(1, 140):
            with self.subTest(columns=columns):
                lines = drawn(on_terminal(SHOW, 400, "progress 120 90 1.75", columns=columns)[0])
                self.assertEqual(len(lines), 1 if columns > 4 else len(lines))
                for line in lines:
                    self.assertLess(len(line), columns)

    def test_what_matters_most_stays_where_there_is_little_room(self):
        def line(columns):
            return drawn(on_terminal(SHOW, 400, "progress 120 90 1.75", columns=columns)[0])[0]

        self.assertEqual(line(14), " 30% 120/400")
        self.assertIn("loss 1.750", line(30))
        self.assertIn("left", line(45))
        self.assertIn("tokens/s", line(70))
        self.assertRegex(line(60), r"\[=+> +\]")
        self.assertEqual(len(re.search(r"\[(.*)\]", line(200)).group(1)), 30)

    def test_it_is_full_at_the_end_and_not_before(self):
        self.assertIn("  0% [>", on_terminal(SHOW, 400, "progress 1 1 1")[0])
        self.assertIn(" 99% ", on_terminal(SHOW, 1000, "progress 999 1 1")[0])
        self.assertRegex(on_terminal(SHOW, 400, "progress 400 7300 1")[0], r"100% \[=+\].*0:00:00 left")

    def test_odd_numbers_do_no_harm(self):
        self.assertIn("loss nan", on_terminal(SHOW, 400, "progress 1 1 nan")[0])
        self.assertRegex(on_terminal(SHOW, 400, "progress 0 1 1")[0], r"  0% \[>")
        self.assertIn("400:00:00 left", on_terminal(SHOW, 400001, "progress 1 3.6 1")[0])

    def test_columns_counts_where_the_terminal_does_not_know(self):
        for value, width in (("40", 40), ("", 80), ("many", 80), ("-3", 80)):
            lines = drawn(on_terminal(SHOW, 400, "progress 120 90 1.75", columns=0, COLUMNS=value)[0])
            self.assertLess(len(lines[0]), width)
            self.assertGreater(len(lines[0]), width // 2)

    def test_colours_only_where_they_are_welcome(self):
        colour = re.compile(r"\x1b\[\d+m")
        self.assertRegex(on_terminal(SHOW, 400, *REPORTS)[0], colour)
        self.assertRegex(on_terminal(SHOW, 400, *REPORTS, NO_COLOR="")[0], colour)
        plain = on_terminal(SHOW, 400, *REPORTS, NO_COLOR="1")[0]
        self.assertNotRegex(plain, colour)
        self.assertIn("120/400", plain)

    def test_a_terminal_that_cannot_rewrite_gets_plain_lines(self):
        shown, _ = on_terminal(SHOW, 400, *REPORTS, TERM="dumb")
        self.assertNotRegex(shown, r"[\x00-\x09\x0b-\x1f]")

    def test_an_error_stands_on_a_line_of_its_own(self):
        shown, status = on_terminal(SHOW, 400, "progress 120 90 1.75", "failure")
        self.assertEqual(status, 1)
        self.assertEqual(screen(shown)[1:], ["failure", ""])

    def test_the_command_shows_it(self):
        with tempfile.TemporaryDirectory() as folder:
            shown, status = on_terminal(ATTEND, "train", "--max-steps", 20, "--eval-every", 10, "--out",
                                        pathlib.Path(folder, "run"), columns=90)
        self.assertEqual(status, 0, shown)
        lines = screen(shown)
        self.assertRegex(lines[0], r"^step 10/20  .*val loss")
        self.assertRegex(lines[1], r"^step 20/20  .*val loss")
        self.assertRegex(lines[2], r"^100% \[=+\] 20/20")

    def test_a_terminal_that_is_paused_holds_up_neither_training_nor_its_log(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "run", "metrics.jsonl")

            def wait_for_the_last_step():
                while not log.exists() or '"step":500,"val_loss"' not in log.read_text():
                    time.sleep(0.05)

            shown, status = on_terminal(ATTEND, "train", "--max-steps", 500, "--eval-every", 1, "--num-layers", 0,
                                        "--embed-dim", 8, "--out", log.parent,
                                        before_reading=wait_for_the_last_step)
        self.assertEqual(status, 0)
        self.assertEqual(len([line for line in screen(shown) if "val loss" in line]), 500)


class WithoutATerminal(unittest.TestCase):
    def test_plain_lines_for_evaluations(self):
        result = without_terminal(SHOW, 400, *REPORTS)
        evaluations = [line for line in result.stderr.splitlines() if "val loss" in line]
        self.assertEqual(len(evaluations), 3)
        self.assertNotRegex(result.stderr, r"[\x00-\x09\x0b-\x1f]")
        self.assertTrue(evaluations[0].endswith("  best"))

    def test_a_sign_of_life_every_half_minute(self):
        reports = [f"progress {second} {second} 1" for second in range(1, 101)]
        lines = without_terminal(SHOW, 400, *reports).stderr.splitlines()
        self.assertEqual([re.search(r"(\d+)/400", line).group(1) for line in lines], ["30", "60", "90"])
        self.assertRegex(lines[0], r"^step 30/400  loss 1\.000  .*tokens/s .*0:06:10 left$")
        # None where evaluations come more often than that.
        often = [f"{kind} {second} {second} 1" for second in range(0, 101, 20)
                 for kind in ("progress", "evaluation")]
        lines = without_terminal(SHOW, 400, *often).stderr.splitlines()
        self.assertTrue(all("val loss" in line for line in lines), lines)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    # Where there are no terminals, CTest is to say so.
    sys.exit(77 if result.wasSuccessful() and result.skipped else not result.wasSuccessful())
