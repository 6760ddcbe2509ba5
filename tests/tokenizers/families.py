"""Small tokenizers of each family of published models, trained on random text with random settings,
and random lines to encode. The parts of a tokenizer are those of the published tokenizer.json."""

import json
import random
import struct
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SCRIPTS = ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "äöüßéèñçåøžł", "ΑΒΓΔΣαβγδσς", "абвгдежзЯЖ",
           "אבגדה", "ابتثج", "अआइकखग\u093e\u094d\u0902", "กขคง\u0e31\u0e34", "中文字符漢字", "ひらがなカタカナー", "한국어각",
           "𝐀𝐁𝒄", "ＡＢｃ１２", "ﬁﬂ½²①㍿ǅ", "ꭰꭱᎠ", "𐐀𐐨"]
MARKS = ["\u0301", "\u0308", "\u0323", "\u200d", "\u200c", "\ufe0f", "\u3099", "\u0345", "\u1ab0", "\u0f71"]
EMOJI = ["😀", "👍🏽", "👩‍💻", "🇩🇪", "❤️", "👨‍👩‍👧", "🏴\U000e0067\U000e007f", "1️⃣"]
CODE = ["def f(x):", "    return x+1", "\t\tif (a&&b){", "std::vector<int>", "a_b->c;", "//# {}", "x=[1,2];", "<div class='a'>"]
BLANKS = [" ", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "\u1680", "\u180e", "\u200b", "\ufeff",
          "\v", "\f"]
CONTRACTIONS = ["'s", "'t", "'re", "'LL", "'ſ", "’s", "n't", " do not", " 's", " .", " ,", " ?", "'m", "▁", "▁▁", "ĠĠ", "Ċ"]
TOKENS = ["<s>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<pad>", "<mask>", "<|endoftext|>", "<|im_start|>",
          "<X>", "<x>", "<YES>", "<yes>", "<NO>", "<no>", "ab", "abc", "<extra_id_0>", "<0x41>", "<bos>", "<|end|>", "<|", "|>"]


def word(rng):
    letters = rng.choice(SCRIPTS)
    size = min(int(rng.expovariate(0.25)) + 1, 40)
    text = "".join(rng.choice(letters) for _ in range(size))
    return text.capitalize() if rng.random() < 0.2 else text


def atom(rng):
    """Returns a random part of a line as bytes."""
    kind = rng.random()
    if kind < 0.45:
        text = word(rng)
    elif kind < 0.55:
        text = rng.choice(BLANKS[:3])
    elif kind < 0.60:
        text = rng.choice(BLANKS) * rng.choice([1, 1, 2, 3, 30, 200])
    elif kind < 0.66:
        text = "".join(rng.choice("0123456789٣४²") for _ in range(rng.randint(1, 12)))
    elif kind < 0.72:
        text = "".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…—«»。、") for _ in range(rng.randint(1, 4)))
    elif kind < 0.76:
        text = rng.choice(EMOJI)
    elif kind < 0.80:
        text = rng.choice(CODE)
    elif kind < 0.85:
        text = rng.choice(CONTRACTIONS)
    elif kind < 0.90:
        text = rng.choice(TOKENS)
    elif kind < 0.93:
        text = "".join(rng.choice("aeo") + rng.choice(MARKS) for _ in range(rng.randint(1, 4)))
    elif kind < 0.97:  # any characters
        text = "".join(chr(c) for c in (rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000),
                                                    rng.randrange(0x20000), rng.randrange(0x110000)])
                                        for _ in range(rng.randint(1, 5))) if not 0xD800 <= c <= 0xDFFF)
    else:  # invalid UTF-8
        return bytes(rng.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0x82, 0xF0, 0x9F, 0xFF, 0xED, 0xA0, 0x61])
                     for _ in range(rng.randint(1, 5)))
    return text.encode()


def line(rng):
    parts = []
    for _ in range(rng.choice([0, 1, 2, 5, 10, 20])):
        parts.append(atom(rng))
        if rng.random() < 0.5:
            parts.append(b" ")
    return b"".join(parts)


def corpus(rng, lines=300):
    return [line(rng).decode(errors="replace") for _ in range(lines)]


def flag(rng):
    return rng.random() < 0.5


