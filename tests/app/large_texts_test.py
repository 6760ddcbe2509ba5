"""Texts that are larger than --max-text-bytes, which are tokenized to a file.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import resource
import signal
import subprocess
import unittest

from attend_command import CommandTest, attend, command, expect_names
from small_runs import as_other_user, checkpoints, kill, read_safetensors, wait_for

TINY = ["--embed-dim", 16, "--num-layers", 1, "--max-seq-len", 8, "--batch-size", 4, "--eval-every", 3, "--threads",
        1]
STEPS = ["--max-steps", 6]
LARGE = ["--max-text-bytes", 1000]


class LargeTexts(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = "".join(f"the fox {i * i % 97} and the hen {i % 13}\n" for i in range(500))
        cls.text = cls.write("text.txt", lines)
        cls.windows = cls.write("windows.txt", lines.replace("\n", "\r\n"))

    def setUp(self):
        self.tokens = self.folder / self.id().split(".")[-1]

    def train(self, run, *options, **others):
        training = [] if "--max-steps" in options else STEPS
        return self.succeeds("train", "--text", self.text, "--out", self.folder / run, *TINY, *training, *options,
                             **others)

    def train_large(self, run, *options):
        return self.train(run, *LARGE, "--token-dir", self.tokens, *options)

    def token_files(self):
        return sorted(self.tokens.glob("*.safetensors"))

    def same_weights(self, *runs):
        first, *others = (read_safetensors(self.folder / run / "model.safetensors") for run in runs)
        return all(other == first for other in others)

    def test_train_as_texts_in_memory(self):
        for i, options in enumerate(([], ["--tokenizer", "word", "--vocab-size", 300], ["--val-text", self.windows],
                                     ["--tokenizer", "subword", "--vocab-size", 300])):
            with self.subTest(options):
                self.train(f"memory-{i}", *options)
                self.train_large(f"file-{i}", *options)
                self.assertTrue(self.same_weights(f"memory-{i}", f"file-{i}"))

    def test_are_tokenized_once(self):
        output = self.train_large("first").stdout
        (path,) = self.token_files()
        expect_names(self, output, path)
        tokens, data = read_safetensors(path)["tokens"]
        self.assertEqual((tokens["dtype"], len(data)), ("U8", len(self.text.read_text())))
        written = path.stat().st_mtime_ns
        self.train_large("second")
        self.assertEqual(path.stat().st_mtime_ns, written)
        self.assertEqual(self.token_files(), [path])
        self.assertTrue(self.same_weights("first", "second"))

    def test_resume_bit_for_bit(self):
        self.train_large("whole")
        self.train_large("part", "--max-steps", 3)
        self.succeeds("train", "--resume", self.folder / "part", *LARGE, "--max-steps", 6)
        self.train("other", "--max-steps", 3)
        self.succeeds("train", "--resume", self.folder / "other", *LARGE, "--token-dir", self.tokens, "--max-steps", 6)
        weights = [read_safetensors(checkpoints(self.folder / run)[-1] / "model.safetensors")
                   for run in ("whole", "part", "other")]
        self.assertEqual(weights[1:], weights[:1] * 2)
        self.assertEqual(len(self.token_files()), 1)

    def test_are_evaluated(self):
        self.train_large("evaluated")
        run = self.folder / "evaluated"
        measured = [json.loads(self.succeeds("eval", run, *options, "--json").stdout)
                    for options in ([], LARGE, [self.text], [self.text, *LARGE], [self.windows, *LARGE])]
        self.assertEqual(measured[0], measured[1])
        for each in measured[3:]:
            self.assertEqual({**each, "file": None}, {**measured[2], "file": None})
        self.assertEqual(len(self.token_files()), 2)

    def test_a_changed_text_is_tokenized_again(self):
        text = self.write("changing.txt", "abcd efgh\n" * 200)
        arguments = ["train", "--text", text, *TINY, *STEPS, *LARGE, "--token-dir", self.tokens, "--out"]
        self.succeeds(*arguments, self.folder / "before")
        self.write("changing.txt", "abcd hgfe\n" * 200)
        expect_names(self, self.refuses(["train", "--resume", self.folder / "before", *LARGE, "--max-steps", 9]),
                     text, "checksum")
        self.succeeds(*arguments, self.folder / "after")

    def test_a_killed_tokenization_leaves_no_file(self):
        text = self.write("long.txt", "".join(f"the fox {i} and the hen\n" for i in range(1_000_000)))
        arguments = ["train", "--text", text, *TINY, *STEPS, *LARGE, "--token-dir", self.tokens, "--out", self.folder / "killed"]
        process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(wait_for(lambda: list(self.tokens.glob("*.lock")), process))
        kill(process)
        self.assertEqual([path.suffix for path in self.tokens.iterdir()], [".lock"])
        self.assertFalse((self.folder / "killed").exists())
        self.succeeds(*arguments)

    def test_the_default_directory_is_in_the_cache_of_the_user(self):
        cache = self.folder / "cache"
        self.train("default", *LARGE, environment={"XDG_CACHE_HOME": str(cache)})
        self.assertEqual(len(list((cache / "attend/tokens").glob("*.safetensors"))), 1)
        home = self.folder / "home"
        self.train("at-home", *LARGE, environment={"XDG_CACHE_HOME": "", "HOME": str(home)})
        self.assertEqual(len(list((home / ".cache/attend/tokens").glob("*.safetensors"))), 1)
        expect_names(self, self.refuses(["train", "--text", self.text, *TINY, *STEPS, *LARGE],
                                        environment={"XDG_CACHE_HOME": "", "HOME": ""}), "HOME", "--token-dir")

    def test_an_unwritable_directory_is_named(self):
        for folder in (self.write("file", ""), "/dev/full", self.read_only()):
            with self.subTest(folder):
                result = attend("train", "--text", self.text, *TINY, *STEPS, *LARGE, "--token-dir", folder, "--out",
                                self.folder / "unwritable", **as_other_user())
                self.assertEqual(result.returncode, 1)
                expect_names(self, result.stderr, folder, "--token-dir")

    def read_only(self):
        folder = self.folder / "read-only"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o500)
        return folder

    def test_a_full_disk_ends_the_tokenization(self):
        text = self.write("larger.txt", "abcd efgh\n" * 1_000_000)

        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        result = attend("train", "--text", text, *TINY, *STEPS, *LARGE, "--token-dir", self.tokens, "--out",
                        self.folder / "full", preexec_fn=limit_files)
        self.assertEqual(result.returncode, 1, result.stderr)
        expect_names(self, result.stderr, self.tokens, "--token-dir")
        self.assertEqual(self.token_files(), [])
        self.assertFalse((self.folder / "full").exists())

    def test_options_without_effect_are_refused(self):
        expect_names(self, self.refuses(["train", "--task", "sort", "--token-dir", self.tokens]), "--token-dir")
        table = self.write("table.csv", "text,label\nab,x\nba,y\n")
        expect_names(self, self.refuses(["train", "--task", "labelled-lines", "--text", table, "--token-dir",
                                         self.tokens]), "token_dir", "labelled-lines")


if __name__ == "__main__":
    unittest.main()
