"""Runs scripts/release in a small repository whose checks and packages are quick.

Needs only git, bash and Python 3: python3 tests/scripts/release_test.py
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERSON = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
          for key, value in (("NAME", "test"), ("EMAIL", "test"))}
# git sets GIT_DIR and others for hooks and in rebases; with them, the commands would change the repository of attend.
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **PERSON}
FILES = {
    "include/attend/version.h": '#define ATTEND_VERSION "0.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- Packages.\n",
    "CONTRIBUTING.md": "Run `check`. Before a release, check 10:\n\n"
                       "    echo ten >>log\n    N=1 bash -c 'echo $N >>log'\n\n"
                       "After a change:\n\n    echo change >>log\n\n"
                       "Before a release and after a change:\n\n```console\n$ echo twenty >>log\n```\n",
    ".gitignore": "/log\n/dist/\n/build/\n",
    ".ci/run": '#!/bin/sh\necho "ci$*" >>log\n',
    "scripts/build-packages": '#!/bin/sh\nmkdir -p "$1" && echo "$0" >>log && echo wheel >"$1/attend.whl"\n',
    "scripts/find-torch": "#!/bin/sh\n",
}
PACKAGES = ["scripts/build-packages", "build/again/scripts/build-packages"]


class Release(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for name, text in FILES.items():
            self.write(name, text)
        shutil.copy(ROOT / "scripts/release", self.root / "scripts/release")
        self.git("init", "--quiet")
        self.commit()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], cwd=self.root, env=ENVIRONMENT, check=True,
                              capture_output=True, text=True).stdout.strip()

    def commit(self, *arguments):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "commit", *arguments)

    def release(self, *arguments, **environment):
        return subprocess.run([self.root / "scripts/release", *arguments], env={**ENVIRONMENT, **environment},
                              capture_output=True, text=True, timeout=60)

    def refuses(self, *expected):
        """Expects that nothing is tagged, and a message that contains all texts in `expected`."""
        result = self.release("0.2.0")
        self.assertEqual(result.returncode, 1, result.stdout)
        for text in expected:
            self.assertIn(text, result.stderr)
        self.assertNotIn("v0.2.0", self.git("tag"))

    def log(self):
        log = self.root / "log"
        return log.read_text().split() if log.exists() else []

    def test_runs_all_checks_builds_twice_and_tags_the_commit(self):
        result = self.release("0.2.0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.log(), ["ci--unlimited", "ten", "1", "twenty", *PACKAGES])
        self.assertEqual(self.git("rev-parse", "v0.2.0^{commit}"), self.git("rev-parse", "HEAD"))
        self.assertEqual((self.root / "dist/attend.whl").read_text(), "wheel\n")

    def test_a_dry_run_does_not_tag(self):
        result = self.release("--dry-run", "0.2.0")
        self.assertEqual((result.returncode, self.git("tag")), (0, ""), result.stderr)
        self.assertEqual(self.log()[-2:], PACKAGES)

    def test_the_version_must_be_that_of_the_header_and_of_the_changelog(self):
        self.write("include/attend/version.h", '#define ATTEND_VERSION "0.1.0"\n')
        self.write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0] - 2026-11-01\n")
        self.commit()
        self.refuses("version.h", "0.1.0", "0.2.0", "CHANGELOG.md")
        self.assertEqual(self.log(), [])

    def test_the_version_must_be_newer_than_all_tags(self):
        for tag in ("v0.2.1", "v0.10.0", "note"):
            self.git("tag", tag)
        self.refuses("v0.10.0", "0.2.0")
        self.assertEqual(self.log(), [])

    def test_changed_files_are_refused(self):
        self.write("new.txt", "")
        self.refuses("new.txt")
        self.assertEqual(self.log(), [])

    def test_a_failed_check_stops_the_release_after_the_other_checks(self):
        self.write(".ci/run", "#!/bin/sh\necho ci >>log\nexit 3\n")
        self.commit()
        self.refuses(".ci/run")
        self.assertEqual(self.log(), ["ci", "ten", "1", "twenty"])

    def test_checks_that_passed_for_the_commit_do_not_run_again(self):
        self.write(".ci/run", "#!/bin/sh\necho ci >>log\ntest -e dist\n")
        self.commit()
        self.refuses(".ci/run")
        (self.root / "dist").mkdir()
        self.assertEqual(self.release("--dry-run", "0.2.0").returncode, 0)
        (self.root / "log").unlink()
        self.assertEqual(self.release("0.2.0").returncode, 0)
        self.assertEqual(self.log(), PACKAGES)
        self.git("tag", "--delete", "v0.2.0")
        self.commit("--allow-empty")
        (self.root / "log").unlink()
        self.assertEqual(self.release("0.2.0").returncode, 0)
        self.assertEqual(self.log(), ["ci", "ten", "1", "twenty", *PACKAGES])

    def test_the_programs_are_built_again_before_the_checks(self):
        self.write("build/release/CMakeCache.txt", "")
        self.write("build/bin/cmake", '#!/bin/sh\necho cmake >>log\n')
        path = f"{self.root}/build/bin:{os.environ['PATH']}"
        self.assertEqual(self.release("--dry-run", "0.2.0", PATH=path).returncode, 0)
        self.assertEqual(self.log()[:2], ["cmake", "ci--unlimited"])
        self.assertEqual(self.release("--dry-run", "0.2.0", PATH=path).returncode, 0)
        self.assertEqual(self.log()[-3:], ["cmake", *PACKAGES])

    def test_packages_that_differ_are_refused(self):
        self.write("scripts/build-packages", '#!/bin/sh\nmkdir -p "$1" && echo "$1" >"$1/attend.whl"\n')
        self.commit()
        self.refuses("attend.whl")

    def test_a_check_that_changes_files_is_refused(self):
        self.write(".ci/run", "#!/bin/sh\necho text >>CHANGELOG.md\n")
        self.commit()
        self.refuses(self.git("rev-parse", "HEAD"))

    def test_other_versions_are_errors(self):
        for version in ("v0.2.0", "0.2", "0.2.0-rc1", "--all"):
            self.assertEqual(self.release(version).returncode, 2, version)

    def test_each_mention_of_a_release_in_contributing_has_commands(self):
        loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "scripts/release"))
        release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
        loader.exec_module(release)
        scripts = list(release.checks())
        mentions = (ROOT / "CONTRIBUTING.md").read_text().count("Before a release")
        self.assertEqual(len(scripts), 1 + mentions)
        for script in scripts:
            subprocess.run(["bash", "-nc", script], check=True)


if __name__ == "__main__":
    unittest.main()
