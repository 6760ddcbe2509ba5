"""attend train --init-from: runs that begin with the weights of another run.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import shutil
import unittest

from attend_command import CommandTest, expect_names
from small_runs import best_weights_of, checkpoints, kill, last_step, read_safetensors, run_id_of, start, wait_for

TINY = ["--num-layers", "1", "--embed-dim", "16", "--num-heads", "2"]
SHORT = ["--batch-size", "4", "--max-steps", "6", "--eval-every", "3", "--warmup-steps", "0", "--threads", "1"]


class InitFrom(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the fox and the hen sat. " * 40)
        cls.other_text = cls.write("other.txt", "the hen and the fox sat. " * 40)
        cls.table = cls.write("table.csv", "text,label\n" + "the fox,one\nthe hen,two\n" * 20)
        cls.base = cls.folder / "base"
        cls().succeeds("train", "--text", cls.text, "--max-seq-len", 16, *TINY, *SHORT, "--lr", "3e-3", "--seed", 5,
                       "--out", cls.base)

    def setUp(self):
        self.out = self.folder / self._testMethodName

    def train(self, *arguments):
        return self.succeeds("train", "--init-from", self.base, *SHORT, "--out", self.out, *arguments).stdout

    def refuses_with(self, arguments, *names):
        """Expects exit status 2, a message with these names, and no run directory."""
        expect_names(self, self.refuses(["train", *arguments]), *names)
        self.assertFalse(self.out.exists())

    def config(self, *arguments):
        """Returns the recipe as {key: value}, both as text."""
        lines = self.succeeds("train", "--init-from", self.base, "--print-config", *arguments).stdout.splitlines()
        return dict(line.split(" = ") for line in lines if " = " in line)

    def weights(self, file):
        return {name: data for name, (_, data) in read_safetensors(file).items()}

    def initial_weights(self, run):
        """Returns the weights in the checkpoint of step 0."""
        first = checkpoints(run)[0]
        self.assertEqual(first.name, "step-000000000")
        return self.weights(first / "model.safetensors")

    def test_model_task_and_data_are_those_of_the_run_and_training_options_are_the_defaults(self):
        config = self.config()
        self.assertEqual(config["text"].strip("'\""), str(self.text))
        for key, value in (("task", "text"), ("max_seq_len", "16"), ("embed_dim", "16"), ("num_layers", "1")):
            self.assertEqual(config[key].strip("'\""), value)
        defaults = self.succeeds("train", "--task", "text", "--print-config").stdout.splitlines()
        for key in ("lr", "seed", "max_steps", "batch_size", "warmup_steps"):
            self.assertIn(f"{key} = {config[key]}", defaults)

    def test_flags_and_recipes_override_the_run(self):
        config = self.config("--text", self.other_text, "--dropout", "0.2", "--lr", "1e-4")
        self.assertEqual([config["text"].strip("'\""), config["dropout"], config["lr"]],
                         [str(self.other_text), "0.2", "0.0001"])
        recipe = self.write("recipe.toml", "task = 'text'\n[model]\ndropout = 0.3\n")
        config = self.config(recipe)
        self.assertEqual([config["dropout"], config["embed_dim"]], ["0.3", "16"])
        config = self.config("--task", "labelled-lines", "--text", self.table)
        self.assertEqual([config["kind"].strip("'\""), config["embed_dim"], config["max_seq_len"]],
                         ["sequence_classifier", "16", "16"])

    def test_the_validation_file_of_the_run_is_not_used_for_another_text(self):
        run = self.folder / "with_val_text"
        self.succeeds("train", "--text", self.text, "--val-text", self.other_text, "--max-seq-len", 16, *TINY, *SHORT,
                      "--out", run)
        for arguments, expected in (([], True), (["--text", self.text], False)):
            printed = self.succeeds("train", "--init-from", run, "--print-config", *arguments).stdout
            self.assertEqual(str(self.other_text) in printed, expected)

    def test_other_data(self):
        printed = self.train("--text", self.other_text, "--dropout", "0.2")
        header = next(line for line in printed.splitlines() if line.startswith("init from"))
        expect_names(self, header, self.base, len(read_safetensors(self.base / "model.safetensors")))
        expect_names(self, next(line for line in printed.splitlines() if line.startswith("changed")), "dropout", "0.2")
        for line in (f"text        {self.other_text}", f"init from   run_id {run_id_of(self.base)}"):
            self.assertIn(line + "\n", self.succeeds("inspect", self.out).stdout)
        report = json.loads(self.succeeds("inspect", self.out, "--json").stdout)
        self.assertEqual(report["init_from"], run_id_of(self.base))
        self.assertNotIn("init_from", json.loads(self.succeeds("inspect", self.base, "--json").stdout))
        self.assertEqual((self.out / "tokenizer.json").read_bytes(), (self.base / "tokenizer.json").read_bytes())
        self.assertEqual(self.initial_weights(self.out), self.weights(self.base / "model.safetensors"))
        self.succeeds("eval", self.out)

    def test_a_language_model_becomes_a_classifier(self):
        printed = self.train("--task", "labelled-lines", "--text", self.table)
        header = next(line for line in printed.splitlines() if line.startswith("init from"))
        expect_names(self, header, "head.bias", "head.weight")
        expected = {name.replace("decoder.", "encoder."): data
                    for name, data in self.weights(self.base / "model.safetensors").items()}
        initial = self.initial_weights(self.out)
        self.assertEqual({name: data for name, data in initial.items() if not name.startswith("head.")}, expected)
        self.succeeds("eval", self.out)
        self.succeeds("predict", self.out, "the hen")
        again = self.folder / "again"
        self.succeeds("train", "--init-from", self.out, *SHORT, "--out", again)
        self.assertEqual(self.initial_weights(again), self.weights(self.out / "model.safetensors"))

    def test_wrong_sizes(self):
        self.refuses_with(["--init-from", self.base, "--embed-dim", 32, "--out", self.out],
                          self.base, "embed_dim", 16, 32)
        self.refuses_with(["--init-from", self.base, "--num-layers", 2, "--out", self.out],
                          self.base, "decoder.blocks.1", "num_layers", 1, 2)
        self.refuses_with(["--init-from", self.base, "--tokenizer", "byte", "--out", self.out],
                          self.base, "tokenizer", "character", "byte")
        self.refuses_with(["--init-from", self.base, "--task", "senses", "--out", self.out],
                          self.base, "text", "senses")

    def test_sources_that_are_not_complete_runs(self):
        damaged = self.folder / "damaged"
        shutil.copytree(self.base, damaged)
        content = bytearray((damaged / "model.safetensors").read_bytes())
        content[-1] ^= 1
        (damaged / "model.safetensors").write_bytes(content)
        self.refuses_with(["--init-from", damaged, "--out", self.out], damaged / "model.safetensors")
        (damaged / "tokenizer.json").write_text("{}")
        self.refuses_with(["--init-from", damaged, "--out", self.out], damaged / "tokenizer.json")
        self.refuses_with(["--init-from", self.folder / "none", "--out", self.out], self.folder / "none")
        self.refuses_with(["--init-from", "", "--out", self.out], "--init-from")

    def test_a_character_that_the_run_does_not_know(self):
        text = self.write("zebra.txt", "the fox and the zebra " * 20)
        self.refuses_with(["--init-from", self.base, "--text", text, "--out", self.out], text, "'z'")
        message = self.refuses(["train", "--init-from", self.base, "--text", text, "--out", self.out])
        self.assertNotIn("--unknown", message)

    def test_files_of_another_run(self):
        other = self.folder / "other-run"
        self.succeeds("train", "--text", self.text, "--max-seq-len", 16, *TINY, *SHORT, "--lr", "2e-3", "--seed", 5,
                      "--out", other)
        for name in ("summary.json", "recipe.toml"):
            mixed = self.folder / f"mixed-{name}"
            shutil.copytree(self.base, mixed)
            shutil.copy(other / name, mixed / name)
            self.refuses_with(["--init-from", mixed, "--out", self.out], mixed / name)

    def test_a_text_beside_a_classifier(self):
        run = self.folder / "classifier"
        self.succeeds("train", "--task", "labelled-lines", "--text", self.table, *TINY, *SHORT, "--out", run)
        self.refuses_with(["--init-from", run, "--text", self.text, "--out", self.out], self.text, "--task text")
        self.succeeds("train", "--init-from", run, "--text", self.table, "--print-config")

    def test_resume_does_not_need_the_other_run(self):
        source = self.folder / "source"
        shutil.copytree(self.base, source)
        process = start("train", "--init-from", source, "--text", self.other_text, *SHORT[:2], *SHORT[6:],
                        "--max-steps", 100000, "--eval-every", 100000, "--checkpoint-every", 100000, "--out", self.out)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: checkpoints(self.out), process))
        kill(process)
        self.assertEqual(last_step(self.out), 0)
        shutil.rmtree(source)
        self.succeeds("train", "--resume", self.out, "--max-steps", 6, "--eval-every", 3)
        whole = self.folder / "whole"
        self.succeeds("train", "--init-from", self.base, "--text", self.other_text, *SHORT, "--out", whole)
        self.assertEqual(best_weights_of(self.out), best_weights_of(whole))
        message = self.refuses(["train", "--resume", self.out, "--max-steps", 9, "--init-from", self.base])
        expect_names(self, message, "--resume", "--init-from")

    def test_sweep(self):
        arguments = ["train", "--init-from", self.base, "--text", self.other_text, *SHORT, "--out", self.out]
        self.succeeds(*arguments, "--sweep", "lr=1e-3,3e-3")
        for name in ("lr=0.001", "lr=0.003"):
            self.assertEqual(json.loads((self.out / name / "data.json").read_text())["init_from"],
                             run_id_of(self.base))
            self.assertEqual(self.initial_weights(self.out / name), self.weights(self.base / "model.safetensors"))
        self.succeeds(*arguments, "--sweep", "lr=1e-3,3e-3")
        message = self.refuses(["train", *arguments[3:], "--max-seq-len", 16, *TINY, "--sweep",
                                "lr=1e-3,3e-3"])
        expect_names(self, message, self.out / "lr=0.001", "init_from", run_id_of(self.base))
        expect_names(self, self.refuses([*arguments[:-1], self.folder / "other", "--sweep", "num_layers=1,2"]),
                     "--sweep num_layers=2", "num_layers", 1, 2)
        self.assertFalse((self.folder / "other").exists())

    def test_epochs_use_the_tokenizer_of_the_run(self):
        text = self.write("short.txt", "the hen " * 50)  # 400 tokens, 360 of them training data: 22 sequences
        printed = self.succeeds("train", "--init-from", self.base, "--text", text, "--batch-size", 11, "--epochs", 2,
                                "--warmup-steps", 0, "--threads", 1, "--out", self.out).stdout
        self.assertRegex(printed, r"(?m)^epochs +2 = 4 steps$")
        self.succeeds("train", "--resume", self.out, "--epochs", 3)
        self.assertEqual(json.loads((self.out / "summary.json").read_text())["steps"], 6)


if __name__ == "__main__":
    unittest.main()
