#pragma once

#include "attend/ops/attention.h"

#include <array>

namespace attend {

/// The members of `AttentionArgs` that are tensors.
inline constexpr std::array kArgsTensors{&AttentionArgs::mask,      &AttentionArgs::key_mask,
                                         &AttentionArgs::segments,  &AttentionArgs::key_segments,
                                         &AttentionArgs::positions, &AttentionArgs::key_positions};

}  // namespace attend
