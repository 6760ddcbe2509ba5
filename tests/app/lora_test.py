"""attend train --lora-rank: low-rank adapters of the weights of another run, and the commands on such a run.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import shutil
import unittest

from attend_command import CommandTest, expect_names
from small_runs import checkpoints, read_safetensors, run_id_of

TINY = ["--num-layers", 2, "--embed-dim", 16, "--num-heads", 2]
SHORT = ["--batch-size", 4, "--max-steps", 6, "--eval-every", 3, "--warmup-steps", 0, "--threads", 1]


class Lora(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the fox and the hen sat. " * 40)
        cls.other_text = cls.write("other.txt", "the hen and the fox sat. " * 40)
        cls.base = cls.folder / "base"
        cls().succeeds("train", "--text", cls.text, "--max-seq-len", 16, *TINY, *SHORT, "--lr", "3e-3", "--seed", 5,
                       "--out", cls.base)
        cls.run_directory = cls.folder / "run"
        cls.printed = cls().succeeds("train", *cls.tuning(), "--out", cls.run_directory).stdout

    @classmethod
    def tuning(cls):
        return ["--init-from", cls.base, "--text", cls.other_text, *SHORT, "--lr", "1e-2", "--lora-rank", 2,
                "--lora-alpha", 4, "--lora-dropout", 0.1, "--lora-targets", "qkv,feed_forward", "--lora-rslora"]

    def json_of(self, *arguments):
        return json.loads(self.succeeds(*arguments, "--json").stdout)

    def test_the_run_contains_the_adapters_and_names_the_base(self):
        self.assertFalse((self.run_directory / "model.safetensors").exists())
        own = read_safetensors(self.run_directory / "adapter.safetensors")
        self.assertEqual({name.split(".lora")[0].rsplit(".", 1)[-1] for name in own}, {"qkv", "up", "down"})
        latest = read_safetensors(checkpoints(self.run_directory)[-1] / "model.safetensors")
        self.assertEqual(set(latest), set(own))
        record = json.loads((self.run_directory / "data.json").read_text())
        self.assertEqual(record["base"]["path"], str(self.base))
        header = next(line for line in self.printed.splitlines() if line.startswith("adapters"))
        trained = sum(len(data) // 4 for _, data in own.values())
        expect_names(self, header, 2, trained, "qkv,feed_forward")

    def test_commands_load_the_base_and_the_adapters(self):
        report = self.json_of("inspect", self.run_directory)
        self.assertEqual(report["base"]["path"], str(self.base))
        self.assertEqual([report["config"]["lora"][key] for key in
                          ("lora_rank", "lora_alpha", "lora_dropout", "lora_targets", "lora_rslora")],
                         [2, 4, 0.1, "qkv,feed_forward", True])
        names = json.dumps(report["tensors"])
        for name in ("embedding.token.weight", "decoder.blocks.1.attention.qkv.lora_value.B"):
            self.assertIn(name, names)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertAlmostEqual(self.json_of("eval", self.run_directory)["val_loss"], summary["val_loss"], places=6)
        self.assertIn("the", self.succeeds("generate", self.run_directory, "--prompt", "the").stdout)
        self.assertRegex(self.succeeds("runs", self.folder).stdout, r"(?m)^run .* finished$")
        self.succeeds("explain", self.run_directory, "--text", "the hen")
        self.succeeds("report", self.run_directory, "-o", self.folder / "report.html")

    def test_exports_contain_the_adapters_or_their_merged_weights(self):
        for name in ("model.pt", "model.pt2", "model.onnx"):
            with self.subTest(name):
                self.succeeds("export", self.run_directory, "-o", self.folder / name)
                self.succeeds("export", self.run_directory, "--merge", "-o", self.folder / ("merged-" + name))
        for name, merged in (("all", False), ("merged", True)):
            file = self.folder / f"{name}.safetensors"
            self.succeeds("export", self.run_directory, *(["--merge"] if merged else []), "-o", file)
            self.assertEqual(any(".lora" in each for each in read_safetensors(file)), not merged)
        merged = read_safetensors(self.folder / "merged.safetensors")
        self.assertEqual(set(merged), set(read_safetensors(self.base / "model.safetensors")))
        expect_names(self, self.refuses(["export", self.base, "--merge", "-o", self.folder / "base.pt"]), "--merge",
                     self.base)

    def test_resume_continues(self):
        run, whole = self.folder / "resumed", self.folder / "whole"
        arguments = [*self.tuning(), "--schedule", "constant"]
        self.succeeds("train", *arguments, "--out", run)
        self.succeeds("train", "--resume", run, "--max-steps", 9)
        arguments[arguments.index("--max-steps") + 1] = 9
        self.succeeds("train", *arguments, "--out", whole)
        self.assertEqual(read_safetensors(run / "adapter.safetensors"), read_safetensors(whole / "adapter.safetensors"))
        self.assertEqual(json.loads((run / "summary.json").read_text())["steps"], 9)
        message = self.refuses(["train", "--resume", run, "--max-steps", 12, "--lora-rank", 3])
        expect_names(self, message, "lora_rank", 2, 3)

    def test_a_base_that_is_missing_or_has_changed(self):
        base, run = self.folder / "old", self.folder / "of-old"
        shutil.copytree(self.base, base)
        self.succeeds("train", "--init-from", base, *SHORT, "--lora-rank", 1, "--out", run)
        checksum = json.loads((run / "data.json").read_text())["base"]["checksum"]
        commands = (["eval", run], ["generate", run], ["inspect", run], ["export", run, "-o", self.folder / "x.pt"],
                    ["train", "--resume", run, "--max-steps", 9])
        shutil.rmtree(base)
        for command in commands:
            expect_names(self, self.refuses(command), run, base, checksum)
        self.succeeds("train", "--text", self.text, "--max-seq-len", 16, *TINY, *SHORT, "--seed", 8, "--out", base)
        for command in commands:
            expect_names(self, self.refuses(command), run, base, checksum)

    def test_overwrite_keeps_the_runs_that_the_new_run_needs(self):
        base, run = self.folder / "kept", self.folder / "of-kept"
        shutil.copytree(self.base, base)
        tuning = [*SHORT, "--lora-rank", 1]
        self.succeeds("train", "--init-from", base, *tuning, "--out", run)
        for source in (base, run):
            message = self.refuses(["train", "--init-from", source, *tuning, "--out", base, "--overwrite"])
            expect_names(self, message, source, base)
        self.assertEqual(run_id_of(base), run_id_of(self.base))
        self.succeeds("generate", run, "--prompt", "the")

    def test_options(self):
        out = ["--out", self.folder / "none"]
        for flag, value in (("--lora-alpha", 3), ("--lora-dropout", 0.1), ("--lora-targets", "qkv")):
            expect_names(self, self.refuses(["train", "--init-from", self.base, flag, value, *out]), flag,
                         "--lora-rank")
        expect_names(self, self.refuses(["train", "--init-from", self.base, "--lora-rslora", *out]), "--lora-rslora",
                     "--lora-rank")
        expect_names(self, self.refuses(["train", "--lora-rank", 2, *out]), "lora_rank", 2, "--init-from")
        expect_names(self, self.refuses(["train", "--init-from", self.base, "--lora-rank", 2, "--lora-alpha", 0, *out]),
                     "lora_alpha", 0)
        message = self.refuses(["train", "--init-from", self.base, "--lora-rank", 2, "--lora-targets", "q_proj", *out])
        expect_names(self, message, "lora_targets", "q_proj", "decoder.blocks.*.attention.qkv")
        self.assertFalse((self.folder / "none").exists())


class Adapters(CommandTest):
    """Adapters in the format of PEFT, of a published model."""

    def json_of(self, *arguments):
        return json.loads(self.succeeds(*arguments, "--json").stdout)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "the fox and the hen sat. " * 40)
        cls.base, cls.adapter = cls.folder / "base", cls.folder / "adapter"
        cls().succeeds("train", "--text", cls.text, "--max-seq-len", 16, *TINY, *SHORT, "--out", cls.folder / "run")
        cls().succeeds("export", cls.folder / "run", "--format", "hf", "-o", cls.base)
        cls().tune(cls.base, cls.folder / "tuned")
        cls().succeeds("export", cls.folder / "tuned", "--format", "peft", "-o", cls.adapter)

    def tune(self, base, out):
        self.succeeds("train", "--init-from", base, "--text", self.text, "--max-seq-len", 16, *SHORT, "--lora-rank", 2,
                      "--lr", "1e-2", "--out", out)

    def test_commands_accept_the_adapter(self):
        for command in (["eval", self.adapter, self.text], ["generate", self.adapter, "--prompt", "the"],
                        ["export", self.adapter, "-o", self.folder / "adapted.pt"],
                        ["export", self.adapter, "--merge", "--format", "hf", "-o", self.folder / "merged"],
                        ["export", self.adapter, "--format", "peft", "-o", self.folder / "again"]):
            self.succeeds(*command)

    def test_inspect(self):
        report = json.loads(self.succeeds("inspect", self.adapter, "--json").stdout)
        self.assertEqual((report["kind"], report["path"]), ("peft", str(self.adapter)))
        self.assertEqual(report["config"]["base_model_name_or_path"], str(self.base))
        own = read_safetensors(self.adapter / "adapter_model.safetensors")
        self.assertEqual({each["name"] for each in report["tensors"]}, set(own))
        # query, key and value are one layer of a GPT-NeoX.
        expect_names(self, self.succeeds("inspect", self.adapter).stdout, self.base, "lora_A", "r = 6")

    def test_an_adapter_of_a_tied_head(self):
        base, run = self.folder / "tied", self.folder / "tied-run"
        shutil.copytree(self.base, base)
        self.assertTrue(json.loads((base / "config.json").read_text())["tie_word_embeddings"])
        self.succeeds("train", "--init-from", base, "--text", self.text, "--max-seq-len", 16, *SHORT, "--lora-rank", 2,
                      "--lora-targets", "head,out", "--lr", "1e-2", "--out", run)
        self.succeeds("export", run, "--merge", "--format", "hf", "-o", self.folder / "untied")
        config = json.loads((self.folder / "untied/config.json").read_text())
        self.assertIs(config["tie_word_embeddings"], False)
        names = set(read_safetensors(self.folder / "untied/model.safetensors"))
        embedding = {name for name in names if "embed" in name}
        self.assertEqual(len(embedding), 2, names)  # of the input, embed_in or wte, and of the output
        self.succeeds("export", run, "--format", "peft", "-o", self.folder / "tied-adapter")
        for folder in ("untied", "tied-adapter"):
            found = self.json_of("eval", self.folder / folder, self.text)["val_loss"]
            self.assertAlmostEqual(found, self.json_of("eval", run, self.text)["val_loss"], places=4)
        again = self.folder / "after-adapter"  # begins with the adapter that attend has written
        self.succeeds("train", "--init-from", self.folder / "tied-adapter", "--text", self.text, "--max-seq-len", 16, *SHORT,
                      "--lr", "1e-9", "--out", again)
        self.assertAlmostEqual(self.json_of("eval", again)["val_loss"], self.json_of("eval", run)["val_loss"], places=4)
        self.succeeds("export", run, "--merge", "-o", self.folder / "tied.onnx")
        self.succeeds("train", "--init-from", run, *SHORT, "--out", self.folder / "after")

    def test_an_adapter_of_an_adapter_is_not_written(self):
        run, out = self.folder / "tuned-again", self.folder / "adapter-again"
        self.tune(self.adapter, run)
        expect_names(self, self.refuses(["export", run, "--format", "peft", "-o", out]), run, self.adapter, "--merge")
        self.assertFalse(out.exists())
        self.succeeds("export", run, "--merge", "--format", "hf", "-o", out)


if __name__ == "__main__":
    unittest.main()
