"""attend lr-find.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from attend_command import CommandTest, command
from pseudo_terminal import open_pseudo_terminal
from small_runs import as_in_a_terminal, kill

SMALL = ["--embed-dim", "16", "--batch-size", "16"]


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

    def test_a_signal_ends_it_within_a_step(self):
        """A step of this model takes several seconds."""
        controller, terminal = open_pseudo_terminal()
        self.addCleanup(os.close, controller)
        process = subprocess.Popen(command("lr-find", "--task", "sort", "--num-layers", 8, "--embed-dim", 512,
                                           "--batch-size", 128),
                                   stdout=subprocess.PIPE, stderr=terminal, text=True, preexec_fn=as_in_a_terminal,
                                   env={**os.environ, "TERM": "xterm"})
        os.close(terminal)
        self.addCleanup(kill, process)
        shown = b""
        while b"trying learning rates" not in shown:
            shown += os.read(controller, 4096)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - sent, 1)
        self.assertEqual((process.returncode, output), (-signal.SIGINT, ""))

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
