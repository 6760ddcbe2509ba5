#pragma once

#include "attend/ops/attention.h"

#include <array>

namespace attend {

/// The tensors of `AttentionArgs`.
inline constexpr std::array kArgsTensors{&AttentionArgs::mask,      &AttentionArgs::key_mask,
                                         &AttentionArgs::segments,  &AttentionArgs::key_segments,
                                         &AttentionArgs::positions, &AttentionArgs::key_positions};

}  // namespace attend
