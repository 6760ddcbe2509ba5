"""attend train --task answers, with eval and generate.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import unittest

from attend_command import CommandTest, expect_names

TINY = ["--num-layers", 1, "--embed-dim", 32, "--num-heads", 2, "--max-seq-len", 24, "--lr", "3e-3", "--warmup-steps", 5]
PAIRS = [("ab", "ba"), ("cd", "dc"), ("abc", "cba"), ("bc", "cb"), ("a", "a"), ("bcd", "dcb")]


class Answers(CommandTest):
    def test_answers_are_learned_from_each_format(self):
        rows = [(f"{question}>", answer) for question, answer in PAIRS]
        tables = {
            "qa.csv": "prompt,answer\n" + "".join(f"{q},{a}\n" for q, a in rows),
            "qa.tsv": "answer\tprompt\n" + "".join(f"{a}\t{q}\n" for q, a in rows),
            "qa.jsonl": "".join(json.dumps({"prompt": q, "answer": a}) + "\n" for q, a in rows),
        }
        for name, content in tables.items():
            with self.subTest(name):
                table = self.write(name, content)
                copy = self.write(f"copy-{name}", content)
                run = self.folder / f"run-{name}"
                shown = self.succeeds("train", "--task", "answers", "--text", table, "--val-text", copy, "--out", run,
                                      "--max-steps", 150, *TINY).stdout
                self.assertIn("answers", shown)
                summary = json.loads((run / "summary.json").read_text())
                self.assertLess(summary["val_loss"], 0.2)
                evaluated = json.loads(self.succeeds("eval", run, table, "--json").stdout)
                self.assertAlmostEqual(evaluated["val_loss"], summary["val_loss"], places=4)
                self.assertEqual(evaluated["val_targets"], sum(len(answer) + 1 for _, answer in PAIRS))
                for question, answer in rows[:3]:
                    found = self.succeeds("generate", run, "--prompt", question, "--no-echo", "--temperature", 0).stdout
                    self.assertEqual(found, answer + "\n")

    def test_columns_may_have_other_names(self):
        table = self.write("other.csv", "question,reply\nab,c\nba,c\nb,a\n")
        self.refuses(["train", "--task", "answers", "--text", table], "'prompt'", "--prompt-column", "'question'")
        run = self.folder / "other"
        self.succeeds("train", "--task", "answers", "--text", table, "--prompt-column", "question", "--answer-column",
                      "reply", "--out", run, "--max-steps", 5, *TINY)
        self.assertIn('prompt_column = "question"', (run / "recipe.toml").read_text().replace("'", '"'))

    def test_eval_reads_other_columns(self):
        table = self.write("columns.csv", "prompt,answer\nab,c\nba,c\nb,a\n")
        run = self.folder / "columns"
        self.succeeds("train", "--task", "answers", "--text", table, "--out", run, "--max-steps", 5, *TINY)
        other = self.write("other-columns.csv", "question,reply\nab,c\nba,c\nb,a\n")
        renamed = ["--prompt-column", "question", "--answer-column", "reply"]
        losses = {json.loads(self.succeeds("eval", run, *arguments, "--json").stdout)["val_loss"]
                  for arguments in ([table], [other, *renamed])}
        self.assertEqual(len(losses), 1)
        expect_names(self, self.refuses(["eval", run, other]), other, "'prompt'", "--prompt-column")
        expect_names(self, self.refuses(["eval", run, *renamed]), "--prompt-column", "FILE")
        expect_names(self, self.refuses(["eval", run, table, "--label-column", "answer"]), "--label-column", "answers")

    def test_eval_counts_examples_that_are_too_long(self):
        table = self.write("short.csv", "prompt,answer\nab,c\nba,c\nb,a\n")
        run = self.folder / "short"
        self.succeeds("train", "--task", "answers", "--text", table, "--out", run, "--max-steps", 5, *TINY)
        other = self.write("long.csv", f"prompt,answer\nab,c\nab,{'c' * 40}\n{'ab' * 20},c\n{'ab' * 30},c\n")
        report = json.loads(self.succeeds("eval", run, other, "--json").stdout)
        self.assertEqual((report["truncated"], report["left_out"]), (1, 2))
        line = next(each for each in self.succeeds("eval", run, other).stdout.splitlines() if "truncated" in each)
        expect_names(self, line, "1 of 4", "25 tokens", "2 prompts", "62 tokens")
        self.assertNotIn("truncated", self.succeeds("eval", run, table).stdout)
        other = self.write("longer.csv", f"prompt,answer\n{'ab' * 20},c\n{'ab' * 30},c\n")
        expect_names(self, self.refuses(["eval", run, other]), other, "2 prompts", "25 tokens", "--max-seq-len")
        start = ["train", "--task", "answers", *TINY, "--out", self.folder / "none", "--text"]
        expect_names(self, self.refuses([*start, table, "--val-text", other]), other, "2 prompts", "--max-seq-len")
        expect_names(self, self.refuses([*start, other]), other, "prompts", "--max-seq-len")

    def test_line_breaks_are_read_as_in_other_texts(self):
        rows = [f'"{q}\n{q}","{a}\n{a}"\n' for q, a in PAIRS]
        losses = []
        for name, content in (("lf", "".join(rows)), ("crlf", "".join(rows).replace("\n", "\r\n"))):
            table, copy = (self.write(f"{part}{name}.csv", "prompt,answer\n" + content) for part in ("", "copy-"))
            run = self.folder / name
            for keep in ([], ["--keep-carriage-returns"]):
                self.succeeds("train", "--task", "answers", "--text", table, "--val-text", copy, "--out", run,
                              "--overwrite", "--max-steps", 5, *TINY, *keep)
                losses.append(json.loads((run / "summary.json").read_text())["val_loss"])
        self.assertEqual(losses[:2], losses[1:3])
        self.assertNotEqual(losses[2], losses[3])

    def test_accuracy_is_refused_as_best_metric(self):
        table = self.write("metric.csv", "prompt,answer\nab,c\nba,c\nb,a\n")
        out = self.folder / "metric"
        for metric in ("accuracy", "f1"):
            message = self.refuses(["train", "--task", "answers", "--text", table, "--best-metric", metric, "--out", out,
                                    *TINY])
            expect_names(self, message, "--best-metric", metric, "loss")
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
