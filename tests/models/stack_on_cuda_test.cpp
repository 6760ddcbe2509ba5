// Tests every option of a stack on a GPU; skipped without a CUDA device.
#include "attend/models/stack_config.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/trace.h"

#include <gmock/gmock.h>
#include <torch/cuda.h>

namespace attend {
namespace {

struct EachStackOnCuda : FixedSeed, testing::TestWithParam<NamedStack> {
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

INSTANTIATE_TEST_SUITE_P(, EachStackOnCuda, testing::ValuesIn(each_stack()), NameOfStack());

TEST_P(EachStackOnCuda, ResultsAndGradientsMatchTheCpu) {
  TransformerEncoder on_cpu(encoder_options(GetParam().config, true));
  TransformerEncoder on_cuda(std::dynamic_pointer_cast<TransformerEncoderImpl>(
      on_cpu->clone(torch::Device(torch::kCUDA))));
  const auto run = [](TransformerEncoder& encoder, torch::Tensor x) {
    x = x.detach().requires_grad_();
    const auto y = encoder->forward(x, {.causal = true});
    y.square().sum().backward();
    Tensors results{y.cpu(), x.grad().cpu()};
    for (const auto& parameter : encoder->parameters()) {
      if (parameter.grad().defined()) results.push_back(parameter.grad().cpu());
    }
    return results;
  };
  const auto x = torch::randn({2, 7, 16});
  const auto expected = run(on_cpu, x);
  const auto found = run(on_cuda, x.cuda());
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(found[i], expected[i], 1e-3)) << i;
  }
}

TEST_P(EachStackOnCuda, SupportsHalfAndBFloat16) {
  TransformerEncoder encoder(encoder_options(GetParam().config, true));
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    encoder->to(torch::Device(torch::kCUDA), dtype);
    const auto x = torch::randn({2, 7, 16}, torch::TensorOptions(torch::kCUDA).dtype(dtype));
    const auto y = encoder->forward(x, {.causal = true});
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  }
}

}  // namespace
}  // namespace attend
