"""attend export: formats, verification, and files that must not be overwritten.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import unittest

from attend_command import CommandTest, expect_names


class Export(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "senses"
        cls().succeeds("train", "--out", cls.run_directory, "--max-steps", 10, "--embed-dim", 16)

    def test_prints_how_the_file_was_verified(self):
        path = self.folder / "model.pt"
        result = self.succeeds("export", self.run_directory, "-o", path)
        self.assertRegex(result.stdout,
                         r"torchscript, \d+ bytes; file verified at \d+ shapes, batch 1 to 4097, "
                         r"length 1 to \d+, max difference \S+\n$")
        self.refuses(["export", self.run_directory, "-o", path], "exists", "--overwrite")
        self.succeeds("export", self.run_directory, "-o", path, "--overwrite")

    def test_files_that_cannot_be_written(self):
        self.refuses(["export", self.run_directory, "-o", self.folder / "no" / "x.pt"], "no such directory")
        self.refuses(["export", self.run_directory, "-o", self.folder], "is not a regular file")
        self.refuses(["export", self.run_directory, "-o", ""], "-o: expected a file name")
        self.refuses(["export", self.run_directory, "-o", self.folder / "x.bin"],
                     "x.bin", "--format torchscript|pt2|onnx|safetensors")
        self.refuses(["export", self.run_directory, "-o", self.folder / "z.pt", "--format", "tf"],
                     "--format", "'tf'")

    def test_format_from_the_extension_or_the_flag(self):
        for name, flags, magic in (("x.pt", (), b"PK"), ("x.pt2", (), b"PK"),
                                   ("x.onnx", (), b"\x08"), ("x.safetensors", (), None),
                                   ("x", ("--format", "pt2"), b"PK"),
                                   ("y.pt", ("--format", "onnx"), b"\x08")):
            with self.subTest(name):
                result = self.succeeds("export", self.run_directory, "-o", self.folder / name, *flags)
                self.assertIn(f"{(self.folder / name).stat().st_size} bytes", result.stdout)
                if magic:
                    self.assertEqual((self.folder / name).read_bytes()[:len(magic)], magic)
        weights = [json.loads(self.succeeds("inspect", path, "--json").stdout)["tensors"]
                   for path in (self.folder / "x.safetensors", self.run_directory / "model.safetensors")]
        self.assertEqual(weights[0], weights[1])

    def test_external_data(self):
        path = self.folder / "two.onnx"
        result = self.succeeds("export", self.run_directory, "-o", path, "--external-data")
        second = self.folder / "two.onnx.data"
        expect_names(self, result.stdout, f"{path.stat().st_size} bytes", second, f"{second.stat().st_size} bytes")
        self.assertGreater(second.stat().st_size, path.stat().st_size)
        path.unlink()
        self.refuses(["export", self.run_directory, "-o", path], str(second), "exists", "--overwrite")

    def test_dtype(self):
        for format, dtype, name in (("pt", "fp16", "float16"), ("pt2", "fp16", "float16"),
                                    ("onnx", "fp16", "float16"), ("onnx", "bf16", "bfloat16"),
                                    ("safetensors", "bf16", "bfloat16")):
            with self.subTest(format, dtype=dtype):
                path = self.folder / f"{dtype}.{format}"
                result = self.succeeds("export", self.run_directory, "-o", path, "--dtype", dtype)
                self.assertRegex(result.stdout, rf"\n{dtype} changes the outputs by at most 0?\.\d+")
                tensors = json.loads(self.succeeds("inspect", path, "--json").stdout)["tensors"]
                self.assertEqual({tensor["dtype"] for tensor in tensors if "float" in tensor["dtype"]}, {name})
        self.refuses(["export", self.run_directory, "-o", self.folder / "x.onnx", "--dtype", "int8"],
                     "--dtype", "fp16", "int8")

    def test_options_without_effect(self):
        for flags in (["--opset", "20"], ["--opset", "18"], ["--external-data"], ["--with-cache"]):
            self.refuses(["export", self.run_directory, "-o", self.folder / "unused.pt", *flags], flags[0], "torchscript")
        self.refuses(["export", self.run_directory, "-o", self.folder / "unused.onnx", "--opset", "16"], "--opset", "16")

    def test_the_files_of_the_run_are_not_overwritten(self):
        def files():
            return {path: path.read_bytes() for path in self.run_directory.rglob("*")
                    if path.is_file()}

        before = files()
        checkpoint = next(self.run_directory.glob("checkpoint/step-*"))
        for file in ("recipe.toml", "data.json", "tokenizer.json", "metrics.jsonl", "summary.json",
                     "embeddings.tsv", "metadata.tsv", "projector_config.pbtxt", ".lock",
                     "checkpoint/x.pt", checkpoint / "manifest.json", "tensorboard/x.pt"):
            self.refuses(["export", self.run_directory, "-o", self.run_directory / file, "--overwrite"],
                         f"is a file of the run {self.run_directory}")
        self.refuses(["export", "senses", "-o", "senses/../senses/./data.json", "--overwrite"],
                     "is a file of the run senses", cwd=self.folder)
        self.assertTrue(files() == before, "a rejected command changed files")
        inside = self.run_directory / "model.pt"
        self.succeeds("export", self.run_directory, "-o", inside)
        inside.unlink()


if __name__ == "__main__":
    unittest.main()
