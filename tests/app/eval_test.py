"""attend eval on validation data and on files.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import shutil
import unittest

from attend_command import CommandTest, attend
from small_runs import crc32c, kill, last_step, start, wait_for, write_with_checksum
from text_run import TEXT, TextRunTest


class Eval(TextRunTest):
    def measure(self, *arguments):
        return json.loads(self.succeeds("eval", self.run_directory, *arguments, "--json").stdout)

    def test_validation_data_and_the_same_text_as_a_file_agree(self):
        validation = (TEXT * 100)[len(TEXT) * 90:]
        expected = self.measure()
        file = self.write("validation.txt", validation)
        measured = self.measure(file)
        self.assertEqual(measured.pop("file"), str(file))
        self.assertEqual(measured, expected)
        self.assertEqual(expected["val_targets"], len(validation) - 1)

    def test_prints_loss_and_number_of_tokens(self):
        text = self.succeeds("eval", self.run_directory).stdout
        self.assertRegex(text, r"^val loss    \d\.\d{4} \(239 tokens\)\nperplexity  \d+\.\d{3}\n$")
        file = self.write("ten.txt", (TEXT * 10)[:10])
        text = self.succeeds("eval", self.run_directory, file).stdout
        self.assertRegex(text, rf"^val loss    \d\.\d{{4}} \(9 tokens of {file}\)\n")

    def test_takes_a_device_and_threads(self):
        expected = self.measure()["val_loss"]
        found = self.measure("--device", "cpu", "--threads", 1)["val_loss"]
        self.assertAlmostEqual(found, expected, places=5)
        self.refuses(["eval", self.run_directory, "--device", "cuda:99"], "cuda:99 is not available")

    def test_short_and_unusual_texts(self):
        self.assertEqual(self.measure(self.write("two.txt", "Fü"))["val_targets"], 1)
        unusual = self.measure(self.write("unusual.txt", TEXT[::-1] * 9))
        self.assertGreater(unusual["val_loss"], 2 * self.measure()["val_loss"])

    def test_invalid_texts(self):
        for name, text, expected in (("zebra.txt", "Füchse, z", "zebra.txt: unknown character ','"),
                                     ("one.txt", "F", "one.txt: expected at least two tokens"),
                                     ("empty.txt", "", "empty.txt: the file is empty")):
            self.refuses(["eval", self.run_directory, self.write(name, text)], expected)
        self.refuses(["eval", self.run_directory, self.folder / "none.txt"], "no such file")
        self.refuses(["eval", self.run_directory, self.folder / "one.txt", "--label-column", "x"], "--label-column",
                     "'text'")
        senses = self.folder / "senses"
        attend("train", "--out", senses, "--max-steps", 1, "--num-layers", 0)
        self.refuses(["eval", senses, self.folder / "text.txt"], "senses", "reads no file")


class BestOrLast(CommandTest):
    """A run whose last weights are worse than its best weights: from step 20, its learning rate is
    too high."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        setting = ["--embed-dim", 16, "--batch-size", 8, "--schedule", "constant", "--warmup-steps", 0, "--eval-every",
                   10]
        cls().succeeds("train", "--out", cls.run_directory, "--max-steps", 20, *setting)
        cls().succeeds("train", "--resume", cls.run_directory, "--max-steps", 40, "--lr", 0.5)

    def test_eval_uses_the_requested_weights(self):
        lines = [json.loads(line) for line in
                 (self.run_directory / "metrics.jsonl").read_text().splitlines()]
        losses = [line["val_loss"] for line in lines if "val_loss" in line]
        self.assertLess(min(losses), losses[-1])
        for flags, expected in (([], min(losses)), (["--weights", "best"], min(losses)),
                                (["--weights", "last"], losses[-1])):
            measured = json.loads(self.succeeds("eval", self.run_directory, *flags, "--json").stdout)
            self.assertAlmostEqual(measured["val_loss"], expected, places=5, msg=flags)

    def test_generate_and_export_use_the_requested_weights(self):
        def text(weights):
            return self.succeeds("generate", self.run_directory, "--prompt", "the", "--max-new-tokens", 50,
                                 "--seed", 1, "--weights", weights).stdout

        def exported(weights):
            path = self.folder / (weights + ".pt")
            self.succeeds("export", self.run_directory, "-o", path, "--weights", weights)
            return path.read_bytes()

        self.assertNotEqual(text("best"), text("last"))
        self.assertNotEqual(exported("best"), exported("last"))

    def test_weights_of_another_model(self):
        other = self.folder / "other"
        shutil.copytree(self.run_directory, other)
        recipe = (other / "recipe.toml").read_text()
        self.assertIn("embed_dim = 16", recipe)
        (other / "recipe.toml").write_text(recipe.replace("embed_dim = 16", "embed_dim = 32"))
        data = json.loads((other / "data.json").read_text())
        self.assertEqual(data["fixed"]["embed_dim"], "16")
        data["fixed"]["embed_dim"] = "32"
        data["files"]["recipe.toml"] = f"{crc32c((other / 'recipe.toml').read_bytes()):08x}"
        write_with_checksum(other / "data.json", data)
        self.refuses(["eval", other], f"{other}/model.safetensors: the state dict does not match")
        self.refuses(["eval", other, "--weights", "last"],
                     f"{other}/checkpoint/step-000000040: the state dict does not match")

    def test_last_weights_of_a_run_without_an_evaluation(self):
        run = self.folder / "stopped"
        process = start("train", "--out", run, "--embed-dim", 16, "--batch-size", 8, "--max-steps", 100000,
                        "--eval-every", 100000, "--checkpoint-every", 5)
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: last_step(run) > 0, process))
        kill(process)
        self.refuses(["eval", run], "no evaluation with a finite validation loss yet", "--weights last")
        self.succeeds("eval", run, "--weights", "last")


if __name__ == "__main__":
    unittest.main()
