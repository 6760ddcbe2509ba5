"""Checks that each test named in docs/features.md exists.

CTest sets ATTEND_TESTS to the test program. Needs only Python 3.
"""

import os
import pathlib
import re
import subprocess
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/features.md"
# A table is checked if its last column has this heading.
CHECKED_BY = "checked by"

CELL_BORDER = re.compile(r"(?<!\\)\|")
UNDER_HEADING = re.compile(r":?-+:?")
CODE = re.compile(r"`([^`]+)`")


def cells(line):
    """Returns the cells of a line of a Markdown table, [] for other lines."""
    line = line.strip()
    if not line.startswith("|"):
        return []
    return [cell.strip() for cell in CELL_BORDER.split(line.removeprefix("|").removesuffix("|"))]


def checked_rows(page):
    """Returns (line number, feature, names in the last cell) of each row of the feature tables."""
    found = []
    columns = 0  # number of columns of the current table; 0 outside of the tables to check
    previous = []
    for number, line in enumerate(page.splitlines(), start=1):
        row = cells(line)
        if not row:
            columns = 0
        elif not previous:
            columns = len(row) if row[-1] == CHECKED_BY else 0
        elif columns and not all(UNDER_HEADING.fullmatch(cell) for cell in row):
            # If the row lacks a cell, its last cell is not in the column with heading CHECKED_BY.
            found.append((number, row[0], CODE.findall(row[-1]) if len(row) == columns else []))
        previous = row
    return found


def listed_tests(listing):
    """Returns the full names in the output of `--gtest_list_tests`, without disabled tests."""
    names = set()
    suite = None
    for line in listing.splitlines():
        name = line.split("  # ")[0].rstrip()  # a type or parameter value follows
        if line.startswith("  ") and suite is not None:
            names.add(suite + name.strip())
        else:
            suite = name if name.endswith(".") and " " not in name else None
    return {name for name in names if "DISABLED_" not in name}


def matches(pattern, tests):
    """Returns True if one of `tests` matches `pattern`; * matches any characters."""
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))))
    return any(expression.fullmatch(test) for test in tests)


def problems(page, tests):
    """Returns one line for each row without a test and each test that does not exist."""
    found = []
    for number, feature, names in checked_rows(page):
        if not names:
            found.append(f"line {number}: {feature}: names no test")
        found += [f"line {number}: {feature}: there is no test {name}"
                  for name in names if not matches(name, tests)]
    return found


class ThisProject(unittest.TestCase):
    maxDiff = None

    def test_each_feature_names_existing_tests(self):
        listing = subprocess.run([os.environ["ATTEND_TESTS"], "--gtest_list_tests", "--gtest_filter=*"],
                                 check=True, capture_output=True, text=True, timeout=300).stdout
        tests = listed_tests(listing)
        self.assertTrue(tests, listing)
        page = PAGE.read_text(encoding="utf-8")
        self.assertTrue(checked_rows(page), PAGE)
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


class SelfTest(unittest.TestCase):
    """Shows that the check can fail."""

    def problems_of(self, *rows, heading="| feature | here | checked by |"):
        page = "\n".join(["# Features", "", heading, "|---|:-:|---|", *rows, "", "The end."])
        return problems(page, listed_tests(LISTING))

    def test_lists_plain_parametrized_and_typed_tests(self):
        self.assertEqual(listed_tests(LISTING),
                         {"Masks.AreAdded", "EachStack.KeepsItsShape/plain",
                          "EachStack.KeepsItsShape/alibi", "All/Parts.SurviveAFile/rotary_0",
                          "Typed/0.Works"})

    def test_accepts_existing_tests(self):
        for name in ("Masks.AreAdded", "Masks.*", "EachStack.*/alibi", "*/rotary_*", "Typed/0.Works"):
            self.assertEqual(self.problems_of(f"| masks | `x` | `{name}` |"), [], name)

    def test_reports_tests_that_do_not_exist(self):
        for name in ("Masks.AreMadeUp", "Masks", "AreAdded", "EachStack.*/rotary", "asks.*",
                     "EachStack.KeepsItsShape", "Masks.AreAdde", "Masks_AreAdded", "Masks.DISABLED_*"):
            self.assertEqual(self.problems_of(f"| masks | `x` | `Masks.AreAdded`, `{name}` |"),
                             [f"line 5: masks: there is no test {name}"])

    def test_reports_rows_without_a_test(self):
        for row in ("| masks | `x` | |", "| masks | `x` |  |", "| masks | `x` | by hand |",
                    "| masks | `Masks.AreAdded` |"):
            self.assertEqual(self.problems_of(row), ["line 5: masks: names no test"], row)

    def test_checks_all_rows_of_all_tables(self):
        found = self.problems_of("| a | `x` | |", "| b | `x` | `Masks.*` |", "| c | `x` | |", "",
                                 "| feature | checked by |", "|---|---|", "| d | |")
        self.assertEqual(found, [f"line {line}: {feature}: names no test"
                                 for line, feature in ((5, "a"), (7, "c"), (11, "d"))])

    def test_ignores_other_tables(self):
        self.assertEqual(self.problems_of("| torch | 2.13 | |", heading="| library | version | notes |"), [])

    def test_accepts_an_escaped_bar_in_a_cell(self):
        self.assertEqual(self.problems_of(r"| masks | a \| b | `Masks.AreAdded` |"), [])


if __name__ == "__main__":
    unittest.main()
