"""TensorBoard reads the scalars and the embeddings of a run.

Run by CTest with ATTEND set to the built command, by a Python that has tensorboard; otherwise it
exits with 77, which CTest reports as skipped.
"""

import json
import sys
import unittest

from attend_command import CommandTest

try:
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
    from werkzeug.test import Client
except ImportError:
    print("skipped: this Python has no tensorboard")
    sys.exit(77)

TRAINING = {"train/loss": "train_loss", "train/lr": "lr", "train/peak_memory": "peak_memory",
            "train/accuracy": "train_accuracy",
            "train/grad_norm": "grad_norm", "train/tokens_per_second": "tokens_per_second"}
VALIDATION = {"val/loss": "val_loss", "val/accuracy": "val_accuracy"}


class TensorBoard(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        cls.train()

    @classmethod
    def train(cls, *flags):
        cls().succeeds("train", "--max-steps", 30, "--eval-every", 10, "--out", cls.run_directory, *flags)

    def test_has_every_metric(self):
        lines = [json.loads(line)
                 for line in (self.run_directory / "metrics.jsonl").read_text().splitlines()]
        events = EventAccumulator(str(self.run_directory / "tensorboard")).Reload()
        self.assertEqual(set(events.Tags()["scalars"]), {*TRAINING, *VALIDATION})
        for tag, key in {**TRAINING, **VALIDATION}.items():
            expected = [(line["step"], line[key]) for line in lines if key in line]
            self.assertGreaterEqual(len(expected), 3, key)
            found = [(event.step, event.value) for event in events.Scalars(tag)]
            self.assertEqual([step for step, _ in found], [step for step, _ in expected])
            for (_, number), (_, value) in zip(found, expected):
                self.assertAlmostEqual(number, value, delta=1e-6 * abs(value))

    def test_shows_the_embeddings(self):
        directory = str(self.run_directory)
        runs = EventMultiplexer().AddRunsFromDirectory(directory).Reload()
        context = TBContext(logdir=directory, data_provider=MultiplexerDataProvider(runs, directory))
        pages = {path: Client(page) for path, page in ProjectorPlugin(context).get_plugin_apps().items()}
        info = pages["/info"].get("/?run=.").get_json()["embeddings"][0]
        tokens = json.loads((self.run_directory / "tokenizer.json").read_text())["tokens"]
        self.assertEqual(info["tensorShape"], [len(tokens), 64])
        where = f"/?run=.&name={info['tensorName'].replace(' ', '%20')}"
        self.assertEqual(pages["/metadata"].get(where + "&num_rows=9999").text.splitlines(), tokens)
        self.assertEqual(len(pages["/tensor"].get(where + "&num_rows=9999").data), len(tokens) * 64 * 4)

    def test_overwrite_removes_the_old_curves(self):
        self.train("--overwrite")
        self.assertEqual(len(list((self.run_directory / "tensorboard").iterdir())), 1)


if __name__ == "__main__":
    unittest.main()
