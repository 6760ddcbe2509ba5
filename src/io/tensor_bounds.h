#pragma once

#include "attend/api.h"

#include <cstdint>
#include <vector>

namespace attend {

/// Returns the number of elements of a tensor with the given sizes, strides and storage offset. The
/// storage has `available` elements. Throws InputError if an element of the tensor is outside of
/// the storage, if a size, stride or offset is invalid, or if the number of bytes overflows 64
/// bits. For this check, each element is assumed to have 16 bytes, the largest element size.
ATTEND_API int64_t checked_num_elements(const std::vector<int64_t>& sizes,
                                        const std::vector<int64_t>& strides, int64_t offset,
                                        int64_t available);

}  // namespace attend
