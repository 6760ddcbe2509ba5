"""Generates text greedily with the ONNX file of a language model that has a KV cache and a character tokenizer.

    attend train --text book.txt --out runs/text
    attend export runs/text -o model.onnx --with-cache
    python generate.py model.onnx "Once upon" 40
"""

import json
import sys

import numpy as np
import onnxruntime

path, prompt, count = sys.argv[1:]
session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
characters = json.loads(session.get_modelmeta().custom_metadata_map["tokenizer.json"])["tokens"]
tokens = np.array([[characters.index(character) for character in prompt]])  # (1, T)
mask = np.ones_like(tokens)
positions = np.arange(len(prompt))[None]
past = {each.name: np.zeros((1, each.shape[1], 0, each.shape[3]), np.float16 if "16" in each.type else np.float32)
        for each in session.get_inputs()[3:]}
for _ in range(int(count)):
    logits, *present = session.run(None, {"input_ids": tokens, "attention_mask": mask, "position_ids": positions, **past})
    past = dict(zip(past, present))
    tokens = logits[:, -1:].argmax(-1)
    positions = positions[:, -1:] + 1
    mask = np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
    print(characters[tokens.item()], end="")
