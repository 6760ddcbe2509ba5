#pragma once

#include "attend/nn/alibi.h"
#include "attend/nn/relative_bias.h"
#include "attend/nn/rotary.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attend {

/// A position scheme. The reference in plain loops uses its options `rotary` or `relative`.
struct PositionCase {
  std::string name;
  AttentionHookFactory part;
  RotaryOptions rotary = {};
  RelativeBiasOptions relative = {};
};

inline std::vector<PositionCase> position_cases() {
  const RotaryOptions pairs{.theta = 100.0, .rotary_dim = 4, .interleaved = true};
  const RelativeBiasOptions causal{.num_buckets = 6, .max_distance = 9, .bidirectional = false};
  return {{"rotary", rotary()},
          {"partial_interleaved_rotary", rotary(pairs), pairs},
          {"alibi", alibi()},
          {"relative_bias", relative_bias()},
          {"causal_relative_bias", relative_bias(causal), {}, causal}};
}

/// Fixture of tests that all position schemes must pass.
struct PositionHook : testing::TestWithParam<PositionCase> {};

inline std::string name_of_case(const testing::TestParamInfo<PositionCase>& info) {
  return info.param.name;
}

}  // namespace attend
