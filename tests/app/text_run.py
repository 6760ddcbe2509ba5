"""A language model of a short text, trained once per test class."""

from attend_command import CommandTest

TEXT = "Füchse fressen Früchte.\n"


class TextRunTest(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_directory = cls.folder / "run"
        cls.text = cls.write("text.txt", TEXT * 100)
        cls.training = cls().succeeds(
            "train", "--text", cls.text, "--out", cls.run_directory, "--max-seq-len", 16, "--num-layers", 1,
            "--embed-dim", 32, "--max-steps", 120, "--lr", "1e-2")
