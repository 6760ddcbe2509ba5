// Compares 50 steps of each optimizer with the results of PyTorch in Python, for the same gradients
// and learning rates. The test MatchesGoldens reads stored results and needs no Python.
// parity_test.py creates new cases and runs the test MatchesNewCases.
#include "attend/train/optimizer.h"
#include "parity/case.h"
#include "support/close.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>

namespace attend::parity {
namespace {

/// Succeeds if all elements differ by at most 1e-6 (float32) or 1e-12 (float64) times the largest
/// magnitude in `expected`.
testing::AssertionResult agrees(const torch::Tensor& found, const torch::Tensor& expected) {
  const double tolerance = expected.scalar_type() == torch::kDouble ? 1e-12 : 1e-6;
  return close(found, expected, tolerance * expected.abs().max().item<double>());
}

/// Succeeds if the distance from `found` to `expected` is at most 2 % of the distance from `begin`
/// to `expected`.
testing::AssertionResult ends_near(const torch::Tensor& found, const torch::Tensor& expected,
                                   const torch::Tensor& begin) {
  const double distance = (expected - begin).norm().item<double>();
  const double error = (found - expected).norm().item<double>();
  if (error <= 0.02 * distance) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "found distance " << error << ", expected at most 2 % of " << distance;
}

train::TrainingConfig config_of(const Case& a_case) {
  train::TrainingConfig config;
  config.optimizer = from_string<train::OptimizerKind>(a_case.get<std::string>("kind")).value();
  config.weight_decay = a_case.get<double>("weight_decay");
  config.beta1 = a_case.get<double>("beta1");
  config.beta2 = a_case.get<double>("beta2");
  config.momentum = a_case.get<double>("momentum");
  return config;
}

void apply_steps(const Case& a_case, torch::nn::Module& module, train::Optimizer& optimizer) {
  const auto rates = a_case.input("lr");
  for (int64_t step = 0; step < rates.numel(); ++step) {
    optimizer.zero_grad();
    for (auto& item : module.named_parameters()) {
      if (!a_case.tensors.at("has_gradient." + item.key())[step].item<bool>()) continue;
      const auto gradient = a_case.tensors.at("gradient." + item.key())[step];
      item.value().mutable_grad() = gradient.to(a_case.dtype()).clone();
    }
    set_lr(optimizer, rates[step].item<double>());
    optimizer.step();
  }
}

/// `same_library`: true if the expected results were computed with this LibTorch on this CPU.
/// Muon's bfloat16 matrix products are then bit-identical. Otherwise, they may be summed in another
/// order or precision, so the parameters that Muon updates must only pass `ends_near`.
void expect_parity(const Case& a_case, bool same_library) {
  SCOPED_TRACE("case " + a_case.name + ": " + a_case.options.dump());
  const auto begin = a_case.with_prefix("begin.");
  torch::nn::Module module;
  for (const auto& [name, tensor] : begin) module.register_parameter(name, tensor.clone());
  const auto optimizer = train::make_optimizer(module, config_of(a_case));
  apply_steps(a_case, module, *optimizer);

  const auto state = optimizer->named_state();
  for (const auto& [name, expected] : a_case.with_prefix("end.")) {
    const auto found = module.named_parameters()[name].detach();
    const bool is_muons = state.contains(name + "/momentum_buffer");
    EXPECT_TRUE(is_muons && !same_library ? ends_near(found, expected, begin.at(name))
                                          : agrees(found, expected))
        << name;
  }
  const auto expected_state = a_case.with_prefix("state.");
  EXPECT_EQ(state.size(), expected_state.size());
  for (const auto& [name, expected] : expected_state) {
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_TRUE(agrees(state.at(name), expected)) << name;
  }
}

void expect_parity_in(const std::filesystem::path& path, bool same_library) {
  const auto cases = load_cases(path);
  std::set<std::string> kinds;
  for (const auto& a_case : cases) {
    kinds.insert(a_case.get<std::string>("kind"));
    expect_parity(a_case, same_library);
  }
  EXPECT_EQ(kinds.size(), EnumNames<train::OptimizerKind>::names.size())
      << "an optimizer has no cases in " << path;
  // parity_test.py checks this number, so that no case is silently skipped.
  std::cout << "parity: compared " << cases.size() << " cases" << std::endl;
}

// Created with PyTorch 2.13.0: python tests/parity/make_optimizer_cases.py --cases 4 --seed 39
// --out FILE
TEST(OptimizerParity, MatchesGoldens) {
  expect_parity_in(std::filesystem::path(__FILE__).parent_path() / "optimizer_goldens.safetensors",
                   /*same_library=*/false);
}

TEST(OptimizerParity, MatchesNewCases) {
  const char* path = std::getenv("ATTEND_PARITY_CASES");
  if (path == nullptr) {
    GTEST_SKIP() << "ATTEND_PARITY_CASES is not set; run parity_test.py, which "
                    "creates the cases";
  }
  expect_parity_in(path, /*same_library=*/true);
}

}  // namespace
}  // namespace attend::parity