def special_tokens(rng, names, **options):
    return [AddedToken(name, special=True, normalized=False, lstrip=rng.random() < 0.2, rstrip=rng.random() < 0.2,
                       single_word=rng.random() < 0.1, **options) for name in names]


def add_tokens(rng, tokenizer, is_published):
    """Adds some odd tokens."""
    def normalized(text):
        return tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text

    # Two tokens with equal normalized texts, or one with an empty one, are refused.
    texts = {"", *(normalized(token.content) for token in tokenizer.get_added_tokens_decoder().values() if token.normalized)}
    names = ("<X>", "<YES>", "<NO>", "ab", "abc", rng.choice(["▁▁", "  "]) if is_published else "<Y>", "é", "中文")
    tokens = [name for name in names if rng.random() < 0.3]
    for name in tokens:
        token = AddedToken(name, special=flag(rng) and name[0] == "<", normalized=flag(rng), lstrip=rng.random() < 0.3,
                           rstrip=rng.random() < 0.3, single_word=rng.random() < 0.3)
        if token.normalized:
            if normalized(name) in texts:
                continue
            texts.add(normalized(name))
        tokenizer.add_tokens([token])


def bert(rng, cased=False):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=rng.choice([5, 20, 100])))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=rng.random() < 0.8, handle_chinese_chars=rng.random() < 0.8,
        strip_accents=rng.choice([None, True, False]), lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=rng.choice([200, 800]), show_progress=False,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.train_from_iterator(corpus(rng), trainer)
    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if flag(rng):
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    else:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=flag(rng))
    return tokenizer


def distilbert(rng):
    return bert(rng, cased=True)


def minilm(rng):
    tokenizer = bert(rng)
    tokenizer.enable_truncation(rng.choice([8, 16, 128]), strategy=rng.choice(["longest_first", "only_first"]),
                                direction=rng.choice(["left", "right"]))
    tokenizer.enable_padding(direction=rng.choice(["left", "right"]), pad_id=0, pad_token="[PAD]",
                             pad_type_id=rng.randrange(2), length=rng.choice([None, 16, 128]),
                             pad_to_multiple_of=rng.choice([None, 8]))
    return tokenizer


def byte_level_bpe(rng, special, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=flag(rng), use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=rng.choice([300, 600, 1500]), special_tokens=special_tokens(rng, special),
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    return tokenizer, trainer


def gpt2(rng):
    tokenizer, trainer = byte_level_bpe(rng, ["<|endoftext|>"])
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=flag(rng))
    return tokenizer


def roberta(rng):
    tokenizer, trainer = byte_level_bpe(rng, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")),
        trim_offsets=flag(rng), add_prefix_space=flag(rng))
    return tokenizer


def neox(rng):
    tokenizer, trainer = byte_level_bpe(rng, ["<|endoftext|>", "<|padding|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    return tokenizer


def split_bpe(rng, pattern, special, normalizer=None, **options):
    tokenizer, trainer = byte_level_bpe(rng, [], **options)
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.add_special_tokens(special_tokens(rng, special))
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MISTRAL = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
           r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")


def llama3(rng):
    tokenizer = split_bpe(rng, LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
        special_tokens=[("<|begin_of_text|>", bos)])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer


def qwen(rng):
    tokenizer = split_bpe(rng, QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def mistral(rng):
    return split_bpe(rng, MISTRAL, ["<s>", "</s>", "[INST]"], ignore_merges=flag(rng))


def sentencepiece_bpe(rng, special, normalizer, pre_tokenizer, decoder, fuse_unk=True, byte_fallback=True):
    """BPE with byte fallback, as converted from SentencePiece."""
    tokens = special + [f"<0x{i:02X}>" for i in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=fuse_unk, byte_fallback=byte_fallback))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=rng.choice([500, 900]), special_tokens=tokens, limit_alphabet=120,
                                  show_progress=False, max_token_length=12)
    tokenizer.train_from_iterator([part for text in corpus(rng) for part in text.split("\n")], trainer)
    # The trainer makes all special tokens added tokens, but byte tokens are ordinary ones.
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] in special]
    if not byte_fallback and flag(rng):
        content["model"]["unk_token"] = None
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.decoder = decoder
    return tokenizer


def llama_decoder(strips=True):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
                             + ([decoders.Strip(" ", 1, 0)] if strips else []))


