// Double backward of all options of a stack.
#include "attend/models/stack_config.h"
#include "attend/nn/transformer_encoder.h"
#include "support/gradient.h"
#include "support/seed.h"
#include "support/stack_configs.h"
#include "support/throws.h"

#include <torch/csrc/autograd/autograd.h>

namespace attend {
namespace {

struct DoubleBackward : FixedSeed, testing::TestWithParam<NamedStack> {
  StackConfig config = GetParam().config;

  /// Sums the squared outputs of the encoder. Returns the gradient of this sum with respect to `x`.
  /// The gradient has an autograd graph.
  static torch::Tensor gradient(TransformerEncoder& encoder, const torch::Tensor& x) {
    const torch::AutoGradMode with_gradients(true);  // gradients_match disables gradients
    const auto y = encoder->forward(x, {.causal = true});
    return torch::autograd::grad({y.pow(2).sum()}, {x}, {}, {}, /*create_graph=*/true)[0];
  }
};

INSTANTIATE_TEST_SUITE_P(, DoubleBackward, testing::ValuesIn(each_stack()), NameOfStack());

TEST_P(DoubleBackward, EqualsFiniteDifferences) {
  config.embed_dim = 8;
  config.dim_feedforward = 3;
  config.num_layers = std::min<int64_t>(config.num_layers, 1);
  config.gradient_checkpointing = false;
  if (std::get<Activation>(config.activation) == Activation::relu2)
    GTEST_SKIP() << "has no second derivative at 0";
  TransformerEncoder encoder(encoder_options(config, true));
  encoder->to(torch::kDouble);
  const auto x = torch::randn({1, 3, 8}, torch::kDouble).requires_grad_();
  EXPECT_TRUE(gradients_match([&] { return gradient(encoder, x); }, {x}));
}

TEST_P(DoubleBackward, ThrowsWithGradientCheckpointing) {
  if (config.num_layers == 0) GTEST_SKIP() << "has no layers";
  config.gradient_checkpointing = true;
  TransformerEncoder encoder(encoder_options(config, true));
  const auto x = torch::randn({2, 3, 16}).requires_grad_();
  EXPECT_THAT([&] { gradient(encoder, x); },
              throws<c10::NotImplementedError>("turn off gradient_checkpointing"));
}

}  // namespace
}  // namespace attend
