"""Trains the language model in PyTorch: train.py FOLDER eager|compile|ddp. See contender.py.

If the row has adapters, PEFT trains them. With ddp, a launcher has started several processes, which train with DistributedDataParallel.
"""

import os
import sys

import torch
import torch.distributed

from contender import PROCESSES, ROW, serve, tensors
from transformer import LanguageModel

DEVICE = ROW["device"]
weights = tensors("model")
vocab = weights["embedding.token.weight"].size(0)
model = LanguageModel(vocab, ROW["tokens"], ROW["layers"], ROW["width"], ROW["heads"])
adapters = {name: weights.pop(name) for name in list(weights) if ".lora." in name}
model.load_state_dict(weights)
if adapters:
    import peft  # the other rows do not need it
    layers = ["qkv", "out", "up", "down"]
    peft.inject_adapter_in_model(peft.LoraConfig(r=ROW["lora"], lora_alpha=16, target_modules=layers), model)
    names = {name: name.replace(".lora.", ".lora_") + ".default.weight" for name in adapters}
    unexpected = model.load_state_dict({names[name]: adapters[name] for name in adapters}, strict=False).unexpected_keys
    assert not unexpected, unexpected
del weights, adapters  # the peak memory may be measured
model.to(DEVICE)
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
matrices = [parameter for parameter in trained if parameter.dim() > 1]
vectors = [parameter for parameter in trained if parameter.dim() == 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
                              lr=ROW["lr"], betas=(0.9, 0.99), fused=True)
forward = torch.compile(model) if sys.argv[2] == "compile" else model
RANK = int(os.environ.get("RANK", 0))
PART = ROW["batch"] // PROCESSES
if PROCESSES > 1:
    torch.distributed.init_process_group("gloo")
    forward = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
data = torch.randint(vocab, (1_000_000,))


def sample():
    starts = torch.randint(len(data) - ROW["tokens"], (PART,))
    rows = torch.stack([data[start:start + ROW["tokens"] + 1] for start in starts])
    if DEVICE == "cuda":
        rows = rows.pin_memory().to(DEVICE, non_blocking=True)
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def step(tokens, targets):
    if PROCESSES > 1:
        torch.distributed.barrier()  # the others wait until rank 0 is asked for the step
    with torch.autocast(DEVICE, torch.bfloat16, enabled=ROW["precision"] == "bf16"):
        loss = forward(tokens, targets)
    loss.backward()
    loss = loss.detach()
    if PROCESSES > 1:
        torch.distributed.all_reduce(loss)
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item() / PROCESSES


def part(tensor):
    """Returns the rows of this process."""
    return tensor[RANK * PART:(RANK + 1) * PART].to(DEVICE)


batches = tensors("batches")
losses = [step(part(batches[f"tokens.{i}"]), part(batches[f"targets.{i}"])) for i in range(3)]
while RANK > 0:
    step(*sample())
serve({"losses": losses}, lambda: step(*sample()))
