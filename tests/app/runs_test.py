"""attend runs: the runs in a directory, their results and their states.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import shutil
import unittest

from attend_command import CommandTest, attend, expect_names
from small_runs import as_other_user, checkpoints, kill, start, wait_for, write_with_checksum

MODEL = ["--num-layers", 1, "--embed-dim", 16, "--num-heads", 2, "--eval-every", 2]
TINY = [*MODEL, "--max-steps", 4]


class Runs(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = cls.folder / "runs"
        cls().succeeds("train", "--task", "sort", *TINY, "--out", cls.runs / "sorted")
        cls().succeeds("train", *TINY, "--sweep", "lr=0.001,0.003", "--out", cls.runs / "sweep")
        (cls.runs / "notes" / ".hidden").mkdir(parents=True)
        (cls.runs / "file.txt").write_text("no run")
        shutil.copytree(cls.runs / "sorted", cls.runs / "notes" / ".hidden" / "run")

    def list(self, *arguments):
        """Returns {name: object} in the order of the list."""
        return {run["run"]: run for run in json.loads(self.succeeds("runs", *arguments, "--json").stdout)}

    def copy(self, name, directory="other"):
        """Returns the directory of a copy of a run, in a directory of its own."""
        to = self.folder / self._testMethodName / directory / name
        shutil.copytree(self.runs / "sorted", to)
        return to

    def set_created(self, run, date):
        data = json.loads((run / "data.json").read_text())
        data["provenance"]["created"] = date
        write_with_checksum(run / "data.json", data)

    def test_lists_the_runs_and_those_of_sweeps(self):
        found = self.list(self.runs)
        self.assertEqual(set(found), {"sorted", "sweep/lr=0.001", "sweep/lr=0.003"})
        for name, run in found.items():
            summary = json.loads((self.runs / name / "summary.json").read_text())
            self.assertEqual(run["state"], "finished")
            self.assertEqual((run["steps"], run["max_steps"]), (4, 4))
            for key in ("run_id", "task", "parameters", "val_loss", "val_accuracy", "train_loss", "seconds",
                        "tokens_per_second"):
                self.assertEqual(run[key], summary[key], key)
            self.assertEqual(run["path"], str(self.runs / name))

    def test_the_table_has_a_row_per_run(self):
        header, *rows = self.succeeds("runs", self.runs, environment={"COLUMNS": "120"}).stdout.splitlines()
        self.assertEqual(len(rows), 3)
        found = self.list(self.runs)
        for row, (name, run) in zip(rows, found.items()):
            expect_names(self, row, name, run["task"], "4/4", f"{run['val_loss']:.4f}", "finished",
                         run["created"][:10], run["created"][11:16])

    def test_the_default_directory_is_runs(self):
        found = json.loads(self.succeeds("runs", "--json", cwd=self.folder).stdout)
        self.assertEqual([run["path"] for run in found], [f"runs/{name}" for name in self.list(self.runs)])

    def test_a_run_lists_itself(self):
        run = self.runs / "sorted"
        self.assertEqual([each["path"] for each in self.list(run).values()], [str(run)])

    def test_sorted_by_date(self):
        dates = {"b": "2024-05-01T10:00:00Z", "c": "2024-05-01T09:00:00Z", "a": "2025-01-01T00:00:00Z"}
        for name, date in dates.items():
            self.set_created(self.copy(name), date)
        found = self.list(self.folder / self._testMethodName)
        self.assertEqual([run["created"] for run in found.values()], sorted(dates.values()))
        self.assertEqual(list(found), ["other/c", "other/b", "other/a"])

    def test_names_are_whole_without_a_terminal(self):
        name = "a-name-that-is-much-too-long-for-a-terminal-of-80-columns-é-with-an-end"
        self.copy(name)
        text = self.succeeds("runs", self.folder / self._testMethodName, environment={"COLUMNS": "80"}).stdout
        expect_names(self, text, f"other/{name}", "finished")

    def test_directories_that_cannot_be_read(self):
        self.copy("valid")
        folder = self.folder / self._testMethodName
        sealed = folder / "sealed"
        shutil.copytree(self.runs / "sorted", sealed / "run")
        sealed.chmod(0)
        self.addCleanup(sealed.chmod, 0o755)
        options = as_other_user()
        if attend("runs", sealed / "run", **options).returncode == 0:
            self.skipTest("this user can read all directories")
        expect_names(self, self.refuses(["runs", sealed], **options), sealed)
        result = self.succeeds("runs", folder, **options)
        expect_names(self, result.stderr, sealed)
        expect_names(self, result.stdout, "other/valid", "finished")
        self.refuses(["compare", sealed, folder / "other"], str(sealed), **options)

    def test_an_unfinished_run(self):
        run = self.copy("unfinished")
        (run / "summary.json").unlink()
        metrics = (run / "metrics.jsonl").read_text().splitlines()
        val_losses = [line["val_loss"] for line in map(json.loads, metrics) if "val_loss" in line]
        self.assertEqual(len(val_losses), 2)
        found = self.list(run.parent)["unfinished"]
        self.assertEqual((found["state"], found["steps"], found["max_steps"]), ("unfinished", 4, 4))
        self.assertEqual(found["val_loss"], min(val_losses))
        self.assertEqual(found["parameters"], self.list(self.runs)["sorted"]["parameters"])
        (run / "metrics.jsonl").unlink()
        found = self.list(run.parent)["unfinished"]
        self.assertEqual((found["steps"], found["val_loss"]), (4, min(val_losses)), "those of the checkpoint")
        (run / "model.safetensors").unlink()
        shutil.rmtree(run / "checkpoint")
        found = self.list(run.parent)["unfinished"]
        self.assertEqual((found["state"], found["steps"]), ("unfinished", 0))
        self.assertFalse({"val_loss", "parameters"} & set(found))

    def test_a_run_in_training(self):
        run = self.folder / self._testMethodName / "run"
        process = start("train", *MODEL, "--max-steps", 1000000, "--out", run)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: '"step":4,' in ((run / "metrics.jsonl").read_text()
                                                         if (run / "metrics.jsonl").exists() else ""), process))
        found = self.list(run.parent)["run"]
        self.assertEqual((found["state"], found["max_steps"]), ("training", 1000000))
        self.assertGreaterEqual(found["steps"], 4)
        kill(process)
        self.assertEqual(self.list(run.parent)["run"]["state"], "unfinished")

    def test_damaged_runs_are_listed(self):
        def truncate(file):
            os.truncate(file, file.stat().st_size - 3)

        damages = {"recipe.toml": lambda file: file.write_text("task = 1"), "data.json": lambda file: file.unlink(),
                   "summary.json": truncate, "model.safetensors": truncate}
        for name, damage in damages.items():
            damage(self.copy(name) / name)
        self.copy("valid")
        directory = self.folder / self._testMethodName
        found = self.list(directory)
        self.assertEqual({name: run["state"] for name, run in found.items()},
                         {f"other/{name}": "damaged" for name in damages} | {"other/valid": "finished"})
        for name in damages:
            expect_names(self, found[f"other/{name}"]["error"], name)
        text = self.succeeds("runs", directory, environment={"COLUMNS": "200"}).stdout
        for name in damages:
            expect_names(self, text, directory / "other" / name / name)

    def test_the_weights_of_checkpoints_are_not_read(self):
        run = self.copy("run")
        latest = checkpoints(run)[-1]
        for file in latest.glob("*.safetensors"):
            file.write_bytes(b"damaged")
        self.assertEqual(self.list(run)[str(run)]["state"], "finished")
        (latest / "trainer_state.json").write_text("{}")
        found = self.list(run)[str(run)]
        self.assertEqual(found["state"], "damaged")
        expect_names(self, found["error"], latest / "trainer_state.json")

    def test_symbolic_links(self):
        directory = self.folder / self._testMethodName
        directory.mkdir()
        (directory / "loop").symlink_to(directory)
        (directory / "run").symlink_to(self.runs / "sorted")
        self.assertEqual(list(self.list(directory)), ["run"])

    def test_a_directory_without_runs(self):
        directory = self.folder / self._testMethodName
        directory.mkdir()
        result = self.succeeds("runs", directory)
        self.assertEqual(result.stdout, "")
        expect_names(self, result.stderr, directory, "--out")
        self.assertEqual(json.loads(self.succeeds("runs", directory, "--json").stdout), [])

    def test_a_missing_directory(self):
        expect_names(self, self.refuses(["runs", self.folder / "missing"]), self.folder / "missing")
        expect_names(self, self.refuses(["runs"], cwd=self.folder / "runs"), "runs")
        expect_names(self, self.refuses(["runs", self.runs / "file.txt"]), self.runs / "file.txt")

    def test_writes_nothing(self):
        before = {path: path.stat().st_mtime_ns for path in self.runs.rglob("*")}
        self.list(self.runs)
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.runs.rglob("*")}, before)


if __name__ == "__main__":
    unittest.main()
