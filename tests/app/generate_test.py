"""attend generate with a language model of a short text.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import re
import signal
import subprocess
import unittest

from attend_command import ATTEND, CommandTest, attend, expect_names
from pseudo_terminal import open_pseudo_terminal
from text_run import TextRunTest


class GenerateTest(TextRunTest):
    def generate(self, *arguments, **options):
        return self.succeeds("generate", self.run_directory, *arguments, **options)


class WeightFormats(GenerateTest):
    FORMATS = ("packed", "bf16", "int8", "int4")

    def test_formats_have_no_effect_on_a_small_model(self):
        for weight_format in self.FORMATS:
            with self.subTest(weight_format):
                result = self.generate("--prompt", "F", "--max-new-tokens", 5,
                                       "--weight-format", weight_format)
                self.assertIn(f"--weight-format {weight_format} has no effect", result.stderr)

    def test_int8_weights_of_a_larger_model(self):
        run = self.folder / "large"
        self.succeeds("train", "--text", self.text, "--embed-dim", 384, "--num-heads", 4, "--num-layers", 1,
                      "--max-seq-len", 8, "--batch-size", 1, "--max-steps", 1, "--out", run)

        def errors(fast):
            result = self.succeeds("generate", run, "--prompt", "F", "--max-new-tokens", 5,
                                   "--weight-format", "int8", environment={"ATTEND_FAST": fast})
            return result.stderr

        self.assertEqual(errors("1"), "")
        self.assertIn("--weight-format int8 has no effect", errors("0"))

    def test_unknown_format_is_an_error(self):
        self.refuses(["generate", self.run_directory, "--weight-format", "int2"],
                     "--weight-format: expected packed|bf16|int8|int4, found 'int2'")


class Training(GenerateTest):
    def test_prints_a_sample(self):
        self.assertIn("Samples from the validation set", self.training.stdout)


class Prompts(GenerateTest):
    GREEDY = ("--max-new-tokens", 15, "--temperature", 0)

    def test_come_from_the_command_line_a_file_or_standard_input(self):
        file = self.write("prompt.txt", "Füchse ")
        for arguments, given in ((("--prompt", "Füchse "), None), (("--prompt-file", file), None),
                                 (("--prompt-file", "-"), "Füchse "), ((), "Füchse "),
                                 (("--prompt", "Füchse "), "ignored")):
            result = self.generate(*arguments, *self.GREEDY, given=given)
            self.assertEqual(result.stdout, "Füchse fressen Früchte\n")
            self.assertEqual(result.stderr, "")

    def test_keep_the_final_newline_of_a_file(self):
        file = self.write("line.txt", "Früchte.\n")
        self.assertEqual(self.generate("--prompt-file", file, *self.GREEDY).stdout,
                         "Früchte.\nFüchse fressen \n")

    def test_no_echo(self):
        self.assertEqual(self.generate("--prompt", "Füchse ", "--no-echo", *self.GREEDY).stdout,
                         "fressen Früchte\n")

    def test_are_used_verbatim(self):
        for prompt in ("[F]", "{}", "--seed", '"F"', "'F'", "%%", "- F"):
            self.refuses(["generate", self.run_directory, "--prompt", prompt], "--prompt: unknown character",
                         "--unknown replace", "--tokenizer byte")

    def test_errors_name_the_source(self):
        run = ["generate", self.run_directory]
        (self.folder / "latin1.txt").write_bytes(b"F\xfcchse")
        self.refuses(run, "standard input: unknown character 'z'", given="z")
        self.refuses([*run, "--prompt-file", self.folder / "latin1.txt"], "latin1.txt:", "0xFC")
        self.refuses([*run, "--prompt-file", self.folder / "none.txt"], "none.txt: no such file")
        self.refuses([*run, "--prompt-file", self.folder], "found a directory")
        self.refuses([*run, "--prompt", "F", "--prompt-file", self.text], "--prompt-file", "--prompt")

    def test_empty_prompts_begin_after_a_line_break(self):
        expected = self.generate("--prompt", "\n", "--no-echo", *self.GREEDY).stdout
        self.assertTrue(expected.startswith("Füchse"), expected)
        for arguments, given in ((("--prompt", ""), None), (("--prompt-file", self.write("empty.txt", "")), None),
                                 ((), "")):
            self.assertEqual(self.generate(*arguments, *self.GREEDY, given=given).stdout, expected)

    def test_bytes_that_are_not_utf8_are_a_prompt_of_a_byte_model(self):
        run = self.folder / "bytes"
        self.succeeds("train", "--text", self.text, "--tokenizer", "byte", "--embed-dim", 16, "--num-layers", 1,
                      "--max-seq-len", 8, "--max-steps", 1, "--out", run)
        (self.folder / "bytes.txt").write_bytes(b"F\xfcchse")
        result = subprocess.run([ATTEND, "generate", run, "--prompt-file", self.folder / "bytes.txt",
                                 "--max-new-tokens", "0"], capture_output=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (0, b"F\xfcchse\n"), result.stderr)

    def test_missing_on_a_terminal(self):
        controller, terminal = open_pseudo_terminal()
        try:
            result = subprocess.run([ATTEND, "generate", self.run_directory], stdin=terminal,
                                    capture_output=True, text=True, timeout=60)
        finally:
            os.close(controller)
            os.close(terminal)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no prompt: expected --prompt TEXT", result.stderr)


class Terminals(GenerateTest):
    def test_texts_do_not_control_the_terminal(self):
        text = self.folder / "title.txt"
        text.write_bytes(b"\x1b]0;a\x07\tb\n" * 500)  # sets the title of a terminal
        run = self.folder / "title"
        self.succeeds("train", "--text", text, "--tokenizer", "byte", "--embed-dim", 32, "--num-layers", 1,
                      "--max-seq-len", 16, "--max-steps", 150, "--lr", 0.01, "--out", run)
        command = [ATTEND, "generate", run, "--prompt", "\x1b", "--max-new-tokens", "14", "--temperature", "0"]
        piped = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
        self.assertEqual(piped, b"\x1b]0;a\x07\tb\n\x1b]0;a\x07\n")
        controller, terminal = open_pseudo_terminal()
        try:
            subprocess.run(command, stdout=terminal, timeout=60, check=True)
            shown = os.read(controller, 1000)
        finally:
            os.close(controller)
            os.close(terminal)
        self.assertEqual(shown.replace(b"\r\n", b"\n"), b"\\x1b]0;a\\x07\tb\n\\x1b]0;a\\x07\n")


class Sampling(GenerateTest):
    HOT = ("--prompt", "F", "--max-new-tokens", 40, "--temperature", 3)

    def test_the_same_seed_gives_the_same_text(self):
        first = self.generate(*self.HOT, "--seed", 4).stdout
        self.assertEqual(self.generate(*self.HOT, "--seed", 4).stdout, first)
        self.assertNotEqual(self.generate(*self.HOT, "--seed", 5).stdout, first)

    def test_keeping_one_token_equals_greedy_decoding(self):
        greedy = self.generate("--prompt", "F", "--max-new-tokens", 40, "--temperature", 0).stdout
        self.assertNotEqual(self.generate(*self.HOT).stdout, greedy)
        for flag, value in (("--top-k", 1), ("--top-p", 0), ("--min-p", 1)):
            self.assertEqual(self.generate(*self.HOT, flag, value).stdout, greedy, flag)

    def test_repetition_penalty(self):
        greedy = ("--prompt", "F", "--max-new-tokens", 40, "--temperature", 0)
        self.assertNotEqual(self.generate(*greedy, "--repetition-penalty", 100).stdout,
                            self.generate(*greedy).stdout)

    def test_no_ngram_repeats(self):
        greedy = ("--prompt", "F", "--max-new-tokens", 60, "--temperature", 0, "--no-repeat-ngram-size", 3)
        for beams in ([], ["--num-beams", 3]):
            arguments = [a for a in greedy if a not in ("--temperature", 0)] if beams else greedy
            text = self.generate(*arguments, *beams).stdout[:-1]
            self.assertEqual(len(text), 61)
            ngrams = [text[i:i + 3] for i in range(len(text) - 2)]
            self.assertEqual(len(ngrams), len(set(ngrams)), text)

    def test_suppressed_tokens_do_not_occur(self):
        # The vocabulary: \n space . F c e f h n r s t ü
        text = self.generate(*self.HOT, "--suppress-tokens", "1,5", "--no-echo").stdout[:-1]
        self.assertNotIn(" ", text)
        self.assertNotIn("e", text)
        refused = ["generate", self.run_directory, "--prompt", "F", "--suppress-tokens"]
        expect_names(self, self.refuses([*refused, "3,13"]), "--suppress-tokens", 13, 12)
        expect_names(self, self.refuses([*refused, "-1"]), "--suppress-tokens", -1)
        for text in ("", ",", "1,,2", "1,", "1 2", "a"):
            expect_names(self, self.refuses([*refused, text]), "--suppress-tokens")
        every = ",".join(str(token) for token in range(13))
        result = attend(*refused, every)
        self.assertNotEqual(result.returncode, 0)
        expect_names(self, result.stderr, "suppress_tokens", 13)

    def test_samples_use_consecutive_seeds(self):
        three = self.generate(*self.HOT, "--num-samples", 3, "--seed", 7)
        alone = [self.generate(*self.HOT, "--seed", seed).stdout for seed in (7, 8, 9)]
        self.assertEqual(three.stdout, "".join(alone))
        self.assertEqual(len(set(alone)), 3)
        self.assertEqual(three.stderr, "".join(f"--- sample {n} of 3 ---\n" for n in (1, 2, 3)))

    def test_beam_search_is_deterministic(self):
        beams = ("--prompt", "F", "--max-new-tokens", 20, "--num-beams", 3)
        first = self.generate(*beams).stdout
        self.assertEqual(self.generate(*beams).stdout, first)
        self.assertEqual(self.generate(*beams, "--length-penalty", 1).stdout, first)
        self.assertEqual(self.generate(*beams, "--repetition-penalty", 1).stdout, first)

    def test_options_without_effect_are_refused(self):
        for arguments, named in (
                (("--temperature", 0, "--top-k", 3), ("--temperature 0", "--top-k")),
                (("--temperature", 0, "--seed", 3), ("--temperature 0", "--seed")),
                (("--temperature", 0, "--num-samples", 3), ("--temperature 0", "--num-samples 3")),
                (("--num-beams", 4, "--num-samples", 3), ("--num-beams 4", "--num-samples 3")),
                (("--num-beams", 4, "--top-k", 3), ("--num-beams 4", "--top-k")),
                (("--num-beams", 4, "--temperature", 0), ("--num-beams 4", "--temperature")),
                (("--num-beams", 1, "--length-penalty", 2), ("--num-beams 1", "--length-penalty")),
                (("--length-penalty", 2), ("--num-beams", "--length-penalty")),
                (("--json", "--no-echo"), ("--json", "--no-echo"))):
            result = attend("generate", self.run_directory, "--prompt", "F", *arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            expect_names(self, result.stderr, *named)

    def test_values_out_of_range(self):
        for flag, value, expected in (
                ("--weights", "worst", "--weights: expected best|last, found 'worst'"),
                ("--device", "tpu", "device: expected auto, cpu, cuda or cuda:N, found 'tpu'"),
                ("--threads", 5000, "--threads: must be between 0 and 1024, found 5000"),
                ("--top-p", 1.5, "--top-p: must be between 0 and 1, found 1.5"),
                ("--min-p", -1, "--min-p: must be between 0 and 1, found -1"),
                ("--repetition-penalty", 0, "--repetition-penalty: must be positive, found 0"),
                ("--temperature", "inf", "--temperature: expected a finite number, found 'inf'"),
                ("--temperature", "nan", "expected a finite number, found 'nan'"),
                ("--max-new-tokens", -1, "--max-new-tokens: must not be negative, found -1"),
                ("--num-samples", 0, "--num-samples: must be positive, found 0"),
                ("--num-beams", 0, "--num-beams: must be between 1 and 1024, found 0"),
                ("--num-beams", 100000000, "--num-beams: must be between 1 and 1024, found 100000000"),
                ("--seed", -1, "--seed: must not be negative, found -1")):
            self.refuses(["generate", self.run_directory, "--prompt", "F", flag, value], expected)


class Output(GenerateTest):
    GREEDY = ("--prompt", "Füchse ", "--max-new-tokens", 15, "--temperature", 0)

    def test_ends_before_a_stop_text(self):
        for stops, expected in ((["ssen"], "Füchse fre\n"), (["xyz", "rü", "s"], "Füchse fre\n"),
                                (["Frü", " F"], "Füchse fressen\n"), (["ücht"], "Füchse fressen Fr\n"),
                                (["[F]", "{}", "ü"], "Füchse fressen Fr\n"),
                                (["chte.", "Fruit"], "Füchse fressen Früchte\n")):
            flags = [part for stop in stops for part in ("--stop", stop)]
            self.assertEqual(self.generate(*self.GREEDY, *flags).stdout, expected, stops)
        self.refuses(["generate", self.run_directory, *self.GREEDY, "--stop", ""],
                     "--stop: must not be empty")

    def test_json_contains_the_reason_for_stopping(self):
        likeliest = ("--prompt", "Füchse ", "--max-new-tokens", 15, "--top-k", 1)
        result = self.generate(*likeliest, "--json", "--num-samples", 2, "--stop", "Frü", "--seed", 5)
        self.assertEqual(result.stderr, "")
        sample = {"text": "fressen ", "tokens": 11, "stopped_by": "Frü"}
        self.assertEqual(json.loads(result.stdout),
                         {"prompt": "Füchse ", "seed": 5,
                          "samples": [{"seed": 5, **sample}, {"seed": 6, **sample}]})
        whole = json.loads(self.generate(*self.GREEDY, "--json").stdout)["samples"][0]
        self.assertEqual(whole, {"seed": 1, "text": "fressen Früchte", "tokens": 15,
                                 "stopped_by": None})

    def test_is_streamed(self):
        process = subprocess.Popen(
            [ATTEND, "generate", str(self.run_directory), "--prompt", "F", "--max-new-tokens", "100000000"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            self.assertTrue(process.stdout.read(200))
            # Closing the pipe ends the command with SIGPIPE and without a message.
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")

    def test_json_is_streamed_so_that_memory_does_not_limit_the_number_of_samples(self):
        process = subprocess.Popen([ATTEND, "generate", str(self.run_directory), "--prompt", "F", "--max-new-tokens", "2",
                                    "--num-samples", "100000000", "--json"], stdout=subprocess.PIPE)
        with process:
            start = process.stdout.read(1000).decode()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=60), -signal.SIGPIPE)
        samples = json.loads(start[:start.rindex("}") + 1] + "]}")["samples"]
        self.assertEqual([sample["seed"] for sample in samples], list(range(1, len(samples) + 1)))
        self.assertGreater(len(samples), 5)

    def test_a_write_error_ends_the_generation(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [ATTEND, "generate", self.run_directory, "--prompt", "F", "--max-new-tokens", "100000000"],
                stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, "attend: standard output cannot be written\n")

    def test_help_shows_groups_and_defaults(self):
        text = re.sub(r"\s+", " ", attend("generate", "--help").stdout)
        for expected in ("Prompt:", "Sampling:", "Output:", r"--temperature FLOAT [^-]+\[0\.8\]",
                         r"--top-p PROBABILITY [^-]+\[1\]", r"--max-new-tokens TOKENS [^-]+\[200\]",
                         "--stop TEXT", r"--weights best\|last [^-]+\[best\]",
                         r"--device DEVICE [^-]+\[auto\]", r"--threads THREADS [^-]+\[0\]"):
            self.assertRegex(text, expected)


class OtherModels(CommandTest):
    def trained(self, task):
        run = self.folder / task
        if not run.exists():
            self.succeeds("train", "--task", task, "--max-steps", 2, "--embed-dim", 16, "--out", run)
        return run

    def test_seq2seq_answers_its_prompt(self):
        prompt = ("--prompt", "the red cat sees the dog", "--max-new-tokens", 4, "--temperature", 0)
        run = self.trained("translation")
        sample = json.loads(self.succeeds("generate", run, *prompt, "--json").stdout)["samples"][0]
        self.assertLessEqual(sample["tokens"], 4)
        self.assertEqual(self.succeeds("generate", run, *prompt).stdout, sample["text"] + "\n")
        self.refuses(["generate", run, "--prompt", "the unicorn"], "--prompt", "unicorn")
        expect_names(self, self.refuses(["generate", run, "--prompt", "the cat " * 60]), "--prompt", 120, 16)

    def test_ends_before_the_last_token_of_the_answer(self):
        run = self.trained("copy")
        for beams in (1, 2):
            flags = ("--num-samples", 5) if beams == 1 else ("--num-beams", beams)
            result = self.succeeds("generate", run, "--prompt", "cab=", *flags, "--json")
            samples = json.loads(result.stdout)["samples"]
            for sample in samples:
                self.assertNotIn(".", sample["text"])
            if beams == 1:  # the samples of a model without training contain a full stop after a few tokens
                self.assertLess(max(sample["tokens"] for sample in samples), 200)

    def test_min_new_tokens_delays_the_end_of_the_answer(self):
        copy = self.trained("copy")
        modulus = self.trained("modular-arithmetic")
        for run, prompt in ((copy, "cab="), (modulus, "50 + 60 =")):
            for beams in (["--temperature", 3, "--seed", 2], ["--num-beams", 2]):
                arguments = ("generate", run, "--prompt", prompt, *beams, "--max-new-tokens", 30, "--json")
                longer = self.succeeds(*arguments, "--min-new-tokens", 25)
                self.assertGreaterEqual(json.loads(longer.stdout)["samples"][0]["tokens"], 25)
        expect_names(self, self.refuses(["generate", copy, "--prompt", "a=", "--max-new-tokens", 3,
                                         "--min-new-tokens", 4]), "--min-new-tokens", 4, "--max-new-tokens", 3)

    def test_ends_after_an_answer_without_an_end_token(self):
        for task, prompt, tokens in (("associative-recall", "c4a7b1?a", 1), ("associative-recall", "c4a7b1?", 2),
                                     ("modular-arithmetic", "50 + 60 =", 1)):
            run = self.trained(task)
            for beams in ([], ["--num-beams", 2]):
                result = self.succeeds("generate", run, "--prompt", prompt, *beams, "--json")
                self.assertEqual(json.loads(result.stdout)["samples"][0]["tokens"], tokens, prompt)

    def test_empty_prompts_of_a_model_without_line_breaks(self):
        run = self.trained("sort")
        empty = self.write("empty.txt", "")
        self.refuses(["generate", run, "--prompt", ""], "--prompt:", "empty")
        self.refuses(["generate", run, "--prompt-file", empty], f"{empty}:", "empty")
        self.refuses(["generate", run], "standard input:", "empty", given="")

    def test_unknown_characters_suggest_only_options_of_the_task(self):
        message = self.refuses(["generate", self.trained("reverse"), "--prompt", "A="], "--prompt", "'A'")
        self.assertNotIn("--unknown", message)
        self.assertNotIn("--tokenizer", message)

    def test_a_classifier_is_rejected(self):
        run = self.trained("balanced-brackets")
        self.refuses(["generate", run, "--prompt", "()"], "a sequence_classifier, which cannot generate text")


if __name__ == "__main__":
    unittest.main()
