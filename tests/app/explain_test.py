"""attend explain: the numbers of the five introductory texts, steps, tokens and wrong input.

Run by CTest with ATTEND set to the built command. explain_numbers.json contains the matrices that the three
texts with reproducible numbers print, as printed there.
"""

import base64
import json
import math
import pathlib
import re
import struct
import tempfile
import unittest

from attend_command import CommandTest, expect_names

NUMBERS = pathlib.Path(__file__).with_name("explain_numbers.json")


class ExplainTest(CommandTest):
    def explain(self, *arguments):
        return json.loads(self.succeeds("explain", *arguments, "--json").stdout)

    def steps(self, *arguments):
        return {step["title"]: step for step in self.explain(*arguments)["steps"]}

    def matrix(self, step, name):
        return next(each["values"] for each in step["matrices"] if each["name"] == name)


class Examples(ExplainTest):
    def test_list(self):
        listed = [line.split()[0] for line in self.succeeds("explain", "--list").stdout.splitlines()]
        self.assertEqual(listed, ["sky", "numpy", "embedding", "bank", "blocks"])
        for name in listed:
            with self.subTest(name):
                self.assertIn("Step 1/", self.succeeds("explain", name).stdout)

    def test_every_matrix_of_the_texts_is_printed(self):
        for name, matrices in json.loads(NUMBERS.read_text()).items():
            found = [matrix["values"] for step in self.explain(name)["steps"] for matrix in step["matrices"]]
            for expected in matrices:
                with self.subTest(name, matrix=expected):
                    self.assertTrue(any(self.is_close(matrix, expected) for matrix in found))

    def is_close(self, found, expected):
        if len(found) != len(expected) or len(found[0]) != len(expected[0]):
            return False
        # The text prints the inputs of its products with 8 decimals, so the products have fewer exact decimals.
        decimals = min(max(len(y.partition(".")[2]) for row in expected for y in row), 7)
        pairs = [(x, float(y)) for a, b in zip(found, expected) for x, y in zip(a, b)]
        return all(x is None if y == -math.inf else x is not None and abs(x - y) <= 0.6 * 10 ** -decimals
                   for x, y in pairs)  # JSON has null for -inf

    def test_embedding_has_the_shapes_of_its_text(self):
        steps = self.steps("embedding")
        for prefix, shape in (("unscaled", (50, 10)), ("scaled", (50, 100))):
            output = self.matrix(steps[f"{prefix}: Output"], "Y")
            self.assertEqual((len(output), len(output[0])), shape)

    def test_rows_of_attention_weights_sum_to_1(self):
        for name in ("sky", "numpy", "embedding", "bank", "blocks"):
            for title, step in self.steps(name).items():
                if title.endswith("Attention weights"):
                    for row in self.matrix(step, "A"):
                        self.assertAlmostEqual(sum(row), 1, 5, title)

    def test_one_step_is_that_of_all_steps(self):
        self.assertEqual(self.explain("sky", "--step", 5)["steps"], self.explain("sky")["steps"][4:5])

    def test_the_mask_hides_later_tokens(self):
        weights = self.matrix(self.steps("numpy")["Attention weights"], "A")
        self.assertEqual([x for i, row in enumerate(weights) for x in row[i + 1:]], [0] * 6)

    def test_heads_are_joined(self):
        steps = self.steps("blocks")
        joined = self.matrix(steps["attention: Heads joined"], "Y")
        halves = [self.matrix(steps[f"head {head}: Output"], "Y") for head in (1, 2)]
        self.assertEqual(joined, [a + b for a, b in zip(*halves)])
        output = self.matrix(steps["feed-forward: Norm"], "N")
        for row in output:
            self.assertAlmostEqual(sum(row), 0, 4)


