"""attend generate --chat with a small random Llama, compared with apply_chat_template and generate of
transformers.

Run by CTest with ATTEND set to the path of the command. If a package is missing, exits with status
77, which CTest reports as skipped.
"""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import tokenizers
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; scripts/test installs it into .venv")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
from pseudo_terminal import open_pseudo_terminal

ATTEND = os.environ["ATTEND"]
TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '\\n' + message['content'] | trim + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}
"""
SPECIAL = ["<s>", "</s>", "<|start|>", "<|end|>"]
MAX_SEQ_LEN = 160


def accept_interrupts():
    """A shell that runs the test in the background ignores the signal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def write_model(folder, template=TEMPLATE):
    """A random Llama with a byte-level tokenizer. Returns the model and its tokenizer."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = template
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=MAX_SEQ_LEN,
        bos_token_id=tokenizer.token_to_id("<s>"), eos_token_id=tokenizer.token_to_id("</s>"))).eval()
    for parameter in model.parameters():
        parameter.data *= 4  # so that the answers depend on the messages
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return model, fast


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.directory.name)
        cls.folder = cls.root / "model"
        cls.model, cls.tokenizer = write_model(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def setUp(self):
        self.unread = b""  # of a terminal

    def chat(self, lines, *arguments, folder=None, status=0):
        """Returns the output, or the errors if the status is not 0."""
        result = subprocess.run(
            [ATTEND, "generate", folder or self.folder, "--chat", "--temperature", "0", "--max-new-tokens", "20", *arguments],
            input="".join(line + "\n" for line in lines).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, status, result.stderr)
        self.errors = result.stderr.decode()
        return result.stdout if status == 0 else self.errors

    def answers(self, questions, system=None):
        """The answers of transformers, as bytes with a line break each."""
        messages = [{"role": "system", "content": system}] if system else []
        output = ""
        for question in questions:
            messages.append({"role": "user", "content": question})
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]
            ends = [self.tokenizer.convert_tokens_to_ids(token) for token in ("</s>", "<|end|>")]
            found = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False,
                                        eos_token_id=ends, pad_token_id=0)[0][ids.size(1):].tolist()
            answer = self.tokenizer.decode(found, skip_special_tokens=True)
            messages.append({"role": "assistant", "content": answer})
            output += answer + "\n"
        return output.encode()

    def test_answers_are_those_of_transformers(self):
        self.assertEqual(self.chat(["Hello", "How are you?"]), self.answers(["Hello", "How are you?"]))
        self.assertEqual(self.chat(["Grüße 日本"], "--system", "[Be brief]"), self.answers(["Grüße 日本"], "[Be brief]"))
        self.assertNotEqual(self.answers(["Hello"]), self.answers(["Hello"], "[Be brief]"))

    def test_reset_begins_a_new_conversation_and_exit_ends(self):
        expected = self.answers(["Hello"]) + self.answers(["Who?"])
        self.assertEqual(self.chat(["Hello", "", "/reset", "Who?", "/exit", "more"]), expected)
        self.assertIn("'/quit'", self.chat(["/quit"], status=2))

    def test_oldest_turns_are_forgotten(self):
        questions = ["a" * 40, "b" * 40, "c" * 40]
        found = self.chat(questions).split(b"\n")
        self.assertIn("forgotten", self.errors)
        self.assertGreaterEqual(len(found), 3)
        message = self.chat(["x" * 200], status=2)
        self.assertIn(str(MAX_SEQ_LEN), message)

    def test_options_without_effect_and_missing_templates_are_refused(self):
        self.assertIn("--json", self.chat([], "--json", status=2))
        self.assertIn("--prompt", self.chat([], "--prompt", "x", status=2))
        result = subprocess.run([ATTEND, "generate", self.folder, "--system", "x", "--prompt", "x"], capture_output=True)
        self.assertEqual(result.returncode, 2)
        other = self.root / "other"
        write_model(other, None)
        self.assertIn("chat_template", self.chat([], folder=other, status=2))
        write_model(other, "{% include 'x' %}")
        self.assertIn("'include'", self.chat(["x"], folder=other, status=2))
        write_model(other, "{{ raise_exception('no users here') }}")
        self.assertIn("no users here", self.chat(["x"], folder=other, status=2))

    def test_runs_and_exported_folders_have_the_template(self):
        for arguments in (["import", self.folder, "-o", self.root / "run"],
                          ["export", self.root / "run", "--format", "hf", "-o", self.root / "again"]):
            subprocess.run([ATTEND, *arguments], check=True, stdout=subprocess.DEVNULL)
        for folder in ("run", "again"):
            self.assertEqual(self.chat(["Hello"], folder=self.root / folder), self.answers(["Hello"]))
        again = transformers.AutoTokenizer.from_pretrained(str(self.root / "again"))
        messages = [{"role": "user", "content": "Hello"}]
        self.assertEqual(again.apply_chat_template(messages)["input_ids"],
                         self.tokenizer.apply_chat_template(messages)["input_ids"])

    def read_until(self, controller, pattern, seconds=60):
        """Reads from a terminal up to the pattern, and returns it."""
        end = time.monotonic() + seconds
        seen = self.unread
        while not re.search(pattern, seen, re.DOTALL):
            self.assertLess(time.monotonic(), end, seen)
            if select.select([controller], [], [], 1)[0]:
                try:
                    seen += os.read(controller, 4096)
                except OSError:  # the process has ended
                    self.fail(seen)
        at = re.search(pattern, seen, re.DOTALL).end()
        self.unread = seen[at:]
        return seen[:at]

    @contextlib.contextmanager
    def chat_on_a_terminal(self, folder, *arguments):
        """Yields the process and the other end of its terminal."""
        controller, terminal = open_pseudo_terminal()
        process = subprocess.Popen([ATTEND, "generate", folder, "--chat", *arguments], stdin=terminal, stdout=terminal,
                                   stderr=terminal, start_new_session=True, preexec_fn=accept_interrupts)
        os.close(terminal)
        try:
            self.read_until(controller, rb"> ")
            yield process, controller
        finally:
            process.kill()
            process.wait()
            os.close(controller)

    def test_a_terminal(self):
        """Ctrl-C ends an answer, and a message that cannot be answered does not end the chat."""
        with self.chat_on_a_terminal(self.folder, "--max-new-tokens", "100000") as (process, controller):
            os.write(controller, b"/what\n")
            self.read_until(controller, rb"'/what'.*> ")
            process.send_signal(signal.SIGINT)  # at the prompt
            self.read_until(controller, rb"/exit.*> ")
            os.write(controller, b"Hello\n")
            self.read_until(controller, rb"Hello\r\n.{20}")
            process.send_signal(signal.SIGINT)  # during the answer
            self.read_until(controller, rb"\r\n> ")
            os.write(controller, b"/exit\n")
            self.assertEqual(process.wait(60), 0)

    def test_an_interrupt_while_the_terminal_is_stopped(self):
        """Ctrl-S stops the terminal, so that the chat waits in a write. Ctrl-C does not end the chat there."""
        with self.chat_on_a_terminal(self.folder) as (process, controller):
            os.write(controller, b"\x13/reset\n")
            time.sleep(0.5)  # until the next prompt is written
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            os.write(controller, b"\x11")  # Ctrl-Q
            self.read_until(controller, rb"> .*/exit.*> ")
            os.write(controller, b"/exit\n")
            self.assertEqual(process.wait(60), 0)

    def test_a_message_after_an_interrupted_error_is_answered(self):
        other = self.root / "slow"
        write_model(other, """{% if messages[-1].content == 'slow' %}{% for i in range(99999) %}{% for j in range(16) %}
            {%- endfor %}{% endfor %}{{ raise_exception('no slow ones') }}{% endif %}""" + TEMPLATE)
        with self.chat_on_a_terminal(other, "--max-new-tokens", "20") as (process, controller):
            os.write(controller, b"slow\n")
            self.read_until(controller, rb"slow\r\n")
            time.sleep(0.05)
            process.send_signal(signal.SIGINT)  # while the template is rendered
            shown = self.read_until(controller, rb"> ")
            self.assertIn(b"no slow ones", shown)
            os.write(controller, b"Hello\n")
            shown = self.read_until(controller, rb"Hello\r\n.*\r\n> ")
            self.assertNotIn(b"/exit", shown)

    def test_an_interrupt_ends_a_chat_with_a_pipe(self):
        process = subprocess.Popen([ATTEND, "generate", self.folder, "--chat", "--max-new-tokens", "100000"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   preexec_fn=accept_interrupts)
        try:
            process.stdin.write(b"Hello\n" * 1000)
            process.stdin.flush()
            process.stdout.read(1)  # of an answer
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            self.assertEqual(process.wait(60), -signal.SIGINT)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


if __name__ == "__main__":
    unittest.main()
