"""Creates random cases for tests/parity/optimizer_parity_test.cpp: results of PyTorch's optimizers.

    python tests/parity/make_optimizer_cases.py --out FILE [--cases N] [--seed N]

Without --seed, each run creates different cases. The seed is printed. See make_cases.py for the file
format. The options of case 17 are JSON under the metadata key "17"; its tensors are

    17/input.lr                learning rate of each step (S), float64
    17/begin.NAME              a parameter before the first step
    17/gradient.NAME           its gradient in each step (S, ...), float32
    17/has_gradient.NAME       bool (S): false = no gradient in this step
    17/end.NAME                the parameter after the last step
    17/state.NAME/KEY          optimizer state of the parameter, with attend's names

Weight decay applies to matrices only. With kind "muon", Muon updates the matrices and AdamW updates the
vector.
"""

import argparse
import json
import random

import torch

from make_cases import write_safetensors

STEPS = 50
MISSING = 0.1  # probability that a parameter has no gradient in a step


def draw_parameters(dtype):
    """Draws a tall, a wide and a square matrix, and a vector."""
    short, long = random.randint(1, 4), random.randint(5, 9)
    shapes = {"tall": (long, short), "wide": (short, long), "square": (long, long), "vector": (long,)}
    return {name: torch.nn.Parameter(torch.randn(shape).to(dtype)) for name, shape in shapes.items()}


def draw_learning_rates():
    """Draws a schedule with warmup and decay, and a learning rate of 0 in one step."""
    highest = 10 ** random.uniform(-4, -1)
    rates = [highest * min((step + 1) / 10, (STEPS - step) / 40) for step in range(STEPS)]
    rates[random.randrange(STEPS)] = 0.0
    return rates


def make_optimizers(options, parameters):
    matrices = [parameter for parameter in parameters.values() if parameter.dim() == 2]
    vectors = [parameter for parameter in parameters.values() if parameter.dim() < 2]
    decay = {"params": matrices, "weight_decay": options["weight_decay"]}
    no_decay = {"params": vectors, "weight_decay": 0.0}
    betas = (options["beta1"], options["beta2"])
    if options["kind"] == "adamw":
        return [torch.optim.AdamW([decay, no_decay], betas=betas)]
    return [torch.optim.Muon([decay], momentum=options["momentum"], adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([no_decay], betas=betas)]


def state_of(optimizers, parameter):
    return {key: value for optimizer in optimizers
            for key, value in optimizer.state.get(parameter, {}).items()}


def draw_case(kind):
    options = {
        "kind": kind,
        "dtype": random.choice(["float32", "float64"]),
        "weight_decay": random.choice([0.0, random.uniform(0.01, 1.0)]),
        "beta1": random.uniform(0.5, 0.95),
        "beta2": random.uniform(0.9, 0.999),
        "momentum": random.choice([0.95, random.uniform(0.0, 0.99)]),
    }
    parameters = draw_parameters(getattr(torch, options["dtype"]))
    rates = draw_learning_rates()
    tensors = {"input.lr": torch.tensor(rates, dtype=torch.float64)}
    for name, parameter in parameters.items():
        # Some gradients are so small that AdamW's epsilon matters, and some are very large.
        size = 10.0 ** random.uniform(-8, 2)
        tensors[f"begin.{name}"] = parameter.detach().clone()
        tensors[f"gradient.{name}"] = size * torch.randn(STEPS, *parameter.shape)
        tensors[f"has_gradient.{name}"] = torch.rand(STEPS) >= MISSING

    optimizers = make_optimizers(options, parameters)
    for step, rate in enumerate(rates):
        for name, parameter in parameters.items():
            has_gradient = tensors[f"has_gradient.{name}"][step]
            gradient = tensors[f"gradient.{name}"][step].clone().to(parameter.dtype)
            parameter.grad = gradient if has_gradient else None
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
    for name, parameter in parameters.items():
        tensors[f"end.{name}"] = parameter.detach()
        for key, value in state_of(optimizers, parameter).items():
            tensors[f"state.{name}/{key}"] = value
    return options, tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, metavar="FILE")
    parser.add_argument("--cases", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), metavar="N")
    args = parser.parse_args()
    print(f"{args.cases} optimizer cases of PyTorch {torch.__version__}; repeat with --seed {args.seed}",
          flush=True)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    random.seed(args.seed)

    tensors, metadata = {}, {"pytorch": torch.__version__, "seed": str(args.seed)}
    for index in range(args.cases):
        options, case_tensors = draw_case(("adamw", "muon")[index % 2])
        metadata[str(index)] = json.dumps(options)
        tensors |= {f"{index}/{name}": tensor for name, tensor in case_tensors.items()}
    write_safetensors(args.out, tensors, metadata)


if __name__ == "__main__":
    main()
