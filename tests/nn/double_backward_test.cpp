// Double backward works if all operators support it. Otherwise it throws, and the message
// says what to do.
#include "attend/models/stack_config.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/attention_recorder.h"
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

TEST_P(DoubleBackward, EqualsFiniteDifferencesWithARecorder) {
  config.embed_dim = 8;
  config.dim_feedforward = 3;
  config.num_layers = std::min<int64_t>(config.num_layers, 1);
  config.gradient_checkpointing = false;
  if (std::get<Activation>(config.activation) == Activation::relu2)
    GTEST_SKIP() << "has no second derivative at 0";
  TransformerEncoder encoder(encoder_options(config, true));
  encoder->to(torch::kDouble);
  const auto x = torch::randn({1, 3, 8}, torch::kDouble).requires_grad_();
  const AttentionRecorder recorder;
  EXPECT_TRUE(gradients_match([&] { return gradient(encoder, x); }, {x}));
}

TEST_P(DoubleBackward, WithoutARecorderWorksOrThrows) {
  TransformerEncoder encoder(encoder_options(config, true));
  const auto x = torch::randn({2, 3, 16}).requires_grad_();
  const auto second = [&] { return torch::autograd::grad({gradient(encoder, x).sum()}, {x})[0]; };
  if (config.gradient_checkpointing) {
    EXPECT_THAT(second, throws<c10::NotImplementedError>("turn off gradient_checkpointing"));
  } else if (config.num_layers == 0 || config.soft_cap > 0 || config.attention_sinks ||
             config.positions == PositionScheme::relative) {  // not computed by a fused kernel
    EXPECT_NO_THROW(second());
  } else {
    EXPECT_THAT(second, throws<c10::NotImplementedError>(
                            "LibTorch's fused attention kernels do not support double backward: "
                            "run the forward pass with an AttentionRecorder"));
  }
}

TEST(FusedAttention, CreateGraphWithoutDoubleBackwardWorks) {
  const FixedSeed seed;
  const auto x = torch::randn({1, 2, 3, 4}).requires_grad_();
  const auto y = dot_product_attention(x, x, x).output.sum();
  const auto expected = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true)[0];
  const auto found = torch::autograd::grad({y}, {x}, {}, {}, /*create_graph=*/true)[0];
  EXPECT_TRUE(torch::equal(found, expected));
}

}  // namespace
}  // namespace attend
