"""Progress output on several kinds of terminals, and without a terminal.

Run by CTest with ATTEND set to the built command and SHOW_PROGRESS to the program of
show_progress.cpp, which prints given reports; requires only Python 3.
"""

import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from attend_command import ATTEND, CommandTest, command, expect_names
from pseudo_terminal import open_pseudo_terminal

SHOW = os.environ["SHOW_PROGRESS"]
END = b"\0"  # written after the output of a command
REPORTS = ["progress 40 30 2.5", "evaluation 40 2.25", "progress 80 60 2.0", "evaluation 80 2.75",
           "progress 120 90 1.75", "evaluation 120 2.0"]


def environment(changes):
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    return {**clean, "TERM": "xterm", "PAGER": "", **changes}


def on_terminal(*command, rows=24, columns=120, before_reading=lambda: None, **changes):
    """Runs a command with standard error on a terminal; returns its output and exit status."""
    ours, theirs = open_pseudo_terminal()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen([*map(str, command)], stderr=theirs, stdout=subprocess.DEVNULL,
                               env=environment(changes))
    before_reading()

    def end():
        # The terminal stays open until all output is read: closing it may discard buffered output.
        try:
            process.wait(timeout=300)
        finally:
            process.kill()
            os.write(theirs, END)

    threading.Thread(target=end).start()
    shown = b""
    while not shown.endswith(END):
        shown += os.read(ours, 4096)
    os.close(theirs)
    os.close(ours)
    return shown.removesuffix(END).decode().replace("\r\n", "\n"), process.wait()


def output_on_terminal(*arguments, rows=24, columns=120, **changes):
    """Returns what attend prints to standard output, which is a terminal."""
    shown, status = on_terminal("sh", "-c", 'exec 3>&1 1>&2 2>&3; exec "$@"', "sh", *command(*arguments),
                                rows=rows, columns=columns, **changes)
    assert status == 0, shown
    return shown


def without_terminal(*command, cwd=None, **changes):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300,
                          env=environment(changes), cwd=cwd)


def screen(shown):
    """Returns the lines that are on the screen after the command has ended."""
    lines = re.sub(r"\x1b\[\d*m", "", shown).split("\n")
    return [re.split(r"\r\x1b\[K", line)[-1] for line in lines]


def drawn(shown):
    """Returns each progress bar that was drawn."""
    return re.findall(r"\r\x1b\[K((?! *step)[^\r\n]*)", re.sub(r"\x1b\[\d*m", "", shown))


