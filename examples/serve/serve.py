"""Goes on with numbers by what train_and_export wrote, in each of its formats.

    python3 serve.py FOLDER NUMBER...
"""

import pathlib
import sys

import torch

folder, numbers = pathlib.Path(sys.argv[1]), [int(number) for number in sys.argv[2:]]
prompt = torch.tensor([numbers])  # (1, T)

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
