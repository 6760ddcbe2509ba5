"""attend report: the data in the page is that of the run, and texts of the run cannot become markup.

Run by CTest with ATTEND set to the built command. If this Python has torch, the points of the embeddings are
compared with principal components that torch computes.
"""

import base64
import json
import shlex
import shutil
import struct
import unittest

from attend_command import CommandTest, attend, expect_names
from report_page import Page
from small_runs import kill, last_step, read_safetensors, start, wait_for, write_recipe

try:
    import torch
except ImportError:
    torch = None

OPTIONS = {"embed_dim": 16, "num_layers": 2, "num_heads": 2, "batch_size": 8, "max_steps": 30, "eval_every": 10,
           "log_every": 5}


def small(**changes):
    """Returns the flags of a small run with these options."""
    return [word for key, value in {**OPTIONS, **changes}.items() for word in ("--" + key.replace("_", "-"), value)]


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def weights_of(matrices):
    """Returns the weights as [layer][head][row][column]."""
    values = [byte / 255 for byte in base64.b64decode(matrices["weights"])]
    for size in (len(matrices["columns"]), len(matrices["rows"]), matrices["num_heads"]):
        values = [values[i:i + size] for i in range(0, len(values), size)]
    assert len(values) == matrices["num_layers"]
    return values


def points_of(embeddings):
    """Returns the points as [step][token][axis]."""
    content = base64.b64decode(embeddings["points"])
    values = [value * embeddings["scale"] / 32767 for value in struct.unpack(f"<{len(content) // 2}h", content)]
    pairs = [values[i:i + 2] for i in range(0, len(values), 2)]
    count = len(embeddings["tokens"])
    return [pairs[i:i + count] for i in range(0, len(pairs), count)]


def floats_of(path, name):
    """Returns the rows of a matrix in a safetensors file."""
    entry, content = read_safetensors(path)[name]
    values = struct.unpack(f"<{len(content) // 4}f", content)
    width = entry["shape"][1]
    return [list(values[i:i + width]) for i in range(0, len(values), width)]


class ReportTest(CommandTest):
    def page(self, run, *arguments):
        self.succeeds("report", run, *arguments)
        return Page(run / "report.html")

    def data(self, run):
        return self.page(run).data

    def check_rows_sum_to_1(self, matrices):
        for layer in weights_of(matrices):
            for head in layer:
                for row in head:
                    self.assertAlmostEqual(sum(row), 1, delta=(len(row) + 1) * 0.5 / 255)