def llama2(rng):
    if flag(rng):  # files of both forms are published
        normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        pre_tokenizer = None
    else:
        normalizer = None
        pre_tokenizer = pre_tokenizers.Metaspace("▁", prepend_scheme=rng.choice(["first", "always", "never"]),
                                                 split=flag(rng))
    tokenizer = sentencepiece_bpe(rng, ["<unk>", "<s>", "</s>"], normalizer, pre_tokenizer, llama_decoder(),
                                  fuse_unk=flag(rng), byte_fallback=rng.random() < 0.7)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def phi3(rng):
    tokenizer = llama2(rng)
    tokenizer.add_special_tokens([AddedToken(name, special=True, rstrip=True, normalized=False)
                                  for name in ("<|end|>", "<|user|>", "<|assistant|>")])
    return tokenizer


def gemma(rng):
    tokenizer = sentencepiece_bpe(rng, ["<pad>", "<eos>", "<bos>", "<unk>"], normalizers.Replace(" ", "▁"),
                                  pre_tokenizers.Split(" ", "merged_with_previous"), llama_decoder(strips=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))])
    return tokenizer


def charsmap(rules):
    """Returns rules of SentencePiece's normalization in its binary form: a double array, as of
    darts-clone, and the replacements."""
    replacements = bytearray()
    trie = {}
    for text, replacement in rules.items():
        node = trie
        for byte in text.encode():
            node = node.setdefault(byte, {})
        node[None] = len(replacements)
        replacements += replacement.encode() + b"\0"
    units, used = {0: 0}, {0}

    def place(node, position):
        labels = sorted(0 if label is None else label for label in node)
        # An offset is stored in 21 bits, or is a multiple of 256.
        offset = next(o for o in range(1, 1 << 20) if all((position ^ o ^ label) not in used for label in labels)
                      and (position ^ o) not in used)
        for label in labels:
            used.add(position ^ offset ^ label)
        used.add(position ^ offset)
        units[position] = units.get(position, 0) | offset << 10 | (256 if None in node else 0)
        for label, child in node.items():
            place_of = position ^ offset ^ (label or 0)
            if label is None:
                units[place_of] = 0x80000000 | child
            else:
                units[place_of] = label
                place(child, place_of)

    place(trie, 0)
    size = (max(units) | 255) + 1
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(size))
    return struct.pack("<I", len(array)) + array + bytes(replacements)


def nmt_rules(rng):
    rules = {"\u3000": " ", "\u00a0": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": " ", "\ufeff": " ", "\u00ad": "", "\x01": "",
             "e\u0301": "é", "a\u0308": "ä", "o\u0323": "ọ"}
    for c in list(range(0xA0, 0x180)) + list(range(0xFF01, 0xFF5F)) + list(range(0x2460, 0x2474)) + [0xFB01, 0x337F, 0x1D400, 0x1D401]:
        normalized = unicodedata.normalize("NFKC", chr(c))
        if normalized != chr(c):
            rules[chr(c)] = normalized
    for c in rng.sample("abcdeABC中日あ", 3):
        rules[c] = rng.choice(["", "x", "yz", "中"])
    return rules


def t5(rng):
    """Unigram with SentencePiece's normalization."""
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.Unigram())
    rules = normalizers.Precompiled(charsmap(nmt_rules(rng)))
    tokenizer.normalizer = rng.choice([
        rules, normalizers.Sequence([rules, normalizers.Replace(Regex(" {2,}"), rng.choice([" ", "▁"]))]),
        normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])])
    metaspace = pre_tokenizers.Metaspace("▁", prepend_scheme=rng.choice(["always", "first", "never"]), split=flag(rng))
    tokenizer.pre_tokenizer = rng.choice([
        metaspace, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])])
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme=rng.choice(["always", "first", "never"]))
    trainer = trainers.UnigramTrainer(vocab_size=rng.choice([1200, 2500]), special_tokens=special, unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(corpus(rng, 150), trainer)
    if flag(rng):
        content = json.loads(tokenizer.to_str())
        content["model"]["vocab"] += [[f"<0x{i:02X}>", -5.0] for i in range(256)]
        content["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(content))
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), tokenizer.decoder])
    eos = tokenizer.token_to_id("</s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", eos)])
    tokenizer.add_special_tokens([AddedToken(f"<extra_id_{i}>", special=True, normalized=False) for i in range(3)])
    return tokenizer


