"""attend inspect on runs and files, and invalid input.

Run by CTest with ATTEND set to the built command. If this Python has torch, the FLOPs are
compared with PyTorch's count for the exported model.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import unittest
import zipfile

from attend_command import CommandTest, expect_names
from small_runs import checkpoints, crc32c, write_with_checksum

try:
    import torch
except ImportError:
    torch = None

MODEL = ["--num-layers", "2", "--num-heads", "2", "--embed-dim", "8", "--max-seq-len", "16", "--max-steps", "5",
         "--batch-size", "4"]


class InspectTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        cls.exported = cls.folder / "exported.bin"  # no known extension
        cls().succeeds("train", "--out", cls.run_directory, *MODEL)
        cls().succeeds("export", cls.run_directory, "--format", "torchscript", "-o", cls.exported)

    def inspect(self, *arguments):
        return self.succeeds("inspect", *arguments).stdout

    def inspect_json(self, *arguments):
        return json.loads(self.inspect(*arguments, "--json"))

    def refuses_path(self, path, *expected):
        return self.refuses(["inspect", path], path.name, *expected)

    def unfinished(self, name, *files):
        """Returns a run that has only these files of the finished run."""
        directory = self.folder / name
        directory.mkdir()
        for file in files:
            copy = shutil.copytree if (self.run_directory / file).is_dir() else shutil.copy
            copy(self.run_directory / file, directory / file)
        return directory


class Documentation(InspectTest):
    def test_the_page_lists_the_keys_of_each_kind(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "docs/command.md").read_text()
        section = page.split("\n## Inspecting files\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \| (.*?) \|", section, re.MULTILINE)
        documented = {key: kinds for keys, kinds in rows for key in re.findall(r"`(\w+)`", keys)}
        weights = self.run_directory / "model.safetensors"
        exported = [self.folder / name for name in ("keys.onnx", "keys.pt2")]
        for path in exported:
            self.succeeds("export", self.run_directory, "-o", path)
        unfinished = self.unfinished("keys", "recipe.toml", "data.json", "tokenizer.json", "checkpoint", "metrics.jsonl")
        found = {}
        for path in (self.run_directory, unfinished, checkpoints(self.run_directory)[-1], weights, self.exported,
                     *exported):
            report = self.inspect_json(path)
            for key in report:
                self.assertIn(key, documented, path)
                found.setdefault(key, set()).add(report["kind"])
        for key, kinds in found.items():
            expected = {kind for kind in ("run", "checkpoint", "safetensors", "torchscript", "pt2", "onnx")
                        if documented[key] == "all" or re.search(rf"\b{kind}\b", documented[key])}
            self.assertEqual(kinds, expected, key)
        self.assertEqual(set(documented) - set(found), {"init_from", "replaced"})


class Runs(InspectTest):
    def test_config_results_and_weights(self):
        text = self.inspect(self.run_directory)
        for expected in ("kind        run\n", "task        senses\n", "max_seq_len 16",
                         "embed_dim = 8 (default 64)", "trained     5 steps, ", "accuracy",
                         "token.weight", "float32", "(24, 8)", "%",
                         "FLOPs", "1 multiply-add = 2 FLOPs"):
            self.assertIn(expected, text)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertIn(f"train loss  {summary['train_loss']:.4f}\n", text)
        self.assertIn(f"val loss    {summary['val_loss']:.4f} (best, step {summary['best_step']})\n", text)
        self.assertNotIn("\n            max_seq_len = 16", text, "the default of the task")

    def test_report_of_the_training(self):
        report = (self.run_directory / "report.txt").read_text()
        for expected in ("Nearest token embeddings", "Attention weights"):
            self.assertIn(expected, report)
        self.assertTrue(self.inspect(self.run_directory).endswith("\n" + report))
        self.assertEqual(self.inspect_json(self.run_directory)["report"], report)

    def test_a_damaged_report_is_refused(self):
        run = self.folder / "damaged-report"
        shutil.copytree(self.run_directory, run)
        report = run / "report.txt"
        report.write_text(report.read_text().replace("0.", "1.", 1))
        expect_names(self, self.refuses(["inspect", run]), report, "summary.json")
        self.succeeds("train", "--resume", run)
        self.assertIn("Attention weights", self.succeeds("inspect", run).stdout)

    def test_json_has_exact_numbers(self):
        found = self.inspect_json(self.run_directory)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        del summary["crc32c"]  # of the file
        self.assertEqual(found["summary"], summary)
        self.assertEqual(found["totals"]["parameters"], summary["parameters"])
        self.assertEqual(found["totals"]["bytes"], 4 * summary["parameters"])
        self.assertEqual(found["config"]["model"]["embed_dim"], 8)
        self.assertEqual(found["config"]["model"]["positions"], "learned")
        self.assertIn("lr", found["config"]["training"])
        self.assertEqual(found["config"]["training"]["threads"], "auto")
        self.assertIn("embed_dim", found["overrides"])
        weight = next(t for t in found["tensors"] if t["name"] == "decoder.blocks.0.attention.qkv.weight")
        self.assertEqual(weight, {"name": "decoder.blocks.0.attention.qkv.weight", "shape": [24, 8],
                                  "dtype": "float32", "elements": 192, "bytes": 768,
                                  "role": "parameter"})

    def test_flops_by_hand(self):
        found = self.inspect_json(self.run_directory)
        block = 3 * 8 * 8 + 8 * 8 + 2 * 8 * 32 + 2 * 16 * 8
        self.assertEqual(found["flops_per_token"], 2 * (2 * block + 8 * found["vocab_size"]))

    @unittest.skipIf(torch is None, "this Python has no torch")
    def test_flops_of_pytorch(self):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.utils.flop_counter import FlopCounterMode

        model = torch.jit.load(self.exported)
        # PyTorch does not count FLOPs of the fused CPU attention.
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            model(torch.zeros(1, 16, dtype=torch.long))
        self.assertEqual(self.inspect_json(self.run_directory)["flops_per_token"],
                         counter.get_total_flops() / 16)

    def test_unfinished_run_shows_its_config(self):
        unfinished = self.unfinished("unfinished", "recipe.toml", "data.json")
        self.assertIn("run (unfinished)", self.inspect(unfinished))
        found = self.inspect_json(unfinished)
        self.assertFalse(found["finished"])
        self.assertEqual(found["config"]["model"]["num_layers"], 2)
        self.assertNotIn("tensors", found)

    def test_unfinished_run_shows_its_weights(self):
        files = ["recipe.toml", "data.json", "tokenizer.json"]
        tensors = self.inspect_json(self.run_directory)["tensors"]
        for file, weights in (("model.safetensors", "best"), ("checkpoint", "last")):
            found = self.inspect_json(self.unfinished("with-" + weights, *files, file))
            self.assertFalse(found["finished"])
            self.assertEqual(found["weights"], weights)
            self.assertEqual(found["tensors"], tensors)
        self.assertIn("qkv", self.inspect(self.folder / "with-last"))

    def test_unfinished_run_shows_its_step_and_best_loss(self):
        run = self.unfinished("state", "recipe.toml", "data.json", "tokenizer.json", "checkpoint")
        summary = json.loads((self.run_directory / "summary.json").read_text())
        found = self.inspect_json(run)
        self.assertEqual((found["checkpoint_step"], found["best_step"]), (5, summary["best_step"]))
        self.assertEqual(found["val_loss"], summary["val_loss"])
        expect_names(self, self.inspect(run), "step 5", f"{summary['val_loss']:.4f}")

    def test_unfinished_run_shows_its_progress_before_the_first_checkpoint(self):
        run = self.unfinished("progress", "recipe.toml", "data.json", "tokenizer.json", "metrics.jsonl")
        (listed,) = json.loads(self.succeeds("runs", run, "--json").stdout)
        found = self.inspect_json(run)
        summary = json.loads((self.run_directory / "summary.json").read_text())
        self.assertEqual((found["steps"], found["best_step"]), (5, summary["best_step"]))
        self.assertEqual((found["steps"], found["val_loss"]), (listed["steps"], listed["val_loss"]))
        expect_names(self, self.inspect(run), "5 of 5", f"{listed['val_loss']:.4f}", f"step {found['best_step']}")

    def test_checkpoint(self):
        folder = next((self.run_directory / "checkpoint").iterdir())
        found = self.inspect_json(folder)
        self.assertEqual((found["kind"], found["checkpoint_step"]), ("checkpoint", 5))
        self.assertEqual(found["totals"]["elements"], self.inspect_json(self.run_directory)["totals"]["elements"])
        damaged = self.folder / "damaged-checkpoint"
        shutil.copytree(folder, damaged)
        (damaged / "trainer_state.json").write_text('{"step": true')
        message = self.refuses_path(damaged, "trainer_state.json")
        self.assertNotIn("json.exception", message)
        self.refuses_path(self.run_directory / "checkpoint", str(checkpoints(self.run_directory)[-1]))

    def custom_run(self, name, *files):
        """Returns a run of a custom module, with these files of the finished run."""
        directory = self.unfinished(name, *files)
        (directory / "recipe.toml").write_text(
            "[training]\nlr = 0.5\nmax_steps = 5\n\n[values]\nchannels = '4'\n")
        data = json.loads((self.run_directory / "data.json").read_text())
        data["fixed"] = {"kind": "custom", "values.channels": "4"}
        data["files"]["recipe.toml"] = f"{crc32c((directory / 'recipe.toml').read_bytes()):08x}"
        write_with_checksum(directory / "data.json", data)
        return directory

    def test_run_of_a_custom_module(self):
        finished = self.custom_run("custom", "summary.json", "model.safetensors", "checkpoint")
        text = self.inspect(finished)
        for expected in ("kind        run\n", "model       custom module\n", "values      channels = 4\n",
                         "overrides   max_steps = 5 (default 400)\n            lr = 0.5 (default 0.003)\n",
                         "trained     5 steps, ", "val loss", "checkpoint  step 5\n", "qkv", "(24, 8)"):
            self.assertIn(expected, text)
        found = self.inspect_json(finished)
        self.assertTrue(found["finished"])
        self.assertEqual(found["config"]["values"], {"channels": "4"})
        self.assertEqual(found["config"]["training"]["lr"], 0.5)
        self.assertEqual(found["overrides"], {"max_steps": 5, "lr": 0.5})
        self.assertNotIn("task", found)
        unfinished = self.custom_run("custom-unfinished", "checkpoint")
        self.assertIn("kind        run (unfinished)\n", self.inspect(unfinished))
        last = self.inspect_json(unfinished)
        self.assertEqual((last["weights"], last["checkpoint_step"]), ("last", 5))
        self.assertEqual(last["tensors"], found["tensors"])
        self.assertNotIn("tensors", self.inspect_json(self.custom_run("custom-empty")))

    def test_damaged_runs_and_other_directories(self):
        empty = self.folder / "empty-folder"
        empty.mkdir()
        self.refuses_path(empty, "not a run directory: it has no recipe.toml")
        for file in ("data.json", "tokenizer.json", "model.safetensors", "summary.json"):
            damaged = self.folder / ("without-" + file)
            shutil.copytree(self.run_directory, damaged)
            (damaged / file).write_text("{")
            self.refuses_path(damaged, file)
        summary = self.run_directory / "summary.json"
        without = json.loads(summary.read_text())
        del without["seconds"]
        write_with_checksum(damaged / "summary.json", without)
        self.refuses_path(damaged, "summary.json", "seconds")


    def test_damaged_checkpoint(self):
        run = self.folder / "with-damaged-checkpoint"
        shutil.copytree(self.run_directory, run)
        file = checkpoints(run)[-1] / "state.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        message = self.refuses(["inspect", run])
        expect_names(self, message, file)

    def test_provenance(self):
        text = self.inspect(self.run_directory)
        found = self.inspect_json(self.run_directory)
        provenance = found["provenance"]
        self.assertEqual(provenance["command"],
                         ["attend", "train", "--out", str(self.run_directory), *MODEL])
        version = self.succeeds("--version").stdout.split()[1]
        self.assertEqual(provenance["version"], version)
        self.assertRegex(provenance["created"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreater(provenance["num_cpus"], 0)
        expect_names(self, text, found["run_id"], provenance["created"], version, f"--out {self.run_directory}",
                     provenance["cpu"], provenance["os"])
        self.assertNotIn(os.uname().nodename, [*provenance["command"], provenance["os"], provenance["cpu"]])
        checkpoint = self.inspect_json(checkpoints(self.run_directory)[-1])
        self.assertEqual(checkpoint["run_id"], found["run_id"])

    def test_files_of_another_run(self):
        other = self.folder / "another"
        self.succeeds("train", "--out", other, *MODEL)
        ids = [self.inspect_json(run)["run_id"] for run in (self.run_directory, other)]
        self.assertNotEqual(*ids)
        for name, named in (("model.safetensors", "model.safetensors"), ("checkpoint", "checkpoint/step-000000005"),
                            ("summary.json", "summary.json")):
            run = self.folder / ("mixed-" + name)
            shutil.copytree(self.run_directory, run)
            if (run / name).is_dir():
                shutil.rmtree(run / name)
                shutil.copytree(other / name, run / name)
            else:
                shutil.copy(other / name, run / name)
            for command in (["inspect", run], ["train", "--resume", run, "--max-steps", 6]):
                expect_names(self, self.refuses(command), run / named, *ids)


class Files(InspectTest):
    def test_safetensors(self):
        path = self.folder / "weights"  # no extension
        shutil.copy(self.run_directory / "model.safetensors", path)
        text = self.inspect(path)
        for expected in ("kind        safetensors\n", "metadata    format = pt\n", "qkv", "(24, 8)"):
            self.assertIn(expected, text)
        found, run = self.inspect_json(path), self.inspect_json(self.run_directory)
        self.assertEqual(found["metadata"]["format"], "pt")
        self.assertEqual(found["totals"]["elements"], run["totals"]["elements"])
        for tensor in run["tensors"]:
            del tensor["role"]
            self.assertIn(tensor, found["tensors"])

    def test_safetensors_of_every_dtype(self):
        bits = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
                "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
                "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
        header, offset = {}, 0
        for dtype, size in bits.items():
            header[dtype] = {"dtype": dtype, "shape": [4], "data_offsets": [offset, offset + size // 2]}
            offset += size // 2
        text = json.dumps(header).encode()
        path = self.folder / "dtypes"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(offset))
        tensors = {tensor["name"]: tensor for tensor in self.inspect_json(path)["tensors"]}
        for dtype, size in bits.items():
            self.assertEqual((tensors[dtype]["elements"], tensors[dtype]["bytes"]), (4, size // 2), dtype)
        self.assertEqual(tensors["F8_E4M3"]["dtype"], "float8_e4m3fn")

    def test_many_tensors_and_long_metadata(self):
        """With quadratic time, this would take minutes."""
        header = {f"layer{i}.weight": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]} for i in range(200000)}
        header["__metadata__"] = {"recipe": "x" * 10_000_000}
        text = json.dumps(header).encode()
        path = self.folder / "many"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(200000))
        printed = self.inspect(path, "--depth", "1")
        self.assertLess(printed.index("layer2.weight"), printed.index("layer10.weight"))
        self.assertLess(len(printed.splitlines()[1]), 400)

    def test_onnx(self):
        path = self.folder / "onnx"  # no extension
        self.succeeds("export", self.run_directory, "--format", "onnx", "-o", path)
        found = self.inspect_json(path)
        self.assertEqual(found["kind"], "onnx")
        self.assertIn("tokens: int64 (batch, length)", found["inputs"])
        self.assertIn("MatMul", found["operators"])
        self.assertIn("recipe.toml", found["metadata"])
        self.assertGreater(found["totals"]["elements"], 500)
        expect_names(self, self.inspect(path), "ONNX", "opset 18", "tokens", "float32")
        damaged = self.folder / "damaged.onnx"
        damaged.write_bytes(path.read_bytes()[:1000])
        self.refuses_path(damaged)

    def test_only_the_header_of_safetensors_is_read(self):
        path = self.folder / "large"
        header = json.dumps({"w": {"dtype": "BF16", "shape": [2**35], "data_offsets": [0, 2**36]}})
        with path.open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode())
            file.truncate(8 + len(header) + 2**36)  # 64 GiB, sparse
        self.assertIn("64.0 GiB", self.inspect(path))
        self.assertEqual(self.inspect_json(path)["totals"]["elements"], 2**35)

    def test_control_characters_in_names_are_escaped(self):
        path = self.folder / "evil"
        header = json.dumps({"__metadata__": {"a": "\x1b[2J"},
                             "\x1b]0;x\n": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})
        path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
        text = self.inspect(path)
        self.assertNotIn("\x1b", text)
        self.assertIn("\\x1b]0;x\\x0a", text)

    def test_torchscript(self):
        text = self.inspect(self.exported)
        for expected in ("kind        TorchScript\n", "forward(tokens: Tensor) -> Tensor",
                         "extra file  recipe.toml", "qkv", "(24, 8)"):
            self.assertIn(expected, text)
        found, run = self.inspect_json(self.exported), self.inspect_json(self.run_directory)
        self.assertEqual(found["totals"]["parameters"], run["totals"]["parameters"])
        self.assertEqual(set(found["extra_files"]), {"recipe.toml", "tokenizer.json"})

    def test_pt2(self):
        path = self.folder / "archive"  # no extension
        self.succeeds("export", self.run_directory, "--format", "pt2", "-o", path)
        text = self.inspect(path)
        for expected in ("kind        pt2 (torch.export)\n",
                         "input       tokens: int64 (s0 = 1.., s1 = 1..16)\n", " operators\n",
                         "extra file  recipe.toml", "qkv", "(24, 8)"):
            self.assertIn(expected, text)
        found, run = self.inspect_json(path), self.inspect_json(self.run_directory)
        self.assertEqual(found["totals"], run["totals"])
        self.assertEqual(found["operators"]["aten::embedding"], 2)
        self.assertEqual(set(found["extra_files"]), {"recipe.toml", "tokenizer.json"})

    def test_other_files(self):
        weights = (self.run_directory / "model.safetensors").read_bytes()
        for name, content, expected in (
                ("empty", b"", "an empty file"),
                ("text", b"Call me Ishmael.", "a text file"),
                ("pickle", b"\x80\x02}q\x00.", "a Python pickle"),
                ("cut", weights[:-1], "bytes"),
                ("cut-in-the-header", weights[:100], "header length"),
                ("header-only", weights[:12], "header length"),
                ("not-json", struct.pack("<Q", 4) + b"{{{{", "not a safetensors file")):
            path = self.folder / name
            path.write_bytes(content)
            self.refuses_path(path, expected)
        self.refuses_path(self.folder / "nowhere", "no such file")

    def test_other_archives(self):
        script = self.exported.read_bytes()
        cut, other = self.folder / "cut.pt", self.folder / "other.pt"
        cut.write_bytes(script[: len(script) // 2])
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("letter/data.pkl", b"\x80\x02}q\x00.")
            archive.writestr("letter/version", b"3\n")
        for path, expected in ((cut, "cut.pt: "), (other, "torch.save")):
            self.refuses(["inspect", path], expected)


    def test_sizes_that_overflow(self):
        """An empty tensor of shape (2^62, 2^62, 0)."""
        archive, weights = self.folder / "sizes.pt2", self.folder / "sizes.safetensors"
        sizes = [2**62, 2**62, 0]
        header = json.dumps({"w": {"dtype": "F32", "shape": sizes, "data_offsets": [0, 0]}})
        weights.write_bytes(struct.pack("<Q", len(header)) + header.encode())
        self.succeeds("export", self.run_directory, "--format", "pt2", "-o", archive)
        config = "model_weights_config.json"
        with zipfile.ZipFile(archive) as original:
            entries = {info.filename: original.read(info) for info in original.infolist()}
        name = next(name for name in entries if name.endswith(config))
        changed = json.loads(entries[name])
        meta = next(iter(changed["config"].values()))["tensor_meta"]
        meta["sizes"] = [{"as_int": size} for size in sizes]
        meta["strides"] = [{"as_int": 1} for _ in sizes]
        entries[name] = json.dumps(changed).encode()
        with zipfile.ZipFile(archive, "w") as copy:
            for name, content in entries.items():
                copy.writestr(name, content)
        for path in (archive, weights):
            self.refuses(["inspect", path], "overflow")


class Tables(InspectTest):
    def test_depth(self):
        shallow = self.inspect(self.run_directory, "--depth", 1).split("\n\n")[1].splitlines()
        self.assertEqual([line.split()[0] for line in shallow], ["tensor", "embedding", "decoder"])
        deep = self.inspect(self.run_directory, "--depth", 9)
        self.assertIn("qkv", deep)

    def test_large_tables_are_grouped_by_module(self):
        path = self.folder / "big"
        names = [f"blocks.{i}.{name}" for i in range(30) for name in ("up", "down", "norm")]
        entries = {name: {"dtype": "F32", "shape": [1000], "data_offsets": [4000 * i, 4000 * i + 4000]}
                   for i, name in enumerate(names)}
        header = json.dumps(entries)
        path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(4000 * len(names)))
        text = self.inspect(path)
        self.assertIn("3 tensors", text)
        self.assertNotIn("norm", text)
        self.assertIn("90.0k", text)
        self.assertLess(len(text.splitlines()), 70)
        self.assertEqual(len(self.inspect_json(path)["tensors"]), 90)

    def test_invalid_depth(self):
        for depth in ("0", "-1", "two"):
            self.refuses(["inspect", self.run_directory, "--depth", depth], "--depth: ")


if __name__ == "__main__":
    unittest.main()
