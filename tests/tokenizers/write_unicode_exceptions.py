"""Writes src/tokenizers/unicode_exceptions.h: the code points that the Python package tokenizers
classifies differently from Unicode 14, the version of Oniguruma 6.9.8. Some parts of the package have
older tables, others newer ones. utf8proc may be newer: src/tokenizers/unicode.cpp treats the characters
in kNewCharacters as unassigned, as Unicode 14 does.

    .venv/bin/python tests/tokenizers/write_unicode_exceptions.py

The module unicodedata of Python 3.11 has the tables of Unicode 14. With another version of Python, the
script fails.
"""

import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "src/tokenizers/unicode_exceptions.h"
CODE_POINTS = [c for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
# A character of each category and length in UTF-8 that no rule of a usual pattern mentions by itself.
PROXIES = {
    "Lu": (0x1E00, 0x10400), "Ll": (0x1E01, 0x10428), "Lm": (0x1D2C, 0x16B40),
    "Lo": (0x0904, 0x10000), "Mn": (0x0900, 0x1D167), "Mc": (0x0903, 0x11000), "Nd": (0x0966, 0x104A0),
    "Nl": (0x2160, 0x10140), "No": (0x2150, 0x10107), "Po": (0x2016, 0x10100), "Pd": (0x2010, 0x10EAD),
    "Sm": (0x2200, 0x1D6C1), "Sc": (0x20A0, 0x1ECB0), "Sk": (0x1FBD, 0x1F3FB), "So": (0x2100, 0x1D000),
    "Cf": (0x200B, 0xE0001), "Han": (None, 0x20000),
}


def category(code_point):
    return unicodedata.category(chr(code_point))


def pieces(pre_tokenizer, code_point):
    return [text for text, _ in pre_tokenizer.pre_tokenize_str("a" + chr(code_point) + "a")]


def ranges(values):
    """Returns (first, last, value) for neighbouring code points with equal values."""
    found = []
    for code_point, value in values:
        if found and found[-1][1] == code_point - 1 and found[-1][2] == value:
            found[-1] = (found[-1][0], code_point, value)
        else:
            found.append((code_point, code_point, value))
    return found


def different(reference, base):
    return ranges((c, None) for c in CODE_POINTS if reference(c) != base(c))


def matching(pattern):
    """Returns the code points that a pattern of the package matches."""
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return {c for c in CODE_POINTS if len(split.pre_tokenize_str("\x01" + chr(c) + "\x01")) == 3}


def new_characters():
    """Returns ranges of characters that the package's regular expressions know and Unicode 14 does not."""
    values = {}
    for name, proxies in PROXIES.items():
        for code_point in matching(rf"\p{{{name}}}"):
            if category(code_point) == "Cn":
                values[code_point] = proxies[code_point > 0xFFFF]
    unassigned = matching(r"\p{Cn}")
    missing = [hex(c) for c in CODE_POINTS
               if category(c) == "Cn" and c not in unassigned and c not in values]
    assert not missing, f"no proxy for {missing[:20]}"
    return ranges(sorted(values.items()))


def tables():
    clean = normalizers.BertNormalizer(True, False, False, False)
    accents = normalizers.BertNormalizer(False, False, True, False)
    strip, lowercase = normalizers.StripAccents(), normalizers.Lowercase()
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    punctuation = pre_tokenizers.Punctuation()
    digits, words = pre_tokenizers.Digits(True), pre_tokenizers.Whitespace()
    yield "kControl", "BertNormalizer removes as control characters", different(
        lambda c: clean.normalize_str(chr(c)) == "",
        lambda c: category(c) in ("Cc", "Cf", "Co") and c not in (9, 10, 13) or c == 0xFFFD)
    yield "kNonspacing", "BertNormalizer removes as accents", different(
        lambda c: accents.normalize_str(chr(c)) == "", lambda c: category(c) == "Mn")
    yield "kCombining", "StripAccents removes", different(
        lambda c: strip.normalize_str(chr(c)) == "", lambda c: category(c)[0] == "M")
    yield "kPunctuation", "Punctuation and BertPreTokenizer split at", different(
        lambda c: len(pieces(punctuation, c)) == 3,
        lambda c: category(c)[0] == "P" or c < 128 and category(c)[0] == "S")
    yield "kNumeric", "Digits splits at", different(
        lambda c: len(pieces(digits, c)) == 3, lambda c: category(c)[0] == "N")
    yield "kWord", "Whitespace and `single_word` consider part of a word", different(
        lambda c: len(pieces(words, c)) == 1,
        lambda c: category(c)[0] in "LM" or category(c) in ("Nd", "Nl", "Pc"))
    yield "kUndecomposed", "the forms NFD and NFKD change", different(
        lambda c: nfkd.normalize_str(chr(c)), lambda c: unicodedata.normalize("NFKD", chr(c)))

    def reorders(normalize, c):
        first, last = chr(c) + "\u0334", "\u0300" + chr(c)
        return (normalize(first) != normalize(chr(c)) + "\u0334"
                or normalize(last) != "\u0300" + normalize(chr(c)))
    yield "kUnordered", "the forms NFD, NFKD, NFC and NFKC reorder", different(
        lambda c: reorders(nfd.normalize_str, c),
        lambda c: reorders(lambda text: unicodedata.normalize("NFD", text), c))
    yield "kLowercase", None, ranges(
        (c, ord(lowercase.normalize_str(chr(c))) - c) for c in CODE_POINTS
        if lowercase.normalize_str(chr(c)) != chr(c).lower())
    yield "kNewCharacters", None, new_characters()


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"expected a Python with Unicode 14.0.0, found {unicodedata.unidata_version}")
    lines = [
        "#pragma once", "",
        f"// Written by tests/tokenizers/write_unicode_exceptions.py with tokenizers {tokenizers.__version__}.",
        "// Do not edit.", "",
        "#include <array>", "#include <cstdint>", "",
        "namespace attend::tokenizers {", "",
        "/// Code points from `first` to `last`.", "struct Range {", "  char32_t first, last;", "};", "",
        "/// Code points from `first` to `last`, with a value for each.", "struct ValueRange {",
        "  char32_t first, last;", "  int32_t value;", "};", "",
        "// clang-format off"]
    for name, text, rows in tables():
        if text:
            lines.append(f"/// Code points that the reference treats differently from Unicode 14: {text}.")
        elif name == "kLowercase":
            lines.append("/// Newer letters, with the distance to their lowercase letters.")
        else:
            lines.append("/// Characters newer than Unicode 14, with an older character of the same category and\n"
                         "/// length in UTF-8, which regular expressions match instead.")
        kind = "Range" if text else "ValueRange"
        lines.append(f"inline constexpr std::array<{kind}, {len(rows)}> {name}{{{{")
        line = "   "
        for first, last, value in rows:
            item = f" {{{first:#x}, {last:#x}}}," if text else f" {{{first:#x}, {last:#x}, {value}}},"
            if len(line) + len(item) > 100:
                lines.append(line)
                line = "   "
            line += item
        lines += [line, "}};", ""]
    lines += ["// clang-format on", "", "}  // namespace attend::tokenizers", ""]
    OUTPUT.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
