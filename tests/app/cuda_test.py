"""Training and using runs on a GPU; skipped without one.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import json
import unittest

from attend_command import attend
from distributed_test import ProcessesTest, ends_of

SMALL = ["--task", "copy", "--max-steps", 20, "--eval-every", 10, "--checkpoint-every", 5, "--log-every", 1]


def losses(run):
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [row["train_loss"] for row in rows if "train_loss" in row]


class OnCuda(ProcessesTest):
    def setUp(self):
        super().setUp()
        self.run_directory = self.folder / "run"
        result = attend("train", *SMALL, "--device", "cuda", "--out", self.run_directory)
        if "cuda is not available" in result.stderr:
            self.skipTest("no CUDA device")
        self.assertEqual(result.returncode, 0, result.stderr)

    def outputs(self, command, *arguments):
        """Returns the outputs of the command on the GPU and on the CPU."""
        results = [attend(command, self.run_directory, *arguments, "--device", device) for device in ("cuda", "cpu")]
        for result in results:
            self.assertEqual(result.returncode, 0, result.stderr)
        return [result.stdout for result in results]

    def test_losses_match_the_cpu(self):
        on_cpu = self.folder / "cpu"
        self.train(*SMALL, "--device", "cpu", "--out", on_cpu)
        for found, expected in zip(losses(self.run_directory), losses(on_cpu), strict=True):
            self.assertAlmostEqual(found, expected, delta=0.01)

    def test_the_run_can_be_used_on_both_devices(self):
        on_cuda, on_cpu = (json.loads(output)["val_loss"] for output in self.outputs("eval", "--json"))
        self.assertAlmostEqual(on_cuda, on_cpu, delta=1e-4)
        on_cuda, on_cpu = self.outputs("generate", "--prompt", "abc=", "--temperature", 0)
        self.assertEqual(on_cuda, on_cpu)

    def test_processes_follow_one_process(self):
        for backend in ("auto", "gloo"):
            run = self.folder / backend
            ends = ends_of(self.start_ranks(["train", *SMALL, "--device", "cuda", "--ddp-backend", backend, "--out",
                                             run], 2))
            self.assertEqual([end[0] for end in ends], [0, 0], ends)
            progress, of_rank_1 = (end[2] for end in ends)
            self.assertTrue(all(line.startswith("step ") for line in progress.splitlines()), progress)
            self.assertEqual(of_rank_1, "")
            for found, expected in zip(losses(run), losses(self.run_directory), strict=True):
                self.assertAlmostEqual(found / expected, 1.0, delta=1e-3)

    def test_resumes_on_the_cpu_and_back(self):
        for steps, device in ((30, "cpu"), (40, "cuda")):
            self.train("--resume", self.run_directory, "--max-steps", steps, "--device", device)
        self.assertEqual(len(losses(self.run_directory)), 40)

    def test_exports_are_independent_of_the_device(self):
        for name in ("model.pt", "model.safetensors"):
            files = [self.folder / f"{device}-{name}" for device in ("cuda", "cpu")]
            for file in files:
                result = attend("export", self.run_directory, "-o", file, "--device", file.name.split("-")[0])
                self.assertEqual(result.returncode, 0, result.stderr)
            if name.endswith(".safetensors"):
                self.assertEqual(files[0].read_bytes(), files[1].read_bytes())


if __name__ == "__main__":
    unittest.main()
