"""Loads a published model, tokenizes, or computes vectors of texts: published.py FOLDER. See contender.py."""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers
import torch
import transformers

from contender import FOLDER, ROW, serve

MODEL = FOLDER / "model"
transformers.logging.disable_progress_bar()
lines = (FOLDER / "lines.txt").read_text(encoding="utf-8").splitlines()

if ROW["kind"] == "load":
    def run():
        model = transformers.AutoModelForCausalLM.from_pretrained(MODEL).eval()
        tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        ids = torch.tensor([tokenizer.encode("w1 w2 w3").ids])
        with torch.inference_mode():
            tokens = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=1,
                                    pad_token_id=0)
        return tokens[:, ids.size(1):].tolist()

    serve({"tokens": run()}, run)
elif ROW["kind"] == "tokenize":
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))

    def run():
        return [tokenizer.encode(line).ids for line in lines]

    serve({"tokens": run()}, run)
else:
    # As sentence-transformers: texts sorted by their number of characters, in batches of 32, mean over the tokens.
    model = transformers.AutoModel.from_pretrained(MODEL).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(MODEL / "tokenizer.json"), pad_token="[UNK]")
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))

    def run():
        vectors = torch.empty(len(lines), model.config.hidden_size)
        for begin in range(0, len(order), 32):
            rows = order[begin:begin + 32]
            batch = tokenizer([lines[i] for i in rows], padding=True, truncation=True, max_length=128,
                              return_tensors="pt", return_token_type_ids=False)
            with torch.inference_mode():
                hidden = model(**batch).last_hidden_state  # (B, T, E)
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors[rows] = (hidden * mask).sum(1) / mask.sum(1)
        return vectors

    serve({"outputs": run().flatten().tolist()}, run)
