"""attend train with several processes, compared with one process.

Run by CTest with ATTEND set to the built command. Needs a Python with torch for torchrun; without it, the tests
with torchrun are skipped.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

from attend_command import ATTEND, attend, expect_names
from small_runs import (DEMANDING, RunsTest, checkpoints, kill, last_step, read_safetensors, reports_of, result_of,
                        wait_for)

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGE = ROOT / "docs/distributed.md"
SEED = int(os.environ.get("RANDOM_SEED", random.randrange(1 << 30)))

# Training in float32 amplifies rounding errors, most of all that of a classifier. tests/distributed compares
# training in float64 to 1e-12.
TINY = {"embed-dim": 16, "num-layers": 1, "batch-size": 12, "max-steps": 60, "eval-every": 20, "log-every": 1,
        "threads": 1, "lr": 1e-4, "warmup-steps": 0}


def tiny(**values):
    """The flags of TINY, with other values and more flags."""
    values = {**TINY, **{key.replace("_", "-"): value for key, value in values.items()}}
    return [text for key, value in values.items() for text in (f"--{key}", value)]


def free_port():
    """Returns a port that no program listens at, and that the system does not give to connections."""
    while True:
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("", random.randrange(20000, 32000)))
            return found.getsockname()[1]


def children_of(process):
    """Ids of the processes that the process has started."""
    result = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, encoding="utf-8")
    return [int(line) for line in result.stdout.split()]


def ends_of(processes):
    """Waits; returns (status, standard output, standard error) of each process."""
    ends = []
    for process in processes:
        out, error = process.communicate(timeout=240)
        ends.append((process.returncode, out, error))
    return ends


def metrics_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def run_id_of(run):
    return json.loads((run / "data.json").read_text())["run_id"]


def distance(run, reference):
    """Norm of the difference of all weights of the latest checkpoints, divided by the norm of the weights."""
    difference = norm = 0.0
    weights, expected = (read_safetensors(checkpoints(each)[-1] / "model.safetensors") for each in (run, reference))
    assert weights.keys() == expected.keys()
    for name, (entry, data) in weights.items():
        assert entry["dtype"] == "F32"
        values = struct.iter_unpack("<f", data), struct.iter_unpack("<f", expected[name][1])
        for (value,), (other,) in zip(*values):
            difference += (value - other) ** 2
            norm += other ** 2
    return (difference / norm) ** 0.5


class ProcessesTest(RunsTest):
    """Starts processes, which end with the test."""

    def start(self, command, environment=None):
        process = subprocess.Popen(list(map(str, command)), env=environment, encoding="utf-8", stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(kill, process)
        return process

    def start_ranks(self, arguments, size, port=None, only=None, of_last=(), of_all=(), **variables_of_last):
        """Starts the processes as a launcher does; returns them by rank. `only`: the ranks that are started;
        `of_all`: variables of the environment of each; `of_last`: arguments that only the last rank has, and
        `variables_of_last` of its environment."""
        port = port or free_port()
        processes = []
        for rank in only or range(size):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                           "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                           **dict(of_all)}
            command = [ATTEND, *arguments]
            if rank == size - 1:
                command += of_last
                environment |= variables_of_last
            processes.append(self.start(command, environment))
        return processes

    def torchrun(self, *arguments):
        """Starts torchrun with two processes of the command."""
        return self.start([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--no-python",
                           "--master-port", free_port(), *arguments])


class Distributed(ProcessesTest):
    def train_ranks(self, size, *arguments):
        ends = ends_of(self.start_ranks(["train", *arguments], size))
        self.assertEqual([end[0] for end in ends], [0] * size, ends)
        return ends

    def expect_close(self, run, reference):
        lines, expected = metrics_of(run), metrics_of(reference)
        self.assertEqual([line["step"] for line in lines], [line["step"] for line in expected])
        for key in ("train_loss", "val_loss"):
            for line, other in zip(lines, expected):
                self.assertEqual(key in line, key in other)
                if key in line:
                    self.assertAlmostEqual(line[key] / other[key], 1.0, delta=1e-4, msg=(key, line, other))
        # A rounding error may change a prediction whose two largest logits are almost equal.
        same = sum(line.get("train_accuracy") == other.get("train_accuracy")
                   for line, other in zip(lines, expected))
        self.assertGreater(same, 0.95 * len(lines))
        self.assertLess(distance(run, reference), 1e-3)

    def test_processes_follow_a_single_one(self):
        print(f"repeat with RANDOM_SEED={SEED}")
        for name, options in {
            "copy": tiny(),
            "senses": tiny(gradient_accumulation_steps=3, label_smoothing=0.1),
            "translation": tiny(max_grad_norm=0.1),
            "sort": [*tiny(optimizer="muon"), "--tie-embeddings"],
        }.items():
            with self.subTest(name):
                arguments = ["--task", name, *options, "--dropout", 0, "--seed", SEED]
                one, two = self.folder / f"{name}1", self.folder / f"{name}2"
                self.train(*arguments, "--out", one)
                self.train_ranks(2, *arguments, "--out", two)
                self.expect_close(two, one)
                self.assertEqual((one / "recipe.toml").read_text(), (two / "recipe.toml").read_text())

    def test_a_batch_that_does_not_divide_evenly(self):
        arguments = ["--task", "copy", *tiny(batch_size=7, dropout=0)]
        self.train(*arguments, "--out", self.folder / "one")
        self.train_ranks(3, *arguments, "--out", self.folder / "three")
        self.expect_close(self.folder / "three", self.folder / "one")

    def test_only_rank_0_prints(self):
        ends = self.train_ranks(2, "--task", "copy", *tiny(), "--out", self.folder / "run")
        self.assertIn("processes", ends[0][1])
        self.assertEqual(ends[1][1:], ("", ""))

    def test_a_resumed_run_equals_an_uninterrupted_one(self):
        arguments = ["--task", "copy", "--num-layers", 1, "--threads", 1, *DEMANDING, "--max-steps", 300, "--eval-every", 50,
                     "--checkpoint-every", 5]
        whole, resumed = self.folder / "whole", self.folder / "resumed"
        self.train_ranks(2, *arguments, "--out", whole)
        processes = self.start_ranks(["train", *arguments, "--out", resumed], 2)
        self.assertTrue(wait_for(lambda: last_step(resumed) >= 10, processes[0]))
        for process in processes:
            process.kill()
        ends_of(processes)
        self.train_ranks(2, "--resume", resumed)
        self.assertTrue(result_of(whole) == result_of(resumed))
        self.assertEqual(reports_of(whole), reports_of(resumed))

    def test_a_signal_to_one_process_stops_all_and_saves(self):
        run = self.folder / "run"
        processes = self.start_ranks(["train", "--task", "copy", *tiny(max_steps=1000000, checkpoint_every=5), "--out",
                                      run], 2)
        self.assertTrue(wait_for(lambda: last_step(run) >= 10, processes[0]))
        processes[1].send_signal(signal.SIGINT)
        ends = ends_of(processes)
        self.assertEqual([end[0] for end in ends], [128 + signal.SIGINT] * 2, ends)
        expect_names(self, ends[0][2], "--resume", run)
        self.assertEqual(ends[1][1:], ("", ""))
        self.train_ranks(2, "--resume", run, "--max-steps", last_step(run) + 5)

    def test_wrong_input_is_refused_by_all(self):
        run = self.folder / "run"
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(batch_size=1), "--out", run], 2))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        expect_names(self, ends[0][2], 1, 2, "--batch-size")
        self.assertEqual(ends[1][2], "", "printed once")
        self.assertFalse(run.exists())
        self.train(*tiny(max_steps=2), "--task", "copy", "--out", run)
        before = (run / "model.safetensors").read_bytes()
        ends = ends_of(self.start_ranks(["train", "--resume", run, "--max-steps", 1], 2))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        ends = ends_of(self.start_ranks(["train", "--resume", run], 2))  # nothing is left to do
        self.assertEqual([end[0] for end in ends], [0, 0], ends)
        expect_names(self, ends[0][1], "2/2", "--max-steps")
        self.assertEqual(ends[1][1], "", "printed once")
        self.assertEqual((run / "model.safetensors").read_bytes(), before)

    def test_variables_of_a_launcher_are_checked(self):
        for variables, names in (
            ({"RANK": "2", "WORLD_SIZE": "2"}, ("RANK", 2)),
            ({"RANK": "x", "WORLD_SIZE": "2"}, ("RANK", "x")),
            ({"RANK": "0"}, ("RANK", "WORLD_SIZE")),
            ({"RANK": "0", "WORLD_SIZE": "2"}, ("MASTER_ADDR",)),
            ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}, ("MASTER_PORT", 0)),
        ):
            result = attend("train", "--task", "copy", "--out", self.folder / "run", environment=variables)
            self.assertEqual(result.returncode, 2, result.stderr)
            expect_names(self, result.stderr, *names)

    def endless(self, size, *arguments, **options):
        """Starts processes that train until they are stopped; returns them and the run."""
        run = self.folder / "run"
        processes = self.start_ranks(["train", "--task", "copy", *tiny(max_steps=1000000, checkpoint_every=5), "--out",
                                      run, *arguments], size, **options)
        self.assertTrue(wait_for(lambda: last_step(run) >= 10, processes[0]))
        return processes, run

    def test_a_killed_process_is_named_and_ends_the_others(self):
        processes, run = self.endless(3)
        processes[2].kill()
        ends = ends_of(processes)
        self.assertEqual([end[0] for end in ends], [1, 1, -signal.SIGKILL], ends)
        expect_names(self, ends[0][2], "rank 2")
        self.assertEqual(ends[1][2], "", "printed once")
        ends = self.train_ranks(2, "--resume", run, "--max-steps", last_step(run) + 5)
        (resumed,) = (line for line in ends[0][1].splitlines() if line.startswith("resumed"))
        expect_names(self, resumed, 2, 3)

    def test_the_end_of_rank_0_is_named(self):
        port = free_port()
        processes, _ = self.endless(2, port=port)
        processes[0].kill()
        ends = ends_of(processes)
        self.assertEqual(ends[1][0], 1, ends)
        expect_names(self, ends[1][2], "rank 0", f"127.0.0.1:{port}")

    def test_a_signal_to_rank_0_during_an_error_ends_all(self):
        processes, run = self.endless(3, "--ddp-timeout", 2)
        processes[1].send_signal(signal.SIGSTOP)  # rank 0 waits for it, then finds the cause
        processes[2].kill()
        time.sleep(random.uniform(0, 5))
        processes[0].send_signal(signal.SIGTERM)
        processes[0].wait(timeout=240)
        processes[1].send_signal(signal.SIGCONT)
        ends = ends_of(processes)
        self.assertIn(ends[0][0], (1, -signal.SIGTERM), ends)
        self.assertEqual(ends[1][0], 1, ends)
        self.assertRegex(ends[1][2], r"\brank [02]\b")
        self.train_ranks(3, "--resume", run, "--max-steps", last_step(run) + 5)

    def test_a_process_that_hangs_is_named(self):
        processes, _ = self.endless(2, "--ddp-timeout", 3)
        processes[1].send_signal(signal.SIGSTOP)
        self.assertEqual(processes[0].wait(timeout=240), 1)
        processes[1].kill()
        expect_names(self, ends_of(processes)[0][2], "rank 1")

    def test_an_error_of_one_process_is_named(self):
        missing = self.folder / "missing.txt"
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", self.folder / "run"], 2,
                                   of_last=["--resume", missing]))
        self.assertEqual([end[0] for end in ends], [1, 2], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 1", "--resume", "--out")
        self.assertFalse((self.folder / "run").exists())

    def test_processes_with_other_recipes_are_refused(self):
        run = self.folder / "run"
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", run], 3,
                                   of_last=["--label-smoothing", 0.25]))
        self.assertEqual([end[0] for end in ends], [2] * 3, ends)
        expect_names(self, ends[0][2], "rank 2", "--label-smoothing", 0.25)
        self.assertEqual([end[2] for end in ends[1:]], ["", ""], "printed once")
        self.assertFalse(run.exists())

    def test_processes_that_begin_in_other_ways_are_refused(self):
        base, other, run = (self.folder / name for name in ("base", "other", "run"))
        for seed, directory in enumerate((base, other)):
            attend("train", "--task", "copy", *tiny(max_steps=2, eval_every=2, seed=seed), "--out", directory)
        new = ["train", "--task", "copy", *tiny(), "--out", run]
        resume = ["train", "--resume", base, "--max-steps", 10]
        for first, second, names in [(new, resume, ("begin", "resume")), (resume, new, ("begin", "resume")),
                                     (new, [*new, "--init-from", base], ["initial weights"]),
                                     ([*new, "--init-from", base], new, ["initial weights"]),
                                     ([*new, "--init-from", base], [*new, "--init-from", other],
                                      [run_id_of(base), run_id_of(other)])]:
            with self.subTest(names=names):
                port = free_port()
                ends = ends_of(self.start_ranks(first, 2, port, only=[0]) +
                               self.start_ranks(second, 2, port, only=[1]))
                self.assertEqual([end[0] for end in ends], [2, 2], ends)
                expect_names(self, ends[0][2], "rank 1", *names)
                self.assertFalse(run.exists())

    def test_a_process_without_a_network_ends_all(self):
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", self.folder / "run"], 2,
                                        GLOO_SOCKET_IFNAME="none9"))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 1", "none9", "GLOO_SOCKET_IFNAME")

    def test_processes_with_other_world_sizes_are_refused(self):
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", self.folder / "run"], 2,
                                   WORLD_SIZE="3"))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 1", "WORLD_SIZE", 2, 3)

    def test_a_process_that_does_not_start_is_named(self):
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--ddp-timeout", 2, "--out",
                                    self.folder / "run"], 2, only=[0]))
        self.assertEqual(ends[0][0], 1, ends)
        expect_names(self, ends[0][2], "rank 1", 2)

    def test_rank_0_is_named_if_it_does_not_start(self):
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--ddp-timeout", 2, "--out",
                                         self.folder / "run"], 2, only=[1]))
        self.assertEqual(ends[0][0], 1, ends)
        expect_names(self, ends[0][2], "rank 0", "MASTER_ADDR")

    def test_all_name_a_process_that_does_not_start(self):
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--ddp-timeout", 2, "--out",
                                    self.folder / "run"], 3, only=[0, 1]))
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        for _, _, error in ends:
            expect_names(self, error, "rank 2")

    def test_a_non_finite_loss_is_printed_once(self):
        run = self.folder / "run"
        diverging = tiny(lr=10, optimizer="muon", weight_decay=10, schedule="constant", max_grad_norm=0,
                         checkpoint_every=1)
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *diverging, "--out", run], 2))
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        expect_names(self, ends[0][2], "train_loss")
        self.assertEqual(ends[1][2], "", "printed once")

    def test_the_command_of_the_readme(self):
        self.require_torchrun()
        (self.folder / "text.txt").write_text("the boat was near the bank . " * 200)
        line, = re.findall(r"^\$ torchrun (.*) #.*$", README.read_text(), re.MULTILINE)
        words = line.replace("build/release/bin/attend", ATTEND).replace("FILE", "text.txt").split()
        result = subprocess.run([sys.executable, "-m", "torch.distributed.run", *words, *map(str, tiny(max_steps=10))],
                                cwd=self.folder, env={**os.environ, "PET_MASTER_PORT": str(free_port())},
                                capture_output=True, encoding="utf-8")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^processes +2$")
        self.assertEqual(last_step(self.folder / "runs/two"), 10)

    def test_the_commands_of_the_page(self):
        self.require_torchrun()
        blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
        for block, start in zip(blocks, ("$ torchrun", "$ export")):
            self.assertTrue(block.startswith(start), block)
            port, folder = free_port(), self.folder / start[2:]
            folder.mkdir()
            lines = re.sub(r"(?m)^\$ ", "", block)
            for old, new in (("torchrun", f"{sys.executable} -m torch.distributed.run --master-port {port}"),
                             ("MASTER_PORT=29500", f"MASTER_PORT={port}"),
                             ("attend train", shlex.join(map(str, [ATTEND, "train", *tiny(max_steps=10)])))):
                lines = lines.replace(old, new)
            result = subprocess.run(["bash", "-e"], input=lines + ("wait $!\n" if "&" in lines else ""), cwd=folder, capture_output=True,
                                    encoding="utf-8")
            self.assertEqual(result.returncode, 0, (lines, result.stderr))
            self.assertRegex(result.stdout, r"(?m)^processes +2$")
            self.assertEqual(last_step(folder / "runs/sort"), 10)

    def test_variables_of_slurm_and_open_mpi(self):
        for name, (rank, size, local_size) in {
                "slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
                "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE")}.items():
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), size: "2", local_size: "2"}
            run = self.folder / name
            command = [ATTEND, "train", "--task", "copy", *tiny(max_steps=10), "--out", run]
            ends = ends_of([self.start(command, {**os.environ, **address, rank: str(number)}) for number in range(2)])
            self.assertEqual([end[0] for end in ends], [0, 0], ends)
            self.assertRegex(ends[0][1], r"(?m)^processes +2$")
            self.assertEqual((ends[1][1], last_step(run)), ("", 10))

    def test_wrong_output_is_printed_once(self):
        run = self.folder / "run"
        self.train("--task", "copy", *tiny(max_steps=2, eval_every=2), "--out", run)
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", run], 3))
        self.assertEqual([end[0] for end in ends], [2] * 3, ends)
        expect_names(self, ends[0][2], run)
        self.assertEqual([end[2] for end in ends[1:]], ["", ""])

    def test_serve_is_refused(self):
        run = self.folder / "run"
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--serve=0", "--out", run], 2))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        expect_names(self, ends[0][2], "--serve", 2, "attend serve")
        self.assertEqual(ends[1][2], "", "printed once")
        self.assertFalse(run.exists())

    def test_a_port_in_use_is_named(self):
        with socket.socket() as used:
            used.bind(("", 0))
            used.listen()
            port = used.getsockname()[1]
            ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--out", self.folder / "run"], 2,
                                            port=port, only=[0]))
        self.assertEqual(ends[0][0], 1, ends)
        expect_names(self, ends[0][2], "rank 0", port)

    def test_a_port_of_a_program_that_does_not_answer_is_named(self):
        with socket.socket() as other:
            other.bind(("", 0))
            other.listen()  # the system accepts connections
            port = other.getsockname()[1]
            arguments = ["train", "--task", "copy", *tiny(), "--ddp-timeout", 1, "--out", self.folder / "run"]
            own = self.start_ranks(arguments, 2, port=port)
            of_launcher = self.start_ranks(arguments, 2, port=port, of_all={"TORCHELASTIC_USE_AGENT_STORE": "True"})
            for processes in (own, of_launcher):
                ends = ends_of(processes)
                self.assertEqual([end[0] for end in ends], [1, 1], ends)
                for rank, (_, _, error) in enumerate(ends):
                    expect_names(self, error, f"rank {rank}", f"127.0.0.1:{port}")
        self.assertFalse((self.folder / "run").exists())

    def start_store(self):
        """Starts a store as torchrun does; returns its process and port."""
        self.require_torchrun()
        script = ("import sys, torch.distributed; "
                  "store = torch.distributed.TCPStore('127.0.0.1', int(sys.argv[1]), is_master=True); "
                  "print('ready', flush=True); sys.stdin.read()")
        port = free_port()
        store = subprocess.Popen([sys.executable, "-c", script, str(port)], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, encoding="utf-8")
        self.addCleanup(kill, store)
        self.assertEqual(store.stdout.readline(), "ready\n")
        return store, port

    def test_a_store_of_the_launcher_that_is_gone_is_named(self):
        of_launcher = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
        store, port = self.start_store()
        processes, _ = self.endless(2, port=port, of_all=of_launcher)
        kill(store)
        processes[1].kill()
        ends = ends_of(processes)
        self.assertEqual(ends[0][0], 1, ends)
        expect_names(self, ends[0][2], f"127.0.0.1:{port}")
        ends = ends_of(self.start_ranks(["train", "--task", "copy", *tiny(), "--ddp-timeout", 1, "--out",
                                         self.folder / "new"], 2, port=port, of_all=of_launcher))
        self.assertEqual([end[0] for end in ends], [1, 1], ends)
        for rank, (_, _, error) in enumerate(ends):
            expect_names(self, error, f"rank {rank}", f"127.0.0.1:{port}")

    def test_print_config_connects_no_processes(self):
        arguments = ["train", "--task", "copy", *tiny(), "--print-config"]
        recipe = attend(*arguments).stdout
        for rank, expected in (([0], recipe), ([1], "")):
            self.assertEqual(ends_of(self.start_ranks(arguments, 2, only=rank)), [(0, expected, "")])

    def test_options_for_processes(self):
        arguments = ["--task", "copy", *tiny(dropout=0)]
        plain, compressed = self.folder / "plain", self.folder / "compressed"
        self.train_ranks(2, *arguments, "--out", plain)
        self.train_ranks(2, *arguments, "--ddp-bucket-mb", 1, "--ddp-compression", "bf16", "--ddp-backend", "gloo",
                         "--out", compressed)
        self.assertGreater(distance(compressed, plain), 0)
        self.assertLess(distance(compressed, plain), 0.1)
        for option, value in (("--ddp-timeout", 0), ("--ddp-bucket-mb", 0), ("--ddp-backend", "mpi"),
                              ("--ddp-compression", "fp8")):
            self.fails(2, [*arguments, option, value], option, str(value))
        ends = ends_of(self.start_ranks(["train", *arguments, "--ddp-backend", "nccl", "--out", self.folder / "run"], 2,
                                        of_all={"CUDA_VISIBLE_DEVICES": ""}))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        expect_names(self, ends[0][2], "nccl", "gloo")

    def test_a_sharded_optimizer_trains_to_the_same_bytes(self):
        arguments = ["--task", "copy", *tiny(), "--optimizer", "muon"]
        whole, sharded = self.folder / "whole", self.folder / "sharded"
        self.train_ranks(2, *arguments, "--out", whole)
        self.train_ranks(2, *arguments, "--ddp-shard-optimizer", "--out", sharded)
        self.assertTrue(result_of(whole) == result_of(sharded))
        for run, option in ((whole, ["--ddp-shard-optimizer"]), (sharded, [])):
            self.train_ranks(2, "--resume", run, "--max-steps", 120, *option)
        self.assertTrue(result_of(whole) == result_of(sharded))
        ends = ends_of(self.start_ranks(["train", *arguments, "--out", self.folder / "run"], 2,
                                   of_last=["--ddp-shard-optimizer"]))
        self.assertEqual([end[0] for end in ends], [2, 2], ends)
        expect_names(self, ends[0][2], "rank 1", "shard_optimizer")

    def test_torchrun_restarts_go_on_to_the_same_bytes(self):
        self.require_torchrun()
        arguments = ["--task", "copy", "--num-layers", 1, "--threads", 1, *DEMANDING, "--max-steps", 300, "--eval-every",
                     50, "--checkpoint-every", 5]
        whole, restarted = self.folder / "whole", self.folder / "restarted"
        self.train_ranks(2, *arguments, "--out", whole)
        launcher = self.torchrun("--max-restarts", 1, "--monitor-interval", 0.1, ATTEND, "train", *arguments, "--out",
                            restarted)
        self.assertTrue(wait_for(lambda: last_step(restarted) >= 10, launcher))
        os.kill(children_of(launcher)[0], signal.SIGKILL)
        _, error = launcher.communicate(timeout=240)
        self.assertEqual(launcher.returncode, 0, error)
        self.assertTrue(result_of(whole) == result_of(restarted))
        self.assertEqual(reports_of(whole), reports_of(restarted))

    def at_random_moments(self, kill_in_run):
        """Calls `kill_in_run(arguments, run, moment, moments)`, which kills a process of a training after `moment`
        seconds and completes the run, until it has returned True KILLS times (an environment variable). It returns
        False if the training had ended before. `moments`: random numbers."""
        arguments = ["--task", "copy", "--num-layers", 1, "--threads", 1, *DEMANDING, "--max-steps", 150, "--eval-every",
                     50, "--checkpoint-every", 5]
        print(f"repeat with RANDOM_SEED={SEED}")
        moments = random.Random(SEED)
        whole = self.folder / "whole"
        start = time.monotonic()
        self.train_ranks(2, *arguments, "--out", whole)
        seconds = time.monotonic() - start
        kills = int(os.environ.get("KILLS", 3))
        hits = tries = 0
        while hits < kills:
            run = self.folder / f"run{tries}"
            tries += 1
            self.assertLess(tries, 3 * kills + 5, "most trainings have ended before the kill")
            moment = moments.uniform(0, seconds)
            with self.subTest(kill=hits, moment=moment):
                hits += kill_in_run(arguments, run, moment, moments)
                self.assertTrue(result_of(whole) == result_of(run))
            shutil.rmtree(run, ignore_errors=True)

    def test_torchrun_goes_on_after_a_kill_at_any_moment(self):
        self.require_torchrun()

        def kill_in_run(arguments, run, moment, moments):
            launcher = self.torchrun("--max-restarts", 1, "--monitor-interval", 0.1, ATTEND, "train", *arguments, "--out",
                                     run)
            self.assertTrue(wait_for(lambda: len(children_of(launcher)) == 2, launcher))
            time.sleep(moment)
            children = children_of(launcher)
            is_hit = len(children) == 2
            if is_hit:
                try:
                    os.kill(moments.choice(children), signal.SIGKILL)
                except ProcessLookupError:  # has ended since
                    is_hit = False
            out, error = launcher.communicate(timeout=240)
            self.assertEqual(launcher.returncode, 0, out + error)
            return is_hit

        self.at_random_moments(kill_in_run)

    def test_the_others_name_a_process_that_is_killed_at_any_moment(self):
        def kill_in_run(arguments, run, moment, moments):
            port = free_port()
            processes = self.start_ranks(["train", *arguments, "--ddp-timeout", 5, "--out", run], 2, port=port)
            time.sleep(moment)
            killed = moments.randrange(2)
            processes[killed].kill()
            ends = ends_of(processes)
            status, _, error = ends[1 - killed]
            if ends[killed][0] == 0 or status == 0:  # has ended before
                self.assertEqual(status, 0, ends)
            else:
                self.assertEqual((ends[killed][0], status), (-signal.SIGKILL, 1), ends)
                # Rank 0 is known by the address of its store before the processes are connected.
                self.assertRegex(error, rf"rank {killed}\b" if killed else rf"rank 0\b|127\.0\.0\.1:{port}\b")
            began = checkpoints(run) if run.exists() else []
            if status:
                self.train_ranks(2, *(["--resume", run] if began else [*arguments, "--overwrite", "--out", run]))
            return status != 0

        self.at_random_moments(kill_in_run)

    def test_restarts_by_torchrun_do_not_resume_a_run_that_existed(self):
        self.require_torchrun()
        run = self.folder / "run"
        arguments = ["--task", "copy", *tiny()]
        self.train("--task", "copy", *tiny(max_steps=20), "--out", run)
        before, run_id = result_of(run), run_id_of(run)
        launcher = self.torchrun("--max-restarts", 1, "--monitor-interval", 0.1, ATTEND, "train", *arguments, "--out", run)
        _, error = launcher.communicate(timeout=240)
        self.assertNotEqual(launcher.returncode, 0)
        expect_names(self, error, "--resume", "--overwrite", run)
        self.assertEqual(result_of(run), before)
        # The first start fails before the command.
        launcher = self.torchrun("--max-restarts", 1, "--monitor-interval", 0.1, "sh", "-c",
                            'test $TORCHELASTIC_RESTART_COUNT = 1 && exec "$0" "$@"', ATTEND, "train", *arguments,
                            "--overwrite", "--out", run)
        out, error = launcher.communicate(timeout=240)
        self.assertEqual(launcher.returncode, 0, error)
        self.assertNotIn("resumed", out)
        self.assertEqual(last_step(run), TINY["max-steps"])
        self.assertNotEqual(run_id_of(run), run_id)

    def test_restarts_by_torchrun_go_on_with_a_run_that_replaces_another_one(self):
        self.require_torchrun()
        run = self.folder / "run"
        self.train("--task", "copy", *tiny(max_steps=2), "--out", run)
        launcher = self.torchrun("--max-restarts", 1, "--monitor-interval", 0.1, ATTEND, "train", "--task", "copy",
                            *tiny(max_steps=300, checkpoint_every=5), "--overwrite", "--out", run)
        self.assertTrue(wait_for(lambda: last_step(run) >= 10, launcher))
        os.kill(children_of(launcher)[0], signal.SIGKILL)
        out, error = launcher.communicate(timeout=240)
        self.assertEqual(launcher.returncode, 0, error)
        self.assertIn("resumed", out)
        self.assertEqual(last_step(run), 300)

    def test_restarts_by_torchrun_of_one_of_two_nodes_go_on(self):
        self.require_torchrun()
        run = self.folder / "run"
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1, "--rdzv-backend",
                   "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "run", "--max-restarts", 2,
                   "--monitor-interval", 0.1, "--no-python", ATTEND, "train", "--task", "copy",
                   *tiny(max_steps=300, checkpoint_every=5), "--ddp-timeout", 60, "--out", run]
        nodes = [self.start(command) for _ in range(2)]
        self.assertTrue(wait_for(lambda: last_step(run) >= 10, nodes[0]))
        os.kill(children_of(nodes[1])[0], signal.SIGKILL)  # torchrun counts only restarts of this node
        ends = ends_of(nodes)
        self.assertEqual([end[0] for end in ends], [0, 0], ends)
        self.assertIn("resumed", ends[0][1] + ends[1][1])
        self.assertEqual(last_step(run), 300)

    def require_torchrun(self):
        if subprocess.run([sys.executable, "-c", "import torch.distributed.run"], capture_output=True).returncode:
            self.skipTest("no torch.distributed.run")

    def test_torchrun(self):
        self.require_torchrun()
        arguments = ["--task", "copy", *tiny(dropout=0)]
        self.train(*arguments, "--out", self.folder / "one")
        launcher = self.torchrun(ATTEND, "train", *arguments, "--out", self.folder / "two")
        _, error = launcher.communicate(timeout=240)
        self.assertEqual(launcher.returncode, 0, error)
        self.expect_close(self.folder / "two", self.folder / "one")


if __name__ == "__main__":
    unittest.main()
