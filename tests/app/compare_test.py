"""attend compare: options that differ, results and loss curves of runs.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import re
import shutil
import unittest

from attend_command import CommandTest, expect_names
from report_page import Page

TINY = ["--num-layers", 1, "--embed-dim", 16, "--num-heads", 2, "--max-steps", 6, "--eval-every", 2, "--log-every", 1]


class Compare(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sweep = cls.folder / "sweep"
        cls().succeeds("train", *TINY, "--sweep", "lr=0.0001,0.01", "--out", cls.sweep)
        cls.slow, cls.fast = (cls.sweep / f"lr={lr}" for lr in ("0.0001", "0.01"))
        cls.sort = cls.folder / "sort"
        cls().succeeds("train", "--task", "sort", *TINY, "--out", cls.sort)

    def compare(self, *paths, columns=100):
        return self.succeeds("compare", *paths, environment={"COLUMNS": str(columns)}).stdout

    def compare_json(self, *paths):
        return json.loads(self.succeeds("compare", *paths, "--json").stdout)

    def copy(self, run, name):
        shutil.copytree(run, self.folder / name)
        return self.folder / name

    def row(self, text, label):
        """Returns the values of each row with this label, with the star of the best."""
        return [value for line in re.findall(rf"^{label}  +(.*)$", text, re.MULTILINE)
                for value in re.split(r"  +", line.strip())]

    def summary(self, run):
        return json.loads((run / "summary.json").read_text())

    def losses(self, run, key):
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [[line["step"], line[key]] for line in lines if key in line]

    def test_only_the_options_that_differ(self):
        found = self.compare_json(self.slow, self.fast)
        self.assertEqual(found["differing"], ["lr"])
        self.assertEqual([run["values"] for run in found["runs"]], [{"lr": 0.0001}, {"lr": 0.01}])
        text = self.compare(self.slow, self.fast)
        self.assertEqual(self.row(text, "lr"), ["0.0001", "0.01"])
        self.assertNotIn("num_layers", text)
        found = self.compare_json(self.slow, self.sort)
        self.assertLessEqual({"task", "lr"}, set(found["differing"]))
        self.assertEqual([run["values"]["task"] for run in found["runs"]], ["senses", "sort"])

    def test_results(self):
        runs = (self.slow, self.fast)
        found = self.compare_json(*runs)
        for run, each in zip(runs, found["runs"]):
            summary = self.summary(run)
            self.assertEqual(each["path"], str(run))
            for key in ("steps", "train_loss", "val_loss", "val_accuracy", "parameters", "seconds",
                        "tokens_per_second"):
                self.assertEqual(each[key], summary[key], key)
            self.assertEqual(each["train_losses"], self.losses(run, "train_loss"))
            self.assertEqual(each["val_losses"], self.losses(run, "val_loss"))
            self.assertEqual([step for step, _ in each["val_losses"]], [2, 4, 6])
        text = self.compare(*runs)
        for label, key in (("train loss", "train_loss"), ("val loss", "val_loss")):
            expected = [f"{self.summary(run)[key]:.4f}" for run in runs]
            self.assertEqual([value.removesuffix(" *") for value in self.row(text, label)], expected)
        self.assertEqual(self.row(text, "steps"), ["6", "6"])

    def test_the_best_is_marked(self):
        found = self.compare_json(self.slow, self.fast)
        self.assertEqual((found["best"]["val_loss"], found["best"]["train_loss"]), (str(self.fast),) * 2)
        self.assertNotIn("steps", found["best"])
        values = self.row(self.compare(self.slow, self.fast), "val loss")
        self.assertEqual([value.endswith(" *") for value in values], [False, True])
        values = self.row(self.compare(self.fast, self.slow), "val loss")
        self.assertEqual([value.endswith(" *") for value in values], [True, False])

    def test_equal_values_are_not_marked(self):
        copy = self.folder / "copy"
        shutil.copytree(self.fast, copy)
        self.assertEqual(self.compare_json(self.fast, copy)["best"], {})
        self.assertEqual(self.compare_json(self.fast, copy)["differing"], [])
        self.assertNotIn("*", self.compare(self.fast, copy).splitlines()[4])

    def test_losses_of_different_data_are_not_marked(self):
        found = self.compare_json(self.slow, self.sort)
        self.assertFalse(found["same_data"])
        self.assertFalse({"val_loss", "train_loss", "val_accuracy"} & set(found["best"]))
        self.assertIn("seconds", found["best"])
        self.assertTrue(self.compare_json(self.slow, self.fast)["same_data"])

    def test_a_sweep_is_all_of_its_runs(self):
        self.assertEqual(self.compare(self.sweep), self.compare(self.slow, self.fast))
        found = self.compare_json(self.sweep, self.slow, self.sort)
        self.assertEqual([run["path"] for run in found["runs"]], list(map(str, (self.slow, self.fast, self.sort))))

    def chart(self, text):
        """Returns the rows of the chart: for each, its label and the places of each mark."""
        rows = re.findall(r"^ *([\d.]*) \| ?(.*)$", text, re.MULTILINE)
        return [(label, {mark: {i for i, c in enumerate(line) if c == mark} for mark in "AB"}) for label, line in rows]

    def test_the_chart_has_the_curve_of_each_run(self):
        text = self.compare(self.slow, self.fast)
        rows = self.chart(text)
        self.assertEqual(len(rows), 12)
        losses = [loss for run in (self.slow, self.fast) for _, loss in self.losses(run, "val_loss")]
        self.assertEqual(rows[0][0], f"{max(losses):.4f}")
        self.assertEqual(rows[-1][0], f"{min(losses):.4f}")
        width = 100 - 13
        for mark, run in (("A", self.slow), ("B", self.fast)):
            for step, loss in self.losses(run, "val_loss"):
                column = round((step - 2) / 4 * (width - 1))
                row = round((max(losses) - loss) / (max(losses) - min(losses)) * 11)
                near = [places for label, places in rows[max(row - 1, 0):row + 2]]
                self.assertTrue(any({column - 1, column, column + 1} & places[mark] for places in near), (mark, step))
        self.assertTrue(all(places["A"] | places["B"] for label, places in (rows[0], rows[-1])))

    def test_runs_without_evaluations_have_curves_of_the_training_loss(self):
        copies = []
        for run in (self.slow, self.fast):
            copies.append(self.folder / f"train-{run.name}")
            shutil.copytree(run, copies[-1])
            lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
            (copies[-1] / "metrics.jsonl").write_text("".join(line for line in lines if "train_loss" in line))
        losses = [loss for run in copies for _, loss in self.losses(run, "train_loss")]
        self.assertEqual(self.chart(self.compare(*copies))[0][0], f"{max(losses):.4f}")
        for copy in copies:
            (copy / "metrics.jsonl").unlink()
        self.assertEqual(self.chart(self.compare(*copies)), [])

    def test_fits_the_terminal(self):
        copies = [self.folder / f"copy{i}" for i in range(9)]
        for copy in copies:
            shutil.copytree(self.fast, copy)
        for columns in (40, 60, 80):
            text = self.compare(self.slow, *copies, columns=columns)
            table = text[text.index("\n\n"):]
            self.assertLessEqual(max(map(len, table.splitlines())), columns)
            self.assertEqual(self.row(table, "lr"), ["0.0001", *["0.01"] * 9])

    def test_unfinished_runs(self):
        copy = self.folder / "unfinished"
        shutil.copytree(self.fast, copy)
        (copy / "summary.json").unlink()
        run = self.compare_json(copy, self.fast)["runs"][0]
        self.assertEqual((run["state"], run["steps"]), ("unfinished", 6))
        self.assertNotIn("tokens_per_second", run)
        self.assertEqual(self.row(self.compare(copy, self.fast), "tok/s")[0], "-")

    def test_wrong_input(self):
        damaged = self.folder / "damaged"
        shutil.copytree(self.fast, damaged)
        (damaged / "data.json").unlink()
        empty = self.folder / "empty"
        empty.mkdir()
        for arguments, names in (([self.slow], ["1", "2"]), ([self.slow, self.slow], ["1", "2"]),
                                 ([self.slow, self.folder / "missing"], [self.folder / "missing", "recipe.toml"]),
                                 ([self.slow, empty], [empty, "recipe.toml"]),
                                 ([self.slow, damaged], [damaged, "data.json"])):
            with self.subTest(arguments):
                expect_names(self, self.refuses(["compare", *arguments]), *names)

    def page(self, *paths):
        out = self.folder / "page.html"
        expect_names(self, self.succeeds("compare", *paths, "--html", out, "--overwrite").stdout, out)
        self.assertLess(out.stat().st_size, 3e6)
        return Page(out)

    def test_a_page_with_the_curves_and_the_tables(self):
        page = self.page(self.slow, self.fast)
        for run, found in zip((self.slow, self.fast), page.data["comparison"], strict=True):
            self.assertIn(run.name, found["label"])
            for table, key in (("training", "train_loss"), ("evaluations", "val_loss")):
                pairs = [list(pair) for pair in zip(found[table]["step"], found[table][key], strict=True)]
                self.assertEqual(pairs, self.losses(run, key))
        self.assertEqual(list(page.texts), ["runs", "comparison"])
        text = [part for part in page.texts["runs"] if part.strip()]
        for expected in (str(self.slow), str(self.fast), "lr", "0.0001", "0.01"):
            self.assertIn(expected, text)
        stars = [part for part in text if part.endswith(" *")]
        self.assertIn(f"{self.summary(self.fast)['val_loss']:.4f} *", stars)
        self.assertIn(f"{self.summary(self.slow)['val_loss']:.4f}", text)
        self.assertIn(f"{self.losses(self.fast, 'val_loss')[0][1]:.5g}", page.texts["comparison"])

    def test_a_page_of_runs_with_many_rows(self):
        runs = [self.copy(self.slow, f"long {i}") for i in range(3)]
        for run in runs:
            row = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
            (run / "metrics.jsonl").write_text("".join(json.dumps({**row, "step": step}) + "\n"
                                                       for step in range(1, 6001)))
        data = self.page(*runs).data
        self.assertEqual(len(data["notes"]), 3)
        for found in data["comparison"]:
            self.assertLessEqual(len(found["training"]["step"]), 5000 // 3)
            self.assertEqual(found["training"]["step"][-1], 6000)

    def test_a_page_escapes_names(self):
        hostile = self.copy(self.slow, "<script>alert(1)</script>")
        page = self.page(self.fast, hostile)
        self.assertEqual(page.tags.count("script"), self.page(self.fast, self.slow).tags.count("script"))
        self.assertTrue(any(hostile.name in part for part in page.texts["runs"]))

    def test_a_page_with_a_damaged_run_names_the_file(self):
        run = self.copy(self.slow, "damaged metrics")
        with open(run / "metrics.jsonl", "a") as metrics:
            metrics.write("{\n")
        expect_names(self, self.refuses(["compare", self.fast, run, "--html", self.folder / "no.html"]),
                     run / "metrics.jsonl")
        self.assertFalse((self.folder / "no.html").exists())
        for options in ((), ("--json",)):
            expect_names(self, self.succeeds("compare", self.fast, run, *options).stderr, run / "metrics.jsonl", 1)

    def test_files_of_a_page(self):
        out = self.folder / "existing.html"
        out.touch()
        runs = [self.slow, self.fast]
        expect_names(self, self.refuses(["compare", *runs, "--html", out]), out, "--overwrite")
        self.refuses(["compare", *runs, "--html", self.fast / "report.html", "--overwrite"], "--html")
        self.refuses(["compare", *runs, "--html", out, "--overwrite", "--json"], "--json", "--html")
        self.refuses(["compare", *runs, "--overwrite"], "--overwrite", "--html")
        self.assertEqual(out.read_text(), "")


if __name__ == "__main__":
    unittest.main()
