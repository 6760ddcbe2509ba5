"""Runs the tests of the page of a run (apps/page/tests) with Node.

Two pages are those of runs that the command in the environment variable ATTEND trains. Exits with 77 (skipped)
if Node 18, the packages of apps/page or Chromium are missing; scripts/test installs them. The environment
variable CHROMIUM is the path of Chromium (default: /usr/bin/chromium).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "apps/page"
MIN_NODE = 18
PACKAGES = ("axe-core", "esbuild", "playwright-core", "uplot")


def missing():
    """Returns what the tests need and do not find, or None."""
    node = shutil.which("node")
    if not node:
        return "no Node"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(re.match(r"v(\d+)", version)[1]) < MIN_NODE:
        return f"Node {version} is older than {MIN_NODE}"
    for package in PACKAGES:
        if not (PAGE / "node_modules" / package).is_dir():
            return f"no {package} in apps/page/node_modules (npm ci)"
    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    return None if shutil.which(chromium) else f"no {chromium}"


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        subprocess.run([os.environ["ATTEND"], "train", "translation", "--max-steps", "30", "--eval-every", "10",
                        "--out", run], stdout=subprocess.DEVNULL, check=True)
        comparison = pathlib.Path(folder) / "comparison.html"
        subprocess.run([os.environ["ATTEND"], "train", "translation", "--max-steps", "20", "--eval-every", "5",
                        "--out", run.with_name("other")], stdout=subprocess.DEVNULL, check=True)
        subprocess.run([os.environ["ATTEND"], "compare", run, run.with_name("other"), "--html", comparison],
                       stdout=subprocess.DEVNULL, check=True)
        status = subprocess.run(["node", "--test", "--test-reporter=spec", "tests/page.test.mjs",
                                 "tests/explanation.test.mjs", "tests/live.test.mjs"], cwd=PAGE,
                                env={**os.environ, "REPORT": str(run / "report.html"),
                                     "COMPARISON": str(comparison)}).returncode
    sys.exit(status)
