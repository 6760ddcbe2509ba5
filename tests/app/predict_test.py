"""attend predict, and the class names and metrics of a classifier in attend eval, export and generate.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import re
import subprocess
import unittest
import zipfile

from attend_command import ATTEND, CommandTest, attend, expect_names
from pseudo_terminal import open_pseudo_terminal

CLASSES = ["first one", "second", "third"]
ROWS = [(f"{word} {other}", CLASSES[number]) for number, word in enumerate(("ab", "cd", "ef"))
        for other in ("gh", "hg", "ggh", "hhg", "gg", "hh")]


class Classifier(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.table = cls.write("table.tsv", "text\tlabel\n" + "".join(f"{text}\t{name}\n" for text, name in ROWS))
        cls.run_directory = cls.folder / "lines"
        cls.training = cls().succeeds(
            "train", "--task", "labelled-lines", "--text", cls.table, "--out", cls.run_directory, "--max-steps", 40,
            "--embed-dim", 16, "--num-layers", 1, "--max-seq-len", 5, "--val-fraction", 0.3, "--lr", "1e-2")

    def predict(self, *arguments, given=None):
        """Returns the JSON objects that attend predict prints."""
        output = self.succeeds("predict", self.run_directory, *arguments, "--json", given=given).stdout
        return [json.loads(line) for line in output.splitlines()]

    def assert_equal_up_to_rounding(self, found, expected):
        """Compares JSON objects of attend predict. Probabilities in float32 depend on the batch by rounding errors."""
        self.assertEqual(len(found), len(expected))
        for each, other in zip(found, expected):
            self.assertEqual({**each, "predictions": None}, {**other, "predictions": None})
            probabilities = [{each["class"]: each["probability"] for each in predictions["predictions"]}
                             for predictions in (each, other)]
            self.assertEqual(*map(set, probabilities))
            for name, probability in probabilities[0].items():
                self.assertAlmostEqual(probability, probabilities[1][name], delta=2e-6)


class Predict(Classifier):
    def test_probabilities_of_all_classes_are_sorted_and_sum_to_1(self):
        (found,) = self.predict("ab gh", "--top", 0)
        self.assertEqual(found["text"], "ab gh")
        self.assertEqual(sorted(each["class"] for each in found["predictions"]), CLASSES)
        probabilities = [each["probability"] for each in found["predictions"]]
        self.assertEqual(probabilities, sorted(probabilities, reverse=True))
        self.assertAlmostEqual(sum(probabilities), 1, places=5)

    def test_top_is_the_number_of_classes(self):
        (every,) = self.predict("cd hg", "--top", 0)
        for flags, count in (((), 1), (("--top", 1), 1), (("--top", 2), 2), (("--top", 99), 3)):
            (found,) = self.predict("cd hg", *flags)
            self.assertEqual(found["predictions"], every["predictions"][:count], flags)

    def test_says_that_there_are_fewer_classes(self):
        for arguments in (["ab gh"], ["ab gh", "--json"]):
            result = self.succeeds("predict", self.run_directory, *arguments, "--top", 99)
            expect_names(self, result.stderr, "--top", 99, 3)
            self.assertEqual(self.succeeds("predict", self.run_directory, *arguments, "--top", 3).stderr, "")

    def test_a_file_is_answered_in_batches_as_each_line_by_itself(self):
        """The lines have different lengths, and their number is no multiple of a batch size."""
        texts = [("abcd gh" * 3)[number % 5:number % 17 + 5] or "a" for number in range(1333)]
        file = self.write("many.txt", "".join(text + "\n" for text in texts))
        batched = self.predict("--file", file, "--top", 0)
        single = self.predict("--top", 0, given=file.read_text())
        self.assertEqual([each["text"] for each in batched], texts)
        self.assertGreater(len({each["predictions"][0]["class"] for each in single}), 1)
        self.assert_equal_up_to_rounding(batched, single)

    def test_prints_tabs_between_classes_and_probabilities(self):
        (expected,) = self.predict("ef gg", "--top", 2)
        fields = self.succeeds("predict", self.run_directory, "ef gg", "--top", 2).stdout.split("\t")
        self.assertEqual(fields[::2], [each["class"] for each in expected["predictions"]])
        for field, each in zip(fields[1::2], expected["predictions"], strict=True):
            self.assertAlmostEqual(float(field), each["probability"], delta=6e-5)

    def test_arguments_a_file_and_standard_input_agree(self):
        texts = ["ab gh", "cd", "ef hh"]
        expected = self.predict(*texts)
        self.assertEqual([each["text"] for each in expected], texts)
        for ending in ("\n", "\r\n"):
            lines = "".join(text + ending for text in texts)
            file = self.write("lines.txt", lines)
            self.assert_equal_up_to_rounding(self.predict("--file", file), expected)
            self.assertEqual(self.predict("--file", "-", given=lines), expected)
            self.assertEqual(self.predict(given=lines.removesuffix(ending)), expected)
        self.assertEqual(self.predict(given=""), [])

    def test_arguments_after_two_hyphens_are_texts(self):
        output = self.succeeds("predict", self.run_directory, "ab", "--json", "--", "cd", "ef").stdout
        self.assertEqual([json.loads(line)["text"] for line in output.splitlines()], ["ab", "cd", "ef"])
        self.refuses(["predict", self.run_directory, "--top", 2, "--", "--json"], "'--json'", "'-'")

    def test_each_line_of_a_pipe_is_answered_before_the_next(self):
        process = subprocess.Popen([ATTEND, "predict", self.run_directory], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        with process:
            for text in ("ab gh", "cd gh"):
                process.stdin.write(text + "\n")
                process.stdin.flush()
                expected = self.succeeds("predict", self.run_directory, text).stdout
                self.assertEqual(process.stdout.readline(), expected)
            process.stdin.close()
        self.assertEqual(process.returncode, 0)

    def test_long_texts_are_truncated_as_in_training(self):
        long, short = self.predict("ab gh" + "cd" * 100, "ab gh", "--top", 0)
        self.assertEqual(long["predictions"], short["predictions"])
        other = self.predict("ab g", "--top", 0)[0]
        self.assertNotEqual(other["predictions"], short["predictions"])

    def test_truncated_texts_are_counted(self):
        texts = ["ab gh" + "cd" * 100, "ab gh", "ab ghh"]
        self.assertEqual([each["truncated"] for each in self.predict(*texts)], [True, False, True])
        for arguments, given in ((texts, None), ([], "\n".join(texts))):
            result = self.succeeds("predict", self.run_directory, *arguments, given=given)
            self.assertEqual(len(result.stdout.splitlines()), 3)
            expect_names(self, result.stderr, "2 of 3", "5")
        self.assertEqual(self.succeeds("predict", self.run_directory, "ab gh").stderr, "")

    def test_a_byte_order_mark_is_no_text(self):
        (expected,) = self.predict("ab gh")
        lines = "\ufeffab gh\r\n"
        self.assertEqual(self.predict("--file", self.write("marked.txt", lines)), [expected])
        self.assertEqual(self.predict(given=lines), [expected])

    def test_blank_lines_are_refused(self):
        """Otherwise, the lines of the output would not be those of the input."""
        for blank in ("", "\r"):
            for number, lines in ((1, f"{blank}\nab\n"), (2, f"ab\n{blank}\ncd\n"), (3, f"ab\ncd\n{blank}\n")):
                file = self.write("blank.txt", lines)
                for arguments, source in (([], "standard input"), (["--file", file], file)):
                    result = attend("predict", self.run_directory, *arguments, given=lines)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    expect_names(self, result.stderr, f"{source}:{number}")
                    self.assertEqual(len(result.stdout.splitlines()), number - 1)

    def test_invalid_input(self):
        run = ["predict", self.run_directory]
        unknown = self.write("unknown.txt", "abz\n")
        self.refuses([*run, "--file", unknown], f"{unknown}:1", "'z'")
        self.refuses([*run, "abz"], "'abz'", "'z'", "--tokenizer byte")
        self.refuses([*run, ""], "''")
        self.refuses([*run, "--file", self.folder / "none.txt"], "none.txt")
        self.refuses([*run, "ab", "--file", unknown], "--file", "text")
        self.refuses([*run, "--file", ""], "--file", given="ab\n")
        self.refuses([*run, "ab", "--top", -1], "--top", "-1")

    def test_no_text_on_a_terminal(self):
        controller, terminal = open_pseudo_terminal()
        try:
            result = subprocess.run([ATTEND, "predict", self.run_directory], stdin=terminal, capture_output=True,
                                    text=True, timeout=60)
        finally:
            os.close(controller)
            os.close(terminal)
        self.assertEqual(result.returncode, 2)
        expect_names(self, result.stderr, "TEXT", "--file")

    def test_train_generate_and_predict_name_the_command_that_fits_the_model(self):
        self.assertIn(f"  attend predict {self.run_directory} TEXT\n", self.training.stdout)
        self.assertNotIn("attend generate", self.training.stdout)
        self.refuses(["generate", self.run_directory], "sequence_classifier", f"attend predict {self.run_directory}")
        senses = self.folder / "senses"
        training = self.succeeds("train", "--out", senses, "--max-steps", 1, "--num-layers", 0)
        self.assertNotIn("attend predict", training.stdout)
        self.refuses(["predict", senses, "the"], "sequence_classifier", "language_model", f"attend generate {senses}")


class Words(CommandTest):
    def test_texts_without_a_known_word_are_counted(self):
        rows = [(f"{word} dog", word) for word in ("good", "bad")] * 4
        table = self.write("words.tsv", "text\tlabel\n" + "".join(f"{text}\t{name}\n" for text, name in rows))
        run = self.folder / "words"
        self.succeeds("train", "--task", "labelled-lines", "--text", table, "--out", run, "--tokenizer", "word",
                      "--vocab-size", 5, "--max-steps", 1, "--embed-dim", 16, "--num-layers", 1, "--val-fraction", 0.5)
        texts = ["good dog", "a cat", "a dog"]
        result = self.succeeds("predict", run, *texts, "--json")
        self.assertEqual([json.loads(line)["unknown"] for line in result.stdout.splitlines()], [False, True, False])
        expect_names(self, result.stderr, "1 of 3")
        self.assertEqual(self.succeeds("predict", run, "good dog").stderr, "")
        other = self.write("other.tsv", "text\tlabel\ngood dog\tgood\nmy cat sat\tbad\n")
        self.assertEqual(json.loads(self.succeeds("eval", run, other, "--json").stdout)["unknown"], 1)
        expect_names(self, self.succeeds("eval", run, other).stdout, "1 of 2")
        self.assertNotIn("unknown", self.succeeds("eval", run, table).stdout)


class Brackets(CommandTest):
    def test_texts_are_used_verbatim(self):
        run = self.folder / "brackets"
        self.succeeds("train", "--task", "balanced-brackets", "--out", run, "--max-steps", 1, "--embed-dim", 16,
                      "--num-layers", 1, "--batch-size", 4)
        texts = ["[()]", "[]", "[[]]", "()", "[", "[](", "([)]"]
        output = self.succeeds("predict", run, *texts, "--json").stdout
        self.assertEqual([json.loads(line)["text"] for line in output.splitlines()], texts)
        self.refuses(["predict", run, "[,]"], "'[,]'", "','")
        message = self.refuses(["predict", run, "{}"], "'{}'", "'{'")
        self.assertNotIn("--tokenizer", message)


class Eval(Classifier):
    def test_metrics_agree_with_the_predictions(self):
        """The metrics are computed again in Python from the output of attend predict."""
        predicted = [each["predictions"][0]["class"] for each in self.predict(*[text for text, _ in ROWS])]
        pairs = [(name, found) for (_, name), found in zip(ROWS, predicted, strict=True)]
        report = json.loads(self.succeeds("eval", self.run_directory, self.table, "--json").stdout)
        self.assertEqual(report["confusion_matrix"],
                         [[pairs.count((true, found)) for found in CLASSES] for true in CLASSES])
        self.assertEqual([each["class"] for each in report["classes"]], CLASSES)
        self.assertGreater(len(set(predicted)), 1)
        for each in report["classes"]:
            name = each["class"]
            hits, found = pairs.count((name, name)), predicted.count(name)
            precision, recall = hits / found if found else 0, hits / 6
            f1 = 2 * precision * recall / (precision + recall) if hits else 0
            for key, expected in (("precision", precision), ("recall", recall), ("f1", f1), ("support", 6)):
                self.assertAlmostEqual(each[key], expected, msg=f"{key} of {name}")

    def test_a_table_may_have_other_columns(self):
        table = self.write("columns.csv", "sentence;class\nab gh;second\n")
        expect_names(self, self.refuses(["eval", self.run_directory, table]), table, "sentence", "class", "--text-column",
                     "--label-column")
        columns = ["--text-column", "sentence", "--label-column", "class"]
        report = json.loads(self.succeeds("eval", self.run_directory, table, *columns, "--json").stdout)
        self.assertEqual(report["val_targets"], 1)
        objects = self.write("columns.jsonl", '{"sentence": "ab gh", "class": "second", "id": 7}\n')
        self.assertEqual(json.loads(self.succeeds("eval", self.run_directory, objects, *columns, "--json").stdout),
                         {**report, "file": str(objects)})
        self.assertNotIn("text_column", report["overrides"])
        for flag in ("--text-column", "--label-column"):
            self.refuses(["eval", self.run_directory, flag, "x"], flag, "FILE")
            self.refuses(["eval", self.run_directory, table, flag, ""], flag)

    def test_counts_truncated_texts(self):
        report = json.loads(self.succeeds("eval", self.run_directory, self.table, "--json").stdout)
        long = sum(len(text) > 5 for text, _ in ROWS)
        self.assertEqual(report["truncated"], long)
        text = self.succeeds("eval", self.run_directory, self.table).stdout
        expect_names(self, text, f"{long} of {len(ROWS)}")
        short = self.write("short.tsv", "text\tlabel\nab\tsecond\n")
        self.assertEqual(json.loads(self.succeeds("eval", self.run_directory, short, "--json").stdout)["truncated"], 0)
        self.assertNotIn("truncated", self.succeeds("eval", self.run_directory, short).stdout)

    def test_prints_the_metrics_and_the_matrix(self):
        report = json.loads(self.succeeds("eval", self.run_directory, "--json").stdout)
        text = self.succeeds("eval", self.run_directory).stdout
        for each, row in zip(report["classes"], report["confusion_matrix"], strict=True):
            numbers = rf"{each['precision']:.4f} +{each['recall']:.4f} +{each['f1']:.4f} +{each['support']}"
            self.assertRegex(text, rf"(?m)^{each['class']} +{numbers}$")
            self.assertRegex(text, rf"(?m)^{each['class']} +{' +'.join(map(str, row))}$")

    def test_many_classes_are_cut(self):
        """The matrix contains the most frequent classes. Its last column counts the predictions of the others."""
        run = self.folder / "many"
        rows = [(f"{number} {copy}", f"class {number}") for number in range(60) for copy in range(1 + number // 3)]
        table = self.write("many.tsv", "text\tlabel\n" + "".join(f"{text}\t{name}\n" for text, name in rows))
        self.succeeds("train", "--task", "labelled-lines", "--text", table, "--out", run, "--max-steps", 1,
                      "--embed-dim", 16, "--num-layers", 1)
        report = json.loads(self.succeeds("eval", run, table, "--json").stdout)
        self.assertEqual(len(report["confusion_matrix"]), 60)
        metrics, matrix = self.succeeds("eval", run, table).stdout.split("\nconfusion matrix")
        self.assertLess(len(metrics.splitlines()), 60)
        expect_names(self, metrics, 10, "--json")
        lines = matrix.splitlines()
        expect_names(self, lines[0], 20, 60)
        shown = [f"class {number}" for number in (39, 40, *range(42, 60))]
        self.assertEqual(re.split(r"  +", lines[1].strip()), [*shown, "other"])
        names = [each["class"] for each in report["classes"]]
        for name, line in zip(shown, lines[2:], strict=True):
            row = report["confusion_matrix"][names.index(name)]
            counts = [row[names.index(other)] for other in shown]
            self.assertEqual(re.split(r"  +", line), [name, *map(str, [*counts, sum(row) - sum(counts)])])

    def test_json_names_the_run_and_the_values_that_differ_from_the_defaults(self):
        for directory, options in ((self.run_directory, {}), (f"{self.run_directory}/", {}),
                                   (".", {"cwd": self.run_directory})):
            report = json.loads(self.succeeds("eval", directory, "--json", **options).stdout)
            self.assertEqual((report["run"], report["task"], report["recipe"]), ("lines", "labelled-lines", None))
            self.assertEqual(report["overrides"], {"val_fraction": 0.3, "num_layers": 1, "embed_dim": 16,
                                                   "max_seq_len": 5, "max_steps": 40, "lr": 0.01})

    def test_json_names_the_recipe(self):
        mine = self.write("mine.toml", "task = 'sort'\n[training]\nmax_steps = 1\n")
        short = ["--max-steps", 1, "--warmup-steps", 0, "--num-layers", 0, "--embed-dim", 8]
        for recipe, name in ((mine, "mine"), ("sort", "sort")):
            run = self.folder / f"of-{name}"
            self.succeeds("train", recipe, *short, "--out", run)
            self.assertEqual(json.loads(self.succeeds("eval", run, "--json").stdout)["recipe"], name)

    def test_only_classifiers_have_class_metrics(self):
        senses = self.folder / "senses"
        self.succeeds("train", "--out", senses, "--max-steps", 1, "--num-layers", 0)
        report = json.loads(self.succeeds("eval", senses, "--json").stdout)
        self.assertFalse({"classes", "confusion_matrix", "truncated"} & report.keys())


class Export(Classifier):
    def test_files_contain_the_class_names_but_no_paths(self):
        for extension in ("pt", "pt2", "onnx", "safetensors"):
            with self.subTest(extension):
                path = self.folder / f"model.{extension}"
                self.succeeds("export", self.run_directory, "-o", path)
                content = path.read_bytes()
                if extension.startswith("pt"):
                    with zipfile.ZipFile(path) as archive:
                        texts = {name.split("/")[-1]: archive.read(name) for name in archive.namelist()}
                    content = b"".join(texts.values())
                    self.assertEqual(json.loads(texts["classes.json"]), CLASSES)
                    self.assertIn(b"labelled-lines", texts["recipe.toml"])
                elif extension == "safetensors":
                    size = int.from_bytes(content[:8], "little")
                    metadata = json.loads(content[8:8 + size])["__metadata__"]
                    self.assertEqual(metadata.keys(), {"format", "classes.json"})
                    self.assertEqual(json.loads(metadata["classes.json"]), CLASSES)
                else:
                    self.assertIn(b"classes.json", content)
                    self.assertIn(b'["first one","second","third"]', content)
                    self.assertIn(b"labelled-lines", content)
                self.assertNotIn(str(self.folder).encode(), content)
                self.assertNotIn(b"table.tsv", content)

    def test_files_of_other_models_contain_no_class_names(self):
        senses = self.folder / "senses"
        self.succeeds("train", "--out", senses, "--max-steps", 1, "--num-layers", 0)
        path = self.folder / "senses.pt"
        self.succeeds("export", senses, "-o", path)
        with zipfile.ZipFile(path) as archive:
            self.assertNotIn("classes.json", [name.split("/")[-1] for name in archive.namelist()])


if __name__ == "__main__":
    unittest.main()
