"""attend train --resume and --overwrite, and how a run ends.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import re
import shutil
import unittest

from attend_command import attend, expect_names
from small_runs import RunsTest, files_of, kill, last_step, replaced_by, start, wait_for


class Resuming(RunsTest):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "text.txt"
        self.text.write_text("Füchse fressen Früchte.\n" * 100, encoding="utf-8")
        self.run_directory = self.folder / "run"
        self.train("--out", self.run_directory, "--text", self.text, "--max-seq-len", 16, "--num-layers", 1,
                   "--embed-dim", 16, "--max-steps", 10, "--eval-every", 10)

    def refuses(self, arguments, *expected):
        before = files_of(self.run_directory)
        self.fails(2, ["--resume", self.run_directory, *arguments], *expected)
        self.assertTrue(files_of(self.run_directory) == before, "a rejected command changed files")

    def test_other_models_and_tasks_are_rejected(self):
        self.refuses(["--max-steps", 20, "--num-layers", 2, "--embed-dim", 32, "--seed", 7, "--optimizer",
                      "muon"], "the run was created with other values",
                     "num_layers: '1' in the run, now '2'", "embed_dim: '16' in the run, now '32'",
                     "seed: '1' in the run, now '7'",
                     "optimizer: 'adamw' in the run, now 'muon'")
        self.refuses(["--max-steps", 20, "--task", "senses"], "senses")

    def test_other_data_is_rejected(self):
        self.text.write_text("Füchse fressen Früchte!\n" * 100, encoding="utf-8")
        self.refuses(["--max-steps", 20], str(self.text), "'!'")
        self.text.write_text("Früchte fressen Füchse.\n" * 100, encoding="utf-8")
        self.refuses(["--max-steps", 20], "checksum of the data", f"--text {self.text}")
        self.text.unlink()
        for arguments in (["--max-steps", 20], ["--epochs", 9]):
            self.refuses(arguments, f"{self.text}: no such file", str(self.run_directory), "--text FILE")
        result = attend("eval", self.run_directory)
        self.assertEqual(result.returncode, 2, result.stderr)
        expect_names(self, result.stderr, self.text, self.run_directory, "--text FILE")

    def test_the_text_may_have_moved(self):
        moved = self.text.rename(self.folder / "moved.txt")
        self.train("--resume", "run", "--max-steps", 12, "--text", "moved.txt", cwd=self.folder)
        self.assertIn(f"text = '{moved}'",
                      (self.run_directory / "recipe.toml").read_text().replace('"', "'"))
        self.train("--resume", self.run_directory, "--max-steps", 14)

    def test_the_header_names_the_step_even_without_a_checkpoint(self):
        def header():
            printed = self.train("--resume", self.run_directory, "--max-steps", 12).stdout
            return [line for line in printed.splitlines() if line.startswith("resumed ")]

        self.assertEqual(header(), ["resumed     from step 10"])
        shutil.rmtree(self.run_directory / "checkpoint")
        for name in ("summary.json", "model.safetensors"):
            (self.run_directory / name).unlink()
        (line,) = header()
        expect_names(self, line, "step 0", "checkpoint")

    def test_the_report_shows_the_initial_embeddings_only_if_they_are_known(self):
        for steps, known in ((2, True), (4, False)):
            run = self.folder / "senses"
            self.train(*(["--resume", run] if run.exists() else ["--out", run]), "--max-steps", steps)
            self.assertEqual("before training" in (run / "report.txt").read_text(), known)

    def test_a_finished_run_that_is_extended_is_unfinished(self):
        own_file = self.run_directory / "embeddings" / "notes.txt"
        own_file.write_text("kept")
        process = start("train", "--resume", self.run_directory, "--max-steps", 100000)
        self.assertTrue(wait_for(lambda: last_step(self.run_directory) > 10, process))
        kill(process)
        runs = json.loads(attend("runs", self.folder, "--json").stdout)
        self.assertEqual([run["state"] for run in runs], ["unfinished"])
        self.assertGreaterEqual(runs[0]["steps"], last_step(self.run_directory))
        found = json.loads(attend("inspect", self.run_directory, "--json").stdout)
        self.assertEqual((found["finished"], found["checkpoint_step"]), (False, last_step(self.run_directory)))
        self.assertEqual(own_file.read_text(), "kept")

    def test_a_finished_run_is_unfinished_before_the_first_checkpoint_of_its_extension(self):
        weights = self.run_directory / "model.safetensors"
        before = weights.stat().st_mtime_ns
        process = start("train", "--resume", self.run_directory, "--max-steps", 100000, "--eval-every", 1,
                        "--checkpoint-every", 100000)
        self.assertTrue(wait_for(lambda: weights.stat().st_mtime_ns > before, process))
        kill(process)
        self.assertEqual(last_step(self.run_directory), 10)
        runs = json.loads(attend("runs", self.folder, "--json").stdout)
        self.assertEqual([run["state"] for run in runs], ["unfinished"])
        self.assertFalse(json.loads(attend("inspect", self.run_directory, "--json").stdout)["finished"])
        self.train("--resume", self.run_directory, "--max-steps", 12)
        self.assertTrue(json.loads(attend("inspect", self.run_directory, "--json").stdout)["finished"])

    def test_embeddings_must_be_a_directory(self):
        folder = self.run_directory / "embeddings"
        other = folder.rename(self.folder / "other")
        (other / "own.txt").write_text("kept")
        folder.symlink_to(other)
        self.fails(2, ["--resume", self.run_directory, "--max-steps", 20], str(folder))
        self.assertEqual((other / "own.txt").read_text(), "kept")

    def test_training_options_may_change(self):
        self.train("--resume", self.run_directory, "--max-steps", 20, "--lr", 0.5, "--eval-every", 4,
                   "--log-every", 1, "--schedule", "constant", "--batch-size", 3, "--precision", "bf16")
        recipe = (self.run_directory / "recipe.toml").read_text()
        for line in ("max_steps = 20", "lr = 0.5", "eval_every = 4", "batch_size = 3"):
            self.assertIn(line + "\n", recipe)
        lines = [json.loads(line) for line in
                 (self.run_directory / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "val_loss" in line], [10, 12, 16, 20])

    def test_an_edited_recipe_is_refused(self):
        recipe = self.run_directory / "recipe.toml"
        text = recipe.read_text()
        recipe.write_text(text.replace("max_steps = 10", "max_steps = 20"))
        self.refuses([], f"{recipe}", "data.json", f"--resume {self.run_directory}")
        recipe.write_text(text.replace("embed_dim = 16", "embed_dim = 32"))
        self.refuses([], f"{recipe}", "embed_dim")
        recipe.write_text(text)
        for steps in (12, 14):  # resuming renews the checksum of the recipe
            self.train("--resume", self.run_directory, "--max-steps", steps)

    def test_only_a_new_best_loss_is_marked(self):
        resumed = self.train("--resume", self.run_directory, "--max-steps", 30, "--lr", 3, "--schedule",
                             "constant", "--eval-every", 1)
        losses = [json.loads(line).get("val_loss") for line in
                  (self.run_directory / "metrics.jsonl").read_text().splitlines()]
        losses = [loss for loss in losses if loss is not None]
        marks = [line.endswith(" | best") for line in resumed.stderr.splitlines()
                 if "val loss" in line]
        self.assertEqual(marks, [loss < min(losses[:i]) for i, loss in enumerate(losses) if i > 0])
        self.assertIn(False, marks)

    def test_resume_excludes_out_overwrite_and_recipes(self):
        message = "--resume uses the recipe and the directory of the run: remove %s from the command"
        self.refuses(["--out", self.folder / "other"], message % "--out")
        self.refuses(["--overwrite"], message % "--overwrite")
        self.refuses([self.run_directory / "recipe.toml"], message % "the recipe")
        self.assertFalse((self.folder / "other").exists())

    def test_directories_that_are_not_runs(self):
        nowhere = self.folder / "nowhere"
        self.fails(2, ["--resume", nowhere], f"{nowhere}: not a run directory")
        self.assertFalse(nowhere.exists())
        self.fails(2, ["--resume", self.text], f"{self.text}: not a run directory")
        self.fails(2, ["--resume", ""], "--resume")
        empty = self.folder / "empty"
        empty.mkdir()
        self.fails(2, ["--resume", empty], f"{empty}: not a run directory: it has no recipe.toml")
        self.assertEqual(list(empty.iterdir()), [])


class Replacing(RunsTest):
    """The replaced run is kept until the new one is finished."""

    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"
        self.replaced = replaced_by(self.run_directory)
        self.train("--out", self.run_directory, "--embed-dim", 16, "--max-steps", 20)
        self.old = files_of(self.run_directory)

    def recipe_has(self, line):
        try:
            return line in (self.run_directory / "recipe.toml").read_text()
        except FileNotFoundError:  # being replaced
            return False

    def replace_and_kill(self, seed):
        """Overwrites the run with a new run, which is killed after its first checkpoint."""
        process = start("train", "--out", self.run_directory, "--overwrite", "--embed-dim", 16,
                        "--seed", seed, "--max-steps", 100000, "--checkpoint-every", 10)
        self.addCleanup(kill, process)
        started = wait_for(lambda: self.recipe_has(f"seed = {seed}\n")
                         and last_step(self.run_directory) > 0, process)
        kill(process)
        self.assertTrue(started)
        self.assertTrue(files_of(self.replaced) == self.old, sorted(files_of(self.replaced)))

    def test_an_unfinished_run_keeps_the_replaced_run(self):
        self.replace_and_kill(seed=2)
        self.replace_and_kill(seed=3)
        self.train("--resume", self.run_directory, "--max-steps", last_step(self.run_directory) + 2)
        self.assertFalse(self.replaced.exists())

    def test_interrupted_while_moving_the_old_run(self):
        self.run_directory.rename(self.replaced)
        self.replace_and_kill(seed=2)


class Endings(RunsTest):
    def test_patience_stops_the_run(self):
        run = self.folder / "run"
        result = self.train("--out", run, "--embed-dim", 16, "--batch-size", 8, "--lr", 3, "--warmup-steps", 0,
                            "--max-steps", 1000, "--eval-every", 2, "--patience", 3)
        self.assertIn("after 3 evaluations without improvement (patience)", result.stdout)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["steps"], summary["best_step"] + 6)
        self.assertLess(summary["steps"], 1000)
        measured = json.loads(attend("eval", run, "--json").stdout)
        self.assertAlmostEqual(measured["val_loss"], summary["val_loss"], places=6)
        again = self.train("--resume", run)
        expect_names(self, again.stdout, run, summary["steps"], 3, "--patience")
        more = self.train("--resume", run, "--patience", 0, "--max-steps", summary["steps"] + 1)
        self.assertIn(f"from step {summary['steps']}", more.stdout)

    DIVERGING = ["--embed-dim", 16, "--batch-size", 8, "--lr", 10, "--max-grad-norm", 0, "--warmup-steps", 0,
                 "--optimizer", "muon", "--weight-decay", 10, "--schedule", "constant", "--max-steps", 20,
                 "--eval-every", 2, "--checkpoint-every", 1]

    def test_a_non_finite_loss_stops_the_run(self):
        run = self.folder / "run"
        result = self.fails(1, ["--out", run, *self.DIVERGING], "non-finite loss or gradient at step", "lr 10")
        step = int(re.search(r"at step (\d+)", result.stderr).group(1))
        self.assertIn(f"latest checkpoint: {run}/checkpoint/step-{step - 1:09}",
                      result.stderr)
        self.assertEqual(last_step(run), step - 1)
        self.assertFalse((run / "summary.json").exists())

    def test_steps_with_a_non_finite_loss_are_skipped_and_counted(self):
        run = self.folder / "run"
        result = self.train("--out", run, *self.DIVERGING, "--on-nonfinite", "skip")
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["steps"], 20)
        self.assertIn(summary["skipped_steps"], range(1, 20))
        self.assertIn(f"skipped steps  {summary['skipped_steps']} (non-finite loss or gradient)", result.stdout)


if __name__ == "__main__":
    unittest.main()
