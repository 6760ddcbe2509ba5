"""Tokenizes a text to a file: tokenize_to_file.py FOLDER. See contender.py."""

import os
import re

from contender import FOLDER, ROW, serve

os.environ["RAYON_NUM_THREADS"] = str(ROW["threads"])
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy  # noqa: E402
import tokenizers  # noqa: E402

tokenizer = tokenizers.Tokenizer.from_file(str(FOLDER / "model/tokenizer.json"))
# Unigram's Metaspace puts a space before each part, which replaces a space of the text.
SEPARATOR = r"(?<=\S) (?=\S)" if ROW["tokenizer"] == "Unigram" else r"(?<=\S)(?=\n)"


def parts_of(text):
    """Parts of the text of about 4 KB, of which encode_batch encodes several at a time; faster than lines."""
    parts = re.split(SEPARATOR, text)
    joint = " " if ROW["tokenizer"] == "Unigram" else ""
    count = max(1, 4096 * len(parts) // len(text))
    return [joint.join(parts[i:i + count]) for i in range(0, len(parts), count)]


def run():
    text = (FOLDER / "text.txt").read_text(encoding="utf-8")
    with open(FOLDER / "tokens.bin", "wb") as file:
        parts = parts_of(text)
        for i in range(0, len(parts), 256):
            for encoding in tokenizer.encode_batch_fast(parts[i:i + 256]):
                numpy.array(encoding.ids, dtype=numpy.uint16).tofile(file)


run()
serve({"tokens": [numpy.fromfile(FOLDER / "tokens.bin", dtype=numpy.uint16).tolist()]}, run)
