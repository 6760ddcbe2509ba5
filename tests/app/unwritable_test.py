"""Training runs survive write errors.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import resource
import shutil
import signal
import subprocess
import unittest

from attend_command import ATTEND, attend, expect_names
from small_runs import (RunsTest, as_other_user, checkpoints, files_of, kill, replaced_by, start,
                        start_in_terminal, wait_for)


class FilesThatCannotBeWritten(RunsTest):
    SETTING = ["--embed-dim", 16, "--batch-size", 8, "--schedule", "constant", "--eval-every", 20,
               "--checkpoint-every", 10]

    def fails_without_space(self, run, **options):
        """Expects that resuming `run` from step 20 fails because there is no disk space, and that
        the checkpoints do not change."""
        before = files_of(run / "checkpoint")
        result = self.fails(1, ["--resume", run, "--max-steps", 40], f"attend: {run}/checkpoint/",
                            "cannot be written", **options)
        # Checkpoints are written in the background: training may reach the evaluation at step 40
        # before it stops.
        *progress, message = result.stderr.splitlines()
        self.assertTrue(message.startswith("attend: "), result.stderr)
        self.assertLessEqual(len(progress), 1, result.stderr)
        self.assertTrue(all(line.startswith("step 40/40") for line in progress), result.stderr)
        self.assertTrue(files_of(run / "checkpoint") == before, "a checkpoint has changed")

    def resumes(self, run):
        whole = self.folder / "whole"
        self.train("--out", whole, *self.SETTING, "--max-steps", 40)
        self.assertIn("from step 20", self.train("--resume", run).stdout)
        self.same_result(run, whole)

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            self.skipTest("cannot mount a tmpfs")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        run = disk / "run"
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        ballast = disk / "ballast"
        ballast.write_bytes(b"1" * (shutil.disk_usage(disk).free - 40000))
        self.fails_without_space(run)
        ballast.unlink()
        self.resumes(run)

    def test_a_file_size_limit(self):
        def with_small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))

        run = self.folder / "run"
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        self.fails_without_space(run, preexec_fn=with_small_files)
        self.resumes(run)

    def overwrites_without_space(self, run, **options):
        """Expects that overwriting `run` fails without a loss, at each point at which files are written."""
        before = files_of(run)
        result = attend("train", "--out", run, "--overwrite", "--seed", 2, *self.SETTING, **options)
        self.assertEqual(result.returncode, 1, result.stderr)
        expect_names(self, result.stderr, run)
        self.assertTrue(files_of(run) == before, sorted(files_of(run)))
        self.assertFalse(replaced_by(run).exists())
        self.assertEqual(attend("eval", run).returncode, 0)

    def test_a_full_disk_while_overwriting(self):
        run = self.folder / "run"
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        for size in (0, 1000, 40000):  # data.json, recipe.toml, or the first checkpoint cannot be written
            def with_small_files():
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

            with self.subTest(size=size):
                self.overwrites_without_space(run, preexec_fn=with_small_files)

    def test_a_full_disk_while_overwriting_a_run_that_overwrites_another(self):
        run = self.folder / "run"
        replaced = replaced_by(run)
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        other = start("train", "--out", run, "--overwrite", *self.SETTING, "--max-steps", 100000)
        self.assertTrue(wait_for(lambda: (replaced / "recipe.toml").exists() and checkpoints(run) and
                                 (run / "model.safetensors").exists(), other))
        kill(other)
        before = files_of(run)
        before_replaced = files_of(replaced)
        self.assertTrue((replaced / "summary.json").exists())
        result = attend("train", "--out", run, "--overwrite", *self.SETTING, "--max-steps", 20,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        self.assertEqual(result.returncode, 1, result.stderr)
        expect_names(self, result.stderr, replaced)
        self.assertTrue(files_of(run) == before, sorted(files_of(run)))
        self.assertTrue(files_of(replaced) == before_replaced, sorted(files_of(replaced)))
        expect_names(self, attend("inspect", run).stdout, replaced)
        self.train("--out", run, "--overwrite", *self.SETTING, "--max-steps", 20)
        self.assertFalse(replaced.exists())
        self.assertEqual([each.name for each in self.folder.iterdir()], ["run"])

    def test_a_run_that_a_kill_left_in_replaced(self):
        run = self.folder / "run"
        replaced = replaced_by(run)
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        before = files_of(run)
        run.rename(replaced)
        run.mkdir()
        for arguments in (["eval", run], ["generate", run, "--prompt", "x"], ["inspect", run],
                          ["export", run, "-o", self.folder / "x.pt"], ["train", "--resume", run],
                          ["train", "--out", run, *self.SETTING]):
            result = attend(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            expect_names(self, result.stderr, replaced)
        self.assertEqual(attend("eval", replaced).returncode, 0)
        result = attend("train", "--out", run, "--overwrite", *self.SETTING, "--max-steps", 20,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertTrue(files_of(run) == before, sorted(files_of(run)))
        self.assertFalse(replaced.exists())
        self.train("--out", run, "--overwrite", *self.SETTING, "--max-steps", 20)
        self.assertFalse(replaced.exists())

    def test_a_directory_that_is_read_only(self):
        run = self.folder / "run"
        self.train("--out", run, *self.SETTING, "--max-steps", 20)
        before = files_of(run)
        options = as_other_user()
        sealed = self.folder / "sealed"
        sealed.mkdir(mode=0o555)
        if subprocess.run(["touch", sealed / "file"], capture_output=True, **options).returncode == 0:
            self.skipTest("this user can write to read-only directories")
        for folder, status, arguments in (
                (self.folder, 2, ["--out", self.folder / "new"]),
                (run, 1, ["--resume", run, "--max-steps", 40]),
                (run / "checkpoint", 1, ["--resume", run, "--max-steps", 40, "--eval-every", 1000])):
            folder.chmod(0o555)
            self.fails(status, arguments, str(folder), **options)
            folder.chmod(0o755)
        for name in ("model.safetensors", "summary.json"):
            self.assertEqual((run / name).read_bytes(), before[name])
        self.resumes(run)

    def loses_its_directory(self, lose, *arguments, then=lambda process: None):
        """Expects that the command ends with a message about its directory, and does not create it again."""
        run = self.folder / "lost"
        process = start_in_terminal("train", "--out", run, "--embed-dim", 16, "--batch-size", 8, "--max-steps", 1000000,
                                    *arguments)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: (run / "metrics.jsonl").exists() and
                                 "train_loss" in (run / "metrics.jsonl").read_text(), process))
        lose(run)
        then(process)
        errors = process.communicate(timeout=120)[1].splitlines()
        self.assertEqual(process.returncode, 1, errors)
        expect_names(self, errors[-1], run)
        self.assertNotIn("--resume", "".join(errors))
        self.assertFalse(run.exists())

    def test_a_directory_that_is_removed_or_moved(self):
        def interrupt(process):
            process.send_signal(signal.SIGINT)

        moved = self.folder / "moved"
        never = ("--eval-every", 1000000, "--checkpoint-every", 1000000)
        for name, lose in (("removed", shutil.rmtree), ("moved", lambda run: run.rename(moved))):
            with self.subTest(name):
                self.loses_its_directory(lose, "--eval-every", 1000000, "--checkpoint-every", 100)
                shutil.rmtree(moved, ignore_errors=True)
                self.loses_its_directory(lose, *never, then=interrupt)
                shutil.rmtree(moved, ignore_errors=True)
                self.loses_its_directory(lose, "--eval-every", 100, "--checkpoint-every", 1000000)
        self.train("--resume", moved, "--max-steps", 20)

    def test_lost_output(self):
        """The run is saved. The exit status is 1 if output was lost, and 128 + SIGPIPE if its reader closed the
        pipe."""
        whole = self.folder / "whole"
        self.train("--out", whole, *self.SETTING, "--max-steps", 20)
        setting = " ".join(map(str, [*self.SETTING, "--max-steps", 20]))
        for number, (redirection, status) in enumerate(
                ((">/dev/full", 1), ("| true", 128 + signal.SIGPIPE), ("| head -1", 128 + signal.SIGPIPE),
                 (">&- 2>&-", 1))):
            run = self.folder / str(number)
            result = subprocess.run(
                ["bash", "-c", f"'{ATTEND}' train --out '{run}' {setting} {redirection};"
                               "exit ${PIPESTATUS[0]}"], capture_output=True, timeout=300)
            self.assertEqual(result.returncode, status, redirection)
            self.same_result(run, whole, redirection)


if __name__ == "__main__":
    unittest.main()
