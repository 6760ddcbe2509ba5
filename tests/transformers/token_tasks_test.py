"""Compares token classification and masked language modelling with Hugging Face transformers: models with random
sizes and weights are the initial weights of runs, and the runs are exported to folders that transformers loads. The
predicted probabilities must be equal up to the effects of rounding.

Run by CTest with ATTEND set to the built command. If Python has no transformers 5, it exits with status 77, which
CTest reports as skipped. ATTEND_TEST_SEED repeats a run.
"""

import json
import math
import os
import pathlib
import random
import sys
import unittest

try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/test installs transformers into .venv")
    sys.exit(77)
if int(transformers.__version__.partition(".")[0]) < 5:
    print(f"skipped: transformers {transformers.__version__} found, 5.0 or newer expected; "
          "scripts/test installs it into .venv")
    sys.exit(77)

try:
    import peft
except ImportError:
    peft = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from attend_command import CommandTest, expect_names

SEED = int(os.environ.get("ATTEND_TEST_SEED") or random.SystemRandom().randrange(2**32))
MAX_SEQ_LEN = 24
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["ada", "##s", "lon", "##don", "##er", "in", "to", "new", "york", "a", "##b", "."]
WORDS = ["Adas", "Londoner", "in", "to", "New", "York", "ab", "."]
TAGS = ["B-LOC", "I-LOC", "O"]
EXACT = ("--max-steps", 1, "--lr", "1e-12")  # changes the weights less than rounding
# Both programs compute in float32, in another order. The widths are below 64, so that the errors of a logit stay below
# a hundred roundings (1.2e-7) of numbers of about 10.
CLOSE = 1e-4


def wordpiece():
    """The tokenizer of BERT, with few words."""
    vocab = {token: i for i, token in enumerate(SPECIAL + PIECES)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens(SPECIAL)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]",
                                                cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


def sizes(rng):
    heads = rng.choice([1, 2, 4])
    return {"vocab_size": len(SPECIAL + PIECES) + rng.choice([0, 3]), "hidden": heads * rng.choice([4, 8]),
            "heads": heads, "layers": rng.randint(1, 3), "inner": rng.randint(5, 40)}


def bert(rng, model_class, **options):
    size = sizes(rng)
    return model_class(transformers.BertConfig(
        vocab_size=size["vocab_size"], hidden_size=size["hidden"], num_attention_heads=size["heads"],
        num_hidden_layers=size["layers"], intermediate_size=size["inner"], max_position_embeddings=MAX_SEQ_LEN,
        hidden_act=rng.choice(["gelu", "relu"]), **options))


def distilbert(rng, model_class, **options):
    size = sizes(rng)
    return model_class(transformers.DistilBertConfig(
        vocab_size=size["vocab_size"], dim=size["hidden"], n_heads=size["heads"], n_layers=size["layers"],
        hidden_dim=size["inner"], max_position_embeddings=MAX_SEQ_LEN, activation=rng.choice(["gelu", "relu"]), **options))


def roberta(rng, model_class, **options):
    """With the tokenizer above, whose padding is token 0, so without padding."""
    size = sizes(rng)
    return model_class(transformers.RobertaConfig(
        vocab_size=size["vocab_size"], hidden_size=size["hidden"], num_attention_heads=size["heads"],
        num_hidden_layers=size["layers"], intermediate_size=size["inner"], max_position_embeddings=MAX_SEQ_LEN + 2,
        pad_token_id=1, type_vocab_size=1, **options))


FAMILIES = {
    "bert": (bert, transformers.BertModel, transformers.BertForTokenClassification, transformers.BertForMaskedLM),
    "distilbert": (distilbert, transformers.DistilBertModel, transformers.DistilBertForTokenClassification,
                   transformers.DistilBertForMaskedLM),
    "roberta": (roberta, transformers.RobertaModel, transformers.RobertaForTokenClassification,
                transformers.RobertaForMaskedLM)}


def randomize(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.4)
    return model.eval()