class OfARun(ReportTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "first"
        cls.training = cls().succeeds("train", "senses", "--out", cls.run_directory, *small())
        cls.summary = json.loads((cls.run_directory / "summary.json").read_text())
        cls.report = Page(cls.run_directory / "report.html")

    def test_train_writes_the_page_that_the_command_writes(self):
        page = self.run_directory / "report.html"
        expect_names(self, self.training.stdout, page)
        written = page.read_bytes()
        page.unlink()
        expect_names(self, self.succeeds("report", self.run_directory).stdout, page)
        self.assertEqual(page.read_bytes(), written)
        self.assertLess(len(written), 3e6)

    def test_metrics(self):
        lines = lines_of(self.run_directory / "metrics.jsonl")
        for name, key in (("training", "train_loss"), ("evaluations", "val_loss")):
            expected = [line for line in lines if key in line]
            columns = self.report.data[name]
            self.assertIn(key, columns)
            for column, values in columns.items():
                self.assertEqual(values, [line.get(column) for line in expected], column)
            self.assertGreater(len(expected), 2)

    def test_provenance(self):
        run = self.report.data["run"]
        record = json.loads((self.run_directory / "data.json").read_text())
        self.assertEqual((run["run_id"], run["created"], shlex.split(run["command"])),
                         (record["run_id"], record["provenance"]["created"], record["provenance"]["command"]))
        self.assertEqual((run["name"], run["task"], run["recipe"], run["state"]),
                         ("first", "senses", "senses", "finished"))
        for key in ("parameters", "seconds", "steps", "best_step"):
            self.assertEqual(run[key], self.summary[key], key)
        self.assertEqual(run["recipe_toml"], (self.run_directory / "recipe.toml").read_text())

    def test_samples(self):
        lines = lines_of(self.run_directory / "samples.jsonl")
        self.assertEqual([line["step"] for line in lines], [0, 10, 20, 30])
        for line in lines:
            self.assertEqual(len(line["samples"]), 5)
            for sample in line["samples"]:
                self.assertEqual(sample["correct"], sample["output"] == sample["expected"])
                self.assertEqual(len(sample.pop("input_tokens")), len(sample["input"].split()))
                self.assertEqual(len(sample.pop("output_tokens")), len(sample["output"].split()))
        self.assertEqual(self.report.data["samples"],
                         [line for line in lines if line["step"] <= self.summary["best_step"]])

    def test_attention(self):
        samples = self.report.data["samples"][-1]["samples"]
        all_matrices = self.report.data["attention"]
        self.assertEqual([matrices["sample"] for matrices in all_matrices], [0, 1, 2, 3, 4])
        for matrices in all_matrices:
            self.assertEqual((matrices["title"], matrices["causal"], matrices["block"]), ("self-attention", True, 1))
            self.check_rows_sum_to_1(matrices)
        matrices, sample = all_matrices[0], samples[0]
        text = f"{sample['input']} {sample['output']}"
        for layer in (1, 2):
            for head in (1, 2):
                explained = json.loads(self.succeeds("explain", self.run_directory, "--text", text, "--layer", layer,
                                                     "--head", head, "--json").stdout)
                expected = next(matrix for step in explained["steps"] for matrix in step["matrices"]
                                if step["title"].endswith("Attention weights") and matrix["name"] == "A")
                found = weights_of(matrices)[layer - 1][head - 1]
                self.assertEqual(len(found), len(expected["values"]))
                for found_row, expected_row in zip(found, expected["values"]):
                    for one, other in zip(found_row, expected_row, strict=True):
                        self.assertAlmostEqual(one, other, delta=0.51 / 255)
                self.assertEqual([label.split("@")[0] for label in expected["rows"]], matrices["rows"])
        prompt = json.loads(self.succeeds("explain", self.run_directory, "--text", sample["input"], "--json").stdout)
        self.assertEqual(matrices["generated_from"], len(prompt["steps"][0]["matrices"][0]["rows"]))

    def test_steps_of_the_generation(self):
        samples = self.report.data["samples"][-1]["samples"]
        for matrices, sample in zip(self.report.data["attention"], samples, strict=True):
            generated = matrices["rows"][matrices["generated_from"]:]
            self.assertEqual(len(matrices["predictions"]), len(generated))
            for prediction, token in zip(matrices["predictions"], generated, strict=True):
                self.assertEqual([token, prediction["probability"]], prediction["top"][0])  # greedy decoding
        explained = json.loads(self.succeeds("explain", self.run_directory, "--text", samples[0]["input"],
                                             "--json").stdout)
        expected = explained["steps"][-1]["matrices"][0]
        found = self.report.data["attention"][0]["predictions"][0]["top"]
        self.assertEqual([label for label, _ in found], expected["rows"][:5])
        for (_, probability), (_, other) in zip(found, expected["values"]):
            self.assertAlmostEqual(probability, other, delta=0.51e-4)

    def test_an_older_run_without_tokens(self):
        run = self.copy("without tokens")
        path = run / "samples.jsonl"
        lines = lines_of(path)
        for line in lines:
            for sample in line["samples"]:
                del sample["input_tokens"], sample["output_tokens"]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(self.data(run)["attention"], self.report.data["attention"])
        for line in lines:
            line["samples"][0]["output"] = "\ufffd"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        data = self.data(run)
        self.assertEqual(min(entry["sample"] for entry in data["attention"]), 1)
        self.assertEqual(len(data["notes"]), 1)

    def test_embeddings(self):
        embeddings = self.report.data["embeddings"]
        best = self.summary["best_step"]
        self.assertEqual(embeddings["steps"], [step for step in (0, 10, 20, 30) if step <= best])
        self.assertEqual(len(embeddings["tokens"]), embeddings["vocab_size"])
        table = floats_of(self.run_directory / "model.safetensors", "embedding.token.weight")
        snapshot = self.run_directory / "embeddings" / f"step-{best:09}.safetensors"
        self.assertEqual(floats_of(snapshot, "embeddings"), table)
        norm = [sum(x * x for x in row) ** 0.5 for row in table]
        for i in (0, 3, len(table) - 1):
            cosine = {j: sum(a * b for a, b in zip(table[i], table[j])) / norm[i] / norm[j]
                      for j in range(len(table)) if j != i}
            nearest = sorted(cosine, key=cosine.get, reverse=True)[:5]
            self.assertEqual(embeddings["neighbors"][i], nearest)
            for found, j in zip(embeddings["similarities"][i], nearest, strict=True):
                self.assertAlmostEqual(found, cosine[j], places=3)

    @unittest.skipIf(torch is None, "requires torch")
    def test_points_are_principal_components(self):
        embeddings = self.report.data["embeddings"]
        tables = [torch.tensor(floats_of(self.run_directory / "embeddings" / f"step-{step:09}.safetensors",
                                         "embeddings"), dtype=torch.double) for step in embeddings["steps"]]
        mean = tables[-1].mean(0)
        covariance = (tables[-1] - mean).T.cov(correction=0)
        variance, axes = torch.linalg.eigh(covariance)  # in ascending order
        found = torch.tensor(points_of(embeddings), dtype=torch.double)
        for axis in (0, 1):
            self.assertAlmostEqual(embeddings["explained_variance"][axis],
                                   (variance[-1 - axis] / variance.sum()).item(), places=6)
            expected = torch.stack([(table - mean) @ axes[:, -1 - axis] for table in tables])
            sign = torch.sign((expected[-1] * found[-1, :, axis]).sum())
            self.assertLess((expected * sign - found[..., axis]).abs().max().item(),
                            embeddings["scale"] / 32767)

    def test_model(self):
        model = self.report.data["model"]
        self.assertEqual((model["type"], model["parameters"]), ("LanguageModel", self.summary["parameters"]))

        def all_modules(module):
            yield module
            for child in module["children"]:
                yield from all_modules(child)

        modules = list(all_modules(model))
        blocks = [module for module in modules if module["type"] == "TransformerBlock"]
        self.assertEqual([block["repeats"] for block in blocks], [2])
        self.assertGreater(len([module for module in blocks[0]["children"] if module["type"].endswith("Norm")]), 1)
        for module in modules:
            for tensor in module.get("tensors", []):
                self.assertTrue(tensor["shape"])

    def test_tables_without_javascript(self):
        self.assertEqual(list(self.report.texts), ["curves", "attention", "embeddings", "samples", "model", "run"])
        text = {name: "\n".join(parts) for name, parts in self.report.texts.items()}
        self.assertIn(f"{self.report.data['evaluations']['val_loss'][0]:.5g}", text["curves"])
        self.assertIn(self.report.data["samples"][-1]["samples"][0]["input"], text["samples"])
        self.assertIn(self.report.data["run"]["recipe_toml"], text["run"])
        self.assertIn("TransformerBlock", text["model"])

    def copy(self, name):
        run = self.folder / name
        shutil.copytree(self.run_directory, run)
        return run

    def test_damaged_lines_are_named(self):
        run = self.copy("damaged")
        for name in ("metrics.jsonl", "samples.jsonl"):
            path = run / name
            whole = path.read_text()
            lines = whole.splitlines()
            for damage in ("{", "[2]", '{"step": "2"}', lines[1][:-5]):
                path.write_text("\n".join([lines[0], damage, *lines[2:], ""]))
                expect_names(self, self.refuses(["report", run]), path, "line 2")
            path.write_text(whole)
        first = lines_of(run / "samples.jsonl")[0]
        vocab_size = self.report.data["embeddings"]["vocab_size"]
        for change in ({"input": 3}, {"input_tokens": [vocab_size]}, {"output_tokens": [-1]}, {"output_tokens": None}):
            line = {"step": 0, "samples": [{**first["samples"][0], **change}]}
            (run / "samples.jsonl").write_text(json.dumps(line) + "\n")
            expect_names(self, self.refuses(["report", run]), run / "samples.jsonl", "step 0")
        metrics = run / "metrics.jsonl"
        for key, value in (("val_loss", {"a": [1]}), ("train_loss", "<b>"), ("lr", [1])):
            line = {"step": 40, "val_loss": 1, "train_loss": 1, key: value}
            if key != "val_loss":
                del line["val_loss"]
            whole = metrics.read_text()
            metrics.write_text(whole + json.dumps(line) + "\n")
            expect_names(self, self.refuses(["report", run]), metrics, key, "step 40")
            metrics.write_text(whole)

    def test_an_empty_sample_has_no_attention(self):
        run = self.copy("empty sample")
        path = run / "samples.jsonl"
        lines = lines_of(path)
        for line in lines:
            line["samples"][0].update(input="", output="", input_tokens=[], output_tokens=[])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(min(entry["sample"] for entry in self.data(run)["attention"]), 1)

    def test_a_damaged_snapshot_is_named(self):
        run = self.copy("damaged snapshot")
        path = run / "embeddings" / "step-000000000.safetensors"
        path.write_bytes(path.read_bytes()[:-4])
        self.assertIn(str(path), self.refuses(["report", run]))

    def test_a_run_without_samples_and_snapshots(self):
        run = self.copy("older")
        (run / "samples.jsonl").unlink()
        shutil.rmtree(run / "embeddings")
        data = self.data(run)
        self.assertEqual(data["embeddings"]["steps"], [self.summary["best_step"]])
        self.assertNotIn("samples", data)
        self.assertNotIn("attention", data)

    def test_output_files(self):
        out = self.folder / "out.html"
        expect_names(self, self.succeeds("report", self.run_directory, "--out", out).stdout, out)
        self.assertEqual(Page(out).data, self.report.data)
        expect_names(self, self.refuses(["report", self.run_directory, "--out", out]), out, "--overwrite")
        self.succeeds("report", self.run_directory, "--out", out, "--overwrite")
        for name in ("data.json", "report.html"):
            self.refuses(["report", self.run_directory, "--out", self.run_directory / name], name)
        self.refuses(["report", self.run_directory, "--overwrite"], "--overwrite", "--out")
        self.refuses(["report", self.folder / "nothing"], "nothing")

    def test_a_page_that_cannot_be_written_is_a_warning(self):
        run = self.copy("unwritable")
        (run / "report.html").unlink()
        (run / "report.html").mkdir()
        (run / "report.html" / "file").touch()
        result = self.succeeds("train", "--resume", run, "--max-steps", 40)
        expect_names(self, result.stderr, run / "report.html")
        self.assertEqual(json.loads((run / "summary.json").read_text())["steps"], 40)
        shutil.rmtree(run / "report.html")
        self.assertEqual(self.data(run)["run"]["steps"], 40)


class OfAnUnfinishedRun(ReportTest):
    def test_before_and_after_the_first_weights(self):
        run = self.folder / "run"
        process = start("train", "--out", run, *small(max_steps=100000, eval_every=50, checkpoint_every=10))
        self.addCleanup(kill, process)
        self.assertTrue(wait_for(lambda: last_step(run) > 60 and (run / "model.safetensors").exists(), process))
        kill(process)
        data = self.data(run)
        self.assertEqual(data["run"]["state"], "unfinished")
        self.assertIn(data["run"]["best_step"], data["evaluations"]["step"])
        self.assertEqual(data["samples"][-1]["step"], data["run"]["best_step"])
        with open(run / "metrics.jsonl", "a", encoding="utf-8") as metrics:
            metrics.write('{"step": 1')  # a line that is being written
        self.assertEqual(self.data(run), data)
        (run / "model.safetensors").unlink()
        self.assertEqual(self.data(run)["run"]["best_step"], last_step(run))
        shutil.rmtree(run / "checkpoint")
        data = self.data(run)
        self.assertIn("evaluations", data)
        self.assertNotIn("model", data)


class OfOtherModels(ReportTest):
    def test_a_classifier(self):
        run = self.folder / "brackets"
        self.succeeds("train", "--task", "balanced-brackets", "--out", run, *small())
        data = self.data(run)
        for matrices in data["attention"]:
            self.assertEqual((matrices["causal"], matrices["generated_from"]), (False, None))
            self.check_rows_sum_to_1(matrices)
            sample = data["samples"][-1]["samples"][matrices["sample"]]
            self.assertEqual("".join(matrices["rows"]), sample["input"])
            self.assertIn(sample["expected"], ("balanced", "unbalanced"))

    def test_an_encoder_decoder_model(self):
        run = self.folder / "translation"
        self.succeeds("train", "--task", "translation", "--out", run, *small(num_decoder_layers=3))
        data = self.data(run)
        parts = [matrices for matrices in data["attention"] if matrices["sample"] == 0]
        self.assertEqual([(part["title"], part["num_layers"], part["causal"]) for part in parts],
                         [("encoder self-attention", 2, False), ("decoder self-attention", 3, True),
                          ("cross-attention", 3, False)])
        encoder, decoder, cross = parts
        self.assertEqual(encoder["rows"], encoder["columns"])
        self.assertEqual((decoder["rows"], encoder["rows"]), (cross["rows"], cross["columns"]))
        self.assertEqual(decoder["rows"][0], "<begin>")
        self.assertEqual([part["title"] for part in parts if "predictions" in part], ["decoder self-attention"])
        self.assertEqual(len(decoder["predictions"]), len(decoder["rows"]) - 1)
        for part in data["attention"]:
            self.check_rows_sum_to_1(part)
        for head in weights_of(decoder)[0]:
            self.assertEqual([x for i, row in enumerate(head) for x in row[i + 1:]],
                             [0] * (len(head) * (len(head) - 1) // 2))

    def test_no_attention(self):
        run = self.folder / "no layers"
        self.succeeds("train", "--task", "copy", "--out", run, *small(num_layers=0))
        data = self.data(run)
        self.assertNotIn("attention", data)
        self.assertIn("samples", data)


class Limits(ReportTest):
    def test_a_long_input_is_grouped(self):
        run = self.folder / "long"
        line = "".join(chr(ord("a") + i * i % 26) for i in range(179)) + "\n"
        text = self.write("long.txt", line * 100)
        self.succeeds("train", "--text", text, "--out", run, *small(max_seq_len=256, max_steps=2))
        data = self.data(run)
        [matrices] = data["attention"]
        sample = data["samples"][-1]["samples"][0]
        whole = sample["input"] + sample["output"]
        self.assertGreater(len(whole), 128)
        self.assertEqual(matrices["block"], 2)
        self.assertEqual(len(matrices["rows"]), 128)
        self.assertEqual(matrices["generated_from"], (256 - len(sample["output"])) // 2)
        self.check_rows_sum_to_1(matrices)
        self.assertTrue(data["notes"])
        explained = json.loads(self.succeeds("explain", run, "--text", whole[-256:], "--layer", 2, "--head", 1,
                                             "--json").stdout)
        expected = next(matrix["values"] for step in explained["steps"] for matrix in step["matrices"]
                        if step["title"].endswith("Attention weights") and matrix["name"] == "A")
        largest = [entry for entry in matrices["largest"] if entry[:2] == [1, 0]]
        self.assertGreater(len(largest), 1)
        for _, _, row, column, weight in largest:
            self.assertAlmostEqual(weight, expected[row][column], places=3)
        block = matrices["block"]
        found = weights_of(matrices)[1][0]
        for i, j in ((0, 0), (5, 3), (20, 20)):
            cell = sum(sum(row[j * block:(j + 1) * block]) for row in expected[i * block:(i + 1) * block]) / block
            self.assertAlmostEqual(found[i][j], cell, delta=0.6 / 255)

    def test_a_large_vocabulary_with_many_layers_and_heads(self):
        run = self.folder / "large"
        words = [f"{'w' * 30}{i * 7919 % 3001}" for i in range(3001)]
        text = self.write("words.txt", "\n".join(" ".join(words[i:i + 60]) for i in range(0, 3001, 60)) * 3 + "\n")
        self.succeeds("train", "--text", text, "--tokenizer", "word", "--vocab-size", 4000, "--out", run, "--num-layers", 16, "--num-heads",
                      16, "--embed-dim", 32, "--max-seq-len", 128, "--batch-size", 1, "--max-steps", 2, "--eval-every",
                      1, "--eval-batches", 1)
        page = self.page(run)
        size = (run / "report.html").stat().st_size
        self.assertLess(size, 5e6)
        embeddings = page.data["embeddings"]
        self.assertEqual(len(embeddings["tokens"]), 1000)
        self.assertGreater(embeddings["vocab_size"], 3000)
        [matrices] = page.data["attention"]
        self.assertEqual((matrices["num_layers"], matrices["num_heads"]), (16, 16))
        self.assertGreater(matrices["block"], 1)
        self.check_rows_sum_to_1(matrices)
        self.assertGreaterEqual(len(page.data["notes"]), 2)

    def test_many_rows_of_metrics(self):
        run = self.folder / "many"
        self.succeeds("train", "--task", "copy", "--out", run, *small())
        path = run / "metrics.jsonl"
        row = next(line for line in lines_of(path) if "train_loss" in line)
        best, last = 7002, 12345
        path.write_text("".join(json.dumps({**row, "step": step}) + "\n" + json.dumps(
            {"step": step, "val_loss": 0.25 if step == best else 1 + 1 / step}) + "\n" for step in range(1, last + 1)))
        page = self.page(run)
        data = page.data
        steps = data["training"]["step"]
        self.assertLessEqual(len(steps), 5000)
        self.assertGreater(len(steps), 2500)
        self.assertEqual((steps[0], steps[-1]), (1, 12345))
        self.assertEqual(len({b - a for a, b in zip(steps[:-1], steps[1:-1])}), 1)
        self.assertEqual(len(data["notes"]), 2)
        steps = data["evaluations"]["step"]
        self.assertLessEqual(len(steps), 5000)
        self.assertEqual((steps[0], steps[-1]), (1, last))
        self.assertEqual(data["evaluations"]["val_loss"][steps.index(best)], 0.25)
        regular = [step for step in steps[:-1] if step != best]
        self.assertEqual(len({b - a for a, b in zip(regular, regular[1:])}), 1)
        self.assertEqual([text for text in page.texts["curves"] if text in (str(best), "0.25")], [str(best), "0.25"])

    def test_huge_texts(self):
        run = self.folder / "huge"
        self.succeeds("train", "--task", "copy", "--out", run, *small(max_steps=10))
        sample = {"input": "<" * 5000, "output": "\u0001" * 5000, "expected": "\"" * 5000, "correct": False}
        (run / "samples.jsonl").write_text("".join(json.dumps({"step": step // 10, "samples": [sample] * 20}) + "\n"
                                                   for step in range(100)))
        write_recipe(run, (run / "recipe.toml").read_text() + "# " + "<" * 1000000 + "\n")
        data = self.data(run)
        self.assertLess((run / "report.html").stat().st_size, 10e6)
        self.assertEqual(len(data["samples"]), 26)  # every fourth of 100, and the last
        self.assertGreaterEqual(len(data["notes"]), 2)


class HostileTexts(ReportTest):
    def test_texts_do_not_become_markup(self):
        hostile = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>&amp;\"'"
        run = self.folder / "<b>&\"run'<script>"
        text = self.write("hostile <i>.txt", (hostile + "\n") * 60)
        self.succeeds("train", "--text", text, "--tokenizer", "word", "--out", run, *small(max_seq_len=8))
        page = self.page(run)
        clean = self.folder / "clean"
        self.succeeds("train", "--text", self.write("clean.txt", "a b c d e f g h\n" * 60), "--tokenizer", "word", "--out",
                      clean, *small(max_seq_len=8))
        known = set(self.page(clean).tags)
        self.assertEqual(set(page.tags), known)
        self.assertEqual(page.tags.count("script"), self.page(clean).tags.count("script"))
        self.assertEqual(page.data["run"]["name"], run.name)
        self.assertIn(str(text), shlex.split(page.data["run"]["command"]))
        self.assertIn(run.name, "".join(page.texts["run"]))
        self.assertTrue(any("<" in token for token in page.data["embeddings"]["tokens"]))
        write_recipe(run, (run / "recipe.toml").read_text() + "# </pre></script><script>alert(3)</script>\n")
        page = self.page(run)
        self.assertEqual(set(page.tags), known)
        self.assertIn("<script>alert(3)", "".join(page.texts["run"]))

    def test_invalid_utf8(self):
        run = self.folder / "bytes"
        text = self.folder / "bytes.txt"
        text.write_bytes(b"\xe9\xff" * 2000)
        self.succeeds("train", "--text", text, "--tokenizer", "byte", "--out", run, *small(max_seq_len=16))
        data = self.data(run)
        self.assertEqual(data["embeddings"]["vocab_size"], 256)
        self.assertEqual(len(data["samples"][-1]["samples"]), 1)
        self.assertIn("\ufffd", data["samples"][-1]["samples"][0]["input"])
        [matrices] = data["attention"]
        self.assertEqual(len(matrices["rows"]), 16)  # max_seq_len
        self.check_rows_sum_to_1(matrices)
        self.assertEqual(data["notes"], [])
        [sample] = lines_of(run / "samples.jsonl")[-1]["samples"]
        self.assertLessEqual(set(sample["input_tokens"]), {0xe9, 0xff})
        tokens = (sample["input_tokens"] + sample["output_tokens"])[-16:]
        for row, token in zip(matrices["rows"], tokens, strict=True):
            if token > 0x7f:
                self.assertEqual(row, f"\\x{token:02x}")

    def test_subwords_keep_their_tokens(self):
        run = self.folder / "subwords"
        text = self.write("subwords.txt", "the cat sat on the mat, and the dog sat on the cat again\n" * 600)
        self.succeeds("train", "--text", text, "--tokenizer", "subword", "--vocab-size", 300, "--out", run,
                      *small(max_seq_len=128, max_steps=2))
        data = self.data(run)
        [sample] = lines_of(run / "samples.jsonl")[-1]["samples"]
        [matrices] = data["attention"]
        tokens = sample["input_tokens"] + sample["output_tokens"]
        self.assertEqual(len(matrices["rows"]), min(len(tokens), 128))
        labels = {}
        for token, label in zip(tokens[-128:], matrices["rows"], strict=True):
            self.assertEqual(labels.setdefault(token, label), label)


class History(ReportTest):
    def test_many_evaluations_are_thinned(self):
        run = self.folder / "run"
        self.succeeds("train", "--task", "copy", "--out", run, *small(max_steps=105, eval_every=1, eval_batches=1))
        self.assertEqual([line["step"] for line in lines_of(run / "samples.jsonl")], list(range(106)))
        self.assertEqual(sorted(path.name for path in (run / "embeddings").iterdir()),
                         [f"step-{step:09}.safetensors" for step in range(0, 106, 4)])
        data = self.data(run)
        self.assertLessEqual(len(data["samples"]), 30)
        best = data["run"]["best_step"]
        self.assertEqual(data["samples"][-1]["step"], best)
        self.assertEqual(data["embeddings"]["steps"], [*range(0, best, 4), best])


if __name__ == "__main__":
    unittest.main()
