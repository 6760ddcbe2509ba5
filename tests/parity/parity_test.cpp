// Compares outputs and all gradients with the results of PyTorch in Python. The test MatchesGoldens
// reads stored results and needs no Python. parity_test.py creates new cases and runs the test
// MatchesNewCases.
#include "parity/case.h"
#include "support/close.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>
#include <iostream>
#include <set>

namespace attend::parity {
namespace {

const std::map<std::string, Computed (*)(const Case&)> kRunners{
    {"sdpa", run_sdpa},       {"mha", run_mha},           {"encoder", run_encoder},
    {"decoder", run_decoder}, {"rms_norm", run_rms_norm},
};

/// Succeeds if each element of `found` differs from the element e of `expected` by at most
/// max(1, |e|) times 1e-5 (float32) or 1e-10 (float64). If `found` is an undefined gradient, it
/// counts as zero.
testing::AssertionResult agree(const torch::Tensor& found, const torch::Tensor& expected) {
  const double tolerance = expected.scalar_type() == torch::kDouble ? 1e-10 : 1e-5;
  const auto unit = expected.abs().clamp_min(1.0);
  return close((found.defined() ? found : torch::zeros_like(expected)) / unit, expected / unit,
               tolerance);
}

void expect_all_agree(const std::string& what, const TensorsByName& found,
                      const TensorsByName& expected) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << what << " " << name;
    EXPECT_TRUE(agree(found.at(name), tensor)) << what << " " << name;
  }
}

TensorsByName gradients_of(const TensorsByName& leaves) {
  TensorsByName gradients;
  for (const auto& [name, leaf] : leaves) gradients[name] = leaf.grad();
  return gradients;
}

void expect_parity(const Case& a_case) {
  SCOPED_TRACE("case " + a_case.name + ": " + a_case.options.dump());
  const auto input_gradients = a_case.with_prefix("grad.input.");
  TensorsByName leaves;
  for (const auto& item : input_gradients) {
    leaves[item.first] = a_case.input(item.first).requires_grad_();
  }
  const auto computed = kRunners.at(a_case.get<std::string>("kind"))(a_case);
  expect_all_agree("output", computed.outputs, a_case.with_prefix("output."));

  const auto upstream = a_case.with_prefix("upstream.");
  torch::autograd::variable_list outputs;
  torch::autograd::variable_list output_gradients;
  for (const auto& [name, output] : computed.outputs) {
    outputs.push_back(output);
    output_gradients.push_back(upstream.at(name));
  }
  torch::autograd::backward(outputs, output_gradients);
  expect_all_agree("gradient of input", gradients_of(leaves), input_gradients);
  TensorsByName parameters;
  if (computed.module) {
    for (const auto& item : computed.module->named_parameters()) {
      parameters[item.key()] = item.value();
    }
  }
  expect_all_agree("gradient of", gradients_of(parameters),
                   renamed(a_case, a_case.with_prefix("grad.param.")));
}

void expect_parity_in(const std::filesystem::path& path) {
  const auto cases = load_cases(path);
  std::set<std::string> kinds;
  for (const auto& a_case : cases) {
    kinds.insert(a_case.get<std::string>("kind"));
    expect_parity(a_case);
  }
  EXPECT_EQ(kinds.size(), kRunners.size()) << "a kind has no cases in " << path;
  // parity_test.py checks this number, so that no case is silently skipped.
  std::cout << "parity: compared " << cases.size() << " cases" << std::endl;
}

// Created with PyTorch 2.13.0: python tests/parity/make_cases.py --cases 40 --seed 121 --out FILE
TEST(Parity, MatchesGoldens) {
  expect_parity_in(std::filesystem::path(__FILE__).parent_path() / "goldens.safetensors");
}

TEST(Parity, MatchesNewCases) {
  const char* path = std::getenv("ATTEND_PARITY_CASES");
  if (path == nullptr) {
    GTEST_SKIP() << "ATTEND_PARITY_CASES is not set; run parity_test.py, which creates the cases";
  }
  expect_parity_in(path);
}

}  // namespace
}  // namespace attend::parity
