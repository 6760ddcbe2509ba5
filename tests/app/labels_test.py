"""Labels of tables: class weights, the metric of the best weights, stratified splits, several labels and numbers.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import unittest

from attend_command import CommandTest, expect_names

TINY = ("--embed-dim", 16, "--num-layers", 1, "--max-seq-len", 8, "--eval-every", 10)


class LabelsTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # A tenth of the texts are of the class "rare", which a letter shows in half of them.
        rows = [(f"{i:03} {'x' if i % 20 == 0 else 'o'}", "rare" if i % 10 == 0 else "usual") for i in range(400)]
        cls.table = cls.write("table.tsv", "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))

    def train(self, name, *arguments):
        run = self.folder / name
        result = self.succeeds("train", "--task", "labelled-lines", "--text", self.table, "--out", run, *TINY,
                               *arguments)
        return run, result.stdout

    def measure(self, *arguments):
        return json.loads(self.succeeds("eval", *arguments, "--json").stdout)


class ClassWeights(LabelsTest):
    def test_balanced_weights_raise_the_recall_of_a_rare_class(self):
        recalls = {}
        for weights in ("none", "balanced"):
            run, shown = self.train(f"weights-{weights}", "--max-steps", 60, "--class-weights", weights)
            recalls[weights] = self.measure(run)["classes"][0]["recall"]
            self.assertEqual("class weights" in shown, weights == "balanced")
        expect_names(self, shown, "rare", "5.0000", "usual", "0.5556")
        self.assertGreater(recalls["balanced"], recalls["none"])

    def test_are_kept_in_the_recipe_and_checked(self):
        run, _ = self.train("list", "--max-steps", 10, "--class-weights", "3,1")
        self.assertIn("class_weights = '3,1'", (run / "recipe.toml").read_text().replace('"', "'"))
        for value in ("1", "1,2,3", "a", "1,-1", "Balanced"):
            arguments = ["train", "--task", "labelled-lines", "--text", self.table, "--class-weights", value]
            expect_names(self, self.refuses(arguments, cwd=self.folder), "class_weights", f"'{value}'")
        expect_names(self, self.refuses(["train", "--task", "sort", "--class-weights", "balanced"], cwd=self.folder),
                     "sort", "class_weights")


class BestMetric(LabelsTest):
    def test_selects_the_best_weights(self):
        for metric, key in (("loss", "val_loss"), ("accuracy", "val_accuracy"), ("f1", "val_f1")):
            run, shown = self.train(f"best-{metric}", "--max-steps", 80, "--lr", "0.02", "--best-metric", metric)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            evaluations = {line["step"]: line[key] for line in lines if "val_loss" in line}
            summary = json.loads((run / "summary.json").read_text())
            best = min(evaluations.values()) if metric == "loss" else max(evaluations.values())
            self.assertEqual(summary["best_step"], next(step for step, value in evaluations.items() if value == best))
            self.assertAlmostEqual(summary[key], best, places=5)
            report = self.measure(run)
            f1 = sum(each["f1"] for each in report["classes"]) / 2
            self.assertAlmostEqual(report["macro_f1"], f1)
            self.assertAlmostEqual(summary["val_f1"], f1)
            expect_names(self, shown, "macro f1", f"{f1:.4f}")
            expect_names(self, self.succeeds("eval", run).stdout, "macro f1", f"{f1:.4f}")
            expect_names(self, self.succeeds("inspect", run).stdout, "macro f1", f"{f1:.4f}")

    def test_patience_follows_it_also_after_a_resume(self):
        # With a learning rate of almost 0, no evaluation after the first one improves the accuracy.
        run, shown = self.train("patience", "--max-steps", 500, "--lr", "1e-9", "--best-metric", "accuracy",
                                "--patience", 2)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual((summary["steps"], summary["best_step"]), (30, 10))
        expect_names(self, shown, "patience", 30)
        self.succeeds("train", "--resume", run, "--patience", 4)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual((summary["steps"], summary["best_step"]), (50, 10))

    def test_metrics_that_a_task_does_not_have_are_refused(self):
        text = self.write("text.txt", "abc\n" * 100)
        for arguments, metric in ((["--text", text, "--max-seq-len", 8], "accuracy"),
                                  (["--text", text, "--max-seq-len", 8], "f1"), (["--task", "sort"], "f1")):
            message = self.refuses(["train", *arguments, "--best-metric", metric, "--out", self.folder / "refused"])
            expect_names(self, message, "--best-metric", metric, "loss")


class Stratify(LabelsTest):
    def test_is_the_default_and_can_be_turned_off(self):
        for arguments, rare in (([], {4}), (["--no-stratify"], set(range(41)))):
            run, _ = self.train(f"split-{len(arguments)}", "--max-steps", 1, *arguments)
            support = {each["class"]: each["support"] for each in self.measure(run)["classes"]}
            self.assertEqual(sum(support.values()), 40)
            self.assertIn(support["rare"], rare)
        validation = ["--val-text", self.table]
        table = self.write("other.tsv", "text\tlabel\n1\trare\n2\tusual\n")
        for flag in ("--stratify", "--no-stratify"):
            message = self.refuses(["train", "--task", "labelled-lines", "--text", table, *validation, flag])
            expect_names(self, message, "--stratify", self.table)


class MultiLabel(LabelsTest):
    """Each letter of a text is a label."""

    ROWS = [("".join(letter if number >> i & 1 else "-" for i, letter in enumerate("xyz")) + f" {number // 8}",
             [letter for i, letter in enumerate("xyz") if number >> i & 1]) for number in range(160)]
    MULTI = ("--problem-type", "multi_label_classification")

    def tables(self):
        """The same labels in four tables, and the options with which they are read."""
        def columns(labels):
            return "\t".join(str(int(letter in labels)) for letter in "xyz")

        separated = "text\tlabel\n" + "".join(f"{text}\t{','.join(labels)}\n" for text, labels in self.ROWS)
        return {
            self.write("separated.tsv", separated): (),
            self.write("bars.csv", separated.replace(",", " | ").replace("\t", ",")): ("--label-separator", "|"),
            self.write("lists.jsonl", "".join(json.dumps({"text": text, "label": labels}) + "\n"
                                              for text, labels in self.ROWS)): (),
            self.write("columns.tsv", "text\tx\ty\tz\n" + "".join(
                f"{text}\t{columns(labels)}\n" for text, labels in self.ROWS)): ("--label-column", "x,y,z")}

    def trained(self, table, name, *arguments):
        run = self.folder / name
        result = self.succeeds("train", "--task", "labelled-lines", "--text", table, *self.MULTI, "--out", run, *TINY,
                               *arguments)
        return run, result.stdout

    def test_all_forms_of_labels_train_the_same_model(self):
        weights = set()
        for number, (table, options) in enumerate(self.tables().items()):
            run, shown = self.trained(table, f"form-{number}", "--max-steps", 5, *options)
            expect_names(self, shown, "labels", "x (80)", "y (80)", "z (80)")
            content = (run / "model.safetensors").read_bytes()
            weights.add(content[8 + int.from_bytes(content[:8], "little"):])  # without the names of the run
            self.assertEqual(self.measure(run, table)["val_targets"], len(self.ROWS))
        self.assertEqual(len(weights), 1)

    def test_a_string_in_brackets_is_no_list(self):
        rows = [{"text": "a", "label": "[x]"}, {"text": "b", "label": ["y"]}, {"text": "c", "label": "[x"},
                {"text": "d", "label": '["z"]'}]
        table = self.write("brackets.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        _, shown = self.trained(table, "brackets", "--max-steps", 1)
        expect_names(self, shown, "4: [", "[x (1)", "[x] (1)", '["z"] (1)', "y (1)")

    def test_predicts_the_labels_over_the_threshold(self):
        table = next(iter(self.tables()))
        run, shown = self.trained(table, "multi", "--max-steps", 300, "--lr", "1e-2", "--best-metric", "f1")
        report = self.measure(run)
        expect_names(self, shown, "macro f1", f"{report['macro_f1']:.4f}")
        self.assertGreater(report["micro_f1"], 0.9)
        self.assertAlmostEqual(report["macro_f1"], sum(each["f1"] for each in report["classes"]) / 3)
        self.assertNotIn("confusion_matrix", report)
        text = self.succeeds("eval", run).stdout
        expect_names(self, text, "micro f1", f"{report['micro_f1']:.4f}", "macro f1")
        texts = ["x-z 1", "--- 2"]
        lines = self.succeeds("predict", run, *texts).stdout.split("\n")
        self.assertEqual(sorted(lines[0].split("\t")[::2]), ["x", "z"])
        self.assertEqual(lines[1:], ["", ""])
        objects = [json.loads(line) for line in self.succeeds("predict", run, *texts, "--json").stdout.splitlines()]
        self.assertEqual([sorted(each["class"] for each in found["predictions"]) for found in objects],
                         [["x", "z"], []])
        every = json.loads(self.succeeds("predict", run, texts[0], "--json", "--threshold", 0).stdout)["predictions"]
        self.assertEqual(len(every), 3)
        self.assertEqual(every, json.loads(self.succeeds("predict", run, texts[0], "--json", "--top", 0).stdout)[
            "predictions"])
        self.assertGreater(sum(each["probability"] for each in every), 1.5)  # no softmax
        recall = [self.measure(run, "--threshold", threshold)["classes"][0]["recall"] for threshold in (0, 1)]
        self.assertEqual(recall, [1, 0])

    def test_invalid_labels_are_errors(self):
        start = ["train", "--task", "labelled-lines", *self.MULTI, "--text"]
        table = self.write("wrong.tsv", "text\tx\ty\na\t1\t0\nb\t2\t0\n")
        expect_names(self, self.refuses([*start, table, "--label-column", "x,y"]), f"{table}:3", "'x'", "'2'")
        table = self.write("none.tsv", "text\tlabel\na\t\nb\t\n")
        expect_names(self, self.refuses([*start, table]), table, "label")
        table = self.write("nested.jsonl", '{"text": "a", "label": ["x"]}\n{"text": "b", "label": [["y"]]}\n')
        expect_names(self, self.refuses([*start, table]), f"{table}:2", '["y"]')
        table = self.write("object.jsonl", '{"text": "a", "label": ["x"]}\n{"text": "b", "label": {"y": 1}}\n')
        expect_names(self, self.refuses([*start, table]), f"{table}:2", "'label'", "object")
        table = next(iter(self.tables()))
        expect_names(self, self.refuses([*start, table, "--class-weights", "balanced"]), "--class-weights",
                     "--problem-type")
        run, _ = self.trained(table, "known", "--max-steps", 1)
        other = self.write("other-labels.tsv", "text\tlabel\nx-- 1\tx,q\n")
        expect_names(self, self.refuses(["eval", run, other]), f"{other}:2", "'q'", "x, y, z")
        expect_names(self, self.refuses(["explain", run, "--text", "x-- 1"]), "problem_type")
        for flags in (["--threshold", 2], ["--threshold", 0.5, "--top", 2]):
            expect_names(self, self.refuses(["predict", run, "x", *flags]), "--threshold")


class Regression(LabelsTest):
    def test_learns_a_number(self):
        rows = [(f"{'x' * (number % 5)}{'-' * (5 - number % 5)} {number}", 2.5 * (number % 5)) for number in range(200)]
        table = self.write("numbers.tsv", "text\tscore\n" + "".join(f"{text}\t{value}\n" for text, value in rows))
        run = self.folder / "numbers"
        shown = self.succeeds("train", "--task", "labelled-lines", "--text", table, "--problem-type", "regression",
                              "--label-column", "score", "--max-steps", 300, "--lr", "1e-2", "--out", run, *TINY).stdout
        expect_names(self, shown, "labels", "mean 5", "variance 12.5")
        report = self.measure(run)
        self.assertLess(report["val_loss"], 1)
        self.assertGreater(report["r2"], 0.9)
        self.assertGreater(report["pearson"], 0.95)
        self.assertLessEqual(report["mae"] ** 2, report["val_loss"] + 1e-6)
        self.assertNotIn("val_accuracy", report)
        text = self.succeeds("eval", run).stdout
        expect_names(self, text, "mae", f"{report['mae']:.4f}", "r2", "pearson")
        self.assertNotIn("accuracy", text)
        number = float(self.succeeds("predict", run, "xxx-- 3").stdout)
        self.assertLess(abs(number - 7.5), 2.5)
        found = json.loads(self.succeeds("predict", run, "xxx-- 3", "--json").stdout)
        self.assertAlmostEqual(found["prediction"], number, places=3)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertIn("val_mae", lines[-1])
        samples = json.loads((run / "samples.jsonl").read_text().splitlines()[-1])["samples"]
        self.assertEqual({sample["correct"] for sample in samples}, {None})
        for flags, name in ((["--top", 2], "--top"), (["--threshold", 0.5], "--threshold")):
            expect_names(self, self.refuses(["predict", run, "x", *flags]), name, "regression")
        expect_names(self, self.refuses(["eval", run, "--threshold", 0.5]), "--threshold", "regression")

    def test_invalid_numbers_are_errors(self):
        start = ["train", "--task", "labelled-lines", "--problem-type", "regression", "--text"]
        for value in ("abc", "1,5", "nan", "inf", "1 2", "0x10", "1e300", "-3.5e38"):
            table = self.write("wrong-numbers.tsv", f"text\tlabel\na\t1\nb\t{value}\n")
            expect_names(self, self.refuses([*start, table]), f"{table}:3", f"'{value}'")
        table = self.write("numbers-of-two.tsv", "text\tlabel\na\t1\nb\t-2e3\nc\t 3.5 \n")
        for flags, name in ((["--best-metric", "accuracy"], "--best-metric"), (["--best-metric", "f1"], "--best-metric"),
                            (["--class-weights", "balanced"], "--class-weights"), (["--stratify"], "--stratify")):
            expect_names(self, self.refuses([*start, table, *flags, "--out", self.folder / "refused-numbers"]), name)


if __name__ == "__main__":
    unittest.main()
