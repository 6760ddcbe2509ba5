"""Checks that scripts/label-lines always writes the same table, on which the results in models/ are based.

Needs only Python 3: python3 tests/scripts/label_lines_test.py
"""

import collections
import hashlib
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/label-lines"


class LabelLines(unittest.TestCase):
    def test_the_table_depends_neither_on_the_project_nor_on_the_folder(self):
        """If the script is changed, train the recipe again: scripts/run-recipes labelled-lines."""
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "label-lines"
            script.write_bytes(SCRIPT.read_bytes())
            script.chmod(0o755)
            table = subprocess.run([script], cwd=folder, capture_output=True, check=True).stdout
        header, *rows = [line.split("\t") for line in table.decode().splitlines()]
        self.assertEqual(header, ["text", "label"])
        counts = collections.Counter(label for _, label in rows)
        self.assertEqual(counts, dict.fromkeys(("Bash", "C++", "CMake", "Markdown", "Python", "TOML"), 1200))
        self.assertEqual(hashlib.sha256(table).hexdigest(),
                         "a24219555270e9b056837051c10d571ee03b354f6cee54be430167b251bca51f")

    def test_the_other_tables(self):
        """If they are changed, train the recipes again: scripts/run-recipes line-parts line-punctuation line-answers."""
        for table, columns in (("parts", ["text", "label"]), ("punctuation", ["text", "label"]),
                               ("answers", ["prompt", "answer"])):
            text = subprocess.run([SCRIPT, table], capture_output=True, check=True, text=True).stdout
            header, *rows = [line.split("\t") for line in text.splitlines()]
            self.assertEqual((header, len(rows)), (columns, 2400))
            for first, second in rows:
                if table == "parts":
                    self.assertEqual("number" in second.split(","), any(each.isdigit() for each in first), first)
                elif table == "punctuation":
                    count = sum(not (each.isascii() and each.isalnum()) and each != " " for each in first)
                    self.assertAlmostEqual(float(second), 10 * count / len(first), delta=0.006)
        self.assertEqual(subprocess.run([SCRIPT, "tables"], capture_output=True).returncode, 2)


if __name__ == "__main__":
    unittest.main()
