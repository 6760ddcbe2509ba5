"""attend lr-find.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import pathlib
import re
import signal
import unittest

from attend_command import CommandTest
from small_runs import kill, start_in_terminal, wait_for

SMALL = ["--embed-dim", "16", "--batch-size", "16"]


def catches(process, number):
    """Returns True if the process has a handler for the signal with this number."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE).group(1), 16)
    return bool(caught >> (number - 1) & 1)


class LrFind(CommandTest):
    def lr_find(self, *arguments):
        return self.succeeds("lr-find", *arguments, cwd=self.folder)

    def test_suggestion_is_a_valid_flag_and_no_file_is_written(self):
        result = self.lr_find(*SMALL)
        self.assertRegex(result.stdout, r"suggested: --lr [0-9.e-]+ ")
        flag, rate = re.search(r"suggested: (--lr) ([0-9.e-]+) ", result.stdout).groups()
        self.succeeds("train", flag, rate, "--print-config")
        self.assertEqual(os.listdir(self.folder), [])

    def test_json_has_every_step(self):
        result = self.lr_find(*SMALL, "--min-lr", "1e-3", "--max-lr", "1e-2", "--num-steps", "12",
                              "--json")
        found = json.loads(result.stdout)
        self.assertEqual(len(found["steps"]), 12)
        self.assertAlmostEqual(found["steps"][0]["lr"], 1e-3)
        self.assertAlmostEqual(found["steps"][-1]["lr"], 1e-2)
        self.assertEqual(set(found["steps"][0]), {"lr", "loss", "smoothed_loss"})

    def test_no_suggestion(self):
        result = self.lr_find(*SMALL, "--min-lr", "1e-9", "--max-lr", "1e-8", "--num-steps", "5")
        self.assertIn("no suggestion: the smoothed loss fell by less than 10% in 5 steps", result.stdout)

    def test_takes_the_name_of_a_recipe(self):
        self.lr_find("sort", *SMALL, "--num-steps", "3")

    def test_a_signal_stops_it_with_a_message(self):
        process = start_in_terminal("lr-find", *SMALL, "--num-steps", 1000000)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: catches(process, signal.SIGINT), process))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (128 + signal.SIGINT, ""), errors)
        self.assertRegex(errors, r"^stopped after [1-9]\d* of 1000000 steps\n$")

    def test_flags_of_the_training_length_and_schedule_are_refused(self):
        for flag, value, other in (("--max-steps", 9, "--num-steps"), ("--patience", 9, "--num-steps"),
                                   ("--lr", 0.1, "--max-lr"), ("--schedule", "linear", "--min-lr")):
            self.refuses(["lr-find", flag, value], flag, other)

    def test_invalid_ranges(self):
        for arguments, expected in ((["--num-steps", "1"], "--num-steps: must be at least 2, found 1"),
                                    (["--min-lr", "1"], "--min-lr (1) must be less than --max-lr (1)"),
                                    (["--min-lr", "-1"], "--min-lr: must be positive, found -1"),
                                    (["soort"], "did you mean 'sort'?")):
            self.refuses(["lr-find", *arguments], expected)


if __name__ == "__main__":
    unittest.main()
