#pragma once

#include <cstdint>

namespace attend {

/// A bfloat16 in memory. LibTorch's type must not be compiled for several instruction sets.
enum class BFloat16Bits : uint16_t {};

}  // namespace attend
