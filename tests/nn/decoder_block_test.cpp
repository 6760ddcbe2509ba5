#include "attend/nn/decoder_block.h"

#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

// Values and gradients are compared with PyTorch's layer in parity/parity_test.cpp.
namespace attend {
namespace {

struct DecoderBlockTest : FixedSeed, testing::TestWithParam<NormOrder> {
  static DecoderBlockOptions options() {
    auto options = DecoderBlockOptions(8, 2);
    options.residual().norm_order(GetParam());
    options.cross_attention().kdim(6).vdim(6);
    return options;
  }

  DecoderBlock block{options()};
  torch::Tensor x = torch::randn({2, 5, 8});
  torch::Tensor memory = torch::randn({2, 7, 6});
};

INSTANTIATE_TEST_SUITE_P(, DecoderBlockTest,
                         testing::Values(NormOrder::pre, NormOrder::post, NormOrder::sandwich,
                                         NormOrder::parallel, NormOrder::parallel_separate_norms),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(DecoderBlockTest, EqualsItsBranches) {
  const torch::NoGradGuard no_grad;
  for (auto& item : block->named_parameters()) {
    if (item.key().starts_with("norm"))
      item.value().uniform_(0.5, 1.5);  // distinct weights per norm
  }
  const auto norm = [&](const std::string& name, const torch::Tensor& h) {
    return block->named_children()[name]->as<LayerNorm>()->forward(h);
  };
  const auto branch = [&](const std::string& name, const torch::Tensor& h, const auto& function) {
    if (GetParam() == NormOrder::pre) return h + function(norm(name, h));
    if (GetParam() == NormOrder::post) return norm(name, h + function(h));
    return h + norm(name + "_out", function(norm(name, h)));
  };
  const auto attend = [&](const torch::Tensor& h) {
    return block->attention->forward(h, {.causal = true}).output;
  };
  const auto attend_memory = [&](const torch::Tensor& h) {
    return block->cross_attention->cross(h, memory, memory, {.sliding_window = 3}).output;
  };
  const auto feed = [&](const torch::Tensor& h) { return block->feed_forward.forward(h); };
  torch::Tensor expected;
  const bool one = GetParam() == NormOrder::parallel;
  if (one || GetParam() == NormOrder::parallel_separate_norms) {
    expected = x + attend(norm("norm1", x)) + attend_memory(norm(one ? "norm1" : "norm_cross", x)) +
               feed(norm(one ? "norm1" : "norm2", x));
  } else {
    expected = branch("norm1", x, attend);
    expected = branch("norm_cross", expected, attend_memory);
    expected = branch("norm2", expected, feed);
  }
  EXPECT_TRUE(
      close(block->forward(x, memory, {.causal = true}, {.sliding_window = 3}), expected, 1e-6));
}

TEST_P(DecoderBlockTest, MasksApplyToTheirOwnAttention) {
  const AttentionArgs self_args{.mask = torch::rand({5, 5}) > 0.5, .causal = true};
  const AttentionArgs memory_args{.mask = torch::rand({5, 7}) > 0.3,
                                  .key_mask = torch::rand({2, 7}) > 0.3};
  AttentionRecorder recorder;
  block->forward(x, memory, self_args, memory_args);
  const auto of_self = self_args.mask.logical_and(torch::ones({5, 5}, torch::kBool).tril());
  const auto of_memory = memory_args.mask.logical_and(memory_args.key_mask.view({2, 1, 1, 7}));
  ASSERT_EQ(recorder.weights().size(), 2U);
  EXPECT_TRUE(torch::equal(recorder.weights()[0] > 0, of_self.expand({2, 2, 5, 5})));
  EXPECT_TRUE(torch::equal(recorder.weights()[1] > 0, of_memory.expand({2, 2, 5, 7})));
}

TEST_P(DecoderBlockTest, IsUnmaskedByDefault) {
  AttentionRecorder recorder;
  torch::nn::AnyModule(block).forward(x, memory);
  ASSERT_EQ(recorder.weights().size(), 2U);
  EXPECT_TRUE((recorder.weights()[0] > 0).all().item<bool>());
  EXPECT_TRUE((recorder.weights()[1] > 0).all().item<bool>());
}

TEST_P(DecoderBlockTest, UnbatchedEqualsBatched) {
  const AttentionArgs causal{.causal = true};
  EXPECT_TRUE(
      close(block->forward(x[1], memory[1], causal), block->forward(x, memory, causal)[1], 1e-6));
}

TEST_P(DecoderBlockTest, SupportsEmptyInputsAndEmptyMemory) {
  const auto runs = [&](const torch::Tensor& in, const torch::Tensor& from) {
    const auto y = block->forward(in, from, {.causal = true});
    EXPECT_EQ(y.sizes(), in.sizes());
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  };
  runs(x.narrow(0, 0, 0), memory.narrow(0, 0, 0));
  runs(x.narrow(1, 0, 0), memory);
  runs(x.narrow(1, 0, 1), memory);
  runs(x, memory.narrow(1, 0, 0));
}

TEST_P(DecoderBlockTest, SupportsStridedAndExpandedInputs) {
  const auto strided = [](const torch::Tensor& in) {
    return in.transpose(0, 1).contiguous().transpose(0, 1);
  };
  const auto shared = memory.narrow(0, 0, 1).expand({2, 7, 6});
  EXPECT_TRUE(
      close(block->forward(strided(x), shared), block->forward(x, shared.contiguous()), 1e-6));
}

TEST_P(DecoderBlockTest, FullyMaskedRowsStayFinite) {
  x.requires_grad_();
  const AttentionArgs nothing{.mask = torch::zeros({5, 1}, torch::kBool)};
  const auto y = block->forward(x, memory, nothing, nothing);
  y.square().sum().backward();
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
  for (const auto& item : block->named_parameters()) {
    const auto& gradient = item.value().grad();
    EXPECT_TRUE(!gradient.defined() || torch::isfinite(gradient).all().item<bool>()) << item.key();
  }
}

TEST_P(DecoderBlockTest, GradientsEqualFiniteDifferences) {
  auto small_options = DecoderBlockOptions(4, 2);
  small_options.residual().norm_order(GetParam());
  small_options.feed_forward().dim_feedforward(3);
  DecoderBlock small(small_options);
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  const auto in = torch::randn({2, 3, 4}, torch::kDouble).requires_grad_();
  const auto from = torch::randn({2, 2, 4}, torch::kDouble).requires_grad_();
  leaves.push_back(in);
  leaves.push_back(from);
  EXPECT_TRUE(gradients_match([&] { return small->forward(in, from, {.causal = true}); }, leaves));
}

TEST_P(DecoderBlockTest, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(block, DecoderBlock(options()), [&](DecoderBlock module) {
    return module->forward(x, memory, {.causal = true});
  });
}

TEST_P(DecoderBlockTest, TraceGeneralizesToOtherSizes) {
  freeze(*block);
  const auto run = [&](const Tensors& in) {
    return block->forward(in[0], in[1], {.causal = true}, {.key_mask = in[2]});
  };
  const auto inputs = [](int64_t b, int64_t t, int64_t s) -> Tensors {
    return {torch::randn({b, t, 8}), torch::randn({b, s, 6}), torch::rand({b, s}) > 0.3};
  };
  const auto traced = trace(run, inputs(2, 3, 4));
  for (const auto& other : {inputs(1, 6, 2), inputs(3, 1, 5)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << other[0].sizes();
  }
}

TEST_P(DecoderBlockTest, SupportsAllFloatDtypes) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    block->to(dtype);
    const auto y = block->forward(x.to(dtype), memory.to(dtype), {.causal = true});
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  }
}

}  // namespace
}  // namespace attend
