"""Reads the output of export_cases for the tests that load the exported files.

CTest sets EXPORT_CASES to the output folder of export_cases. If a test is split into N parts, CTest
sets CASES_PART to "I/N" for part I.
"""

import functools
import json
import math
import os
import pathlib
import sys

try:
    import torch
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)

FOLDER = pathlib.Path(os.environ["EXPORT_CASES"])
# Allowed bytes in addition to the tensors: per file, and per graph node (calls, weights, constants).
# .pt2 archives describe nodes in JSON, with an expression of each size and stride.
OVERHEAD = {"torchscript": (5_000, 150), "pt2": (6_000, 1_350), "onnx": (1_000, 200)}


class Case:
    def __init__(self, described, learning_rate):
        self.__dict__.update(described)
        self.learning_rate = learning_rate
        self.is_random = self.group.startswith("Random")  # of random operators and layers
        # Cases of operators have a wider limit: some of them subtract nearly equal numbers, and other
        # implementations round differently.
        if self.group == "Operator" or self.is_random:
            self.terms = math.inf

    def path(self, format):
        extension = {"torchscript": ".pt", "pt2": ".pt2", "onnx": ".onnx"}[format]
        return FOLDER / (self.name + extension)

    def path_at_opset(self, opset):
        return FOLDER / f"{self.name}.opset{opset}.onnx"

    @functools.cached_property
    def calls(self):
        """Pairs (inputs, outputs) at five shapes."""
        return torch.load(FOLDER / f"{self.name}.values", weights_only=True)

    @functools.cached_property
    def step_in_cpp(self):
        """Loss of the last call, and parameters after one SGD step."""
        return torch.load(FOLDER / f"{self.name}.step", weights_only=True)


def cases(format):
    """Returns the cases of this part (see CASES_PART) that were exported in `format`."""
    described = json.loads((FOLDER / "cases.json").read_text())
    part, parts = map(int, os.environ.get("CASES_PART", "0/1").split("/"))
    found = [Case(any_case, described["learning_rate"]) for any_case in described["cases"]]
    found = [case for case in found[part::parts] if case.formats.get(format) == "yes"]
    assert found, f"no case was exported as {format}"
    return found


def cases_at_opsets():
    """Returns (case, opset) of the ONNX files at other opsets than the default one."""
    described = json.loads((FOLDER / "cases.json").read_text())
    return [(Case(any_case, described["learning_rate"]), opset) for any_case in described["cases"]
            for opset, result in any_case["opsets"].items() if result == "yes"]


def find(format, *names):
    """Returns the cases with these names, also those of other parts (see CASES_PART)."""
    described = json.loads((FOLDER / "cases.json").read_text())
    found = {any_case["name"]: any_case for any_case in described["cases"]}
    for name in names:
        assert found[name]["formats"].get(format) == "yes", f"{name} was not exported as {format}"
    return [Case(found[name], described["learning_rate"]) for name in names]


def types_of_onnx_nodes():
    """Returns {op_type: supported types} of the operators that do not support all types."""
    return json.loads((FOLDER / "cases.json").read_text())["types_of_onnx_nodes"]


def as_tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def assert_equal_outputs(test, found, expected, tolerance, terms=0.0):
    """Checks shapes, dtypes and |difference| <= tolerance * min(1 + |expected|, largest), where largest is the
    largest finite |element| of the output, or `terms`, the magnitude of the terms that an element adds up, if
    that is larger. Integers, Booleans, infinities and NaN must be equal. The verification of the exporters
    uses the same rule, with 0 for `terms`."""
    found = as_tuple(found)
    test.assertEqual(len(found), len(expected))
    for one, other in zip(found, expected):
        test.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
        one = one.detach()
        if not (other.is_floating_point() or other.is_complex()):
            test.assertTrue(torch.equal(one, other), f"found {one}, expected {other}")
            continue
        y, e = ((torch.view_as_real(t) if t.is_complex() else t).double() for t in (one, other))
        finite = e[e.isfinite()].abs()
        largest = finite.max().item() if finite.numel() else 0.0
        same = (y == e) | (y.isnan() & e.isnan())
        allowed = tolerance * (1 + e.abs()).clamp_max(max(largest, terms))
        wrong = ~(same | ((y - e).abs() <= allowed))
        test.assertFalse(wrong.any().item(), f"found {y[wrong][:5]}, expected {e[wrong][:5]}, largest {largest}")


def assert_same_at_other_shapes(test, run, case):
    with torch.no_grad():
        for seed, (inputs, expected) in enumerate(case.calls):
            torch.manual_seed(seed)  # the seed that export_cases sets
            assert_equal_outputs(test, run(*inputs), expected, case.tolerance, case.terms)


def assert_same_distribution(test, found, expected):
    """Checks shapes and dtypes, and compares mean, standard deviation and distribution function of the
    elements of each output. Equal distributions fail with a probability of less than 1e-6."""
    test.assertEqual(len(found), len(expected))
    for one, other in zip(found, expected):
        test.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
        one, other = one.double().flatten(), other.double().flatten()
        error = (2 / one.numel()) ** 0.5
        scale = other.std().item()
        test.assertLessEqual(abs(one.mean() - other.mean()).item(), 6 * scale * error)
        test.assertLessEqual(abs(one.std() - other.std()).item(), 12 * scale * error)
        low, high = min(one.min(), other.min()), max(one.max(), other.max())
        # The points are chosen so that outputs are unlikely to be equal to them. If an output were
        # equal to a point, rounding errors would decide whether searchsorted counts the output.
        points = low + (high - low) * (torch.arange(400, dtype=torch.float64) + 0.618) / 400
        shares = [torch.searchsorted(part.sort().values, points) / part.numel()
                  for part in (one, other)]
        test.assertLessEqual((shares[0] - shares[1]).abs().max().item(), 3 * error)


def assert_tied(test, case, parameters):
    """Checks that parameters share storage in Python if and only if they are tied in C++."""
    addresses = {}
    for name in case.parameters:
        addresses.setdefault(parameters[name].untyped_storage().data_ptr(), []).append(name)
    found = sorted(sorted(names) for names in addresses.values() if len(names) > 1)
    test.assertEqual(found, sorted(sorted(names) for names in case.tied))


def assert_small(test, case, format, nodes):
    """Checks that the file is not much larger than its tensors."""
    per_file, per_node = OVERHEAD[format]
    test.assertLess(case.path(format).stat().st_size, case.bytes + per_file + per_node * nodes)
