"""Predicts the classes of texts with the TorchScript file of a classifier with a character tokenizer.

    attend train balanced-brackets --out runs/brackets
    attend export runs/brackets -o model.pt
    python predict.py model.pt "([])" "([)]"
"""

import argparse
import json

import torch

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("texts", nargs="+")
arguments = parser.parse_args()

extra = {"classes.json": "", "tokenizer.json": ""}
model = torch.jit.load(arguments.model, _extra_files=extra)
classes = json.loads(extra["classes.json"])
characters = json.loads(extra["tokenizer.json"])["tokens"]

with torch.inference_mode():
    for text in arguments.texts:
        tokens = torch.tensor([[characters.index(character) for character in text]])  # (1, T)
        number = model.predict(tokens).item()
        probability = model(tokens).softmax(-1)[0, number].item()
        print(f"{classes[number]}\t{probability:.4f}")
