"""Checks bench/scaling.py, and that the tables of docs/distributed.md are those that its commands print.

Needs only Python 3: python3 tests/docs/scaling_test.py
"""

import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^```console\n\$ (bench/scaling\.py .*)\n```\n\n((?:\|.*\n)+)", re.MULTILINE)


def scaling(*arguments):
    """Returns the table for these arguments."""
    return subprocess.run([sys.executable, ROOT / "bench/scaling.py", *map(str, arguments)], check=True,
                          capture_output=True, encoding="utf-8").stdout


def rows_of(table):
    """Returns the numbers of processes in each row of a table."""
    return [[int(cell.replace(",", "")) for cell in line.split("|")[2:4]] for line in table.splitlines()[2:]]


class Scaling(unittest.TestCase):
    def test_page_has_the_tables_of_its_commands(self):
        found = COMMAND.findall((ROOT / "docs/distributed.md").read_text(encoding="utf-8"))
        self.assertTrue(found)
        for command, table in found:
            self.assertEqual(scaling(*shlex.split(command)[1:]), table, command)

    def test_without_latency_the_bytes_decide(self):
        # A backward pass of 2 s; the all-reduce of 1 GB at 1 GB/s takes 2 (P - 1) / P s.
        self.assertEqual(rows_of(scaling("--step", 3.01, "--gradients", 1000, "--latency", 0, 8)), [[2, 65536]])
        # With P processes, the backward pass of a fixed batch takes 30 / P s.
        self.assertEqual(rows_of(scaling("--step", 45.1, "--gradients", 1000, "--latency", 0, 8)), [[16, 65536]])
        # Half of the bytes is hidden with P <= 2 only.
        self.assertEqual(rows_of(scaling("--step", 1.51, "--gradients", 1000, "--latency", 0, 8)), [[1, 2]])

    def test_latency_limits_the_number_of_processes(self):
        # 30 MB are groups of 1, 20 and 7.6 MiB. 2 (P - 1) messages of 100 µs in each of 4 + 3 sums take 1.4 (P - 1) ms,
        # the backward pass 1,003 ms.
        arguments = ("--step", 1.505, "--gradients", 30, "--bucket-mb", 20, "--latency", 100, 1e9)
        self.assertEqual(rows_of(scaling(*arguments)), [[27, 717]])
        # One group: 4 + 1 sums.
        arguments = ("--step", 1.505, "--gradients", 0.4, "--bucket-mb", 0.5, "--latency", 100, 1e9)
        self.assertEqual(rows_of(scaling(*arguments)), [[32, 1004]])


if __name__ == "__main__":
    unittest.main()
