#include "support/attention_cases.h"

#include "support/seed.h"

#include <limits>

namespace attend {
namespace {

torch::Tensor draw_bools(at::IntArrayRef sizes) {
  return torch::rand(sizes) > 0.3;
}

/// Draws segment ids 0 and 1, so that queries and keys often share a segment.
torch::Tensor draw_segments(int64_t batch, int64_t tokens) {
  return torch::randint(0, 2, {batch, tokens}, torch::kInt);
}

void draw_mask(AttentionCall& call, const AttentionSizes& sizes) {
  auto& mask = call.args.mask;
  mask = draw_bools({sizes.batch, draw(0, 1) == 1 ? sizes.heads : 1, sizes.queries, sizes.keys});
  if (draw(0, 1) == 1) {
    const auto added = torch::randn(mask.sizes(), torch::kDouble);
    mask = torch::where(mask, added, -std::numeric_limits<double>::infinity());
  }
}

void draw_own_segments(AttentionCall& call, const AttentionSizes& sizes) {
  call.args.segments = draw_segments(sizes.batch, sizes.queries);
  call.args.key_segments = draw_segments(sizes.batch, sizes.keys);
}

void draw_positions(AttentionCall& call, const AttentionSizes& sizes) {
  call.args.positions = torch::randint(0, 9, {sizes.batch, sizes.queries}, torch::kLong);
  call.args.key_positions = torch::randint(0, 9, {sizes.keys}, torch::kInt);
}

}  // namespace

AttentionOutput AttentionCall::run(bool need_weights) const {
  auto with_weights = args;
  with_weights.need_weights = need_weights;
  return attend::dot_product_attention(query, key, value, with_weights, options);
}

const std::vector<AttentionSetting>& attention_settings() {
  using Call = AttentionCall;
  using Sizes = AttentionSizes;
  static const std::vector<AttentionSetting> settings{
      {"Mask", draw_mask},
      {"KeyMask",
       [](Call& call, const Sizes& sizes) {
         call.args.key_mask = draw_bools({sizes.batch, sizes.keys});
       }},
      {"Segments", draw_own_segments},
      {"Positions", draw_positions},
      {"Causal", [](Call& call, const Sizes&) { call.args.causal = true; }},
      {"SlidingWindow", [](Call& call, const Sizes&) { call.args.sliding_window = draw(1, 4); }},
      {"Scale", [](Call& call,
                   const Sizes&) { call.options.scale = 0.5 * static_cast<double>(draw(-3, 3)); }},
      {"SoftCap",
       [](Call& call, const Sizes&) {
         call.options.soft_cap = 0.5 * static_cast<double>(draw(1, 4));
       }},
      {"Sinks",
       [](Call& call, const Sizes& sizes) {
         call.options.sinks = torch::randn({sizes.heads}, torch::kDouble);
       }},
  };
  return settings;
}

AttentionSizes draw_sizes() {
  const auto groups = draw(1, 2);
  return {draw(1, 3), groups * draw(1, 2), groups, draw(1, 6), draw(1, 6), draw(0, 2) == 0 ? 3 : 5};
}

AttentionCall draw_call(const AttentionSizes& sizes) {
  const auto [b, h, g, t, s, width] = sizes;
  return {torch::randn({b, h, t, 5}, torch::kDouble), torch::randn({b, g, s, 5}, torch::kDouble),
          torch::randn({b, g, s, width}, torch::kDouble)};
}

void draw_settings(AttentionCall& call, const AttentionSizes& sizes) {
  for (const auto& setting : attention_settings()) {
    if (draw(0, 1) == 1) setting.draw(call, sizes);
  }
}

}  // namespace attend
