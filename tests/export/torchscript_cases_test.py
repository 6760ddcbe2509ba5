"""Loads the TorchScript file of each export case with torch.jit.load and compares it with the module's
outputs in C++ at other shapes.

CTest sets EXPORT_CASES to the output folder of export_cases. Exits with 77 (skipped) if Python has no
torch.
"""

import unittest

from exported_cases import (as_tuple, assert_equal_outputs, assert_same_at_other_shapes, assert_small,
                            assert_tied, cases, find)
import torch


def parameters_of(model):
    return dict(model.named_parameters(remove_duplicate=False))


class TorchScript(unittest.TestCase):
    def for_each(self, check):
        for case in cases("torchscript"):
            with self.subTest(case.name):
                check(case, torch.jit.load(case.path("torchscript")))

    def test_outputs(self):
        def check(case, model):
            assert_same_at_other_shapes(self, model, case)
            assert_small(self, case, "torchscript", len(list(model.inlined_graph.nodes())))

        self.for_each(check)

    def test_names_dtypes_and_tied_weights(self):
        dtypes = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16,
                  "BFloat16": torch.bfloat16}

        def check(case, model):
            parameters = parameters_of(model)
            self.assertEqual(sorted(parameters), sorted(case.parameters))
            buffers = dict(model.named_buffers(remove_duplicate=False))
            self.assertEqual(sorted(buffers), sorted(case.buffers))
            for value in parameters.values():
                self.assertEqual((value.dtype, value.requires_grad), (dtypes[case.dtype], True))
            assert_tied(self, case, parameters)

        self.for_each(check)

    def test_stays_in_eval_mode(self):
        def check(case, model):
            self.assertFalse(any(module.training for module in model.modules()))
            if not case.draws_random_numbers:
                self.assertNotIn("dropout(", str(model.inlined_graph))
            assert_same_at_other_shapes(self, model.train(), case)

        self.for_each(check)

    def test_input_names(self):
        def check(case, model):
            names = [argument.name for argument in model.forward.schema.arguments]
            self.assertEqual(names, ["self", *(given["name"] for given in case.inputs)])

        self.for_each(check)

    def test_fine_tuning(self):
        def check(case, model):
            if not case.step:
                return
            loss_in_cpp, expected = case.step_in_cpp
            optimizer = torch.optim.SGD(model.parameters(), lr=case.learning_rate)
            inputs, _ = case.calls[-1]
            torch.manual_seed(0)  # as export_cases
            loss = sum(output.float().square().mean() for output in as_tuple(model(*inputs)))
            loss.backward()
            optimizer.step()
            assert_equal_outputs(self, loss, [loss_in_cpp], 1e-5)
            parameters = parameters_of(model)
            for name, value in zip(case.parameters, expected):
                torch.testing.assert_close(parameters[name].detach(), value, rtol=1e-5, atol=1e-5)

        self.for_each(check)

    def test_cast_to_other_dtypes(self):
        """A file of any dtype can be cast. The reference is the same file with the rounded weights, in
        float64. The bound follows how much changes of inputs and weights by the epsilon of the dtype change it."""
        def cast(inputs, dtype):
            return [value.to(dtype) if value.is_floating_point() else value for value in inputs]

        def change(values, epsilon):
            return [value * (1 + epsilon * (2 * torch.rand_like(value) - 1)) if value.is_floating_point() else value
                    for value in values]

        def load_wide(path, dtype):
            model = torch.jit.load(path).to(dtype).double()
            graph = model.graph
            for norm in graph.findAllNodes("aten::rms_norm"):  # the default of eps depends on the dtype
                eps = list(norm.inputs())[3]
                if eps.node().mustBeNone():
                    graph.setInsertPoint(norm)
                    norm.replaceInput(3, graph.insertConstant(torch.finfo(torch.float32).eps))
            return model

        checked = 0
        for case in cases("torchscript"):
            is_foreign = case.group.startswith("User") or case.group in ("NegativeViews", "RandomModule")
            if case.draws_random_numbers or is_foreign:
                continue  # other modules than those of this library may contain constants with a dtype
            if case.group == "SinusoidalPositions":
                continue  # the output is float32: neither weights nor inputs have a floating point dtype
            # Rounding can change the experts of a token, and the branch of a random sequence of operators.
            is_continuous = "expert" not in case.name.lower() and case.group != "RandomSequence"
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                epsilon = torch.finfo(dtype).eps
                with self.subTest(case.name, dtype=dtype), torch.no_grad():
                    model = torch.jit.load(case.path("torchscript")).to(dtype)
                    exact, changed = (load_wide(case.path("torchscript"), dtype) for _ in range(2))
                    for inputs, _ in case.calls:
                        narrow = cast(inputs, dtype)
                        wide = cast(narrow, torch.float64)
                        expected = as_tuple(exact(*wide))
                        others = []
                        for _ in range(3):  # one change may cancel out in a few outputs
                            for weight, exact_weight in zip(changed.parameters(), exact.parameters(), strict=True):
                                weight.copy_(change([exact_weight], epsilon)[0])
                            others.append(as_tuple(changed(*change(wide, epsilon))))
                        for value in expected:
                            self.assertIn(value.dtype, (torch.float64, torch.int64, torch.bool))
                        for y, e, *o in zip(as_tuple(model(*narrow)), expected, *others, strict=True):
                            self.assertEqual(y.dtype, dtype if e.is_floating_point() else e.dtype)
                            if not is_continuous or not e.is_floating_point() or e.numel() == 0:
                                continue
                            e, y, o = (value.nan_to_num(0.0, 0.0, 0.0) for value in (e, y.double(), torch.stack(o)))
                            # Each of some hundred operators rounds about as much as the change of inputs and weights.
                            bound = 20 * (o - e).abs().max() + 4 * epsilon * e.abs().max() + torch.finfo(dtype).tiny
                            self.assertLessEqual((y - e).abs().max().item(), bound.item())
                    checked += 1
        self.assertGreater(checked, 100)

    def test_freeze_and_optimize_for_inference(self):
        for case in find("torchscript", "LanguageModel.plain", "LanguageModel.all_together",
                         "LanguageModel.experts", "SequenceClassifier.mean_padded", "Seq2Seq.plain",
                         "ConvolutionNet.plain", "LstmStep.plain", "TiedAutoencoder.plain"):
            with self.subTest(case.name):
                frozen = torch.jit.freeze(torch.jit.load(case.path("torchscript")))
                self.assertEqual(list(frozen.parameters()), [])
                assert_same_at_other_shapes(self, frozen, case)
                assert_same_at_other_shapes(self, torch.jit.optimize_for_inference(frozen), case)


if __name__ == "__main__":
    unittest.main(warnings="ignore")  # deprecation warnings in torch
