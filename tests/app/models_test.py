"""attend tasks, attend models, and a short training of every recipe.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import pathlib
import random
import unittest

from attend_command import CommandTest, attend

ROOT = pathlib.Path(__file__).resolve().parents[2]
LETTERS = random.Random(5)
# Enough words for a vocabulary of 1000 subwords.
BOOK = "\n".join(" ".join("".join(LETTERS.choices("abcdefghijklmnop", k=5)) for _ in range(8))
                 for _ in range(500))
SHORT = ["--max-steps", "3", "--eval-every", "3", "--batch-size", "4"]
TABLE = "text\tlabel\n" + "one two three\tcount\nup and down\tway\n" * 400

TAGGED = "one X\ntwo Y\n\nup X\n\n" * 40


def listed(command):
    return json.loads(attend(command, "--json").stdout)


class Tasks(CommandTest):
    def test_each_has_a_line(self):
        lines = attend("tasks").stdout.splitlines()
        tasks = listed("tasks")
        self.assertEqual(len(lines), len(tasks))
        for line, task in zip(lines, tasks):
            self.assertTrue(line.startswith(task["name"] + " "), line)
            self.assertIn(task["summary"], line)
            self.assertIn(task["model_kind"], line)

    def test_each_trains_and_evaluates(self):
        table = self.write("table.tsv", TABLE)
        for task in listed("tasks"):
            run = self.folder / task["name"]
            tagged = task["name"] == "token-classification"
            text = ["--text", self.write("words.conll", TAGGED) if tagged else table] if task["reads_file"] else []
            if task["name"] == "answers":
                text += ["--prompt-column", "text", "--answer-column", "label"]
            self.succeeds("train", "--task", task["name"], *text, "--out", run, *SHORT)
            measured = self.succeeds("eval", run, "--json")
            summary = json.loads((run / "summary.json").read_text())
            self.assertAlmostEqual(json.loads(measured.stdout)["val_loss"], summary["val_loss"],
                                   places=5, msg=task["name"])


class Models(CommandTest):
    def test_every_recipe_is_listed_with_its_expected_result(self):
        models = listed("models")
        self.assertEqual({model["name"] for model in models},
                         {path.stem for path in (ROOT / "models").glob("*.toml")})
        shown = attend("models").stdout
        for model in models:
            self.assertIn(model["name"], shown)
            self.assertIn(model["summary"], shown)
            self.assertTrue("val_loss" in model or "val_accuracy" in model, model)
            self.assertGreater(model["seconds"], 0)

    def test_the_readme_lists_the_expected_results(self):
        rows = {}
        for line in (ROOT / "models/README.md").read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[cells[0]] = cells[1:]
        for model in listed("models"):
            expected = rows[model["name"]][0]
            if "val_accuracy" in model:
                self.assertIn(f"{model['val_accuracy'] * 100:.1f}%", expected, model["name"])
            if "val_loss" in model:
                self.assertIn(f"loss {model['val_loss']:.3g}", expected, model["name"])

    def test_every_recipe_trains_for_a_few_steps(self):
        files = {"labelled-lines": self.write("table.tsv", TABLE),
                 "line-parts": self.write("parts.tsv", "text\tlabel\n" + "one two\tcount,short\nup\t\n" * 400),
                 "line-punctuation": self.write("numbers.tsv", "text\tlabel\n" + "a, b\t2.5\nup\t0\n" * 400),
                 "line-answers": self.write("answers.tsv", "prompt\tanswer\n" + "one? \t1\ntwo? \t2\n" * 400),
                 "text": self.write("book.txt", BOOK), "masked-lm": self.write("book.txt", BOOK),
                 "token-classification": self.write("words.conll", TAGGED)}
        for model in listed("models"):
            with self.subTest(model["name"]):
                file = files.get(model["name"], files["text"] if model["task"] == "text" else None)
                given = ["--text", file] if file else []
                run = self.folder / "runs" / model["name"]
                self.succeeds("train", model["name"], *given, "--out", run, *SHORT)
                self.assertTrue((run / "summary.json").exists())

    def test_an_unknown_name_suggests_the_nearest(self):
        self.refuses(["train", "shakespear"], "did you mean 'shakespeare'?")

    def test_a_recipe_without_expected_results(self):
        self.write("mine.toml", 'task = "sort"\n')
        mine = {"ATTEND_MODELS": str(self.folder)}
        self.refuses(["models"], "mine.toml: the table [expected] is missing",
                     environment=mine)
        printed = self.succeeds("train", "mine", "--print-config", environment=mine)
        self.assertIn('task = "sort"', printed.stdout.replace("'", '"'))


if __name__ == "__main__":
    unittest.main()
