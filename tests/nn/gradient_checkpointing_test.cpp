// Stacks with gradient_checkpointing(true): lifetimes, changes in place, learned masks and dropout.
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/rotary.h"
#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <optional>

namespace attend {
namespace {

struct GradientCheckpointing : FixedSeed, testing::Test {
  TransformerBlockOptions block{8, 2};
  torch::Tensor x = torch::randn({2, 5, 8}).requires_grad_();

  TransformerEncoder encoder(bool checkpointing) {
    torch::manual_seed(1);
    return TransformerEncoder(
        TransformerEncoderOptions(block, 2).gradient_checkpointing(checkpointing));
  }

  TransformerDecoder decoder(bool checkpointing) {
    torch::manual_seed(1);
    return TransformerDecoder(TransformerDecoderOptions(DecoderBlockOptions(8, 2), 2)
                                  .gradient_checkpointing(checkpointing));
  }
};

TEST_F(GradientCheckpointing, BackwardMayRunAfterTheEncoderIsGone) {
  const auto gradient = [&](bool checkpointing) {
    const auto y = encoder(checkpointing)->forward(x, {.causal = true});  // a temporary
    return torch::autograd::grad({y.pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-6));
}

TEST_F(GradientCheckpointing, BackwardMayRunAfterTheDecoderIsGone) {
  const auto memory = torch::randn({2, 3, 8});
  const auto gradient = [&](bool checkpointing) {
    const auto y = decoder(checkpointing)->forward(x, memory, {.causal = true});
    return torch::autograd::grad({y.pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-6));
}

TEST_F(GradientCheckpointing, ArgumentsChangedInPlaceBeforeBackwardThrow) {
  const auto arguments = [] {
    const auto tokens = torch::arange(5).expand({2, 5});
    return AttentionArgs{.mask = torch::zeros({5, 5}),
                         .key_mask = torch::ones({2, 5}, torch::kBool),
                         .segments = torch::zeros({2, 5}, torch::kLong),
                         .key_segments = torch::zeros({2, 5}, torch::kLong),
                         .positions = tokens.clone(),
                         .key_positions = tokens.clone(),
                         .causal = true};
  };
  block.attention().add(rotary());
  auto model = encoder(true);
  auto untouched = arguments();
  EXPECT_NO_THROW(model->forward(x, untouched).sum().backward());
  for (const auto tensor :
       {&AttentionArgs::mask, &AttentionArgs::key_mask, &AttentionArgs::segments,
        &AttentionArgs::key_segments, &AttentionArgs::positions, &AttentionArgs::key_positions}) {
    auto args = arguments();
    const auto y = model->forward(x, args).sum();
    (args.*tensor).zero_();
    EXPECT_THAT([&] { y.backward(); }, throws<c10::Error>("modified by an inplace operation"));
  }
}

TEST_F(GradientCheckpointing, ArgumentsOfCrossAttentionChangedInPlaceThrow) {
  auto model = decoder(true);
  auto key_mask = torch::ones({2, 3}, torch::kBool);
  const auto y = model->forward(x, torch::randn({2, 3, 8}), {}, {.key_mask = key_mask}).sum();
  key_mask.zero_();
  EXPECT_THAT([&] { y.backward(); }, throws<c10::Error>("modified by an inplace operation"));
}

TEST_F(GradientCheckpointing, LearnedMasksGetTheSameGradient) {
  const auto mask = torch::randn({2, 1, 5, 5}).requires_grad_();
  const auto memory_mask = torch::randn({5, 3}).requires_grad_();
  const auto memory = torch::randn({2, 3, 8}).requires_grad_();
  const auto gradients = [&](bool checkpointing) {
    const auto y = encoder(checkpointing)->forward(x, {.mask = mask, .causal = true});
    const auto z =
        decoder(checkpointing)->forward(y, memory, {.mask = mask}, {.mask = memory_mask});
    return torch::autograd::grad({z.pow(2).sum()}, {x, mask, memory, memory_mask});
  };
  const auto expected = gradients(false);
  const auto found = gradients(true);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(found[i], expected[i], 1e-5)) << "gradient " << i;
  }
}

// Attention has three implementations: attention in blocks, the fused kernel, and the plain path,
// which computes all scores at once. Even with the same seed, they draw different dropout masks.
// The recomputation must therefore use the same implementation as the forward pass.
TEST_F(GradientCheckpointing, RecomputationOfLongSequencesDropsTheSameWeights) {
  block.dropout(0.2);
  const int64_t t = 520;  // computed in blocks
  x = torch::randn({1, t, 8}).requires_grad_();
  const auto learned_mask = torch::randn({t, t}).requires_grad_();
  for (const auto& mask : {torch::Tensor(), learned_mask, learned_mask.detach()}) {
    for (const bool recording : {false, true}) {
      const auto gradient = [&](bool checkpointing) {
        auto model = encoder(checkpointing);
        torch::Tensor y;
        {
          std::optional<AttentionRecorder> recorder;
          if (recording) recorder.emplace();
          y = model->forward(x, {.mask = mask, .causal = true, .sliding_window = 32});
        }
        return torch::autograd::grad({y.pow(2).sum()}, {x})[0];
      };
      EXPECT_TRUE(close(gradient(true), gradient(false), 1e-5))
          << "mask: " << mask.defined() << ", learned: " << (mask.defined() && mask.requires_grad())
          << ", recording: " << recording;
    }
  }
}

/// Sets a mask that requires a gradient.
struct LearnedMask : AttentionHook {
  explicit LearnedMask(int64_t t)
      : scale(torch::ones({}).requires_grad_()), mask(torch::randn({t, t})) {}
  void before_attention(AttentionContext& context) override { context.args.mask = scale * mask; }
  torch::Tensor scale;
  torch::Tensor mask;
};

TEST_F(GradientCheckpointing, RecomputationWithAMaskThatAHookComputesDropsTheSameWeights) {
  block.dropout(0.2);
  x = torch::randn({1, 520, 8}).requires_grad_();
  LearnedMask hook(520);
  const auto gradient = [&](bool checkpointing) {
    auto model = encoder(checkpointing);
    const auto y =
        model->forward(x, {.causal = true, .sliding_window = 32}, {.hook = &hook}).pow(2).sum();
    return torch::autograd::grad({y}, {x})[0];
  };
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-5));
}

/// Doubles the queries. This hook is passed to forward, so the stack does not own it.
struct DoubleQueries : AttentionHook {
  void after_projection(AttentionContext& context) override {
    context.query = context.query * factor;
  }
  double factor = 2.0;
};

TEST_F(GradientCheckpointing, HookOfTheCallNeedNotExistInBackward) {
  const auto gradient = [&](bool checkpointing) {
    auto model = encoder(checkpointing);
    torch::Tensor y;
    {
      DoubleQueries hook;
      y = model->forward(x, {}, {.hook = &hook});
      hook.factor = 0.0;
    }
    return torch::autograd::grad({y.pow(2).sum()}, {x})[0];
  };
  EXPECT_TRUE(close(gradient(true), gradient(false), 1e-6));
}

}  // namespace
}  // namespace attend
