"""Runs with a subword tokenizer.

Run by CTest with ATTEND set to the built command; the export test needs torch, and the
SentencePiece test needs its Python package; otherwise they are skipped.
"""

import base64
import json
import pathlib
import shutil
import tempfile
import unittest

from small_runs import RunsTest, crc32c, write_with_checksum
from small_runs import attend as run_attend

try:
    import torch
except ImportError:
    torch = None
try:
    import sentencepiece
except ImportError:
    sentencepiece = None

WORDS = "the fox and the hen  sat by the river\nFüchse fressen 世界\n\n\tand then the fox ran\n"
TEXT = "".join(WORDS[i % 30:] for i in range(300))
FLAGS = ["--tokenizer", "subword", "--vocab-size", 320, "--max-seq-len", 16, "--num-layers", 1, "--embed-dim", 16,
         "--schedule", "constant", "--eval-every", 10, "--checkpoint-every", 10]


def attend(*arguments):
    """Runs the command. Invalid UTF-8, which a barely trained model may generate, is replaced."""
    return run_attend(*arguments, errors="replace")


class Subwords(RunsTest):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.shared = pathlib.Path(cls.temporary.name)
        cls.text = cls.shared / "text.txt"
        cls.text.write_bytes(TEXT.encode())
        cls.run_directory = cls.shared / "run"
        result = attend("train", "--text", cls.text, "--out", cls.run_directory, "--max-steps", 20,
                        *FLAGS)
        if "AddressSanitizer" in result.stderr:
            raise unittest.SkipTest(result.stderr)
        assert result.returncode == 0, result.stderr

    def train(self, *arguments):
        return super().train(*arguments, errors="replace")

    def use(self, *arguments):
        result = attend(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_a_run_contains_the_sentencepiece_model(self):
        self.assertEqual(json.loads((self.run_directory / "tokenizer.json").read_text()),
                         {"tokenizer": "subword"})
        self.assertGreater((self.run_directory / "tokenizer.model").stat().st_size, 1000)
        self.assertEqual(json.loads(self.use("inspect", self.run_directory, "--json"))["vocab_size"],
                         320)

    def test_sentencepiece_prints_nothing(self):
        run = self.folder / "quiet"
        result = self.train("--text", self.text, "--out", run, "--max-steps", 1, *FLAGS)
        self.assertNotIn("sentencepiece", (result.stdout + result.stderr).lower())
        self.assertNotIn("LOG(", result.stderr)

    def test_resuming_gives_the_same_bytes(self):
        run = self.folder / "run"
        self.train("--text", self.text, "--out", run, "--max-steps", 10, *FLAGS)
        self.train("--resume", run, "--max-steps", 20)
        self.same_result(run, self.run_directory)
        for name in ("tokenizer.json", "tokenizer.model"):
            self.assertEqual((run / name).read_bytes(), (self.run_directory / name).read_bytes())

    def test_eval_and_generate(self):
        summary = json.loads((self.run_directory / "summary.json").read_text())
        measured = json.loads(self.use("eval", self.run_directory, "--json"))
        self.assertAlmostEqual(measured["val_loss"], summary["val_loss"], places=6)
        # Words and characters that are not in the training text.
        other = self.folder / "other.txt"
        other.write_text("zebra \u2581 \U0001F600\n" * 5)
        self.assertGreater(json.loads(self.use("eval", self.run_directory, other, "--json"))
                           ["val_loss"], summary["val_loss"])
        found = self.use("generate", self.run_directory, "--prompt", "the  fox", "--max-new-tokens", 20)
        self.assertTrue(found.startswith("the  fox"), found)

    def test_overwrite_removes_the_sentencepiece_model(self):
        run = self.folder / "run"
        shutil.copytree(self.run_directory, run)
        self.train("--text", self.text, "--out", run, "--max-steps", 1, "--num-layers", 0, "--max-seq-len", 16,
                   "--overwrite")
        self.assertFalse((run / "tokenizer.model").exists())

    def test_damaged_sentencepiece_models(self):
        run = self.folder / "run"
        shutil.copytree(self.run_directory, run)
        model = run / "tokenizer.model"
        whole = model.read_bytes()
        record = json.loads((run / "data.json").read_text())
        for content in (b"", whole[:len(whole) // 2], b"\0" * 100):
            model.write_bytes(content)
            for arguments in (["eval", run], ["generate", run], ["train", "--resume", run]):
                result = attend(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("tokenizer.model", result.stderr)
            record["files"]["tokenizer.model"] = f"{crc32c(content):08x}"
            write_with_checksum(run / "data.json", record)
            for arguments, expected in (
                    (["eval", run], "not a SentencePiece model"),
                    (["generate", run], "not a SentencePiece model"),
                    (["train", "--resume", run], "not a SentencePiece model")):
                result = attend(*arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"tokenizer.model: {expected}", result.stderr)
        model.unlink()
        self.assertIn("tokenizer.model: no such file", attend("eval", run).stderr)

    def test_impossible_vocabulary_sizes(self):
        for size, expected in ((200, "expected at least"), (100000, "expected at most")):
            result = self.fails(2, ["--text", self.text, "--out", self.folder / "run", "--tokenizer", "subword",
                                    "--vocab-size", size], f"{size} subwords", expected, "--vocab-size")
            self.assertNotIn("--text", result.stderr)

    @unittest.skipUnless(torch, "needs torch for Python")
    def test_an_export_contains_the_same_files(self):
        file = self.folder / "model.pt"
        self.use("export", self.run_directory, "-o", file)
        extra = {"tokenizer.json": "", "tokenizer.model": "", "recipe.toml": ""}
        torch.jit.load(file, _extra_files=extra)
        for name in ("tokenizer.json", "tokenizer.model"):
            self.assertEqual(extra[name], (self.run_directory / name).read_bytes())

    @unittest.skipUnless(torch, "needs torch for Python")
    def test_a_pt2_archive_contains_the_binary_file_as_base64(self):
        file = self.folder / "model.pt2"
        self.use("export", self.run_directory, "-o", file)
        extra = {"tokenizer.json": "", "tokenizer.model.base64": ""}
        torch.export.load(file, extra_files=extra)
        self.assertEqual(extra["tokenizer.json"], (self.run_directory / "tokenizer.json").read_text())
        self.assertEqual(base64.b64decode(extra["tokenizer.model.base64"]),
                         (self.run_directory / "tokenizer.model").read_bytes())

    def test_an_onnx_file_contains_the_binary_file_as_base64(self):
        file = self.folder / "model.onnx"
        self.use("export", self.run_directory, "-o", file)
        encoded = base64.b64encode((self.run_directory / "tokenizer.model").read_bytes())
        self.assertIn(b"tokenizer.model.base64", file.read_bytes())
        self.assertIn(encoded, file.read_bytes())

    @unittest.skipUnless(sentencepiece, "needs sentencepiece for Python")
    def test_the_sentencepiece_package_agrees(self):
        processor = sentencepiece.SentencePieceProcessor(
            model_file=str(self.run_directory / "tokenizer.model"))
        self.assertEqual(processor.decode(processor.encode(TEXT)), TEXT)
        measured = json.loads(self.use("eval", self.run_directory, self.text, "--json"))
        self.assertEqual(measured["val_targets"], len(processor.encode(TEXT)) - 1)


if __name__ == "__main__":
    unittest.main()
