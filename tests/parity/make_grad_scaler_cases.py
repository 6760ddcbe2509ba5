"""Creates random cases for tests/parity/grad_scaler_parity_test.cpp: results of torch.amp.GradScaler.

    python tests/parity/make_grad_scaler_cases.py --out FILE [--cases N] [--seed N]

Without --seed, each run creates different cases. The seed is printed. See make_cases.py for the file
format. The tensors of case 17 are

    17/input.loss              losses (S), float32
    17/input.finite            bool (S): the gradients of the step are finite
    17/input.gradient          scaled gradients (S, 3), float32
    17/scaled                  losses times the scale (S)
    17/unscaled                gradients divided by the scale (S, 3)
    17/stepped                 bool (S): the optimizer changed the parameters
    17/scale                   scale after each step (S), float32
"""

import argparse
import json
import random

import torch

from make_cases import write_safetensors

STEPS = 5000  # more than two intervals of growth


def draw_case():
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler(device="cpu")
    rate = random.choice([0, 1 / 3000, 1 / 1000, 1 / 300])
    losses = torch.randn(STEPS)
    finite = torch.rand(STEPS) >= rate
    gradients = 65536 * torch.randn(STEPS, 3)
    for step in (~finite).nonzero().flatten().tolist():
        gradients[step, random.randrange(3)] = random.choice([float("inf"), float("-inf"), float("nan")])
    scaled, unscaled, stepped, scales = [], [], [], []
    for step in range(STEPS):
        scaled.append(scaler.scale(losses[step]).item())
        parameter.grad = gradients[step].clone()
        with torch.no_grad():
            parameter.zero_()
        scaler.unscale_(optimizer)
        unscaled.append(parameter.grad.clone())
        scaler.step(optimizer)
        scaler.update()
        stepped.append(parameter.count_nonzero().item() > 0)
        scales.append(scaler.get_scale())
    return {"input.loss": losses, "input.finite": finite, "input.gradient": gradients,
            "scaled": torch.tensor(scaled), "unscaled": torch.stack(unscaled),
            "stepped": torch.tensor(stepped), "scale": torch.tensor(scales)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--cases", type=int, default=4, metavar="N")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), metavar="N")
    args = parser.parse_args()
    print(f"{args.cases} cases of torch.amp.GradScaler of PyTorch {torch.__version__}; repeat with --seed {args.seed}",
          flush=True)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    tensors, metadata = {}, {"pytorch": torch.__version__, "seed": str(args.seed)}
    for index in range(args.cases):
        metadata[str(index)] = json.dumps({})
        tensors |= {f"{index}/{name}": tensor for name, tensor in draw_case().items()}
    write_safetensors(args.out, tensors, metadata)


if __name__ == "__main__":
    main()