class Text(ExplainTest):
    def test_a_number_is_worked_out(self):
        text = self.succeeds("explain", "sky", "--step", 5).stdout
        self.assertIn("S[sky, is] = 0.2261 * 0.0509 + 0.7422 * 0.0705 = 0.0638", text)
        self.assertIn("Step 5/8", text)

    def test_fits_80_columns(self):
        for name in ("sky", "numpy", "embedding", "bank", "blocks"):
            lines = self.succeeds("explain", name, environment={"COLUMNS": "80"}).stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 80, name)

    def test_follows_a_token(self):
        self.assertIn("S[blue, ", self.succeeds("explain", "sky", "--token", "blue").stdout)
        self.assertIn("S[is, ", self.succeeds("explain", "sky", "--token", 2).stdout)
        self.assertIn("S[loan, ", self.succeeds("explain", "bank", "--token", "loan").stdout)

    def test_wrong_input(self):
        for arguments, names in ((["skyy"], ["skyy", "sky", "numpy"]), ([], ["--list"]),
                                 (["sky", "--step", 9], ["--step", "9", "8"]), (["sky", "--step", 0], ["--step"]),
                                 (["sky", "--token", "blu"], ["--token", "blu", "blue"])):
            with self.subTest(arguments):
                expect_names(self, self.refuses(["explain", *arguments]), *names)


class RunTest(ExplainTest):
    """Tests with runs, which are trained once for all classes."""

    trained = None
    OPTIONS = {"plain": [], "rotary": ["--positions", "rotary", "--num-kv-heads", 1, "--norm", "rms"],
               "alibi": ["--positions", "alibi", "--norm-order", "post", "--smeared-keys"],
               "relative": ["--positions", "relative", "--soft-cap", 5, "--qk-norm", "l2"],
               "partial": ["--positions", "rotary", "--rotary-dim", 4, "--rotary-interleaved", "--head-dim", 6,
                           "--num-experts", 4, "--num-experts-per-tok", 1, "--no-norm-topk-prob"],
               "sinks": ["--attention-sinks", "--qk-norm", "rms", "--sliding-window", 3],
               "parallel": ["--norm-order", "parallel", "--output-gate", "--activation", "swiglu",
                            "--branch-scale", "layer_scale"],
               "sandwich": ["--norm-order", "sandwich", "--num-experts", 3, "--value-residual"]}

    @classmethod
    def setUpClass(cls):
        if RunTest.trained is None:
            temporary = tempfile.TemporaryDirectory()
            unittest.addModuleCleanup(temporary.cleanup)
            RunTest.trained = pathlib.Path(temporary.name)
            RunTest.folder = RunTest.trained
            RunTest.train()

    @classmethod
    def train(cls):
        text = cls.write("text.txt", "abcd efgh\n" * 40)
        table = cls.write("table.csv", "text,label\nab,x\nba,y\nabba,x\n")
        tiny = ["--embed-dim", 16, "--num-heads", 2, "--max-seq-len", 8, "--max-steps", 3]
        for name, options in cls.OPTIONS.items():
            cls().succeeds("train", "--text", text, "--out", cls.folder / name, *tiny, *options)
        cls.classifier = cls.folder / "classifier"
        cls().succeeds("train", "--task", "labelled-lines", "--text", table, "--out", cls.classifier, *tiny)
        cls.seq2seq = cls.folder / "seq2seq"
        cls().succeeds("train", "--task", "translation", "--out", cls.seq2seq, "--embed-dim", 16, "--num-heads", 2,
                       "--num-layers", 2, "--num-decoder-layers", 3, "--max-steps", 3)


