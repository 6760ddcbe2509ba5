"""attend train with chats and a small random Llama, compared with the losses of transformers.

Run by CTest with ATTEND set to the path of the command. If a package is missing, exits with status
77, which CTest reports as skipped.
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

from chat_test import ATTEND, torch, write_model

# Marks what a model generates after the prompt of TEMPLATE.
MARKED = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '\\n' }}
    {%- if message['role'] == 'assistant' %}
        {%- generation %}{{ message['content'] | trim + '<|end|>' }}{% endgeneration %}
    {%- else %}
        {{- message['content'] | trim + '<|end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}
"""


def chat(*contents, system=None):
    messages = [{"role": "system", "content": system}] if system else []
    for i, content in enumerate(contents):
        messages.append({"role": "assistant" if i % 2 else "user", "content": content})
    return messages


CHATS = [chat("Hello", "Hi!"), chat("Who?", "Me.", "Why?", "日本 é", "the end"), chat("Sum", "12", system="Be brief"),
         chat("Hello", "Hi again", "Bye", "Bye, bye")]


class ChatTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.directory.name)
        cls.chats = cls.root / "chats.jsonl"
        cls.chats.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in CHATS))
        cls.val_chats = cls.root / "val.jsonl"
        cls.val_chats.write_text(cls.chats.read_text())

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def train(self, name, folder, *arguments, lr=1e-9, steps=1):
        run = self.root / name
        result = subprocess.run(
            [ATTEND, "train", "--init-from", folder, "--task", "answers", "--text", self.chats, "--val-text", self.val_chats,
             "--messages-column", "messages", "--max-steps", str(steps), "--lr", str(lr), "--warmup-steps", "0", "--out", run,
             "--batch-size", "2", *arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return run

    def test_losses_are_those_of_transformers(self):
        for name, template in (("marked", MARKED), ("plain", None)):
            with self.subTest(name):
                folder = self.root / name
                model, tokenizer = write_model(folder, template) if template else write_model(folder)
                tokenizer.chat_template = MARKED
                total, count = 0.0, 0
                for messages in CHATS:
                    encoded = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
                    tokens = torch.tensor([encoded["input_ids"]])
                    is_answer = torch.tensor(encoded["assistant_masks"], dtype=torch.bool)
                    logits = model(tokens).logits[0, :-1].double()
                    losses = torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="none")
                    total += losses[is_answer[1:]].sum().item()
                    count += is_answer[1:].sum().item()
                run = self.train(f"run-{name}", folder)
                found = json.loads(subprocess.run([ATTEND, "eval", run, "--json"], capture_output=True, check=True).stdout)
                self.assertEqual(found["val_targets"], count)
                self.assertAlmostEqual(found["val_loss"], total / count, delta=1e-4 * total / count)
                again = json.loads(subprocess.run([ATTEND, "eval", run, self.chats, "--json"], capture_output=True,
                                                  check=True).stdout)
                self.assertAlmostEqual(again["val_loss"], found["val_loss"], places=5)
                self.assertEqual((again["truncated"], again["left_out"]), (0, 0))
                sample = json.loads((run / "samples.jsonl").read_text().splitlines()[0])["samples"][0]
                self.assertEqual(sample["input"].count("<s>"), 1)

    def test_trained_chats_are_answered(self):
        folder = self.root / "answered"
        write_model(folder)
        run = self.train("answered-run", folder, "--lora-rank", "8", "--lora-alpha", "16", lr=2e-2, steps=150)
        found = subprocess.run([ATTEND, "generate", run, "--chat", "--temperature", "0"], input=b"Who?\nWhy?\n",
                               capture_output=True, check=True)
        self.assertEqual(found.stdout.decode(), "Me.\n日本 é\n")


if __name__ == "__main__":
    unittest.main()
