"""Compares TextTokenizer with the Python package tokenizers: token ids, type ids, padding and decoded
texts of random lines must be equal, for small tokenizers of each family of published models.

CTest runs this file with the environment variable RUN_TOKENIZER, the path of the program
run_tokenizer. LINES sets the number of lines per family, TOKENIZERS the number of tokenizers per
family. Before a release and after a change to the tokenizers:

    LINES=5000 TOKENIZERS=10 ctest --preset release -R tokenizers.same_ids

If the package is missing, the exit status is 77, which CTest reports as skipped.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import tokenizers
except ImportError:
    print("skipped: this Python has no package tokenizers")
    sys.exit(77)

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

import families

LINES = int(os.environ.get("LINES", "60"))
TOKENIZERS = int(os.environ.get("TOKENIZERS", "2"))
SEED = int(os.environ.get("ATTEND_TEST_SEED", random.SystemRandom().randrange(1 << 32)))


class Program:
    """The program run_tokenizer."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["RUN_TOKENIZER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def __call__(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def encode(self, *texts, special=True):
        return self(encode=[text.hex() for text in texts], special=special)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class SameIds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = Program()
        cls.addClassCleanup(cls.program.close)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        print(f"repeat with ATTEND_TEST_SEED={SEED}; tokenizers {tokenizers.__version__}")

    def check_encoding(self, tokenizer, texts, special, where):
        decoded = [text.decode(errors="replace") for text in texts]
        try:
            expected = tokenizer.encode(*decoded, add_special_tokens=special)
        except Exception as error:
            self.assertIn("error", self.program.encode(*texts, special=special), f"{where}: {error}")
            return None
        except BaseException as error:  # a panic of the package, a bug: any answer will do
            if isinstance(error, KeyboardInterrupt):
                raise
            self.program.encode(*texts, special=special)
            return None
        found = self.program.encode(*texts, special=special)
        self.assertEqual(found, [expected.ids, expected.type_ids, expected.attention_mask], f"{where}: {decoded}")
        return expected.ids

    def check_decoding(self, tokenizer, ids, where):
        for skip in (True, False):
            try:
                expected = tokenizer.decode(ids, skip_special_tokens=skip)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                continue
            self.assertEqual(self.program(decode=ids, skip=skip), expected, f"{where}: decode {ids}")

    def check_stream(self, ids, where):
        """No text of a stream ends within a character, and together they are the decoded text."""
        texts = self.program(stream=ids, skip=False)
        for text in texts[:-1]:
            self.assertFalse(text.endswith("\ufffd"), f"{where}: stream {ids}: {texts}")
        return "".join(texts)

    def check_family(self, family):
        for number in range(TOKENIZERS):
            seed = SEED + number
            where = f"{family.__name__}, repeat with ATTEND_TEST_SEED={seed} TOKENIZERS=1"
            path = pathlib.Path(self.folder.name, "tokenizer.json")
            drawn = families.draw(family, seed)
            path.write_text(drawn.to_str(pretty=number % 2 == 0))
            tokenizer = Tokenizer.from_file(str(path))
            loaded = self.program(load=str(path))
            self.assertIsNone(loaded, where)
            rng = random.Random(seed)
            size = tokenizer.get_vocab_size()
            for _ in range(LINES // TOKENIZERS):
                text = families.line(rng)
                ids = self.check_encoding(tokenizer, [text], families.flag(rng), where)
                if rng.random() < 0.2:
                    self.check_encoding(tokenizer, [text, families.line(rng)], families.flag(rng), where)
                if ids is None or rng.random() < 0.3:
                    ids = [rng.randrange(size + 2) for _ in range(rng.randint(0, 20))]
                self.check_decoding(tokenizer, ids, where)
                if rng.random() < 0.2:
                    streamed = self.check_stream(ids, where)
                    if family is not families.odd:
                        self.assertEqual(streamed, tokenizer.decode(ids, skip_special_tokens=False), where)


    def test_all_characters(self):
        """Each part treats each character as the package does: blocks of 256, all for many LINES."""
        parts = [("normalizer", part) for part in (
            normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
            normalizers.StripAccents(), normalizers.Nmt(), normalizers.BertNormalizer(),
            normalizers.Precompiled(families.charsmap({"a": "b", "é": "x"})))]
        parts += [("pre_tokenizer", part) for part in (
            pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer(),
            pre_tokenizers.Digits(), pre_tokenizers.Punctuation(),
            *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (
                r"\p{L}+", r"\p{N}", r"\s", r"\w+", r"\p{Word}", r"\p{M}", r"\p{Lu}", r"[[:punct:]]", r"\p{Han}")))]
        blocks = [block for block in range(0x1100) if not 0xD8 <= block <= 0xDF]
        rng = random.Random(SEED)
        for key, part in parts:
            # The byte tokens show the normalized text, and the suffix shows where the pieces end.
            tokenizer = Tokenizer(models.BPE(vocab={f"<0x{i:02X}>": i for i in range(256)}, merges=[],
                                             byte_fallback=True, end_of_word_suffix="\x01"))
            setattr(tokenizer, key, part)
            path = pathlib.Path(self.folder.name, "tokenizer.json")
            path.write_text(tokenizer.to_str())
            self.assertIsNone(self.program(load=str(path)))
            # In these blocks, 42 marks of Unicode 17 extend grapheme clusters only in the package (docs/tokenizers.md).
            unknown = {0x1A, 0x10E, 0x11B, 0x1E6} if isinstance(part, normalizers.Precompiled) else set()
            for block in blocks if LINES >= 5000 else rng.sample(blocks[:0x320], 20) + rng.sample(blocks, 5):
                if block in unknown:
                    continue
                for before in ("a", "\u0334", "\u0300"):
                    text = "".join(before + chr(block * 256 + i) + "a" for i in range(256))
                    found = self.program.encode(text.encode(), special=False)[0]
                    expected = tokenizer.encode(text, add_special_tokens=False).ids
                    if found == expected:
                        continue
                    for i in range(256):
                        text = before + chr(block * 256 + i) + "a"
                        self.assertEqual(self.program.encode(text.encode(), special=False)[0],
                                         tokenizer.encode(text, add_special_tokens=False).ids,
                                         f"{part}, U+{block * 256 + i:04X}, ATTEND_TEST_SEED={SEED}")
                    self.fail(f"{part}, block {block:#x}")


def add_test(family):
    setattr(SameIds, f"test_{family.__name__}", lambda self: self.check_family(family))


for each_family in families.FAMILIES:
    add_test(each_family)


if __name__ == "__main__":
    unittest.main()
