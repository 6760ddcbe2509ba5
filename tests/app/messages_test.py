"""Messages: suggestions, names of flags and files, and no text of libraries or control codes.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import tempfile
import unittest

from attend_command import ATTEND, CommandTest, attend, command, expect_names
from small_runs import as_in_a_terminal, kill, wait_for, write_with_checksum

TINY = ["--max-steps", 2, "--warmup-steps", 0, "--num-layers", 0, "--embed-dim", 8]


class MessageTest(CommandTest):
    def refuses_with(self, arguments, *names, **options):
        """Expects exit status 2 and one line with all names."""
        result = attend(*arguments, **options)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        expect_names(self, result.stderr, *names)
        return result.stderr


class Suggestions(MessageTest):
    def test_flags_of_other_programs(self):
        for given, flag in (
                ("--batch", "--batch-size"), ("--batch_size", "--batch-size"), ("--num_train_epochs", "--epochs"),
                ("--learning-rate", "--lr"), ("--learning_rate", "--lr"), ("--n-layer", "--num-layers"),
                ("--n_layer", "--num-layers"), ("--n_head", "--num-heads"), ("--n_embd", "--embed-dim"),
                ("--context", "--max-seq-len"), ("--block_size", "--max-seq-len"), ("--steps", "--max-steps"),
                ("--max_iters", "--max-steps"), ("--train.max_steps", "--max-steps"),
                ("--per_device_train_batch_size", "--batch-size"), ("--output_dir", "--out"),
                ("--hidden_size", "--embed-dim"), ("--validation_split", "--val-fraction"),
                ("--dropout-rate", "--dropout"), ("--wd", "--weight-decay"), ("--save-dir", "--out"),
                ("--bs", "--batch-size"), ("--Batch-Size", "--batch-size"), ("--eval-evry", "--eval-every")):
            message = self.refuses_with(["train", f"{given}=2"], "train", given)
            self.assertTrue(message.endswith(f"'{flag}'?\n"), message)

    def test_only_flags_of_the_subcommand(self):
        for arguments, flag in ((["generate", "run", "--max-length", 9], "--max-new-tokens"),
                                (["train", "--max-length", 9], "--max-seq-len"),
                                (["generate", "run", "--num_return_sequences", 9], "--num-samples"),
                                (["generate", "run", "--beam-size", 9], "--num-beams")):
            self.refuses_with(arguments, flag)
        for given in ("--beam-size", "--save-dir", "--wd", "--bs"):
            self.assertNotIn("did you mean", self.refuses_with(["eval", "run", given, 9], given))
        self.assertNotIn("did you mean", self.refuses_with(["train", "--beam-size", 9], "--beam-size"))
        self.assertNotIn("did you mean", self.refuses_with(["train", "--task", "nope"], "nope", "copy"))
        self.assertNotIn("--max-steps", self.refuses_with(["eval", "run", "--epochs", 2], "--epochs"))


    def test_all_synonyms_are_those_of_options(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "src/train/name_synonyms.h"
        synonyms = re.findall(r'\{"([a-z0-9-]+)", "([a-z0-9-]+)"\}', source.read_text(encoding="utf-8"))
        commands = re.findall(r"(?m)^  ([a-z-]+)  ", attend("--help").stdout.split("Subcommands:")[1])
        names = set(re.findall(r"--([a-z0-9-]+)", "".join(attend(each, "--help").stdout for each in commands)))
        names.update(re.findall(r"(?m)^\[(\w+)\]", attend("train", "--print-config").stdout))
        self.assertGreater(len(synonyms), 100)
        self.assertEqual({name for _, name in synonyms} - names, set())
        self.assertEqual(synonyms, sorted(synonyms))


class Sentences(MessageTest):
    def test_missing_values(self):
        message = self.refuses_with(["train", "--num-layers"], "--num-layers", "BLOCKS")
        self.assertNotIn("1 required", message)
        self.refuses_with(["eval"], "eval", "run", "DIR")
        self.refuses_with(["export", "run"], "export", "--out", "FILE")
        self.refuses_with(["completion"], "completion", "bash|zsh|fish")

    def test_keys_are_named_with_their_flags(self):
        self.refuses_with(["train", "--embed-dim", 10, "--num-heads", 3], "embed_dim", "--embed-dim", "--num-heads")
        self.refuses_with(["train", "--lr", "nan"], "lr", "--lr")
        run = self.folder / "trained"
        self.succeeds("train", "--out", run, *TINY)
        expect_names(self, self.succeeds("train", "--resume", run).stdout, run, "2/2", "--max-steps")
        self.refuses_with(["train", "--resume", run, "--max-steps", 1], run, "2/1", "--max-steps")
        self.refuses_with(["train", "--task", "sort", "--text-column", "x"], "sort", "--text-column", "--length")

    def test_keys_in_the_wrong_table_and_keys_of_other_programs(self):
        for text, given, key in (("lr = 1", "lr", "training.lr"), ("batch_size = 8", "batch_size", "training.batch_size"),
                                 ("learning_rate = 1", "learning_rate", "training.lr"),
                                 ("[model]\nlearning_rate = 1", "model.learning_rate", "training.lr"),
                                 ("[training]\nembed_dim = 8", "training.embed_dim", "model.embed_dim"),
                                 ("[training]\nweight-decay = 1", "training.weight-decay", "training.weight_decay"),
                                 ("[model]\nn_layer = 1", "model.n_layer", "model.num_layers"),
                                 ("[trainer]\nlr = 1", "[trainer]", "[training]")):
            recipe = self.write("wrong.toml", text + "\n")
            message = self.refuses_with(["train", recipe], recipe)
            self.assertIn(f"{given}", message)
            self.assertTrue(message.endswith(f"'{key}'?\n"), message)

    def test_values_out_of_range_are_named_with_their_file(self):
        for text, *names in (("training.lr = inf", "training.lr", "inf"), ("training.lr = nan", "training.lr", "nan"),
                             ("training.max_steps = -5", "training.max_steps", "-5"),
                             ("model.num_heads = 0", "model.num_heads", "0"),
                             ("model.sliding_window_pattern = [8, -1]", "model.sliding_window_pattern", "-1"),
                             ("data.val_fraction = 2", "data.val_fraction", "2")):
            recipe = self.write("range.toml", text + "\n")
            self.refuses_with(["train", recipe], f"{recipe}: {names[0]}", names[1])

    def test_keys_in_a_file_are_named_without_flags(self):
        recipe = self.write("keys.toml", "[training]\nmax_stepz = 2\n")
        message = self.refuses_with(["train", recipe], recipe, "training.max_steps")
        self.assertNotIn("--max-steps", message)


class Contradictions(MessageTest):
    def test_a_task_beside_a_recipe(self):
        self.refuses_with(["train", "sort", "--task", "copy"], "--task", "copy", "sort")
        self.succeeds("train", "sort", "--task", "sort", "--print-config")

    def test_a_switch_and_its_opposite(self):
        switches = re.findall(r"--no-([a-z-]+)", self.succeeds("train", "--help").stdout)
        self.assertLess({"bias", "tie-embeddings", "final-norm", "qkv-bias"}, set(switches))
        for switch in switches:
            flags = [f"--{switch}", f"--no-{switch}"]
            random.shuffle(flags)
            self.refuses_with(["train", *flags, "--print-config"], *flags)
        self.refuses_with(["train", "--bias", "--bias", "--print-config"], "--bias")

    def test_values_with_which_nothing_is_learned(self):
        self.refuses_with(["train", "--lr", 0, "--print-config"], "0", "--lr")
        self.refuses_with(["train", "--threads", 0], "--threads", "auto", "0")
        self.refuses_with(["train", "--max-steps", 9, "--warmup-steps", 10], "9", "10", "--max-steps", "--warmup-steps")

    def test_a_default_warmup_that_is_too_long_is_reported(self):
        run = self.folder / "warm"
        result = self.succeeds("train", "--out", run, "--max-steps", 2, "--num-layers", 0, "--embed-dim", 8)
        expect_names(self, result.stdout.split("before training")[0], "50", "2", "--warmup-steps")

    def test_options_without_effect(self):
        for arguments, named in (
                (["--overwrite"], ["--overwrite", "--out"]),
                (["--print-config", "--out", "run"], ["--print-config", "--out"]),
                (["--print-config", "--out", "run", "--overwrite"], ["--print-config", "--out"]),
                (["--momentum", 0.5], ["--momentum", "--optimizer muon"]),
                (["--cooldown-fraction", 0.5], ["--cooldown-fraction", "--schedule wsd"]),
                (["--schedule", "constant", "--min-lr-ratio", 0.5], ["--min-lr-ratio", "--schedule"]),
                (["--vocab-size", 9], ["--vocab-size", "--tokenizer"]),
                (["--tokenizer", "word"], ["--tokenizer", "--text"]),
                (["--router-aux-loss-coef", 1], ["--router-aux-loss-coef", "--num-experts"])):
            self.refuses_with(["train", *arguments], *named)
        self.succeeds("train", "--momentum", 0.5, "--optimizer", "muon", "--print-config")


class Files(MessageTest):
    def test_a_text_in_the_place_of_a_recipe(self):
        book = self.write("book.txt", "It was the best of times.\n" * 9)
        self.refuses_with(["train", book], f"--text {book}")

    def test_a_directory_in_the_place_of_a_recipe(self):
        run = self.folder / "place"
        self.succeeds("train", "--out", run, *TINY)
        self.refuses_with(["train", run], f"--resume {run}", run / "recipe.toml")
        self.refuses_with(["train", self.folder], self.folder, f"--text '{self.folder}/**/*.txt'")

    def test_a_file_in_the_place_of_a_run_directory(self):
        file = self.write("file", "mine")
        for flags in ([], ["--overwrite"]):
            message = self.refuses_with(["train", "--out", file, *flags], "--out", file)
            self.assertNotIn("--overwrite", message)
        self.assertEqual(file.read_text(), "mine")

    def test_the_same_command_again(self):
        run = self.folder / "again"
        self.succeeds("train", "--out", run, *TINY)
        self.refuses_with(["train", "--out", run, *TINY], run, "--out", f"--resume {run}", "--overwrite")

    def test_a_folder_of_recipes_that_does_not_exist(self):
        for arguments in (["models"], ["train", "sort"]):
            self.refuses_with(arguments, "ATTEND_MODELS", "/nowhere/models",
                              environment={"ATTEND_MODELS": "/nowhere/models"})

    def test_a_deleted_working_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            gone = pathlib.Path(folder, "gone")
            gone.mkdir()
            result = subprocess.run(["bash", "-c", f"cd {gone} && rmdir {gone} && exec {ATTEND} tasks"],
                                    capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        self.assertRegex(result.stderr, r"^attend: .*working directory.*\n$")

    def test_toml_that_is_nested_too_deep(self):
        recipe = self.write("deep.toml", "x = " + "[" * 999 + "]" * 999)
        self.assertNotIn("TOML_MAX", self.refuses_with(["train", recipe], recipe))

    def test_damaged_json(self):
        run = self.folder / "damaged"
        self.succeeds("train", "--out", run, *TINY)
        for name in ("data.json", "summary.json"):
            whole = (run / name).read_bytes()
            (run / name).write_bytes(whole[:20])
            message = self.refuses_with(["eval", run], run / name, "line")
            self.assertNotRegex(message, "json.exception|parsing|parse error")
            (run / name).write_bytes(whole)

    def test_a_missing_checksum(self):
        run = self.folder / "without-checksum"
        self.succeeds("train", "--out", run, *TINY)
        record = json.loads((run / "data.json").read_text())
        del record["files"]["recipe.toml"]
        write_with_checksum(run / "data.json", record)
        self.refuses_with(["eval", run], run / "recipe.toml", "none", "data.json")

    def test_a_path_with_nul(self):
        recipe = self.write("nul.toml", 'task = "text"\ntext = "/etc/passwd\\u0000.txt"\n')
        self.refuses_with(["train", recipe], recipe, r"/etc/passwd\x00.txt")


class ControlCodes(MessageTest):
    ESCAPE = "\x1b]0;title\x07\x9b31m"

    def test_arguments_and_names_are_escaped(self):
        recipe = self.write("escape.toml", 'task = "\\u001b[2J"\n')
        for arguments in ([self.ESCAPE], ["train", f"--{self.ESCAPE}"], ["train", self.ESCAPE],
                          ["eval", self.ESCAPE], ["train", recipe], ["train", "--norm", self.ESCAPE]):
            message = self.refuses_with(arguments, r"\x1b")
            self.assertNotRegex(message, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_samples_are_escaped(self):
        rows = "".join(f"{number}{self.ESCAPE}\t{label}\x1b[2J\n" for number in range(9) for label in "xy")
        table = self.write("escape.tsv", "text\tlabel\n" + rows)
        text = self.write("escape.txt", f"line {self.ESCAPE}\n" * 99)
        for arguments in (["--task", "labelled-lines", "--text", table], ["--text", text]):
            run = self.folder / f"escape-{len(arguments)}"
            printed = self.succeeds("train", *arguments, "--out", run, "--max-steps", 2, "--embed-dim", 16,
                                    "--num-layers", 1).stdout
            for shown in (printed, (run / "report.txt").read_text()):
                self.assertIn(r"\x1b", shown)
                self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_a_path_that_is_not_utf8(self):
        name = os.fsencode(self.folder) + b"/caf\xe9"
        text = pathlib.Path(os.fsdecode(name + b".txt"))
        text.write_text("It was the best of times.\n" * 99)
        result = subprocess.run([ATTEND, "train", "--text", text], capture_output=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        expect_names(self, result.stderr.decode(), "--text", "0xE9")
        run = subprocess.run(command("train", "--out", os.fsdecode(name), *TINY), capture_output=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(rb"caf\xe9", run.stdout)
        done = subprocess.run([ATTEND, "eval", name, "--json"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["task"], "senses")


class Memory(MessageTest):
    def test_too_little_memory(self):
        def with_little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        result = attend("train", "--max-steps", 1, "--warmup-steps", 0, "--batch-size", 60000, "--embed-dim", 1024,
                        "--out", self.folder / "large", preexec_fn=with_little_memory)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        expect_names(self, result.stderr, "bytes", "--batch-size", "--max-seq-len", "--embed-dim")
        self.assertNotRegex(result.stderr, r"enforce|alloc_cpu|std::|Allocator")


class Directories(MessageTest):
    def test_starts_at_the_same_time_get_their_own_directories(self):
        with tempfile.TemporaryDirectory() as folder:
            runs = [subprocess.Popen(command("train", *TINY), cwd=folder, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE) for _ in range(4)]
            for run in runs:
                errors = run.communicate(timeout=300)[1]
                self.assertEqual(run.returncode, 0, errors)
            names = sorted(path.name for path in pathlib.Path(folder, "runs").iterdir())
        self.assertEqual(names, ["senses", "senses-2", "senses-3", "senses-4"])

    def test_a_start_that_fails_leaves_no_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "short.txt").write_text("short")
            self.refuses_with(["train", "--text", "short.txt"], "short.txt", cwd=folder)
            self.assertEqual(os.listdir(folder), ["short.txt"])

    def test_a_signal_while_the_data_is_read_leaves_no_directory(self):
        words = ["".join(random.Random(seed).choices("abcdefghijkl", k=6)) for seed in range(5000)]
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder, "large.txt")
            text.write_text("\n".join(" ".join(random.Random(seed).choices(words, k=1000)) for seed in range(1000)))
            process = subprocess.Popen(command("train", "--text", text.name, "--tokenizer", "subword"), cwd=folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=as_in_a_terminal)
            self.addCleanup(kill, process)
            counts = pathlib.Path(f"/proc/{process.pid}/io")
            has_read = lambda: int(counts.read_text().split()[1]) > text.stat().st_size  # rchar
            self.assertTrue(wait_for(has_read, process))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=60), -signal.SIGINT)
            self.assertEqual(os.listdir(folder), [text.name])


if __name__ == "__main__":
    unittest.main()
