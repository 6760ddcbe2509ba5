#!/usr/bin/env python3
"""Compares `attend train --threads auto` with fixed numbers of CPU threads, on an idle and on a busy machine.

    bench/threads.py [--attend PROGRAM] [--repeats N] [--spinners N] [-- TRAIN_ARGUMENTS...]

To simulate a busy machine, the script starts other processes, which use a core each while training
runs (--spinners: their number, default 1). For the idle and for the busy machine, prints the median
seconds for each number of threads, and the ratio of the seconds with auto to the seconds with the
fastest fixed number. Exits with status 1 if one of the two ratios is greater than 2.5. The time of a
run with one step (loading LibTorch, creating the data) is subtracted from all times. The time in
which auto measures which number is fastest is included. Run the script on a machine without other
load.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 2.5


def spin():
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def train(attend, threads, arguments):
    """Returns the seconds that a run took and its number of threads."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder, "run")
        start = time.monotonic()
        subprocess.run([attend, "train", "--out", run, "--threads", threads, *arguments], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        return seconds, json.loads((run / "summary.json").read_text())["threads"]


def candidates():
    cores = len(os.sched_getaffinity(0))
    counts = []
    while cores > 1:
        counts.append(str(cores))
        cores = (cores + 1) // 2
    return [*counts, "1"]


def compare(options, label):
    start = min(train(options.attend, "1", [*options.arguments, "--max-steps", "1"])[0] for _ in range(2))
    medians = {}
    for threads in [*candidates(), "auto"]:
        runs = [train(options.attend, threads, options.arguments) for _ in range(options.repeats)]
        medians[threads] = statistics.median(seconds - start for seconds, _ in runs)
        used = ",".join(sorted({str(used) for _, used in runs}))
        print(f"{label:<14} threads {threads:>4} (used {used}): {medians[threads]:8.2f} s", flush=True)
    auto = medians.pop("auto")
    ratio = auto / min(medians.values())
    print(f"{label:<14} auto / best: {ratio:.2f} (limit {LIMIT})", flush=True)
    return ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attend", default="build/release/bin/attend", help="program to run")
    parser.add_argument("--repeats", type=int, default=3, help="runs per number of threads")
    parser.add_argument("--spinners", type=int, default=1, help="number of processes that each keep a core busy")
    parser.add_argument("arguments", nargs="*", help="further arguments of attend train")
    options = parser.parse_args()
    ratios = [compare(options, "idle")]
    spinners = [spin() for _ in range(options.spinners)]
    try:
        ratios.append(compare(options, f"{options.spinners} spinning"))
    finally:
        for process in spinners:
            process.kill()
    return 0 if max(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
