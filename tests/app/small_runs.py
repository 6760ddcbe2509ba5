"""Small training runs: start, stop, and compare them."""

import ctypes
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from attend_command import attend, command

STOP_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

# Options with which a checkpoint contains all kinds of state: the random number generator for
# dropout, the state of two optimizers and an unfinished epoch.
DEMANDING = ["--embed-dim", 16, "--batch-size", 8, "--gradient-accumulation-steps", 2, "--dropout", 0.1, "--optimizer",
             "muon", "--log-every", 5]


def as_in_a_terminal():
    """Sets the default signal handlers, which a command in the foreground of a shell has."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def as_other_user():
    """Options of subprocess with which the permissions of files hold for root, too."""
    library = ctypes.CDLL(None)

    def without_privilege():
        for override in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            library.prctl(24, override, 0, 0, 0)  # PR_CAPBSET_DROP

    return {"preexec_fn": without_privilege} if os.geteuid() == 0 else {}


def start(*arguments):
    return subprocess.Popen(command(*arguments), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def start_in_terminal(*arguments):
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=as_in_a_terminal)


def wait_for(condition, process, seconds=240):
    """Waits for the condition; returns False if the process ends first, or after these seconds."""
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.0005)
    return True


def kill(process):
    process.kill()
    process.communicate()


def checkpoints(run):
    return sorted((run / "checkpoint").glob("step-*"))


def last_step(run):
    found = checkpoints(run)
    return int(found[-1].name.removeprefix("step-")) if found else 0


def files_of(folder):
    """Returns {relative path: content} of all files except the lock file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name != ".lock"}


def crc32c(content):
    """CRC-32C (reflected Castagnoli polynomial)."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = table[(checksum ^ byte) & 0xFF] ^ checksum >> 8
    return checksum ^ 0xFFFFFFFF


def write_with_checksum(path, values):
    """Writes a JSON file with the checksum of its values, as data.json."""
    values = {key: value for key, value in values.items() if key != "crc32c"}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    path.write_text(json.dumps({**values, "crc32c": f"{crc32c(text.encode()):08x}"}, indent=2) + "\n")


def write_recipe(run, text):
    """Writes recipe.toml, and its checksum to data.json."""
    (run / "recipe.toml").write_text(text)
    record = json.loads((run / "data.json").read_text())
    record["files"]["recipe.toml"] = f"{crc32c(text.encode()):08x}"
    write_with_checksum(run / "data.json", record)


def run_id_of(run):
    return json.loads((run / "data.json").read_text())["run_id"]


def best_weights_of(run):
    """Returns the bytes of model.safetensors without the id of the run, which differs in each run."""
    content = (run / "model.safetensors").read_bytes()
    assert run_id_of(run).encode() in content
    return content.replace(run_id_of(run).encode(), b"")


def result_of(run):
    """Returns the contents of the files that contain weights, state, and what was recorded at evaluations."""
    latest = checkpoints(run)[-1]
    files = [run / "embeddings.tsv", run / "samples.jsonl", *sorted((run / "embeddings").iterdir()),
             latest / "model.safetensors", latest / "state.safetensors"]
    return {"model.safetensors": best_weights_of(run),
            **{str(file.relative_to(run)): file.read_bytes() for file in files}}


def reports_of(run):
    """Returns the lines of metrics.jsonl without the fields for time, speed and memory."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        for key in ("seconds", "tokens_per_second", "peak_memory"):
            line.pop(key, None)
    return lines


def replaced_by(run):
    """Returns the directory of the run that --overwrite replaces by `run`."""
    return run.with_name(f".{run.name}.replaced")


def read_safetensors(path):
    """{name: (header entry, bytes)} of each tensor."""
    content = path.read_bytes()
    start_of_data = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start_of_data])
    header.pop("__metadata__", None)
    data = content[start_of_data:]
    return {name: (entry, data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


class RunsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def train(self, *arguments, **options):
        result = attend("train", *arguments, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def fails(self, status, arguments, *expected, **options):
        """Expects this exit status. The last line of standard error must contain all `expected`."""
        result = attend("train", *arguments, **options)
        self.assertEqual(result.returncode, status, result.stderr)
        *progress, last = result.stderr.splitlines()
        for text in expected:
            self.assertIn(text, last)
        for line in progress:
            self.assertRegex(line, r"^step \d+/")
        return result

    def same_result(self, one, other, message=""):
        first, second = result_of(one), result_of(other)
        self.assertEqual(first.keys(), second.keys(), message)
        for name, content in first.items():
            self.assertTrue(content == second[name], f"{name} differs {message}")
