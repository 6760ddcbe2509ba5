"""The ONNX file of each export case in Python: checked by onnx, run by onnxruntime and compared with
what the module gave in C++, at shapes that it was not traced at.

Run by CTest with EXPORT_CASES set to the folder that export_cases wrote, by a Python that has torch,
onnx and onnxruntime; otherwise it exits with 77, which CTest reports as skipped.
"""

import sys
import unittest

from exported_cases import assert_equal_outputs, assert_small, cases
import torch

try:
    import onnx
    import onnxruntime
except ImportError:
    print("skipped: this Python has no onnx or no onnxruntime")
    sys.exit(77)


def dimensions(value):
    """What may vary: {dimension: its name}."""
    return {str(i): size.dim_param for i, size in enumerate(value.type.tensor_type.shape.dim)
            if size.dim_param}


class Onnx(unittest.TestCase):
    def for_each(self, check):
        for case in cases("onnx"):
            with self.subTest(case.name):
                check(case, onnx.load(case.path("onnx")))

    def test_gives_the_numbers_of_the_module(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3

        def check(case, model):
            if case.dtype == "BFloat16":
                return  # onnxruntime multiplies no matrices of it on a CPU
            # Its erf is in float32.
            tolerance = max(case.tolerance, 1e-6)
            session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                                   providers=["CPUExecutionProvider"])
            names = [given.name for given in session.get_inputs()]
            for inputs, expected in case.calls:
                values = {name: value.numpy() for name, value in zip(names, inputs)}
                found = [torch.from_numpy(output) if output.shape else torch.tensor(output)
                         for output in session.run(None, values)]
                assert_equal_outputs(self, found, expected, tolerance)

        self.for_each(check)

    def test_passes_the_checker(self):
        def check(case, model):
            onnx.checker.check_model(model, full_check=True)
            assert_small(self, case, "onnx", len(model.graph.node) + len(model.graph.initializer))
            self.assertNotIn("Dropout", {node.op_type for node in model.graph.node})

        self.for_each(check)

    def test_names_inputs_and_what_may_vary(self):
        def check(case, model):
            found = {given.name: dimensions(given) for given in model.graph.input}
            wanted = {given["name"]: {dimension: size[0]
                                      for dimension, size in given["dynamic"].items()}
                      for given in case.inputs}
            self.assertEqual(found, wanted)
            self.assertEqual([output.name for output in model.graph.output],
                             [f"output{i}" for i in range(len(model.graph.output))])

        self.for_each(check)

    def test_keeps_names_and_tied_weights(self):
        def check(case, model):
            state = set(case.parameters) | set(case.buffers)
            found = {weight.name for weight in model.graph.initializer}
            # One of each group of tied ones; besides, numbers that the module computed.
            again = {name for names in case.tied for name in names[1:]}
            used = set(case.parameters) - again - set(case.unused)
            self.assertEqual(found & set(case.parameters) - set(case.unused), used)
            others = [name for name in found - state if not name.startswith("lifted_tensor_")]
            self.assertEqual(others, [])

        self.for_each(check)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
