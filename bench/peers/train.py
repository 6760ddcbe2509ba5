"""Trains the language model in PyTorch: train.py FOLDER eager|compile. See contender.py."""

import sys

import torch

from contender import FOLDER, ROW, serve, tensors
from transformer import LanguageModel

DEVICE = ROW["device"]
weights = tensors("model")
vocab = weights["embedding.token.weight"].size(0)
model = LanguageModel(vocab, ROW["tokens"], ROW["layers"], ROW["width"], ROW["heads"])
model.load_state_dict(weights)
model.to(DEVICE)
matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                              lr=ROW["lr"], betas=(0.9, 0.99), fused=True)
forward = torch.compile(model) if sys.argv[2] == "compile" else model
data = torch.randint(vocab, (1_000_000,))


def sample():
    starts = torch.randint(len(data) - ROW["tokens"], (ROW["batch"],))
    rows = torch.stack([data[start:start + ROW["tokens"] + 1] for start in starts])
    if DEVICE == "cuda":
        rows = rows.pin_memory().to(DEVICE, non_blocking=True)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def step(tokens, targets):
    with torch.autocast(DEVICE, torch.bfloat16, enabled=ROW["precision"] == "bf16"):
        loss = forward(tokens, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


batches = tensors("batches")
losses = [step(batches[f"tokens.{i}"].to(DEVICE), batches[f"targets.{i}"].to(DEVICE)) for i in range(3)]
serve({"losses": losses}, lambda: step(*sample()))
