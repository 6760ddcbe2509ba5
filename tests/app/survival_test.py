"""Runs that signals or kills have ended can be resumed, and only one process writes to a run.

Run by CTest with ATTEND set to the built command; requires only Python 3. To kill runs at the same
times as in an earlier test run, set RANDOM_SEED to the seed that it printed.
"""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from attend_command import attend, command, expect_names
from small_runs import (DEMANDING, STOP_SIGNALS, RunsTest, checkpoints, files_of, kill, last_step,
                        read_safetensors, replaced_by, reports_of, start, start_in_terminal, wait_for)

SEED = int(os.environ.get("RANDOM_SEED", time.time_ns() % 1000000))


class StoppedBySignals(RunsTest):
    SETTING = [*DEMANDING, "--max-steps", 120, "--eval-every", 16, "--checkpoint-every", 7]

    def stop(self, run, number):
        """Starts a run and stops it with a signal after more than 20 of its 120 steps."""
        process = start_in_terminal("train", "--out", run, *self.SETTING)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: last_step(run) > 20, process))
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 128 + number, errors)
        step = last_step(run)
        self.assertLess(step, 120)
        self.assertEqual(errors.splitlines()[-1],
                         f"stopped at step {step}; resume with: attend train --resume {run}")
        self.assertFalse((run / "summary.json").exists())

    def test_a_resumed_run_equals_an_uninterrupted_one(self):
        whole = self.folder / "whole"
        self.train("--out", whole, *self.SETTING)
        for number in STOP_SIGNALS:
            run = self.folder / number.name
            self.stop(run, number)
            state = read_safetensors(checkpoints(run)[-1] / "state.safetensors")
            rows_used = int.from_bytes(state["sampler.next"][1], "little")
            self.assertIn(rows_used, range(1, state["sampler.order"][0]["shape"][0]))
            self.train("--resume", run)
            self.same_result(run, whole, f"after {number.name}")
            self.assertEqual(reports_of(run), reports_of(whole))

    def test_a_second_signal_ends_the_process(self):
        run = self.folder / "run"
        process = start_in_terminal("train", "--out", run, "--gradient-accumulation-steps", 10000)  # takes minutes
        self.addCleanup(kill, process)
        self.assertTrue(wait_for((run / "metrics.jsonl").exists, process))
        process.send_signal(signal.SIGINT)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        self.assertEqual(process.returncode, -signal.SIGINT)

    def test_ignored_signals_stay_ignored(self):
        run = self.folder / "run"
        process = subprocess.Popen(["nohup", *command("train", "--out", run, *self.SETTING)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: last_step(run) > 20, process))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertTrue((run / "summary.json").exists())


