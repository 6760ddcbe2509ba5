"""Runs that were written before some keys of recipes existed.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import re
import shutil
import unittest

from attend_command import CommandTest, expect_names
from small_runs import best_weights_of, write_recipe, write_with_checksum

TINY = ["--num-layers", 1, "--embed-dim", 16, "--num-heads", 2, "--max-seq-len", 8, "--batch-size", 4, "--max-steps",
        4, "--eval-every", 2, "--threads", 1]
# Added after the first runs were written.
NEW_KEYS = ["prompt_column", "answer_column", "messages_column", "problem_type", "label_separator", "threshold",
            "class_weights", "stratify", "keep_carriage_returns", "token_dir", "best_metric", "lora_rank", "lora_alpha",
            "lora_dropout",
            "lora_targets", "lora_rslora"]


class OldRuns(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = [(f"{i:03}{'x' if i % 9 == 0 else 'o'}", "rare" if i % 9 == 0 else "usual") for i in range(90)]
        cls.table = cls.write("table.tsv", "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
        cls.text = cls.write("text.txt", "the fox\r\nand the hen\r\n" * 40)

    def without_new_keys(self, run):
        """Returns a copy of the run as it would have been written before the keys existed."""
        old = self.folder / f"old-{run.name}"
        shutil.copytree(run, old)
        recipe = (old / "recipe.toml").read_text()
        for key in NEW_KEYS:
            recipe, count = re.subn(rf"(?m)^{key} = .*\n", "", recipe)
            self.assertEqual(count, 1, key)
        write_recipe(old, recipe.replace("[lora]\n", ""))
        record = json.loads((old / "data.json").read_text())
        for key in NEW_KEYS:
            self.assertEqual(record["fixed"].pop(key, None) is None, key in ("best_metric", "token_dir"), key)
        write_with_checksum(old / "data.json", record)
        return old

    def check_same(self, run, *commands):
        """Expects that the commands print the same for the run as it is and without the new keys, also after both
        have been resumed. The new keys must be the values of runs without them."""
        old = self.without_new_keys(run)
        for steps in (4, 8):
            for command in (["eval", "--json"], *commands):
                shown = [self.succeeds(command[0], each, *command[1:]).stdout for each in (run, old)]
                self.assertEqual(shown[1].replace(old.name, run.name), shown[0])
            self.succeeds("inspect", old)
            if steps == 4:
                for each in (run, old):
                    self.succeeds("train", "--resume", each, "--max-steps", 8)
        self.assertEqual(best_weights_of(old), best_weights_of(run))
        return old

    def test_labels_are_split_without_stratification(self):
        run = self.folder / "labels"
        options = ["--task", "labelled-lines", "--text", self.table, *TINY]
        self.succeeds("train", *options, "--no-stratify", "--keep-carriage-returns", "--out", run)
        old = self.check_same(run, ["predict", "xyz"[:1]])
        for flag, key in (("--stratify", "stratify"), ("--no-keep-carriage-returns", "keep_carriage_returns")):
            expect_names(self, self.refuses(["train", "--resume", old, "--max-steps", 12, flag]), key, "'on'", "'off'")
        self.succeeds("train", "--init-from", old, *TINY, "--out", self.folder / "tuned")

    def test_texts_keep_carriage_returns(self):
        run = self.folder / "texts"
        self.succeeds("train", "--text", self.text, *TINY, "--keep-carriage-returns", "--out", run)
        self.check_same(run, ["generate", "--prompt", "the fox\r\n", "--temperature", 0, "--max-new-tokens", 5])

    def test_tasks_without_files_have_no_such_keys(self):
        run = self.folder / "sort"
        self.succeeds("train", "--task", "sort", *TINY[:6], *TINY[8:], "--out", run)
        self.check_same(run, ["generate", "--prompt", "ba=", "--temperature", 0])


if __name__ == "__main__":
    unittest.main()
