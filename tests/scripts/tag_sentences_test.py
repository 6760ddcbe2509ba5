"""Checks that scripts/tag-sentences always writes the same sentences, on which the results in models/ are based.

Needs only Python 3: python3 tests/scripts/tag_sentences_test.py
"""

import collections
import hashlib
import pathlib
import subprocess
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/tag-sentences"


def output(*options):
    return subprocess.run([SCRIPT, *options], capture_output=True, check=True).stdout


class TagSentences(unittest.TestCase):
    def test_the_sentences_are_always_the_same(self):
        """If the script is changed, train the recipes again: scripts/run-recipes token-classification masked-lm."""
        tagged = output()
        self.assertEqual(hashlib.sha256(tagged).hexdigest(),
                         "4bdaddec850d83c37971fc477388024a80c7b6595f33d6e9ae58b9438c0629ee")
        sentences = tagged.decode().strip().split("\n\n")
        self.assertEqual(len(sentences), 4000)
        tags = collections.Counter(line.split()[1] for sentence in sentences for line in sentence.splitlines())
        self.assertEqual(set(tags), {"O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER"})
        words = [" ".join(line.split()[0] for line in sentence.splitlines()) for sentence in sentences]
        self.assertEqual(output("--text").decode().splitlines(), words)


if __name__ == "__main__":
    unittest.main()
