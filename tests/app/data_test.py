"""Files of texts: validation files, unknown characters and limits of their size.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import re
import subprocess
import unittest

from attend_command import ATTEND, CommandTest, expect_names

TINY = ("--embed-dim", 16, "--num-layers", 1, "--max-seq-len", 8, "--max-steps", 2)


class DataTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = cls.write("text.txt", "abcd efgh\n" * 40)
        cls.validation = cls.write("val.txt", "abcd\nhgfe\n" * 5)
        cls.table = cls.write("table.csv", "text,label\nab,x\nba,y\nabba,x\n")

    def refuses_with(self, arguments, *names, **options):
        expect_names(self, self.refuses(arguments, **options), *names)

    def measure(self, *arguments):
        return json.loads(self.succeeds("eval", *arguments, "--json").stdout)


class ValidationFile(DataTest):
    def test_is_the_validation_data_of_the_run(self):
        run = self.folder / "run"
        self.succeeds("train", "--text", "text.txt", "--val-text", "val.txt", "--out", run, *TINY, cwd=self.folder)
        found = self.measure(run)
        self.assertEqual(found["val_targets"], 49)
        self.assertNotIn("val_text", found["overrides"])
        self.assertEqual(self.measure(run, self.validation)["val_loss"], found["val_loss"])
        self.succeeds("train", "--resume", run, "--max-steps", 3)

    def test_changes_the_checksum_of_the_data(self):
        run = self.folder / "changed"
        validation = self.write("changed.txt", "abcd efgh\n" * 5)
        self.succeeds("train", "--text", self.text, "--val-text", validation, "--out", run, *TINY)
        self.write("changed.txt", "abcd hgfe\n" * 5)
        message = self.refuses(["train", "--resume", run, "--max-steps", 3], "checksum")
        expect_names(self, message, f"--val-text {validation}")
        self.assertNotIn(str(self.text), message)
        self.refuses_with(["eval", run], validation, "checksum")

    def test_of_labelled_lines(self):
        run = self.folder / "lines"
        validation = self.write("val.csv", "text,label\nbb,y\n")
        self.succeeds("train", "--task", "labelled-lines", "--text", self.table, "--val-text", validation, "--out", run,
                      *TINY)
        self.assertEqual(self.measure(run)["val_targets"], 1)

    def test_windows_line_breaks_are_those_of_the_vocabulary(self):
        run = self.folder / "windows"
        lines = "abcd efgh\n" * 5
        validation = self.write("windows.txt", lines.replace("\n", "\r\n"))
        self.succeeds("train", "--text", self.text, "--val-text", validation, "--out", run, *TINY)
        evaluated = [json.loads(self.succeeds("eval", run, file, "--json").stdout)
                     for file in (self.write("unix.txt", lines), validation)]
        self.assertEqual(*[{**each, "file": None} for each in evaluated])
        generated = [self.succeeds("generate", run, "--prompt-file", self.write("prompt.txt", prompt), "--json",
                                   "--max-new-tokens", 5, "--temperature", 0).stdout
                     for prompt in ("ab\ncd", "ab\r\ncd")]
        self.assertEqual(*[json.loads(each)["samples"] for each in generated])

    def test_windows_line_breaks_train_and_evaluate_as_unix_ones(self):
        lines = "".join(f"abcd {i} efgh\n" for i in range(40))
        texts = {"unix": self.write("same-unix.txt", lines), "windows": self.folder / "same-windows.txt"}
        texts["windows"].write_bytes(lines.replace("\n", "\r\n").encode())
        for tokenizer in (["character"], ["byte"], ["word"], ["subword", "--vocab-size", 280]):
            results = []
            for name, text in texts.items():
                run = self.folder / f"same-{name}-{tokenizer[0]}"
                self.succeeds("train", "--text", text, "--tokenizer", *tokenizer, "--out", run, *TINY)
                content = (run / "model.safetensors").read_bytes()
                weights = content[8 + int.from_bytes(content[:8], "little"):]  # without the names of the run
                for file in texts.values():
                    results.append((weights, self.measure(run, file)["val_loss"]))
                prompts = [self.folder / f"same-{ending}.prompt" for ending in ("lf", "crlf")]
                for prompt, ending in zip(prompts, ("\n", "\r\n")):
                    prompt.write_bytes(f"abcd{ending}efgh".encode())
                generated = [json.loads(self.succeeds("generate", run, "--prompt-file", prompt, "--temperature", 0,
                                                      "--max-new-tokens", 3, "--json").stdout)["samples"]
                             for prompt in prompts]
                self.assertEqual(*generated)
            self.assertEqual(len(results), 4)
            self.assertEqual(len(set(results)), 1, tokenizer)

    def test_carriage_returns_are_kept_on_request(self):
        windows = self.folder / "kept.txt"
        windows.write_bytes(("abcd efgh\r\n" * 20).encode())
        kept, without = self.folder / "kept", self.folder / "without"
        self.succeeds("train", "--text", windows, "--keep-carriage-returns", "--out", kept, *TINY)
        self.succeeds("train", "--text", windows, "--out", without, *TINY)
        self.assertIn("keep_carriage_returns = true", (kept / "recipe.toml").read_text())
        vocabularies = [json.loads((run / "tokenizer.json").read_text())["tokens"] for run in (kept, without)]
        self.assertIn("\r", vocabularies[0])
        self.assertNotIn("\r", vocabularies[1])
        targets = [self.measure(run, windows)["val_targets"] for run in (kept, without)]
        self.assertEqual(targets, [20 * 11 - 1, 20 * 10 - 1])
        self.refuses_with(["eval", kept, "--keep-carriage-returns"], "--keep-carriage-returns")
        self.refuses_with(["train", "--task", "sort", "--keep-carriage-returns", "--out", self.folder / "sort"],
                          "--keep-carriage-returns", "--text")

    def test_is_refused_beside_a_fraction_and_by_other_tasks(self):
        files = ["--text", self.text, "--val-text", self.validation]
        self.refuses_with(["train", *files, "--val-fraction", 0.2], "--val-fraction", self.validation)
        self.refuses_with(["train", "--task", "sort", "--val-text", self.validation, "--out", self.folder / "sort"],
                          "sort", "val_text")
        self.refuses_with(["train", "--text", self.text, "--val-text", self.folder / "none.txt"], "none.txt",
                          cwd=self.folder)

    def test_unknown_characters_are_errors_or_replaced(self):
        run = self.folder / "unknown"
        validation = self.write("unknown.txt", "abcd efgh\nabß\nabcd\n")
        arguments = ["train", "--text", self.text, "--val-text", validation, "--out", run, *TINY]
        self.refuses_with(arguments, validation, "'ß'", "line 2, column 3", "--unknown replace")
        self.succeeds(*arguments, "--unknown", "replace")
        self.assertEqual(self.measure(run)["val_targets"], 18)
        self.succeeds("generate", run, "--prompt", "ßäö", "--max-new-tokens", 1)

    def test_only_the_position_in_a_table_is_named(self):
        run = self.folder / "positions"
        self.succeeds("train", "--task", "labelled-lines", "--text", self.table, "--out", run, *TINY)
        table = self.write("unknown.csv", "text,label\nab,x\naß,y\n")
        lines = self.write("unknown.lines", "ab\naß\n")
        for arguments, place in ((["eval", run, table], f"{table}:3"),
                                 (["predict", run, "--file", lines], f"{lines}:2")):
            result = subprocess.run([ATTEND, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            expect_names(self, result.stderr, place, "'ß'", "--unknown replace")
            self.assertNotRegex(result.stderr, r"line \d|column")

    def test_unknown_needs_a_character_tokenizer(self):
        self.refuses_with(["train", "--text", self.text, "--tokenizer", "byte", "--unknown", "replace"], "--unknown",
                          "--tokenizer character")


class Distinct(DataTest):
    def test_a_file_given_twice_is_refused(self):
        folder = self.folder / "distinct"
        folder.mkdir()
        for name in ("a.txt", "b.txt"):
            (folder / name).write_text("abcd efgh\n" * 40)
        (self.folder / "link").symlink_to(folder / "a.txt")
        for arguments, names in (
                (["--text", "a.txt", "--val-text", folder / "a.txt"], [folder / "a.txt", "--text", "--val-text"]),
                (["--text", "*.txt", "--val-text", "b.txt"], ["b.txt", "--text", "--val-text"]),
                (["--text", "a.txt", "--text", "../link"], ["../link", "--text"]),
                (["--text", "b.txt", "--text", "*.txt"], ["b.txt", "--text"]),
                (["--text", "a.txt", "--val-text", "b.txt", "--val-text", "b.txt"], ["b.txt", "--val-text"])):
            self.refuses_with(["train", *arguments, "--print-config"], *names, cwd=folder)
        self.succeeds("train", "--text", "a.txt", "--val-text", "b.txt", "--print-config", cwd=folder)


class Bytes(DataTest):
    """Texts that are not UTF-8, for a byte tokenizer."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bytes = cls.folder / "bytes.bin"
        cls.bytes.write_bytes(b"\xef\xbb\xbf" + bytes(range(256)) * 2)
        cls.other = cls.folder / "other.bin"
        cls.other.write_bytes(b"caf\xe9 \x00\xff\x80" * 3)
        cls.run_directory = cls.folder / "run"
        cls().succeeds("train", "--text", cls.bytes, "--val-text", cls.other, "--tokenizer", "byte", "--out",
                       cls.run_directory, *TINY)

    def test_are_training_and_validation_data(self):
        self.assertEqual(self.measure(self.run_directory)["val_targets"], 23)
        self.assertEqual(self.measure(self.run_directory, self.bytes)["val_targets"], 511)
        self.succeeds("train", "--resume", self.run_directory, "--max-steps", 3)

    def test_are_prompts_and_generated_without_a_change(self):
        arguments = ["generate", self.run_directory, "--prompt-file", self.other, "--max-new-tokens", "64",
                     "--temperature", "5"]
        result = subprocess.run([ATTEND, *arguments], capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith(self.other.read_bytes()), result.stdout)
        self.assertEqual(len(result.stdout), 24 + 64 + 1)
        report = json.loads(self.succeeds(*arguments, "--json").stdout)
        self.assertEqual(report["prompt"], self.other.read_bytes().decode(errors="replace"))

    def test_are_tokens_of_an_explanation(self):
        result = subprocess.run([ATTEND, "explain", self.run_directory, "--text", "abc", "--swap", b"a=\xff", "--json"],
                                capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("steps", json.loads(result.stdout))

    def test_a_byte_order_mark_is_no_prompt(self):
        marked = self.write("marked.txt", "\ufeffabc")
        result = self.succeeds("generate", self.run_directory, "--prompt-file", marked, "--max-new-tokens", 0)
        self.assertEqual(result.stdout, "abc\n")

    def test_utf16_is_refused_by_name(self):
        file = self.folder / "utf16.txt"
        for encoding in ("utf-16", "utf-16-le"):
            file.write_bytes(("abcd" * 99).encode(encoding))
            for arguments in (["train", "--text", file, "--tokenizer", "byte"], ["eval", self.run_directory, file],
                              ["generate", self.run_directory, "--prompt-file", file]):
                with self.subTest(arguments):
                    self.refuses_with(arguments, file, "UTF-16", cwd=self.folder)

    def test_are_texts_of_a_table(self):
        table = self.folder / "table.tsv"
        table.write_bytes(b"text\tlabel\ncaf\xe9\tx\n\xff\xfe!\ty\nabc\tx\n")
        run = self.folder / "lines"
        self.succeeds("train", "--task", "labelled-lines", "--text", table, "--tokenizer", "byte", "--out", run, *TINY)
        lines = self.folder / "lines.txt"
        lines.write_bytes(b"caf\xe9\n\x00\n")
        found = self.succeeds("predict", run, "--file", lines, "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["text"] for line in found], ["caf\ufffd", "\0"])
        table.write_bytes(b"text\tlabel\nabc\tcaf\xe9\nab\ty\n")
        self.refuses_with(["eval", run, table], f"{table}:2", "0xE9")


class Tables(DataTest):
    def test_are_recognized_by_an_extension_in_any_case(self):
        table = self.write("upper.CSV", "text,label\nab,x\nba,y\nabba,x\n")
        self.refuses_with(["train", "--text", table, "--print-config"], table, "--task labelled-lines")
        run = self.folder / "upper"
        self.succeeds("train", "--task", "labelled-lines", "--text", table, "--out", run, *TINY)
        self.assertEqual(self.measure(run, table)["val_targets"], 3)

    def test_are_no_texts_unless_the_training_text_is_one(self):
        run = self.folder / "of-texts"
        self.refuses_with(["train", "--text", self.text, "--val-text", self.table, "--out", run, *TINY], self.table,
                          "labelled-lines")
        self.succeeds("train", "--text", self.text, "--out", run, *TINY)
        self.refuses_with(["eval", run, self.table], self.table, "labelled-lines")
        rows = self.write("rows.csv", "text,label\n" + "ab,x\n" * 40)
        run = self.folder / "of-rows"
        self.succeeds("train", "--task", "text", "--text", rows, "--out", run, *TINY)
        self.assertEqual(self.measure(run, rows)["val_targets"], len(rows.read_text()) - 1)


class SeveralFiles(DataTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("b", "a", "c"):
            cls.write(f"part-{name}.txt", f"abcd {name}fgh\n" * 40)
        cls.parts = [str(cls.folder / f"part-{name}.txt") for name in "abc"]

    def recipe(self, *arguments):
        return self.succeeds("train", *arguments, "--print-config", cwd=self.folder).stdout

    def test_are_repeated_flags_or_a_pattern(self):
        run = self.folder / "run"
        self.succeeds("train", *(x for part in self.parts for x in ("--text", part)), "--out", run, *TINY)
        other = self.folder / "other"
        self.succeeds("train", "--text", "part-?.txt", "--out", other, *TINY, cwd=self.folder)
        found, same = (self.inspect(each) for each in (run, other))
        self.assertEqual(found["config"]["text"], self.parts)
        self.assertEqual(same["config"], found["config"])
        self.assertIn("'part-?.txt'", self.succeeds("inspect", other).stdout)
        self.assertEqual(self.measure(run)["val_loss"], self.measure(other)["val_loss"])
        self.succeeds("train", "--resume", other, "--max-steps", 3)

    def test_patterns_in_recipes_and_settings(self):
        recipe = self.write("recipe.toml", 'task = "text"\ntext = "part-[ab].txt"\n')
        self.assertIn("'part-a.txt', 'part-b.txt'", self.recipe(recipe).replace('"', "'"))
        self.assertIn("'part-a.txt', 'part-b.txt'", self.recipe("--set", "text=part-[ab].txt").replace('"', "'"))

    def test_two_stars_match_any_number_of_directories(self):
        top = self.folder / "top"
        names = ["[old]/a.txt", "a.txt", "b/a.txt", "b/c/d/a.txt", "b/e.txt"]
        for name in [*names, "b/other.md", ".hidden/a.txt", "b/.hidden.txt"]:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text("abcd efgh\n" * 40)
        (top / "b" / "link").symlink_to(top)

        def found(pattern, cwd):
            recipe = self.succeeds("train", "--text", pattern, "--print-config", cwd=cwd).stdout
            return re.findall(r"['\"]([^'\"]*[.]txt)['\"]", recipe.split("\n[")[0])

        self.assertEqual(found("top/**/*.txt", self.folder), [f"top/{name}" for name in names])
        self.assertEqual([name.removeprefix("./") for name in found("**/*.txt", top)], names)
        self.assertEqual(found(f"{top}/**/c/**/a.txt", None), [f"{top}/b/c/d/a.txt"])
        self.assertEqual(found("top/b/*.txt", self.folder), ["top/b/a.txt", "top/b/e.txt"])
        self.refuses_with(["train", "--text", "top/**/*.rst"], "top/**/*.rst", cwd=self.folder)
        for pattern, name in (("top/**.txt", "'**.txt'"), ("top/b**/*.txt", "'b**'"), ("top/**", "'**'")):
            self.refuses_with(["train", "--text", pattern], pattern, name, cwd=self.folder)

    def test_the_start_prints_the_number_and_size_of_the_files(self):
        sizes = [os.path.getsize(part) for part in self.parts[:2]]
        for number, arguments in enumerate((["--text", self.parts[1]], ["--val-text", self.parts[1]])):
            printed = self.succeeds("train", "--text", self.parts[0], *arguments, "--out", self.folder / f"sizes-{number}",
                                    *TINY).stdout
            if number == 0:
                self.assertRegex(printed, rf"(?m)^text +2 files, {sum(sizes)} bytes$")
            else:
                self.assertRegex(printed, rf"(?m)^text +1 file, {sizes[0]} bytes$")
                self.assertRegex(printed, rf"(?m)^val text +1 file, {sizes[1]} bytes$")

    def test_a_list_of_files_in_a_setting(self):
        for key, task in (("text", []), ("data.val_text", ["--text", self.text])):
            found = self.recipe(*task, "--set", f'{key}=["part-a.txt", "part-b.txt"]').replace('"', "'")
            self.assertIn(f"{key.split('.')[-1]} = [ 'part-a.txt', 'part-b.txt' ]", found)
        self.refuses_with(["train", "--set", 'text=["a", 3]', "--print-config"], "--set text")
        self.refuses_with(["train", "--set", 'text=["a]', "--print-config"], "--set text")

    def test_a_directory_suggests_a_pattern(self):
        for flag in ("--text", "--val-text"):
            self.refuses_with(["train", "--text", self.text, flag, self.folder, "--print-config"], self.folder,
                              f"'{self.folder}/**/*.txt'")

    def test_a_name_with_wildcards_is_a_file_if_it_exists(self):
        self.write("part-*.txt", "abcd\n" * 100)
        try:
            self.assertIn("text = 'part-*.txt'", self.recipe("--text", "part-*.txt").replace('"', "'"))
        finally:
            (self.folder / "part-*.txt").unlink()

    def test_epochs_and_tables(self):
        self.assertIn("max_steps = ", self.recipe("--text", "part-?.txt", "--epochs", 1, "--max-seq-len", 8,
                                                  "--warmup-steps", 0))
        table = self.write("part.csv", "text,label\nab,x\nba,y\n")
        self.refuses_with(["train", "--text", self.text, "--text", table], table, "--task labelled-lines")
        with open(os.fsencode(self.folder) + b"/bad-\xff.txt", "w") as file:
            file.write("abcd\n" * 40)
        self.refuses_with(["train", "--text", "bad-*.txt"], "bad-*.txt", "0xFF", cwd=self.folder)

    def test_another_split_of_the_same_texts_is_refused(self):
        run = self.folder / "split"
        self.succeeds("train", "--text", self.parts[0], "--text", self.parts[1], "--out", run, *TINY)
        self.refuses_with(["train", "--resume", run, "--max-steps", 3, "--set", f"text={self.parts[0]}", "--val-text",
                           self.parts[1]], "checksum")

    def test_messages_name_the_file_or_pattern(self):
        self.refuses_with(["train", "--text", "none-*.txt"], "none-*.txt", cwd=self.folder)
        self.refuses_with(["train", "--text", self.text, self.parts[0]], self.parts[0], "--text")
        self.refuses_with(["train", "--text", self.text, "--text", ""], "--text")
        bad = self.folder / "bad.txt"
        bad.write_bytes(b"abcd\xff")
        self.refuses_with(["train", "--text", self.text, "--text", bad], bad, "0xFF")

    def inspect(self, run):
        return json.loads(self.succeeds("inspect", run, "--json").stdout)


class Limits(DataTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.folder / "model"
        cls.lines = cls.folder / "lines"
        cls().succeeds("train", "--text", cls.text, "--out", cls.model, *TINY)
        cls().succeeds("train", "--task", "labelled-lines", "--text", cls.table, "--out", cls.lines, *TINY)

    def test_are_named_with_the_flag(self):
        for arguments in (["train", "--task", "labelled-lines", "--text", self.table],
                          ["lr-find", "--task", "labelled-lines", "--text", self.table],
                          ["train", "--resume", self.lines, "--max-steps", 3], ["eval", self.lines],
                          ["eval", self.lines, self.table]):
            with self.subTest(arguments):
                self.refuses_with([*arguments, "--max-text-bytes", 27], self.table, 28, 27, "--max-text-bytes",
                                  cwd=self.folder)

    def test_allow_texts_of_this_size(self):
        self.assertEqual(self.measure(self.model, self.text, "--max-text-bytes", 400)["val_targets"], 399)
        prompt = self.write("prompt.txt", "abcd")
        self.succeeds("generate", self.model, "--prompt-file", prompt, "--max-text-bytes", 4, "--max-new-tokens", 1)
        self.succeeds("predict", self.lines, "--max-text-bytes", 2, given="ab\nba\n")

    def test_need_a_text(self):
        self.refuses_with(["train", "--task", "sort", "--max-text-bytes", 10], "--max-text-bytes", "--text")

    def test_end_endless_prompts_and_lines(self):
        for arguments in (["generate", self.model, "--prompt-file", "/dev/zero"],
                          ["predict", self.lines, "--file", "/dev/zero"]):
            with self.subTest(arguments):
                self.refuses_with(arguments, "/dev/zero", 2**24, "--max-text-bytes")
        for arguments in (["generate", self.model], ["predict", self.lines]):
            with self.subTest(arguments), open("/dev/zero", "rb") as endless:
                result = subprocess.run([ATTEND, *arguments], stdin=endless, capture_output=True, text=True,
                                        timeout=60)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
                expect_names(self, result.stderr, "standard input", 2**24, "--max-text-bytes")

    def test_devices_are_refused_as_texts_and_recipes(self):
        for arguments in (["train", "--text", "/dev/zero"], ["train", "/dev/zero"], ["eval", self.model, "/dev/zero"]):
            with self.subTest(arguments):
                self.refuses_with(arguments, "/dev/zero", cwd=self.folder)

    def test_pipes_are_refused_as_texts(self):
        table = self.folder / "pipe.csv"
        os.mkfifo(table)
        for arguments in (["train", "--text", "/dev/stdin"], ["train", "--text", self.text, "--val-text", "/dev/stdin"],
                          ["eval", self.model, "/dev/stdin"]):
            with self.subTest(arguments):
                self.refuses_with(arguments, "/dev/stdin", "pipe", given="abcd\n", cwd=self.folder)
        self.refuses_with(["train", "--task", "labelled-lines", "--text", table], table, "pipe", cwd=self.folder)

    def test_pipes_without_a_writer_are_refused(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for arguments in (["train", pipe], ["generate", self.model, "--prompt-file", pipe],
                          ["predict", self.lines, "--file", pipe]):
            with self.subTest(arguments):
                self.refuses_with(arguments, pipe, cwd=self.folder)

    def test_prompts_and_lines_are_read_from_pipes(self):
        for command, expected in ((f"{ATTEND} generate {self.model} --max-new-tokens 0 --prompt-file", "abcd\n"),
                                  (f"{ATTEND} predict {self.lines} --file", None)):
            for writer in ("<(sleep 0.1; printf abcd)", "<(printf abcd)"):
                with self.subTest(command + writer):
                    result = subprocess.run(["bash", "-c", f"{command} {writer}"], capture_output=True, text=True,
                                            timeout=60)
                    self.assertEqual(result.returncode, 2 if expected is None else 0, result.stderr)
                    if expected is None:  # the table has no c
                        expect_names(self, result.stderr, "'c'")
                    else:
                        self.assertEqual(result.stdout, expected)

    def test_recipes_are_read_from_pipes(self):
        recipe = self.succeeds("train", "--task", "sort", "--lr", 0.5, "--print-config").stdout
        self.assertEqual(self.succeeds("train", "/dev/stdin", "--print-config", given=recipe).stdout, recipe)
        out = self.folder / "sweep"
        self.succeeds("train", "/dev/stdin", "--embed-dim", 16, "--num-layers", 1, "--max-steps", 2, "--warmup-steps", 0,
                      "--sweep", "batch_size=2,3", "--out", out, given=recipe)
        self.assertEqual(len(list(out.glob("*/summary.json"))), 2)
        message = self.refuses(["train", "/dev/stdin"], given="It was the best of times.\n")
        expect_names(self, message, "/dev/stdin")
        self.assertNotIn("--text", message)

    def test_of_recipes_are_fixed(self):
        recipe = self.folder / "large.toml"
        with open(recipe, "wb") as file:
            os.truncate(file.fileno(), 2**24 + 1)
        self.refuses_with(["train", recipe], recipe, 2**24 + 1, 2**24)

    def test_of_tables_are_1_gib(self):
        table = self.folder / "large.csv"
        with open(table, "wb") as file:
            os.truncate(file.fileno(), 2**30 + 1)
        self.refuses_with(["train", "--task", "labelled-lines", "--text", table], table, 2**30 + 1, 2**30,
                          "--max-text-bytes", cwd=self.folder)


if __name__ == "__main__":
    unittest.main()
