"""attend bench: options, the table and its JSON. No test expects a speed.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import pathlib
import signal
import unittest

from attend_command import CommandTest, expect_names
from small_runs import kill, start_in_terminal, wait_for

ROWS = [row["row"] for row in json.loads((pathlib.Path(__file__).parents[2] / "bench/rows.json").read_text())]
SMALL = "4 layers, width 128"  # in the names of the rows that take least time
QUICK = ["--seconds", 0.01]
LIMITS = ("fp32_flops_per_second", "bf16_flops_per_second", "read_bytes_per_second")
TIMES = ("min_seconds", "median_seconds", "max_seconds")


def cpu_seconds(process):
    """Returns the user time of a process."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


class Bench(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.small = json.loads(cls().succeeds("bench", *QUICK, "--rows", SMALL, "--threads", 1, "--json",
                                              cwd=cls.folder).stdout)

    def test_each_row_that_contains_the_text_is_measured_or_left_out(self):
        measured = [row["row"] for row in self.small["rows"]]
        left_out = [row["row"] for row in self.small["left_out"]]
        self.assertEqual(sorted(measured + left_out), sorted(row for row in ROWS if SMALL in row))
        self.assertLessEqual(set(left_out), {"training step, 4 layers, width 128, bf16"})

    def test_left_out_in_bf16_if_bf16_is_not_faster(self):
        fp32, bf16, _ = (self.small["limits"][key] for key in LIMITS)
        self.assertEqual(bool(self.small["left_out"]), bf16 <= fp32, self.small)

    def test_values_are_positive_numbers_and_ordered(self):
        for key in LIMITS:
            self.assertGreater(self.small["limits"][key], 0)
        for row in self.small["rows"]:
            self.assertEqual(set(row), {"row", "unit", *TIMES, "tokens_per_second", "limit", "share_of_limit"})
            times = [row[key] for key in TIMES]
            self.assertEqual(times, sorted(times))
            self.assertGreater(times[0], 0)

    def test_rates_follow_from_the_times(self):
        for row in self.small["rows"]:
            tokens = {"step": 64 * 12, "token": 1}[row["unit"]]
            self.assertAlmostEqual(row["tokens_per_second"] * row["median_seconds"] / tokens, 1.0)
        decoding, = (row for row in self.small["rows"] if row["unit"] == "token")
        self.assertEqual(decoding["limit"], "memory")
        # Each weight is read once per token: 65 tokens and 256 positions, and in each layer 12 matrices of width 128,
        # 9 biases and 4 vectors of the norms; 2 vectors of the last norm.
        weights = (65 + 256 + 4 * (12 * 128 + 9 + 4) + 2) * 128
        least = 4 * weights / self.small["limits"]["read_bytes_per_second"]
        self.assertAlmostEqual(decoding["share_of_limit"] * decoding["median_seconds"] / least, 1.0)

    def test_json_names_versions_machine_and_options(self):
        self.assertEqual(self.small["threads"], 1)
        self.assertEqual(self.small["device"], "cpu")
        self.assertEqual(self.small["seconds_per_round"], 0.01)
        self.assertEqual(self.small["rounds"], 5)
        self.assertIs(self.small["attend_fast"], os.environ.get("ATTEND_FAST") != "0")
        self.assertRegex(self.small["torch_version"], r"^\d+\.\d+")
        version = self.succeeds("--version").stdout.split()[1]
        self.assertEqual(self.small["provenance"]["version"], version)
        self.assertRegex(self.small["provenance"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertIn("cpu", self.small["provenance"])

    def test_no_file_is_written(self):
        self.assertEqual(os.listdir(self.folder), [])

    def test_table_without_own_kernels(self):
        """The formats of weights then have no effect, so their rows would measure float32."""
        found = self.succeeds("bench", *QUICK, "--rows", "decoding, 4", "--threads", 2,
                              environment={"ATTEND_FAST": "0"}).stdout
        expect_names(self, found, "ATTEND_FAST is 0", "2 threads", "GFLOP/s", "GB/s", "decoding, 4 layers, width 128",
                     "ms per token", "tokens/s", "noise")

    def test_formats_of_weights_need_own_kernels(self):
        found = json.loads(self.succeeds("bench", *QUICK, "--rows", "int4 weights", "--json",
                                         environment={"ATTEND_FAST": "0"}).stdout)
        self.assertEqual([row["row"] for row in found["left_out"]], ["decoding, GPT-2 124M, int4 weights"])
        self.assertEqual((found["rows"], found["attend_fast"]), ([], False))

    def test_wrong_values_are_refused(self):
        message = self.refuses(["bench", "--rows", "no such row"], "--rows", "no such row")
        for row in ROWS:
            self.assertIn(row, message)
        for flag, value in (("--seconds", "0"), ("--seconds", "-1"), ("--seconds", "nan"), ("--seconds", "1e9"),
                            ("--seconds", "soon"), ("--threads", "-1"), ("--threads", "2000"), ("--threads", "all"),
                            ("--device", "tpu")):
            self.assertRegex(self.refuses(["bench", flag, value]), rf"{flag.strip('-')}.*{value}")

    def test_a_signal_ends_it_without_results(self):
        process = start_in_terminal("bench", "--seconds", 3600, "--rows", SMALL)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: cpu_seconds(process) > 2, process))  # loading LibTorch takes less
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (-signal.SIGINT, ""))


if __name__ == "__main__":
    unittest.main()
