// Tests every option of a stack under bfloat16 autocast, once with the CPU's autocast policy and
// once with CUDA's. With CUDA's policy, norms, softmax and sums return float32.
#include "ops/autocast.h"

#include "attend/models/stack_config.h"
#include "attend/nn/output_gate.h"
#include "attend/nn/qk_norm.h"
#include "attend/nn/rotary.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"
#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/stack_configs.h"

#include <ATen/Operators.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <optional>

namespace attend {
namespace {

/// Until the end of the scope, autocast on the CPU uses float32 for the same operators as autocast
/// on CUDA. Operators that this library does not call are not changed.
class CudaPolicyOnCpu {
 public:
  CudaPolicyOnCpu() {
    KERNEL_CPU(layer_norm, fp32)
    KERNEL_CPU(native_layer_norm, fp32)
    KERNEL_CPU(rms_norm, fp32)
    KERNEL_CPU(exp, fp32)
    KERNEL_CPU(log, fp32)
    KERNEL_CPU(rsqrt, fp32)
    KERNEL_CPU(reciprocal, fp32)
    KERNEL_CPU(pow, Tensor_Scalar, fp32)
    KERNEL_CPU(pow, Tensor_Tensor, fp32)
    KERNEL_CPU(softmax, int, fp32_set_opt_dtype)
    KERNEL_CPU(log_softmax, int, fp32_set_opt_dtype)
    KERNEL_CPU(cumsum, fp32_set_opt_dtype)
    KERNEL_CPU(sum, fp32_set_opt_dtype)
    KERNEL_CPU(sum, dim_IntList, fp32_set_opt_dtype)
  }

 private:
  torch::Library m{torch::Library::IMPL, "aten", c10::DispatchKey::AutocastCPU, __FILE__, __LINE__};
};

using StackAndPolicy = std::tuple<NamedStack, bool>;

struct AutocastPolicy : FixedSeed, testing::TestWithParam<StackAndPolicy> {
  AutocastPolicy() {
    if (std::get<1>(GetParam())) cuda_policy.emplace();
  }

  TransformerEncoder randomized_encoder(StackConfig config) const {
    torch::manual_seed(2);
    TransformerEncoder encoder(encoder_options(config, true));
    initialize(*encoder, config);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : encoder->parameters()) {
      parameter.add_(0.1 * torch::randn_like(parameter));
    }
    return encoder;
  }

  static torch::Tensor run(TransformerEncoder& encoder, const torch::Tensor& x,
                           const ForwardState& state = {}) {
    const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
    return encoder->forward(x, {.causal = true}, state);
  }

  static double difference(const torch::Tensor& found, const torch::Tensor& expected) {
    const auto wide = expected.to(torch::kDouble);
    return ((found.to(torch::kDouble) - wide).norm() / wide.norm()).item<double>();
  }

  StackConfig config = std::get<0>(GetParam()).config;
  torch::Tensor x = torch::randn({2, 6, 16});
  std::optional<CudaPolicyOnCpu> cuda_policy;
};

TEST_P(AutocastPolicy, MatchesFloat32) {
  auto encoder = randomized_encoder(config);
  EXPECT_LT(difference(run(encoder, x), encoder->forward(x, {.causal = true})), 0.05);
}

TEST_P(AutocastPolicy, PaddingAndFloatMasksMatchFloat32) {
  auto encoder = randomized_encoder(config);
  const AttentionArgs args{
      .mask = torch::randn({6, 6}), .key_mask = torch::rand({2, 6}) > 0.3, .causal = true};
  const auto expected = encoder->forward(x, args);
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  EXPECT_LT(difference(encoder->forward(x, args), expected), 0.05);
}

TEST_P(AutocastPolicy, RecordedWeightsMatchFloat32) {
  auto encoder = randomized_encoder(config);
  const auto weights = [&](bool autocast) {
    AttentionRecorder recorder;
    const auto y = autocast ? run(encoder, x) : encoder->forward(x, {.causal = true});
    auto recorded = recorder.weights();
    recorded.push_back(y);
    return recorded;
  };
  const auto expected = weights(false);
  const auto found = weights(true);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), 0.05);
}

TEST_P(AutocastPolicy, GradientsMatchFloat32) {
  auto encoder = randomized_encoder(config);
  const auto inputs = encoder->parameters();
  const auto gradients = [&](const torch::Tensor& y) {
    return torch::autograd::grad({y.to(torch::kFloat).pow(2).sum()}, inputs, {}, {}, false,
                                 /*allow_unused=*/true);
  };
  const auto expected = gradients(encoder->forward(x, {.causal = true}));
  const auto found = gradients(run(encoder, x));
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined());
    if (!found[i].defined()) continue;
    error += (found[i] - expected[i]).pow(2).sum().item<double>();
    norm += expected[i].pow(2).sum().item<double>();
  }
  EXPECT_LT(error, 0.05 * 0.05 * norm + 1e-12);
}

TEST_P(AutocastPolicy, GradientCheckpointingGivesTheSameGradients) {
  const auto gradients = [&](bool checkpointing) {
    config.gradient_checkpointing = checkpointing;
    auto encoder = randomized_encoder(config);
    return torch::autograd::grad({run(encoder, x).to(torch::kFloat).pow(2).sum()},
                                 encoder->parameters(), {}, {}, {}, /*allow_unused=*/true);
  };
  const auto expected = gradients(false);
  const auto found = gradients(true);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined());
    if (!found[i].defined()) continue;
    EXPECT_LT((found[i] - expected[i]).norm().item<double>(),
              0.02 * expected[i].norm().item<double>() + 1e-6);
  }
}

TEST_P(AutocastPolicy, PrefillAndStepsWithABfloat16CacheMatchForward) {
  auto encoder = randomized_encoder(config);
  const torch::NoGradGuard no_grad;
  const auto expected = run(encoder, x);
  KvCache cache(cache_options(config, config.num_layers, 2, 8).dtype(torch::kBFloat16));
  std::vector<torch::Tensor> outputs;
  for (const auto& [begin, tokens] : {std::pair<int64_t, int64_t>{0, 4}, {4, 1}, {5, 1}}) {
    cache.extend(tokens);
    outputs.push_back(run(encoder, x.narrow(1, begin, tokens), {.cache = &cache}));
  }
  EXPECT_LT(difference(torch::cat(outputs, 1), expected), 0.02);
}

INSTANTIATE_TEST_SUITE_P(, AutocastPolicy,
                         testing::Combine(testing::ValuesIn(each_stack()), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "_cuda" : "_cpu");
                         });

TEST(AutocastOfADecoder, MatchesFloat32WithEitherPolicy) {
  const FixedSeed seed;
  DecoderBlockOptions block(16, 4);
  block.attention().num_kv_heads(2).add(qk_norm()).add(rotary());
  block.cross_attention().kdim(12).vdim(12).add(qk_norm(layer_norm())).add(output_gate());
  block.residual().norm(rms_norm());
  TransformerDecoder decoder(TransformerDecoderOptions(block, 2));
  const auto x = torch::randn({2, 5, 16});
  const auto memory = torch::randn({2, 7, 12});
  const auto run = [&] { return decoder->forward(x, memory, {.causal = true}); };
  const auto expected = run();
  for (const bool cuda : {false, true}) {
    std::optional<CudaPolicyOnCpu> cuda_policy;
    if (cuda) cuda_policy.emplace();
    const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
    const auto difference = (run() - expected).norm() / expected.norm();
    EXPECT_LT(difference.item<double>(), 0.05);
  }
}

}  // namespace
}  // namespace attend
