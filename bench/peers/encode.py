"""Runs the encoder: encode.py FOLDER eager|compile|onnxruntime|openvino. See contender.py."""

import sys

import torch

from contender import FOLDER, ROW, serve, tensors
from transformer import Stack

x = tensors("inputs")["x"]
if sys.argv[2] == "onnxruntime":
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = ROW["threads"]
    session = onnxruntime.InferenceSession(FOLDER / "model.onnx", options)
    inputs = {"x": x.numpy()}

    def run():
        return torch.from_numpy(session.run(None, inputs)[0])
elif sys.argv[2] == "openvino":
    import openvino

    program = openvino.Core().compile_model(FOLDER / "model.onnx", "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": ROW["threads"], "PERFORMANCE_HINT": "LATENCY"})
    request = program.create_infer_request()

    def run():
        return torch.from_numpy(request.infer([x.numpy()], share_inputs=True, share_outputs=True)[0])
else:
    encoder = Stack(ROW["layers"], ROW["width"], ROW["heads"], bias=True).eval()
    encoder.load_state_dict(tensors("model"))
    forward = torch.compile(encoder) if sys.argv[2] == "compile" else encoder

    def run():
        with torch.inference_mode():
            return forward(x)

serve({"outputs": run().flatten()[:1000].tolist()}, run)
