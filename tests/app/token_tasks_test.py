"""Tasks that predict tokens: token classification (tags of words) and masked language modelling.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import csv
import io
import itertools
import json
import os
import random
import unittest

from attend_command import CommandTest, attend, expect_names
from small_runs import read_safetensors

SEED = int(os.environ.get("ATTEND_TEST_SEED") or random.SystemRandom().randrange(2**32))
TINY = ("--embed-dim", 16, "--num-heads", 2, "--num-layers", 1, "--max-seq-len", 16, "--eval-every", 20)
PEOPLE = ["Ada Lovelace", "Grace Hopper", "Alan", "Marie Curie"]
PLACES = ["London", "New York", "Oslo", "San Marino"]


def phrase(text, kind):
    return [(word, f"{'I' if i else 'B'}-{kind}") for i, word in enumerate(text.split())]


def sentences(rng, count):
    """Sentences as lists of pairs (word, tag)."""
    return [phrase(rng.choice(PEOPLE), "PER") + [("lives", "O"), ("in", "O")] + phrase(rng.choice(PLACES), "LOC") +
            ([(".", "O")] if rng.random() < 0.5 else []) for _ in range(count)]


def conll(data, separator=" ", between=()):
    """The format of CoNLL, with `between` as columns between word and tag."""
    return "".join("".join(separator.join((word, *between, tag)) + "\n" for word, tag in sentence) + "\n"
                   for sentence in data)


def entities(tags):
    """Entities (type, begin, end), independently of the command: a new one begins at B, or where the type changes."""
    found = []
    for kind, group in itertools.groupby(enumerate(tags), lambda pair: pair[1][2:]):
        places = [place for place, _ in group]
        starts = [place for place in places if kind and (place == places[0] or tags[place][0] == "B")]
        found += [(kind, start, end) for start, end in zip(starts, [*starts[1:], places[-1] + 1])]
    return found


class TokenTask(CommandTest):
    def train(self, name, *arguments):
        run = self.folder / name
        return run, self.succeeds("train", *arguments, "--out", run, *TINY).stdout

    def measure(self, *arguments):
        return json.loads(self.succeeds("eval", *arguments, "--json").stdout)

    def expect_same_when_resumed(self, *arguments):
        arguments += ("--schedule", "constant", "--dropout", 0.2)
        whole, _ = self.train("whole", *arguments, "--max-steps", 40)
        part, _ = self.train("part", *arguments, "--max-steps", 20)
        self.succeeds("train", "--resume", part, "--max-steps", 40)
        self.assertEqual(read_safetensors(part / "model.safetensors"), read_safetensors(whole / "model.safetensors"))

    def predict(self, *arguments, **options):
        return [json.loads(line) for line in self.succeeds("predict", *arguments, "--json", **options).stdout.splitlines()]


class TokenClassification(TokenTask):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        print(f"\nATTEND_TEST_SEED={SEED}")
        cls.data = sentences(random.Random(SEED), 200)
        cls.file = cls.write("entities.conll", "-DOCSTART- -X- O\n\n" + conll(cls.data, between=("NN",)))
        cls.run_dir = cls.folder / "tagger"
        attend("train", "--task", "token-classification", "--text", cls.file, "--out", cls.run_dir, *TINY,
               "--max-steps", "40", "--dropout", "0.3")

    def test_metrics_equal_those_of_the_predicted_tags(self):
        other = sentences(random.Random(SEED + 1), 30)
        words = [" ".join(word for word, _ in sentence) for sentence in other]
        predicted = [[word["predictions"][0]["tag"] for word in line["words"]]
                     for line in self.predict(self.run_dir, given="\n".join(words) + "\n")]
        expected = [[tag for _, tag in sentence] for sentence in other]
        measured = self.measure(self.run_dir, self.write("other.conll", conll(other)))
        pairs = [pair for one, two in zip(predicted, expected) for pair in zip(one, two)]
        self.assertEqual(measured["val_targets"], len(pairs))
        self.assertAlmostEqual(measured["val_accuracy"], sum(one == two for one, two in pairs) / len(pairs))
        found = {(i, *entity) for i, tags in enumerate(predicted) for entity in entities(tags)}
        wanted = {(i, *entity) for i, tags in enumerate(expected) for entity in entities(tags)}
        self.assertAlmostEqual(measured["micro_f1"], 2 * len(found & wanted) / (len(found) + len(wanted)))
        self.assertEqual([each["class"] for each in measured["classes"]], ["LOC", "PER"])
        for each in measured["classes"]:
            self.assertEqual(each["support"], sum(entity[1] == each["class"] for entity in wanted))

    def test_prints_the_tag_of_each_word(self):
        lines = self.succeeds("predict", self.run_dir, "Alan lives in Oslo", "--top", 2).stdout.splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["Alan", "lives", "in", "Oslo", ""])
        self.assertEqual({len(line.split("\t")) for line in lines[:-1]}, {5})
        line, = self.predict(self.run_dir, "Grace Hopper lives in New York")
        tags = [word["predictions"][0]["tag"] for word in line["words"]]
        self.assertEqual([(each["type"], each["begin"], each["end"]) for each in line["entities"]], entities(tags))
        for each in line["entities"]:
            self.assertEqual(each["text"], " ".join(line["text"].split()[each["begin"]:each["end"]]))

    def test_a_first_word_may_begin_with_a_number_sign(self):
        tagged = self.write("hash.conll", "# a comment of five words\n#tag LOC\nin O\n\nOslo LOC\n\n# tags\n#hash O\nin O\n")
        run = self.folder / "hash"
        shown = self.succeeds("train", "--task", "token-classification", "--text", tagged, "--val-text",
                              self.write("copy.conll", tagged.read_text()), "--out", run, *TINY, "--max-steps", 1).stdout
        line = next(line for line in shown.splitlines() if line.startswith("tags"))
        expect_names(self, line, "O (3)", "LOC (2)")
        first = self.write("first.conll", "#\tO\nOslo\tLOC\n\nin\tO\n")  # a word, unlike a heading with a space
        self.assertEqual(json.loads(self.succeeds("eval", run, first, "--json").stdout)["val_targets"], 3)

    def test_words_after_the_maximum_length_have_no_tag(self):
        text = " ".join(["lives"] * 20)
        line, = self.predict(self.run_dir, text)
        self.assertTrue(line["truncated"])
        self.assertEqual([bool(word["predictions"]) for word in line["words"]], [True] * 16 + [False] * 4)
        result = self.succeeds("predict", self.run_dir, text)
        self.assertEqual(result.stdout.splitlines()[-2], "lives\t_")
        expect_names(self, result.stderr, "truncated", 1, 16)
        long = self.write("long.conll", conll([[("lives", "O")] * 20, [("Oslo", "B-LOC")]]))
        measured = self.measure(self.run_dir, long)
        self.assertEqual((measured["truncated"], measured["val_targets"]), (1, 17))

    def test_formats_give_equal_runs(self):
        rows = [([word for word, _ in sentence], [tag for _, tag in sentence]) for sentence in self.data]
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows(
            [("tokens", "tags"), *((" ".join(words), " ".join(tags)) for words, tags in rows)])
        files = {
            "a.conll": conll(self.data),
            "b.txt": "# id = 1\n" + conll(self.data, between=("NN", "1")).replace("\n\n", "\n\n# sent 2 of the file\n"),
            "c.tsv": conll(self.data, separator="\t").replace("\n", "\r\n"),
            "d.jsonl": "".join(json.dumps({"tokens": words, "tags": tags}) + "\n" for words, tags in rows),
            "e.csv": table.getvalue()}
        losses = set()
        for name, text in files.items():
            _, shown = self.train(f"format-{name}", "--task", "token-classification", "--text", self.write(name, text),
                                  "--max-steps", 10)
            summary = json.loads((self.folder / f"format-{name}" / "summary.json").read_text())
            losses.add(summary["val_loss"])
            expect_names(self, shown, "B-PER", "I-LOC")
        self.assertEqual(len(losses), 1, losses)

    def test_chooses_columns(self):
        lines = "".join(f"{i % 3}\t{word}\t{'NOUN' if tag != 'O' else 'X'}\t{tag}\n" for i, (word, tag)
                        in enumerate(pair for sentence in self.data for pair in [*sentence, ("", "")]))
        lines = lines.replace("\t\tNOUN\t\n", "\n").replace("0\n", "\n").replace("1\n", "\n").replace("2\n", "\n")
        file = self.write("columns.conll", lines)
        run, shown = self.train("columns", "--task", "token-classification", "--text", file, "--text-column", 2,
                                "--label-column", 3, "--max-steps", 10)
        expect_names(self, shown, "NOUN", "X")
        measured = self.measure(run)  # no tags of entities: those of words
        self.assertEqual([each["class"] for each in measured["classes"]], ["NOUN", "X"])
        self.assertEqual(len(measured["confusion_matrix"]), 2)
        for value in ("5", "0", "pos"):
            arguments = ["train", "--task", "token-classification", "--text", file, "--label-column", value]
            expect_names(self, self.refuses(arguments, cwd=self.folder), "columns.conll:1", "label_column",
                         f"'{value}'", 4)

    def test_reads_conllu(self):
        text = "# text = vámonos al mar\n1-2\tvámonos\t_\t_\n1\tvamos\tir\tVERB\n2\tnos\tnosotros\tPRON\n" \
               "3\tal\tal\tADP\n3.1\t_\t_\t_\n4\tmar\tmar\tNOUN\n\n1\tcasa\tcasa\tNOUN\n\n"
        file = self.write("words.conllu", text * 5)
        _, shown = self.train("conllu", "--task", "token-classification", "--text", file, "--max-steps", 5)
        expect_names(self, shown, "4: NOUN (10)", "VERB (5)", "PRON (5)")

    def test_f1_selects_the_best_weights(self):
        run, shown = self.train("best", "--task", "token-classification", "--text", self.file, "--max-steps", 60,
                                "--best-metric", "f1", "--class-weights", "balanced", "--val-text",
                                self.write("val.conll", conll(self.data[:50], between=("NN",))))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        evaluations = {line["step"]: line["val_f1"] for line in lines if "val_f1" in line}
        best = json.loads((run / "summary.json").read_text())["best_step"]
        self.assertEqual(evaluations[best], max(evaluations.values()))
        self.assertAlmostEqual(self.measure(run)["micro_f1"], evaluations[best])
        expect_names(self, shown, "class weights", "B-LOC")

    def test_resumes_bit_for_bit(self):
        self.expect_same_when_resumed("--task", "token-classification", "--text", self.file)

    def test_refuses_damaged_files(self):
        for text, *names in (
                ("a O\nb\n", "bad.conll:2", 1, 2), ("a\nb\n", "bad.conll:1", 1, 2), ("\n\n", "bad.conll"),
                ("a O\nb O\n", "bad.conll", "'O'"), ("a\t\nb\tO\n", "bad.conll:1")):
            file = self.write("bad.conll", text)
            expect_names(self, self.refuses(["train", "--task", "token-classification", "--text", file],
                                            cwd=self.folder), *names)
        for row, *names in (({"tokens": ["a", "b"], "tags": ["O"]}, 2, 1), ({"tokens": [], "tags": []},),
                            ({"tokens": [["a"]], "tags": ["O"]}, "tokens"), ({"tokens": ["a"]}, "tags")):
            file = self.write("bad.jsonl", json.dumps(row) + "\n")
            expect_names(self, self.refuses(["train", "--task", "token-classification", "--text", file],
                                            cwd=self.folder), "bad.jsonl:1", *names)
        unknown = self.write("unknown.conll", "Oslo B-ORG\n")
        expect_names(self, self.refuses(["eval", self.run_dir, unknown]), "unknown.conll:1", "'B-ORG'", "B-LOC")

    def test_other_commands_refuse_or_work(self):
        expect_names(self, self.refuses(["embed", self.run_dir, "Oslo"]), "predict")
        expect_names(self, self.refuses(["explain", self.run_dir, "--text", "Oslo"]), "token_classification")
        expect_names(self, self.refuses(["generate", self.run_dir, "--prompt", "Oslo"]), "predict")
        self.succeeds("report", self.run_dir)
        self.succeeds("export", self.run_dir, "-o", self.folder / "tagger.onnx")
        for pooling in ("mean", "max"):
            arguments = ["train", "--task", "token-classification", "--text", self.file, "--pooling", pooling]
            expect_names(self, self.refuses(arguments, cwd=self.folder), "token-classification", "none", pooling)


class MaskedLm(TokenTask):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rng = random.Random(SEED)
        sounds = {"cat": "meows", "dog": "barks", "cow": "moos"}
        animals = [rng.choice(list(sounds)) for _ in range(600)]
        cls.text = cls.write("text.txt", "".join(f"the {animal} {sounds[animal]} .\n" for animal in animals))

    def train_masked(self, name, *arguments):
        return self.train(name, "--task", "masked-lm", "--text", self.text, *arguments)

    def test_fills_masks(self):
        run, _ = self.train_masked("filled", "--max-steps", 400, "--lr", 0.01)
        line, = self.predict(run, "[MASK] dog [MASK] .", "--top", 3)
        self.assertEqual([len(mask) for mask in line["masks"]], [3, 3])
        for mask in line["masks"]:
            probabilities = [each["probability"] for each in mask]
            self.assertEqual(probabilities, sorted(probabilities, reverse=True))
        shown = self.succeeds("predict", run, "[MASK] dog").stdout.splitlines()
        self.assertEqual([len(line.split("\t")) for line in shown], [10])
        expect_names(self, self.refuses(["predict", run, "the dog"]), "[MASK]")
        self.succeeds("embed", run, "the dog")
        self.succeeds("report", run)
        measured = self.measure(run)
        self.assertLess(measured["perplexity"], 4)  # of about 10 words
        self.assertEqual(self.measure(run)["val_loss"], measured["val_loss"])  # always the same masks

    def test_mask_probability_sets_the_number_of_targets(self):
        counts = {}
        val_text = self.write("val.txt", "the cat meows .\n" * 64)  # 20 sequences
        for probability in (0.15, 0.5):
            run, _ = self.train_masked(f"mask-{probability}", "--max-steps", 1, "--mask-probability", probability,
                                       "--val-text", val_text)
            counts[probability] = self.measure(run)["val_targets"]
        # 16 tokens in a sequence: 2 and 8 of them
        self.assertEqual(counts, {0.15: 2 * 20, 0.5: 8 * 20})

    def test_resumes_bit_for_bit(self):
        self.expect_same_when_resumed("--task", "masked-lm", "--text", self.text)

    def test_initial_weights_are_those_of_the_body(self):
        run, _ = self.train_masked("body", "--max-steps", 5)
        table = self.write("table.tsv", "text\tlabel\nthe cat\ta\nthe dog\tb\nthe cow\ta\n")
        classifier = self.folder / "classifier"
        self.succeeds("train", "--task", "labelled-lines", "--init-from", run, "--text", table, "--out", classifier,
                      "--max-steps", 2)
        self.assertEqual(len(self.predict(classifier, "the cat")[0]["predictions"]), 1)

    def test_refuses_tokenizers_without_a_mask_token(self):
        for tokenizer in ("byte", "subword"):
            arguments = ["train", "--task", "masked-lm", "--text", self.text, "--tokenizer", tokenizer]
            arguments += ["--vocab-size", 300] if tokenizer == "subword" else []
            expect_names(self, self.refuses(arguments, cwd=self.folder), tokenizer, "character", "word")

    def test_characters_have_a_mask_token(self):
        run, _ = self.train_masked("characters", "--max-steps", 2, "--tokenizer", "character")
        line, = self.predict(run, "the c[MASK]t", "--top", 1)
        self.assertEqual([len(mask[0]["token"]) for mask in line["masks"]], [1])


if __name__ == "__main__":
    unittest.main()