class Runs(RunTest):
    def test_numbers_are_those_of_the_model(self):
        for name in self.OPTIONS:
            with self.subTest(name):
                run = self.folder / name
                steps = self.steps(run, "--text", "abcdef", "--layer", 1, "--head", 2)
                weights = self.matrix(steps["head 2: Attention weights"], "A")
                scores = [self.matrix(step, "S") for title, step in steps.items()
                          if any(matrix["name"] == "S" for matrix in step["matrices"])][-1]
                for row, expected in zip(scores, weights if name != "sinks" else []):
                    powers = [0 if x is None else math.exp(x) for x in row]  # JSON has null for -inf
                    found = [power / sum(powers) for power in powers]
                    self.assertLess(max(abs(a - b) for a, b in zip(found, expected)), 1e-5)
                values = self.matrix(steps["head 2: The value of each token"], "V")
                output = self.matrix(steps["head 2: Output"], "Y")
                for row, expected in zip(weights, output):
                    found = [sum(a * v[i] for a, v in zip(row, values)) for i in range(len(values[0]))]
                    self.assertLess(max(abs(a - b) for a, b in zip(found, expected)), 1e-5)
                    self.assertEqual(sum(row) < 0.999, name == "sinks")
                for i, row in enumerate(weights):
                    self.assertEqual(max(row[i + 1:], default=0), 0)
                    if name == "sinks":
                        self.assertEqual(max(row[:max(i - 2, 0)], default=0), 0)
                best = steps["Prediction"]["matrices"][0]["rows"][0]
                generated = self.succeeds("generate", run, "--prompt", "abcdef", "--temperature", 0, "--max-new-tokens", 1)
                self.assertEqual(generated.stdout, "abcdef" + best.replace("\\x0a", "\n") + "\n")

    def test_sums_of_residual_connections(self):
        for name, branches in (("plain", {"attention": "RXO", "feed-forward": "BRF"}),
                               ("alibi", {"attention": "RXO", "feed-forward": "BNF"}),
                               ("parallel", {"block": "BXZZ"}), ("sandwich", {"attention": ["R", "X", "N'"]})):
            steps = self.steps(self.folder / name, "--text", "abcdef", "--layer", 1)
            for branch, symbols in branches.items():
                step = steps[f"{branch}: Residual connection"]
                self.assertEqual(step["formula"], f"{symbols[0]} = {' + '.join(symbols[1:])}")
                terms, found = step["calculation"].split(" = ")[1:]
                self.assertAlmostEqual(sum(map(float, terms.split(" + "))), float(found), 3)

    def test_feed_forward(self):
        steps = self.steps(self.folder / "plain", "--text", "abcdef", "--layer", 1)
        hidden, output = steps["feed-forward: Hidden layer"], steps["feed-forward: Output"]
        inputs = self.matrix(steps["feed-forward: Norm"], "N")
        weight, found = self.matrix(hidden, "W_1"), self.matrix(steps["feed-forward: Activation"], "H")
        for row, expected in zip(self.matrix(hidden, "U"), found):
            for u, h in zip(row, expected):
                self.assertAlmostEqual(0.5 * u * (1 + math.erf(u / math.sqrt(2))), h, 5)
        self.assertEqual((len(weight), len(weight[0]), len(found)), (16, 64, 6))
        self.assertEqual((len(inputs), len(inputs[0])), (6, 16))
        down, outputs = self.matrix(output, "W_2"), self.matrix(output, "F")
        for h, f in zip(found, outputs):  # a difference of two tokens does not contain the bias
            expected = sum((a - b) * row[0] for a, b, row in zip(h, found[0], down))
            self.assertAlmostEqual(f[0] - outputs[0][0], expected, 6)

    def test_cross_attention_of_a_seq2seq(self):
        source = self.succeeds("generate", self.seq2seq, "--prompt", "the cat").stdout
        self.assertTrue(source)
        found = self.explain(self.seq2seq, "--text", "the cat", "--answer", "alta ami", "--layer", 3, "--head", 2)
        steps = {step["title"]: step for step in found["steps"]}
        self.assertEqual(found["token"], "ami")
        self.assertEqual(len(self.matrix(steps["Memory"], "M")), 2)
        weights = self.matrix(steps["cross-attention, head 2: Attention weights"], "A")
        self.assertEqual([len(row) for row in weights], [2, 2, 2])
        for row in weights:
            self.assertAlmostEqual(sum(row), 1, 5)
        values = self.matrix(steps["cross-attention, head 2: The value of each token"], "V")
        for row, expected in zip(weights, self.matrix(steps["cross-attention, head 2: Output"], "Y")):
            for i, y in enumerate(expected):
                self.assertAlmostEqual(sum(a * v[i] for a, v in zip(row, values)), y, 5)
        self.assertIn("head 2: Causal mask", steps)
        changed = self.explain(self.seq2seq, "--text", "the cat", "--answer", "alta ami", "--mask", "the",
                               "--swap", "cat=dog", "--no-head", "3.1")["steps"][-1]
        matrix = changed["matrices"][0]
        self.assertEqual(matrix["rows"], ["the", "cat"])
        self.assertEqual([row[1] for row in matrix["values"]], [0, 1])
        answer = self.explain(self.seq2seq, "--text", "the cat")["steps"]
        self.assertEqual(self.matrix(answer[1], "X")[0], self.matrix(steps["Token vectors"], "X")[0])

    def test_probabilities_of_a_classifier(self):
        steps = self.steps(self.classifier, "--text", "abba")
        self.assertNotIn("head 1: Causal mask", steps)
        prediction = steps["Prediction"]["matrices"][0]
        found = dict(zip(prediction["rows"], (row[1] for row in prediction["values"])))
        predicted = json.loads(self.succeeds("predict", self.classifier, "abba", "--top", 2, "--json").stdout)
        for each in predicted["predictions"]:
            self.assertAlmostEqual(found[each["class"]], each["probability"], 5)

    def test_changes_run_the_model_again(self):
        run = self.folder / "plain"

        def after(*changes):
            step = self.steps(run, "--text", "abcd", "--layer", 1, *changes)["What if"]
            return {name: [row[1] for row in self.matrix(step, name)] for name in ("weights of 'd'", "prediction")}

        def unchanged(text):
            steps = self.steps(run, "--text", text, "--layer", 1)
            return self.matrix(steps["head 1: Attention weights"], "A")[-1], self.matrix(steps["Prediction"], "prediction")

        weights = after("--mask", "b", "--mask", 3)["weights of 'd'"]
        self.assertEqual([x > 0 for x in weights], [True, False, False, True])
        steps = self.explain(run, "--text", "abcd", "--mask", "b")["steps"]
        self.assertEqual([matrix["comparison"] for matrix in steps[-1]["matrices"]], [True, True])
        self.assertFalse(any(matrix["comparison"] for step in steps[:-1] for matrix in step["matrices"]))
        expected_weights, expected = unchanged("ebcd")
        found = after("--swap", "a=e")
        self.assertLess(max(abs(x - y) for x, y in zip(found["weights of 'd'"], expected_weights)), 1e-5)
        self.assertAlmostEqual(max(found["prediction"]), expected[0][1], 5)
        for text in ("abcd", "deab", "ccba"):  # the table has both predictions
            for change in (("--mask", 1), ("--no-head", "1.2"), ("--swap", "a=e")):
                step = self.steps(run, "--text", text, *change)["What if"]
                table = self.matrix(step, "prediction")
                _, same = self.succeeds("explain", run, "--text", text, *change, "--step",
                                        len(self.explain(run, "--text", text, *change)["steps"])).stdout.split("=>")
                self.assertIn(f"{max(row[1] for row in table) * 100:.1f}%", same)
        without = after("--no-head", "1.1", "--no-head", "2.2")["prediction"]
        self.assertNotAlmostEqual(max(without), unchanged("abcd")[1][0][1], 7)

    def test_another_layer_computes_the_input_and_the_output(self):
        first, second, last = (self.explain(self.folder / "plain", "--text", "abcd", *layer)["steps"]
                               for layer in (("--layer", 1), ("--layer", 2), ()))

        def of_layer(steps, title):
            index, matrix = next((i, step["matrices"][0]) for i, step in enumerate(steps) if step["title"] == title)
            self.assertEqual(matrix["origin"]["operation"], "layer")
            return index, matrix["origin"]["number"], matrix["values"]

        end, of_output, output = of_layer(first, "Output of the last layer")
        _, of_input, found = of_layer(second, "Input of layer 2")
        self.assertEqual(of_input, 1)
        self.assert_close(found, first[end - 1]["matrices"][-1]["values"])
        title = f"Input of layer {of_output:.0f}"
        self.assertIn(title, [step["title"] for step in last])
        norm = next(i for i, step in enumerate(last) if "after the last layer" in step["title"])
        self.assert_close(output, last[norm - 1]["matrices"][-1]["values"])

    def assert_close(self, found, expected):
        for row, wanted in zip(found, expected, strict=True):
            for a, b in zip(row, wanted, strict=True):
                self.assertAlmostEqual(a, b, 5)

    def test_repeated_tokens_have_different_labels(self):
        found = self.explain(self.folder / "plain", "--text", "abab", "--token", "a@3")
        self.assertEqual(found["token"], "a@3")
        self.assertEqual(self.explain(self.folder / "plain", "--text", "abab", "--token", 2)["token"], "b@2")

    def test_wrong_input(self):
        run = self.folder / "plain"
        for arguments, names in ((["sky", "--text", "a"], ["--text", "sky"]), ([run], ["--text", run]),
                                 ([run, "--text", "abcdefgha"], ["--text", "9", "8"]),
                                 ([run, "--text", "az"], ["z"]),
                                 ([run, "--text", "ab", "--layer", 5], ["--layer", "5", "4"]),
                                 ([run, "--text", "ab", "--head", 3], ["--head", "3", "2"]),
                                 ([run, "--text", "ab", "--token", 3], ["--token", "3", "2"]),
                                 ([run, "--text", "ab", "--token", "c"], ["--token", "c"]),
                                 ([run, "--text", "ab", "--mask", "c"], ["--mask", "c"]),
                                 ([run, "--text", "ab", "--no-head", "1"], ["--no-head", "1"]),
                                 ([run, "--text", "ab", "--no-head", "1.3"], ["--no-head", "1.3", "2"]),
                                 ([run, "--text", "ab", "--swap", "a"], ["--swap", "a"]),
                                 ([run, "--text", "ab", "--swap", "a=bc"], ["--swap", "a=bc", "2"]),
                                 ([run, "--text", "ab", "--answer", "c"], ["--answer", "language_model"]),
                                 ([self.seq2seq, "--text", "the cat", "--layer", 4], ["--layer", "4", "3"]),
                                 ([self.seq2seq, "--text", "the cat", "--answer", "the " * 200],
                                  ["--answer", "0", "200"]),
                                 (["sky", "--answer", "is"], ["--answer", "sky"]),
                                 (["sky", "--mask", "is"], ["--mask", "sky"]),
                                 (["sky", "--list"], ["--list", "subject"]),
                                 (["--list", "--layer", 2], ["--list", "--layer"]),
                                 (["--list", "--no-pager"], ["--list", "--no-pager"])):
            with self.subTest(arguments):
                expect_names(self, self.refuses(["explain", *arguments]), *names)