class OnATerminal(unittest.TestCase):
    def test_progress_bar_below_the_evaluations(self):
        shown, status = on_terminal(SHOW, 400, *REPORTS)
        self.assertEqual(status, 0)
        lines = screen(shown)
        self.assertEqual(len(lines), 5, lines)
        for line, step in zip(lines[:3], (40, 80, 120)):
            self.assertRegex(line, rf"^step {step}/400 \| train loss .* \| val loss .* \| acc 50\.0% ")
        self.assertRegex(lines[3], r"^ 30% \[=+> +\] 120/400 \| train loss 1\.7500 \| "
                                   r"lr 3\.00e-04 \| 51\.2k tok/s \| eta 3:30$")
        self.assertEqual(lines[4], "")

    def test_the_best_loss_is_marked(self):
        best = [line.endswith(" | best") for line in screen(on_terminal(SHOW, 400, *REPORTS)[0])[:3]]
        self.assertEqual(best, [True, False, True])
        nan = on_terminal(SHOW, 400, "evaluation 40 nan")[0]
        self.assertNotIn("best", nan)

    def bars(self, widths):
        """Returns {width of the terminal: progress bar}."""
        reports = [report for columns in widths
                   for report in (f"columns {columns}", "progress 120 90 1.75")]
        lines = drawn(on_terminal(SHOW, 400, *reports)[0])
        self.assertEqual(len(lines), len(widths))
        return dict(zip(widths, lines))

    def test_never_wraps(self):
        for columns, line in self.bars(range(1, 140)).items():
            self.assertLess(len(line), columns)
            self.assertTrue(columns < 5 or line.startswith(" 30%"), line)

    def test_drops_the_least_important_fields(self):
        line = self.bars((14, 33, 45, 60, 75, 200))
        self.assertEqual(line[14], " 30% 120/400")
        self.assertEqual(line[33], " 30% 120/400 | train loss 1.7500")
        self.assertIn("eta 3:30", line[45])
        self.assertRegex(line[60], r"\[=+> *\]")
        self.assertIn("tok/s", line[75])
        self.assertEqual(len(re.search(r"\[(.*)\]", line[200]).group(1)), 30)

    def test_full_only_at_the_end(self):
        self.assertIn("  0% [>", on_terminal(SHOW, 400, "progress 1 1 1")[0])
        self.assertIn(" 99% ", on_terminal(SHOW, 1000, "progress 999 1 1")[0])
        self.assertRegex(on_terminal(SHOW, 400, "progress 400 7300 1")[0], r"100% \[=+\].*eta 0:00\b")

    def test_unusual_numbers(self):
        self.assertIn("loss nan", on_terminal(SHOW, 400, "progress 1 1 nan")[0])
        self.assertRegex(on_terminal(SHOW, 400, "progress 0 1 1")[0], r"  0% \[>")
        self.assertIn("eta 400:00:00", on_terminal(SHOW, 400001, "progress 1 3.6 1")[0])

    def test_columns_variable_if_the_terminal_has_no_size(self):
        for value, width in (("40", 40), ("", 80), ("many", 80), ("-3", 80)):
            lines = drawn(on_terminal(SHOW, 400, "progress 120 90 1.75", columns=0, COLUMNS=value)[0])
            self.assertLess(len(lines[0]), width)
            self.assertGreater(len(lines[0]), width // 2)

    def test_no_color(self):
        color = re.compile(r"\x1b\[\d+m")
        self.assertRegex(on_terminal(SHOW, 400, *REPORTS)[0], color)
        self.assertRegex(on_terminal(SHOW, 400, *REPORTS, NO_COLOR="")[0], color)
        plain = on_terminal(SHOW, 400, *REPORTS, NO_COLOR="1")[0]
        self.assertNotRegex(plain, color)
        self.assertIn("120/400", plain)

    def test_a_dumb_terminal_gets_plain_lines(self):
        shown, _ = on_terminal(SHOW, 400, *REPORTS, TERM="dumb")
        self.assertNotRegex(shown, r"[\x00-\x09\x0b-\x1f]")

    def test_an_error_gets_its_own_line(self):
        shown, status = on_terminal(SHOW, 400, "progress 120 90 1.75", "failure")
        self.assertEqual(status, 1)
        self.assertEqual(screen(shown)[1:], ["failure", ""])

    def test_attend_train(self):
        with tempfile.TemporaryDirectory() as folder:
            shown, status = on_terminal(ATTEND, "train", "--max-steps", 20, "--eval-every", 10, "--out",
                                        pathlib.Path(folder, "run"), columns=90)
        self.assertEqual(status, 0, shown)
        lines = screen(shown)
        self.assertRegex(lines[0], r"^step 10/20 \| .*val loss")
        self.assertRegex(lines[1], r"^step 20/20 \| .*val loss")
        self.assertRegex(lines[2], r"^100% \[=+\] 20/20")

    def test_lines_of_attend_train_fit_in_80_columns(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "table.tsv"
            rows = [f"text {number}\tclass {number % 20}\n" for number in range(100)]
            table.write_text("text\tlabel\n" + "".join(rows))
            options = ["--max-seq-len", 6, "--embed-dim", 16, "--num-layers", 1, "--max-steps", 20, "--eval-every", 5,
                       "--log-every", 1, "--task", "labelled-lines", "--text", "table.tsv", "--out", "run"]
            shown, status = on_terminal("sh", "-c", f'cd {folder}; exec "$@" 1>&2', "sh", *command("train", *options),
                                        columns=80, LC_ALL="C.UTF-8")
            plain = without_terminal(*command("train", *options, "--overwrite"), cwd=folder)
        self.assertEqual(status, 0, shown)
        lines = screen(shown)
        header, rest = "\n".join(lines).split("\nstep ", 1)
        for line in lines:
            self.assertLessEqual(len(line), 80, line)
        for part in ("num_layers 1", "vocab_size", "--warmup-steps", "10 more", "--truncate left"):
            self.assertIn(part, " ".join(header.split()))
        self.assertRegex(rest, r"(?m)^losses .* val loss")
        self.assertRegex(rest, r"^5/20 .*val loss.* best\n")
        # A log has one line for each. The lines of a terminal have the same words.
        expected = plain.stdout.split("\nSamples")[0]
        self.assertEqual(header.split(), expected.split())
        self.assertTrue(all(re.match(r"\S", line) for line in expected.splitlines() if line), expected)
        self.assertRegex(plain.stderr, r"^step 5/20 .* tok/s \| eta 0:00 \| best\n")

    def test_a_paused_terminal_blocks_neither_training_nor_the_log(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "run", "metrics.jsonl")

            def wait_for_the_last_step():
                while not log.exists() or '"step":500,"val_loss"' not in log.read_text():
                    time.sleep(0.05)

            shown, status = on_terminal(ATTEND, "train", "--max-steps", 500, "--eval-every", 1, "--num-layers", 0,
                                        "--embed-dim", 8, "--out", log.parent,
                                        before_reading=wait_for_the_last_step)
        self.assertEqual(status, 0)
        self.assertEqual(len([line for line in screen(shown) if "val loss" in line]), 500)


class Activities(unittest.TestCase):
    LINE = r"(\w+): (\d+) s, 3/4 parts"

    def test_are_rewritten_on_a_terminal_and_erased(self):
        shown, status = on_terminal(SHOW, 400, "activity 4500 reading")
        self.assertEqual(status, 0)
        *lines, last = drawn(shown)
        self.assertGreater(len(lines), 1, shown)
        self.assertEqual({re.fullmatch(self.LINE, line).group(1) for line in lines}, {"reading"})
        seconds = [int(re.fullmatch(self.LINE, line).group(2)) for line in lines]
        self.assertGreaterEqual(seconds[0], 2)
        self.assertEqual(seconds, sorted(set(seconds)))
        self.assertEqual(screen(shown), [""])
        self.assertEqual(last, "")

    def test_never_wrap(self):
        for line in drawn(on_terminal(SHOW, 400, "activity 2500 reading", columns=10)[0]):
            self.assertLess(len(line), 10)

    def test_are_lines_without_a_terminal(self):
        result = without_terminal(SHOW, 400, "activity 12000 reading")
        self.assertRegex(result.stderr, rf"^{self.LINE}\n$")

    def test_that_are_short_are_not_shown(self):
        self.assertEqual(on_terminal(SHOW, 400, "activity 0 reading")[0], "")
        self.assertEqual(without_terminal(SHOW, 400, "activity 0 reading").stderr, "")


class LongSteps(CommandTest):
    """Steps of the command that last longer than 2 seconds. Each command is stopped as soon as it has shown the
    step."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = [f"{first}{second}" for first in ("ab", "cd", "ef", "gh") for second in ("ij", "kl", "mn", "op")]
        lines = "".join(f"{' '.join(words[i % 7:i % 16])}\n" for i in range(400))
        cls.text = cls.write("text.txt", lines)
        cls.long = cls.write("long.txt", lines * 400)
        cls.model = ["--embed-dim", 64, "--num-layers", 4, "--max-seq-len", 8, "--batch-size", 4, "--max-steps", 1,
                     "--warmup-steps", 0, "--val-fraction", 0.5]
        cls.run_directory = cls.folder / "run"
        cls().succeeds("train", "--text", cls.text, "--out", cls.run_directory, *cls.model)

    def shows(self, *arguments, counts="", between=lambda process: None):
        """Expects a line with a duration of at least 2 seconds on a terminal, then ends the command with a signal.
        Calls `between` again and again until then. Returns the match, and what the command printed after the
        signal."""
        ours, theirs = open_pseudo_terminal()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        process = subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL, stderr=theirs, env=environment({}))
        os.close(theirs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        shown = ""
        while not (found := re.search(rf"\r\x1b\[K[a-z ]+: (\d+) s{counts}(?=\r)", shown)):
            self.assertIsNone(process.poll(), shown)
            between(process)
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 4096).decode()
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(timeout=60), (-signal.SIGTERM, 128 + signal.SIGTERM))
        self.assertGreaterEqual(int(found.group(1)), 2)
        rest = ""
        while select.select([ours], [], [], 0)[0]:
            try:
                rest += os.read(ours, 4096).decode()
            except OSError:  # the other side of the terminal is closed
                break
        return found, rest

    def test_evaluation(self):
        found, _ = self.shows("eval", self.run_directory, self.long, counts=r", (\d+)/(\d+) batches")
        windows = -(-(self.long.stat().st_size - 1) // 8)
        self.assertIn(int(found.group(3)), (windows // 64, windows // 64 + 1, windows // 64 + 2))

    def test_evaluation_of_the_best_weights(self):
        run = self.folder / "long"
        _, rest = self.shows("train", "--text", self.long, "--out", run, *self.model, "--eval-batches", 1,
                             counts=r", \d+/\d+ batches")
        expect_names(self, rest, f"--resume {run}")
        self.assertFalse((run / "summary.json").exists())

    def test_training_of_a_tokenizer(self):
        words = "".join(f"{i * 7919 % 1000003:x}{i * 104729 % 999983:x}\n" for i in range(400000))
        self.shows("train", "--text", self.write("words.txt", words), "--tokenizer", "subword", "--vocab-size", 8000,
                   "--out", self.folder / "subwords", *self.model)

    def test_learning_rate_search(self):
        self.shows("lr-find", "--task", "sort", "--num-steps", 1000000, counts=r", \d+/1000000 steps")

    def test_export(self):
        def stop_for_a_while(process):  # the export of this model would be fast
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            process.send_signal(signal.SIGCONT)
            time.sleep(0.01)

        self.shows("export", self.run_directory, "-o", self.folder / "model.pt", between=stop_for_a_while)


class Losses(CommandTest):
    """The losses as a row of bars at the end of attend train and in attend inspect."""

    UTF8, ASCII = "▁▂▃▄▅▆▇█", "_.-=+*%#"
    STEPS = ["--embed-dim", 8, "--max-steps", 40, "--log-every", 1]
    TINY = [*STEPS, "--num-layers", 0]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        cls.trained = cls().succeeds("train", *cls.TINY, "--eval-every", 5, "--out", cls.run_directory,
                                     environment={"LC_ALL": "C.UTF-8"}).stdout

    def bars(self, text, characters=UTF8):
        """Returns the bars in a text, and the numbers after them."""
        found = re.search(rf"losses +([{re.escape(characters)}]+) (\w+) loss ([\d.]+) to ([\d.]+)", text)
        return found and found.groups()

    def inspect(self, run, **environment):
        return self.succeeds("inspect", run, environment={"LC_ALL": "C.UTF-8", **environment}).stdout

    def losses(self, key):
        lines = map(json.loads, (self.run_directory / "metrics.jsonl").read_text().splitlines())
        return [line[key] for line in lines if key in line]

    def edited(self, keep):
        """Returns a copy of the run with only those lines of the log for which `keep` is true."""
        copy = self.folder / self._testMethodName
        shutil.copytree(self.run_directory, copy)
        lines = (copy / "metrics.jsonl").read_text().splitlines()
        (copy / "metrics.jsonl").write_text("".join(line + "\n" for line in lines if keep(json.loads(line))))
        return copy

    def test_a_bar_for_each_validation_loss(self):
        losses = self.losses("val_loss")
        levels = [round((loss - min(losses)) / (max(losses) - min(losses)) * 7) for loss in losses]
        expected = ("".join(self.UTF8[level] for level in levels), "val", f"{losses[0]:.4f}", f"{losses[-1]:.4f}")
        self.assertEqual(len(losses), 8)
        self.assertEqual(self.bars(self.trained), expected)
        self.assertEqual(self.bars(self.inspect(self.run_directory)), expected)

    def test_ascii_without_utf8(self):
        for locale in ("C", "POSIX"):
            bars = self.bars(self.inspect(self.run_directory, LC_ALL=locale), self.ASCII)[0]
            self.assertEqual([self.ASCII.index(bar) for bar in bars],
                             [self.UTF8.index(bar) for bar in self.bars(self.trained)[0]])

    def test_training_losses_without_evaluations(self):
        run = self.edited(lambda line: "train_loss" in line)
        bars, kind, first, last = self.bars(self.inspect(run))
        losses = self.losses("train_loss")
        self.assertEqual((kind, first, last), ("train", f"{losses[0]:.4f}", f"{losses[-1]:.4f}"))
        self.assertEqual(len(bars), 24)

    def test_fewer_than_3_losses_have_no_bars(self):
        self.assertIsNone(self.bars(self.inspect(self.edited(lambda line: line["step"] in (10, 20) and "lr" in line))))

    def test_fits_a_narrow_terminal(self):
        for columns in (40, 60, 80):
            line = next(line for line in self.inspect(self.run_directory, COLUMNS=str(columns)).splitlines()
                        if line.startswith("losses"))
            self.assertLessEqual(len(line), columns)


class NamesOfRuns(CommandTest):
    """The table of attend runs on a terminal of 80 columns."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls().succeeds("train", *Losses.STEPS, "--out", cls.folder / "trained")

    def names(self, *names):
        """Returns the names in the table of runs with these names, all of them different."""
        folder = self.folder / self._testMethodName
        for name in names:
            shutil.copytree(self.folder / "trained", folder / name)
        header, *rows = output_on_terminal("runs", folder, columns=80).splitlines()
        shown = [row.split()[0] for row in rows]
        self.assertEqual(len(set(shown)), len(names), shown)
        return shown, max(map(len, (header, *rows)))

    def test_a_long_name_is_shortened_in_the_middle(self):
        name = "a-name-that-is-much-too-long-for-a-terminal-of-80-columns-é-with-an-end"
        (shown, ), width = self.names(name)
        self.assertLessEqual(width, 80)
        begin, end = shown.split("...")
        self.assertTrue(name.startswith(begin) and name.endswith(end), shown)
        self.assertGreater(min(len(begin), len(end)), 5)

    def test_names_of_a_sweep_show_what_differs(self):
        names = [f"sw/lr={lr},dropout={dropout}" for lr in ("0.001", "0.002") for dropout in ("0.0", "0.1")]
        shown, width = self.names(*names)
        self.assertLessEqual(width, 80)
        self.assertEqual(sorted(shown), names)

    def test_names_of_a_long_sweep_show_what_differs(self):
        names = [f"a-sweep-with-a-long-name/lr={lr},gradient_accumulation_steps=4,dropout={dropout}"
                 for lr in ("0.001", "0.002") for dropout in ("0.0", "0.1")]
        shown, width = self.names("first", *names)
        self.assertLessEqual(width, 80)
        self.assertEqual(sorted(shown), sorted(["first", *(f"...lr={lr},...dropout={dropout}" for lr in ("0.001", "0.002")
                                                           for dropout in ("0.0", "0.1"))]))


class Pager(unittest.TestCase):
    """The pager of attend explain."""

    STEP = ["explain", "sky", "--step", 5]

    def test_pager_of_the_environment(self):
        self.assertRegex(output_on_terminal(*self.STEP, PAGER="echo LESS=$LESS; cat", LESS="X"), r"^LESS=X\nStep 5/8")
        self.assertRegex(output_on_terminal(*self.STEP, PAGER="sed 's/Step/Page/'"), r"^Page 5/8")

    def test_a_pager_that_ends_early(self):
        self.assertEqual(output_on_terminal(*self.STEP, PAGER="echo end"), "end\n")

    def test_a_step_per_screen(self):
        for rows in (24, 40):
            for subject in ("sky", "bank", "blocks"):
                with self.subTest(subject, rows=rows):
                    lines = output_on_terminal("explain", subject, rows=rows, columns=80, PAGER="cat").split("\n")
                    first = [i for i, line in enumerate(lines) if "Step " in line and "/" in line]
                    self.assertEqual(first[0], 2)  # after the title
                    screens = [line / (rows - 1) for line in [0, *first[1:]]]  # a line is that of the pager's prompt
                    self.assertEqual({after - before for before, after in zip(screens, screens[1:])}, {1})

    def test_without_a_pager(self):
        expected = output_on_terminal(*self.STEP, "--no-pager", PAGER="echo pager")
        self.assertRegex(expected, r"^Step 5/8")
        for pager in ("", "no-such-pager 2>/dev/null"):
            self.assertEqual(output_on_terminal(*self.STEP, PAGER=pager), expected)
        for arguments in (self.STEP, [*self.STEP, "--json"], ["explain", "--list"]):
            result = without_terminal(*command(*arguments), PAGER="echo pager")
            self.assertNotIn("pager", result.stdout)
        self.assertNotIn("pager", output_on_terminal(*self.STEP, "--json", PAGER="echo pager"))


class Colors(CommandTest):
    """Colors on standard output."""

    HEAT = re.compile(r"\x1b\[(?:1;)?38;5;16;48;5;(\d+)m *([\d.-]+) *\x1b\[0m")
    RAMP = ["231", "230", "229", "222", "215", "208", "202"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = cls.folder / "runs"
        cls().succeeds("train", *Losses.TINY, "--eval-every", 5, "--sweep", "lr=0.001,0.01", "--out", cls.runs)

    def test_scores_and_weights_of_attend_explain(self):
        for step, name in ((5, "S"), (7, "A")):
            values = next(matrix["values"] for matrix in json.loads(
                self.succeeds("explain", "sky", "--step", step, "--json").stdout)["steps"][0]["matrices"]
                if matrix["name"] == name)
            numbers = [number for row in values for number in row]
            shown = output_on_terminal("explain", "sky", "--step", step, TERM="xterm-256color")
            found = self.HEAT.findall(shown)
            expected = [(self.RAMP[round((number - min(numbers)) / (max(numbers) - min(numbers)) * 6)],
                         f"{number:.4f}") for number in numbers]
            self.assertEqual(found, expected)

    def test_no_heat_map_without_256_colors(self):
        for changes in ({"TERM": "xterm"}, {"TERM": "xterm-256color", "NO_COLOR": "1"}, {"TERM": "dumb"}):
            shown = output_on_terminal("explain", "sky", "--step", 5, COLORTERM="", **changes)
            self.assertNotIn("48;5;", shown)
            self.assertEqual("\x1b[" in shown, changes == {"TERM": "xterm"})
        plain = self.succeeds("explain", "sky", "--step", 5, environment={"TERM": "xterm-256color"}).stdout
        self.assertNotIn("\x1b", plain)

    def test_the_followed_token_has_a_color_in_each_step(self):
        for step in range(1, 9):
            shown = output_on_terminal("explain", "sky", "--step", step, "--token", "blue", COLORTERM="")
            self.assertRegex(shown, r"\x1b\[1;36mblue *\x1b\[0m", step)

    def test_the_attention_in_the_report_of_attend_train(self):
        run = self.folder / "report"
        shown = output_on_terminal("train", *Losses.STEPS, "--num-layers", 1, "--num-heads", 1, "--out", run,
                                   TERM="xterm-256color")
        report = (run / "report.txt").read_text()
        weights = re.findall(r"^    \S+ +(\d\.\d\d)(?: #*)?$", report, re.MULTILINE)
        self.assertGreater(len(weights), 5)
        found = self.HEAT.findall(shown)
        self.assertEqual([number for _, number in found], weights)
        colors = iter(found)
        for text in re.findall(r"(?:^    \S+ +\d\.\d\d.*\n)+", report, re.MULTILINE):
            numbers = [float(number) for number in re.findall(r"^    \S+ +(\d\.\d\d)", text, re.MULTILINE)]
            for number in numbers:  # relative to the largest weight of the text
                self.assertAlmostEqual(self.RAMP.index(next(colors)[0]) / 6, number / max(numbers),
                                       delta=1 / 12 + 0.01 / max(numbers))
        self.assertNotIn("\x1b", report)

    def test_the_curves_of_attend_compare(self):
        shown = output_on_terminal("compare", self.runs)
        marks = set(re.findall(r"\x1b\[1;(\d+)m([AB])\x1b\[0m", shown))
        self.assertEqual(len(marks), 2)
        self.assertEqual(len({color for color, _ in marks}), 2)
        plain = output_on_terminal("compare", self.runs, NO_COLOR="1")
        self.assertEqual(re.sub(r"\x1b\[[\d;]*m", "", shown), plain)
        self.assertNotIn("\x1b", plain)


class WithoutATerminal(unittest.TestCase):
    def test_plain_lines_for_evaluations(self):
        result = without_terminal(SHOW, 400, *REPORTS)
        evaluations = [line for line in result.stderr.splitlines() if "val loss" in line]
        self.assertEqual(len(evaluations), 3)
        self.assertNotRegex(result.stderr, r"[\x00-\x09\x0b-\x1f]")
        self.assertTrue(evaluations[0].endswith(" | best"))

    def test_an_evaluation_that_is_repeated_has_no_speed(self):
        line = without_terminal(SHOW, 400, "evaluation 40 1.5").stderr
        expect_names(self, line, "40/400", "1.5000")
        self.assertNotRegex(line, "tok/s|train loss|eta")

    def test_a_line_every_30_seconds(self):
        reports = [f"progress {second} {second} 1" for second in range(1, 101)]
        lines = without_terminal(SHOW, 400, *reports).stderr.splitlines()
        self.assertEqual([re.search(r"(\d+)/400", line).group(1) for line in lines], ["30", "60", "90"])
        self.assertRegex(lines[0], r"^step 30/400 \| train loss 1\.0000 \| .*tok/s \| eta 6:10$")
        # If there are evaluations at least every 30 seconds, only their lines are printed.
        often = [f"{kind} {second} {second} 1" for second in range(0, 101, 20)
                 for kind in ("progress", "evaluation")]
        lines = without_terminal(SHOW, 400, *often).stderr.splitlines()
        self.assertTrue(all("val loss" in line for line in lines), lines)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    # 77: CTest reports the test as skipped.
    sys.exit(77 if result.wasSuccessful() and result.skipped else not result.wasSuccessful())
