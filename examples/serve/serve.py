"""Continues a sequence of numbers with the TorchScript, .pt2 and ONNX files of train_and_export."""

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
    # The TorchScript file contains generate(), which uses a KV cache.
    model = torch.jit.load(folder / "model.pt")
    answer = model.generate(prompt, max_new_tokens=5, temperature=0.0)
    print("TorchScript:", *answer[0].tolist())

    # The .pt2 and ONNX files contain only forward(), which returns the logits.
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
