"""Resuming from valid and damaged checkpoints.

Run by CTest with ATTEND set to the built command; requires only Python 3. To repeat a run, set
RANDOM_SEED to the seed that it printed.
"""

import json
import os
import random
import shutil
import struct
import time
import unittest

from attend_command import attend, expect_names
from small_runs import (DEMANDING, RunsTest, checkpoints, crc32c, files_of, read_safetensors, result_of, run_id_of,
                        write_with_checksum)

SEED = int(os.environ.get("RANDOM_SEED", time.time_ns() % 1000000))


def write_safetensors(path, tensors):
    header = {name: entry for name, (entry, _) in tensors.items()}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(content for _, content in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_manifest(checkpoint):
    names = ("model.safetensors", "state.safetensors", "best.safetensors", "trainer_state.json")
    contents = {name: (checkpoint / name).read_bytes() for name in names}
    files = {name: {"bytes": len(content), "crc32c": crc32c(content)}
             for name, content in contents.items()}
    write_with_checksum(checkpoint / "manifest.json",
                        {"version": 1, "run_id": run_id_of(checkpoint.parent.parent), "files": files})


class Checkpoints(RunsTest):
    """A finished run of 30 steps; its second to last checkpoint is at step 20."""

    @classmethod
    def setUpClass(cls):
        cls.made = RunsTest("setUp")
        cls.made.setUp()
        cls.addClassCleanup(cls.made.doCleanups)
        cls.whole = cls.made.folder / "whole"
        cls.made.train("--out", cls.whole, *DEMANDING, "--max-steps", 30, "--eval-every", 10,
                       "--checkpoint-every", 10)

    def copy(self, name):
        return shutil.copytree(self.whole, self.folder / name)

    def test_resuming_needs_all_state(self):
        """If a part of the state is from another step, the result differs."""
        for part in ("optimizer.", "sampler.", "random."):
            run = self.copy(part + "old")
            shutil.rmtree(checkpoints(run)[-1])
            latest = checkpoints(run)[-1]
            current = read_safetensors(latest / "state.safetensors")
            last = read_safetensors(checkpoints(self.whole)[-1] / "state.safetensors")
            mixed = {name: last[name] if name.startswith(part) else current[name] for name in current}
            self.assertFalse(mixed == current, part)
            write_safetensors(latest / "state.safetensors", mixed)
            write_manifest(latest)
            resumed = self.train("--resume", run)
            self.assertIn("from step 20", resumed.stdout)
            self.assertNotIn("damaged", resumed.stderr)
            self.assertFalse(result_of(run) == result_of(self.whole), part)

    def test_a_damaged_checkpoint_falls_back_to_the_previous_one(self):
        print(f"repeat with RANDOM_SEED={SEED}")
        chance = random.Random(SEED)
        for name in ("model.safetensors", "state.safetensors", "best.safetensors", "trainer_state.json",
                     "manifest.json"):
            for damage in ("truncated", "flipped", "missing"):
                run = self.copy(f"{name}-{damage}")
                file = checkpoints(run)[-1] / name
                content = bytearray(file.read_bytes())
                place = chance.randrange(len(content))
                content[place] ^= 1 << chance.randrange(8)
                file.write_bytes(content[:place] if damage == "truncated" else content)
                if damage == "missing":
                    file.unlink()
                resumed = self.train("--resume", run)
                warning = f"attend: skipped a damaged checkpoint: {file.parent}"
                self.assertTrue(resumed.stderr.startswith(warning), resumed.stderr)
                self.assertIn("from step 20", resumed.stdout)
                self.same_result(run, self.whole, f"{name} {damage} at {place}, seed {SEED}")

    def test_the_message_about_a_damaged_checkpoint_has_no_control_codes(self):
        run = self.copy("run")
        manifest = checkpoints(run)[-1] / "manifest.json"
        manifest.write_bytes(b'{"\x1b[2J\xff')
        result = attend("train", "--resume", run)  # decodes UTF-8
        self.assertEqual(result.returncode, 0, result.stderr)
        expect_names(self, result.stderr, manifest)
        self.assertNotIn("\x1b", result.stderr)

    def test_last_weights_of_a_damaged_checkpoint_are_refused(self):
        run = self.copy("run")
        previous, latest = checkpoints(run)
        (latest / "best.safetensors").write_bytes(b"")
        for arguments in (["eval", run], ["generate", run, "--prompt", "the"],
                          ["export", run, "-o", self.folder / "model.pt"]):
            result = attend(*arguments, "--weights", "last")
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            expect_names(self, result.stderr, latest / "best.safetensors", previous)
        shutil.rmtree(latest)
        self.assertEqual(attend("eval", run, "--weights", "last").returncode, 0)

    def test_all_checkpoints_damaged(self):
        run = self.copy("run")
        for checkpoint in checkpoints(run):
            (checkpoint / "state.safetensors").write_bytes(b"")
        before = files_of(run)
        self.fails(2, ["--resume", run], "all checkpoints are damaged", *map(str, checkpoints(run)))
        self.assertTrue(files_of(run) == before, "a rejected command changed files")

    def test_resume_a_finished_run_with_more_steps(self):
        run = self.copy("run")
        before = files_of(run)
        expect_names(self, self.train("--resume", run).stdout, run, "30/30", "--max-steps")
        self.assertTrue(files_of(run) == before, "nothing was left to do")
        self.fails(2, ["--resume", run, "--max-steps", 20], str(run), "30/20", "max_steps")
        self.assertTrue(files_of(run) == before, "a rejected command changed files")
        self.train("--resume", run, "--max-steps", 33)
        self.assertEqual(json.loads((run / "summary.json").read_text())["steps"], 33)


if __name__ == "__main__":
    unittest.main()
