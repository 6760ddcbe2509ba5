"""Writes the model of a row with published models to FOLDER/model, and its texts: published_folder.py FOLDER.

The weights are random. The tokenizers are trained on the documents of this project, which are also the texts.
"""

import pathlib
import random

import tokenizers
import torch
import transformers

from contender import FOLDER, ROW

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = FOLDER / "model"


def documents():
    """The lines of the documents that are not empty."""
    paths = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
    return [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def train_tokenizer(kind, lines):
    """A tokenizer with the parts of GPT-2 (BPE), BERT (WordPiece) or T5 (Unigram)."""
    models, normalizers, pre, decoders, trainers = (
        tokenizers.models, tokenizers.normalizers, tokenizers.pre_tokenizers, tokenizers.decoders, tokenizers.trainers)
    size = 8000
    if kind == "BPE":
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False)
    elif kind == "WordPiece":
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    else:
        tokenizer = tokenizers.Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=["<unk>"], unk_token="<unk>",
                                          show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def llama():
    """0.92 GB in float32."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=14, num_attention_heads=16,
        num_key_value_heads=8, max_position_embeddings=2048, bos_token_id=None, eos_token_id=None))


def minilm():
    """The shape of all-MiniLM-L6-v2."""
    return transformers.BertModel(transformers.BertConfig(
        vocab_size=30522, hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12))


MODEL.mkdir()
torch.manual_seed(0)
lines = documents()
if ROW["kind"] == "load":
    llama().save_pretrained(MODEL)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(32000)}, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
else:
    tokenizer = train_tokenizer(ROW["tokenizer"], lines)
if ROW["kind"] == "embed":
    minilm().save_pretrained(MODEL)
    tokenizer.enable_truncation(128)
    lines = random.Random(0).sample(lines, ROW["lines"])
if ROW["kind"] == "tokenize_to_file":
    text = random.Random(0).choices(lines, k=8_000_000 * len(lines) // sum(map(len, lines)))  # about 8 MB
    (FOLDER / "text.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
tokenizer.save(str(MODEL / "tokenizer.json"))
(FOLDER / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
