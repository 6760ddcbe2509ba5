"""attend eval on files, from outside, with a model of a small text.

Run by CTest with ATTEND set to the built command; needs nothing but Python 3.
"""

import json
import unittest

from text_run import TEXT, TextRunTest, attend


class Eval(TextRunTest):
    def measure(self, *arguments):
        result = attend("eval", self.run_directory, *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_measures_a_file_as_it_measures_what_was_held_out(self):
        held_out = (TEXT * 100)[len(TEXT) * 90:]
        expected = self.measure()
        file = self.write("held-out.txt", held_out)
        measured = self.measure(file)
        self.assertEqual(measured.pop("file"), str(file))
        self.assertEqual(measured, expected)
        self.assertEqual(expected["tokens"], len(held_out) - 1)

    def test_short_and_strange_texts_cost_more(self):
        self.assertEqual(self.measure(self.write("two.txt", "Fü"))["tokens"], 1)
        strange = self.measure(self.write("strange.txt", TEXT[::-1] * 9))
        self.assertGreater(strange["val_loss"], 2 * self.measure()["val_loss"])

    def test_texts_that_it_cannot_measure_are_named(self):
        for name, text, expected in (("zebra.txt", "Füchse, z", "zebra.txt: character ','"),
                                     ("one.txt", "F", "one.txt: expected at least two tokens"),
                                     ("empty.txt", "", "empty.txt: the file is empty")):
            self.refuses(["eval", self.run_directory, self.write(name, text)], expected)
        self.refuses(["eval", self.run_directory, self.folder / "none.txt"], "no such file")
        senses = self.folder / "senses"
        attend("train", "--out", senses, "--steps", 1, "--layers", 0)
        self.refuses(["eval", senses, self.folder / "text.txt"], "senses", "reads no file")


if __name__ == "__main__":
    unittest.main()
