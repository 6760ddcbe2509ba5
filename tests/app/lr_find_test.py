"""attend lr-find from outside.

Run by CTest with ATTEND set to the built command; needs nothing but Python 3.
"""

import json
import os
import re
import subprocess
import tempfile
import unittest

ATTEND = os.environ["ATTEND"]
SMALL = ["--embed-dim", "16", "--batch", "16"]


class LrFind(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def lr_find(self, *arguments):
        return subprocess.run([ATTEND, "lr-find", *arguments], capture_output=True, text=True,
                              timeout=300, cwd=self.folder.name)

    def test_suggests_a_rate_that_can_be_pasted_and_writes_nothing(self):
        result = self.lr_find(*SMALL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"suggested  --lr [0-9.e-]+:")
        flag, rate = re.search(r"suggested  (--lr) ([0-9.e-]+):", result.stdout).groups()
        trained = subprocess.run([ATTEND, "train", flag, rate, "--print-config"],
                                 capture_output=True, text=True)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])

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
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no suggestion: in 5 trials the loss did not fall by a tenth", result.stdout)

    def test_takes_a_recipe_by_its_name(self):
        result = self.lr_find("sort", *SMALL, "--trials", "3")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_wrong_ranges_are_named(self):
        for arguments, expected in ((["--trials", "1"], "--trials: must be at least 2, found 1"),
                                    (["--lowest", "1"], "--lowest (1) must be below --highest (1)"),
                                    (["--lowest", "-1"], "--lowest: must be positive, found -1"),
                                    (["soort"], "did you mean 'sort'?")):
            result = self.lr_find(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(expected, result.stderr)


if __name__ == "__main__":
    unittest.main()