def odd(rng):
    """A tokenizer of random parts."""
    behavior = lambda: rng.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])
    normalizer = [
        lambda: normalizers.NFC(), lambda: normalizers.NFD(), lambda: normalizers.NFKC(), lambda: normalizers.NFKD(),
        lambda: normalizers.Lowercase(), lambda: normalizers.StripAccents(), lambda: normalizers.Nmt(),
        lambda: normalizers.Strip(flag(rng), flag(rng)), lambda: normalizers.Prepend("▁"),
        lambda: normalizers.BertNormalizer(flag(rng), flag(rng), flag(rng), flag(rng)),
        lambda: normalizers.Replace(Regex(r"\s+"), " "), lambda: normalizers.Replace("a", "bb"),
        lambda: normalizers.ByteLevel()]
    pre_tokenizer = [
        lambda: pre_tokenizers.Whitespace(), lambda: pre_tokenizers.WhitespaceSplit(),
        lambda: pre_tokenizers.BertPreTokenizer(), lambda: pre_tokenizers.Digits(flag(rng)),
        lambda: pre_tokenizers.Punctuation(behavior()), lambda: pre_tokenizers.CharDelimiterSplit(rng.choice("ae ▁")),
        lambda: pre_tokenizers.Split(rng.choice(["a", " ", "ab"]), behavior(), invert=flag(rng)),
        lambda: pre_tokenizers.Split(Regex(rng.choice([r"\d{1,3}", r"[[:punct:]]+", r"\w+", r"a|", r"(?m)^.", r"\p{Han}+"])),
                                     behavior(), invert=flag(rng)),
        lambda: pre_tokenizers.Metaspace("▁", prepend_scheme=rng.choice(["always", "first", "never"]), split=flag(rng)),
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=flag(rng), use_regex=flag(rng)),
        lambda: pre_tokenizers.FixedLength(rng.randint(1, 6))]
    kind = rng.choice(["bpe", "word_level", "word_piece"])
    tokenizer = Tokenizer({
        "bpe": lambda: models.BPE(fuse_unk=flag(rng), **{
            key: value for key, value in (("unk_token", "<unk>"), ("continuing_subword_prefix", "##"),
                                          ("end_of_word_suffix", "</w>")) if flag(rng)}),
        "word_level": lambda: models.WordLevel(unk_token="<unk>"),
        "word_piece": lambda: models.WordPiece(unk_token="<unk>")}[kind]())
    tokenizer.normalizer = normalizers.Sequence([rng.choice(normalizer)() for _ in range(rng.randint(0, 3))])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([rng.choice(pre_tokenizer)() for _ in range(rng.randint(1, 3))])
    options = {"special_tokens": ["<unk>", "<s>"], "vocab_size": 400, "show_progress": False}
    trainer = {"bpe": trainers.BpeTrainer, "word_level": trainers.WordLevelTrainer,
               "word_piece": trainers.WordPieceTrainer}[kind](**options)
    if kind == "bpe":
        if tokenizer.model.continuing_subword_prefix:
            trainer.continuing_subword_prefix = tokenizer.model.continuing_subword_prefix
        if tokenizer.model.end_of_word_suffix:
            trainer.end_of_word_suffix = tokenizer.model.end_of_word_suffix
    tokenizer.train_from_iterator(corpus(rng), trainer)
    tokenizer.decoder = rng.choice([
        lambda: None, lambda: decoders.BPEDecoder("</w>"), lambda: decoders.WordPiece("##", flag(rng)),
        lambda: decoders.ByteLevel(), lambda: decoders.CTC("<s>", "▁", flag(rng)),
        lambda: decoders.Metaspace("▁", prepend_scheme=rng.choice(["always", "never"])),
        lambda: decoders.Sequence([decoders.Replace(Regex("[ae]"), "o"), decoders.Fuse(), decoders.Strip("a", 1, 0)])])()
    return tokenizer


FAMILIES = [bert, distilbert, minilm, roberta, gpt2, neox, llama2, llama3, qwen, mistral, phi3, gemma, t5, odd]


def draw(family, seed):
    """Returns a tokenizer of a family, as the package reads it from its tokenizer.json."""
    rng = random.Random(seed)
    tokenizer = family(rng)
    add_tokens(rng, tokenizer, family is not odd)
    return tokenizer