class KilledAtAnyMoment(RunsTest):
    SETTING = [*DEMANDING, "--max-steps", 24, "--eval-every", 8, "--checkpoint-every", 1]

    def end_after(self, seconds):
        def ended(run, process):
            time.sleep(seconds)

        return ended

    def end_while_writing(self, step, seconds):
        def ended(run, process):
            partial = run / "checkpoint" / ".partial"
            wait_for(lambda: last_step(run) >= step and partial.exists(), process)
            time.sleep(seconds)

        return ended

    def survives(self, run, moment):
        process = start("train", "--out", run, *self.SETTING)
        moment(run, process)
        kill(process)
        if (run / "recipe.toml").exists():
            result = attend("train", "--resume", run)
        else:
            result = attend("train", "--out", run, *self.SETTING)
        self.assertEqual(result.returncode, 0, result.stderr)
        if "24/24" in result.stdout:
            return "after the end"
        return "with a checkpoint" if "from step" in result.stdout else "before one"

    def test_a_run_ends_with_the_same_bytes(self):
        whole = self.folder / "whole"
        started = time.monotonic()
        self.train("--out", whole, *self.SETTING)
        duration = time.monotonic() - started
        print(f"repeat with RANDOM_SEED={SEED}")
        chance = random.Random(SEED)
        # 15 runs are killed at random times, spread evenly from before the run directory exists
        # until after the end of the run.
        moments = [self.end_after((i + chance.random()) / 15 * 1.5 * duration) for i in range(15)]
        moments += [self.end_while_writing(chance.randrange(24), chance.uniform(0, 0.004))
                    for _ in range(10)]
        runs = [self.folder / str(i) for i in range(len(moments))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            endings = list(pool.map(self.survives, runs, moments))
        for run in runs:
            self.same_result(run, whole, f"with seed {SEED}")
            for name in ("summary.json", "report.txt", "report.html"):
                self.assertTrue((run / name).exists(), (run, name))
            for line in reports_of(run):
                self.assertIn(line, reports_of(whole))
            self.assertEqual([str(file) for file in run.rglob("*.tmp")], [])
        print({ending: endings.count(ending) for ending in set(endings)})
        self.assertIn("with a checkpoint", endings)

    def test_a_run_killed_after_its_last_step_is_finished(self):
        whole = self.folder / "whole"
        self.train("--out", whole, *self.SETTING)
        run = self.folder / "run"
        shutil.copytree(whole, run)
        for name in ("summary.json", "embeddings.tsv"):
            (run / name).unlink()
        (run / "summary.json.123.tmp").write_text("{")
        self.assertIn("from step 24", self.train("--resume", run).stdout)
        self.same_result(run, whole)
        self.assertEqual(reports_of(run), reports_of(whole))
        summaries = [json.loads((path / "summary.json").read_text()) for path in (run, whole)]
        for summary in summaries:  # a report that is written again lacks the neighbors before training
            del summary["files"], summary["crc32c"]
        self.assertEqual(*summaries)
        self.assertFalse((run / "summary.json.123.tmp").exists())

    def test_a_run_killed_after_its_summary_gets_what_is_missing(self):
        whole = self.folder / "whole"
        self.train("--out", whole, *self.SETTING)
        before = files_of(whole)
        run = self.folder / "run"
        shutil.copytree(whole, run)
        for names in (["report.html"], ["report.html", "embeddings.tsv"], []):
            for name in names:
                (run / name).unlink()
            replaced = replaced_by(run)
            shutil.copytree(whole, replaced)
            self.train("--resume", run)
            after = files_of(run)
            self.assertEqual(after.keys(), before.keys(), names)
            for name, content in after.items():
                if name != "report.html":  # contains the directory
                    self.assertTrue(content == before[name], name)
            printed = self.train("--resume", run).stdout
            expect_names(self, printed, run, "24/24", "--max-steps")
            self.assertTrue(files_of(run) == after, "nothing was left to do")
            self.assertFalse(replaced.exists())
        (run / "model.safetensors").unlink()
        refused = attend("train", "--resume", run)
        self.assertEqual(refused.returncode, 2, refused.stdout)
        expect_names(self, refused.stderr, run / "model.safetensors")

    def test_a_run_killed_before_its_first_file_starts_again(self):
        run = self.folder / "run"
        run.mkdir()
        for name in (".lock", "data.json", "recipe.toml.123.tmp"):
            (run / name).write_text("")
        self.train("--out", run, *self.SETTING)
        self.assertFalse((run / "recipe.toml.123.tmp").exists())


class TwoProcesses(RunsTest):
    def test_only_one_process_writes_to_a_run(self):
        run = self.folder / "run"
        first = start_in_terminal("train", "--out", run, "--embed-dim", 16, "--max-steps", 100000,
                                  "--checkpoint-every", 5)
        self.addCleanup(kill, first)
        self.assertTrue(wait_for(lambda: last_step(run) > 0, first))
        for arguments in (["--resume", run], ["--out", run, "--overwrite"]):
            self.fails(2, arguments, f"{run}: process {first.pid} is writing to this run")
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)
        step = last_step(run)
        self.train("--resume", run, "--max-steps", step + 3)
        self.assertEqual(last_step(run), step + 3)


if __name__ == "__main__":
    unittest.main()
