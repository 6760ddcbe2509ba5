"""Tests scripts/run-ctest with small programs as tests."""

import os
import pathlib
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 10  # seconds, in which ctest starts and runs a quick test on a busy machine


class RunCTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_tests(self, limit, **tests):
        """Runs one test at a time. `tests`: {name: command}, `limit` in seconds or None."""
        lines = (f"add_test({name} {command})\n" for name, command in tests.items())
        pathlib.Path(self.folder, "CTestTestfile.cmake").write_text("".join(lines))
        until = {"ATTEND_TESTS_UNTIL": str(time.time() + limit)} if limit else {}
        environment = {name: value for name, value in os.environ.items() if name != "ATTEND_TESTS_UNTIL"}
        return subprocess.run([ROOT / "scripts/run-ctest", "-j", "1"], cwd=self.folder, env=environment | until,
                              capture_output=True, text=True, timeout=60)

    def test_has_the_status_of_ctest(self):
        for limit in (None, 60):
            self.assertEqual(self.run_tests(limit, first="true", second="true").returncode, 0)
            failed = self.run_tests(limit, first="true", second="false")
            self.assertEqual(failed.returncode, 8, failed)

    def test_ends_and_lists_what_does_not_end_in_time(self):
        file = self.folder / "id"
        sleep = f'bash -c "echo $$ >{file} && sleep 50"'
        disabled = "true)\nset_tests_properties(disabled PROPERTIES DISABLED ON"
        stopped = self.run_tests(LIMIT, first="true", disabled=disabled, second=sleep, third="true")
        self.assertEqual(stopped.returncode, 124, stopped)
        self.assertIn(": second, third\n", stopped.stdout)
        stat = pathlib.Path("/proc", file.read_text().strip(), "stat")
        self.assertTrue(not stat.exists() or stat.read_text().split()[2] == "Z", "the process of the test still runs")

    def test_fails_if_a_test_failed_before(self):
        stopped = self.run_tests(LIMIT, first="false", second="sleep 50")
        self.assertEqual(stopped.returncode, 8, stopped)
        self.assertIn(": second\n", stopped.stdout)

    def test_fails_if_no_test_passed(self):
        disabled = "true)\nset_tests_properties(disabled PROPERTIES DISABLED ON"
        self.assertEqual(self.run_tests(LIMIT, disabled=disabled, second="sleep 50").returncode, 8)

    def test_a_negative_cost_runs_last(self):
        late = "true)\nset_tests_properties(late PROPERTIES COST -5"
        self.assertRegex(self.run_tests(None, late=late, first="true").stdout, r"(?s)first \.+ *Passed.*late \.+ *Passed")


if __name__ == "__main__":
    unittest.main()
