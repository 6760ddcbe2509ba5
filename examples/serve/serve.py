"""Continues numbers by what train_and_export wrote, in each of its formats."""

import argparse
import pathlib

import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("numbers", type=int, nargs="+")
arguments = parser.parse_args()
folder = arguments.folder
prompt = torch.tensor([arguments.numbers])  # (1, T)

with torch.inference_mode():
    # TorchScript keeps keys and values of earlier tokens: each number costs one step.
    model = torch.jit.load(folder / "model.pt")
    answer = model.generate(prompt, max_new_tokens=5, temperature=0.0)
    print("TorchScript:", *answer[0].tolist())

    # The graph of torch.export has forward alone; compiled, it is the fastest for whole texts.
    program = torch.export.load(folder / "model.pt2").module()
    print("torch.export:", program(prompt)[0, -1].argmax().item())

try:
    import onnxruntime
except ImportError:
    print("ONNX: onnxruntime is not installed")
else:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    (logits,) = session.run(["logits"], {"tokens": prompt.numpy()})  # (1, T, 10)
    print("ONNX:", logits[0, -1].argmax())
