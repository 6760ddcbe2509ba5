"""Training with closed or full output streams and files.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

from attend_command import ATTEND, attend, command


class BrokenStreams(unittest.TestCase):
    def train(self, redirection):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            status = subprocess.run(
                ["bash", "-c", f"set -o pipefail; '{ATTEND}' train --max-steps 200 --eval-every 2 "
                               f"--num-layers 1 --embed-dim 8 --out '{run}' {redirection}"],
                capture_output=True, timeout=300).returncode
            lines = (run / "metrics.jsonl").read_text().splitlines()
            self.assertEqual(json.loads(lines[-1])["step"], 200)
            self.assertTrue((run / "summary.json").exists())
        return status

    def test_standard_error_is_closed_or_full(self):
        self.assertEqual(self.train("2>&1 >/dev/null | true"), 0)
        self.assertEqual(self.train("2>&-"), 0)
        self.assertEqual(self.train("2>/dev/full"), 0)

    def test_standard_output_is_closed_or_full(self):
        """The run is saved. The exit status is 1 if output was lost, and 128 + SIGPIPE if its reader closed the
        pipe."""
        self.assertEqual(self.train("2>/dev/null | true"), 128 + signal.SIGPIPE)
        self.assertEqual(self.train(">/dev/full"), 1)
        self.assertEqual(self.train(">&-"), 1)

    def test_status_of_an_error_that_cannot_be_printed(self):
        for redirection in ("2>&-", "2>/dev/full"):
            done = subprocess.run(["bash", "-c", f"'{ATTEND}' nonsense {redirection}"], timeout=60)
            self.assertEqual(done.returncode, 2, redirection)

    def test_output_to_a_full_device(self):
        done = subprocess.run(["bash", "-c", f"'{ATTEND}' tasks >/dev/full"], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "attend: standard output cannot be written\n"))

    def test_each_command_fails_if_its_output_is_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            result = attend("train", "--max-steps", 2, "--warmup-steps", 0, "--num-layers", 1, "--embed-dim", 8, "--out", run)
            self.assertEqual(result.returncode, 0, result.stderr)
            for arguments in (["eval", run], ["generate", run, "--prompt", "the", "--max-new-tokens", 2], ["tasks"],
                              ["models"], ["inspect", run], ["runs", folder], ["explain", "--list"],
                              ["explain", "sky"], ["report", run], ["serve", run, 0], ["completion", "bash"],
                              ["lr-find", "--num-steps", 2], ["train", "--resume", run], ["train", "--print-config"],
                              ["export", run, "-o", pathlib.Path(folder, "model.safetensors")], ["--help"]):
                with open("/dev/full", "w") as full:
                    done = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, text=True,
                                          timeout=60)
                self.assertEqual(done.returncode, 1, (arguments, done.stderr))
                self.assertIn("standard output", done.stderr.splitlines()[-1], arguments)

    def test_a_log_that_cannot_be_written_stops_the_run(self):
        def with_small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))

        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder, "run")
            result = attend("train", "--max-steps", 5000, "--eval-every", 1, "--num-layers", 0, "--embed-dim",
                            8, "--out", run, preexec_fn=with_small_files)
            self.assertFalse((run / "summary.json").exists())
        self.assertEqual(result.returncode, 1, result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertRegex(last, r"^attend: .*/run/.*: cannot be written: File too large$")


if __name__ == "__main__":
    unittest.main()
