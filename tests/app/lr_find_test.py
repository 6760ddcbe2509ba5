"""attend lr-find from outside.

Run by CTest with ATTEND set to the built command; needs nothing but Python 3.
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
    """Whether a process has a handler for a signal."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE).group(1), 16)
    return bool(caught >> (number - 1) & 1)


class LrFind(CommandTest):
    def lr_find(self, *arguments):
        return self.succeeds("lr-find", *arguments, cwd=self.folder)

    def test_suggests_a_rate_that_can_be_pasted_and_writes_nothing(self):
        result = self.lr_find(*SMALL)
        self.assertRegex(result.stdout, r"suggested  --lr [0-9.e-]+:")
        flag, rate = re.search(r"suggested  (--lr) ([0-9.e-]+):", result.stdout).groups()
        self.succeeds("train", flag, rate, "--print-config")
        self.assertEqual(os.listdir(self.folder), [])

    def test_json_has_every_trial(self):
        result = self.lr_find(*SMALL, "--lowest", "1e-3", "--highest", "1e-2", "--trials", "12",
                              "--json")
        found = json.loads(result.stdout)
        self.assertEqual(len(found["trials"]), 12)
        self.assertAlmostEqual(found["trials"][0]["lr"], 1e-3)
        self.assertAlmostEqual(found["trials"][-1]["lr"], 1e-2)
        self.assertEqual(set(found["trials"][0]), {"lr", "loss", "smoothed"})

    def test_says_so_if_it_cannot_tell(self):
        result = self.lr_find(*SMALL, "--lowest", "1e-9", "--highest", "1e-8", "--trials", "5")
        self.assertIn("no suggestion: in 5 trials the loss did not fall by a tenth", result.stdout)

    def test_takes_a_recipe_by_its_name(self):
        self.lr_find("sort", *SMALL, "--trials", "3")

    def test_a_signal_ends_it_with_a_word(self):
        process = start_in_terminal("lr-find", *SMALL, "--trials", 1000000)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: catches(process, signal.SIGINT), process))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (128 + signal.SIGINT, ""), errors)
        self.assertRegex(errors, r"^stopped after [1-9]\d* of 1000000 trials\n$")

    def test_wrong_ranges_are_named(self):
        for arguments, expected in ((["--trials", "1"], "--trials: must be at least 2, found 1"),
                                    (["--lowest", "1"], "--lowest (1) must be below --highest (1)"),
                                    (["--lowest", "-1"], "--lowest: must be positive, found -1"),
                                    (["soort"], "did you mean 'sort'?")):
            self.refuses(["lr-find", *arguments], expected)


if __name__ == "__main__":
    unittest.main()
