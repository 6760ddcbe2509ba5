"""Checks the rows and the comparisons of scripts/bench, without measuring.

Needs only Python 3: python3 tests/docs/bench_test.py
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/bench"


sys.dont_write_bytecode = True  # would create scripts/__pycache__


def load():
    """Imports the script, whose name has no extension."""
    loader = importlib.machinery.SourceFileLoader("bench", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, encoding="utf-8")


bench = load()


class Bench(unittest.TestCase):
    def test_list_prints_the_rows_that_contain_the_text(self):
        result = run("--list", "--rows", "decoding, GPT-2 124M, int")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout.splitlines(),
                         ["decoding, GPT-2 124M, int8 weights", "decoding, GPT-2 124M, int4 weights"])

    def test_unknown_row_is_an_error_that_contains_its_name(self):
        for options in ([], ["--list"]):
            result = run("--rows", "no such row", *options)
            self.assertEqual(result.returncode, 2)
            self.assertIn("no such row", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_names_of_rows_are_unique(self):
        for rows in (bench.ROWS, bench.CUDA_ROWS):
            names = [row[0] for row in rows]
            self.assertEqual(len(names), len(set(names)))

    def test_rows_of_attend_bench_are_rows_of_the_script(self):
        rows = {name: row for name, row, *_ in bench.ROWS}
        for name, quick in bench.QUICK.items():
            prompts = rows[name].get("prompts", [])
            self.assertEqual({key: value for key, value in rows[name].items() if key != "prompts"}, quick)
            self.assertEqual([len(prompt) for prompt in prompts], [quick["prompt"]] if "prompt" in quick else [])

    def test_peers_are_programs_or_changes_of_the_row(self):
        for name, _, peers, _, _ in bench.ROWS + bench.CUDA_ROWS:
            for peer, what in peers.items():
                with self.subTest(row=name, peer=peer):
                    self.assertTrue(isinstance(what, dict) or (bench.PEERS / what[0]).is_file())

    def test_rows_on_the_page_exist(self):
        names = {row[0] for row in bench.ROWS + bench.CUDA_ROWS}
        page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
        tables = re.findall(r"^\| row \| attend \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.MULTILINE)
        self.assertTrue(tables)
        for table in tables:
            for line in table.splitlines():
                self.assertIn(line.split("|")[1].strip(), names)

    def test_difference_compares_what_the_peer_computes(self):
        attend = {"tokens": [[1, 2, 3, 4]], "outputs": [0.5, -2.0]}
        self.assertEqual(bench.difference({"tokens": [[1, 2, 5, 4]]}, attend), 0.25)
        self.assertEqual(bench.difference({"outputs": [0.5, -1.5]}, attend), 0.25)
        self.assertEqual(bench.difference(attend, attend), 0.0)

    def test_memory_limits_what_only_moves_bytes(self):
        speeds = {"read_bytes": 100.0, "fp32_flops": 10.0}
        self.assertEqual(bench.least_seconds({"kind": "optimize"}, {"flops": 0, "moved_bytes": 50}, speeds),
                         ("memory", 0.5))
        self.assertEqual(bench.least_seconds({"kind": "optimize"}, {"flops": 20}, speeds), ("matrix products", 2.0))


if __name__ == "__main__":
    unittest.main()
