"""Runs the commands of README.md, and others, with the published model MiniLM and with a small random Qwen3.

Run by CTest with ATTEND set to the path of the command and ATTEND_MINILM to the folder of MiniLM. If the folder or a
package is missing, exits with status 77, which CTest reports as skipped.
"""

import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import unittest

MINILM = pathlib.Path(os.environ["ATTEND_MINILM"])
if not MINILM.is_dir():
    print(f"skipped: no {MINILM}; scripts/test downloads it")
    sys.exit(77)
try:
    import numpy
    import onnxruntime
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/test installs it into .venv")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ["The cat sits on the mat.", "A kitten rests on a rug.", "Stock markets fell sharply in Tōkyō today 😀."]
# Computed with PyTorch from the files of the package, with mean pooling and normalization.
FIRST_NUMBERS = [[0.134177, -0.032900, -0.024804], [0.074453, 0.014573, 0.019018], [0.043696, -0.027845, 0.095545]]
COSINES = [[1, 0.64941, -0.00124], [0.64941, 1, -0.01123], [-0.00124, -0.01123, 1]]


def attend(folder, *arguments, status=0, **options):
    result = subprocess.run([os.environ["ATTEND"], *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)
    if result.returncode != status:
        raise AssertionError(f"{arguments}: status {result.returncode}, expected {status}: {result.stderr}")
    return result.stdout if status == 0 else result.stderr


def write_qwen3(folder):
    """A small random Qwen3 with a byte-level tokenizer that knows the bytes only."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: i for i, character in enumerate(alphabet)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    torch.manual_seed(1)
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, tie_word_embeddings=True))
    model.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return model.eval(), tokenizer


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.directory.name)
        (cls.folder / "all-MiniLM-L6-v2").symlink_to(MINILM)
        cls.qwen3, cls.tokenizer = write_qwen3(cls.folder / "Qwen3-0.6B")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def test_embed_prints_the_numbers_of_sentence_transformers(self):
        lines = attend(self.folder, "embed", "all-MiniLM-L6-v2", *TEXTS, "--json", "--compare").splitlines()
        found = [json.loads(line) for line in lines]
        self.assertEqual([each["text"] for each in found], TEXTS)
        numpy.testing.assert_allclose([each["vector"][:3] for each in found], FIRST_NUMBERS, atol=1e-5)
        numpy.testing.assert_allclose([each["cosines"] for each in found], COSINES, atol=1e-5)

    def test_embed_writes_numpy_files(self):
        (self.folder / "lines.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
        attend(self.folder, "embed", "all-MiniLM-L6-v2", "--file", "lines.txt", "--npy", "vectors.npy")
        vectors = numpy.load(self.folder / "vectors.npy")
        self.assertEqual((vectors.shape, vectors.dtype), ((3, 384), numpy.float32))
        numpy.testing.assert_allclose(vectors[:, :3], FIRST_NUMBERS, atol=1e-5)
        attend(self.folder, "embed", "all-MiniLM-L6-v2", "x", "--npy", "vectors.npy", status=2)

    def test_outputs_in_the_folder_of_the_model_are_refused(self):
        (self.folder / "Qwen3-0.6B" / "sub").mkdir()
        for name in ("Qwen3-0.6B/model.safetensors", "Qwen3-0.6B/new.pt", "Qwen3-0.6B/sub/x.pt",
                     "empty/../Qwen3-0.6B/sub/x.pt"):
            (self.folder / "empty").mkdir(exist_ok=True)
            message = attend(self.folder, "export", "Qwen3-0.6B", "-o", name, "--overwrite", status=2)
            self.assertIn("folder of the model", message)
        for name in ("all-MiniLM-L6-v2/config.json", str(MINILM / "1_Pooling" / "config.json")):
            message = attend(self.folder, "embed", "all-MiniLM-L6-v2", "x", "--npy", name, "--overwrite", status=2)
            self.assertIn("folder of the model", message)

    def test_an_exported_classifier_has_an_attention_mask(self):
        torch.manual_seed(2)
        model = transformers.RobertaForSequenceClassification(transformers.RobertaConfig(
            vocab_size=256, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=66, num_labels=3)).eval()
        model.save_pretrained(self.folder / "roberta")
        self.tokenizer.save(str(self.folder / "roberta" / "tokenizer.json"))
        attend(self.folder, "export", "roberta", "-o", "roberta.onnx")
        ids = torch.randint(2, 256, (2, 9))
        mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
        ids[mask == 0] = 1
        session = onnxruntime.InferenceSession(str(self.folder / "roberta.onnx"))
        found = session.run(["logits"], {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
        with torch.no_grad():
            numpy.testing.assert_allclose(found, model(ids, attention_mask=mask).logits.numpy(), atol=1e-4)

    def test_readme(self):
        """The lines with a dollar sign of the section, and their output."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        block = re.search(r"## Published models.*?```console\n(.*?)```", text, re.DOTALL)[1]
        commands = re.findall(r"^\$ attend (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
        self.assertEqual([shlex.split(command)[0] for command, _ in commands], ["embed", "generate", "export"])
        for command, expected in commands:
            found = attend(self.folder, *shlex.split(command))
            if expected:
                self.assertEqual(found, expected)
        session = onnxruntime.InferenceSession(str(self.folder / "minilm.onnx"))
        tokenizer = tokenizers.Tokenizer.from_file(str(MINILM / "tokenizer.json"))
        encodings = tokenizer.encode_batch(TEXTS)
        vectors = session.run(["sentence_embedding"], {
            "input_ids": numpy.array([each.ids for each in encodings]),
            "attention_mask": numpy.array([each.attention_mask for each in encodings])})[0]
        numpy.testing.assert_allclose(vectors[:, :3], FIRST_NUMBERS, atol=1e-5)

    def test_fine_tuning_of_readme(self):
        """The lines about low-rank adapters, with a random model."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        block = re.search(r"Fine-tune a model with low-rank adapters.*?```console\n(.*?)```", text, re.DOTALL)[1]
        commands = re.findall(r"^\$ attend (.*)\n", block, re.MULTILINE)
        self.assertEqual([shlex.split(command)[0] for command in commands], ["train", "export", "export", "export"])
        (self.folder / "notes.txt").write_text("The cat sat on the mat.\n" * 300, encoding="utf-8")
        for command in commands:
            short = ["--max-steps", "3", "--batch-size", "2"] if command.startswith("train") else []
            attend(self.folder, *shlex.split(command), *short)
        model = transformers.AutoModelForCausalLM.from_pretrained(str(self.folder / "Qwen3-notes")).eval()
        ids = torch.tensor([self.tokenizer.encode("The cat sits").ids])
        with torch.no_grad():
            expected = model(ids).logits
            self.assertGreater((expected - self.qwen3(ids).logits).abs().max().item(), 1e-3)
        session = onnxruntime.InferenceSession(str(self.folder / "notes.onnx"))
        found = session.run(None, {session.get_inputs()[0].name: ids.numpy()})[0]
        numpy.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
        texts = [attend(self.folder, "generate", name, "--prompt", "The cat", "--max-new-tokens", "9",
                        "--temperature", "0") for name in ("runs/notes", "Qwen3-notes", "notes-adapter")]
        self.assertEqual(texts, [texts[0]] * 3)
        self.assertIn("--merge", attend(self.folder, "export", "runs/notes", "--format", "hf", "-o", "other", status=2))
        self.assertIn("--merge", attend(self.folder, "export", "Qwen3-0.6B", "--merge", "-o", "x.onnx", status=2))
        again = ["train", "--init-from", "notes-adapter", "--text", "notes.txt", "--max-seq-len", "64", "--max-steps",
                 "1", "--batch-size", "2", "--out", "again"]
        self.assertRegex(attend(self.folder, *again), r"(?m)^init from +notes-adapter: ")
        attend(self.folder, "import", "notes-adapter", "-o", "imported")
        self.assertEqual(attend(self.folder, "generate", "imported", "--prompt", "The cat", "--max-new-tokens", "9",
                                "--temperature", "0"), texts[0])

    def test_generate_and_eval_equal_transformers(self):
        ids = torch.tensor([self.tokenizer.encode("The cat").ids])
        expected = self.qwen3.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0,
                                       attention_mask=torch.ones_like(ids))[0]
        found = attend(self.folder, "generate", "Qwen3-0.6B", "--prompt", "The cat", "--max-new-tokens", "20",
                       "--temperature", "0")
        self.assertEqual(found, self.tokenizer.decode(expected.tolist()) + "\n")

        (self.folder / "text.txt").write_text("The cat sits on the mat.", encoding="utf-8")
        result = json.loads(attend(self.folder, "eval", "Qwen3-0.6B", "text.txt", "--json"))
        ids = torch.tensor([self.tokenizer.encode("The cat sits on the mat.").ids])
        with torch.no_grad():
            loss = self.qwen3(ids, labels=ids).loss.item()
        self.assertAlmostEqual(result["val_loss"], loss, places=4)
        self.assertEqual(result["val_targets"], ids.size(1) - 1)

    def test_runs_are_saved_for_transformers(self):
        text = self.folder / "run.txt"
        text.write_text("The cat sat on the mat.\nThe dog sat on the log.\n" * 40, encoding="utf-8")
        llama = ["--norm", "rms", "--activation", "swiglu", "--set", "bias=false", "--num-kv-heads", "2"]
        for tokenizer, flags in (("character", []), ("byte", ["--positions", "learned"]), ("word", llama)):
            with self.subTest(tokenizer):
                run = f"run-{tokenizer}"
                attend(self.folder, "train", "--text", str(text), "--tokenizer", tokenizer, "--max-steps", "20",
                       "--num-layers", "2", "--embed-dim", "32", "--max-seq-len", "16", "--out", run, *flags)
                attend(self.folder, "export", run, "--format", "hf", "-o", f"{run}-hf")
                found = attend(self.folder, "generate", run, "--prompt", "The cat", "--max-new-tokens", "9",
                               "--temperature", "0")
                saved = str(self.folder / f"{run}-hf")
                model = transformers.AutoModelForCausalLM.from_pretrained(saved).eval()
                for each in (tokenizers.Tokenizer.from_file(f"{saved}/tokenizer.json"),
                             transformers.AutoTokenizer.from_pretrained(saved).backend_tokenizer):
                    ids = torch.tensor([each.encode("The cat").ids])
                    generated = model.generate(ids, max_new_tokens=9, do_sample=False, pad_token_id=0,
                                               attention_mask=torch.ones_like(ids))[0]
                    self.assertEqual(each.decode(generated.tolist()) + "\n", found)
                again = attend(self.folder, "generate", f"{run}-hf", "--prompt", "The cat", "--max-new-tokens", "9",
                               "--temperature", "0")
                self.assertEqual(again, found)
                begin = [attend(self.folder, "generate", name, "--prompt", "", "--max-new-tokens", "9",
                                "--temperature", "0") for name in (run, f"{run}-hf")]
                self.assertEqual(begin[0], begin[1])
        attend(self.folder, "export", "run-word", "--format", "hf", "-o", "run-word-hf", status=2)

    def test_imported_encoder_has_the_same_vectors(self):
        attend(self.folder, "import", "all-MiniLM-L6-v2", "-o", "minilm-run")
        lines = attend(self.folder, "embed", "minilm-run", *TEXTS, "--json").splitlines()
        numpy.testing.assert_allclose([json.loads(line)["vector"][:3] for line in lines], FIRST_NUMBERS, atol=1e-5)
        self.assertIn("classes", attend(self.folder, "predict", "minilm-run", "x", status=2))
        attend(self.folder, "export", "minilm-run", "--format", "hf", "-o", "minilm-hf")
        saved = self.folder / "minilm-hf"
        self.assertEqual(json.loads((saved / "tokenizer.json").read_text(encoding="utf-8")),
                         json.loads((MINILM / "tokenizer.json").read_text(encoding="utf-8")))
        settings = json.loads((saved / "sentence_bert_config.json").read_text(encoding="utf-8"))
        self.assertEqual(settings["max_seq_length"], 256)
        self.assertIn("minilm-run", attend(self.folder, "export", "minilm-run", "--format", "hf", "-o",
                                           "minilm-run/hf", status=2))
        again = attend(self.folder, "embed", "minilm-hf", *TEXTS, "--json").splitlines()
        self.assertEqual(again, lines)

    def test_imported_encoder_becomes_a_classifier(self):
        folder = self.folder / "bert"
        transformers.BertModel(transformers.BertConfig(
            vocab_size=30522, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2)).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes((MINILM / "tokenizer.json").read_bytes())
        attend(self.folder, "import", "bert", "-o", "bert-run")
        attend(self.folder, "export", "bert-run", "--format", "hf", "-o", "bert-hf")
        padded = transformers.AutoTokenizer.from_pretrained(str(self.folder / "bert-hf"))(TEXTS, padding=True)
        self.assertEqual(len({len(ids) for ids in padded["input_ids"]}), 1)
        rows = "".join(f"a good film {i},pos\na bad film {i},neg\n" for i in range(20))
        (self.folder / "reviews.csv").write_text("text,label\n" + rows, encoding="utf-8")
        attend(self.folder, "train", "--init-from", "bert-run", "--text", "reviews.csv", "--max-steps", "1",
               "--batch-size", "4", "--out", "reviews-run")
        found = json.loads(attend(self.folder, "predict", "reviews-run", "a good film", "--json"))
        self.assertIn(found["predictions"][0]["class"], ("pos", "neg"))

    def test_a_published_encoder_is_tuned_and_published_again(self):
        folder = self.folder / "bert-base"
        torch.manual_seed(3)
        transformers.BertModel(transformers.BertConfig(
            vocab_size=30522, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2)).save_pretrained(folder)
        (folder / "tokenizer.json").write_bytes((MINILM / "tokenizer.json").read_bytes())
        rows = "".join(f"a good film {i},pos\na bad film {i},neg\n" for i in range(20))
        (self.folder / "films.csv").write_text("text,label\n" + rows, encoding="utf-8")
        arguments = ["train", "--init-from", "bert-base", "--text", "films.csv", "--max-steps", "3",
                     "--batch-size", "4"]
        printed = attend(self.folder, *arguments, "--out", "films")
        self.assertRegex(printed, r"(?m)^init from +bert-base: .* new: head.bias, head.weight; not used: none$")
        attend(self.folder, "export", "films", "--format", "hf", "-o", "films-hf")
        saved = str(self.folder / "films-hf")
        model = transformers.AutoModelForSequenceClassification.from_pretrained(saved).eval()
        self.assertEqual(model.config.id2label, {0: "neg", 1: "pos"})
        texts = ["a good film", "an unknown film " * 3]
        encoded = transformers.AutoTokenizer.from_pretrained(saved)(texts, padding=True, return_tensors="pt")
        with torch.no_grad():
            expected = model(**encoded).logits.softmax(-1)
        lines = attend(self.folder, "predict", "films", *texts, "--json", "--top", "0").splitlines()
        found = [{each["class"]: each["probability"] for each in json.loads(line)["predictions"]} for line in lines]
        numpy.testing.assert_allclose([[each["neg"], each["pos"]] for each in found], expected.numpy(), atol=1e-5)
        for flags in (["--embed-dim", "32"], ["--set", "activation=relu"]):
            message = attend(self.folder, *arguments, *flags, "--out", "other", status=2)
            self.assertIn(flags[-1].split("=")[-1], message)
            self.assertIn("bert-base", message)

    def test_a_published_language_model_is_tuned_and_published_again(self):
        (self.folder / "more.txt").write_text("The cat sat on the mat.\n" * 300, encoding="utf-8")
        attend(self.folder, "train", "--init-from", "Qwen3-0.6B", "--text", "more.txt", "--max-steps", "3",
               "--batch-size", "2", "--max-seq-len", "64", "--out", "more")
        attend(self.folder, "export", "more", "--format", "hf", "-o", "more-hf")
        model = transformers.AutoModelForCausalLM.from_pretrained(str(self.folder / "more-hf")).eval()
        self.assertEqual(type(model).__name__, "Qwen3ForCausalLM")
        ids = torch.tensor([self.tokenizer.encode("The cat").ids])
        expected = model.generate(ids, max_new_tokens=20, do_sample=False, pad_token_id=0,
                                  attention_mask=torch.ones_like(ids))[0]
        for name in ("more", "more-hf"):
            found = attend(self.folder, "generate", name, "--prompt", "The cat", "--max-new-tokens", "20",
                           "--temperature", "0")
            self.assertEqual(found, self.tokenizer.decode(expected.tolist()) + "\n")

    def test_imported_language_model_generates_the_same_text(self):
        attend(self.folder, "import", "Qwen3-0.6B", "-o", "qwen3-run")
        texts = [attend(self.folder, "generate", name, "--prompt", "The cät", "--max-new-tokens", "20",
                        "--temperature", "0") for name in ("Qwen3-0.6B", "qwen3-run")]
        self.assertEqual(texts[0], texts[1])
        attend(self.folder, "export", "qwen3-run", "--format", "hf", "-o", "qwen3-again")
        model = transformers.AutoModelForCausalLM.from_pretrained(str(self.folder / "qwen3-again"))
        self.assertEqual(type(model).__name__, "Qwen3ForCausalLM")
        for name, weight in self.qwen3.named_parameters():
            self.assertTrue(torch.equal(dict(model.named_parameters())[name], weight), name)
        (self.folder / "notes.txt").write_text("The cat sat on the mat.\n" * 300, encoding="utf-8")
        attend(self.folder, "train", "--init-from", "qwen3-run", "--text", "notes.txt", "--max-steps", "2",
               "--batch-size", "2", "--out", "notes-run")
        attend(self.folder, "eval", "notes-run", "notes.txt")
        self.assertIn("qwen3-run", attend(self.folder, "import", "Qwen3-0.6B", "-o", "qwen3-run", status=2))
        self.assertIn("--init-from", attend(self.folder, "train", "--text", "notes.txt", "--tokenizer", "published",
                                            "--out", "x", status=2))

    def test_import_that_fails_leaves_the_folder_as_it_was(self):
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

        arguments = ["import", "Qwen3-0.6B", "-o", "limited"]
        self.assertIn("cannot be written", attend(self.folder, *arguments, status=1, preexec_fn=limit_files))
        self.assertEqual([path.name for path in self.folder.iterdir() if "limited" in path.name], [])
        attend(self.folder, *arguments)
        (self.folder / "limited" / "my-notes.txt").write_text("kept", encoding="utf-8")
        files = {path.name: path.read_bytes() for path in (self.folder / "limited").iterdir()}
        attend(self.folder, *arguments, "--overwrite", status=1, preexec_fn=limit_files)
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "limited").iterdir()
                          if path.name != ".lock"}, {name: files[name] for name in files if name != ".lock"})
        attend(self.folder, "import", "all-MiniLM-L6-v2", "-o", "limited", "--overwrite")
        self.assertIn("sequence_classifier", attend(self.folder, "inspect", "limited"))
        self.assertEqual((self.folder / "limited" / "my-notes.txt").read_text(encoding="utf-8"), "kept")
        self.assertFalse((self.folder / "limited" / "replaced").exists())

    def test_saves_published_models_in_another_dtype(self):
        attend(self.folder, "export", "Qwen3-0.6B", "--format", "hf", "--dtype", "bf16", "-o", "qwen3-bf16")
        model = transformers.AutoModelForCausalLM.from_pretrained(str(self.folder / "qwen3-bf16"))
        self.assertEqual((type(model).__name__, model.dtype), ("Qwen3ForCausalLM", torch.bfloat16))
        for name, weight in self.qwen3.named_parameters():
            self.assertTrue(torch.equal(dict(model.named_parameters())[name], weight.to(torch.bfloat16)), name)

    def test_the_message_about_pickle_files_contains_a_command_that_converts_them(self):
        name = """it's [a] "m$HOME" $(touch was-run)"""
        folder = self.folder / name
        self.qwen3.save_pretrained(folder)
        self.tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "model.safetensors").unlink()
        arguments = ["generate", name, "--prompt", "The cat", "--max-new-tokens", "20", "--temperature", "0"]
        expected = attend(self.folder, "generate", "Qwen3-0.6B", *arguments[2:])
        for file in ("pytorch_model.bin", "model.safetensors"):
            with self.subTest(file):
                torch.save(self.qwen3.state_dict(), folder / file)
                message = attend(self.folder, *arguments, status=2)
                command = message[message.index("python3 -c"):].replace("python3", shlex.quote(sys.executable), 1)
                subprocess.run(["sh", "-c", command], cwd=self.folder, check=True)
                self.assertFalse((self.folder / "was-run").exists())
                self.assertEqual(attend(self.folder, *arguments), expected)

    def test_inspect_lists_config_and_tensors(self):
        found = json.loads(attend(self.folder, "inspect", "Qwen3-0.6B", "--json"))
        self.assertEqual(found["config"]["model_type"], "qwen3")
        self.assertIn("model.norm.weight", [tensor["name"] for tensor in found["tensors"]])

    def test_wrong_kinds_of_models(self):
        for arguments, name in ((["generate", "all-MiniLM-L6-v2", "--prompt", "x"], "sequence_classifier"),
                                (["eval", "all-MiniLM-L6-v2", "lines.txt"], "sequence_classifier"),
                                (["embed", "Qwen3-0.6B", "x"], "language_model"),
                                (["eval", "Qwen3-0.6B"], "FILE"),
                                (["embed", "Qwen3-0.6B", "x", "--weights", "last"], "--weights last")):
            self.assertIn(name, attend(self.folder, *arguments, status=2))

    def test_a_folder_without_a_model(self):
        (self.folder / "empty").mkdir(exist_ok=True)
        for command in (["embed", "empty", "x"], ["generate", "empty", "--prompt", "x"], ["eval", "empty"],
                        ["export", "empty", "-o", "x.onnx"], ["inspect", "empty"]):
            message = attend(self.folder, *command, status=2)
            self.assertIn("recipe.toml", message)
            self.assertIn("config.json", message)

    def test_texts_that_are_not_utf8(self):
        (self.folder / "wrong.txt").write_bytes(b"cat\nc\xffa\n")
        self.assertIn("wrong.txt:2", attend(self.folder, "embed", "all-MiniLM-L6-v2", "--file", "wrong.txt", status=2))
        self.assertIn("0xFF", attend(self.folder, "generate", "Qwen3-0.6B", "--prompt", b"\xff", status=2))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
