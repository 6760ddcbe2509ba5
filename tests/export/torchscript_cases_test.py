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
