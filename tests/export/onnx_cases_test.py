"""Checks the ONNX file of each export case with onnx, runs it with onnxruntime and compares it with the
module's outputs in C++ at other shapes.

CTest sets EXPORT_CASES to the output folder of export_cases. Exits with 77 (skipped) if Python has no
torch, onnx or onnxruntime.
"""

import functools
import sys
import unittest

from exported_cases import (assert_equal_outputs, assert_same_distribution, assert_small, cases, cases_at_opsets,
                            find, types_of_onnx_nodes)
import torch

try:
    import onnx
    import onnxruntime
except ImportError:
    print("skipped: this Python has no onnx or no onnxruntime")
    sys.exit(77)


def in_float32(model):
    """Returns the model with bfloat16 replaced by float32, since onnxruntime supports few bfloat16
    operators on the CPU."""
    narrow, wide = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    graph = model.graph
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == narrow:
            value.type.tensor_type.elem_type = wide
    attributes = [attribute for node in graph.node for attribute in node.attribute]
    for attribute in attributes:
        if attribute.name == "to" and attribute.i == narrow:
            attribute.i = wide
    constants = [attribute.t for attribute in attributes if attribute.HasField("t")]
    for tensor in [*graph.initializer, *constants]:
        if tensor.data_type == narrow:
            numbers = onnx.numpy_helper.to_array(tensor).astype("float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))
    return model


DEFAULT_OPSET = 18
OPSETS = range(17, 24)


def files():
    """Returns (case, path, opset) of each ONNX file."""
    return [(case, case.path("onnx"), DEFAULT_OPSET) for case in cases("onnx")] + [
        (case, case.path_at_opset(opset), int(opset)) for case, opset in cases_at_opsets()]


def opset_of(model):
    return next(entry.version for entry in model.opset_import if not entry.domain)


def as_numpy(tensor):
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def dimensions(value):
    """Returns {dimension: name} of the dynamic dimensions."""
    return {str(i): size.dim_param for i, size in enumerate(value.type.tensor_type.shape.dim)
            if size.dim_param}


# Operators of opset 18 that older opsets lack.
UNSUPPORTED = {17: {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Col2Im"}}

# All types of tensors in exported files.
TYPES = ["float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
         "bool"]


class Onnx(unittest.TestCase):
    def for_each(self, check):
        for case in cases("onnx"):
            with self.subTest(case.name):
                check(case, onnx.load(case.path("onnx")))

    def for_each_file(self, check):
        for case, path, opset in files():
            with self.subTest(case.name, opset=opset):
                model = onnx.load(path)
                self.assertEqual(opset_of(model), opset)
                check(case, model)

    def test_outputs(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3

        not_compared = []

        def check(case, model):
            is_narrow = case.dtype == "BFloat16"
            if is_narrow:
                not_compared.append(case.name)
                model = in_float32(model)
            # onnxruntime computes erf in float32.
            tolerance = max(case.tolerance, 1e-6)
            # With more than the basic optimizations, onnxruntime 1.31 makes some of the random
            # graphs invalid.
            levels = onnxruntime.GraphOptimizationLevel
            options.graph_optimization_level = (
                levels.ORT_ENABLE_BASIC if case.group == "RandomSequence" else levels.ORT_ENABLE_ALL)
            make_session = functools.partial(onnxruntime.InferenceSession, model.SerializeToString(), options,
                                             providers=["CPUExecutionProvider"])
            if case.draws_random_numbers and opset_of(model) >= 22:
                with self.assertRaisesRegex(Exception, r"implementation for Random\w+Like\(22\)"):
                    make_session()
                return
            session = make_session()
            names = [given.name for given in session.get_inputs()]
            for inputs, expected in case.calls:
                values = {name: as_numpy(value) for name, value in zip(names, inputs)}
                found = [torch.from_numpy(output) if output.shape else torch.tensor(output)
                         for output in session.run(None, values)]
                if case.draws_random_numbers:
                    assert_same_distribution(self, found, expected)
                    again = session.run(None, values)
                    self.assertTrue(any((one.numpy() != other).any() for one, other in zip(found, again)))
                elif is_narrow:
                    self.assertEqual([one.shape for one in found], [one.shape for one in expected])
                else:
                    assert_equal_outputs(self, found, expected, tolerance, case.terms)

        self.for_each_file(check)
        print("bfloat16 cases, run in float32 because onnxruntime lacks bfloat16 operators on the "
              "CPU (only the shapes of the outputs are compared): "
              f"{', '.join(sorted(set(not_compared)))}")

    def test_onnx_checker(self):
        def check(case, model):
            onnx.checker.check_model(model, full_check=True)
            self.assertNotIn("Dropout", {node.op_type for node in model.graph.node})

        self.for_each_file(check)

    def test_files_are_small(self):
        def check(case, model):
            assert_small(self, case, "onnx", len(model.graph.node) + len(model.graph.initializer))

        self.for_each(check)

    def test_external_data(self):
        case = find("onnx", "LanguageModel.plain")[0]
        whole, path = case.path("onnx"), case.path("onnx").with_suffix(".external.onnx")
        self.assertLess(path.stat().st_size, whole.stat().st_size)
        self.assertTrue(path.with_name(path.name + ".data").exists())
        weights = [{weight.name: onnx.numpy_helper.to_array(weight).tolist()
                    for weight in onnx.load(file).graph.initializer} for file in (path, whole)]
        self.assertEqual(weights[0], weights[1])
        onnx.checker.check_model(path, full_check=True)
        sessions = [onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
                    for file in (path, whole)]
        tokens = as_numpy(case.calls[0][0][0])
        outputs = [session.run(None, {"tokens": tokens})[0] for session in sessions]
        self.assertEqual(outputs[0].tolist(), outputs[1].tolist())

    def test_operators_of_each_opset(self):
        """The cases that are exported at each opset contain each operator whose definition changed."""
        found = {opset: set() for opset in OPSETS}
        for _, path, opset in files():
            found[opset] |= {node.op_type for node in onnx.load(path).graph.node if not node.domain}
        for opset in OPSETS:
            changed = {op_type for op_type in found[DEFAULT_OPSET]
                       if onnx.defs.get_schema(op_type, DEFAULT_OPSET).since_version !=
                       (onnx.defs.get_schema(op_type, opset).since_version
                        if onnx.defs.has(op_type, max_inclusive_version=opset) else None)}
            self.assertEqual(changed - found[opset] - UNSUPPORTED.get(opset, set()), set(), opset)
        self.assertIn("Gelu", found[20])
        self.assertLessEqual({"Attention", "RMSNormalization"}, found[23])
        for opset in (20, 23):  # where operators replace their decompositions
            self.assertNotIn("Erf", found[opset])

    def test_types_of_nodes(self):
        """The exporter has a table of the types that ONNX operators support. All types in the table
        are supported in each opset in which a file contains the operator, and the table has an
        entry for each operator that does not support all types."""
        nodes = {(node.op_type, opset) for _, path, opset in files()
                 for node in onnx.load(path).graph.node if not node.domain}
        table = types_of_onnx_nodes()
        self.assertEqual(set(table) - {op_type for op_type, _ in nodes}, set(), "no case uses these operators")
        for op_type, opset in sorted(nodes):
            schema = onnx.defs.get_schema(op_type, opset)
            if not schema.inputs:
                continue
            # The first input of Where is the condition, which is always a bool.
            of = schema.inputs[1 if op_type == "Where" else 0].type_str
            allowed = {text for constraint in schema.type_constraints
                       if constraint.type_param_str == of for text in constraint.allowed_type_strs}
            supported = {f"tensor({name})" for name in table.get(op_type, TYPES)}
            self.assertEqual(supported - allowed, set(), (op_type, opset))

    def test_names_of_inputs_outputs_and_dynamic_dimensions(self):
        def check(case, model):
            found = {given.name: dimensions(given) for given in model.graph.input}
            wanted = {given["name"]: {dimension: size[0]
                                      for dimension, size in given["dynamic"].items()}
                      for given in case.inputs}
            self.assertEqual(found, wanted)
            self.assertEqual([output.name for output in model.graph.output],
                             [f"output{i}" for i in range(len(model.graph.output))])

        self.for_each(check)

    def test_names_and_tied_weights(self):
        def check(case, model):
            state = set(case.parameters) | set(case.buffers)
            found = {weight.name for weight in model.graph.initializer}
            # The file contains one parameter of each group of tied parameters. Initializers that
            # are neither parameters nor buffers are lifted constants.
            duplicates = {name for names in case.tied for name in names[1:]}
            used = set(case.parameters) - duplicates - set(case.unused)
            self.assertEqual(found & set(case.parameters) - set(case.unused), used)
            others = [name for name in found - state if not name.startswith("lifted_tensor_")]
            self.assertEqual(others, [])

        self.for_each(check)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
