"""Shell completion and help texts.

Run by CTest with ATTEND set to the built command; needs Python 3 and bash, and for some tests zsh and fish.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import unittest

from attend_command import CommandTest, attend
from pseudo_terminal import open_pseudo_terminal

# Flags whose value is a number without a unit.
PURE_NUMBERS = {"--router-aux-loss-coef", "--beta1", "--beta2", "--final-logit-soft-cap", "--length-penalty", "--lora-alpha", "--lora-rank", "--max-grad-norm", "--max-lr", "--min-lr", "--lr",
                "--momentum", "--norm-eps", "--rotary-theta", "--seed", "--soft-cap", "--temperature",
                "--weight-decay"}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(*arguments, **environment):
    result = attend(*arguments, environment=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def commands():
    """The subcommands listed by attend --help."""
    listed = output_of("--help").split("Subcommands:")[1].split("\n\n")[0]
    return re.findall(r"^  ([\w-]+) ", listed, re.MULTILINE)


def options(command):
    """Returns (names, help text on one line) for each option of a subcommand."""
    text = output_of(command, "--help", COLUMNS="80")
    entries = []
    for line in text.splitlines():
        start = re.match(r"  (-\S.*?)(?:  +(\S.*))?$", line)
        if start and not line.startswith("  attend"):
            entries.append([start[1], start[2] or ""])
        elif line.startswith(" " * 30) and entries:
            entries[-1][1] += " " + line.strip()
    return [(names, help_text.strip()) for names, help_text in entries]


class Completion(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = cls.write("attend.bash", output_of("completion", "bash"))
        (cls.folder / "runs" / "my run").mkdir(parents=True)
        (cls.folder / "runs" / "recipe.toml").touch()

    def complete(self, line):
        """Returns the completions that bash offers at the end of `line`."""
        words = re.findall(r"=|[^\s=]+", line)
        if line.endswith(" "):
            words.append("")
        program = (f"source {shlex.quote(str(self.script))}; "
                   f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _attend; "
                   "(( ${#COMPREPLY[@]} == 0 )) || printf '%s\\n' \"${COMPREPLY[@]}\"")
        result = subprocess.run(["bash", "--norc", "-c", program], cwd=self.folder,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.stderr, "")
        return result.stdout.splitlines()

    def test_completes_subcommands(self):
        self.assertEqual(self.complete("attend tr"), ["train"])
        self.assertLessEqual({"train", "eval", "inspect", "--version"},
                             set(self.complete("attend ")))

    def test_completes_flags_of_the_subcommand(self):
        self.assertEqual(self.complete("attend train --embed-"), ["--embed-dim"])
        self.assertEqual(self.complete("attend train --no-ti"), ["--no-tie-embeddings"])
        self.assertEqual(self.complete("attend generate --embed"), [])
        self.assertEqual(self.complete("attend export -"),
                         ["-h", "--help", "--weights", "--device", "--threads", "-o", "--out",
                          "--format", "--dtype", "--with-cache", "--external-data", "--opset", "--merge", "--overwrite"])
        self.assertEqual(self.complete("attend export --format "),
                         ["torchscript", "pt2", "onnx", "safetensors", "hf", "peft"])

    def test_completes_values_of_flags(self):
        self.assertEqual(self.complete("attend train --norm "), ["layer", "rms"])
        self.assertEqual(self.complete("attend train --num-layers 2 --positions r"),
                         ["rotary", "relative"])
        self.assertIn("senses", self.complete("attend train --task "))
        self.assertEqual(self.complete("attend completion "), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("attend train --device c"), ["cpu", "cuda"])
        self.assertEqual(self.complete("attend eval runs --weights "), ["best", "last"])

    def test_completes_values_after_an_equals_sign(self):
        self.assertEqual(self.complete("attend train --norm="), ["layer", "rms"])
        self.assertEqual(self.complete("attend train --norm=r"), ["rms"])

    def test_completes_files_and_directories(self):
        self.assertEqual(sorted(self.complete("attend train runs/")),
                         ["runs/my run", "runs/recipe.toml"])
        self.assertEqual(self.complete("attend eval runs/"), ["runs/my run"])
        self.assertEqual(sorted(self.complete("attend train --text runs/")),
                         ["runs/my run", "runs/recipe.toml"])
        self.assertEqual(self.complete("attend eval --json run"), ["runs"])
        self.assertEqual(self.complete("attend compare runs ru"), ["runs"])
        self.assertEqual(self.complete("attend runs ru"), ["runs"])

    def test_completes_names_of_recipes(self):
        names = {path.stem for path in (ROOT / "models").glob("*.toml")}
        for command in ("train", "lr-find"):
            self.assertEqual(set(self.complete(f"attend {command} ")),
                             names | {"runs", self.script.name})
            self.assertEqual(self.complete(f"attend {command} sor"), ["sort"])
        self.assertEqual(self.complete("attend eval sor"), [])

    def test_other_shells_are_rejected(self):
        self.refuses(["completion", "tcsh"], "shell", "tcsh", "bash|zsh|fish")

    def test_numbers_have_no_completions(self):
        self.assertEqual(self.complete("attend train --max-steps "), [])

    def test_a_value_with_the_name_of_a_subcommand(self):
        self.assertEqual(self.complete("attend generate runs --prompt train --max-new"), ["--max-new-tokens"])

    def test_completes_every_flag_of_the_help(self):
        for command in commands():
            offered = self.complete(f"attend {command} -")
            for names, _ in options(command):
                for flag in re.findall(r"(?<![\w-])--?[a-z][\w-]*", names):
                    self.assertIn(flag, offered, command)


class Fish(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if shutil.which("fish") is None:
            raise unittest.SkipTest("fish is not installed")
        cls.script = cls.write("attend.fish", output_of("completion", "fish"))
        (cls.folder / "runs" / "my run").mkdir(parents=True)

    def complete(self, line):
        """Returns the completions that fish offers at the end of `line`."""
        result = subprocess.run(
            ["fish", "--no-config", "-c", f"source {self.script}; complete -C {shlex.quote(line)}"],
            cwd=self.folder, capture_output=True, text=True, timeout=60,
            env={**os.environ, "HOME": str(self.folder)})
        self.assertEqual(result.stderr, "")
        return [offered.split("\t")[0] for offered in result.stdout.splitlines()]

    def test_completes_subcommands_flags_and_values(self):
        self.assertEqual(self.complete("attend tr"), ["train"])
        self.assertEqual(self.complete("attend train --embed-"), ["--embed-dim"])
        self.assertEqual(self.complete("attend generate --embed-"), [])
        self.assertEqual(sorted(self.complete("attend train --norm ")), ["layer", "rms"])
        self.assertEqual(self.complete("attend train --max-steps "), [])
        self.assertIn("sort", self.complete("attend train so"))
        self.assertEqual(self.complete("attend eval ru"), ["runs/"])

    def test_completes_every_flag_of_the_help(self):
        for command in commands():
            offered = self.complete(f"attend {command} --")
            for names, _ in options(command):
                for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", names):
                    self.assertIn(flag, offered, command)


class Zsh(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if shutil.which("zsh") is None:
            raise unittest.SkipTest("zsh is not installed")
        cls.script = cls.write("_attend", output_of("completion", "zsh"))
        (cls.folder / "runs").mkdir()

    def complete(self, line):
        """Returns `line` after zsh has completed it, as after the tab key."""
        ours, theirs = open_pseudo_terminal()
        setup = f"PS1=; autoload -Uz compinit; compinit -u -D; source {self.script}; bindkey '^I' complete-word\n"
        with subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.folder,
                              start_new_session=True, env={**os.environ, "TERM": "dumb"}) as process:
            os.close(theirs)
            # ^A moves the cursor to the start of the line: zsh prints the completed line.
            os.write(ours, f"{setup}{line}\t\x01print -r -- COMPLETED \nexit\n".encode())
            shown = b""
            try:
                while piece := os.read(ours, 4096):
                    shown += piece
            except OSError:  # the terminal is closed
                pass
            process.wait(timeout=60)
        os.close(ours)
        return re.findall(r"(?m)^COMPLETED (.*?) *$", shown.decode().replace("\r", "\n"))[-1]

    def test_completes_subcommands_flags_and_values(self):
        for line, expected in (("attend tr", "attend train"),
                               ("attend train --embed-d", "attend train --embed-dim"),
                               ("attend train --norm r", "attend train --norm rms"),
                               ("attend train --norm=r", "attend train --norm=rms"),
                               ("attend train addi", "attend train addition"),
                               ("attend eval ru", "attend eval runs"),
                               ("attend compare runs ru", "attend compare runs runs")):
            self.assertEqual(self.complete(line), expected)


class Help(unittest.TestCase):
    def test_every_option_has_a_description(self):
        self.assertLessEqual({"train", "eval", "generate", "export", "inspect"}, set(commands()))
        for command in commands():
            self.assertTrue(options(command))
            for names, text in options(command):
                self.assertRegex(text, r"\w\w", f"{command} {names}")

    def test_every_number_has_a_default_and_a_unit(self):
        numbers = set()
        for command in commands():
            for names, text in options(command):
                flag, _, kind = names.partition(" ")
                if not kind.isupper() or kind in {"FILE", "DIR", "PATH", "TEXT", "DEVICE"} or "," in names:
                    continue
                numbers.add(flag)
                self.assertRegex(text, r"\[.+\]$", f"{command} {names} has no default")
                self.assertEqual(kind in {"INT", "FLOAT"}, flag in PURE_NUMBERS,
                                 f"{command} {names}: wrong unit")
        self.assertGreater(len(numbers), 30)
        self.assertLessEqual(PURE_NUMBERS, numbers)

    def test_every_command_ends_with_an_example(self):
        for command in commands():
            examples = output_of(command, "--help").split("Examples:\n")[1]
            self.assertRegex(examples, rf"\battend {command}\b")

    def test_order_of_groups(self):
        text = output_of("train", "--help")
        groups = re.findall(r"^(\w.*):$", text, re.MULTILINE)
        for group in ("Task", "Model, size", "Model, attention", "Model, positions",
                      "Training, optimizer", "Output"):
            self.assertIn(group, groups)
        order = [group.split(",")[0] for group in groups if group != "Positionals"]
        kinds = ["Task", "Data", "Model", "Fine-tuning", "Training", "Output", "Options", "Examples"]
        self.assertEqual(order, sorted(order, key=kinds.index))

    def test_wraps_to_the_width_of_the_terminal(self):
        for width in (60, 80, 120):
            help_text = output_of("train", "--help", COLUMNS=str(width)).split("Examples:")[0]
            lines = help_text.splitlines()
            described = [line for line in lines if line.startswith(" " * 30)]
            self.assertLessEqual(max(map(len, described)), width)
            self.assertGreater(max(map(len, lines)), width - 10)
            self.assertFalse([line for line in lines if line != line.rstrip()])


if __name__ == "__main__":
    unittest.main()