class TokenTasks(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        print(f"\nATTEND_TEST_SEED={SEED}")
        torch.manual_seed(SEED)

    def setUp(self):
        self.rng = random.Random(f"{SEED} {self.id()}")
        self.tokenizer = wordpiece()

    def save(self, name, model):
        folder = self.folder / name
        model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return folder

    def predict(self, run, text, top):
        return json.loads(self.succeeds("predict", run, text, "--json", "--top", top).stdout)

    def probabilities(self, model, ids):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].double().softmax(-1)

    def sentence(self):
        return self.rng.choices(WORDS, k=self.rng.randint(1, 8))

    def expect_tags(self, run, model, labels):
        """Expects that the run predicts the tags that the model of transformers predicts."""
        words = self.sentence()
        encoded = self.tokenizer(words, is_split_into_words=True)
        expected = self.probabilities(model, encoded["input_ids"])
        found = self.predict(run, " ".join(words), 0)["words"]
        self.assertEqual([each["word"] for each in found], words)
        for i, each in enumerate(found):
            position = encoded.word_ids().index(i)
            for prediction in each["predictions"]:
                label = next(index for index, name in labels.items() if name == prediction["tag"])
                self.assertAlmostEqual(prediction["probability"], expected[position][label].item(), delta=CLOSE)

    def expect_tokens(self, run, model):
        """Expects that the run fills masks as the model of transformers does."""
        words = [word if self.rng.random() < 0.6 else "[MASK]" for word in self.sentence()] + ["[MASK]"]
        ids = self.tokenizer(" ".join(words))["input_ids"]
        expected = self.probabilities(model, ids)[torch.tensor(ids) == self.tokenizer.mask_token_id]
        found = self.predict(run, " ".join(words), 0)["masks"]
        self.assertEqual(len(found), len(expected))
        for predictions, row in zip(found, expected):
            self.assertEqual(len(predictions), len(row))
            for each in predictions:
                if each["token"]:  # a row of the embedding may have none
                    token = self.tokenizer.convert_tokens_to_ids(each["token"])
                    self.assertAlmostEqual(each["probability"], row[token].item(), delta=CLOSE)

    def write_sentences(self):
        lines = "".join("".join(f"{word} {self.rng.choice(TAGS)}\n" for word in self.sentence()) + "\n" for _ in range(40))
        return self.write("data.conll", lines + "".join(f"a {tag}\n" for tag in TAGS))

    def test_token_classification(self):
        for family, (make, body, tagger, _) in FAMILIES.items():
            with self.subTest(family):
                base = self.save(f"{family}-base", randomize(make(self.rng, body)))
                run = self.folder / f"{family}-run"
                self.succeeds("train", "--task", "token-classification", "--init-from", base, "--text",
                              self.write_sentences(), "--out", run, "--max-steps", 3, "--batch-size", 4)
                exported = self.folder / f"{family}-exported"
                self.succeeds("export", run, "--format", "hf", "-o", exported)
                model = transformers.AutoModelForTokenClassification.from_pretrained(exported).eval()
                self.assertIsInstance(model, tagger)
                self.assertEqual(list(model.config.id2label.values()), TAGS)
                for _ in range(3):
                    self.expect_tags(run, model, model.config.id2label)
                # and back, as a run of its own and as initial weights
                imported = self.folder / f"{family}-imported"
                self.succeeds("import", exported, "--out", imported)
                self.expect_tags(imported, model, model.config.id2label)
                again = self.folder / f"{family}-again"
                self.succeeds("train", "--task", "token-classification", "--init-from", exported, "--text",
                              self.write_sentences(), "--out", again, *EXACT)
                self.expect_tags(again, model, model.config.id2label)

    def test_masked_lm(self):
        text = self.write("data.txt", "".join(" ".join(self.sentence()) + "\n" for _ in range(60)))
        for family, (make, _, _, masked) in FAMILIES.items():
            with self.subTest(family):
                model = randomize(make(self.rng, masked))
                run = self.folder / f"{family}-masked"
                self.succeeds("train", "--task", "masked-lm", "--init-from", self.save(f"{family}-lm", model), "--text",
                              text, "--out", run, *EXACT)
                for _ in range(3):
                    self.expect_tokens(run, model)
                trained = self.folder / f"{family}-trained"
                self.succeeds("train", "--task", "masked-lm", "--init-from", run, "--text", text, "--out", trained,
                              "--max-steps", 3, "--batch-size", 4)
                exported = self.folder / f"{family}-masked-exported"
                self.succeeds("export", trained, "--format", "hf", "-o", exported)
                again = transformers.AutoModelForMaskedLM.from_pretrained(exported).eval()
                self.assertIsInstance(again, masked)
                self.expect_tokens(trained, again)

    def test_a_masked_language_model_becomes_a_classifier(self):
        text = self.write("mlm.txt", "".join(" ".join(self.sentence()) + "\n" for _ in range(60)))
        table = self.write("table.csv", "text,label\n" + "".join(f"{' '.join(self.sentence())},{i % 3}\n" for i in range(30)))
        for family, (make, _, _, masked) in FAMILIES.items():
            with self.subTest(family):
                base = self.save(f"{family}-mlm", randomize(make(self.rng, masked)))
                run, classifier, exported = (self.folder / f"{family}-{name}" for name in ("filler", "classes", "folder"))
                self.succeeds("train", "--task", "masked-lm", "--init-from", base, "--text", text, "--out", run,
                              "--max-steps", 2, "--batch-size", 4)
                self.succeeds("train", "--task", "labelled-lines", "--init-from", run, "--text", table, "--out", classifier,
                              "--max-steps", 2, "--batch-size", 4)
                if family == "distilbert":  # no class of this library: the mean of the tokens, as from a folder
                    self.assertIn("pooler = false", (classifier / "recipe.toml").read_text())
                    continue
                self.succeeds("export", classifier, "--format", "hf", "-o", exported)
                model = transformers.AutoModelForSequenceClassification.from_pretrained(exported).eval()
                words = " ".join(self.sentence())
                with torch.no_grad():
                    logits = model(torch.tensor([self.tokenizer(words)["input_ids"]])).logits[0]
                expected = logits.double().softmax(-1)
                found = self.predict(classifier, words, 0)["predictions"]
                self.assertEqual(len(found), 3)
                for each in found:
                    label = model.config.label2id[each["class"]]
                    self.assertAlmostEqual(each["probability"], expected[label].item(), delta=CLOSE)

    def test_long_texts_are_truncated_as_in_transformers(self):
        """At the length in tokenizer.json, or at max_seq_len, with the special tokens."""
        labels = [f"LABEL_{i}" for i in range(3)]
        model = randomize(bert(self.rng, transformers.BertForSequenceClassification, num_labels=len(labels)))
        short, long = "Adas", " ".join(self.rng.choices(WORDS, k=3 * MAX_SEQ_LEN))
        table = self.write("long.csv", "text,label\n" + "".join(f"{text},{label}\n" for text in (long, short)
                                                               for label in labels))
        copy = self.write("long-copy.csv", table.read_text())
        for max_length in (None, 10):
            base = self.save(f"long-{max_length}", model)
            if max_length:
                file = base / "tokenizer.json"
                file.write_text(json.dumps({**json.loads(file.read_text()), "truncation": {
                    "direction": "Right", "max_length": max_length, "strategy": "LongestFirst", "stride": 0}}))
            for side in ("right", "left"):
                with self.subTest(max_length=max_length, side=side):
                    run = self.folder / f"long-{max_length}-{side}"
                    shown = self.succeeds("train", "--task", "labelled-lines", "--init-from", base, "--text", table,
                                          "--val-text", copy, "--truncate", side, "--out", run, *EXACT).stdout
                    self.assertRegex(shown, rf"truncated +6 of 12 .* {max_length or MAX_SEQ_LEN} tokens")
                    self.tokenizer.truncation_side = side
                    ids = self.tokenizer(long, truncation=True, max_length=max_length or MAX_SEQ_LEN)["input_ids"]
                    with torch.no_grad():
                        expected = model(torch.tensor([ids])).logits[0].double().softmax(-1)
                    found = self.predict(run, long, 0)
                    self.assertTrue(found["truncated"])
                    self.assertFalse(self.predict(run, short, 0)["truncated"])
                    for each in found["predictions"]:
                        self.assertAlmostEqual(each["probability"], expected[labels.index(each["class"])].item(), delta=CLOSE)
                    measured = json.loads(self.succeeds("eval", run, table, "--json").stdout)
                    self.assertEqual(measured["truncated"], 3)

    @unittest.skipIf(peft is None, "peft is not installed")
    def test_adapters(self):
        base = self.save("adapted-base", randomize(bert(self.rng, transformers.BertModel)))
        run, adapter, merged = (self.folder / name for name in ("adapted", "adapter", "merged"))
        self.succeeds("train", "--task", "token-classification", "--init-from", base, "--text", self.write_sentences(),
                      "--out", run, "--max-steps", 3, "--batch-size", 4, "--lora-rank", 2)
        self.succeeds("export", run, "--format", "peft", "-o", adapter)
        body = transformers.AutoModelForTokenClassification.from_pretrained(base, num_labels=len(TAGS))
        model = peft.PeftModel.from_pretrained(body, adapter).eval()
        self.assertEqual(model.peft_config["default"].task_type, "TOKEN_CLS")
        self.expect_tags(run, model, dict(enumerate(TAGS)))
        # The classes of a run are sorted, those of a published model need not be.
        reversed_tags = dict(enumerate(reversed(TAGS)))
        published = randomize(bert(self.rng, transformers.BertForTokenClassification, num_labels=len(TAGS),
                                   id2label=reversed_tags, label2id={tag: i for i, tag in reversed_tags.items()}))
        other = self.save("other-order", published)
        for name, lora in {"ordered": (), "ordered-lora": ("--lora-rank", 2)}.items():
            ordered = self.folder / name
            self.succeeds("train", "--task", "token-classification", "--init-from", other, "--text", self.write_sentences(),
                          "--out", ordered, "--max-steps", 1, "--batch-size", 4, "--lr", "1e-12", "--warmup-steps", 0, *lora)
            self.expect_tags(ordered, published, reversed_tags)
        self.succeeds("export", ordered, "--format", "peft", "-o", self.folder / "ordered-adapter")
        body = transformers.AutoModelForTokenClassification.from_pretrained(other)
        self.expect_tags(ordered, peft.PeftModel.from_pretrained(body, self.folder / "ordered-adapter").eval(), reversed_tags)
        imported = self.folder / "imported-adapter"
        self.succeeds("import", adapter, "--out", imported)
        self.expect_tags(imported, model, {i: f"LABEL_{i}" for i in range(len(TAGS))})
        self.succeeds("export", run, "--merge", "--format", "hf", "-o", merged)
        model = transformers.AutoModelForTokenClassification.from_pretrained(merged).eval()
        self.expect_tags(run, model, model.config.id2label)

    def test_adapters_of_masked_language_models_are_only_merged(self):
        base = self.save("adapted-mlm", randomize(bert(self.rng, transformers.BertForMaskedLM)))
        text = self.write("adapted.txt", "".join(" ".join(self.sentence()) + "\n" for _ in range(60)))
        run, adapter = self.folder / "adapted-masked", self.folder / "masked-adapter"
        self.succeeds("train", "--task", "masked-lm", "--init-from", base, "--text", text, "--out", run, "--max-steps", 2,
                      "--batch-size", 4, "--lora-rank", 2)
        expect_names(self, self.refuses(["export", run, "--format", "peft", "-o", adapter]), "--merge")
        self.assertFalse(adapter.exists())
        self.succeeds("export", run, "--merge", "--format", "hf", "-o", self.folder / "masked-merged")

    def test_a_head_with_weights_of_its_own_is_new(self):
        text = self.write("untied.txt", "".join(" ".join(self.sentence()) + "\n" for _ in range(60)))
        model = randomize(bert(self.rng, transformers.BertForMaskedLM, tie_word_embeddings=False))
        result = self.succeeds("train", "--task", "masked-lm", "--init-from", self.save("untied", model), "--text", text,
                               "--out", self.folder / "of-untied", *EXACT)
        expect_names(self, result.stdout + result.stderr, "cls.predictions.decoder.weight", "lm_dense.weight")

    def test_losses_are_those_of_transformers(self):
        """The loss over the first tokens of all words, with the others ignored."""
        model = randomize(bert(self.rng, transformers.BertForTokenClassification, num_labels=3,
                               id2label=dict(enumerate(TAGS)), label2id={tag: i for i, tag in enumerate(TAGS)}))
        run = self.folder / "losses"
        file = self.write_sentences()
        self.succeeds("import", self.save("tagger", model), "--out", run)
        total = count = correct = 0
        for block in file.read_text().strip().split("\n\n"):
            words, tags = zip(*(line.split() for line in block.splitlines()))
            encoded = self.tokenizer(list(words), is_split_into_words=True)
            probabilities = self.probabilities(model, encoded["input_ids"])
            for i, tag in enumerate(tags):
                row = probabilities[encoded.word_ids().index(i)]
                total -= math.log(row[TAGS.index(tag)].item())
                correct += row.argmax().item() == TAGS.index(tag)
                count += 1
        measured = json.loads(self.succeeds("eval", run, file, "--json").stdout)
        self.assertEqual(measured["val_targets"], count)
        self.assertAlmostEqual(measured["val_loss"], total / count, delta=CLOSE)
        self.assertAlmostEqual(measured["val_accuracy"], correct / count, delta=1 / count)


if __name__ == "__main__":
    unittest.main()