class Origins(RunTest):
    """Each number is computed from the numbers that its origin names."""

    def cells(self, explanation):
        """Yields matrices with an origin, their operands and the origin."""
        steps = explanation["steps"]
        for step in steps:
            for matrix in step["matrices"]:
                if "origin" not in matrix:
                    continue
                operands = [place and steps[place[0]]["matrices"][place[1]]["values"]
                            for place in matrix["origin"]["operands"]]
                yield matrix, operands, matrix["origin"]

    def computed(self, operation, operands, origin, i, j, explanation):
        first = operands[0] if operands else None
        number = origin.get("number")
        if operation == "linear":
            x, w, *b = operands
            return sum(a * row[j] for a, row in zip(x[i], w)) + sum(each[0][j] for each in b)
        if operation == "row_products":
            return sum(a * b for a, b in zip(first[i], operands[1][j]))
        if operation == "divide":
            return first[i][j] / number
        if operation == "soft_cap":
            return number * math.tanh(first[i][j] / number)
        if operation == "sum":
            return sum(each[i][j] for each in operands)
        if operation == "product":
            factors = operands[1][i if len(operands[1]) > 1 else 0]
            return first[i][j] * factors[j if len(factors) > 1 else 0]
        if operation == "mix":
            return first[i][j] + operands[2][0][0] * (operands[1][i][j] - first[i][j])
        if operation == "rotary":
            x, cos, sin = (each[i] for each in operands)
            other = j + int(number) * (1 if j // int(number) % 2 == 0 else -1)
            return x[j] * cos[j] + (x[other] * sin[j] if other < len(x) else 0)
        if operation == "mixture":
            return sum(share * expert[i][j] for share, expert in zip(first[i], operands[1:]) if share)
        if operation == "softmax":
            powers = [0 if x is None else math.exp(x) for x in first[i]]
            return powers[j] / sum(powers)
        if operation == "layer_norm":
            mean = sum(first[i]) / len(first[i])
            variance = sum((x - mean) ** 2 for x in first[i]) / len(first[i])
            return (first[i][j] - mean) / math.sqrt(variance + number) * operands[1][0][j] + operands[2][0][j]
        if operation == "rms_norm":
            return first[i][j] / math.sqrt(sum(x * x for x in first[i]) / len(first[i]) + number) * operands[1][0][j]
        if operation == "l2_norm":
            return first[i][j] / math.sqrt(sum(x * x for x in first[i])) * operands[1][0][0]
        if operation == "activation":
            x = first[i][j]
            function = {"gelu": lambda: 0.5 * x * (1 + math.erf(x / math.sqrt(2))), "relu": lambda: max(0, x),
                        "sigmoid": lambda: 1 / (1 + math.exp(-x)), "swiglu": lambda: x / (1 + math.exp(-x))}
            gate = first[i][j + len(first[i]) // 2] if origin["name"] == "swiglu" else 1
            return function[origin["name"]]() * gate
        raise AssertionError(operation)

    def check_mask(self, matrix, before, window):
        """Of scores, earlier tokens in the window remain; of experts, the best ones."""
        for i, (row, numbers) in enumerate(zip(matrix["values"], before)):
            if matrix["between_tokens"]:
                self.assertEqual(row, [x if 0 <= i - j < window else None for j, x in enumerate(numbers)])
            else:
                chosen = [j for j, x in enumerate(row) if x not in (None, 0)]
                self.assertTrue(0 < len(chosen) < len(row))
                self.assertEqual([row[j] for j in chosen], [numbers[j] for j in chosen])
                self.assertEqual(sorted(row[j] for j in chosen), sorted(numbers)[-len(chosen):])

    def check(self, explanation, window=math.inf, has_sink=False):
        operations = set()
        for matrix, operands, origin in self.cells(explanation):
            operation = origin["operation"]
            operations.add(operation)
            if operation == "columns":
                self.assertEqual(sum(operand is not None for operand in operands), 1 if "layer" in explanation else 2)
                for i, row in enumerate(matrix["values"]):
                    width = len(row) // len(operands)
                    for head, operand in enumerate(operands):
                        if operand is not None:
                            self.assertEqual(row[head * width:(head + 1) * width], operand[i])
                continue
            if operation == "layer":  # see test_another_layer_computes_the_input
                continue
            if operation == "mask":
                self.check_mask(matrix, operands[0], window)
                continue
            if operation == "softmax" and has_sink:  # a sum of weights below 1
                continue
            if operation != "mixture":  # an expert that no token chooses is not explained
                self.assertNotIn(None, operands, (operation, matrix["name"]))
            for i, row in enumerate(matrix["values"]):
                for j, found in enumerate(row):
                    if operation == "prediction":
                        x, w, *b = operands
                        vector = x[-1]
                        logit = sum(a * each[i] for a, each in zip(vector, w)) + sum(each[0][i] for each in b)
                        self.assertAlmostEqual(row[0], logit, 4)
                        self.assertAlmostEqual(row[1], math.exp(row[0] - origin["shift"]) / origin["number"], 4)
                    else:
                        expected = self.computed(operation, operands, origin, i, j, explanation)
                        self.assertAlmostEqual(found, expected, 4, (operation, matrix["name"]))
        return operations

    def test_of_examples(self):
        found = set()
        for name in ("sky", "numpy", "bank", "blocks"):
            with self.subTest(name):
                found |= self.check(self.explain(name))
        self.assertEqual(found, {"linear", "row_products", "divide", "mask", "softmax", "columns", "sum", "layer_norm",
                                 "activation"})

    def test_of_runs(self):
        found = set()
        questions = [(self.folder / name, "--text", "abcdef", "--layer", 1, "--head", 2) for name in self.OPTIONS]
        questions += [(self.folder / "sandwich", "--text", "abcdef", "--layer", 2), (self.classifier, "--text", "abba"),
                      (self.seq2seq, "--text", "the cat", "--answer", "alta", "--layer", 3)]
        # Learned numbers, and those of the position, of other layers and of the encoder.
        given = re.compile("X|E|P|[Wbwcm](_.*)?|cos|sin|mix|V_1|bias|M|p")
        for question in questions:
            with self.subTest(question[0].name):
                explanation = self.explain(*question)
                for step in explanation["steps"]:
                    for matrix in step["matrices"]:
                        if "origin" not in matrix:
                            self.assertRegex(matrix["name"], rf"^({given.pattern})$", step["title"])
                sinks = question[0].name == "sinks"
                found |= self.check(explanation, window=3 if sinks else math.inf, has_sink=sinks)
        self.assertLessEqual({"soft_cap", "product", "rms_norm", "l2_norm", "rotary", "mix", "mixture", "prediction"},
                             found)


class Page(RunTest):
    DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)

    def page(self, *arguments):
        out = self.folder / "page.html"
        printed = self.succeeds("explain", *arguments, "--html", out, "--overwrite").stdout
        self.assertTrue(printed.startswith(f"{out}: "), printed)
        html = out.read_text()
        self.assertLess(len(html.encode()), 10_000_000)
        return html, json.loads(self.DATA.search(html)[1])

    def unpacked(self, data):
        """Returns the explanations of a page as --json prints them."""
        def numbers(index, rows):
            if index is None:
                return None
            values = data["numbers"][index]
            if not isinstance(values, str):
                return values
            width = len(base64.b64decode(values)) // 4 // rows
            unpacked = struct.iter_unpack(f"<{width}f", base64.b64decode(values))
            return [[None if x == -math.inf else x for x in row] for row in unpacked]

        for explanation in data["explanations"]:
            for step in explanation["steps"]:
                for matrix in step["matrices"]:
                    for key in ("rows", "columns"):
                        matrix[key] = data["labels"][matrix[key]]
                    matrix["values"] = numbers(matrix["values"], len(matrix["rows"]))
        return data["explanations"]

    def assert_same(self, found, expected):
        for step, other in zip(found["steps"], expected["steps"]):
            for matrix, same in zip(step["matrices"], other["matrices"]):
                values, expected_values = matrix.pop("values"), same.pop("values")
                self.assertEqual([len(row) for row in values], [len(row) for row in expected_values])
                for row, expected_row in zip(values, expected_values):
                    for x, y in zip(row, expected_row):
                        if x != y:
                            self.assertAlmostEqual(x, y, delta=1e-6 * max(1, abs(y)))
        self.assertEqual(found, expected)

    def test_of_an_example_has_its_numbers(self):
        for name in ("sky", "numpy", "bank", "blocks"):
            with self.subTest(name):
                html, data = self.page(name)
                [found] = self.unpacked(data["explanation"])
                expected = self.explain(name)
                self.assertEqual(data["explanation"]["title"], expected["title"])
                self.assert_same(found, expected)
                self.assertEqual(data["notes"], [])
        _, data = self.page("sky", "--token", "blue")
        self.assertEqual(data["explanation"]["explanations"][0]["token"], "blue")

    def test_of_a_run_has_each_layer_and_head(self):
        run = self.folder / "plain"
        question = ["--text", "abcdef", "--token", "c", "--mask", "b", "--no-head", "2.1", "--no-head", "2.2"]
        _, data = self.page(run, *question, "--layer", 2, "--head", 2)
        found = self.unpacked(data["explanation"])
        places = [(each["layer"], each["head"]) for each in found]
        self.assertEqual(places[:2], [(2, 2), (2, 1)])
        self.assertEqual(sorted(places), [(layer, head) for layer in range(1, 5) for head in (1, 2)])
        for each in (found[0], found[1], found[-1]):
            self.assert_same(each, self.explain(run, *question, "--layer", each["layer"], "--head", each["head"]))

    def test_tables_without_javascript(self):
        html, data = self.page("sky")
        body = html[html.index("<main"):html.index("</main>")]
        for step in data["explanation"]["explanations"][0]["steps"]:
            self.assertIn(step["title"], body)
        for row in self.matrix(self.steps("sky")["Attention weights"], "A"):
            for number in row:
                self.assertIn(f"<td>{number:.4f}</td>", body)
        self.assertIn("S[sky, is] = 0.2261 * 0.0509 + 0.7422 * 0.0705 = 0.0638", body)

    def test_hostile_tokens_are_text(self):
        text = self.write("hostile.txt", "<script>alert(1)</script> <!-- \u202eevil \" & \n" * 40)
        run = self.folder / "hostile"
        self.succeeds("train", "--text", text, "--tokenizer", "word", "--out", run, "--embed-dim", 16, "--num-heads", 2,
                      "--max-seq-len", 16, "--max-steps", 3)
        html, data = self.page(run, "--text", '<script>alert(1)</script> <!-- \u202eevil " &')
        self.assertEqual(html.count("<script"), 2)
        self.assertEqual(html.count("</script"), 2)
        self.assertIn("&lt;script&gt;", html)
        self.assertTrue(any("script" in each for labels in data["explanation"]["labels"] for each in labels))
        shown = self.succeeds("explain", run, "--text", '\u202eevil').stdout
        self.assertNotIn("\u202e", shown)
        self.assertIn("\\xe2\\x80\\xae", shown)

    def test_a_file_of_at_most_10_mb_says_what_it_leaves_out(self):
        run = self.folder / "wide"
        self.succeeds("train", "--text", self.folder / "text.txt", "--out", run, "--embed-dim", 640, "--num-heads", 2,
                      "--num-layers", 2, "--max-seq-len", 8, "--max-steps", 1)
        _, data = self.page(run, "--text", "abcdef")
        [note] = data["notes"]
        self.assertIn("W_2", note)
        explanations = self.unpacked(data["explanation"])
        self.assertEqual(len(explanations), 4)
        steps = {step["title"]: step for step in explanations[0]["steps"]}
        self.assertIsNone(self.matrix(steps["feed-forward: Output"], "W_2"))
        expected = self.steps(run, "--text", "abcdef")
        for title, step in steps.items():
            for matrix, same in zip(step["matrices"], expected[title]["matrices"], strict=True):
                if matrix["values"] is None:
                    matrix["values"] = same["values"]
            self.assert_same({"steps": [step]}, {"steps": [expected[title]]})

    def test_a_file_of_many_experts_has_at_most_10_mb(self):
        run = self.folder / "experts"
        self.succeeds("train", "--text", self.folder / "text.txt", "--out", run, "--embed-dim", 64, "--num-heads", 2,
                      "--num-layers", 2, "--max-seq-len", 32, "--max-steps", 1, "--num-experts", 64,
                      "--num-experts-per-tok", 32)
        _, data = self.page(run, "--text", "abcd efgh\n" * 3)
        self.assertTrue(data["notes"])

    def test_an_existing_file_is_not_replaced_unasked(self):
        out = self.write("existing.html", "mine")
        expect_names(self, self.refuses(["explain", "sky", "--html", out]), out, "--overwrite")
        self.assertEqual(pathlib.Path(out).read_text(), "mine")
        run = self.folder / "plain"
        for arguments, names in ((["sky", "--html", self.folder / "no" / "a.html"], [self.folder / "no"]),
                                 (["sky", "--html", ""], ["--html"]),
                                 ([run, "--text", "a", "--html", run / "recipe.toml", "--overwrite"], ["recipe.toml"]),
                                 (["sky", "--html", "a.html", "--json"], ["--json", "--html"]),
                                 (["sky", "--html", "a.html", "--step", 1], ["--step", "--html"]),
                                 (["sky", "--html", "a.html", "--no-pager"], ["--no-pager", "--html"]),
                                 (["sky", "--overwrite"], ["--overwrite", "--html"])):
            with self.subTest(arguments):
                expect_names(self, self.refuses(["explain", *arguments]), *names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
