"""docs/features.md names a test for each feature: each of these tests exists.

Run by CTest with ATTEND_TESTS set to the program that holds all tests; needs nothing but Python 3.
"""

import os
import pathlib
import re
import subprocess
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/features.md"
# The heading of the last column of the tables that are checked.
CHECKED_BY = "checked by"

CELL_BORDER = re.compile(r"(?<!\\)\|")
UNDER_HEADING = re.compile(r":?-+:?")
CODE = re.compile(r"`([^`]+)`")


def cells(line):
    """The cells of a line of a Markdown table, or [] for any other line."""
    line = line.strip()
    if not line.startswith("|"):
        return []
    return [cell.strip() for cell in CELL_BORDER.split(line.removeprefix("|").removesuffix("|"))]


def proofs(page):
    """(line number, feature, the names in its last cell) of each row of the tables of features."""
    found = []
    columns = 0  # of the table that we are in, 0 outside of those to check
    previous = []
    for number, line in enumerate(page.splitlines(), start=1):
        row = cells(line)
        if not row:
            columns = 0
        elif not previous:
            columns = len(row) if row[-1] == CHECKED_BY else 0
        elif columns and not all(UNDER_HEADING.fullmatch(cell) for cell in row):
            # Of a row with a cell too few, the last cell is not the proof.
            found.append((number, row[0], CODE.findall(row[-1]) if len(row) == columns else []))
        previous = row
    return found


def listed_tests(listing):
    """The full names of the tests that `--gtest_list_tests` prints, without those that are disabled."""
    names = set()
    suite = None
    for line in listing.splitlines():
        name = line.split("  # ")[0].rstrip()  # the type or value of a parametrised test follows
        if line.startswith("  ") and suite is not None:
            names.add(suite + name.strip())
        else:
            suite = name if name.endswith(".") and " " not in name else None
    return {name for name in names if "DISABLED_" not in name}


def matches(pattern, tests):
    """Whether one of `tests` has this name, in which * stands for anything."""
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    return any(expression.fullmatch(test) for test in tests)


def problems(page, tests):
    """One line for each row that names no test, and for each name that no test has."""
    found = []
    for number, feature, names in proofs(page):
        if not names:
            found.append(f"line {number}: {feature}: names no test")
        found += [f"line {number}: {feature}: there is no test {name}"
                  for name in names if not matches(name, tests)]
    return found


class ThisProject(unittest.TestCase):
    maxDiff = None

    def test_proves_each_feature(self):
        listing = subprocess.run([os.environ["ATTEND_TESTS"], "--gtest_list_tests", "--gtest_filter=*"],
                                 check=True, capture_output=True, text=True, timeout=300).stdout
        tests = listed_tests(listing)
        self.assertTrue(tests, listing)
        page = PAGE.read_text(encoding="utf-8")
        self.assertTrue(proofs(page), PAGE)
        self.assertEqual(problems(page, tests), [])


LISTING = """\
Running main() from gmock_main.cc
Masks.
  AreAdded
  DISABLED_AreFast
EachStack.
  KeepsItsShape/plain  # GetParam() = plain
  KeepsItsShape/alibi  # GetParam() = alibi
All/Parts.
  SurviveAFile/rotary_0  # GetParam() = 8-byte object <00-00 00-00 00-00 00-00>
Typed/0.  # TypeParam = float
  Works
"""


class TheCheckItself(unittest.TestCase):
    """So that a mistake above cannot make the check pass for nothing."""

    def problems_of(self, *rows, heading="| feature | here | proved by |"):
        page = "\n".join(["# Features", "", heading, "|---|:-:|---|", *rows, "", "The end."])
        return problems(page, listed_tests(LISTING))

    def test_reads_plain_parametrised_and_typed_names(self):
        self.assertEqual(listed_tests(LISTING),
                         {"Masks.AreAdded", "EachStack.KeepsItsShape/plain",
                          "EachStack.KeepsItsShape/alibi", "All/Parts.SurviveAFile/rotary_0",
                          "Typed/0.Works"})

    def test_finds_what_exists(self):
        for name in ("Masks.AreAdded", "Masks.*", "EachStack.*/alibi", "*/rotary_*", "Typed/0.Works"):
            self.assertEqual(self.problems_of(f"| masks | `x` | `{name}` |"), [], name)

    def test_misses_a_name_made_up(self):
        for name in ("Masks.AreMadeUp", "Masks", "AreAdded", "EachStack.*/rotary", "asks.*",
                     "EachStack.KeepsItsShape", "Masks.AreAdde", "Masks_AreAdded", "Masks.DISABLED_*"):
            self.assertEqual(self.problems_of(f"| masks | `x` | `Masks.AreAdded`, `{name}` |"),
                             [f"line 5: masks: there is no test {name}"])

    def test_misses_an_empty_last_column(self):
        for row in ("| masks | `x` | |", "| masks | `x` |  |", "| masks | `x` | by hand |",
                    "| masks | `Masks.AreAdded` |"):
            self.assertEqual(self.problems_of(row), ["line 5: masks: names no test"], row)

    def test_reads_every_row_of_every_table(self):
        found = self.problems_of("| a | `x` | |", "| b | `x` | `Masks.*` |", "| c | `x` | |", "",
                                 "| feature | proved by |", "|---|---|", "| d | |")
        self.assertEqual(found, [f"line {line}: {feature}: names no test"
                                 for line, feature in ((5, "a"), (7, "c"), (11, "d"))])

    def test_lets_other_tables_be(self):
        self.assertEqual(self.problems_of("| torch | 2.13 | |", heading="| library | version | notes |"), [])

    def test_takes_a_bar_within_a_cell(self):
        self.assertEqual(self.problems_of(r"| masks | a \| b | `Masks.AreAdded` |"), [])


if __name__ == "__main__":
    unittest.main()
