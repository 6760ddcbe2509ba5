"""Mutates the files of a run at random and runs commands on it. A command must refuse the run with a message that
names the mutated file, or give the result of the valid run.

Run by CTest with ATTEND set to the built command; requires only Python 3. RANDOM_MUTATIONS is the number of
mutations. A failure prints the number of the mutation; to repeat it, set RANDOM_SEED to the sum of this number and
the seed that the test printed, and RANDOM_MUTATIONS to 1.
"""

import collections
import concurrent.futures
import json
import os
import random
import shutil
import time
import unittest

from attend_command import CommandTest, attend

SEED = int(os.environ.get("RANDOM_SEED", time.time_ns() % 1000000))
COUNT = int(os.environ.get("RANDOM_MUTATIONS", 60))
LATEST = "checkpoint/step-000000006"
VALUES = (None, True, -1, 0, 2**63, 2**64, 1e300, 0.5, "", "x", "\x1b[2J", [], {}, [[]])


def mutated_bytes(content, chance):
    content = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place, length = chance.randrange(len(content) + 1), chance.randint(1, 16)
        some = bytes(chance.randrange(256) for _ in range(length))
        kind = chance.randrange(6)
        if kind == 0 and place < len(content):
            content[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            content[place:place + length] = some
        elif kind == 2:
            content[place:place] = some
        elif kind == 3:
            del content[place:place + length]
        elif kind == 4:
            content[place:place] = content[max(0, place - length):place]
        elif kind == 5:
            del content[place:]
    return bytes(content)


def mutated_json(value, chance):
    """Replaces, removes or renames a random value, or nests it deeply."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.8:
        items = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        key = chance.choice(list(items))
        kind = chance.randrange(8)
        if kind == 0:
            del items[key]
        elif kind == 1 and isinstance(value, dict):
            items[chance.choice(("", "x", *items))] = items.pop(key)
        else:
            items[key] = mutated_json(items[key], chance)
        return items if isinstance(value, dict) else list(items.values())
    if chance.random() < 0.1:
        for _ in range(chance.choice((10, 500))):
            value = [value]
        return value
    return chance.choice(VALUES)


def mutated_lines(text, chance):
    """Replaces the value of a random line "key = value", removes the line, or repeats it."""
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    value = chance.choice(("-1", "0", "1", "7", "1e300", "nan", "true", '""', '"x"', "[]", "{}", str(2**63), "x"))
    key = lines[place].split("=")[0]
    lines[place] = chance.choice((f"{key}= {value}\n", "", 2 * lines[place]))
    return "".join(lines)


def mutated(name, content, chance):
    result = content
    while result == content:
        kind = chance.randrange(3)
        if kind == 0 or not name.endswith((".json", ".toml")):
            result = mutated_bytes(content, chance)
        elif name.endswith(".json"):
            result = json.dumps(mutated_json(json.loads(content), chance), indent=2).encode()
        else:
            result = mutated_lines(content.decode(), chance).encode()
    return result


COMMANDS = {
    "eval": lambda run: ["eval", run, "--json"],
    "eval-last": lambda run: ["eval", run, "--json", "--weights", "last"],
    "generate": lambda run: ["generate", run, "--prompt", "the", "--max-new-tokens", 3, "--seed", 1],
    "inspect": lambda run: ["inspect", run, "--json"],
    "inspect-checkpoint": lambda run: ["inspect", run / LATEST, "--json"],
    "export": lambda run: ["export", run, "-o", run.parent / (run.name + ".safetensors"), "--overwrite"],
    "print-config": lambda run: ["train", "--resume", run, "--print-config"],
    "resume": lambda run: ["train", "--resume", run, "--max-steps", 7],
}


def outcome(name, run):
    """Runs a command. Returns its result, and what it wrote that does not depend on the path of the run and on time."""
    result = attend(*COMMANDS[name](run))
    output = result.stdout.replace(run.name, "RUN")
    if name == "resume":
        output = None  # contains times
    if name == "export" and result.returncode == 0:
        output = (run.parent / (run.name + ".safetensors")).read_bytes()
    return result, output


class MutatedRuns(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        cls().succeeds("train", "--out", cls.run_directory, "--embed-dim", 8, "--num-layers", 1, "--num-heads", 1,
                       "--batch-size", 4, "--max-steps", 6, "--eval-every", 3, "--checkpoint-every", 3)
        # The event files, the log and the lock file are not read by these commands.
        cls.files = [str(path.relative_to(cls.run_directory)) for path in sorted(cls.run_directory.rglob("*"))
                     if path.is_file() and path.suffix in (".json", ".toml", ".safetensors")]
        cls.expected = {}
        for name in COMMANDS:
            run = shutil.copytree(cls.run_directory, cls.folder / ("valid-" + name))
            result, cls.expected[name] = outcome(name, run)
            assert result.returncode == 0, (name, result.stderr)

    def check(self, number):
        """Returns the command, the mutated file and the exit status."""
        chance = random.Random(SEED + number)
        run = self.folder / f"mutated-{number}"
        shutil.copytree(self.run_directory, run)
        name = chance.choice(self.files)
        file = run / name
        file.write_bytes(mutated(name, file.read_bytes(), chance))
        command = chance.choice(list(COMMANDS))
        result, output = outcome(command, run)
        where = f"mutation {number} of seed {SEED}: {command}, {name}, status {result.returncode}: {result.stderr!r}"
        self.assertIn(result.returncode, (0, 2), where)
        if result.returncode == 2:
            self.assertIn(f"{file}", result.stderr, where)
            self.assertEqual(result.stdout, "", where)
        else:
            self.assertEqual(output, self.expected[command], where)
        if command == "resume" and result.returncode == 0 and name.startswith(LATEST):
            self.assertIn(f"{file}", result.stderr, where)
        shutil.rmtree(run)
        return command, name, result.returncode

    def test_refused_by_name_or_without_effect(self):
        print(f"repeat with RANDOM_SEED={SEED}")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            outcomes = list(pool.map(self.check, range(COUNT)))
        statuses = collections.Counter(status for _, _, status in outcomes)
        print(f"{COUNT} mutations: {statuses[2]} refused, {statuses[0]} without effect")
        self.assertGreaterEqual(statuses[2], COUNT // 5)


if __name__ == "__main__":
    unittest.main()
