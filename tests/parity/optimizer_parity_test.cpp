// This library's optimizers against PyTorch's in Python: the same 50 gradients at the same learning
// rates. Goldens cover what runs without Python; parity_test.py makes fresh cases for each run.
#include "attend/train/optimizer.h"
#include "parity/case.h"
#include "support/close.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>

namespace attend::parity {
namespace {

/// Close, by 1e-6 of the greatest element in float32 and by 1e-12 of it in float64.
testing::AssertionResult agrees(const torch::Tensor& found, const torch::Tensor& expected) {
  const double tolerance = expected.scalar_type() == torch::kDouble ? 1e-12 : 1e-6;
  return close(found, expected, tolerance * expected.abs().max().item<double>());
}

/// On the way from `begin` to `expected`, no further than 2 % of it from its end.
testing::AssertionResult arrives_near(const torch::Tensor& found, const torch::Tensor& expected,
                                      const torch::Tensor& begin) {
  const double way = (expected - begin).norm().item<double>();
  const double missed = (found - expected).norm().item<double>();
  if (missed <= 0.02 * way) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "misses by " << missed << " of " << way;
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

void step_as_in(const Case& a_case, torch::nn::Module& module, train::Optimizer& optimizer) {
  const auto rates = a_case.input("lr");
  for (int64_t step = 0; step < rates.numel(); ++step) {
    optimizer.zero_grad();
    for (auto& item : module.named_parameters()) {
      if (!a_case.tensors.at("has_gradient." + item.key())[step].item<bool>()) continue;
      const auto gradient = a_case.tensors.at("gradient." + item.key())[step];
      item.value().mutable_grad() = gradient.to(a_case.dtype());
    }
    optimizer.step(rates[step].item<double>());
  }
}

/// `same_library`: whether PyTorch computed the case with the LibTorch that runs here. If so, the
/// products in bfloat16 inside Muon are the same to the last bit; on another CPU they may be summed
/// in another order or precision, and a rounding of 1/256 is then all that can be asked of each
/// step.
void expect_parity(const Case& a_case, bool same_library) {
  SCOPED_TRACE("case " + a_case.name + ": " + a_case.options.dump());
  const auto begin = a_case.with_prefix("begin.");
  torch::nn::Module module;
  for (const auto& [name, tensor] : begin) module.register_parameter(name, tensor.clone());
  const auto optimizer = train::make_optimizer(module, config_of(a_case));
  step_as_in(a_case, module, *optimizer);

  const auto state = optimizer->state();
  for (const auto& [name, expected] : a_case.with_prefix("end.")) {
    const auto found = module.named_parameters()[name].detach();
    const bool is_muons = state.contains(name + "/momentum_buffer");
    EXPECT_TRUE(is_muons && !same_library ? arrives_near(found, expected, begin.at(name))
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
      << "an optimizer without cases in " << path;
  // What parity_test.py looks for, so that no case is lost on the way.
  std::cout << "parity: compared " << cases.size() << " cases" << std::endl;
}

// By PyTorch 2.13.0: python tests/parity/make_optimizer_cases.py --cases 4 --seed 39 --out FILE
TEST(OptimizerParity, GoldensHold) {
  expect_parity_in(std::filesystem::path(__FILE__).parent_path() / "optimizer_goldens.safetensors",
                   /*same_library=*/false);
}

TEST(OptimizerParity, FreshCasesHold) {
  const char* path = std::getenv("ATTEND_PARITY_CASES");
  if (path == nullptr) {
    GTEST_SKIP() << "ATTEND_PARITY_CASES names no file by make_optimizer_cases.py; parity_test.py "
                    "sets it";
  }
  expect_parity_in(path, /*same_library=*/true);
}

}  // namespace
}  // namespace attend::parity
