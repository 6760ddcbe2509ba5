"""attend train with --set, --epochs and --sweep.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import re
import signal
import unittest

from attend_command import CommandTest, attend, expect_names
from small_runs import files_of, RunsTest, kill, last_step, start_in_terminal, wait_for

TINY = ["--num-layers", "1", "--embed-dim", "16", "--num-heads", "2"]


class RecipeTest(CommandTest):
    def config(self, *arguments):
        """Returns the recipe with which attend train would train."""
        return self.succeeds("train", *arguments, "--print-config").stdout

    def refuses_with(self, arguments, *names):
        """Expects exit status 2 and a message with these names."""
        expect_names(self, self.refuses(arguments), *names)


class Set(RecipeTest):
    def test_sets_the_same_value_as_the_flag(self):
        for key, value, flag in (("lr", "2e-3", ["--lr", "2e-3"]),
                                 ("training.lr", "2e-3", ["--lr", "2e-3"]),
                                 ("threads", "auto", ["--threads", "auto"]),
                                 ("norm", "rms", ["--norm", "rms"]),
                                 ("bias", "off", ["--no-bias"]),
                                 ("model.bias", "false", ["--no-bias"]),
                                 ("qkv_bias", "on", ["--qkv-bias"]),
                                 ("qkv_bias", "true", ["--qkv-bias"]),
                                 ("task", "sort", ["--task", "sort"]),
                                 ("data.length", "5", ["--length", "5"])):
            self.assertEqual(self.config("--set", f"{key}={value}"), self.config(*flag), key)
        self.assertNotEqual(self.config("--set", "lr=2e-3"), self.config())

    def test_is_repeatable_and_leaves_the_recipe_argument_free(self):
        self.assertEqual(self.config("--set", "lr=2e-3", "--set", "num_layers=1", "sort"),
                         self.config("sort", "--lr", "2e-3", "--num-layers", "1"))

    def test_an_unknown_key_suggests_the_nearest(self):
        for key, nearest in (("lrr", "lr"), ("training.lrr", "training.lr"), ("num_layer", "num_layers")):
            message = self.refuses(["train", "--set", f"{key}=1"], "--set", f"'{key}'")
            self.assertTrue(message.endswith(f"'{nearest}'?\n"), message)

    def test_invalid_values(self):
        for setting, *names in (("lr=abc", "--set lr", "abc"), ("lr=", "--set lr"), ("lr=nan", "lr", "nan"),
                                ("lr=11", "lr", "11", "10"), ("threads=0", "--set threads", "0", "auto"),
                                ("norm=batch", "--set norm", "batch", "layer|rms"),
                                ("bias=1", "--set bias", "1", "on", "off"), ("task=", "--set task"),
                                ("lr", "--set", "lr", "KEY=VALUE"), ("=1", "--set", "''"),
                                ("pooling=mean", "--pooling", "language_model")):
            self.refuses_with(["train", "--set", setting], *names)

    def test_a_value_is_set_once(self):
        self.refuses_with(["train", "--lr", "1", "--set", "lr=1"], "--lr", "--set lr")
        self.refuses_with(["train", "--set", "training.lr=1", "--set", "lr=1"], "--set training.lr", "--set lr")

    def test_has_the_same_requirements_as_the_flag(self):
        self.refuses_with(["train", "--set", "momentum=0.5"], "--momentum", "--optimizer muon")
        self.refuses_with(["lr-find", "--set", "max_steps=9"], "--max-steps", "--num-steps")

    def test_attend_lr_find_uses_it(self):
        self.refuses_with(["lr-find", "--set", "embed_dim=10", "--set", "num_heads=3"], "embed_dim", "num_heads")
        self.succeeds("lr-find", "--set", "embed_dim=16", "--set", "batch_size=8", "--num-steps", "3")


class Epochs(RecipeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # 1,000 characters, 900 of them training data: 56 sequences of 16 tokens
        cls.text = cls.write("letters.txt", "abcdefghi\n" * 100)
        # 100 different texts, 90 of them training data
        rows = "".join(f"text {i}\t{'even' if i % 2 == 0 else 'odd'}\n" for i in range(100))
        cls.table = cls.write("lines.tsv", "text\tlabel\n" + rows)
        cls.on_text = ["--text", cls.text, "--max-seq-len", "16", "--warmup-steps", "0", *TINY]
        cls.on_table = ["--task", "labelled-lines", "--text", cls.table, *TINY]

    def steps(self, *arguments):
        return int(re.search(r"^max_steps = (\d+)$", self.config(*arguments), re.MULTILINE)[1])

    def test_are_converted_to_steps_and_rounded_up(self):
        for epochs, batch, accumulated, steps in ((1, 8, 1, 7), (3, 8, 1, 21), (3, 4, 2, 21), (1, 9, 1, 7),
                                                  (0.5, 8, 1, 4), (1, 1, 1, 56), (0.001, 8, 1, 1)):
            self.assertEqual(self.steps(*self.on_text, "--epochs", epochs, "--batch-size", batch,
                                        "--gradient-accumulation-steps", accumulated), steps)
        self.assertEqual(self.steps(*self.on_table, "--epochs", 2, "--batch-size", 10), 18)

    def test_the_number_of_steps_is_printed_and_saved_and_the_run_can_be_resumed(self):
        run = self.folder / "run"
        arguments = [*self.on_text, "--batch-size", "8"]
        printed = self.succeeds("train", *arguments, "--epochs", 2, "--out", run).stdout
        self.assertRegex(printed, r"(?m)^epochs +2 = 14 steps$")
        self.assertIn("\nmax_steps = 14\n", (run / "recipe.toml").read_text())
        self.assertEqual(json.loads((run / "summary.json").read_text())["steps"], 14)
        printed = self.succeeds("train", "--resume", run, "--epochs", 2).stdout
        expect_names(self, printed, "14/14", "--epochs")
        self.assertNotIn("--max-steps", printed)
        message = self.refuses(["train", "--resume", run, "--epochs", 1])
        expect_names(self, message, "14/7", "max_steps", "--epochs")
        self.assertNotIn("--max-steps", message)
        self.succeeds("train", "--resume", run, "--epochs", 3)
        self.assertEqual(json.loads((run / "summary.json").read_text())["steps"], 21)

    def test_the_sentences_of_the_default_task_are_a_fixed_number(self):
        one, two = (self.steps("--epochs", 1, "--batch-size", size) for size in (1, 2))
        self.assertEqual(two, (one + 1) // 2)

    def test_a_run_with_subwords_can_be_resumed(self):
        run = self.folder / "subwords"
        text = self.write("words.txt", "".join(f"the {i}th line of the text\n" for i in range(300)))
        self.succeeds("train", "--text", text, "--tokenizer", "subword", "--vocab-size", 300, "--max-seq-len", 16, *TINY,
                      "--warmup-steps", 0, "--batch-size", 64, "--epochs", 1, "--out", run)
        first = json.loads((run / "summary.json").read_text())["steps"]
        printed = self.succeeds("train", "--resume", run, "--epochs", 2).stdout
        steps = int(re.search(r"^epochs +2 = (\d+) steps$", printed, re.MULTILINE)[1])
        self.assertIn(steps, (2 * first - 1, 2 * first))

    def test_the_warm_up_is_compared_with_the_resulting_steps(self):
        self.steps(*self.on_table, "--epochs", 1000, "--warmup-steps", 2000)
        self.refuses_with(["train", *self.on_table, "--epochs", 1, "--warmup-steps", 900], "warmup_steps", 900,
                          "max_steps", 3)

    def test_refused_values(self):
        for arguments, *names in ((["--max-steps", 9], "--epochs", "--max-steps"),
                                  (["--set", "max_steps=9"], "--epochs", "--set max_steps"),
                                  (["--max-seq-len", 0], "max_seq_len", 0)):
            self.refuses_with(["train", *self.on_table, "--epochs", 2, *arguments], *names)
        for value in (0, -1, "nan", "inf", "", "two"):
            self.refuses_with(["train", *self.on_table, "--epochs", value], "--epochs")
        message = self.refuses(["train", *self.on_table, "--epochs", "1e300"])
        expect_names(self, message, "--epochs", "1e+300")
        self.assertNotIn("--max-steps", message)

    def test_tasks_that_generate_their_data_have_no_epochs(self):
        self.refuses_with(["train", "--task", "sort", "--epochs", 2], "--epochs", "sort", "--max-steps")


class Sweep(RunsTest):
    SHORT = [*TINY[2:], "--batch-size", "8", "--max-steps", "4", "--eval-every", "2", "--threads", "1"]

    def setUp(self):
        super().setUp()
        self.out = self.folder / "sweep"

    def test_runs_with_other_options_are_refused(self):
        arguments = ["--sweep", "lr=0.1,0.2", "--out", self.out, *self.SHORT]
        self.train(*arguments)
        self.train(*arguments)
        before = files_of(self.out)
        self.fails(2, [*arguments, "--weight-decay", "0.5"], str(self.out / "lr=0.1"), "weight_decay", "0.5")
        self.fails(2, ["--sweep", "lr=0.1,200", "--out", self.out, *self.SHORT, "--log-every", "7"], "200")
        self.assertEqual(files_of(self.out), before)

    def test_a_directory_that_cannot_be_created_is_refused(self):
        (self.folder / "file").write_text("")
        out = self.folder / "file/sweep"
        self.fails(2, ["--sweep", "lr=0.1,0.2", "--out", out, *self.SHORT], str(out))

    def sweep(self, *axes, arguments=()):
        """Returns the arguments of attend train for a sweep over these axes."""
        return [*self.SHORT, *(part for axis in axes for part in ("--sweep", axis)), "--out", self.out, *arguments]

    def results(self):
        return json.loads((self.out / "sweep.json").read_text())

    def refuses(self, arguments, *names):
        """Expects exit status 2, a message with these names, and no run directory."""
        result = attend("train", *arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        expect_names(self, result.stderr, *names)
        self.assertFalse(self.out.exists())

    def test_trains_each_combination_in_its_own_directory(self):
        printed = self.train(*self.sweep("lr=1e-3,3e-3", "num_layers=0,1")).stdout
        names = [f"lr={lr},num_layers={layers}" for lr in ("0.001", "0.003") for layers in (0, 1)]
        found = self.results()
        self.assertEqual([each["run"] for each in found["combinations"]], names)
        self.assertEqual(found["combinations"][1]["values"], {"lr": 0.001, "num_layers": 1})
        self.assertEqual({path.name for path in self.out.iterdir()}, {*names, "sweep.json"})
        for each in found["combinations"]:
            summary = json.loads((self.out / each["run"] / "summary.json").read_text())
            for key in ("val_loss", "val_accuracy", "seconds"):
                self.assertEqual(each[key], summary[key])
        best = min(found["combinations"], key=lambda each: each["val_loss"])
        self.assertEqual(found["best"], best["run"])
        header, *rows = [line.split() for line in printed.splitlines()[-5:]]
        self.assertEqual(header, ["lr", "num_layers", "val", "loss", "accuracy", "seconds"])
        for row, each in zip(rows, found["combinations"]):
            values = [str(value) for value in each["values"].values()]
            expected = [*values, f"{each['val_loss']:.4f}", f"{each['val_accuracy'] * 100:.1f}%", f"{each['seconds']:.1f}"]
            self.assertEqual(row, expected + (["best"] if each is best else []))

    def test_a_combination_gives_the_same_result_as_a_run_alone(self):
        self.train(*self.sweep("lr=1e-3,3e-3", arguments=["--num-layers", 1]))
        self.train(*self.SHORT, "--num-layers", 1, "--lr", "3e-3", "--out", self.folder / "alone")
        self.same_result(self.out / "lr=0.003", self.folder / "alone")

    def test_finished_combinations_are_skipped_and_others_are_resumed_or_added(self):
        self.train(*self.sweep("num_layers=0"))
        before = (self.out / "num_layers=0" / "metrics.jsonl").stat().st_mtime_ns
        printed = self.train(*self.sweep("num_layers=0,1")).stdout
        self.assertEqual((self.out / "num_layers=0" / "metrics.jsonl").stat().st_mtime_ns, before)
        self.assertEqual(printed.count("\ntask  "), 1)
        self.assertEqual(len(self.results()["combinations"]), 2)
        page = self.out / "num_layers=0" / "report.html"  # missing if the process was killed before it was written
        page.unlink()
        self.train(*self.sweep("num_layers=0,1"))
        self.assertTrue(page.exists())

    def test_a_signal_stops_the_sweep_and_the_same_command_resumes_it(self):
        long = [*TINY[2:], "--batch-size", 8, "--max-steps", 400, "--eval-every", 400, "--checkpoint-every", 10,
                "--threads", 1, "--sweep", "num_layers=1,0", "--out", self.out]
        process = start_in_terminal("train", *long)
        self.addCleanup(kill, process)
        first = self.out / "num_layers=1"
        self.assertTrue(wait_for(lambda: last_step(first) >= 10, process))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertFalse((self.out / "num_layers=0").exists())
        self.assertFalse((self.out / "sweep.json").exists())
        stopped = last_step(first)
        printed = self.train(*long).stdout
        self.assertIn(f"from step {stopped}\n", printed)
        self.assertEqual([each["run"] for each in self.results()["combinations"]], ["num_layers=1", "num_layers=0"])

    def test_the_data_is_read_once(self):
        text = self.folder / "letters.txt"
        text.write_text("abcdefghi\n" * 100)
        long = ["--text", text, "--max-seq-len", 16, *TINY[2:], "--batch-size", 8, "--epochs", 30, "--warmup-steps", 0,
                "--eval-every", 200, "--checkpoint-every", 10, "--threads", 1, "--sweep", "num_layers=1,0",
                "--out", self.out]
        process = start_in_terminal("train", *long)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: last_step(self.out / "num_layers=1") >= 10, process))
        text.unlink()
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        for each in self.results()["combinations"]:
            self.assertIn("val_loss", each)

    def test_another_sweep_in_the_directory_is_refused(self):
        self.train(*self.sweep("num_layers=0"))
        before = files_of(self.out)
        self.fails(2, self.sweep("lr=1e-3", arguments=["--num-layers", 0]), str(self.out / "sweep.json"), "num_layers=0",
                   "lr=0.001", "--out")
        self.assertEqual(files_of(self.out), before)
        self.train(*self.sweep("num_layers=0,1"))
        self.assertEqual(len(self.results()["combinations"]), 2)
        for content in ("{}", "[1", '{"combinations": [{}]}'):
            (self.out / "sweep.json").write_text(content)
            self.fails(2, self.sweep("num_layers=0"), str(self.out / "sweep.json"))

    def test_a_failed_combination_does_not_stop_the_others(self):
        result = attend("train", "--embed-dim", 16, "--batch-size", 8, "--max-grad-norm", 0, "--warmup-steps", 0,
                        "--optimizer", "muon", "--weight-decay", 10, "--schedule", "constant", "--max-steps", 20,
                        "--eval-every", 2, "--sweep", "lr=10,1e-3", "--out", self.out)
        self.assertEqual(result.returncode, 1, result.stderr)
        expect_names(self, result.stderr.splitlines()[-1], 1, 2, self.out / "sweep.json")
        failed, trained = self.results()["combinations"]
        self.assertIn("non-finite", failed["error"])
        self.assertNotIn("val_loss", failed)
        self.assertIn("val_loss", trained)
        self.assertEqual(self.results()["best"], "lr=0.001")
        self.assertRegex(result.stdout, r"(?m)^10 +failed$")

    def test_epochs_are_converted_for_each_combination(self):
        text = self.folder / "letters.txt"
        text.write_text("abcdefghi\n" * 100)  # 56 training sequences of 16 tokens
        self.train("--text", text, "--max-seq-len", 16, "--warmup-steps", 0, *TINY, "--epochs", 1, "--threads", 1,
                   "--sweep", "batch_size=8,28", "--out", self.out)
        for batch, steps in ((8, 7), (28, 2)):
            summary = json.loads((self.out / f"batch_size={batch}" / "summary.json").read_text())
            self.assertEqual(summary["steps"], steps)

    def test_all_combinations_are_checked_before_the_first_is_trained(self):
        for axes, names in ((["lr=1e-3,abc"], ["--sweep lr=abc", "abc"]),
                            (["lr=1e-3,"], ["--sweep lr=", "''"]),
                            (["lrr=1"], ["--sweep", "lrr", "lr"]),
                            (["lr"], ["--sweep", "KEY=VALUE"]),
                            (["lr=1e-3,11"], ["--sweep lr=11", "lr", "11"]),
                            (["num_kv_heads=1,3"], ["--sweep num_kv_heads=3", "num_kv_heads", "3"]),
                            (["max_seq_len=64,2"], ["--sweep max_seq_len=2", "max_seq_len", "2"]),
                            (["lr=1e-3,0.001"], ["lr=0.001"]),
                            (["lr=1e-3", "lr=1e-2"], ["--sweep lr=1e-3", "--sweep lr=1e-2"]),
                            (["batch_size=8,16"], ["--batch-size", "--sweep batch_size=8"])):
            self.refuses(self.sweep(*axes), *names)
        text = self.folder / "text.txt"
        self.refuses(["--sweep", f"text={text}", "--out", self.out], "/", text)

    def test_a_directory_of_runs_in_the_place_of_a_run_names_the_runs(self):
        self.train(*self.sweep("lr=1e-3,3e-3"))
        for arguments in (["eval", self.out], ["inspect", self.out], ["generate", self.out, "--prompt", "the"],
                          ["predict", self.out, "the"], ["train", "--resume", self.out],
                          ["train", "--init-from", self.out], ["train", "--out", self.out],
                          ["train", "--out", self.out, "--overwrite"]):
            result = attend(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            expect_names(self, result.stderr, self.out, "sweep", "lr=0.001", "lr=0.003")
            self.assertNotIn("overwrite", result.stderr)

    def test_options_of_a_single_run_are_refused(self):
        for option in (["--overwrite"], ["--print-config"], ["--resume", "run"]):
            self.refuses(self.sweep("lr=1e-3", arguments=option), "--sweep", option[0])
        self.refuses(["--sweep", "lr=1e-3"], "--sweep", "--out")

    def test_a_run_in_the_place_of_the_directory_is_refused(self):
        self.train(*self.SHORT, "--out", self.out)
        result = attend("train", *self.sweep("lr=1e-3"))
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        expect_names(self, result.stderr, "--out", self.out)
        for option in ("--overwrite", "--resume"):
            self.assertNotIn(option, result.stderr)

    def test_a_directory_with_other_values_is_refused(self):
        self.train(*self.sweep("lr=1e-3"))
        result = attend("train", *self.sweep("lr=1e-3,3e-3", arguments=["--seed", 9]))
        self.assertEqual(result.returncode, 2, result.stderr)
        expect_names(self, result.stderr, "--sweep lr=1e-3", "seed", 9)
        self.assertFalse((self.out / "lr=0.003").exists())

    def test_only_the_flags_of_values_that_differ_are_named(self):
        self.train(*self.sweep("num_layers=0"))
        steps = self.SHORT.index("--max-steps") + 1
        result = attend("train", *self.SHORT[:steps], 6, *self.SHORT[steps + 1:], "--sweep", "num_layers=0", "--out",
                        self.out)
        self.assertEqual(result.returncode, 2, result.stderr)
        expect_names(self, result.stderr, "--max-steps", "'4'", "'6'")
        self.assertNotIn("--num-layers", result.stderr)


if __name__ == "__main__":
    unittest.main()
