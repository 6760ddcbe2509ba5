"""Loads files of modules with nested inputs and outputs, and compares their outputs with those in C++.

CTest sets EXPORT_CASES to the output folder of export_cases. Exits with 77 (skipped) if Python has no torch.
"""

import importlib.util
import os
import pathlib
import subprocess
import tempfile
import unittest

from exported_cases import assert_equal_outputs
import torch

FOLDER = pathlib.Path(os.environ["EXPORT_CASES"], "nested")


def calls(name):
    """Returns [(tensors, outputs)] of a case."""
    return torch.load(FOLDER / f"{name}.values", weights_only=True)


def dictionaries(tensors):
    """Returns the arguments of the case `dictionaries`: batch, states and mask."""
    ids, scale, first, second, extra = tensors
    return {"ids": ids, "scale.0": scale}, (first, (second, extra)), None


class Nested(unittest.TestCase):
    def check_dictionaries(self, run):
        for tensors, expected in calls("dictionaries"):
            found = run(*dictionaries(tensors))
            self.assertEqual(list(found), ["logits", "states"])
            self.assertIsInstance(found["states"], list)
            assert_equal_outputs(self, (*found["logits"], *found["states"]), expected, 0)

    def check_tuple(self, run):
        for tensors, expected in calls("tuple"):
            sums, nothing, parts = run(tensors[:2], tensors[2])
            self.assertIsNone(nothing)
            self.assertEqual(list(parts), ["double", "half"])
            assert_equal_outputs(self, (sums, parts["double"], parts["half"]), expected, 0)

    def load(self, name):
        return torch.export.load(FOLDER / f"{name}.pt2")

    def test_pt2(self):
        self.check_tuple(self.load("tuple").module())
        program = self.load("dictionaries")
        self.check_dictionaries(program.module())
        names = ["batch_ids", "batch_scale_0", "states_0", "states_1_0", "states_1_1"]
        self.assertEqual([name for name in program.graph_signature.user_inputs if name], names)
        (batch, states, mask), keywords = program.example_inputs
        self.assertEqual((list(batch), type(states), mask, keywords), (["ids", "scale.0"], tuple, None, {}))
        reordered = {key: batch[key] for key in reversed(batch)}
        self.check_equal(program.module()(batch, states, mask), program.module()(reordered, states, mask))
        with self.assertRaises(Exception):
            program.module()([*batch.values()], states, mask)

    def check_equal(self, one, other):
        for a, b in zip(torch.utils._pytree.tree_leaves(one), torch.utils._pytree.tree_leaves(other), strict=True):
            self.assertTrue(torch.equal(a, b))

    def test_run_decompositions(self):
        self.check_dictionaries(self.load("dictionaries").run_decompositions().module())
        self.check_tuple(self.load("tuple").run_decompositions().module())

    def test_nodes_have_their_source_lines(self):
        traces = [node.meta.get("stack_trace", "") for node in self.load("dictionaries").graph.nodes
                  if node.op == "call_function"]
        self.assertEqual(len(traces), 6)
        for trace in traces:
            self.assertRegex(trace, r'^File ".*/nested_cases\.cpp", line \d+, in ')

    def test_several_programs(self):
        from torch.export.pt2_archive._package import load_pt2, package_pt2
        path = FOLDER / "several.pt2"
        programs = load_pt2(path).exported_programs
        self.assertEqual(sorted(programs), ["model", "twice"])
        x = torch.randint(-9, 10, (5, 4)).float()  # as in nested_cases.cpp
        expected = torch.export.load(path).module()(x)
        self.assertTrue(torch.equal(programs["model"].module()(x), expected))
        self.assertTrue(torch.equal(programs["twice"].module()(x), 2 * expected))
        # Archives that Python writes are read in C++.
        again = FOLDER / "several_again.pt2"
        package_pt2(str(again), exported_programs=programs)
        with tempfile.TemporaryDirectory() as folder:
            given, found = pathlib.Path(folder, "inputs"), pathlib.Path(folder, "outputs")
            torch.save((x,), given)
            for kind, factor in (("program", 1), ("program:model", 1), ("program:twice", 2)):
                subprocess.run([os.environ["RUN_ARCHIVE"], kind, again, given, found], check=True)
                (y,) = torch.load(found)
                self.assertTrue(torch.equal(y, factor * expected))
            failed = subprocess.run([os.environ["RUN_ARCHIVE"], "program:other", again, given, found],
                                    capture_output=True, text=True)
            self.assertEqual(failed.returncode, 2)
            self.assertIn("model, twice", failed.stderr)

    def test_optional(self):
        model = self.load("optional").module()
        for tensors, expected in calls("optional"):
            found = model({"ids": tensors[0], "mask": None}, list(tensors[1:]), None)
            self.assertEqual((list(found), found["none"]), (["logits", "none"], None))
            assert_equal_outputs(self, found["logits"], expected, 0)

    def test_saved_again_by_python(self):
        path = FOLDER / "again.pt2"
        torch.export.save(self.load("dictionaries"), path)
        self.check_dictionaries(torch.export.load(path).module())

    def test_torchscript(self):
        self.check_dictionaries(torch.jit.load(FOLDER / "dictionaries.pt"))
        self.check_tuple(torch.jit.load(FOLDER / "tuple.pt"))
        model = torch.jit.load(FOLDER / "optional.pt")
        schema = str(model.forward.schema)
        self.assertIn("Dict(str, Tensor?) batch, Tensor[] states, Tensor? mask", schema)
        for tensors, expected in calls("optional"):
            found = model({"ids": tensors[0], "mask": None}, list(tensors[1:]), None)
            self.assertEqual(found.keys(), {"logits", "none"})
            self.assertIsNone(found["none"])
            assert_equal_outputs(self, found["logits"], expected, 0)

    @unittest.skipUnless(importlib.util.find_spec("onnxruntime"), "this Python has no onnxruntime")
    def test_onnx(self):
        import onnxruntime
        for name, inputs, outputs in (
                ("dictionaries", ["batch_ids", "batch_scale_0", "states_0", "states_1_0", "states_1_1"],
                 ["logits.0", "states.0", "states.1"]),
                ("tuple", ["pair_0", "pair_1", "x"], ["sums", "output2.double", "output2.half"]),
                ("optional", ["batch_ids", "states_0", "states_1"], ["logits"])):
            session = onnxruntime.InferenceSession(FOLDER / f"{name}.onnx")
            self.assertEqual([value.name for value in session.get_inputs()], inputs)
            self.assertEqual([value.name for value in session.get_outputs()], outputs)
            for tensors, expected in calls(name):
                feed = {key: tensor.numpy() for key, tensor in zip(inputs, tensors, strict=True)}
                found = [torch.from_numpy(value) for value in session.run(None, feed)]
                assert_equal_outputs(self, found, expected, 0)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # deprecation warnings in torch
