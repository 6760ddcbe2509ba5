"""The command: output, files, and error messages for invalid input.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import pathlib
import re
import tempfile
import unittest

from attend_command import CommandTest, attend
from small_runs import best_weights_of

SHORT = ["--max-steps", "30", "--eval-every", "10", "--batch-size", "8"]


class SensesTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "senses"
        cls.training = attend("train", "--out", cls.run_directory, *SHORT)


class Train(SensesTest):
    def test_creates_the_run_directory(self):
        self.assertEqual(self.training.returncode, 0, self.training.stderr)
        files = {path.name for path in self.run_directory.iterdir()}
        self.assertEqual(files, {".lock", "recipe.toml", "data.json", "model.safetensors", "tokenizer.json",
                                 "checkpoint",
                                 "metrics.jsonl", "samples.jsonl", "embeddings", "summary.json", "report.txt",
                                 "report.html", "tensorboard", "embeddings.tsv",
                                 "metadata.tsv", "projector_config.pbtxt"})
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertEqual(summary["task"], "senses")
        self.assertEqual(summary["steps"], 30)
        for key in ("parameters", "seconds", "tokens_per_second", "train_loss", "val_loss",
                    "val_accuracy"):
            self.assertGreaterEqual(summary[key], 0, key)
        lines = (self.run_directory / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["step"] for line in lines if "val_loss" in line],
                         [10, 20, 30])

    def test_prints_reports_and_a_summary(self):
        for text in ("task        senses\n", "before training", "after training", "Attention weights", "-> "):
            self.assertIn(text, self.training.stdout)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertRegex(self.training.stdout, (
            rf"\nbest val loss  {summary['val_loss']:.4f} \(step {summary['best_step']}, \d+ tokens\)\n"
            rf"accuracy       {summary['val_accuracy'] * 100:.1f}% \(\d+/\d+ sequences\)\n"
            rf"losses         \S+ val loss \d\.\d{{4}} to {summary['val_loss']:.4f}\n"
            rf"time           \d+\.\d s, \S+ tok/s with 1 CPU thread\nrun            {self.run_directory}\n"
            rf"report         {self.run_directory}/report.html\n\nNext:\n  attend eval {self.run_directory}\n"))

    def test_progress_without_a_terminal_is_plain_lines(self):
        self.assertEqual(len(self.training.stderr.splitlines()), 3)
        self.assertNotIn("\r", self.training.stderr)
        self.assertNotIn("\x1b", self.training.stderr)
        self.assertRegex(self.training.stderr, (
            r"(?m)^step 10/30 \| train loss \d\.\d{4} \| val loss \d\.\d{4} \| acc \d+\.\d% \| "
            r"\S+ tok/s \| eta \d+:\d\d \| best$"))

    def test_the_same_seed_gives_the_same_run(self):
        for name, seed in (("again", 1), ("other", 2)):
            attend("train", "--out", self.folder / name, "--seed", seed, *SHORT)
        weights = [best_weights_of(self.folder / name) for name in ("senses", "again", "other")]
        self.assertEqual(weights[0], weights[1])
        self.assertNotEqual(weights[0], weights[2])

    def test_a_printed_recipe_gives_the_same_run(self):
        printed = attend("train", "--print-config", *SHORT)
        recipe = self.folder / "recipe.toml"
        recipe.write_text(printed.stdout)
        result = attend("train", recipe, "--out", self.folder / "from-recipe")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(best_weights_of(self.folder / "from-recipe"), best_weights_of(self.run_directory))

    def test_precedence_flag_recipe_default(self):
        recipe = self.folder / "some.toml"
        recipe.write_text("[model]\nnum_layers = 3\nnum_heads = 8\n")
        printed = attend("train", recipe, "--num-heads", 1, "--print-config").stdout
        self.assertIn("num_layers = 3", printed)
        self.assertIn("num_heads = 1", printed)
        self.assertIn("embed_dim = 64", printed)

    def test_without_out_a_new_directory_is_created(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                attend("train", "--max-steps", 1, "--num-layers", 0, cwd=folder)
            runs = sorted(path.name for path in pathlib.Path(folder, "runs").iterdir())
        self.assertEqual(runs, ["senses", "senses-2"])

    def test_a_directory_does_not_hide_a_recipe(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sort").mkdir()
            printed = self.succeeds("train", "sort", "--print-config", cwd=folder)
            self.assertIn("task = 'sort'", printed.stdout.replace('"', "'"))
            pathlib.Path(folder, "addition").write_text('task = "copy"\n')
            printed = self.succeeds("train", "addition", "--print-config", cwd=folder)
            self.assertIn("task = 'copy'", printed.stdout.replace('"', "'"))

    def test_help_lists_every_recipe_key(self):
        text = attend("train", "--help").stdout
        printed = attend("train", "--print-config").stdout
        keys = re.findall(r"^(\w+) = ", printed, re.MULTILINE)
        self.assertGreater(len(keys), 20)
        self.assertIn("kind", keys)
        for key in set(keys) - {"kind"}:  # set by the task
            self.assertIn("--" + key.replace("_", "-"), text)
        self.assertIn("[400, depends on the task]", re.sub(r"\s+", " ", text))


class Use(SensesTest):
    def test_eval_prints_one_json_object(self):
        result = attend("eval", self.run_directory, "--json")
        measured = json.loads(result.stdout)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertAlmostEqual(measured["val_loss"], summary["val_loss"], places=6)
        self.assertEqual(measured["val_accuracy"], summary["val_accuracy"])

    def test_generate_separates_words(self):
        text = self.succeeds("generate", self.run_directory, "--prompt", "the old", "--max-new-tokens", 4)
        self.assertTrue(text.stdout.startswith("the old "))
        self.assertEqual(len(text.stdout.split()), 6)


class WrongInput(SensesTest):
    def test_unknown_names_suggest_the_nearest(self):
        self.refuses(["train", "--layerz", 2], "train: unknown argument '--layerz'", "did you mean '--num-layers'?")
        self.refuses(["trian"], "unknown subcommand 'trian'", "did you mean 'train'?")
        self.refuses(["train", "--task", "sense"], "unknown task 'sense'", "'senses'")
        self.refuses([], "missing subcommand: expected one of train, lr-find, eval, predict, embed, generate, export")
        self.refuses(["train", "--out"], "--out")

    def test_messages_name_the_value_found_and_the_one_expected(self):
        for arguments, expected in (
                (["--embed-dim", 10, "--num-heads", 3], "embed_dim (10) must be divisible by num_heads (3)"),
                (["--max-steps", 0], "max_steps is 0, expected a value between 1 and"),
                (["--dropout", 1.5], "dropout is 1.5, expected a value between 0 and 0.99"),
                (["--lr", "nan"], "lr is nan, expected a value between"),
                (["--num-layers", "two"], "--num-layers: expected an integer, found 'two'"),
                (["--threads", "auto1"], "--threads: expected an integer or auto, found 'auto1'"),
                (["--max-steps", "1.5"], "--max-steps: expected an integer, found '1.5'"),
                (["--max-steps", "99999999999999999999"], "found '99999999999999999999'"),
                (["--max-steps", ""], "--max-steps: expected an integer, found ''"),
                (["--tie-embeddings=maybe"], "--tie-embeddings takes no value; use --tie-embeddings or --no-tie-embeddings"),
                (["--positions", "rotten"], "expected none|learned|sinusoidal|rotary|alibi|relative, found 'rotten'"),
                (["--max-seq-len", 3], "max_seq_len is 3, expected at least"),
                (["--threads", 5000000000], "threads is 5000000000, expected a value between 0 and 1024"),
                (["--embed-dim", 1000000000], "embed_dim is 1000000000, expected a value between"),
        ):
            self.refuses(["train", "--out", self.folder / "wrong", *arguments], expected)
        self.assertFalse((self.folder / "wrong").exists(), "invalid input created files")

    def test_switches_take_no_value(self):
        for value in ("true", "false", "on", "off"):
            self.refuses(["train", "--bias", value], "--bias takes no value; use --bias or --no-bias")
        self.refuses(["lr-find", "--no-tie-embeddings", "false"],
                     "--tie-embeddings takes no value; use --tie-embeddings or --no-tie-embeddings")
        self.refuses(["train", "--num-layers", "false"], "--num-layers: ")
        self.refuses(["train", "--bias", "senes"], "senes: no such file or recipe")

    def test_invalid_text_files(self):
        files = {"empty.txt": b"", "short.txt": b"abc" * 20, "latin1.txt": b"caf\xe9 " * 999}
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        for name, expected in (("missing.txt", "no such file"), ("empty.txt", "the file is empty"),
                               ("short.txt", "60 tokens"), (".", "found a directory"),
                               ("latin1.txt", "expected UTF-8 text, found byte 0xE9 at offset 3")):
            self.refuses(["train", "--text", self.folder / name, "--out", self.folder / "wrong"],
                         expected)
        self.refuses(["train", "--task", "text"], "needs a file", "text")
        self.refuses(["train", "--task", "senses", "--text", self.folder / "short.txt"], "senses")
        self.assertFalse((self.folder / "wrong").exists(), "invalid input created files")

    def test_existing_directories_are_not_overwritten(self):
        before = (self.run_directory / "model.safetensors").read_bytes()
        self.refuses(["train", "--out", self.run_directory], "exists", "overwrite it")
        self.assertEqual((self.run_directory / "model.safetensors").read_bytes(), before)
        foreign = self.folder / "foreign"
        foreign.mkdir()
        (foreign / "thesis.txt").write_text("mine")
        self.refuses(["train", "--out", foreign, "--overwrite"], "cannot be overwritten: not a run directory")
        self.refuses(["train", "--out", "/proc/runs/x"], "cannot be created")

    def test_directories_that_are_not_runs(self):
        empty = self.folder / "empty"
        empty.mkdir()
        for run in (self.folder / "nowhere", empty, self.run_directory / "recipe.toml"):
            for command in (["eval"], ["generate", "--prompt", "the"], ["export", "-o", "x.pt"],
                            ["train", "--resume"]):
                self.refuses([*command, run],
                             f"{run}: not a run directory: it has no recipe.toml")

    def test_prompts_with_unknown_words(self):
        self.refuses(["generate", self.run_directory, "--prompt", "the zebra"], "word 'zebra'")

    def test_a_low_learning_rate_needs_no_other_flag(self):
        result = attend("train", "--lr", "1e-6", "--print-config")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_version(self):
        self.assertRegex(attend("--version").stdout, r"^attend \d+\.\d+\.\d+$")

    def test_leading_zeros_are_decimal(self):
        self.assertIn("max_steps = 10\n", attend("train", "--max-steps", "010", "--print-config").stdout)

    def test_lists_are_separated_by_commas(self):
        for text, expected in (("3,0", "[ 3, 0 ]"), ("7", "[ 7 ]"), ("none", "[]")):
            printed = attend("train", "--sliding-window-pattern", text, "--print-config").stdout
            self.assertIn(f"sliding_window_pattern = {expected}\n", printed)
        for text, found in (("3,", "''"), ("", "''"), ("3;0", "'3;0'"), ("3,x", "'x'")):
            result = attend("train", "--sliding-window-pattern", text, "--print-config")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"--sliding-window-pattern: expected an integer, found {found}", result.stderr)

    def test_damaged_runs(self):
        damaged = self.folder / "damaged"
        attend("train", "--out", damaged, *SHORT)
        weights = damaged / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        self.refuses(["eval", damaged], "model.safetensors", "bytes")

    def test_a_recipe_with_an_unknown_key(self):
        recipe = self.folder / "wrong.toml"
        recipe.write_text("[model]\nlayer = 2\n")
        self.refuses(["train", recipe], "model.layer", "did you mean 'model.num_layers'?")


if __name__ == "__main__":
    unittest.main()
