"""Steps of an optimizer of torch.optim, without a model: optimize.py FOLDER. See contender.py."""

import torch

from contender import ROW, serve, tensors

weights = tensors("model")
gradients = tensors("gradients")
parameters = {name: torch.nn.Parameter(weight.clone()) for name, weight in weights.items()}
for name, parameter in parameters.items():
    parameter.grad = gradients[name]
if ROW["optimizer"] == "muon":
    optimizer = torch.optim.Muon(parameters.values(), lr=ROW["lr"], weight_decay=0.1, momentum=0.95,
                                 adjust_lr_fn="match_rms_adamw")
else:
    optimizer = torch.optim.AdamW(parameters.values(), lr=ROW["lr"], weight_decay=0.1, betas=(0.9, 0.99), fused=True)
for _ in range(3):
    optimizer.step()
first = min(parameters)
serve({"changes": (parameters[first] - weights[first]).flatten()[:1000].tolist()}, optimizer.step)
