// TransformerDecoder and EncoderDecoder.
#include "attend/nn/transformer_decoder.h"

#include "attend/nn/encoder_decoder.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

EncoderDecoderOptions both(int64_t encoder_layers, int64_t num_decoder_layers) {
  return {TransformerEncoderOptions(TransformerBlockOptions(8, 2), encoder_layers),
          TransformerDecoderOptions(DecoderBlockOptions(8, 2), num_decoder_layers)};
}

struct DecoderStack : FixedSeed, testing::Test {
  TransformerDecoder decoder{TransformerDecoderOptions(DecoderBlockOptions(8, 2), 2)};
  EncoderDecoder transformer{both(1, 2)};
  torch::Tensor x = torch::randn({2, 3, 8});
  torch::Tensor memory = torch::randn({2, 5, 8});
};

TEST_F(DecoderStack, EqualsItsBlocksInSequenceThenTheNorm) {
  auto h = x;
  for (const auto& child : *decoder->blocks) {
    h = child->as<DecoderBlock>()->forward(h, memory, {.causal = true});
  }
  EXPECT_TRUE(
      close(decoder->forward(x, memory, {.causal = true}), torch::layer_norm(h, {8}), 1e-6));
}

TEST_F(DecoderStack, MakesACacheForItsLayers) {
  const torch::NoGradGuard no_grad;
  auto cache = decoder->make_cache(2, 3);
  std::vector<torch::Tensor> parts;
  for (const auto& part : x.split({2, 1}, 1)) {
    cache.extend(part.size(1));
    parts.push_back(decoder->forward(part, memory, {.causal = true}, {}, {.cache = &cache}));
  }
  EXPECT_TRUE(close(torch::cat(parts, 1), decoder->forward(x, memory, {.causal = true}), 1e-5));
}

TEST_F(DecoderStack, LaterTokensDoNotChangeEarlierOutputs) {
  auto other = x.clone();
  other.select(1, 2).normal_();
  const auto y = decoder->forward(x, memory, {.causal = true});
  EXPECT_TRUE(close(decoder->forward(other, memory, {.causal = true}).slice(1, 0, 2),
                    y.slice(1, 0, 2), 1e-6));
}

TEST_F(DecoderStack, UnbatchedEqualsBatched) {
  EXPECT_TRUE(close(decoder->forward(x[1], memory[1]), decoder->forward(x, memory)[1], 1e-6));
}

TEST_F(DecoderStack, SupportsEmptyBatchTargetAndMemory) {
  EXPECT_EQ(decoder->forward(x.narrow(0, 0, 0), memory.narrow(0, 0, 0)).size(0), 0);
  EXPECT_EQ(decoder->forward(x.narrow(1, 0, 0), memory).size(1), 0);
  const auto y = decoder->forward(x, memory.narrow(1, 0, 0));
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
}

TEST_F(DecoderStack, GradientCheckpointingGivesTheSameGradients) {
  TransformerDecoder recomputing(
      std::dynamic_pointer_cast<TransformerDecoderImpl>(decoder->clone()));
  recomputing->options.gradient_checkpointing(true);
  const auto gradients = [&](TransformerDecoder& module) {
    const auto input = x.clone().requires_grad_();
    const auto remembered = memory.clone().requires_grad_();
    module->forward(input, remembered).square().sum().backward();
    Tensors all{input.grad(), remembered.grad()};
    for (const auto& parameter : module->parameters()) all.push_back(parameter.grad());
    return all;
  };
  const auto expected = gradients(decoder);
  const auto found = gradients(recomputing);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(found[i], expected[i], 1e-6)) << i;
  }
}

TEST_F(DecoderStack, SourcePaddingHasNoEffect) {
  const auto padded = torch::cat({memory, torch::randn({2, 4, 8})}, 1);
  auto valid = torch::ones({2, 9}, torch::kBool);
  valid.slice(1, 5).fill_(false);
  EXPECT_TRUE(close(transformer->forward(padded, x, {.key_mask = valid}),
                    transformer->forward(memory, x), 1e-5));
}

TEST_F(DecoderStack, PackedDocumentsDoNotAttendToEachOther) {
  const auto of_source = torch::tensor({{0, 0, 0, 1, 1}});
  const auto of_target = torch::tensor({{0, 1, 1}});
  const auto run = [&](const torch::Tensor& source, const torch::Tensor& target) {
    return transformer->forward(source.narrow(0, 0, 1), target.narrow(0, 0, 1),
                                {.segments = of_source}, {.segments = of_target, .causal = true});
  };
  const auto y = run(memory, x);
  auto other_source = memory.clone();
  other_source.slice(1, 3).normal_();
  EXPECT_TRUE(close(run(other_source, x).slice(1, 0, 1), y.slice(1, 0, 1), 0.0));
  EXPECT_FALSE(torch::allclose(run(other_source, x).slice(1, 1), y.slice(1, 1)));
}

TEST_F(DecoderStack, EncoderAndDecoderGradientsEqualFiniteDifferences) {
  auto small = EncoderDecoder(both(1, 1));
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  leaves.push_back(torch::randn({1, 3, 8}, torch::kDouble).requires_grad_());
  leaves.push_back(torch::randn({1, 2, 8}, torch::kDouble).requires_grad_());
  const auto last = leaves.size() - 1;
  EXPECT_TRUE(gradients_match(
      [&] { return small->forward(leaves[last - 1], leaves[last], {}, {.causal = true}); },
      leaves));
}

TEST_F(DecoderStack, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(
      decoder, TransformerDecoder(decoder->options),
      [&](TransformerDecoder module) { return module->forward(x, memory); });
  expect_clone_and_save_load_work(
      transformer, EncoderDecoder(transformer->options),
      [&](EncoderDecoder module) { return module->forward(memory, x); });
}

TEST_F(DecoderStack, TraceGeneralizesToOtherSizes) {
  freeze(*transformer);
  const auto run = [&](const Tensors& in) {
    return transformer->forward(in[0], in[1], {.key_mask = in[2]}, {.causal = true});
  };
  const auto inputs = [](int64_t b, int64_t s, int64_t t) -> Tensors {
    return {torch::randn({b, s, 8}), torch::randn({b, t, 8}), torch::rand({b, s}) > 0.3};
  };
  const auto traced = trace(run, inputs(2, 3, 4));
  for (const auto& other : {inputs(1, 6, 2), inputs(3, 1, 5), inputs(2, 4, 1)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-5)) << other[0].sizes();
  }
}

TEST_F(DecoderStack, PrettyPrintShowsSubmodules) {
  const auto text = printed(*transformer);
  EXPECT_THAT(text, testing::StartsWith("attend::EncoderDecoder"));
  EXPECT_THAT(text, testing::HasSubstr("(encoder): attend::TransformerEncoder(num_layers=1"));
  EXPECT_THAT(text, testing::HasSubstr("(decoder): attend::TransformerDecoder(num_layers=2"));
}

TEST_F(DecoderStack, ErrorMessagesNameTheValues) {
  EXPECT_THAT(
      [&] {
        decoder->forward(torch::zeros({2, 5, 9}), memory);
      },
      throws<c10::ValueError>("expects (B, T, E) or (T, E) with E = 8, found [2, 5, 9]"));
  EXPECT_THAT(
      [&] {
        decoder->forward(x, torch::zeros({2, 5, 9}));
      },
      throws<c10::ValueError>("found [2, 5, 9]"));
}

}  // namespace
}  // namespace attend
