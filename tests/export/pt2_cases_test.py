"""Loads the .pt2 archive of each export case with torch.export.load and compares it with the module's
outputs in C++ at other shapes.

CTest sets EXPORT_CASES to the output folder of export_cases. Exits with 77 (skipped) if Python has no
torch.
"""

import io
import unittest

from exported_cases import (assert_same_at_other_shapes, assert_small, assert_tied, cases, find)
import torch

# One case of each kind of module. pt2_cases_slow_test.py has its own list of cases for slow checks.
FEW = ("LanguageModel.no_layers", "SequenceClassifier.mean_padded", "MixtureOfExperts.top_1",
       "ConvolutionNet.plain", "LstmStep.plain", "TiedAutoencoder.plain", "FeedForward.bfloat16")


def bounds_of(program, case):
    """Returns {(input, dimension): (min, max)} of the dynamic dimensions."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found = {}
    for given in case.inputs:
        for dimension, size in enumerate(nodes[given["name"]].meta["val"].shape):
            if isinstance(size, torch.SymInt):
                bounds = program.range_constraints[size.node.expr]
                found[given["name"], dimension] = (bounds.lower, bounds.upper)
    return found


class EachCase(unittest.TestCase):
    def check(self, case):
        program = torch.export.load(case.path("pt2"))
        program.validate()
        assert_same_at_other_shapes(self, program.module(), case)
        if not case.is_random:  # these have long symbolic expressions
            assert_small(self, case, "pt2", len(program.graph.nodes))
        signature = program.graph_signature
        self.assertEqual(sorted(signature.parameters), sorted(case.parameters))
        self.assertEqual(sorted(signature.buffers), sorted(case.buffers))
        self.assertEqual(sorted(program.state_dict), sorted([*case.parameters, *case.buffers]))
        assert_tied(self, case, program.state_dict)
        self.assertEqual(list(signature.user_inputs), [given["name"] for given in case.inputs])
        self.assertEqual(bounds_of(program, case),
                         {(given["name"], int(dimension)): (min_size, max_size)
                          for given in case.inputs
                          for dimension, (_, min_size, max_size) in given["dynamic"].items()})
        if not case.draws_random_numbers:
            self.assertFalse([node for node in program.graph.nodes if "dropout" in str(node.target)])

    def test_unflatten(self):
        """The modules of the unflattened program have the names of the modules in C++."""
        for case in cases("pt2"):
            with self.subTest(case.name):
                program = torch.export.load(case.path("pt2"))
                model = torch.export.unflatten(program)
                assert_same_at_other_shapes(self, model, case)
                modules = dict(model.named_modules())
                for name in case.parameters:
                    self.assertIn(name.rpartition(".")[0], modules)

    def test_outputs_and_signature(self):
        for case in cases("pt2"):
            with self.subTest(case.name):
                self.check(case)


class ModuleStacks(unittest.TestCase):
    def stacks(self, name):
        (case,) = find("pt2", name)
        nodes = torch.export.load(case.path("pt2")).graph.nodes
        return [(str(node.target), [module for module, _ in node.meta["nn_module_stack"].values()])
                for node in nodes if node.op == "call_function"]

    def test_calls_belong_to_the_modules_of_their_weights(self):
        stacks = self.stacks("LanguageModel.plain")
        attention = ["", "decoder", "decoder.blocks.1", "decoder.blocks.1.attention"]
        self.assertIn(("aten.linear.default", [*attention, attention[-1] + ".qkv"]), stacks)
        self.assertIn(("aten.scaled_dot_product_attention.default", attention), stacks)
        self.assertIn(("aten.embedding.default", ["", "embedding", "embedding.token"]), stacks)

    def test_a_submodule_can_be_replaced(self):
        (case,) = find("pt2", "FeedForward.gelu")
        model = torch.export.unflatten(torch.export.load(case.path("pt2")))
        (inputs, expected), *_ = case.calls
        up = model.up
        model.up = type("Doubled", (torch.nn.Module,), {"forward": lambda self, x: up(x) * 2})()
        found = model(*inputs)
        self.assertEqual(found.shape, expected[0].shape)
        self.assertFalse(torch.allclose(found, expected[0]))


class Few(unittest.TestCase):
    """Checks with one case of each kind of module. They would be too slow with all cases."""

    def test_run_decompositions(self):
        for case in find("pt2", *FEW):
            with self.subTest(case.name):
                program = torch.export.load(case.path("pt2")).run_decompositions()
                assert_same_at_other_shapes(self, program.module(), case)

    def test_is_smaller_than_saved_by_python(self):
        for case in find("pt2", *FEW):
            with self.subTest(case.name):
                bytes_of_python = io.BytesIO()
                torch.export.save(torch.export.load(case.path("pt2")), bytes_of_python)
                self.assertLess(case.path("pt2").stat().st_size, len(bytes_of_python.getvalue()))

    def test_torch_compile(self):
        for case in find("pt2", "FeedForward.gelu"):
            model = torch.export.load(case.path("pt2")).module()
            assert_same_at_other_shapes(self, torch.compile(model, backend="aot_eager"), case)

    def test_rejects_sizes_out_of_range(self):
        (case,) = find("pt2", "LanguageModel.plain")
        model = torch.export.load(case.path("pt2")).module()
        with self.assertRaises((AssertionError, RuntimeError)):
            model(torch.zeros(2, 17, dtype=torch.int64))


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # deprecation warnings in torch
